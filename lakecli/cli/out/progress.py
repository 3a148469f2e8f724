"""Progress of long operations without a terminal: plain lines, or nothing.

The bar for terminals is in ``progress_bar``, which imports Rich.
"""

from collections import deque
from collections.abc import Callable
from threading import Lock
from time import monotonic

from lakecli.base.progress import Progress
from lakecli.cli.out.text import human_seconds, human_size

INTERVAL = 5.0
"""Seconds between two lines of progress."""


RATE_STEP = 1.0
"""The minimum number of seconds between two samples from which the rate is computed."""

RATE_MARKS = 15
"""The number of samples that are kept; the rate is computed since the oldest of these samples."""

_SLOW = 10
"""The rate, in objects per second, below which the rate is shown with a fraction."""


class Count:
    """A number of finished objects, bytes or parts, and their total.

    Attributes:
        total: the total number; 0 if no total is known.
    """

    def __init__(self, clock: Callable[[], float], total: int = 0) -> None:
        self.total, self.done = total, 0
        self._clock = clock
        self._marks: deque[tuple[float, int]] = deque([(clock(), 0)], maxlen=RATE_MARKS)

    def add(self, now: float, number: int) -> None:
        """Add to the finished number, and take a sample for the rate.

        Args:
            now: the current time in seconds.
            number: the number that was finished since the last call.
        """
        self.done += number
        if now - self._marks[-1][0] >= RATE_STEP:
            self._marks.append((now, self.done))

    def rate(self) -> float | None:
        """Return the rate per second over the last few seconds; ``None`` after too short a time."""
        start, before = self._marks[0]
        seconds = self._clock() - start
        is_known = seconds >= RATE_STEP and self.done > before
        return (self.done - before) / seconds if is_known else None


class CountingProgress(Progress):
    """Counts the finished work and the total work; safe to use from several threads."""

    def __init__(self, *, items: int | None, clock: Callable[[], float] = monotonic) -> None:
        self._items, self._bytes, self._parts = Count(clock, items or 0), Count(clock), Count(clock)
        self._clock = clock
        self._lock = Lock()

    def advance(self, *, items: int = 0, size: int = 0, parts: int = 0) -> None:
        """Add to the counts of finished work, and show them."""
        with self._lock:
            now = self._clock()
            for count, more in ((self._items, items), (self._bytes, size), (self._parts, parts)):
                count.add(now, more)
            self._show(now)

    def expect(self, *, items: int = 0, size: int = 0, parts: int = 0) -> None:
        """Add to the totals."""
        with self._lock:
            self._items.total += items
            self._bytes.total += size
            self._parts.total += parts

    def _done(self, of: str) -> str:
        """Return a text with the numbers of finished objects and, if their total is known, parts.

        Args:
            of: the separator between the finished number and the total.
        """
        items, parts = self._items, self._parts
        objects = (
            f"{items.done}{of}{items.total} objects" if items.total else f"{items.done} objects"
        )
        if not parts.total:
            return objects
        shown = f"{parts.done}{of}{parts.total} parts"
        return f"{objects}, {shown}" if items.total or items.done else shown

    def _speed(self) -> str:
        """Return a comma and the rate in bytes or, without bytes, in objects; ``""`` if unknown."""
        is_bytes = bool(self._bytes.total or self._bytes.done)
        rate = (self._bytes if is_bytes else self._items).rate()
        if rate is None:
            return ""
        if is_bytes:
            return f", {human_size(int(rate))}/s"
        return f", {rate:.1f} objects/s" if rate < _SLOW else f", {rate:,.0f} objects/s"

    def _measure(self) -> Count:
        """Return the count of bytes, objects or parts: the first with a known total."""
        if self._bytes.total:
            return self._bytes
        return self._items if self._items.total or not self._parts.total else self._parts

    def _left(self) -> str:
        """Return a comma and the remaining time, or ``""`` if the remaining time is unknown."""
        count = self._measure()
        speed, left = count.rate(), count.total - count.done
        return "" if speed is None or left <= 0 else f", {human_seconds(left / speed)} left"

    def _show(self, now: float) -> None:
        """Print the counts; the caller holds the lock.

        Args:
            now: the current time in seconds.
        """
        raise NotImplementedError


class PlainProgress(CountingProgress):
    """Progress as one plain line every few seconds, for logs.

    ``upload: 120 of 400 objects, 1.2 GB of 3.4 GB, 25.0 MB/s, 1m28s left``
    """

    def __init__(
        self,
        verb: str,
        write: Callable[[str], None],
        *,
        items: int | None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        super().__init__(items=items, clock=clock)
        self._verb = verb
        self._write = write
        self._next = clock() + INTERVAL

    def _show(self, now: float) -> None:
        if now >= self._next:
            self._next = now + INTERVAL
            self._write(f"{self._verb}: {self._counts()}")

    def _counts(self) -> str:
        counts, size = self._done(" of "), self._bytes
        if size.total:
            counts += f", {human_size(size.done)} of {human_size(size.total)}"
        elif size.done:
            counts += f", {human_size(size.done)}"
        return counts + self._speed() + self._left()

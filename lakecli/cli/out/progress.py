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

_SLOW = 10
"""The rate, in objects per second, below which the rate is shown with a fraction."""


class Rate:
    """Bytes or objects per second, over the last few seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._marks: deque[tuple[float, int]] = deque([(clock(), 0)], maxlen=RATE_MARKS)

    def note(self, now: float, size: int) -> None:
        """Record the total number at a time, unless the last sample is very recent."""
        if now - self._marks[-1][0] >= RATE_STEP:
            self._marks.append((now, size))

    def of(self, size: int) -> float | None:
        """Return the rate, given the total number so far; ``None`` after too short a time."""
        start, before = self._marks[0]
        seconds = self._clock() - start
        return (size - before) / seconds if seconds >= RATE_STEP and size > before else None


class CountingProgress(Progress):
    """Counts the finished work and the total work; safe to use from several threads."""

    def __init__(self, *, items: int | None, clock: Callable[[], float] = monotonic) -> None:
        self._items, self._size = items, 0
        self._done_items = self._done_size = 0
        self._parts = self._done_parts = 0
        self._clock = clock
        self._lock = Lock()
        self._rate, self._item_rate, self._part_rate = Rate(clock), Rate(clock), Rate(clock)

    def advance(self, *, items: int = 0, size: int = 0, parts: int = 0) -> None:
        """Add to the counts of finished work, and show them."""
        with self._lock:
            self._done_items += items
            self._done_size += size
            self._done_parts += parts
            now = self._clock()
            self._part_rate.note(now, self._done_parts)
            self._rate.note(now, self._done_size)
            self._item_rate.note(now, self._done_items)
            self._show(now)

    def expect(self, *, items: int = 0, size: int = 0, parts: int = 0) -> None:
        """Add to the totals."""
        with self._lock:
            self._parts += parts
            self._items = (self._items or 0) + items
            self._size += size

    def _done(self, of: str) -> str:
        """Return a text with the numbers of finished objects and, if their total is known, parts.

        Args:
            of: the separator between the finished number and the total.
        """
        objects = f"{self._done_items}{of}{self._items}" if self._items else f"{self._done_items}"
        parts = f"{self._done_parts}{of}{self._parts} parts"
        if self._parts and not (self._items or self._done_items):
            return parts
        return f"{objects} objects, {parts}" if self._parts else f"{objects} objects"

    def _speed(self) -> str:
        """Return ``, `` and the rate in bytes or, without bytes, in objects; ``""`` if unknown."""
        if self._size or self._done_size:
            rate = self._rate.of(self._done_size)
            return "" if rate is None else f", {human_size(int(rate))}/s"
        rate = self._item_rate.of(self._done_items)
        if rate is None:
            return ""
        return f", {rate:.1f} objects/s" if rate < _SLOW else f", {rate:,.0f} objects/s"

    def _measure(self) -> tuple[int, int, Rate]:
        """Return the total, the finished number and the rate: of bytes, objects or parts.

        The first unit with a known total is used. A total of 0 means that no total is known.
        """
        if self._size:
            return self._size, self._done_size, self._rate
        if self._items or not self._parts:
            return self._items or 0, self._done_items, self._item_rate
        return self._parts, self._done_parts, self._part_rate

    def _left(self) -> str:
        """Return ``, `` and the remaining time, or ``""`` if the remaining time is unknown."""
        total, done, rate = self._measure()
        speed = rate.of(done)
        if speed is None or total <= done:
            return ""
        return f", {human_seconds((total - done) / speed)} left"

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
        counts = self._done(" of ")
        if self._size:
            counts += f", {human_size(self._done_size)} of {human_size(self._size)}"
        elif self._done_size:
            counts += f", {human_size(self._done_size)}"
        return counts + self._speed() + self._left()

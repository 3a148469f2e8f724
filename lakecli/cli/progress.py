"""Progress of long operations where there is no terminal: plain lines, or nothing.

The bar for terminals is in ``progress_bar``, which imports Rich.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING

from lakecli.cli.text import human_size

if TYPE_CHECKING:
    from collections.abc import Callable

INTERVAL = 5.0
"""Seconds between two plain lines."""


class Progress:
    """How far an operation is; safe to advance from several threads. This one shows nothing."""

    def advance(self, *, items: int = 0, size: int = 0) -> None:
        """Count finished objects and moved bytes."""

    def expect(self, *, items: int = 0, size: int = 0) -> None:
        """Add to what there is to do, for work that is discovered on the way."""


class PlainProgress(Progress):
    """One line every few seconds, for logs: ``upload: 120 of 400 objects, 1.2 GB of 3.4 GB``."""

    def __init__(
        self,
        verb: str,
        write: Callable[[str], None],
        *,
        items: int | None,
        size: int | None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._verb = verb
        self._write = write
        self._items, self._size = items, size
        self._done_items = self._done_size = 0
        self._clock = clock
        self._next = clock() + INTERVAL
        self._lock = threading.Lock()

    def advance(self, *, items: int = 0, size: int = 0) -> None:
        """Count, and write a line when it is time."""
        with self._lock:
            self._done_items += items
            self._done_size += size
            now = self._clock()
            if now < self._next:
                return
            self._next = now + INTERVAL
            self._write(f"{self._verb}: {self._counts()}")

    def expect(self, *, items: int = 0, size: int = 0) -> None:
        """Add to the totals."""
        with self._lock:
            self._items = (self._items or 0) + items
            self._size = (self._size or 0) + size

    def _counts(self) -> str:
        objects = f"{self._done_items} of {self._items}" if self._items else f"{self._done_items}"
        moved = human_size(self._done_size)
        return f"{objects} objects, {moved}" + (
            f" of {human_size(self._size)}" if self._size else ""
        )

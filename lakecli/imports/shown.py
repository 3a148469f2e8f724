"""The progress of an import whose parts tell what they have done before they are finished."""

from __future__ import annotations

from threading import Lock

from lakecli.base.progress import Progress


class ShownProgress:
    """Shows each object once, whether its part tells of it or only its result does.

    Parts in this process tell; those of Spark and of an earlier run do not. Safe to share between
    threads.

    Args:
        progress: what shows it.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = Lock()
        self._items = self._size = self._parts = 0

    def tell(self, items: int, size: int) -> None:
        """Count objects, and the bytes copied of them, of a part that is not finished."""
        with self._lock:
            self._items += items
            self._size += size
        self._progress.advance(items=items, size=size)

    def reach(self, *, items: int, size: int, parts: int) -> None:
        """Show that so many objects, bytes and parts are finished in all, if that is more."""
        with self._lock:
            more, larger = max(items - self._items, 0), max(size - self._size, 0)
            parts, self._parts = parts - self._parts, parts
            self._items += more
            self._size += larger
        self._progress.advance(items=more, size=larger, parts=parts)

    def take_back(self) -> None:
        """Show that all of it has to be done again."""
        with self._lock:
            items, size, parts = self._items, self._size, self._parts
            self._items = self._size = self._parts = 0
        self._progress.advance(items=-items, size=-size, parts=-parts)

"""A `Progress` for tests: adds up what an operation reports."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from lakecli.base.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable


class RecordedProgress(Progress):
    """Totals of expected and finished work.

    Args:
        on_advance: called with the number of objects of each `advance`; may raise, to interrupt.
    """

    def __init__(self, on_advance: Callable[[int], None] = lambda _items: None) -> None:
        self._on_advance = on_advance
        self._lock = Lock()
        self.expected: list[tuple[int, int]] = []
        self.items = 0
        self.size = 0
        self.parts_expected = self.parts = 0

    def expect(self, *, items: int = 0, size: int = 0, parts: int = 0) -> None:
        """Add expected work."""
        self.parts_expected += parts
        if not (items or size):
            return
        self.expected.append((items, size))

    def advance(self, *, items: int = 0, size: int = 0, parts: int = 0) -> None:
        """Add finished work."""
        with self._lock:
            self.items += items
            self.size += size
            self.parts += parts
        self._on_advance(items)


class Interrupting(RecordedProgress):
    """Interrupts when so many parts are finished."""

    def __init__(self, parts: int) -> None:
        super().__init__()
        self._last = parts

    def advance(self, *, items: int = 0, size: int = 0, parts: int = 0) -> None:
        """Add finished work.

        Raises:
            KeyboardInterrupt: it is enough.
        """
        super().advance(items=items, size=size, parts=parts)
        if self.parts >= self._last:
            raise KeyboardInterrupt

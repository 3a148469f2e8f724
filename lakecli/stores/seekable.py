"""A seekable stream of known size: the base of readers of objects and parts."""

from __future__ import annotations

from io import SEEK_CUR, SEEK_END, SEEK_SET, RawIOBase


class Seekable(RawIOBase):
    """Keeps the position; subclasses read from there.

    Args:
        size: in bytes.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        """Return ``True``."""
        return True

    def seekable(self) -> bool:
        """Return ``True``."""
        return True

    def tell(self) -> int:
        """Return the position, from the beginning."""
        return self._position

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        """Move to a position, and return it."""
        base = {SEEK_SET: 0, SEEK_CUR: self._position, SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

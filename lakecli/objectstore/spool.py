"""The temporary file of a large object, written with direct I/O where possible.

The object is synced soon, so a copy in the page cache is wasted: on a busy machine it costs as much
as hashing. Direct I/O needs writes of whole pages and is not supported by every file system; other
writes go through the cache.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from io import RawIOBase

from lakecli.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

DIRECT_SIZE = 4 << 20
"""Bytes in a direct write, at least."""

_PAGE = 4096
_DIRECT: int = getattr(os, "O_DIRECT", 0)


class Spool(RawIOBase):
    """The file of a descriptor, for writing only; `write` writes all of its data.

    Args:
        descriptor: closed with the file.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._is_direct = False
        self._may_be_direct = bool(_DIRECT)

    def writable(self) -> bool:
        """Return ``True``."""
        return True

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def write(self, data: ReadableBuffer, /) -> int:
        """Write all of `data`.

        Raises:
            OSError: the disk is full or broken.
        """
        view = memoryview(data).cast("B")
        size = len(view)
        wants_direct = self._may_be_direct and size >= DIRECT_SIZE and not size % _PAGE
        if wants_direct != self._is_direct:
            self._switch(direct=wants_direct)
        while view:
            view = view[self._write(view) :]
            if self._is_direct and len(view) % _PAGE:
                self._switch(direct=False)
        return size

    def _write(self, view: memoryview) -> int:
        try:
            return os.write(self._descriptor, view)
        except OSError as error:
            if not self._is_direct or error.errno != errno.EINVAL:
                raise
        # The memory is not aligned, or the file system has no direct I/O.
        self._may_be_direct = False
        self._switch(direct=False)
        return os.write(self._descriptor, view)

    def _switch(self, *, direct: bool) -> None:
        import fcntl

        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        flags = flags | _DIRECT if direct else flags & ~_DIRECT
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags)
        except OSError:
            self._may_be_direct = False
        else:
            self._is_direct = direct

    def close(self) -> None:
        """Close the descriptor."""
        if not self.closed:
            super().close()
            with suppress(OSError):  # a sync reports what was lost
                os.close(self._descriptor)

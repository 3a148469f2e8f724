"""A file beside the local store that records whether the store was closed after its last use.

::

    in-use   new or kept ‖ space ‖ open or closed ‖ spaces

Every process that has the store open holds a shared lock on this file. If the file says "open" and
nobody holds the lock, the last user ended without closing the store: LMDB has lost nothing, but the
file may be shorter than it says. "kept" says that a store exists, so
that a store whose file was emptied does not count as new. The file is an aid only: if it cannot be
written, nothing fails.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lakecli.directories import StrPath


NAME: Final = "in-use"

_PATIENCE: Final = 2.0
_POLL: Final = 0.01
_SIZE: Final = 64


class Sentinel:
    """The sentinel of one environment of this process.

    Args:
        directory: of the store.

    Attributes:
        is_kept: whether a store was created here before.
        was_left_open: whether the last user did not close the store.
        is_alone: whether no other process has the store open.

    Raises:
        OSError: the file cannot be opened.
    """

    _descriptor = -1  # as `__del__` finds it if an interrupt comes before `__init__`

    def __init__(self, directory: StrPath) -> None:
        self._descriptor = os.open(
            f"{directory}/{NAME}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            self.is_alone = self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self.is_alone:
                self._wait()
            words = os.pread(self._descriptor, _SIZE, 0).split()
            self.is_kept = words[:1] == [b"kept"]
            self.was_left_open = self.is_alone and words[1:2] == [b"open"]
        except BaseException:
            self._release()
            raise

    def begin(self) -> None:
        """Let other processes open the store, after it was checked."""
        self._write(b"open")
        self._wait()

    def keep(self) -> None:
        """Record that the store exists now."""
        if not self.is_kept:
            self.is_kept = True
            self._write(b"open")

    def close(self, *, cleanly: bool = True) -> None:
        """Record that the store was closed, unless another process uses it.

        Args:
            cleanly: ``False`` leaves the record unchanged.
        """
        if cleanly and self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB):
            self._write(b"closed")
        self._release()

    def __del__(self) -> None:
        """Release the lock, in case an interrupt came before the caller could close this."""
        self._release()

    def _release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _wait(self) -> None:
        """Wait while another process checks the store, for a limited time."""
        deadline = time.monotonic() + _PATIENCE
        while not self._lock(fcntl.LOCK_SH | fcntl.LOCK_NB):
            if time.monotonic() > deadline:
                return
            time.sleep(_POLL)

    def _lock(self, how: int) -> bool:
        """Change the lock; return whether this process has it now."""
        try:
            fcntl.flock(self._descriptor, how)
        except OSError:  # another process has it, or the file system has no such locks
            return False
        return True

    def _write(self, state: bytes) -> None:
        kept = b"kept" if self.is_kept else b"new"
        record = b"%s %s" % (kept, state)
        with suppress(OSError):
            os.pwrite(self._descriptor, record.ljust(_SIZE - 1) + b"\n", 0)

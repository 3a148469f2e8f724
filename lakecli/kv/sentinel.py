"""The sentinel: a file beside the store that shows whether the store is in use, or was closed.

::

    in-use   new or kept ‖ space ‖ open, closed or rewriting ‖ spaces

Every process that has the store open holds a shared lock on this file. If the file says "open" and
no process holds the lock, the last process ended without closing the store. LMDB has not lost
anything then, but the store's file may be shorter than its meta page says. "kept" means that a
store exists: if its file is empty, it was damaged and is not a new store. "rewriting" means that
`lakecli.kv.compaction` holds the lock exclusively. The sentinel is only an aid: if it cannot be
written, no error is raised.
"""

import fcntl
import os
from contextlib import suppress
from time import monotonic, sleep
from typing import Final

from lakecli.base.directories import StrPath

SENTINEL: Final = "in-use"

_PATIENCE: Final = 2.0
_POLL: Final = 0.01
_SENTINEL_SIZE: Final = 64
_REWRITING: Final = b"rewriting"


class Sentinel:
    """The sentinel of one environment of this process.

    Attributes:
        is_kept: whether a store was created in this directory before.
        was_left_open: whether the last process ended without closing the store.
        was_rewriting: whether the last process was killed while it rewrote the store.
        is_alone: whether no other process has the store open.
    """

    _is_held = False
    """Whether another process held the lock when this process last tried to take it."""
    _descriptor = -1  # for `__del__`, if an interrupt prevents `__init__` from setting it

    def __init__(self, directory: StrPath) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(f"{directory}/{SENTINEL}", flags, 0o600)
        try:
            self.is_alone = self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self.is_alone:
                self._wait()
            kept, state = self._read()
            self.is_kept = kept == b"kept"
            self.was_left_open = self.is_alone and state == b"open"
            self.was_rewriting = self.is_alone and state == _REWRITING
        except BaseException:
            self._release()
            raise

    def begin(self) -> None:
        """Let other processes open the store; this process has checked the store before."""
        self._write(b"open")
        self._wait()

    def begin_rewrite(self) -> None:
        """Make other processes wait until the rewrite has ended, however long that takes.

        This process has checked the store before, and has extended its file if it was too short.
        """
        self.was_left_open = False
        self._write(_REWRITING)

    def keep(self) -> None:
        """Record that the store exists now."""
        if not self.is_kept:
            self.is_kept = True
            self._write(b"open")

    def close(self, *, cleanly: bool = True) -> None:
        """Record that the store was closed, unless another process uses it.

        Args:
            cleanly: whether the store was closed without an error; if not, the record is unchanged.
        """
        if cleanly and self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB):
            self._write(b"closed")
        self._release()

    def __del__(self) -> None:
        """Release the lock, in case an interrupt prevented the call of `close`."""
        self._release()

    def _release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _wait(self) -> None:
        """Wait until a rewrite ends; wait only a limited time for another process's check."""
        deadline = monotonic() + _PATIENCE
        while not self._lock(fcntl.LOCK_SH | fcntl.LOCK_NB):
            if monotonic() > deadline and not (self._is_held and self._read()[1] == _REWRITING):
                return
            sleep(_POLL)

    def _lock(self, how: int) -> bool:
        """Try to change the mode of the lock; return whether this succeeded."""
        try:
            fcntl.flock(self._descriptor, how)
        except OSError as error:
            self._is_held = isinstance(error, BlockingIOError)  # else the file system has no locks
            return False
        return True

    def _read(self) -> tuple[bytes, bytes]:
        """Return the contents of the file: whether a store exists, and the state of the store."""
        kept, _, rest = os.pread(self._descriptor, _SENTINEL_SIZE, 0).partition(b" ")
        return kept, rest.strip()

    def _write(self, state: bytes) -> None:
        kept = b"kept" if self.is_kept else b"new"
        record = b"%s %s" % (kept, state)
        with suppress(OSError):
            os.pwrite(self._descriptor, record.ljust(_SENTINEL_SIZE - 1) + b"\n", 0)

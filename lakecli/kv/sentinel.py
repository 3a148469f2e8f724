"""A file beside the local store that tells whether it was closed after its last use.

::

    in-use   new or kept ‖ space ‖ open or closed ‖ space ‖ ID of the machine's boot ‖ spaces

Who has the store open holds a shared lock on it. Who finds it "open" without such a lock knows that
the last user ended without closing. If that was a process, LMDB has lost nothing; if it was the
machine, the disk may have. "kept" says that there is a store, so that one whose file was emptied
is not taken for a new one. Everything here is an aid: where it cannot be written, nothing fails.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

NAME: Final = "in-use"

_PATIENCE: Final = 2.0
_POLL: Final = 0.01
_SIZE: Final = 64
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


class Sentinel:
    """The sentinel of one environment of this process.

    Args:
        directory: of the store.

    Attributes:
        is_kept: a store was created here before.
        was_left_open: the last user did not close it.
        is_suspect: and the machine was started anew since, or may have been.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, directory: Path) -> None:
        self._descriptor = -1
        self._descriptor = os.open(directory / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._boot = _boot_id()
            is_alone = self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not is_alone:
                self._wait()
            words = os.pread(self._descriptor, _SIZE, 0).split()
            self.is_kept = words[:1] == [b"kept"]
            self.was_left_open = is_alone and words[1:2] == [b"open"]
            same_boot = bool(self._boot) and words[2:3] == [self._boot]
            self.is_suspect = self.was_left_open and not same_boot
        except BaseException:
            self._release()
            raise

    def begin(self) -> None:
        """Let others in, once the store was checked."""
        self._write(b"open")
        self._wait()

    def keep(self) -> None:
        """Note that there is a store now."""
        if not self.is_kept:
            self.is_kept = True
            self._write(b"open")

    def close(self, *, cleanly: bool = True) -> None:
        """Note that the store was closed, unless another process uses it.

        Args:
            cleanly: ``False`` leaves the note as it is.
        """
        if cleanly and self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB):
            self._write(b"closed")
        self._release()

    def __del__(self) -> None:
        """Let go of the lock where an interrupt came before anybody could close this."""
        self._release()

    def _release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _wait(self) -> None:
        """Wait while somebody checks the store, but not for ever."""
        deadline = time.monotonic() + _PATIENCE
        while not self._lock(fcntl.LOCK_SH | fcntl.LOCK_NB):
            if time.monotonic() > deadline:
                return
            time.sleep(_POLL)

    def _lock(self, how: int) -> bool:
        """Change the lock; return whether this process has it now."""
        try:
            fcntl.flock(self._descriptor, how)
        except OSError:  # somebody else has it, or the file system knows no such locks
            return False
        return True

    def _write(self, state: bytes) -> None:
        kept = b"kept" if self.is_kept else b"new"
        record = b"%s %s %s" % (kept, state, self._boot)
        with suppress(OSError):
            os.pwrite(self._descriptor, record.ljust(_SIZE - 1) + b"\n", 0)


def _boot_id() -> bytes:
    """Return what names the time since the machine was started; empty where nothing does."""
    try:
        descriptor = os.open(_BOOT_ID, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 40).strip()
    except OSError:
        return b""
    finally:
        os.close(descriptor)

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
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

NAME: Final = "in-use"

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
        self._descriptor = os.open(directory / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._boot = _boot_id()
        is_alone = self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not is_alone:
            self._lock(fcntl.LOCK_SH)  # waits while somebody checks the store
        words = os.pread(self._descriptor, _SIZE, 0).split()
        self.is_kept = words[:1] == [b"kept"]
        self.was_left_open = is_alone and words[1:2] == [b"open"]
        same_boot = bool(self._boot) and words[2:3] == [self._boot]
        self.is_suspect = self.was_left_open and not same_boot

    def begin(self) -> None:
        """Let others in, once the store was checked."""
        self._write(b"open")
        self._lock(fcntl.LOCK_SH)

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
        os.close(self._descriptor)

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

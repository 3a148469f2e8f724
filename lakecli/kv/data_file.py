"""Checking that the file of the local store is whole, without mapping it.

LMDB maps its file, and SIGBUS kills a process that accesses a page beyond the end of the file. So
before the store is opened, the two meta pages are read: the newer one has the number of the last
page, and the file must reach to its end.

::

    page  number (8) ‖ 2 bytes ‖ flags (2) ‖ lower (2) ‖ upper (2)
    meta  page header ‖ magic (4) ‖ version (4) ‖ address (8) ‖ map size (8)
          ‖ tree of free pages ‖ main tree ‖ last page (8) ‖ transaction (8)
    tree  page size (4) ‖ flags (2) ‖ depth (2) ‖ four counts (32) ‖ root (8)

All numbers are little-endian. LMDB uses the machine's byte order; stores of big-endian machines are
not supported.

A file beside the local store that records whether the store was closed after its last use.

::

    in-use   new or kept ‖ space ‖ open or closed ‖ spaces

Every process that has the store open holds a shared lock on this file. If the file says "open" and
nobody holds the lock, the last user ended without closing the store: LMDB has lost nothing, but the
file may be shorter than it says. "kept" says that a store exists, so that a store whose file was
emptied does not count as new. The file is an aid only: if it cannot be written, nothing fails.

Detection of network file systems, on which LMDB's locks and memory maps do not work.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import time
from contextlib import suppress
from time import sleep
from typing import Final, NamedTuple

from lakecli.base.directories import StrPath

DATA_FILE: Final = "data.mdb"

_MAGIC: Final = 0xBEEFC0DE
_VERSION: Final = 1
_META: Final = struct.Struct("<QHHHHIIQQ" + 2 * "IHHQQQQQ" + "QQ")
_META_PAGE: Final = 8
_PAUSES: Final = (0.0, 0.02, 0.1)
"""Seconds before each attempt: pages that another process is writing may look damaged."""


class _Meta(NamedTuple):
    page_size: int
    last_page: int
    transaction: int


class _DamageError(Exception):
    """Damage of the file; used inside this module only."""


def find_damage(directory: StrPath, *, may_be_short: bool) -> str | None:
    """Return the damage of a store's file, or ``None`` if it is sound or absent.

    Other processes may be writing meanwhile.

    Args:
        directory: of the store.
        may_be_short: extend a file that is too short, instead of calling it damaged: a process that
            was killed may not have done that; see `grow`.

    Raises:
        OSError: the file cannot be read.
    """
    problem: str | None = None
    for pause in _PAUSES:
        if pause:
            sleep(pause)
        try:
            descriptor = os.open(f"{directory}/{DATA_FILE}", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            _check(descriptor, may_be_short=may_be_short)
        except _DamageError as error:
            problem = str(error)
        else:
            return None
        finally:
            os.close(descriptor)
    return problem


def is_empty(directory: StrPath) -> bool:
    """Return whether a store has no file, or an empty one, which is a new store to LMDB."""
    try:
        return os.stat(f"{directory}/{DATA_FILE}").st_size == 0
    except FileNotFoundError:
        return True


def grow(descriptor: int, size: int) -> None:
    """Extend a store's file to `size` bytes; never shorten it, whatever other processes do.

    LMDB does not write pages that were allocated and freed in one transaction. If these are the
    last pages, the file is shorter than its meta page says, as if it had been truncated.
    """
    if os.fstat(descriptor).st_size < size and hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, size - 1, 1)


def _check(descriptor: int, *, may_be_short: bool) -> None:
    first = os.pread(descriptor, _META.size, 0)
    if not first:
        return  # new: LMDB creates a store in an empty file
    metas = [_read_meta(first)]
    page_size = metas[0].page_size
    metas.append(_read_meta(os.pread(descriptor, _META.size, page_size)))
    newest = max(metas, key=lambda meta: meta.transaction)
    # Read after the meta pages: the file can only have grown since.
    size = os.fstat(descriptor).st_size
    needed = (newest.last_page + 1) * page_size
    if size >= needed:
        return
    if not may_be_short:
        raise _DamageError(f"{DATA_FILE} has {size:,} bytes, of {needed:,}")
    grow(descriptor, needed)


def _read_meta(data: bytes) -> _Meta:
    if len(data) < _META.size:
        raise _DamageError(f"{DATA_FILE} ends within its first pages")
    fields = _META.unpack(data)
    _, _, flags, _, _, magic, version, _, _ = fields[:9]
    if magic != _MAGIC or version != _VERSION or not flags & _META_PAGE:
        raise _DamageError(f"{DATA_FILE} does not begin with a meta page")
    page_size = fields[9]
    if page_size not in {1 << shift for shift in range(9, 17)}:
        raise _DamageError(f"{DATA_FILE} has an impossible page size")
    return _Meta(page_size, fields[25], fields[26])


SENTINEL: Final = "in-use"

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
            f"{directory}/{SENTINEL}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
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


MOUNT_TABLE: Final = "/proc/mounts"

NETWORK_TYPES: Final = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "9p", "coda", "davfs"),
        *("ceph", "glusterfs", "lustre", "gpfs", "beegfs", "beegfs_nodev", "pvfs2", "orangefs"),
        *("ocfs2", "gfs2", "panfs", "wekafs", "vboxsf", "vmhgfs", "prl_fs"),
    }
)
"""File system types; types ``fuse.<helper>`` with a helper in `NETWORK_HELPERS` count too."""

NETWORK_HELPERS: Final = frozenset(
    {
        *("sshfs", "s3fs", "rclone", "gcsfuse", "goofys", "geesefs", "mount-s3", "mountpoint-s3"),
        *("blobfuse", "blobfuse2", "juicefs", "glusterfs", "ceph", "ceph-fuse", "davfs", "davfs2"),
        *("curlftpfs", "smbnetfs", "objectivefs", "cvmfs2", "hdfs", "alluxio-fuse", "seaweedfs"),
        *("vmhgfs-fuse", "dfuse"),
    }
)


def network_type(directory: bytes, mount_table: bytes) -> str | None:
    """Return the file system type under `directory` if it is a network's, else ``None``.

    Args:
        directory: absolute, symbolic links resolved.
        mount_table: the text of ``/proc/mounts``; of two mounts on one path the later one counts.
    """
    best = b""
    found = ""
    for line in mount_table.splitlines():
        fields = line.split(b" ")
        if len(fields) < 3:  # noqa: PLR2004 - device, place and type
            continue
        place = _unescape(fields[1])
        inside = directory == place or directory.startswith(place.rstrip(b"/") + b"/")
        if inside and len(place) >= len(best):
            best, found = place, fields[2].decode("ascii", "replace")
    helper = found.removeprefix("fuse.")
    is_network = found in NETWORK_TYPES or (helper != found and helper in NETWORK_HELPERS)
    return found if is_network else None


def _unescape(place: bytes) -> bytes:
    """Undo the kernel's octal escapes of blanks, tabs, newlines and backslashes."""
    if b"\\" not in place:
        return place
    return re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8) & 0xFF]), place)

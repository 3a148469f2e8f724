"""Files and directories by descriptor: opening, describing, writing and syncing them."""

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from lakecli.base.os_errors import CANNOT_SYNC
from lakecli.stores.contract import ObjectInfo, Version

_SYNCFS = "syncfs"
"""The name of the C function; tests replace it with a name that does not exist."""

OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY
FILE_MODE = 0o666  # less the umask: a namespace may be shared by a group
FEW = 32
"""Largest number of files or directories that are synced one by one.

One sync of the file system costs less than a thousand syncs of files, but also waits for the recent
writes of other programs.
"""
_EARLIEST, _LATEST = -62 * 10**9, 253 * 10**9
CREATE_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


class closing:  # noqa: N801 - as in contextlib, which closes objects
    """A context manager that closes a descriptor."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def object_status(parent: int, name: bytes) -> os.stat_result | None:
    """Return the status of an object's file in an open directory; ``None`` without such a file.

    Raises:
        OSError: a directory (``EISDIR``) or a link (``ELOOP``) has the name.
    """
    status = status_of(parent, name)
    if status is None or stat.S_ISREG(status.st_mode):
        return status
    number = errno.ELOOP if stat.S_ISLNK(status.st_mode) else errno.EISDIR
    raise OSError(number, os.strerror(number), name)


def status_of(parent: int, name: bytes | str) -> os.stat_result | None:
    """Return the status of a name in an open directory, or ``None``; links are not followed."""
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def version_of(status: os.stat_result) -> Version:
    """Return the version of an object: time, inode and size of its file."""
    return Version(f"{status.st_mtime_ns:x}-{status.st_ino:x}-{status.st_size:x}")


def info_of(key: str, status: os.stat_result) -> ObjectInfo:
    """Return the properties of an object, taken from the status of its file."""
    # A file may have any time; `datetime` ends at year 9999, and local times must fit, too.
    seconds = max(_EARLIEST, min(status.st_mtime_ns // 10**9, _LATEST))
    modified_at = datetime.fromtimestamp(seconds, UTC)
    return ObjectInfo(key, status.st_size, modified_at, version_of(status))


def hold(descriptor: int) -> None:
    """Mark an open temporary file or directory as in use, by a shared lock."""
    with suppress(OSError):  # not on every file system
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)


def names_in(descriptor: int) -> set[bytes]:
    """Return the names in an open directory."""
    with os.scandir(descriptor) as entries:
        return {os.fsencode(entry.name) for entry in entries}


def read_range(descriptor: int, start: int, size: int) -> bytes:
    """Return up to `size` bytes of a file from `start`; a system call reads at most 2 GiB."""
    pieces = []
    while size and (piece := os.pread(descriptor, size, start)):
        pieces.append(piece)
        start += len(piece)
        size -= len(piece)
    return b"".join(pieces)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all bytes; one system call writes at most 2 GiB, and less on a full disk."""
    written = os.write(descriptor, data)
    while written < len(data):
        data = memoryview(data)[written:]
        written = os.write(descriptor, data)


class SyncError(OSError):
    """A write to the disk failed, so data may be lost, although the next sync may succeed.

    Kernels report a failed write once, and afterwards treat the page as written.
    """


def sync_file(descriptor: int) -> None:
    """Make a file's bytes durable; raise `SyncError` if some may be lost."""
    full_sync = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync does not flush the drive's cache
    try:
        if full_sync is None:
            os.fsync(descriptor)
        else:
            fcntl.fcntl(descriptor, full_sync)
    except OSError as error:
        raise SyncError(error.errno, error.strerror) from error


def sync_names(descriptor: int) -> None:
    """Make the names in an open directory durable, if its file system can; see `sync_file`."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in CANNOT_SYNC:
            raise SyncError(error.errno, error.strerror) from error


def sync_file_system(descriptor: int) -> None:
    """Make all writes to the file system of `descriptor` durable at once; see `sync_file`.

    Linux's ``syncfs`` syncs only this file system, and reports failed writes. Other systems have
    only ``sync``, which syncs all file systems and reports nothing.
    """
    import ctypes

    syncfs = getattr(ctypes.CDLL(None, use_errno=True), _SYNCFS, None)
    if syncfs is None:
        os.sync()
    elif syncfs(descriptor) != 0:
        number = ctypes.get_errno()
        raise SyncError(number, os.strerror(number))


def sync_published(root: str, key: str) -> None:
    """Make an object durable that another writer may have published without a sync.

    Args:
        key: key of the object. If the object no longer exists, nothing is synced.
    """
    path = f"{root}/{key}"
    # A file that this user cannot open is left to its writer.
    with suppress(FileNotFoundError, PermissionError):
        _sync_path(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, sync_file)
        for _ in range(key.count("/") + 1):
            path = os.path.dirname(path)  # noqa: PTH120 - pathlib costs start-up time
            _sync_path(path, OPEN_DIRECTORY, sync_names)


def sync_all_published(root: str, keys: Sequence[str]) -> None:
    """Make objects durable as `sync_published` does; sync the file system instead for many."""
    if len(keys) > FEW:
        _sync_path(root, OPEN_DIRECTORY, sync_file_system)
        return
    for key in keys:
        sync_published(root, key)


def _sync_path(path: str, flags: int, sync: Callable[[int], None]) -> None:
    with closing(os.open(path, flags)) as descriptor:
        sync(descriptor)


def open_below(parent: int, name: bytes, *, create: bool, sync: bool) -> int:
    """Open a directory inside an open one; see `RootDirectory.open_directory`."""
    try:
        return os.open(name, OPEN_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    except FileNotFoundError:
        if not create:
            raise
    except NotADirectoryError:
        # Linux reports a symbolic link like this, too.
        status = status_of(parent, name)
        if status is not None and stat.S_ISLNK(status.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from None
        raise
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)
    if sync:
        try:
            sync_names(parent)
        except SyncError:
            with suppress(OSError):  # so that the next writer creates and syncs it again
                os.rmdir(name, dir_fd=parent)
            raise
    return os.open(name, OPEN_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)

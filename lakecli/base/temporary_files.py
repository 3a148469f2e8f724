"""Temporary files beside the files that they replace.

Their names are random, and an existing file is never opened, so nobody who can write into the
directory can redirect a write by a link. A process locks its temporary files, so that a later
process recognises the files that a killed process left behind.
"""

import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, BinaryIO, Final
from weakref import finalize

from lakecli.base.directories import StrPath
from lakecli.errors import Unreachable

MOST_NAMES: Final = 100_000
_LEFTOVER: Final = re.compile(r"\.lakecli-[0-9a-f]{16}\.tmp")
_EXISTING: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def create_temporary(
    directory: StrPath = "", *, mode: int = 0o600, dir_fd: int | None = None
) -> tuple[str, int]:
    """Create a temporary file, and return its path and a descriptor.

    Args:
        directory: the directory of the file, relative to `dir_fd`.
        mode: permissions, before the umask is applied.
    """
    while True:
        path = os.path.join(directory, f".lakecli-{os.urandom(8).hex()}.tmp")
        descriptor = os.open(path, _NEW, mode, dir_fd=dir_fd)
        if _hold(descriptor):
            return path, descriptor
        os.close(descriptor)


def _hold(descriptor: int) -> bool:
    """Lock a new file; return ``False`` if another process is removing it as a leftover."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks, on which no file counts as a leftover
        return True
    return os.fstat(descriptor).st_nlink > 0


def remove_leftovers(directory: StrPath | int) -> None:
    """Remove temporary files of `create_temporary` that no process has locked.

    Only the first `MOST_NAMES` names in the directory are checked.

    Args:
        directory: the path of the directory, or an open descriptor of the directory.
    """
    with suppress(OSError), os.scandir(directory) as listed:
        for found in islice(listed, MOST_NAMES):
            if _LEFTOVER.fullmatch(found.name):
                at = directory if isinstance(directory, int) else None
                _remove_unless_held(found.name if at is not None else found.path, at)


def _remove_unless_held(path: str, dir_fd: int | None) -> None:
    with suppress(OSError):
        descriptor = os.open(path, _EXISTING, dir_fd=dir_fd)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path, dir_fd=dir_fd)
        finally:
            os.close(descriptor)


@contextmanager
def replacing(path: StrPath, *, mode: int = 0o600, is_durable: bool = True) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` when the block ends without an error.

    Args:
        path: path of the file to replace; if it is a symbolic link, the link itself is replaced.
        mode: permissions, before the umask is applied.
        is_durable: whether to sync the contents before the file is renamed to `path`, and to remove
            temporary files that killed processes left in the directory.

    Raises:
        OSError: writing failed; the error names `path` or the temporary file.
    """
    if is_durable:  # caches have many files, and directories of their own
        remove_leftovers(os.path.dirname(path) or os.curdir)
    temporary, descriptor = create_temporary(os.path.dirname(path), mode=mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if is_durable:
                os.fsync(file.fileno())
            os.replace(temporary, path)  # while the lock is held
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = os.fspath(path)  # an error of a full disk names no file
        raise


def finalize_here(owner: object, function: Callable[..., object], *args: object) -> Any:  # noqa: ANN401
    """Return a `weakref.finalize` that does nothing in a forked child of this process."""
    return finalize(owner, _call_in, os.getpid(), function, args)


def _call_in(process: int, function: Callable[..., object], args: tuple[object, ...]) -> None:
    if os.getpid() == process:
        function(*args)


@contextmanager
def temporary_space() -> Iterator[None]:
    """Convert the error of a full disk in the block to one that names the temporary directory.

    Raises:
        Unreachable: there is no space left.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        from tempfile import gettempdir  # takes milliseconds to import

        raise Unreachable(
            f"no space left for temporary files in {gettempdir()}",
            hint="set TMPDIR to a directory on a disk with free space",
        ) from error


class SqliteErrors:
    """A context manager that converts errors of SQLite, such as that of a full disk.

    It is a class because a generator function takes about as long as the look-up of a row.

    Args:
        database: the path of the database; ``""`` if it is a temporary file.

    Raises:
        Unreachable: SQLite cannot create, read or write its files.
    """

    def __init__(self, database: StrPath = "") -> None:
        self._named = f"{os.fspath(database)} or " if database else ""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Convert the error of the block."""
        if error is None:
            return
        import sqlite3  # few commands need it

        if isinstance(error, sqlite3.OperationalError):
            raise Unreachable(
                f"SQLite cannot use {self._named}its temporary files: {error}",
                hint="free some space, or set TMPDIR to a directory on a disk with free space",
            ) from error

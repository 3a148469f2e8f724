"""A local directory that files are written into, and never out of.

Names come from a bucket and are not to be trusted: every component is checked, directories are
entered one by one without following symbolic links, and a file appears under its name only when it
is complete.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager, suppress
from itertools import chain, count
from threading import Lock
from typing import TYPE_CHECKING, Final, Self

from lakecli.errors import PermissionDenied, Unreachable, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from io import FileIO

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class UnsafeName(UsageError):
    """A path that cannot be a file below the destination, or a destination that cannot be one."""


class Unwritable(PermissionDenied):
    """A file or directory that is not ours to write."""


class NoRoom(Unreachable):
    """The disk is full."""


class Destination:
    """A directory to write below; made where needed. Close it, or use it as a context manager.

    Nothing is made before there is something to write. Safe to share between threads.

    Args:
        root: the directory; may itself be a symbolic link, since the user named it.

    Raises:
        UnsafeName: something that is no directory has this name.
    """

    def __init__(self, root: bytes) -> None:
        self._path = root or b"."
        self._root: int | None = None
        self._lock = Lock()
        self._numbers = count()
        if os.path.lexists(self._path) and not os.path.isdir(self._path):
            raise UnsafeName(f"not a directory: {os.fsdecode(self._path)!r}")

    def close(self) -> None:
        """Let go of the directory."""
        if self._root is not None:
            os.close(self._root)
            self._root = None

    def __enter__(self) -> Self:
        """Return the destination itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def write(self, name: bytes, pieces: Iterable[bytes], *, mtime: int | None = None) -> int:
        """Write one file and return its size; an existing file is replaced when this is complete.

        Args:
            name: relative to the root, with slashes.
            pieces: of the file, in order; where drawing one raises, nothing is written.
            mtime: what to set as the file's own time, in unix seconds.

        Raises:
            UnsafeName: the name leads out of the root, through a symbolic link, or is no file name.
            Unwritable: the destination cannot be written.
            NoRoom: the disk is full.
        """
        components = _components(name)
        remaining = iter(pieces)
        first = next(remaining, b"")
        with translated(self._path + b"/" + name), self._directory(components[:-1]) as directory:
            return self._write(directory, components[-1], chain([first], remaining), mtime)

    def make_directory(self, name: bytes) -> None:
        """Make a directory and those above it; being there already is fine.

        Raises:
            UnsafeName: as `write`.
            Unwritable: the destination cannot be written.
        """
        with translated(self._path + b"/" + name), self._directory(_components(name)):
            pass

    def _write(
        self, directory: int, name: bytes, pieces: Iterable[bytes], mtime: int | None
    ) -> int:
        temporary, descriptor = self._create_temporary(directory)
        try:
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                size = 0
                for piece in pieces:
                    _write_all(file, piece)
                    size += len(piece)
                if mtime is not None:
                    with suppress(OverflowError, OSError):  # a time this disk cannot keep
                        os.utime(file.fileno(), (mtime, mtime))
            os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=directory)
            raise
        return size

    def _create_temporary(self, directory: int) -> tuple[bytes, int]:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        while True:
            name = b".lakecli-%d-%d.tmp" % (os.getpid(), next(self._numbers))
            with suppress(FileExistsError):  # another machine counts as we do, or one was killed
                return name, os.open(name, flags, 0o666, dir_fd=directory)

    @contextmanager
    def _directory(self, components: list[bytes]) -> Iterator[int]:
        current = self._open_root()
        try:
            for component in components:
                below = _enter(current, component)
                os.close(current)
                current = below
            yield current
        finally:
            os.close(current)

    def _open_root(self) -> int:
        with self._lock:
            if self._root is None:
                os.makedirs(self._path, exist_ok=True)
                self._root = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            return os.dup(self._root)


def _enter(parent: int, name: bytes) -> int:
    """Open a directory inside an opened one, making it where it is missing."""
    try:
        try:
            return os.open(name, _DIRECTORY, dir_fd=parent)
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=parent)
            return os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError as error:
        if error.errno not in {errno.ENOTDIR, errno.ELOOP}:
            raise
        raise UnsafeName(
            f"{os.fsdecode(name)!r} is a file or a symbolic link, not a directory"
        ) from error


def _components(name: bytes) -> list[bytes]:
    components = name.split(b"/")
    for component in components:
        if component in (b"", b".", b"..") or b"\0" in component:
            raise UnsafeName(f"no file can have the name {os.fsdecode(name)!r}")
    return components


def _write_all(file: FileIO, piece: bytes) -> None:
    view = memoryview(piece)
    while view:
        view = view[file.write(view) or 0 :]


@contextmanager
def translated(name: bytes) -> Iterator[None]:
    """Turn the operating system's errors about a local file into lakecli's.

    Raises:
        UnsafeName: the name is too long, or a directory stands there.
        Unwritable: not ours to write.
        NoRoom: the disk is full.
    """
    shown = os.fsdecode(name)
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise Unwritable(f"cannot write {shown!r}: {reason}") from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoRoom(f"no room to write {shown!r}", hint="free some space") from error
        if error.errno in (
            errno.ENAMETOOLONG,
            errno.EISDIR,
            errno.ENOTDIR,
            errno.EEXIST,
            errno.EINVAL,
            errno.ELOOP,
        ):
            raise UnsafeName(f"cannot write {shown!r}: {reason}") from error
        raise

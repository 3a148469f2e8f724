"""A local directory that files are written into, and never out of.

Names come from a bucket and are not to be trusted: every component is checked, directories are
entered one by one without following symbolic links, and a file appears under its name only when it
is complete.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from enum import Enum
from itertools import chain, count
from threading import Lock
from typing import TYPE_CHECKING, Final, Self

from lakecli.errors import PermissionDenied, Unreachable, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from io import FileIO

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


_PIECE: Final = 1 << 20


class State(Enum):
    """What lies at the destination of an object."""

    MISSING = "missing"
    SAME = "same"
    DIFFERENT = "different"


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

    def state_of(
        self,
        name: bytes,
        *,
        size: int,
        digest: str | None,
        mtime: int | None = None,
        trusts_time: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> State:
        """Tell what lies where a file is to be written; nothing is made.

        Args:
            name: relative to the root, with slashes.
            size: of the object, in bytes.
            digest: its BLAKE3, 64 hex digits; ``None`` where it is unknown, and no file the same.
            mtime: what to set as the time of a file that is the same, in unix seconds.
            trusts_time: where the digest is unknown, a file of this size and time is the same.
            check: called often while a file is read; an error that it raises ends the reading.

        Raises:
            UnsafeName: as `write`.
        """
        components = _components(name)
        try:
            with (
                translated(self._path + b"/" + name),
                self._directory(components[:-1], make=False) as directory,
            ):
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                descriptor = os.open(components[-1], flags, dir_fd=directory)
        except FileNotFoundError:
            return State.MISSING
        except Unwritable:
            return State.DIFFERENT  # what cannot be read can be replaced, as its directory says
        except UnsafeName as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.ELOOP:
                return State.DIFFERENT  # a symbolic link, which is replaced
            raise
        try:
            status = os.fstat(descriptor)
            is_timely = mtime is not None and status.st_mtime_ns // 1_000_000_000 == mtime
            is_same = stat.S_ISREG(status.st_mode) and status.st_size == size
            if digest is None:
                is_same = is_same and trusts_time and is_timely
            else:
                is_same = is_same and _digest(descriptor, check) == digest
            if not is_same:
                return State.DIFFERENT
            if mtime is not None and not is_timely:
                with suppress(OverflowError, OSError):
                    os.utime(descriptor, (mtime, mtime))
            return State.SAME
        finally:
            os.close(descriptor)

    @contextmanager
    def partial(self, name: bytes, tag: bytes, *, size: int) -> Iterator[Partial]:
        """Open the file that collects a large object until it is complete.

        It lies beside the file it will become, as ``.lakecli-TAG.partial``, and stays there when
        the block raises, so that the next process goes on with it. Where another process is at
        work on it, a new file is used, and lost if that does not finish.

        Args:
            name: relative to the root, with slashes.
            tag: names the contents: the same for the same object under the same name, no other.
            size: of the object, in bytes.

        Raises:
            UnsafeName: as `write`.
            Unwritable: the destination cannot be written.
            NoRoom: the disk is full.
        """
        components = _components(name)
        with translated(self._path + b"/" + name), self._directory(components[:-1]) as directory:
            temporary, descriptor, is_shared = self._open_partial(directory, tag)
            partial = Partial(directory, temporary, descriptor, components[-1], size)
            try:
                yield partial
            except BaseException:
                if not is_shared:
                    partial.drop()
                raise
            finally:
                os.close(descriptor)

    def _open_partial(self, directory: int, tag: bytes) -> tuple[bytes, int, bool]:
        """Return the name of a file, its descriptor, and whether the next process may find it."""
        name = b".lakecli-" + tag + b".partial"
        descriptor = _open_ours(directory, name)
        if descriptor is not None:
            return name, descriptor, True
        return *self._create_temporary(directory), False

    def make_directory(self, name: bytes) -> None:
        """Make a directory and those above it; being there already is fine.

        Raises:
            UnsafeName: as `write`.
            Unwritable: the destination cannot be written.
        """
        with translated(self._path + b"/" + name), self._directory(_components(name)):
            pass

    def delete(self, name: bytes) -> None:
        """Remove a file, and the directories that it leaves empty; a missing one is fine.

        Raises:
            UnsafeName: as `write`, or a directory has this name.
            Unwritable: the destination cannot be written.
        """
        components = _components(name)
        with (
            suppress(FileNotFoundError),
            translated(self._path + b"/" + name),
            self._directory(components[:-1], make=False) as directory,
        ):
            os.unlink(components[-1], dir_fd=directory)
        while len(components) > 1:
            *components, last = components[:-1]
            try:
                with self._directory(components, make=False) as directory:
                    os.rmdir(last, dir_fd=directory)
            except (OSError, UnsafeName):
                return  # something else is in it

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
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        while True:
            name = b".lakecli-%d-%d.tmp" % (os.getpid(), next(self._numbers))
            with suppress(FileExistsError):  # another machine counts as we do, or one was killed
                return name, os.open(name, flags, 0o666, dir_fd=directory)

    @contextmanager
    def _directory(self, components: list[bytes], *, make: bool = True) -> Iterator[int]:
        current = self._open_root(make=make)
        try:
            for component in components:
                below = _enter(current, component, make=make)
                os.close(current)
                current = below
            yield current
        finally:
            os.close(current)

    def _open_root(self, *, make: bool) -> int:
        with self._lock:
            if self._root is None:
                if make:
                    os.makedirs(self._path, exist_ok=True)
                self._root = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            return os.dup(self._root)


class Partial:
    """A file that is filled in any order. Safe to share between threads.

    Behind the bytes of the object there is one more byte for each part that is complete, written
    after the part. A process that is killed leaves a file that tells what it holds; after a power
    failure it may tell too much, which the object's digest brings to light.
    """

    def __init__(
        self, directory: int, temporary: bytes, descriptor: int, name: bytes, size: int
    ) -> None:
        self._directory = directory
        self._temporary = temporary
        self._descriptor = descriptor
        self._name = name
        self._size = size

    def complete_parts(self, count: int) -> set[int]:
        """Return which of so many parts are complete, from 0."""
        marks = os.pread(self._descriptor, count, self._size)
        return {number for number, mark in enumerate(marks) if mark}

    def write(self, piece: bytes, position: int) -> None:
        """Write bytes of the object."""
        view = memoryview(piece)
        while view:
            written = os.pwrite(self._descriptor, view, position)
            view = view[written:]
            position += written

    def read(self, position: int, size: int) -> bytes:
        """Read bytes of the object that were written before."""
        return os.pread(self._descriptor, min(size, self._size - position), position)

    def mark(self, number: int) -> None:
        """Note that a part is complete."""
        os.pwrite(self._descriptor, b"\1", self._size + number)

    def clear(self) -> None:
        """Begin anew."""
        os.ftruncate(self._descriptor, 0)

    def drop(self) -> None:
        """Remove the file: what it holds is of no use."""
        with suppress(FileNotFoundError):
            os.unlink(self._temporary, dir_fd=self._directory)

    def finish(self, *, mtime: int) -> None:
        """Give the complete file its name and time, over whatever had that name."""
        os.ftruncate(self._descriptor, self._size)
        with suppress(OverflowError, OSError):  # a time this disk cannot keep
            os.utime(self._descriptor, (mtime, mtime))
        os.replace(
            self._temporary, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory
        )


def _open_ours(directory: int, name: bytes) -> int | None:
    """Open a file for this process alone; ``None`` where another one has it, or it is not ours.

    Its name can be foreseen, so somebody may have put something else there: a symbolic link is
    not followed, and a file that has another name as well is not touched.
    """
    import fcntl

    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(name, flags, 0o666, dir_fd=directory)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EACCES}:
            return None
        raise
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Between opening and locking it, another process may have finished it.
        status, named = os.fstat(descriptor), os.stat(name, dir_fd=directory, follow_symlinks=False)
        if (
            os.path.samestat(status, named)
            and stat.S_ISREG(status.st_mode)
            and status.st_nlink == 1
        ):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError as error:
        if error.errno not in {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS}:
            os.close(descriptor)
            raise
    os.close(descriptor)
    return None


def _digest(descriptor: int, check: Callable[[], None]) -> str:
    from blake3 import blake3

    hasher = blake3()
    while piece := os.read(descriptor, _PIECE):
        hasher.update(piece)
        check()
    return hasher.hexdigest()


def _enter(parent: int, name: bytes, *, make: bool) -> int:
    """Open a directory inside an opened one, making it where it is missing."""
    try:
        try:
            return os.open(name, _DIRECTORY, dir_fd=parent)
        except FileNotFoundError:
            if not make:
                raise
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

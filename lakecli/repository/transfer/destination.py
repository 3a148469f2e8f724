"""Write files below a local directory, and never outside of it.

Names come from a bucket and are not trusted: every component is checked, directories are entered
one by one without following symbolic links, and a file gets its name only when it is complete. The
parts of a large object may arrive in any order. They are written to a `Partial` file; if this
process is killed, the next process resumes the download with this file.

Names are relative to the root, with slashes. A name that leads out of the root, or that no file can
have, raises `UnsafeName`. `translated` lists the exceptions that are raised for errors of the disk.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from itertools import chain
from threading import Lock
from typing import Final, NamedTuple, Self
from unicodedata import normalize

from blake3 import blake3

from lakecli.base.identity import is_md5
from lakecli.base.os_errors import MACHINE_HINTS
from lakecli.base.temporary_files import create_temporary, remove_leftovers
from lakecli.errors import LakeError, PermissionDenied, Unreachable, UsageError
from lakecli.repository.reading.addresses import lies_below, real_path
from lakecli.repository.reading.lakefs_digests import LakeFsHasher
from lakecli.repository.reading.recorded import PIECE
from lakecli.repository.transfer.plan import PathAction
from lakecli.stores.local.files import closing, open_below
from lakecli.stores.uri import is_local

ANOTHER_CASE: Final = "a file has this name, but for upper and lower case or the form of a letter"
IN_NAMESPACE: Final = "lies in the repository's namespace"


class UnsafeName(UsageError):
    """A path cannot be a file below the destination, or the destination is not a directory."""


class ObstructedFile(UnsafeName):
    """A file or directory cannot be created because something else already has its name."""


class UnwritableFile(PermissionDenied):
    """A file or directory that this user may not write."""


class ReadOnlyDisk(UnwritableFile):
    """The file system is read-only."""


class NoRoom(Unreachable):
    """The disk is full or fails, or this process has too many open files."""


ENDS_ALL: Final = (ReadOnlyDisk, NoRoom)
"""Errors that would occur for every further file, too."""


def is_marker(name: bytes, size: int) -> bool:
    """Return whether an object is a directory marker: it is empty and its name ends in a slash.

    An object with bytes is data even if its name ends in a slash. It must not be skipped, although
    no file can have its name.
    """
    return not size and (not name or name.endswith(b"/"))


class FileStamp(NamedTuple):
    """File metadata, part of which changes whenever the file is modified or replaced."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Self:
        """Return the stamp of a file from a result of `os.stat`."""
        times = status.st_mtime_ns, status.st_ctime_ns
        return cls(status.st_dev, status.st_ino, status.st_size, *times)


class Destination:
    """A directory below which files are written. Close it, or use it as a context manager.

    Directories are created when the first file is written to them. Safe to share between threads.

    Args:
        root: the directory; it may be a symbolic link, because the user named it.
        namespace: URI of a storage namespace in which nothing is written; ``""``: no limit.

    Raises:
        UnsafeName: the root is not a directory, or is in the namespace.
    """

    def __init__(self, root: bytes, *, namespace: str = "") -> None:
        self._path = root or b"."
        self._own: os.stat_result | None = None
        self._root: int | None = None
        self._lock = Lock()
        self._cleared: set[tuple[int, int]] = set()
        if os.path.lexists(self._path) and not os.path.isdir(self._path):
            raise UnsafeName(f"not a directory: {os.fsdecode(self._path)!r}")
        if lies_below(os.fsdecode(self._path), "", [namespace]):
            raise UnsafeName(f"{os.fsdecode(self._path)!r} {IN_NAMESPACE}")
        if is_local(namespace):
            with suppress(FileNotFoundError):
                self._own = os.stat(real_path(namespace))

    def close(self) -> None:
        """Close the directory."""
        if self._root is not None:
            os.close(self._root)
            self._root = None

    def __enter__(self) -> Self:
        """Return the destination."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the destination."""
        self.close()

    def write(self, name: bytes, pieces: Iterable[bytes], *, mtime: int | None = None) -> int:
        """Write one file, and return its size; an existing file is replaced at the end, atomically.

        Args:
            pieces: the bytes of the file, in order. If the iterator raises, nothing is written.

        Raises:
            UnsafeName: the name leads out of the root, or cannot be a file.
        """
        _components(name)  # refuse an unsafe name before any byte is read
        remaining = iter(pieces)
        first = next(remaining, b"")
        size = 0
        with self.partial(name) as file:
            for piece in chain([first], remaining):
                file.write(piece, size)
                size += len(piece)
            # The file is still locked, so no other process removes it as a leftover.
            file.finish(mtime=mtime)
        return size

    def state_of(
        self,
        name: bytes,
        *,
        size: int,
        digest: str | None,
        mtime: int | None = None,
        trusts_time: bool = False,
        sets_time: bool = True,
        check: Callable[[], None] = lambda: None,
    ) -> PathAction:
        """Compare an existing file with the object that is to be downloaded to its path.

        The result is what a download would do: new, if there is no file; unchanged, if the file has
        the contents of the object; otherwise changed.

        If the file has the contents of the object, its modification time is set to `mtime`, unless
        `sets_time` is false.

        Args:
            digest: the BLAKE3 of the object in 64 hex digits, or its MD5 in 32. ``None``: the
                digest is unknown, so the contents cannot be compared; see `trusts_time`.
            trusts_time: whether a file with the size and time of the object counts as the same if
                the digest is unknown. If false, every file then counts as different.
            check: called often while the file is read; an error that it raises ends the reading.
        """
        try:
            with self._parent(name, make=False) as (directory, components):
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                descriptor = os.open(components[-1], flags, dir_fd=directory)
        except FileNotFoundError:
            return PathAction.NEW
        except UnwritableFile:
            # The permissions of the directory decide whether the file can be replaced.
            return PathAction.CHANGED
        except UnsafeName as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.ELOOP:
                return PathAction.CHANGED  # a symbolic link, which is replaced
            raise
        with closing(descriptor):
            status = os.fstat(descriptor)
            self._check_name(components, status)
            is_timely = mtime is not None and status.st_mtime_ns // 1_000_000_000 == mtime
            is_same = stat.S_ISREG(status.st_mode) and status.st_size == size
            if digest is None:
                is_same = is_same and trusts_time and is_timely
            else:
                is_same = is_same and has_digest(descriptor, digest, check)
            if not is_same:
                return PathAction.CHANGED
            if sets_time and mtime is not None and not is_timely:
                with suppress(OverflowError, OSError):
                    os.utime(descriptor, (mtime, mtime))
            return PathAction.UNCHANGED

    @contextmanager
    def _parent(self, name: bytes, *, make: bool = True) -> Iterator[tuple[int, list[bytes]]]:
        """Open the directory of a file; yield its descriptor, and the components of the name."""
        components = _components(name)
        path = self._path + b"/" + name
        with translated(path), self._directory(components[:-1], make=make) as directory:
            yield directory, components

    @contextmanager
    def partial(self, name: bytes, tag: bytes = b"", *, size: int = 0) -> "Iterator[Partial]":
        """Open a file, in the directory of the final file, that collects an object.

        With a tag, the file is called ``.lakecli-TAG.partial``, and stays if the block raises, so
        that the next process can resume. Without a tag, or if another process uses that file, a new
        file is opened, which is removed if the block raises.
        """
        with self._parent(name) as (directory, components):
            temporary = b".lakecli-" + tag + b".partial"
            descriptor = open_exclusively(directory, temporary) if tag else None
            is_shared = descriptor is not None
            if descriptor is None:
                created, descriptor = create_temporary(mode=0o666, dir_fd=directory)
                temporary = os.fsencode(created)
            publish = partial(self._publish, directory, temporary, components)
            file = Partial(directory, temporary, descriptor, publish, size)
            try:
                yield file
            except BaseException:
                if not is_shared:
                    file.drop()
                raise
            finally:
                os.close(descriptor)

    def make_directory(self, name: bytes) -> None:
        """Make a directory and its parents, unless they exist."""
        with translated(self._path + b"/" + name), self._directory(_components(name)):
            pass

    def open_directory(self, name: bytes) -> AbstractContextManager[int]:
        """Open a directory below the root (``b""``: the root itself); make it if it is missing."""
        return self._directory(_components(name) if name else [])

    def delete(
        self,
        name: bytes,
        *,
        seen: FileStamp | None = None,
        keeps: Callable[[bytes], bool] = lambda _directory: False,
    ) -> bool:
        """Remove a file, if it exists, and the directories that become empty.

        For a symbolic link, the link itself is removed, not its target.

        Args:
            seen: if given, the file is removed only if it still has this stamp.
            keeps: returns whether a directory stays even if it is empty.

        Returns:
            Whether the file was removed.

        Raises:
            UnsafeName: the name leads out of the root, cannot be a file, or names a directory.
        """
        is_removed = False
        parents = _components(name)[:-1]
        with suppress(FileNotFoundError), self._parent(name, make=False) as (directory, components):
            if seen is not None:
                status = os.stat(components[-1], dir_fd=directory, follow_symlinks=False)
                if FileStamp.of(status) != seen:
                    return False
            os.unlink(components[-1], dir_fd=directory)
            is_removed = True
        while parents and not keeps(b"/".join(parents)):
            *parents, last = parents
            try:
                with self._directory(parents, make=False) as directory:
                    os.rmdir(last, dir_fd=directory)
            except (OSError, UnsafeName):
                break  # the directory is not empty
        return is_removed

    def _publish(self, directory: int, temporary: bytes, components: list[bytes]) -> None:
        """Rename a complete file to its final name; replace a file or an empty directory."""
        name = components[-1]
        replace = partial(os.replace, temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        with self._lock:  # this file system may treat another thread's name as the same name
            with suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=directory, follow_symlinks=False)
                self._check_name(components, status)
            try:
                replace()
            except IsADirectoryError:
                if not remove_empty(name, directory):
                    raise
                replace()

    def _check_name(self, components: list[bytes], status: os.stat_result) -> None:
        """Raise `ObstructedFile` if the directory lists the existing file under another name.

        Some file systems ignore differences in case, or in the Unicode normalization form.
        """
        for other in _other_forms(b"/".join(components)):
            with suppress(OSError):
                found = os.stat(self._path + b"/" + other, follow_symlinks=False)
                if os.path.samestat(found, status):
                    break
        else:
            return
        above = self._path
        for component in components:
            if not has_name(above, component):
                raise ObstructedFile(ANOTHER_CASE)
            above += b"/" + component

    @contextmanager
    def _directory(self, components: list[bytes], *, make: bool = True) -> Iterator[int]:
        current = self._open_root(make=make)
        try:
            for component in components:
                above, current = current, _enter(current, component, make=make)
                os.close(above)
                # Not compared by name, whose case may not matter to the file system.
                if self._own is not None and os.path.samestat(os.fstat(current), self._own):
                    raise UnsafeName(f"the directory {os.fsdecode(component)!r} {IN_NAMESPACE}")
            if make:
                self._remove_leftovers(current)
            yield current
        finally:
            os.close(current)

    def _remove_leftovers(self, directory: int) -> None:
        """Remove temporary files of killed downloads from a directory, once per directory."""
        status = os.fstat(directory)
        place = status.st_dev, status.st_ino
        with self._lock:
            is_new = place not in self._cleared
            self._cleared.add(place)
        if is_new:
            remove_leftovers(directory)

    def _open_root(self, *, make: bool) -> int:
        with self._lock:
            if self._root is None:
                if make:
                    os.makedirs(self._path, exist_ok=True)
                self._root = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            return os.dup(self._root)


def has_digest(descriptor: int, digest: str, check: Callable[[], None] = lambda: None) -> bool:
    """Return whether `digest` is an open file's BLAKE3, or the checksum that lakeFS would record.

    Args:
        check: called often while the file is read; an error that it raises ends the reading.
    """
    hasher = LakeFsHasher(os.fstat(descriptor).st_size) if is_md5(digest) else blake3()
    while piece := os.read(descriptor, PIECE):
        hasher.update(piece)
        check()
    return hasher.has(digest) if isinstance(hasher, LakeFsHasher) else hasher.hexdigest() == digest


def _enter(parent: int, name: bytes, *, make: bool) -> int:
    """Open a directory inside another one; make it if it is missing."""
    try:
        return open_below(parent, name, create=make, sync=False)
    except OSError as error:
        if error.errno not in {errno.ENOTDIR, errno.ELOOP}:
            raise
        what = f"{os.fsdecode(name)!r} is a file or a symbolic link, not a directory"
        raise ObstructedFile(what) from None


def _other_forms(path: bytes) -> set[bytes]:
    """Return other spellings of a path, which some file systems treat as the same path."""
    found = {path.swapcase()}
    with suppress(UnicodeDecodeError):
        text = path.decode()
        forms = (text.swapcase(), normalize("NFC", text), normalize("NFD", text))
        found.update(each.encode() for each in forms)
    return found - {path}


def has_name(directory: int | bytes, name: bytes) -> bool:
    """Return whether a directory lists exactly this name, including upper and lower case."""
    with os.scandir(directory) as listing:
        return any(os.fsencode(each.name) == name for each in listing)


def remove_empty(name: bytes, directory: int) -> bool:
    """Remove a directory and its subdirectories unless they have files; return whether removed."""
    with suppress(OSError):
        for _, names, files, descriptor in os.fwalk(name, topdown=False, dir_fd=directory):
            if files:
                return False
            for each in names:
                os.rmdir(each, dir_fd=descriptor)
        os.rmdir(name, dir_fd=directory)
        return True
    return False


def _components(name: bytes) -> list[bytes]:
    if not name:
        raise UnsafeName("no file can have a name that ends in a slash")
    components = name.split(b"/")
    for component in components:
        if component in (b"", b".", b"..") or b"\0" in component:
            raise UnsafeName(f"no file can have the name {os.fsdecode(name)!r}")
    return components


_KINDS: Final[dict[int, type[LakeError]]] = {
    **dict.fromkeys(MACHINE_HINTS, NoRoom),
    **dict.fromkeys((errno.EACCES, errno.EPERM), UnwritableFile),
    errno.EROFS: ReadOnlyDisk,
    **dict.fromkeys((errno.ENAMETOOLONG, errno.EINVAL), UnsafeName),
    **dict.fromkeys((errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ELOOP), ObstructedFile),
}


@contextmanager
def translated(name: bytes) -> Iterator[None]:
    """Translate the operating system's errors about a local file.

    Raises:
        UnsafeName: the name is too long.
        ObstructedFile: something else is at the path, such as a directory.
        UnwritableFile: this user may not write to the path.
        ReadOnlyDisk: the file system is read-only.
        NoRoom: the disk is full or fails, or too many files are open.
    """
    try:
        yield
    except OSError as error:
        number, reason = error.errno or 0, (error.strerror or str(error)).lower()
        if number not in _KINDS:
            raise
        message = f"cannot write {os.fsdecode(name)!r}: {reason}"
        raise _KINDS[number](message, hint=MACHINE_HINTS.get(number)) from error


class Partial(NamedTuple):
    """A file whose parts are written in any order. Safe to share between threads.

    After the bytes of the object, the file has one byte for each part. This byte is written after
    its part, so the file of a killed process shows which parts are complete. After a power failure,
    the file may show too many parts; the digest of the object reveals that.

    Attributes:
        temporary: name of the file in `directory`.
        publish: renames the complete file to its final name.
        size: bytes of the object; 0: the size is unknown, and the file has no bytes for parts.
    """

    directory: int
    temporary: bytes
    descriptor: int
    publish: Callable[[], None]
    size: int

    def complete_parts(self, count: int) -> set[int]:
        """Return the numbers of the complete parts; parts are numbered from 0 to `count` - 1."""
        marks = os.pread(self.descriptor, count, self.size)
        return {number for number, mark in enumerate(marks) if mark}

    def write(self, piece: bytes, position: int) -> None:
        """Write bytes of the object."""
        view = memoryview(piece)
        while view:
            written = os.pwrite(self.descriptor, view, position)
            view = view[written:]
            position += written

    def read(self, position: int, size: int) -> bytes:
        """Read bytes of the object."""
        return os.pread(self.descriptor, min(size, self.size - position), position)

    def mark(self, number: int) -> None:
        """Record that a part is complete."""
        os.pwrite(self.descriptor, b"\1", self.size + number)

    def clear(self) -> None:
        """Discard all parts."""
        os.ftruncate(self.descriptor, 0)

    def drop(self) -> None:
        """Remove the file."""
        with suppress(FileNotFoundError):
            os.unlink(self.temporary, dir_fd=self.directory)

    def finish(self, *, mtime: int | None) -> None:
        """Set the modification time, and rename the file to its final name."""
        if self.size:
            os.ftruncate(self.descriptor, self.size)
        if mtime is not None:
            with suppress(OverflowError, OSError):  # a time that this disk cannot store
                os.utime(self.descriptor, (mtime, mtime))
        self.publish()


def open_exclusively(directory: int, name: bytes) -> int | None:
    """Open a file and lock it; return ``None`` if another process uses the file.

    The name is predictable: an attacker may have created a file with this name. So a symbolic link
    is not followed, and a file with a second hard link is not used.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(name, flags, 0o666, dir_fd=directory)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EACCES}:
            return None
        raise
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Between opening and locking, another process may have renamed the file.
        status, named = os.fstat(descriptor), os.stat(name, dir_fd=directory, follow_symlinks=False)
        is_sole = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
        if is_sole and os.path.samestat(status, named):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError as error:
        if error.errno not in {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS}:
            os.close(descriptor)
            raise
    os.close(descriptor)
    return None

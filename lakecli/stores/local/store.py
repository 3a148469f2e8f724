"""The adapter of a directory: one file per object, written under a temporary name and renamed.

A directory does not keep content types and metadata; the entries of a tree record them anyway. It
cannot keep objects whose keys are not possible paths of files; see `directory.split_key`. An
object's version consists of the modification time in nanoseconds, the inode and the size of its
file, which are known without reading the file. Each write creates a new inode, and
`RootDirectory.stamp` makes the times of one key strictly ascending.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from io import BufferedReader, FileIO
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from lakecli import native
from lakecli.errors import Unsupported
from lakecli.stores import contract
from lakecli.stores.contract import PLAIN, Attributes, Condition, ObjectInfo, Version, key_bytes
from lakecli.stores.local import files
from lakecli.stores.local.directory import TEMPORARY, RootDirectory, is_possible_path, split_key

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from lakecli.stores.capabilities import Access
    from lakecli.stores.local.batch import LocalBatch
    from lakecli.stores.presigned_urls import PresignedUrl, PresignRequest


T = TypeVar("T")

RESERVED = b"/".join((*TEMPORARY, b""))
"""The prefix of the keys of temporary files, which are not objects."""

COPY_SIZE = 1 << 20
COPY_LIMIT = 1 << 30


class DirectoryStore:
    """A namespace in a directory on this machine.

    The class has the methods of its capabilities, but not their protocols as base classes: short
    commands do not need the protocols, and should not have to import `capabilities`.

    Args:
        root: absolute path of an existing directory.
        clock_ns: the store's clock, a function like `time.time_ns`.
    """

    def __init__(self, root: str, *, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._directory = RootDirectory(root, clock_ns=clock_ns)
        self._parents: set[str] = set()
        """Directories of `local_path` that are not reached through symbolic links, by prefix."""

    @property
    def uri(self) -> str:
        """``local://`` and the path of the directory."""
        return f"local://{self._directory.root}"

    def prepare(self) -> str:
        """Create the directory and its missing parents; see `registry.prepare_namespace`."""
        self._directory.make_root()
        return ""

    def get(
        self, key: str, *, start: int = 0, length: int | None = None, matching: str = ""
    ) -> bytes:
        """Return a range of an object; see `ObjectStore.get`."""
        contract.check_range(start, length)
        descriptor, status = self._open_file(key)
        first = max(status.st_size + start, 0) if start < 0 else start
        left = max(status.st_size - first, 0)
        try:
            data = files.read_range(
                descriptor, first, left if length is None else min(length, left)
            )
            if matching:  # checked after reading: another program may write to the file meanwhile
                status = os.fstat(descriptor)
        except OSError as error:
            raise self._directory.translate(error, key) from error
        finally:
            os.close(descriptor)
        contract.check_matching(matching, key, files.version_of(status))
        return data

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        """Return an object and its version, both read from one open file."""
        descriptor, status = self._open_file(key)
        with os.fdopen(descriptor, "rb") as file, self._directory.translated(key):
            return file.read(length), files.version_of(status)

    def open(self, key: str, *, matching: str = "") -> BinaryIO:
        """Open an object's file for reading."""
        descriptor, status = self._open_file(key)
        file = _ObjectFile(descriptor, self._directory, key, matching)
        try:
            contract.check_matching(matching, key, files.version_of(status))
        except contract.ConditionFailed:
            file.close()
            raise
        return BufferedReader(file)

    def put(
        self, key: str, body: bytes | BinaryIO, condition: Condition, attributes: Attributes = PLAIN
    ) -> Version:
        """Write an object; attributes are ignored, because a directory cannot keep them."""
        del attributes
        return _put(self._directory, key, condition, partial(_write_body, body))

    def put_new(self, key: str, body: bytes) -> bool:
        """Write `body` unless the key exists; return whether the key was absent.

        An existing object is synced, since its writer may not have synced it yet.
        """
        try:
            self.put(key, body, contract.ABSENT)
        except contract.ConditionFailed:
            self.settle(key)
            return False
        return True

    def settle(self, key: str) -> None:
        """Sync an object and its directories, since its writer may not have synced them yet."""
        with self._directory.translated(key):
            files.sync_published(self._directory.root, key)

    def head(self, key: str) -> ObjectInfo:
        """Return the properties of an object."""
        status = self._status(key)
        if status is None:
            raise self._not_found(key)
        return files.info_of(key, status)

    def _status(self, key: str) -> os.stat_result | None:
        """Return the status of an object's file, or ``None`` if there is no such object."""
        names = split_key(key)
        with self._directory.translated(key):
            try:
                with self._directory.opened(names[:-1]) as parent:
                    return files.object_status(parent, names[-1])
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects under `prefix` in byte order of their full keys.

        Directories are read one at a time. Symbolic links and special files are skipped.
        """
        wanted, floor = key_bytes(prefix), key_bytes(after)
        above, slash, _ = wanted.rpartition(b"/")
        names = above.split(b"/") if slash else []
        self._directory.check_root()
        if tuple(names[:2]) == TEMPORARY or (slash and not is_possible_path(above)):
            return  # no key starts like this
        with self._directory.translated(prefix or "the root"):
            try:
                descriptor = self._directory.open_directory(names)
            except (FileNotFoundError, NotADirectoryError):
                return
            yield from _walk(descriptor, above + slash, wanted, floor)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; a missing one is ignored. Directories are kept: writers may use them."""
        _delete(self._directory, ((key, None) for key in keys))

    def delete_matching(self, objects: Iterable[tuple[str, Version]]) -> Collection[str]:
        """Delete the objects that still have the given versions; see `DeletesMatching`."""
        return _delete(self._directory, objects)

    def renew(self, key: str) -> None:
        """Give an object a new time and version, under the lock of the namespace.

        Because of the lock, `delete_matching` either finds the new version and keeps the object, or
        deletes the object first, which raises `ObjectNotFound` here.
        """
        names = split_key(key)
        root = self._directory
        with root.translated(key):
            try:
                with (
                    root.opened(names[:-1]) as parent,
                    root.opened(TEMPORARY, create=True) as temporaries,
                    root.locked(temporaries),
                ):
                    current = files.object_status(parent, names[-1])
                    if current is None:
                        raise self._not_found(key)
                    root.stamp_object(parent, names[-1], current)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                raise self._not_found(key) from None
            except PermissionError:
                # The file has another owner, in a shared directory: replace it with a copy.
                self.copy(key, key)

    def copy(self, source: str, key: str) -> None:
        """Copy one object, inside the kernel if possible."""
        with files.closing(self._open_file(source)[0]) as original:
            _put(self._directory, key, contract.ANY, partial(_copy_body, original))

    def presign(self, key: str, request: PresignRequest, *, now: datetime) -> PresignedUrl:
        """Raise `Unsupported`, because files have no URLs."""
        del request, now
        raise Unsupported(
            f"cannot presign, {self.uri} is a directory of this machine: {key!r}",
            hint="only buckets have URLs; fetch the object: `fs download PATH DEST`",
        )

    def access(self) -> Access:
        """Describe the user who opens the files, as the credentials in use."""
        from lakecli.stores.capabilities import Access

        user = os.geteuid()
        try:
            identity = pwd.getpwuid(user).pw_name
        except KeyError:  # a user of a container may have no name
            identity = str(user)
        return Access(kind="user", identity=identity, source="this process")

    def prune(self, prefix: str) -> None:
        """Remove the directory of a prefix if it is empty.

        Also remove lakecli's directory of temporary files, if the namespace has no other files of
        lakecli.
        """
        names = key_bytes(prefix).rstrip(b"/").split(b"/")
        with self._directory.translated(prefix):
            with (
                suppress(FileNotFoundError),
                self._directory.opened(names[:-1]) as parent,
                suppress(OSError),
            ):
                os.rmdir(names[-1], dir_fd=parent)
            with suppress(FileNotFoundError):
                self._directory.remove_own()

    def clear_temporaries(self) -> None:
        """Remove the temporary files of killed processes; see `batch.clear_temporaries`."""
        with self._directory.translated("temporary files"):
            from lakecli.stores.local.batch import clear_temporaries

            clear_temporaries(self._directory)

    def local_path(self, key: str) -> str | None:
        """Return the path of the object's file, or ``None`` if there is no such object."""
        parent = key[: key.rfind("/") + 1]  # with its slash: "/x" is not a key beside "y"
        path = os.path.join(self._directory.root, os.fsdecode(key_bytes(key)))
        if parent in self._parents:
            with suppress(OSError, ValueError):
                if stat.S_ISREG(os.lstat(path).st_mode):
                    return path
        if self._status(key) is None:
            return None
        self._parents.add(parent)
        return path

    def batch(self) -> LocalBatch:
        """Start a batch of writes that one sync of the file system makes durable."""
        from lakecli.stores.local.batch import LocalBatch

        return LocalBatch(self._directory)

    def get_together(
        self, core: native.Core, keys: Sequence[str], limit: int
    ) -> Sequence[bytes | None]:
        """Return many objects of at most `limit` bytes, in the order of `keys`.

        The result is ``None`` for each object that the caller must read separately.

        Args:
            keys: content addresses, sorted.
        """
        found: list[tuple[bytes, int] | None] = []
        split = (key.rpartition("/") for key in keys)
        for parent, group in groupby(split, key=itemgetter(0)):
            names = [name.encode() for _, _, name in group]
            read: list[tuple[bytes, int] | None] = [None] * len(names)
            with suppress(OSError), self._directory.opened(split_key(parent)) as directory:
                read = core.read_files(directory, names, limit)
            found += read
        return [None if each is None else each[0] for each in found]

    def _open_file(self, key: str) -> tuple[int, os.stat_result]:
        names = split_key(key)
        try:
            return self._directory.open_file(names)
        except (FileNotFoundError, NotADirectoryError):
            raise self._not_found(key) from None
        except OSError as error:
            raise self._directory.translate(error, key) from error

    def _not_found(self, key: str) -> contract.ObjectNotFound:
        return contract.ObjectNotFound(f"no such object in {self.uri}: {key!r}")


class _ObjectFile(FileIO):
    """An object's file, open for reading; its methods raise lakecli's errors.

    After each read, the file must match, because another program may write to it meanwhile.
    """

    def __init__(self, descriptor: int, root: RootDirectory, key: str, matching: str) -> None:
        super().__init__(descriptor)
        self._root = root
        self._key = key
        self._matching = matching

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        return self._checked(partial(super().readinto, buffer))

    def readall(self) -> bytes:
        return self._checked(super().readall)

    def _checked(self, read: Callable[[], T]) -> T:
        try:
            found = read()
            status = os.fstat(self.fileno()) if self._matching else None
        except OSError as error:
            raise self._root.translate(error, self._key) from error
        if status is not None:
            contract.check_matching(self._matching, self._key, files.version_of(status))
        return found


def _walk(descriptor: int, above: bytes, wanted: bytes, floor: bytes) -> Iterator[ObjectInfo]:
    """Yield the objects below an open directory, and close the directory.

    Args:
        descriptor: descriptor of the directory; this function closes it.
        above: the directory's key, with a trailing slash; empty for the root.
        wanted: the prefix of every key to yield.
        floor: the key after which the listing begins.
    """
    try:
        # Append a slash to directories, so that they sort like their keys: "a-b" before "a/b".
        names = []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                name = os.fsencode(entry.name)
                if entry.is_dir(follow_symlinks=False):
                    name += b"/"
                elif entry.is_symlink():
                    continue
                if (above + name).startswith(wanted) or wanted.startswith(above + name):
                    names.append(name)
        names.sort()
        for name in names:
            key = above + name
            if name.endswith(b"/"):
                if (key > floor or floor.startswith(key)) and key != RESERVED:
                    with suppress(FileNotFoundError):  # deleted since it was listed
                        below = files.open_below(descriptor, name[:-1], create=False, sync=False)
                        yield from _walk(below, key, wanted, floor)
            elif key > floor and key.startswith(wanted):
                status = files.status_of(descriptor, name)
                if status is not None and stat.S_ISREG(status.st_mode):
                    yield files.info_of(key.decode("utf-8", "surrogateescape"), status)
    finally:
        os.close(descriptor)


def _delete(root: RootDirectory, objects: Iterable[tuple[str, Version | None]]) -> Sequence[str]:
    """Delete objects that have these versions (``None``: any); return the keys of the kept ones."""
    kept = []
    with root.translated("temporary files"):
        opened = root.open_directory(TEMPORARY, create=True)
    with files.closing(opened) as temporaries:
        for key, version in objects:
            names = split_key(key)
            with (
                root.translated(key),
                suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError),
                root.opened(names[:-1]) as parent,
                root.locked(temporaries),
            ):
                current = files.object_status(parent, names[-1])
                if current is None:
                    continue
                if version is None or files.version_of(current) == version:
                    os.unlink(names[-1], dir_fd=parent)
                else:
                    kept.append(key)
    return kept


def _put(
    root: RootDirectory, key: str, condition: Condition, write: Callable[[int], None]
) -> Version:
    """Write an object under a temporary name, and rename it to its key; return its version.

    Args:
        condition: the condition that the current object of the key must meet.
    """
    names = split_key(key)
    with (
        root.translated(key),
        root.opened(names[:-1], create=True) as parent,
        root.opened(TEMPORARY, create=True) as temporaries,
    ):
        # Check now, to avoid a useless write. The condition is checked again under the lock.
        _check(condition, files.object_status(parent, names[-1]), key)
        temporary, descriptor = root.create_temporary(temporaries)
        try:
            write(descriptor)
            root.stamp(descriptor)
            files.sync_file(descriptor)
            if isinstance(condition, contract.Absent):
                root.publish_new(temporaries, temporary, parent, names[-1], source=temporaries)
            else:
                with root.locked(temporaries):
                    current = files.object_status(parent, names[-1])
                    _check(condition, current, key)
                    if current is not None:
                        root.stamp(descriptor, later_than=current.st_mtime_ns)
                    os.rename(temporary, names[-1], src_dir_fd=temporaries, dst_dir_fd=parent)
            version = files.version_of(os.fstat(descriptor))
        except BaseException as error:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=temporaries)
            if isinstance(error, FileExistsError):
                there = f"object is there already, nothing was written: {key!r}"
                raise contract.ConditionFailed(there) from None
            raise
        finally:
            os.close(descriptor)
        files.sync_names(parent)
    return version


def _check(condition: Condition, current: os.stat_result | None, key: str) -> None:
    contract.check_condition(condition, None if current is None else files.version_of(current), key)


def _write_body(body: bytes | BinaryIO, descriptor: int) -> None:
    """Write bytes, or the rest of an open file."""
    if isinstance(body, bytes | bytearray | memoryview):
        files.write_all(descriptor, body)
        return
    from lakecli.stores.streams import waited  # loads the capabilities

    while piece := waited(body.read(COPY_SIZE)):
        files.write_all(descriptor, piece)


def _copy_body(source: int, descriptor: int) -> None:
    """Copy a file, inside the kernel if possible."""
    copy_range = getattr(os, "copy_file_range", None)  # macOS has none
    try:
        while copy_range is not None and copy_range(source, descriptor, COPY_LIMIT):
            pass
    except OSError as error:
        # Other errors: this file system cannot copy in the kernel, so read and write instead.
        if error.errno in {errno.EIO, errno.ENOSPC, errno.EDQUOT}:
            raise
    offset = os.lseek(descriptor, 0, os.SEEK_CUR)
    while piece := os.pread(source, COPY_SIZE, offset):
        files.write_all(descriptor, piece)
        offset += len(piece)

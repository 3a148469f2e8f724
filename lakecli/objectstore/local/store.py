"""A directory as a bucket: one file per object, written to a temporary name and moved.

A directory cannot keep content types and metadata (the entries of a tree hold them) and keys that
are no file names, see `directory.split_key`. An object's version is its modification time in
nanoseconds, its inode and its size: they need no read of the file, each put makes a new inode, and
`Directory.stamp` keeps the times of one key strictly ascending.
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress

from lakecli.errors import Unsupported
from lakecli.objectstore.base import (
    ABSENT,
    ANY,
    PLAIN,
    Absent,
    Attributes,
    ConditionFailed,
    Match,
    ObjectInfo,
    ObjectNotFound,
    Version,
    check_range,
    key_bytes,
)
from lakecli.objectstore.local.directory import TEMPORARY, Directory, are_possible, split_key
from lakecli.objectstore.local.files import (
    info_of,
    object_status,
    sync_file,
    sync_names,
    version_of,
    write_all,
)
from lakecli.typed import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from datetime import datetime, timedelta

    from lakecli.objectstore.access import Access
    from lakecli.objectstore.base import Condition
    from lakecli.objectstore.local.batch import LocalBatch
    from lakecli.objectstore.presigned import PresignedUrl, PresignRequest
    from lakecli.objectstore.uri import NamespaceUri

COPY_SIZE = 1 << 20
COPY_LIMIT = 1 << 30


class LocalStore:
    """A namespace in a directory of this machine.

    It has its capabilities by its methods alone: short commands need none of them, and importing
    `capabilities` takes 0.2 ms.

    Args:
        root: absolute path; it has to exist.
        clock_ns: the store's clock, as `time.time_ns`.
    """

    def __init__(self, root: str, *, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._directory = Directory(root, clock_ns=clock_ns)

    @property
    def uri(self) -> str:
        """``local://`` and the path of the directory."""
        return f"local://{self._directory.root}"

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Return a range of an object; see `ObjectStore.get`."""
        check_range(start, length)
        descriptor, status = self._open_file(key)
        try:
            size = status.st_size
            first = max(size + start, 0) if start < 0 else min(start, size)
            last = size if length is None else min(first + length, size)
            return _read(descriptor, first, last - first)
        except OSError as error:
            raise self._directory.translate(error, key) from error
        finally:
            os.close(descriptor)

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        """Return an object and its version: a published file never changes."""
        descriptor, status = self._open_file(key)
        try:
            with self._directory.translated(key):
                size = status.st_size if length is None else min(length, status.st_size)
                return _read(descriptor, 0, size), version_of(status)
        finally:
            os.close(descriptor)

    def open(self, key: str) -> BinaryIO:
        """Open an object's file for reading."""
        descriptor, _ = self._open_file(key)
        return os.fdopen(descriptor, "rb")

    def put(
        self, key: str, body: bytes | BinaryIO, condition: Condition, attributes: Attributes = PLAIN
    ) -> Version:
        """Write an object; its attributes are not kept.

        Raises:
            ConditionFailed: `condition` did not hold.
        """
        del attributes
        return self._put(key, condition, lambda descriptor: _write(descriptor, body))

    def put_new(self, key: str, body: bytes) -> bool:
        """Write `body` unless the key exists; return whether it was absent."""
        try:
            self.put(key, body, ABSENT)
        except ConditionFailed:
            return False
        return True

    def head(self, key: str) -> ObjectInfo:
        """Describe one object."""
        names = split_key(key)
        with self._directory.translated(key):
            try:
                with self._directory.opened(names[:-1]) as parent:
                    status = object_status(parent, names[-1])
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                status = None
        if status is None:
            raise self._not_found(key)
        return info_of(key, status)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects under `prefix` in byte order of whole keys.

        Directories are read one at a time; symbolic links and special files are no objects.
        """
        from lakecli.objectstore.local.listing import walk

        wanted, floor = key_bytes(prefix), key_bytes(after)
        above, slash, _ = wanted.rpartition(b"/")
        names = above.split(b"/") if slash else []
        self._directory.check_root()
        if tuple(names[:2]) == TEMPORARY or not are_possible(names):
            return  # no key starts like this
        with self._directory.translated(prefix or "the root"):
            try:
                descriptor = self._directory.open_directory(names)
            except (FileNotFoundError, NotADirectoryError):
                return
            yield from walk(descriptor, above + slash, wanted, floor)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; a missing one is fine. Directories stay, as writers may be using them."""
        self._delete((key, None) for key in keys)

    def delete_matching(self, objects: Iterable[tuple[str, Version]]) -> Collection[str]:
        """Delete objects that are still of these versions."""
        return self._delete(objects)

    def _delete(self, objects: Iterable[tuple[str, Version | None]]) -> Sequence[str]:
        """Delete objects that have these versions, ``None`` for any; return the other keys."""
        files = self._directory
        kept = []
        with files.translated("temporary files"):
            temporaries = files.open_directory(TEMPORARY, create=True)
        try:
            for key, version in objects:
                names = split_key(key)
                with (
                    files.translated(key),
                    suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError),
                    files.opened(names[:-1]) as parent,
                    files.locked(temporaries),
                ):
                    current = object_status(parent, names[-1])
                    if current is None:
                        continue
                    if version is None or version_of(current) == version:
                        os.unlink(names[-1], dir_fd=parent)
                    else:
                        kept.append(key)
        finally:
            os.close(temporaries)
        return kept

    def renew(self, key: str) -> None:
        """Give an object a new time and version.

        Under the lock, so that `delete_matching` sees the new version, or this one no object.
        """
        names = split_key(key)
        files = self._directory
        with files.translated(key):
            try:
                with (
                    files.opened(names[:-1]) as parent,
                    files.opened(TEMPORARY, create=True) as temporaries,
                    files.locked(temporaries),
                ):
                    current = object_status(parent, names[-1])
                    if current is None:
                        raise self._not_found(key)
                    files.stamp_object(parent, names[-1], current)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                raise self._not_found(key) from None
            except PermissionError:
                # The file has another owner, in a directory shared with this user.
                self.copy(key, key)

    def copy(self, source: str, key: str) -> None:
        """Copy one object, inside the kernel if possible."""
        original, _ = self._open_file(source)
        try:
            self._put(key, ANY, lambda descriptor: _copy(original, descriptor))
        finally:
            os.close(original)

    def presign(self, key: str, request: PresignRequest, *, now: datetime) -> PresignedUrl:
        """Refuse: a directory has no URLs."""
        del request, now
        raise Unsupported(
            f"cannot presign, {self.uri} is a directory of this machine: {key!r}",
            hint="fetch the object with `lakecli fs download`; only buckets have URLs",
        )

    def access(self) -> Access:
        """Return the user who opens the files."""
        import pwd

        from lakecli.objectstore.access import Access

        user = os.geteuid()
        try:
            identity = pwd.getpwuid(user).pw_name
        except KeyError:  # a user of a container may have no name
            identity = str(user)
        return Access(kind="user", identity=identity, source="this process")

    def prune(self, prefix: str) -> None:
        """Remove the directory of a prefix if it is empty.

        Also removes lakecli's directory of temporary files if the namespace has no other of its
        files.
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

    def clear_temporaries(self, *, older_than: timedelta) -> int:
        """Remove the temporary files of killed processes; see `leftovers`."""
        with self._directory.translated("temporary files"):
            if not self._directory.has_temporaries():
                return 0
            from lakecli.objectstore.local.leftovers import clear_temporaries

            age_ns = int(older_than.total_seconds()) * 10**9
            return clear_temporaries(self._directory, before_ns=self._directory.now_ns() - age_ns)

    def local_path(self, key: str) -> str | None:
        """Return the object's file, or ``None`` if there is no such object."""
        try:
            self.head(key)
        except ObjectNotFound:
            return None

        return os.path.join(self._directory.root, os.fsdecode(key_bytes(key)))

    def batch(self) -> LocalBatch:
        """Start a batch, made durable by one sync of the file system."""
        from lakecli.objectstore.local.batch import LocalBatch

        return LocalBatch(self._directory)

    def _put(self, key: str, condition: Condition, write: Callable[[int], None]) -> Version:
        names = split_key(key)
        files = self._directory
        with (
            files.translated(key),
            files.opened(names[:-1], create=True) as parent,
            files.opened(TEMPORARY, create=True) as temporaries,
        ):
            # Checked here to save the write, and again under the lock.
            _check(condition, object_status(parent, names[-1]), key)
            temporary, descriptor = files.create_temporary(temporaries)
            try:
                write(descriptor)
                files.stamp(descriptor)
                sync_file(descriptor)
                if isinstance(condition, Absent):
                    files.publish_new(temporaries, temporary, parent, names[-1])
                else:
                    with files.locked(temporaries):
                        current = object_status(parent, names[-1])
                        _check(condition, current, key)
                        if current is not None:
                            files.stamp(descriptor, later_than=current.st_mtime_ns)
                        os.rename(temporary, names[-1], src_dir_fd=temporaries, dst_dir_fd=parent)
                version = version_of(os.fstat(descriptor))
            except BaseException as error:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=temporaries)
                if isinstance(error, FileExistsError):
                    raise _failed(key, "there already") from None
                raise
            finally:
                os.close(descriptor)
            sync_names(parent)
        return version

    def _open_file(self, key: str) -> tuple[int, os.stat_result]:
        names = split_key(key)
        try:
            return self._directory.open_file(names)
        except (FileNotFoundError, NotADirectoryError):
            raise self._not_found(key) from None
        except OSError as error:
            raise self._directory.translate(error, key) from error

    def _not_found(self, key: str) -> ObjectNotFound:
        return ObjectNotFound(f"no such object in {self.uri}: {key!r}")


def _failed(key: str, state: str) -> ConditionFailed:
    return ConditionFailed(f"object is {state}, nothing was written: {key!r}")


def _check(condition: Condition, current: os.stat_result | None, key: str) -> None:
    match condition:
        case Absent() if current is not None:
            raise _failed(key, "there already")
        case Match() if current is None:
            raise _failed(key, "not there")
        case Match(version) if current is not None and version_of(current) != version:
            raise _failed(key, "of another version")
        case _:
            pass


def _read(descriptor: int, start: int, length: int) -> bytes:
    data = os.pread(descriptor, length, start)
    if len(data) == length:
        return data
    pieces = [data]
    while data and (missing := length - sum(map(len, pieces))):
        data = os.pread(descriptor, missing, start + length - missing)
        pieces.append(data)
    return b"".join(pieces)


def _write(descriptor: int, body: bytes | BinaryIO) -> None:
    if isinstance(body, bytes | bytearray | memoryview):
        write_all(descriptor, body)
        return
    while piece := body.read(COPY_SIZE):
        write_all(descriptor, piece)


def _copy(source: int, descriptor: int) -> None:
    try:
        while os.copy_file_range(source, descriptor, COPY_LIMIT):
            pass
    except (AttributeError, OSError) as error:
        # This platform or file system cannot; a full disk fails again below.
        if getattr(error, "errno", None) in {errno.EIO, errno.ENOSPC, errno.EDQUOT}:
            raise
    offset = os.lseek(descriptor, 0, os.SEEK_CUR)
    while piece := os.pread(source, COPY_SIZE, offset):
        write_all(descriptor, piece)
        offset += len(piece)


def open_namespace(uri: NamespaceUri, *, region: str) -> LocalStore:
    """Return the store of a directory; see `registry.open_store`."""
    del region
    return LocalStore(uri.path)


def prepare_namespace(uri: NamespaceUri) -> str:
    """Make the directory and those above it; see `registry.prepare_namespace`."""
    Directory(uri.path, clock_ns=time.time_ns).make_root()
    return ""

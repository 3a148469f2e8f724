"""A directory as a bucket: one file per object, written to a temporary name and moved.

A directory cannot keep content types and metadata (the entries of a tree hold them) and keys that
are no file names, see `directory.split_key`. An object's version is its modification time in
nanoseconds, its inode and its size: they need no read of the file, each put makes a new inode, and
`RootDirectory.stamp` keeps the times of one key strictly ascending.
"""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, BinaryIO

from lakecli.errors import Unsupported
from lakecli.stores.capabilities import Access
from lakecli.stores.contract import (
    ABSENT,
    ANY,
    PLAIN,
    Attributes,
    Condition,
    ConditionFailed,
    ObjectInfo,
    ObjectNotFound,
    Version,
    check_range,
    key_bytes,
)
from lakecli.stores.local.directory import TEMPORARY, RootDirectory, are_possible, split_key
from lakecli.stores.local.files import info_of, object_status, sync_published, version_of
from lakecli.stores.uri import NamespaceUri

if TYPE_CHECKING:
    from lakecli.stores.local.batch import LocalBatch
    from lakecli.stores.presigning import PresignedUrl, PresignRequest


class DirectoryStore:
    """A namespace in a directory of this machine.

    It has its capabilities by its methods alone: short commands need none of them, and importing
    `capabilities` takes 0.2 ms.

    Args:
        root: absolute path; it has to exist.
        clock_ns: the store's clock, as `time.time_ns`.
    """

    def __init__(self, root: str, *, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._directory = RootDirectory(root, clock_ns=clock_ns)

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
        from lakecli.stores.local.writing import put, write_body

        return put(self._directory, key, condition, lambda descriptor: write_body(descriptor, body))

    def put_new(self, key: str, body: bytes) -> bool:
        """Write `body` unless the key exists; return whether it was absent.

        An object that exists is synced: its writer may not have done so yet.
        """
        try:
            self.put(key, body, ABSENT)
        except ConditionFailed:
            with self._directory.translated(key):
                sync_published(self._directory.root, key)
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
        from lakecli.stores.local.writing import walk

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
        from lakecli.stores.local.writing import delete

        delete(self._directory, ((key, None) for key in keys))

    def delete_matching(self, objects: Iterable[tuple[str, Version]]) -> Collection[str]:
        """Delete objects that are still of these versions."""
        from lakecli.stores.local.writing import delete

        return delete(self._directory, objects)

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
        from lakecli.stores.local.writing import copy_body, put

        original, _ = self._open_file(source)
        try:
            put(self._directory, key, ANY, lambda descriptor: copy_body(original, descriptor))
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
        from lakecli.stores.capabilities import Access

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
        from lakecli.stores.local.writing import prune

        prune(self._directory, prefix)

    def clear_temporaries(self, *, older_than: timedelta) -> int:
        """Remove the temporary files of killed processes; see `clear_temporaries`."""
        with self._directory.translated("temporary files"):
            if not self._directory.has_temporaries():
                return 0
            from lakecli.stores.local.staging_dirs import clear_temporaries

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
        from lakecli.stores.local.batch import LocalBatch

        return LocalBatch(self._directory)

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


def _read(descriptor: int, start: int, length: int) -> bytes:
    data = os.pread(descriptor, length, start)
    if len(data) == length:
        return data
    pieces = [data]
    while data and (missing := length - sum(map(len, pieces))):
        data = os.pread(descriptor, missing, start + length - missing)
        pieces.append(data)
    return b"".join(pieces)


def open_namespace(uri: NamespaceUri, *, region: str) -> DirectoryStore:
    """Return the store of a directory; see `registry.open_store`."""
    del region
    return DirectoryStore(uri.path)


def prepare_namespace(uri: NamespaceUri) -> str:
    """Make the directory and those above it; see `registry.prepare_namespace`."""
    RootDirectory(uri.path, clock_ns=time.time_ns).make_root()
    return ""

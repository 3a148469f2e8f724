"""Buckets in memory: the reference of the contract of stores.

A test adds a `MemoryBucket` to `BUCKETS`, and names it as ``memory://NAME/PREFIX`` wherever a
storage namespace is expected::

    BUCKETS["lake"] = MemoryBucket()
    store = open_store("memory://lake/sales")

`registry` knows no such buckets; this module adds them when it is imported.
"""

import io
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import RLock
from typing import BinaryIO, Final, Self

import google_crc32c

from lakecli.base.model import Account
from lakecli.errors import IntegrityError, Unsupported
from lakecli.stores import contract, registry
from lakecli.stores.capabilities import UnfinishedUpload, UploadedPart, UploadId, UploadNotFound
from lakecli.stores.contract import PLAIN, Attributes, Condition, ObjectInfo, Version
from lakecli.stores.presigned_urls import PresignedUrl, PresignRequest
from lakecli.stores.uri import NamespaceUri


@dataclass(frozen=True, slots=True)
class Stored:
    """An object in memory: its bytes and its properties."""

    body: bytes
    info: ObjectInfo


@dataclass(slots=True)
class MemoryUpload:
    """An unfinished upload: its key in the bucket, its times, and its parts by number."""

    key: str
    started_at: datetime
    changed_at: datetime | None = None
    parts: dict[int, bytes] = field(default_factory=dict)


class MemoryBucket:
    """The contents of a bucket; several stores may share a bucket, as clones share a real one.

    Args:
        clock: the store's clock. The default starts in 2001 and advances one second with each
            write, so that every run of a test has the same times.
        keeps_versions: whether to keep every version of every object.
    """

    def __init__(
        self, *, clock: Callable[[], datetime] | None = None, keeps_versions: bool = False
    ) -> None:
        self.objects: dict[str, Stored] = {}
        self.versions: dict[tuple[str, str], Stored] = {}
        self.keeps_versions = keeps_versions
        self.uploads: dict[str, MemoryUpload] = {}
        self.lock = RLock()
        self.writes = 0
        self._clock = clock

    def keep(self, full: str, stored: Stored) -> None:
        """Make `stored` the current object of a full name, and record the version."""
        self.objects[full] = stored
        if self.keeps_versions:
            self.versions[full, stored.info.version] = stored

    def now(self) -> datetime:
        """Return the time of the store's clock, in whole seconds."""
        if self._clock is None:
            return datetime(2001, 1, 1, tzinfo=UTC) + timedelta(seconds=self.writes)
        return self._clock().replace(microsecond=0)


BUCKETS: Final[dict[str, MemoryBucket]] = {}
"""The named buckets of this process; a program that adds one removes it afterwards."""


class MemoryStore:
    """One namespace in a `MemoryBucket`.

    The class has the methods of `DeletesMatching`, `HasUploads` and `VersionedStore`, but not these
    base classes, so that a subclass can remove a capability by setting its method to ``None``.

    Args:
        bucket: a bucket that other stores may share, or ``None`` for a new one.
        prefix: prefix of every key in the bucket; no slash is added.
        missing: whether to behave as if the bucket did not exist.
        name: name of the bucket in `BUCKETS`, if it has one.

    Attributes:
        version_id: ID of the version to read; ``""``: the current one.
    """

    version_id = ""

    def __init__(
        self,
        bucket: MemoryBucket | None = None,
        prefix: str = "",
        *,
        missing: bool = False,
        name: str = "",
    ) -> None:
        self._name = name
        self._bucket = MemoryBucket() if bucket is None else bucket
        self._prefix = prefix
        self._missing = missing

    @property
    def uri(self) -> str:
        """The URI of the namespace; only this process can open it."""
        place = f"{self._name}/{self._prefix}" if self._name else self._prefix
        return "memory://" + place.rstrip("/")

    def prepare(self) -> str:
        """Check that the bucket exists; see `registry.prepare_namespace`."""
        self._check_bucket()
        return ""

    def at_version(self, version_id: str) -> Self:
        """Return a store that reads a version; see `VersionedStore`."""
        found = copy(self)
        found.version_id = version_id
        return found

    def get(
        self, key: str, *, start: int = 0, length: int | None = None, matching: str = ""
    ) -> bytes:
        """Return a range of an object; see `ObjectStore.get`."""
        contract.check_range(start, length)
        body = self._find(key, matching).body
        return body[start:] if length is None else body[start : start + length]

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        """Return an object and its version."""
        stored = self._find(key)
        return stored.body[:length], stored.info.version

    def open(self, key: str, *, matching: str = "") -> BinaryIO:
        """Open an object for reading."""
        return io.BytesIO(self._find(key, matching).body)

    def put(
        self, key: str, body: bytes | BinaryIO, condition: Condition, attributes: Attributes = PLAIN
    ) -> Version:
        """Write an object; see `ObjectStore.put`."""
        if isinstance(body, bytes | bytearray | memoryview):
            data = bytes(body)
        else:
            data = b"".join(iter(lambda: body.read(1 << 20), b""))
        bucket = self._bucket
        with bucket.lock:
            self._check_bucket()
            current = bucket.objects.get(self._prefix + key)
            version = None if current is None else current.info.version
            contract.check_condition(condition, version, key)
            return self._keep(key, data, attributes)

    def _keep(self, key: str, data: bytes, attributes: Attributes) -> Version:
        bucket = self._bucket
        bucket.writes += 1
        version = Version(f"v{bucket.writes}")
        kept = attributes._replace(metadata=dict(attributes.metadata))
        info = ObjectInfo(key, len(data), bucket.now(), version, **kept._asdict())
        bucket.keep(self._prefix + key, Stored(data, info))
        return version

    def uploads(self) -> "MemoryUploads":
        """Return the interface for multipart uploads, which are kept as long as the bucket."""
        return MemoryUploads(self, self._bucket, self._prefix)

    def put_new(self, key: str, body: bytes) -> bool:
        """Write `body` unless the key exists; return whether the key was absent."""
        try:
            self.put(key, body, contract.ABSENT)
        except contract.ConditionFailed:
            return False
        return True

    def head(self, key: str) -> ObjectInfo:
        """Return the properties of an object."""
        return self._find(key).info

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects in byte order; the listing shows the state at its beginning."""
        self._check_bucket()
        full, skip = self._prefix + prefix, len(self._prefix)
        floor = contract.key_bytes(after)
        with self._bucket.lock:
            found = [
                (contract.key_bytes(key[skip:]), stored.info)
                for key, stored in self._bucket.objects.items()
                if key.startswith(full)
            ]
        found.sort(key=lambda item: item[0])
        for name, info in found:
            if name > floor:
                yield ObjectInfo(info.key, info.size, info.modified_at, info.version, info.etag)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; a missing object is ignored."""
        self._check_bucket()
        for key in keys:
            with self._bucket.lock:
                self._bucket.objects.pop(self._prefix + key, None)

    def delete_matching(self, objects: Iterable[tuple[str, Version]]) -> Collection[str]:
        """Delete the objects that still have the given versions; see `DeletesMatching`."""
        self._check_bucket()
        kept = []
        for key, version in objects:
            with self._bucket.lock:
                stored = self._bucket.objects.get(self._prefix + key)
                if stored is not None and stored.info.version != version:
                    kept.append(key)
                else:
                    self._bucket.objects.pop(self._prefix + key, None)
        return kept

    def copy(self, source: str, key: str) -> None:
        """Copy one object, with its content type and metadata."""
        with self._bucket.lock:
            stored = self._find(source)
            info = stored.info
            kept = Attributes(info.content_type, info.metadata, info.content_encoding)
            self._keep(key, stored.body, kept)

    def check_versions(self) -> None:
        """Raise `Unsupported` unless the bucket keeps versions."""
        if not self._bucket.keeps_versions:
            raise Unsupported(f"the bucket keeps no versions of its objects: {self.uri}")

    def list_versions(self, *, after: str = "") -> Iterator[tuple[ObjectInfo, str]]:
        """Yield the objects, each with the ID of its current version."""
        return ((info, str(info.version)) for info in self.list(after=after))

    def presign(self, key: str, request: PresignRequest, *, now: datetime) -> PresignedUrl:
        """Raise `Unsupported`, because objects in memory have no URLs."""
        del request, now
        raise Unsupported(f"cannot presign, {self.uri} is in memory: {key!r}")

    def local_path(self, key: str) -> str | None:
        """Return ``None``, because no object is a file."""
        del key
        return None

    def batch(self) -> "_MemoryBatch":
        """Start a batch of writes; see `contract.WriteBatch`."""
        return _MemoryBatch(self)

    def _check_bucket(self) -> None:
        if self._missing:
            raise contract.BucketNotFound(
                f"no bucket {self._name!r} in the memory of this process",
                hint="memory:// is for tests and examples of the library: see lakecli.stores",
            )

    def _find(self, key: str, matching: str = "") -> Stored:
        self._check_bucket()
        full, bucket, version_id = self._prefix + key, self._bucket, self.version_id
        found = bucket.versions.get((full, version_id)) if version_id else bucket.objects.get(full)
        if found is None:
            raise contract.ObjectNotFound(
                f"no such object in {self.uri}: {key!r} {version_id}".rstrip()
            )
        contract.check_matching(matching, key, found.info.version)
        return found


@dataclass
class _MemoryBatch:
    """A batch that writes nothing before `flush`, so that tests notice a missing call."""

    store: MemoryStore
    _pending: list[tuple[str, bytes]] = field(default_factory=list)
    _lock: RLock = field(default_factory=RLock)

    def put_new(self, key: str, body: bytes) -> None:
        """Queue one object for `flush`."""
        self._pending.append((key, bytes(body)))

    def flush(self) -> Collection[str]:
        """Write everything queued; see `contract.WriteBatch`."""
        existing: set[str] = set()
        with self._lock:
            while self._pending:
                if not self.store.put_new(*self._pending[0]):
                    existing.add(self._pending[0][0])
                del self._pending[0]
        return existing


class MemoryUploads:
    """The multipart uploads of one namespace."""

    def __init__(self, store: MemoryStore, bucket: MemoryBucket, prefix: str) -> None:
        self._store = store
        self._bucket = bucket
        self._prefix = prefix

    def start(self, key: str, *, by_urls: bool = False) -> UploadId:
        """Begin an upload; raise `BucketNotFound` if there is no bucket."""
        del by_urls
        next(iter(self._store.list()), None)  # raises if there is no bucket
        with self._bucket.lock:
            self._bucket.writes += 1
            upload = UploadId(f"upload-{self._bucket.writes}")
            self._bucket.uploads[upload] = MemoryUpload(self._prefix + key, self._bucket.now())
        return upload

    def put_part(
        self, key: str, upload: UploadId, number: int, body: bytes | BinaryIO, *, crc32c: int
    ) -> UploadedPart:
        """Store one part of an upload; raise `IntegrityError` if its checksum differs."""
        data = body if isinstance(body, bytes) else body.read()
        if google_crc32c.value(data) != crc32c:
            raise IntegrityError(f"other bytes than their checksum says: {key!r}")
        with self._bucket.lock:
            found = self._find(key, upload)
            found.parts[number] = data
            found.changed_at = self._bucket.now()
        return _described(number, data)

    def parts(self, key: str, upload: UploadId) -> Iterator[UploadedPart]:
        """Yield the parts that the store has received."""
        with self._bucket.lock:
            kept = sorted(self._find(key, upload).parts.items())
        for number, data in kept:
            yield _described(number, data)

    def changed_at(self, key: str, upload: UploadId) -> datetime | None:
        """Return when the store received the last part."""
        with self._bucket.lock:
            return self._find(key, upload).changed_at

    def complete(self, key: str, upload: UploadId, parts: Sequence[UploadedPart]) -> Version:
        """Join the parts of an upload into an object."""
        with self._bucket.lock:
            kept = self._find(key, upload).parts
            if any(_described(part.number, kept.get(part.number, b"")) != part for part in parts):
                raise UploadNotFound(f"no such parts: {key!r}")
            body = b"".join(kept[part.number] for part in parts)
            version = self._store.put(key, body, contract.ANY)
            del self._bucket.uploads[upload]
        return version

    def abort(self, key: str, upload: UploadId) -> None:
        """Delete an upload and its parts."""
        del key
        with self._bucket.lock:
            self._bucket.uploads.pop(upload, None)

    def iter_unfinished(self, prefix: str = "") -> Iterator[UnfinishedUpload]:
        """Yield the unfinished uploads by key."""
        full = self._prefix + prefix
        with self._bucket.lock:
            found = [
                UnfinishedUpload(each.key[len(self._prefix) :], UploadId(name), each.started_at)
                for name, each in self._bucket.uploads.items()
                if each.key.startswith(full)
            ]
        yield from sorted(found, key=lambda each: (each.key, each.id))

    def _find(self, key: str, upload: UploadId) -> MemoryUpload:
        found = self._bucket.uploads.get(upload)
        if found is None or found.key != self._prefix + key:
            raise UploadNotFound(f"no such upload in parts: {key!r}")
        return found


def _described(number: int, data: bytes) -> UploadedPart:
    crc32c = google_crc32c.value(data)
    return UploadedPart(number, len(data), f"{crc32c:08x}", crc32c)


def open_named(name: str, path: str) -> MemoryStore:
    """Return the store of the prefix `path`, without a trailing slash, in a named bucket."""
    bucket = BUCKETS.get(name)
    return MemoryStore(bucket, f"{path}/" if path else "", missing=bucket is None, name=name)


_open_other = registry._open


def _open(uri: NamespaceUri, region: str, account: Account) -> registry.NamespaceStore:
    if uri.scheme == "memory":
        return open_named(uri.bucket, uri.path)
    return _open_other(uri, region, account)


registry._open = _open

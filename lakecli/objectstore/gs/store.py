"""Google Cloud Storage.

Built on google-cloud-storage, loaded by the first request. Credentials, endpoint, proxies and
certificates are the SDK's own business; see `credentials`. A version is a generation.

Conditional writes are sent once: a retry could meet the effect of the first try and report as lost
a race that was won. Their callers read back. Everything else is repeated a few times, after
delays that are random and grow.
"""

from __future__ import annotations

from base64 import b64decode
from contextlib import contextmanager, suppress
from threading import RLock
from typing import TYPE_CHECKING, BinaryIO, cast
from urllib.parse import quote

from lakecli.errors import LakeError, UsageError
from lakecli.objectstore.base import (
    Absent,
    BucketNotFound,
    ConditionFailed,
    Match,
    ObjectInfo,
    ObjectNotFound,
    Version,
    check_range,
)
from lakecli.objectstore.capabilities import (
    CopiesFrom,
    DeletesMatching,
    HasUploads,
    ReportsAccess,
    ShowsClock,
    WritesGarbled,
)
from lakecli.objectstore.dates import ServerDate
from lakecli.objectstore.gs.credentials import GsLogin
from lakecli.objectstore.gs.errors import Translator
from lakecli.objectstore.streams import PART_SIZE, batches, read_exactly
from lakecli.retry import REQUESTS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from google.cloud.storage import Blob

    from lakecli.objectstore.access import Access
    from lakecli.objectstore.base import Condition, ObjectStore, PresignedUrl, PresignRequest
    from lakecli.objectstore.gs.client import Attributes, GsClient, Piece
    from lakecli.objectstore.gs.uploads import GsUploads
    from lakecli.objectstore.parallel_batch import ParallelBatch
    from lakecli.objectstore.uri import NamespaceUri

DELETE_SIZE = 100
"""Deletions in one request, at most."""

LONGEST_NAME = 1_024
"""Bytes in the name of an object."""

VERSION_TRIES = 5

NO_GENERATION = 1
"""No object ever has it: generations count microseconds since 1970."""


class GsStore(CopiesFrom, DeletesMatching, HasUploads, ReportsAccess, ShowsClock, WritesGarbled):
    """A namespace in a bucket; nothing is loaded or asked before the first request.

    Args:
        bucket: its name.
        prefix: of every key, without a slash at its end; may be empty.
        attempts: of each request that may be repeated.
    """

    def __init__(self, bucket: str, prefix: str = "", *, attempts: int = REQUESTS.attempts) -> None:
        self.bucket = bucket
        self._prefix = prefix
        self._start = f"{prefix}/" if prefix else ""
        self._attempts = attempts
        self._server_date = ServerDate()
        self._login = GsLogin()
        self._translator = Translator(bucket, lambda: self._login.host)
        self._lock = RLock()
        self._client: GsClient | None = None
        self._bucket_exists = False

    @property
    def uri(self) -> str:
        """``gs://``, the bucket and the prefix."""
        return f"gs://{self.bucket}" + (f"/{self._prefix}" if self._prefix else "")

    @property
    def server_date(self) -> ServerDate:
        """The date of the last response."""
        return self._server_date

    def check_bucket(self) -> None:
        """Make sure that the bucket is there.

        Raises:
            BucketNotFound: it is not.
            PermissionDenied: its objects may not be listed.
        """
        with self.translated():
            self._sdk().ask_for_bucket()
        self._bucket_exists = True

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Return a range of an object; see `ObjectStore.get`.

        Raises:
            Unsupported: the server does not know ranges.
            IntegrityError: a whole object does not have the checksum that is kept with it.
        """
        check_range(start, length)
        if length == 0:
            self.head(key)
            return b""
        end = None if length is None else start + length
        with self.reading(key) as full:
            data = self._sdk().read(full, start=start, end=end).data
        longest = -start if start < 0 else length
        if longest is not None and len(data) > longest:
            raise self._translator.no_ranges(full)
        return data

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        """Return an object and its version.

        Where the answer does not name the generation, it is asked for first, and that one read.

        Raises:
            IntegrityError: it does not have the checksum that is kept with it.
            ConditionFailed: it was replaced, again and again, while it was read.
        """
        with self.reading(key) as full:
            piece = self._sdk().read(full, end=length)
        if piece.generation is not None:
            return piece.data, Version(str(piece.generation))
        for _ in range(VERSION_TRIES):
            version = self.head(key).version
            with suppress(ObjectNotFound), self.reading(key) as full:
                return self._sdk().read(full, end=length, generation=int(version)).data, version
        raise ConditionFailed(f"object was replaced while it was read: {key!r}")

    def open(self, key: str) -> BinaryIO:
        """Open an object for one pass of reading."""
        from lakecli.objectstore.gs.streams import ObjectStream

        full = self._full(key)

        def read_piece(start: int, end: int, generation: int | None) -> Piece:
            with self.reading(key):
                return self._sdk().read(full, start=start, end=end, generation=generation)

        stream = ObjectStream(
            repr(f"gs://{self.bucket}/{full}"),
            read_piece=read_piece,
            find_generation=lambda: int(self.head(key).version),
        )
        return cast("BinaryIO", stream)

    def put(
        self,
        key: str,
        body: bytes | BinaryIO,
        condition: Condition,
        *,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> Version:
        """Write an object; see `ObjectStore.put`.

        Bodies of 8 MiB or more go in chunks, one after the other.
        """
        from io import BytesIO

        from lakecli.objectstore.gs.client import Attributes

        attributes = Attributes(content_type, metadata or {})
        generation = _generation_for(condition)
        if isinstance(body, bytes | bytearray | memoryview):
            body = BytesIO(body)
        first = read_exactly(body, PART_SIZE)
        if len(first) == PART_SIZE:
            return self._put_stream(key, first, body, attributes, generation)
        with self.translated(key, is_write=True) as full:
            blob = self._sdk().write(
                full, first, attributes, generation=generation, may_repeat=generation is None
            )
            return _version_of(blob)

    def head(self, key: str) -> ObjectInfo:
        """Describe one object."""
        with self.reading(key) as full:
            blob = self._sdk().describe(full)
        return self._info_of(
            blob, content_type=blob.content_type or "", metadata=blob.metadata or {}
        )

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects in byte order, a page of a thousand at a time.

        Raises:
            Unsupported: the store lists in another order.
        """
        floor = self._start + after if after else ""
        with self.translated():
            pages = self._sdk().pages(_utf8(self._start + prefix), _utf8(floor))
        last = floor.encode()
        while True:
            with self.translated():
                page = next(pages, None)
            if page is None:
                return
            for blob in page:
                name = blob.name.encode()
                if name <= last:
                    if name == floor.encode():
                        continue  # a listing starts at a name, and `after` is behind it
                    raise self._translator.no_order()
                last = name
                yield self._info_of(blob)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, a hundred by one request; a missing one is fine."""
        for batch in batches(map(self._full, keys), DELETE_SIZE):
            self._delete(batch)

    def delete_matching(self, objects: Iterable[tuple[str, Version]]) -> Collection[str]:
        """Delete objects that are still of these versions."""
        kept: list[str] = []
        for batch in batches(objects, DELETE_SIZE):
            names = [self._full(key) for key, _ in batch]
            generations = [_generation_for(Match(version)) for _, version in batch]
            with self.translated():
                failed = self._sdk().delete(names, generations)
            for full, status in failed:
                error = self._translator.refused(status, full)
                if isinstance(error, ConditionFailed):
                    kept += self._present(full[len(self._start) :])
                elif isinstance(error, ObjectNotFound):
                    self._check_bucket_once()
                else:
                    raise error
        return kept

    def copy(self, source: str, key: str) -> None:
        """Copy one object with its content type and metadata."""
        target = self._full(key)
        with self.reading(source) as origin:
            self._sdk().copy(origin, target)

    def copy_from(
        self,
        source: ObjectStore,
        source_key: str,
        key: str,
        *,
        content_type: str,
        metadata: Mapping[str, str],
    ) -> bool:
        """Copy an object of any bucket."""
        if not isinstance(source, GsStore):
            return False
        from lakecli.objectstore.gs.client import Attributes

        # Without any attribute the copy would get those of the original.
        attributes = Attributes(content_type or "application/octet-stream", metadata)
        target = self._full(key)
        with source.reading(source_key) as origin:
            self._sdk().copy_from(source.bucket, origin, target, attributes)
        return True

    def presign(self, key: str, request: PresignRequest, *, now: datetime) -> PresignedUrl:
        """Sign a URL: offline with a service account's key, otherwise by asking Google's IAM.

        Raises:
            Unsupported: the credentials are a user's.
        """
        from lakecli.objectstore.gs.presign import presign

        with self.translated(key) as full:
            return presign(
                self._login.signer(),
                request,
                endpoint=self._login.endpoint,
                path=f"/{self.bucket}/{quote(full, safe='/~')}",
                now=now,
            )

    def access(self) -> Access:
        """Tell which credentials are in use, and where."""
        from lakecli.objectstore.gs.access import describe

        with self.translated():
            return describe(self._login)

    def put_garbled(self, key: str, body: bytes) -> None:
        """Send `body` with the checksum of other bytes.

        Raises:
            IntegrityError: as it should be.
        """
        with self.translated(key) as full:
            self._sdk().write_garbled(full, body)

    def local_path(self, key: str) -> Path | None:
        """Return ``None``: the bytes are elsewhere."""
        del key
        return None

    def batch(self) -> ParallelBatch:
        """Start a batch of parallel create-only requests."""
        from lakecli.objectstore.parallel_batch import ParallelBatch

        return ParallelBatch(self)

    def uploads(self) -> GsUploads:
        """Return the uploads in parts; see `lakecli.objectstore.uploads`."""
        from lakecli.objectstore.gs.uploads import GsUploads

        return GsUploads(
            self.translated,
            sdk=self._sdk,
            find_version=lambda key: self.head(key).version,
            start=self._start,
        )

    def put_new(self, key: str, body: bytes) -> bool:
        """Write `body` unless the key is there; for content-addressed keys: a retry is safe."""
        from lakecli.objectstore.gs.client import Attributes

        try:
            with self.translated(key, is_write=True) as full:
                attributes = Attributes("", {})
                self._sdk().write(full, body, attributes, generation=0, may_repeat=True)
        except ConditionFailed:
            return False
        return True

    def _sdk(self) -> GsClient:
        with self._lock:
            if self._client is None:
                from lakecli.objectstore.gs.client import GsClient

                self._client = GsClient(
                    self._login,
                    self.bucket,
                    attempts=self._attempts,
                    server_date=self._server_date,
                )
            return self._client

    def _put_stream(
        self,
        key: str,
        first: bytes,
        rest: BinaryIO,
        attributes: Attributes,
        generation: int | None,
    ) -> Version:
        if generation == 0:
            self._check_absent(key)
        try:
            with self.translated(key, is_write=True) as full:
                blob = self._sdk().write_stream(
                    full, first, rest, attributes, generation=generation
                )
        except BucketNotFound:
            self.check_bucket()
            raise self._translator.vanished(self._full(key)) from None
        return _version_of(blob)

    def _check_absent(self, key: str) -> None:
        """Look before sending gigabytes; the condition itself is checked at the end."""
        try:
            self.head(key)
        except ObjectNotFound:
            return
        raise ConditionFailed(f"object is there already, nothing was written: {key!r}")

    def _delete(self, batch: Sequence[str]) -> None:
        with self.translated():
            failed = self._sdk().delete(batch)
        for full, status in failed:
            error = self._translator.refused(status, full)
            if not isinstance(error, ObjectNotFound):
                raise error
            self._check_bucket_once()

    def _present(self, key: str) -> Iterator[str]:
        """Yield `key` if the object is there: a condition does not hold either where it is not."""
        with suppress(ObjectNotFound):
            self.head(key)
            yield key

    def _check_bucket_once(self) -> None:
        """Find out which of the two a 404 meant; one request in a store's life."""
        if self._bucket_exists:
            return
        try:
            self.check_bucket()
        except BucketNotFound:
            raise
        except LakeError:
            return  # it cannot be told; the object is missing either way

    @contextmanager
    def reading(self, key: str) -> Iterator[str]:
        """Do as `translated`, where "not found" may mean the object or the bucket."""
        try:
            with self.translated(key) as full:
                yield full
        except ObjectNotFound:
            self._check_bucket_once()
            raise
        self._bucket_exists = True

    @contextmanager
    def translated(self, key: str | None = None, *, is_write: bool = False) -> Iterator[str]:
        """Name the object in full, and translate what the SDK says about it or the bucket."""
        full = "" if key is None else self._full(key)
        with self._translator.translated(full, is_write=is_write):
            yield full

    def _full(self, key: str) -> str:
        if not key:
            raise UsageError("an object needs a key")
        full = _utf8(self._start + key)
        if "\n" in full or "\r" in full or full in {".", ".."}:
            raise UsageError(f"Google Cloud Storage cannot hold an object of this key: {key!r}")
        if len(full.encode()) > LONGEST_NAME:
            raise UsageError(f"key too long for Google Cloud Storage: {key!r}")
        return full

    def _info_of(
        self, blob: Blob, *, content_type: str = "", metadata: Mapping[str, str] | None = None
    ) -> ObjectInfo:
        """Return what is known of an object.

        Its ``etag`` is the MD5 of its bytes, which a change of metadata leaves as it is and which
        lakeFS records too; objects composed of others have none, so there it is the store's own.
        """
        digest = blob.md5_hash
        return ObjectInfo(
            key=blob.name[len(self._start) :],
            size=int(blob.size),
            modified_at=blob.time_created.replace(microsecond=0),
            version=_version_of(blob),
            etag=b64decode(digest).hex() if digest else str(blob.etag or "").strip('"'),
            content_type=content_type,
            metadata=metadata or {},
        )


def open_namespace(uri: NamespaceUri, *, region: str) -> GsStore:
    """Return the store of a bucket; see `registry.open_store`."""
    del region  # buckets are found by their names alone
    return GsStore(uri.bucket, uri.path)


def prepare_namespace(uri: NamespaceUri) -> str:
    """Make sure that the bucket is there; see `registry.prepare_namespace`."""
    GsStore(uri.bucket, uri.path).check_bucket()
    return ""


def _generation_for(condition: Condition) -> int | None:
    """Return the generation that must be there, 0 for none; ``None`` only where any may be."""
    match condition:
        case Absent():
            return 0
        case Match(version):
            if not version:
                raise ValueError("a version to match cannot be empty")  # it would be no condition
            # 0 would mean "absent"; and a version of another store matches nothing.
            is_generation = version.isascii() and version.isdigit() and int(version) > 0
            return int(version) if is_generation else NO_GENERATION
        case _:
            return None


def _version_of(blob: Blob) -> Version:
    if blob.generation is None:
        raise ValueError("Google Cloud Storage told no generation")  # it would be no condition
    return Version(str(int(blob.generation)))


def _utf8(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"Google Cloud Storage cannot hold an object of this key, it is not UTF-8: {name!r}"
        ) from None
    return name

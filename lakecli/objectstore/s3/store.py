"""Amazon S3, and servers that speak its protocol.

Built on botocore, the core of boto3: what boto3 adds costs every command 40 ms and is not needed.
Credentials, profile, endpoint, proxies and certificates are the SDK's own business, so whatever
works with AWS's tools works here. A version is an ETag without its quotes, the form that every
server takes back.

Conditional writes are sent once: a retry could meet the effect of the first try and report as lost
a race that was won. Their callers read back. Everything else is repeated by the SDK.
"""

from __future__ import annotations

import re
from contextlib import ExitStack, closing, contextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from lakecli.errors import LakeError, Unsupported, UsageError
from lakecli.objectstore.base import (
    ANY,
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
    HasUploads,
    HasVersions,
    OpensRanges,
    ReportsAccess,
    ShowsClock,
)
from lakecli.objectstore.s3 import versions
from lakecli.objectstore.s3.conditions import headers_of, version_of
from lakecli.objectstore.s3.config import S3Connection
from lakecli.objectstore.s3.errors import Translator, status_of
from lakecli.objectstore.s3.streams import AnswerStream
from lakecli.objectstore.streams import PART_SIZE, parts_of, read_exactly, size_left, spooled
from lakecli.retry import REQUESTS, Retries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from lakecli.objectstore.access import Access
    from lakecli.objectstore.base import Condition, ObjectStore, PresignedUrl, PresignRequest
    from lakecli.objectstore.dates import ServerDate
    from lakecli.objectstore.parallel_batch import ParallelBatch
    from lakecli.objectstore.s3.direct import DirectRequests
    from lakecli.objectstore.s3.uploads import S3Uploads
    from lakecli.objectstore.uri import NamespaceUri

SINGLE_LIMIT = 5 << 30
"""Bytes in one PUT or one copy, at most."""

PAGE_SIZE = 1_000
"""Objects in one page of a listing or one batch of deletions, at most."""

READ_TRIES = 3

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


class S3Store(CopiesFrom, HasUploads, HasVersions, OpensRanges, ReportsAccess, ShowsClock):
    """A namespace in an S3 bucket; nothing is loaded or asked before the first request.

    Args:
        bucket: its name.
        prefix: of every key, without a slash at its end; may be empty.
        region: of the bucket, as `find_region` learned it; ``""`` leaves it to the SDK's
            configuration.
    """

    def __init__(self, bucket: str, prefix: str = "", *, region: str = "") -> None:
        self.bucket = bucket
        self._prefix = prefix
        self._start = f"{prefix}/" if prefix else ""
        self._connection = S3Connection(region)
        self._direct: DirectRequests | None = None
        self._translator = Translator(bucket, lambda: self._connection.config.host)
        self._bucket_exists = False
        self._has_conditions = True

    @property
    def uri(self) -> str:
        """``s3://``, the bucket and the prefix."""
        return f"s3://{self.bucket}" + (f"/{self._prefix}" if self._prefix else "")

    @property
    def server_date(self) -> ServerDate:
        """The date of the last response."""
        return self._connection.server_date

    @property
    def region(self) -> str:
        """Of the bucket, or ``""`` while nobody has said or learned it."""
        return self._connection.region

    def find_region(self) -> str:
        """Ask the store for the bucket's region, once, and use it from now on.

        AWS knows best. Other endpoints often answer with a placeholder, so there a region that
        was configured wins.

        Raises:
            BucketNotFound: no such bucket.
        """
        from botocore.exceptions import ClientError

        with self.translated():
            config = self._connection.config
            try:
                answer = self._connection.client().head_bucket(Bucket=self.bucket)
            except ClientError as error:
                answer = error.response
                # Who may not list a bucket is told its region nevertheless.
                if status_of(error) not in {301, 400, 403} or not _region_of(answer):
                    raise
        learned = _region_of(answer) or config.region
        if config.endpoint and config.is_region_configured:
            learned = config.region
        self._connection.move(learned)
        return learned

    def get(
        self, key: str, *, start: int = 0, length: int | None = None, version_id: str = ""
    ) -> bytes:
        """Return a range of an object or of a version of it; see `ObjectStore.get`.

        Raises:
            Unsupported: the server does not know ranges.
        """
        check_range(start, length)
        if length == 0:
            self.head(key, version_id=version_id)
            return b""
        return self._get(key, start, length, version_id)[0]

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        """Return an object and its version."""
        return self._get(key, 0, length)

    def open(self, key: str, *, version_id: str = "") -> BinaryIO:
        """Open an object, or a version of it, for one pass of reading."""
        with self.translated(key) as full:
            answer = self._connection.client().get_object(
                Bucket=self.bucket, Key=full, **versions.wanted(version_id)
            )
        return cast("BinaryIO", AnswerStream(answer["Body"], self._translator, full))

    def open_range(self, key: str, *, start: int, length: int) -> BinaryIO:
        """Open a part of an object for one pass, by one request.

        Raises:
            Unsupported: the server does not know ranges.
        """
        with self.translated(key) as full:
            answer = self._connection.client(max_attempts=1).get_object(
                Bucket=self.bucket, Key=full, Range=f"bytes={start}-{start + length - 1}"
            )
            if answer["ResponseMetadata"]["HTTPStatusCode"] != HTTPStatus.PARTIAL_CONTENT:
                answer["Body"].close()
                raise self._translator.no_ranges(full)
        return cast("BinaryIO", AnswerStream(answer["Body"], self._translator, full))

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

        Streams of 8 MiB or more go in parts. With a condition they are one request of up to
        5 GiB, as not every server that honours conditions there does so when parts are joined;
        only to create an object that is larger, or of unknown size, takes parts all the same.
        """
        attributes: dict[str, Any] = {}
        if content_type:
            attributes["ContentType"] = content_type
        if metadata:
            attributes["Metadata"] = dict(metadata)
        conditions = headers_of(condition)
        if isinstance(body, bytes | bytearray | memoryview):
            return self._put_whole(key, bytes(body), conditions, attributes)
        with ExitStack() as stack:
            size = size_left(body)
            if isinstance(condition, Match) and size is None:
                body = stack.enter_context(spooled(body))
            elif not conditions or size is None or size > SINGLE_LIMIT:
                return self._put_stream(key, body, conditions, attributes)
            elif size < PART_SIZE:
                return self._put_whole(key, read_exactly(body, size), conditions, attributes)
            return self._put_whole(key, body, conditions, attributes)

    def head(self, key: str, *, version_id: str = "") -> ObjectInfo:
        """Describe one object, or a version of it."""
        return self._head(key, version_id)[0]

    def _head(self, key: str, version_id: str) -> tuple[ObjectInfo, str]:
        """Describe one object, and return the ID of its version."""
        try:
            with self.translated(key) as full:
                answer = self._connection.client().head_object(
                    Bucket=self.bucket, Key=full, **versions.wanted(version_id)
                )
        except ObjectNotFound:
            self._check_bucket()
            raise
        self._bucket_exists = True
        info = ObjectInfo(
            key=key,
            size=answer["ContentLength"],
            modified_at=answer["LastModified"].replace(microsecond=0),
            version=version_of(answer),
            etag=version_of(answer),
            content_type=answer.get("ContentType", ""),
            metadata=answer.get("Metadata", {}),
        )
        return info, answer.get("VersionId", "null")

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects in byte order, a page at a time.

        Raises:
            Unsupported: the store lists in another order, as S3 Express does.
        """
        start = {"StartAfter": self._start + after} if after else {}
        page: dict[str, Any] = {}
        last = b""
        while True:
            with self.translated():
                page = self._connection.client().list_objects_v2(
                    Bucket=self.bucket, Prefix=self._start + prefix, MaxKeys=PAGE_SIZE, **start
                )
            for item in page.get("Contents", ()):
                full = item["Key"]
                name = full.encode("utf-8", "surrogateescape")
                if name <= last:
                    raise self._translator.no_order()
                last = name
                yield ObjectInfo(
                    key=full[len(self._start) :],
                    size=item["Size"],
                    modified_at=item["LastModified"].replace(microsecond=0),
                    version=version_of(item),
                    etag=version_of(item),
                )
            if not page.get("IsTruncated"):
                return
            start = {"ContinuationToken": page["NextContinuationToken"]}

    def versions(self) -> S3Store:
        """Return what reads versions, which is this store; see `versions.versions_of`."""
        return self

    def check_versions(self) -> None:
        """Make sure that the bucket has versioning enabled; see `versions.VersionedStore`."""
        with self.translated():
            status = versions.status_of(self._connection.client(), self.bucket)
        if status != versions.ENABLED:
            raise versions.kept_no_more(f"s3://{self.bucket}", status)

    def list_versions(self, *, after: str = "") -> Iterator[tuple[ObjectInfo, str]]:
        """Yield the current versions and their IDs; see `versions.VersionedStore`."""
        return versions.joined(
            self.list(after=after), self._listed_versions(after), self._current_version
        )

    def _current_version(self, key: str) -> tuple[ObjectInfo, str] | None:
        try:
            return self._head(key, "")
        except ObjectNotFound:
            return None

    def _listed_versions(self, after: str) -> Iterator[tuple[ObjectInfo, str]]:
        """Yield current versions as the store lists them, old ones and deletions among them."""
        marker: dict[str, str] | None = {"KeyMarker": self._start + after} if after else {}
        while marker is not None:
            with self.translated():
                page = self._connection.client().list_object_versions(
                    Bucket=self.bucket, Prefix=self._start, MaxKeys=PAGE_SIZE, **marker
                )
            for item in versions.current(page, after=self._start + after):
                info = ObjectInfo(
                    key=item["Key"][len(self._start) :],
                    size=item["Size"],
                    modified_at=item["LastModified"].replace(microsecond=0),
                    version=version_of(item),
                    etag=version_of(item),
                )
                yield info, item["VersionId"]
            marker = versions.next_page(page)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, many by one request; a missing one is fine."""
        batch: list[str] = []
        for key in keys:
            full = self._full(key)
            if _NOT_IN_XML.search(full):
                with self.translated(key):
                    self._connection.client().delete_object(Bucket=self.bucket, Key=full)
                continue
            batch.append(full)
            if len(batch) == PAGE_SIZE:
                self._delete(batch)
                batch = []
        if batch:
            self._delete(batch)

    def copy(self, source: str, key: str) -> None:
        """Copy one object with its content type and metadata, in parts above 5 GiB."""
        with self.translated(source) as origin:
            self._copy({"Bucket": self.bucket, "Key": origin}, key, {})

    def copy_from(
        self,
        source: ObjectStore,
        source_key: str,
        key: str,
        *,
        content_type: str,
        metadata: Mapping[str, str],
    ) -> bool:
        """Copy an object of any bucket of this endpoint."""
        if not isinstance(source, S3Store):
            return False
        attributes: dict[str, Any] = {"Metadata": dict(metadata)}
        if content_type:
            attributes["ContentType"] = content_type
        with source.translated(source_key) as origin:
            self._copy({"Bucket": source.bucket, "Key": origin}, key, attributes)
        return True

    def _copy(self, where: dict[str, str], key: str, attributes: dict[str, Any]) -> None:
        """Copy an object; with `attributes` in place of its own, if there are any."""
        from botocore.exceptions import ClientError

        from lakecli.objectstore.s3.multipart import Multipart

        client = self._connection.client()
        target = {"Bucket": self.bucket, "Key": self._full(key)}
        changes = {**attributes, "MetadataDirective": "REPLACE"} if attributes else {}
        try:
            client.copy_object(**target, **changes, CopySource=where)
        except ClientError as error:
            # The words for "too large" differ from server to server, so look at the size.
            head = (
                self._head_of_large(where) if status_of(error) == HTTPStatus.BAD_REQUEST else None
            )
            if head is None:
                raise
            kept = attributes or {name: head[name] for name in ("ContentType", "Metadata")}
            Multipart(client, target, kept).copy(where, head["ContentLength"])

    def presign(
        self, key: str, request: PresignRequest, *, now: datetime, version_id: str = ""
    ) -> PresignedUrl:
        """Sign a URL offline; see `presign.presign`."""
        from lakecli.objectstore.s3.presign import find_keys, presign

        plain = self._connection.plain_access
        if plain is not None:
            config, keys, keys_end = plain.config, plain.keys, None
        else:
            with self.translated(key):
                config = self._connection.config
                keys, keys_end = find_keys(self._connection.session)
        url = config.object_url(self.bucket, self._full(key))
        return presign(
            keys,
            request,
            url=url,
            region=config.region,
            now=now,
            keys_end=keys_end,
            version_id=version_id,
        )

    def access(self) -> Access:
        """Tell which credentials are in use, and where."""
        from lakecli.objectstore.s3.access import describe

        with self.translated():
            return describe(self._connection.session, self._connection.config)

    def local_path(self, key: str) -> Path | None:
        """Return ``None``: the bytes are elsewhere."""
        del key
        return None

    def batch(self) -> ParallelBatch:
        """Start a batch of parallel create-only requests."""
        from lakecli.objectstore.parallel_batch import ParallelBatch

        return ParallelBatch(self)

    def uploads(self) -> S3Uploads:
        """Return the uploads in parts that outlive a process; see `uploads.Uploads`."""
        from lakecli.objectstore.s3.uploads import S3Uploads

        return S3Uploads(self, self._connection, self.bucket, self._start)

    def put_new(self, key: str, body: bytes) -> bool:
        """Write `body` unless the key is there; for content-addressed keys, where a retry is safe.

        Raises:
            Unreachable: another write of the same key was under way, and stayed so.
        """
        if self._has_conditions:
            try:
                return self._put_new(key, body)
            except Unsupported:
                self._has_conditions = False
        try:
            self.head(key)
        except ObjectNotFound:
            self.put(key, body, ANY)
            return True
        return False

    def _put_new(self, key: str, body: bytes) -> bool:
        from botocore.exceptions import ClientError

        with self.translated(key) as full:
            created = self._requests.create(full, body)
        if created is not None:
            return created
        for _ in Retries(REQUESTS).attempts():
            with self.translated(key) as full:
                try:
                    self._connection.client().put_object(
                        Bucket=self.bucket, Key=full, Body=body, IfNoneMatch="*"
                    )
                except ClientError as error:
                    if status_of(error) == HTTPStatus.PRECONDITION_FAILED:
                        return False
                    conflict = error
                    if status_of(error) != HTTPStatus.CONFLICT:
                        raise
                    # Another writer of this key is at work and may yet fail, so try again.
                else:
                    return True
        with self.translated(key):
            raise conflict

    def _get(
        self, key: str, start: int, length: int | None, version_id: str = ""
    ) -> tuple[bytes, Version]:
        from botocore.exceptions import IncompleteReadError, ResponseStreamingError

        with self.translated(key) as full:
            for _ in range(READ_TRIES - 1):
                # The SDK repeats requests, but not the reading of an answer that breaks off.
                with suppress(IncompleteReadError, ResponseStreamingError):
                    return self._read(full, start, length, version_id)
            return self._read(full, start, length, version_id)

    def _read(
        self, full: str, start: int, length: int | None, version_id: str
    ) -> tuple[bytes, Version]:
        from botocore.exceptions import ClientError

        wanted: dict[str, str] = {}
        if start or length is not None:
            end = "" if start < 0 or length is None else str(start + length - 1)
            wanted["Range"] = f"bytes={start}" if start < 0 else f"bytes={start}-{end}"
        if not version_id:
            found = self._requests.get(full, span=wanted.get("Range", ""))
            if found is not None:
                return found.body, version_of({"ETag": found.etag})
        try:
            answer = self._connection.client().get_object(
                Bucket=self.bucket, Key=full, **wanted, **versions.wanted(version_id)
            )
        except ClientError as error:
            if status_of(error) == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                return b"", Version("")
            raise
        with closing(answer["Body"]) as body:
            status = answer["ResponseMetadata"]["HTTPStatusCode"]
            size = answer["ContentLength"]
            # Of a range that covers the whole object a server may answer with the whole.
            is_whole = start == 0 and length is not None and size <= length
            if wanted and status != HTTPStatus.PARTIAL_CONTENT and size and not is_whole:
                raise self._translator.no_ranges(full)
            return cast("bytes", body.read()), version_of(answer)

    @property
    def _requests(self) -> DirectRequests:
        if self._direct is None:
            from lakecli.objectstore.s3.direct import DirectRequests

            self._direct = DirectRequests(self._connection, self.bucket)
        return self._direct

    def _put_whole(
        self, key: str, body: object, conditions: dict[str, str], attributes: dict[str, Any]
    ) -> Version:
        with self.translated(key, is_conditional=bool(conditions)) as full:
            answer = self._connection.client(max_attempts=1 if conditions else None).put_object(
                Bucket=self.bucket, Key=full, Body=body, **conditions, **attributes
            )
        return self._version_put(key, answer)

    def _put_stream(
        self, key: str, body: BinaryIO, conditions: dict[str, str], attributes: dict[str, Any]
    ) -> Version:
        from lakecli.objectstore.s3.multipart import Multipart

        first = read_exactly(body, PART_SIZE)
        if len(first) < PART_SIZE:
            return self._put_whole(key, first, conditions, attributes)
        if conditions:
            self._check_absent(key)
        with self.translated(key, is_conditional=bool(conditions)) as full:
            once = self._connection.client(max_attempts=1 if conditions else None)
            target = {"Bucket": self.bucket, "Key": full}
            answer = Multipart(self._connection.client(), target, attributes).upload(
                parts_of(first, body),
                lambda **upload: once.complete_multipart_upload(**upload, **conditions),
            )
        return self._version_put(key, answer)

    def _version_put(self, key: str, answer: Mapping[str, Any]) -> Version:
        """Return what was made of a body; some servers forget to say it of parts."""
        return version_of(answer) or self.head(key).version

    def _check_absent(self, key: str) -> None:
        """Look before sending gigabytes; the condition itself is checked at the end."""
        with suppress(ObjectNotFound):
            self.head(key)
            raise ConditionFailed(f"object is there already, nothing was written: {key!r}")

    def _head_of_large(self, where: dict[str, str]) -> dict[str, Any] | None:
        """Describe an object too large for one copy; of any other, say nothing."""
        from botocore.exceptions import ClientError

        try:
            head: dict[str, Any] = self._connection.client().head_object(**where)
        except ClientError:
            return None
        return head if head["ContentLength"] > SINGLE_LIMIT else None

    def _delete(self, batch: Sequence[str]) -> None:
        with self.translated():
            answer = self._connection.client(max_attempts=REQUESTS.attempts).delete_objects(
                Bucket=self.bucket,
                Delete={"Objects": [{"Key": full} for full in batch], "Quiet": True},
            )
        for failed in answer.get("Errors", ()):
            if failed.get("Code") != "NoSuchKey":
                raise self._translator.refused_delete(failed.get("Code", ""), failed.get("Key", ""))

    def _check_bucket(self) -> None:
        """Find out which of the two a 404 without a body meant; one request in a store's life."""
        if self._bucket_exists:
            return
        try:
            with self.translated():
                self._connection.client().head_bucket(Bucket=self.bucket)
        except BucketNotFound:
            raise
        except LakeError:
            return  # it cannot be told; the object is missing either way
        self._bucket_exists = True

    @contextmanager
    def translated(self, key: str | None = None, *, is_conditional: bool = False) -> Iterator[str]:
        """Name the object in full, and translate what the SDK says about it or the bucket."""
        full = "" if key is None else self._full(key)
        with self._translator.translated(full, is_conditional=is_conditional):
            yield full

    def _full(self, key: str) -> str:
        full = self._start + key
        try:
            full.encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"S3 cannot hold an object of this key, it is not UTF-8: {key!r}"
            ) from None
        if not key:
            raise UsageError("an object needs a key")
        return full


def open_namespace(uri: NamespaceUri, *, region: str) -> S3Store:
    """Return the store of a bucket; see `registry.open_store`."""
    return S3Store(uri.bucket, uri.path, region=region)


def prepare_namespace(uri: NamespaceUri) -> str:
    """Return the region of a bucket; see `registry.prepare_namespace`."""
    return S3Store(uri.bucket, uri.path).find_region()


def _region_of(answer: Mapping[str, Any]) -> str:
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return str(headers.get("x-amz-bucket-region", ""))

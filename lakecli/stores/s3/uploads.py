"""Multipart uploads on S3, which another process can resume; streams, and copies above 5 GiB."""

import base64
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Any, BinaryIO, TypeVar

import google_crc32c

from lakecli.base.model import NO_METADATA
from lakecli.stores.capabilities import UnfinishedUpload, UploadedPart, UploadId, UploadNotFound
from lakecli.stores.cloud_store import CloudStore
from lakecli.stores.contract import Version
from lakecli.stores.responses import UnusableAnswerError, required, upload_id_of
from lakecli.stores.s3.connection import S3Connection
from lakecli.stores.s3.errors import status_of
from lakecli.stores.s3.reading import version_of
from lakecli.stores.streams import send_all

A = TypeVar("A")
T = TypeVar("T")
_Position = dict[str, Any]
_BEGINNING: _Position = {}
_Arrived = tuple[UploadedPart, datetime]
"""A part that the store has received, and when it has received the part."""


SINGLE_LIMIT = 5 << 30
"""Largest size of one PUT or one copy, in bytes."""

COPY_PART_SIZE = 512 << 20


def send_or_create(send: Callable[..., A], conditions: Mapping[str, str]) -> A:
    """Send a request that writes an object; if it is refused, repeat it as a create-only request.

    A policy of the bucket may forbid replacing objects, and then permits only requests with the
    condition that the object does not exist. A request with conditions is not repeated.
    """
    from botocore.exceptions import ClientError

    try:
        return send(**conditions)
    except ClientError as error:
        if conditions or status_of(error) != HTTPStatus.FORBIDDEN:
            raise
        try:
            return send(IfNoneMatch="*")
        except ClientError:
            raise error from None


class S3Uploads:
    """The multipart uploads of one namespace."""

    def __init__(self, store: CloudStore, bucket: str, connection: S3Connection) -> None:
        self._store = store
        self._connection = connection
        self._bucket = bucket

    def copy(
        self, source: dict[str, str], key: str, arguments: dict[str, Any], payer: dict[str, str]
    ) -> None:
        """Copy an object, in parts above 5 GiB.

        Args:
            source: a mapping with the names ``Bucket`` and ``Key`` of the original.
            arguments: attributes of the copy as SDK arguments; if empty, the copy gets the
                attributes of `source`.
            payer: further arguments if the requester pays for reading `source`.
        """
        from botocore.exceptions import ClientError

        client = self._connection.client()
        target = {"Bucket": self._bucket, "Key": self._store.full(key)}
        changes = {**arguments, "MetadataDirective": "REPLACE"} if arguments else {}
        try:
            send = partial(client.copy_object, **target, **changes, **payer, CopySource=source)
            send_or_create(send, {})
        except ClientError as error:
            # The error for "too large" differs between servers, so check the size instead.
            head = None
            if status_of(error) == HTTPStatus.BAD_REQUEST:
                with suppress(ClientError):
                    head = client.head_object(**source, **payer)
            if head is None or required(head, "ContentLength") <= SINGLE_LIMIT:
                raise
            names = ("ContentType", "ContentEncoding", "Metadata")
            kept = arguments or {name: head[name] for name in names if name in head}

            def copy(upload: UploadId, number: int, span: str) -> UploadedPart:
                answer = client.upload_part_copy(
                    **target,
                    **payer,
                    UploadId=upload,
                    PartNumber=number,
                    CopySource=source,
                    CopySourceIfMatch=required(head, "ETag"),  # all parts of one version
                    CopySourceRange=span,
                )
                return _part_of(number, 0, required(answer, "CopyPartResult"))

            self._run(key, ranges_of(head["ContentLength"]), copy, kept)

    def send(self, key: str, parts: Iterable[bytes], arguments: dict[str, Any]) -> Version:
        """Write an object by sending its parts in parallel; a failed part is sent again."""

        def send(upload: UploadId, number: int, body: bytes) -> UploadedPart:
            crc32c = google_crc32c.value(body)
            return self.put_part(key, upload, number, body, crc32c=crc32c, attempts=None)

        return self._run(key, parts, send, arguments)

    def _run(
        self,
        key: str,
        parts: Iterable[T],
        send: Callable[[UploadId, int, T], UploadedPart],
        arguments: dict[str, Any],
    ) -> Version:
        """Send all parts of an object and join them; if anything fails, abort the upload."""
        upload = self.start(key, arguments)
        try:
            sent = send_all(parts, lambda number, part: send(upload, number, part))
            return self.complete(key, upload, sent)
        except BaseException:
            with suppress(Exception):  # the first error is the one to report
                self.abort(key, upload)
            raise

    def start(
        self, key: str, arguments: Mapping[str, Any] = NO_METADATA, *, by_urls: bool = False
    ) -> UploadId:
        """Begin an upload."""
        with self._store.translated(key) as full:
            client = self._connection.client()
            # AWS needs to know beforehand whether the parts come with checksums.
            has_checksums = _has_checksums(client) and not by_urls
            checksums = {"ChecksumAlgorithm": "CRC32C"} if has_checksums else {}
            target = {"Bucket": self._bucket, "Key": full}
            answer = client.create_multipart_upload(**target, **checksums, **arguments)
            return UploadId(upload_id_of(answer.get("UploadId")))

    def put_part(
        self,
        key: str,
        upload: UploadId,
        number: int,
        body: bytes | BinaryIO,
        *,
        crc32c: int,
        attempts: int | None = 1,
    ) -> UploadedPart:
        """Send one part with at most `attempts` requests; ``None``: the configured number."""
        with self._of(key, upload) as target:
            client = self._connection.client(max_attempts=attempts)
            checksum = {"ChecksumCRC32C": _encoded(crc32c)} if _has_checksums(client) else {}
            answer = client.upload_part(**target, PartNumber=number, Body=body, **checksum)
            size = len(body) if isinstance(body, bytes) else body.tell()
            return _part_of(number, size, {**answer, **checksum})

    def parts(self, key: str, upload: UploadId) -> Iterator[UploadedPart]:
        """Yield the parts that the store has received."""
        return (part for part, _ in self._list(key, upload))

    def changed_at(self, key: str, upload: UploadId) -> datetime | None:
        """Return when the store received the last part."""
        return max((sent for _, sent in self._list(key, upload)), default=None)

    def complete(self, key: str, upload: UploadId, parts: Sequence[UploadedPart]) -> Version:
        """Join the parts of an upload."""
        described = [
            {"PartNumber": part.number, "ETag": part.tag}
            | ({} if part.crc32c is None else {"ChecksumCRC32C": _encoded(part.crc32c)})
            for part in parts
        ]
        with self._of(key, upload) as target:
            complete = self._connection.client().complete_multipart_upload
            send = partial(complete, **target, MultipartUpload={"Parts": described})
            version = version_of(send_or_create(send, {}))
        return version or self._store.head(key).version

    def abort(self, key: str, upload: UploadId) -> None:
        """Delete an upload and its parts; a missing upload is ignored."""
        with suppress(UploadNotFound), self._of(key, upload) as target:
            self._connection.client().abort_multipart_upload(**target)

    def iter_unfinished(self, prefix: str = "") -> Iterator[UnfinishedUpload]:
        """Yield the uploads of keys under `prefix`, a page at a time."""
        full, start = self._store.utf8(self._store.start + prefix), len(self._store.start)

        def ask(position: _Position) -> tuple[list[UnfinishedUpload], _Position | None]:
            page = self._connection.client().list_multipart_uploads(
                Bucket=self._bucket, Prefix=full, **position
            )
            found = [
                UnfinishedUpload(
                    required(item, "Key")[start:],
                    UploadId(upload_id_of(item.get("UploadId"))),
                    required(item, "Initiated"),
                )
                for item in page.get("Uploads", ())
                if str(item.get("Key")).startswith(full)  # not every server filters
            ]
            return found, page.get("IsTruncated") and {
                "KeyMarker": required(page, "NextKeyMarker"),
                "UploadIdMarker": upload_id_of(page.get("NextUploadIdMarker")),
            }

        return self._store.follow_pages(ask, _BEGINNING)

    def _list(self, key: str, upload: UploadId) -> Iterator[_Arrived]:
        def ask(position: _Position) -> tuple[list[_Arrived], _Position | None]:
            with self._of(key, upload) as target:
                page = self._connection.client().list_parts(**target, **position)
                found = []
                for item in page.get("Parts", ()):
                    part = _part_of(required(item, "PartNumber"), required(item, "Size"), item)
                    found.append((part, required(item, "LastModified")))
                return found, page.get("IsTruncated") and {
                    "PartNumberMarker": required(page, "NextPartNumberMarker")
                }

        return self._store.follow_pages(ask, _BEGINNING)

    @contextmanager
    def _of(self, key: str, upload: UploadId) -> Iterator[dict[str, str]]:
        """Convert errors about an upload or part, and yield the SDK's arguments for the upload."""
        with self._store.translated(key) as full:
            yield {"Bucket": self._bucket, "Key": full, "UploadId": upload}


def ranges_of(size: int) -> Iterator[str]:
    """Yield the byte ranges in which an object of `size` bytes is copied."""
    for start in range(0, size, COPY_PART_SIZE):
        yield f"bytes={start}-{min(start + COPY_PART_SIZE, size) - 1}"


def _part_of(number: int, size: int, answer: Mapping[str, Any]) -> UploadedPart:
    crc = answer.get("ChecksumCRC32C")
    return UploadedPart(number, size, required(answer, "ETag"), _decoded(crc) if crc else None)


def _has_checksums(client: Any) -> bool:  # noqa: ANN401 - the SDK is not typed
    return bool(client.meta.config.request_checksum_calculation == "when_supported")


def _encoded(crc32c: int) -> str:
    return base64.b64encode(crc32c.to_bytes(4)).decode()


def _decoded(text: str) -> int:
    try:
        return int(struct.unpack(">I", base64.b64decode(text.partition("-")[0]))[0])
    except (ValueError, struct.error):
        raise UnusableAnswerError("the CRC32C of a part is malformed") from None

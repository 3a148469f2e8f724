"""Uploads in parts, on S3: of streams, and those that outlive a process.

Multipart requests: for streams that are large or of unknown length, and copies above 5 GiB.

Uploads in parts that outlive a process, on S3; see `lakecli.stores.capabilities`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, BinaryIO

from lakecli.stores.capabilities import UnfinishedUpload, UploadedPart, UploadId, UploadNotFound
from lakecli.stores.contract import Condition, Version
from lakecli.stores.responses import check_moves, required, upload_id_of
from lakecli.stores.s3.connection import S3Connection
from lakecli.stores.s3.errors import status_of
from lakecli.stores.s3.versions import headers_of, version_of
from lakecli.stores.streams import send_all

if TYPE_CHECKING:
    from lakecli.stores.s3.store import S3Store

SINGLE_LIMIT = 5 << 30
"""Bytes in one PUT or one copy, at most."""

COPY_PART_SIZE = 512 << 20


def copy_object(
    client: Any,  # noqa: ANN401 - the SDK is not typed
    source: dict[str, str],
    target: dict[str, str],
    attributes: dict[str, Any],
) -> None:
    """Copy an object, in parts above 5 GiB.

    Args:
        client: of the SDK.
        source: ``Bucket`` and ``Key``.
        target: ``Bucket`` and ``Key``.
        attributes: of the copy; if there are none, it has those of `source`.
    """
    from botocore.exceptions import ClientError

    changes = {**attributes, "MetadataDirective": "REPLACE"} if attributes else {}
    try:
        client.copy_object(**target, **changes, CopySource=source)
    except ClientError as error:
        # The words for "too large" differ from server to server, so the size decides.
        head = None
        if status_of(error) == HTTPStatus.BAD_REQUEST:
            with suppress(ClientError):
                head = client.head_object(**source)
        if head is None or required(head, "ContentLength") <= SINGLE_LIMIT:
            raise
        kept = attributes or {name: head[name] for name in ("ContentType", "Metadata")}
        Multipart(client, target, kept).copy(source, head["ContentLength"])


def ranges_of(size: int) -> Iterator[str]:
    """Yield the byte ranges by which an object of `size` is copied."""
    for start in range(0, size, COPY_PART_SIZE):
        yield f"bytes={start}-{min(start + COPY_PART_SIZE, size) - 1}"


class Multipart:
    """One upload in parts.

    Args:
        client: of the SDK, with retries: a part may be sent again.
        target: ``Bucket`` and ``Key``.
        attributes: of the object to be, such as ``ContentType``.
    """

    def __init__(self, client: Any, target: dict[str, Any], attributes: dict[str, Any]) -> None:  # noqa: ANN401 - the SDK is not typed
        self._client = client
        self._target = target
        self._attributes = attributes

    def upload(
        self, parts: Iterable[bytes], complete: Callable[..., dict[str, Any]]
    ) -> dict[str, Any]:
        """Send parts in parallel, then `complete` them; abort if anything fails."""

        def send(number: int, part: Any, upload: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401
            answer = self._client.upload_part(**upload, PartNumber=number, Body=part)
            return _described(number, answer)

        return self._run(parts, send, complete)

    def copy(self, source: dict[str, Any], size: int) -> dict[str, Any]:
        """Copy `source` range by range, on the store's side."""

        def send(number: int, part: Any, upload: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401
            answer = self._client.upload_part_copy(
                **upload, PartNumber=number, CopySource=source, CopySourceRange=part
            )
            return _described(number, required(answer, "CopyPartResult"))

        return self._run(ranges_of(size), send, self._client.complete_multipart_upload)

    def _run(
        self,
        parts: Iterable[object],
        send: Callable[[int, object, dict[str, Any]], dict[str, Any]],
        complete: Callable[..., dict[str, Any]],
    ) -> dict[str, Any]:
        attributes = self._attributes
        if self._client.meta.config.request_checksum_calculation == "when_supported":
            # The SDK then sends a checksum with each part, which AWS needs to know beforehand.
            attributes = attributes | {"ChecksumAlgorithm": "CRC32"}
        answer = self._client.create_multipart_upload(**self._target, **attributes)
        upload = {**self._target, "UploadId": upload_id_of(answer.get("UploadId"))}
        try:
            sent = send_all(parts, lambda number, part: send(number, part, upload))
            return complete(**upload, MultipartUpload={"Parts": sent})
        except BaseException:
            with suppress(Exception):  # what went wrong before is the news
                self._client.abort_multipart_upload(**upload)
            raise


def _described(number: int, answer: dict[str, Any]) -> dict[str, Any]:
    """Return a part as the completing request names it, with its checksums."""
    part = {"PartNumber": number, "ETag": required(answer, "ETag")}
    return part | {
        name: value
        for name, value in answer.items()
        if name.startswith("Checksum") and name != "ChecksumType"
    }


_GONE = frozenset({"NoSuchUpload", "InvalidPart", "InvalidPartOrder"})


class S3Uploads:
    """The multipart uploads of one namespace.

    Args:
        store: of the namespace.
        connection: of the store.
    """

    def __init__(self, store: S3Store, connection: S3Connection) -> None:
        self._store = store
        self._connection = connection
        self._bucket = store.bucket

    def start(self, key: str) -> UploadId:
        """Begin an upload."""
        with self._store.translated(key) as full:
            client = self._connection.client()
            # AWS needs to know beforehand that the parts come with checksums.
            checksums = {"ChecksumAlgorithm": "CRC32C"} if _has_checksums(client) else {}
            answer = client.create_multipart_upload(Bucket=self._bucket, Key=full, **checksums)
            return UploadId(upload_id_of(answer.get("UploadId")))

    def put_part(
        self, key: str, upload: UploadId, number: int, body: bytes | BinaryIO, *, crc32c: int
    ) -> UploadedPart:
        """Send one part by one request."""
        with self._of(key, upload) as target:
            client = self._connection.client(max_attempts=1)
            checksum = {"ChecksumCRC32C": _encoded(crc32c)} if _has_checksums(client) else {}
            answer = client.upload_part(**target, PartNumber=number, Body=body, **checksum)
            etag = required(answer, "ETag")
        size = len(body) if isinstance(body, bytes) else body.tell()
        return UploadedPart(number, size, etag, crc32c if checksum else None)

    def parts(self, key: str, upload: UploadId) -> Iterator[UploadedPart]:
        """Yield the parts that have arrived."""
        for item in self._list(key, upload):
            crc = item.get("ChecksumCRC32C")
            yield UploadedPart(
                item["PartNumber"], item["Size"], item["ETag"], _decoded(crc) if crc else None
            )

    def changed_at(self, key: str, upload: UploadId) -> datetime | None:
        """Return when the last part arrived."""
        times: list[datetime] = [item["LastModified"] for item in self._list(key, upload)]
        return max(times, default=None)

    def complete(
        self, key: str, upload: UploadId, parts: Sequence[UploadedPart], condition: Condition
    ) -> Version:
        """Join the parts; a conditional request is never repeated."""
        described = [
            {"PartNumber": part.number, "ETag": part.tag}
            | ({} if part.crc32c is None else {"ChecksumCRC32C": _encoded(part.crc32c)})
            for part in parts
        ]
        conditions = headers_of(condition)
        with self._of(key, upload, may_be_absent=bool(conditions)) as target:
            client = self._connection.client(max_attempts=1 if conditions else None)
            answer = client.complete_multipart_upload(
                **target, MultipartUpload={"Parts": described}, **conditions
            )
            version = version_of(answer)
        return version or self._store.head(key).version

    def abort(self, key: str, upload: UploadId) -> None:
        """Delete an upload and its parts; a missing one is fine."""
        try:
            with self._of(key, upload) as target:
                self._connection.client().abort_multipart_upload(**target)
        except UploadNotFound:
            return

    def iter_unfinished(self, prefix: str = "") -> Iterator[UnfinishedUpload]:
        """Yield the uploads of keys under `prefix`, a page at a time."""
        position: dict[str, Any] = {}
        while True:
            with self._store.translated():
                page = self._connection.client().list_multipart_uploads(
                    Bucket=self._bucket, Prefix=self._store.start + prefix, **position
                )
                found = [
                    UnfinishedUpload(
                        required(item, "Key")[len(self._store.start) :],
                        UploadId(upload_id_of(item.get("UploadId"))),
                        required(item, "Initiated"),
                    )
                    for item in page.get("Uploads", ())
                    # Not every server filters.
                    if str(item.get("Key")).startswith(self._store.start + prefix)
                ]
                following = page.get("IsTruncated") and {
                    "KeyMarker": required(page, "NextKeyMarker"),
                    "UploadIdMarker": upload_id_of(page.get("NextUploadIdMarker")),
                }
                check_moves(position, following)
            yield from found
            if not following:
                return
            position = following

    def _list(self, key: str, upload: UploadId) -> Iterator[dict[str, Any]]:
        position: dict[str, Any] = {}
        while True:
            with self._of(key, upload) as target:
                page = self._connection.client().list_parts(**target, **position)
                found = page.get("Parts", ())
                for item in found:
                    for name in ("PartNumber", "Size", "ETag", "LastModified"):
                        required(item, name)
                following = page.get("IsTruncated") and {
                    "PartNumberMarker": required(page, "NextPartNumberMarker")
                }
                check_moves(position, following)
            yield from found
            if not following:
                return
            position = following

    @contextmanager
    def _of(
        self, key: str, upload: UploadId, *, may_be_absent: bool = False
    ) -> Iterator[dict[str, str]]:
        """Name an upload; raise `UploadNotFound` if the upload or a part is unknown."""
        from botocore.exceptions import ClientError

        with self._store.translated(key, may_be_absent=may_be_absent) as full:
            try:
                yield {"Bucket": self._bucket, "Key": full, "UploadId": upload}
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") in _GONE:
                    raise UploadNotFound(f"no such upload in parts: {key!r}") from error
                raise


def _has_checksums(client: Any) -> bool:  # noqa: ANN401 - the SDK is not typed
    return bool(client.meta.config.request_checksum_calculation == "when_supported")


def _encoded(crc32c: int) -> str:
    return base64.b64encode(crc32c.to_bytes(4)).decode()


def _decoded(text: str) -> int:
    return int.from_bytes(base64.b64decode(text.partition("-")[0]))

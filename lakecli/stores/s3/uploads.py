"""Uploads in parts that outlive a process, on S3; see `lakecli.stores.uploads`."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, BinaryIO

from lakecli.stores.answer_checks import check_moves, required, upload_id_of
from lakecli.stores.base import Condition, Version
from lakecli.stores.s3.conditions import headers_of, version_of
from lakecli.stores.s3.connection import S3Connection
from lakecli.stores.uploads import Part, UnfinishedUpload, UploadId, UploadNotFound

if TYPE_CHECKING:
    from lakecli.stores.s3.store import S3Store

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
    ) -> Part:
        """Send one part by one request."""
        with self._of(key, upload) as target:
            client = self._connection.client(max_attempts=1)
            checksum = {"ChecksumCRC32C": _encoded(crc32c)} if _has_checksums(client) else {}
            answer = client.upload_part(**target, PartNumber=number, Body=body, **checksum)
            etag = required(answer, "ETag")
        size = len(body) if isinstance(body, bytes) else body.tell()
        return Part(number, size, etag, crc32c if checksum else None)

    def parts(self, key: str, upload: UploadId) -> Iterator[Part]:
        """Yield the parts that have arrived."""
        for item in self._list(key, upload):
            crc = item.get("ChecksumCRC32C")
            yield Part(
                item["PartNumber"], item["Size"], item["ETag"], _decoded(crc) if crc else None
            )

    def changed_at(self, key: str, upload: UploadId) -> datetime | None:
        """Return when the last part arrived."""
        times: list[datetime] = [item["LastModified"] for item in self._list(key, upload)]
        return max(times, default=None)

    def complete(
        self, key: str, upload: UploadId, parts: Sequence[Part], condition: Condition
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

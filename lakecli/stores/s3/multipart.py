"""Multipart requests: for streams that are large or of unknown length, and copies above 5 GiB."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from lakecli.stores.answer_checks import required, upload_id_of
from lakecli.stores.s3.errors import status_of
from lakecli.stores.streams import send_all

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

"""Multipart uploads on Google Cloud Storage, which another process can resume.

The XML API has S3's multipart uploads, with two differences: parts cannot be joined on a condition,
and unfinished uploads are kept and billed until a lifecycle rule deletes them.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from io import SEEK_END
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import unquote
from xml.etree.ElementTree import Element, SubElement, tostring

from lakecli.errors import IntegrityError, Unsupported
from lakecli.stores import responses
from lakecli.stores.capabilities import UnfinishedUpload, UploadedPart, UploadId, UploadNotFound
from lakecli.stores.cloud_store import MatchingCloudStore
from lakecli.stores.contract import Version
from lakecli.stores.responses import UnusableAnswerError, etag_of, read_xml, upload_id_of

if TYPE_CHECKING:
    import requests

    from lakecli.stores.gs.client import GsClient

_PIECE = 1 << 20
_Position = dict[str, str]
_BEGINNING: _Position = {}
_Arrived = tuple[UploadedPart, datetime]
"""A part that the store has received, and when it has received the part."""

_LONGEST_NUMBER = 18
_OBJECTS = frozenset({"ListBucketResult"})


class GsUploads:
    """The multipart uploads of one namespace."""

    def __init__(self, store: "MatchingCloudStore[GsClient]") -> None:
        self._store = store

    @contextmanager
    def _asking(self, key: str) -> Iterator[Callable[..., "requests.Response"]]:
        """Convert errors, and yield a function that sends requests about an object's uploads."""
        with self._store.translated(key, may_be_absent=True) as full:
            yield lambda method, query, **options: self._store.sdk().ask_xml(
                method, full, query, **options
            )

    def start(self, key: str, *, by_urls: bool = False) -> UploadId:
        """Begin an upload; raise `Unsupported` if the server is an emulator without uploads."""
        del by_urls  # any part may come without a checksum
        with self._asking(key) as ask:
            answer = ask("POST", {"uploads": ""})
            found = read_xml(answer.content, "InitiateMultipartUploadResult")
            return UploadId(upload_id_of(_text(found, "UploadId")))

    def put_part(
        self, key: str, upload: UploadId, number: int, body: bytes | BinaryIO, *, crc32c: int
    ) -> UploadedPart:
        """Send one part by one request."""
        sent = body if isinstance(body, bytes) else _Body(body)
        digest = b64encode(crc32c.to_bytes(4)).decode()
        with self._asking(key) as ask:
            query = {"partNumber": str(number), "uploadId": upload}
            hashes = {"x-goog-hash": f"crc32c={digest}"}
            answer = ask("PUT", query, body=sent, headers=hashes, may_repeat=False)
            tag = etag_of(responses.required(answer.headers, "ETag"))
        received = answer.headers.get("x-goog-hash", "")
        if "crc32c=" in received and f"crc32c={digest}" not in received:
            raise IntegrityError(f"the store received other bytes than were sent: {key!r}")
        return UploadedPart(number, len(sent), tag, crc32c)

    def parts(self, key: str, upload: UploadId) -> Iterator[UploadedPart]:
        """Yield the parts that the store has received, by number, without checksums."""
        return (part for part, _ in self._list(key, upload))

    def changed_at(self, key: str, upload: UploadId) -> datetime | None:
        """Return when the store received the last part."""
        return max((sent for _, sent in self._list(key, upload)), default=None)

    def complete(self, key: str, upload: UploadId, parts: Sequence[UploadedPart]) -> Version:
        """Join the parts."""
        wanted = Element("CompleteMultipartUpload")
        for part in parts:
            item = SubElement(wanted, "Part")
            SubElement(item, "PartNumber").text = str(part.number)
            SubElement(item, "ETag").text = f'"{part.tag}"'
        with self._asking(key) as ask:
            answer = ask("POST", {"uploadId": upload}, body=tostring(wanted))
            # The ETag is missing if the server failed after it had begun to answer.
            _text(read_xml(answer.content, "CompleteMultipartUploadResult"), "ETag")
        generation = answer.headers.get("x-goog-generation")
        return Version(generation) if generation else self._store.head(key).version

    def abort(self, key: str, upload: UploadId) -> None:
        """Delete an upload and its parts; a missing upload is ignored."""
        with suppress(UploadNotFound), self._asking(key) as ask:
            ask("DELETE", {"uploadId": upload})

    def iter_unfinished(self, prefix: str = "") -> Iterator[UnfinishedUpload]:
        """Yield the uploads of keys under `prefix`, a page at a time.

        An emulator of Google's server may not support multipart uploads, and refuse the request or
        list objects instead. Nothing is yielded then.
        """
        full, start = self._store.utf8(self._store.start + prefix), len(self._store.start)
        wanted = {"uploads": "", "prefix": full, "encoding-type": "url"}

        def ask(position: _Position) -> tuple[list[UnfinishedUpload], _Position | None]:
            try:
                answer = self._store.sdk().ask_xml("GET", "", wanted | position)
            except Unsupported:
                return [], None
            page = read_xml(answer.content, "ListMultipartUploadsResult", also=_OBJECTS)
            if page.tag.endswith("ListBucketResult"):
                return [], None
            page = read_xml(answer.content, "ListMultipartUploadsResult", "IsTruncated")
            spelled = unquote if page.findtext("{*}EncodingType") == "url" else str
            found = [
                UnfinishedUpload(
                    responses.name_below(full, spelled(_text(item, "Key")))[start:],
                    UploadId(upload_id_of(_text(item, "UploadId"))),
                    _time(item, "Initiated"),
                )
                for item in page.iterfind("{*}Upload")
            ]
            if page.findtext("{*}IsTruncated") != "true":
                return found, None
            marker = upload_id_of(_text(page, "NextUploadIdMarker"))
            key = spelled(_text(page, "NextKeyMarker"))
            return found, {"key-marker": key, "upload-id-marker": marker}

        return self._store.follow_pages(ask, _BEGINNING)

    def _list(self, key: str, upload: UploadId) -> Iterator[_Arrived]:
        def ask(position: _Position) -> tuple[list[_Arrived], _Position | None]:
            with self._asking(key) as ask_xml:
                answer = ask_xml("GET", {"uploadId": upload} | position)
                page = read_xml(answer.content, "ListPartsResult", "IsTruncated")
                following = None
                if page.findtext("{*}IsTruncated") == "true":
                    following = {"part-number-marker": str(_number(page, "NextPartNumberMarker"))}
                return [_part_of(item) for item in page.iterfind("{*}Part")], following

        return self._store.follow_pages(ask, _BEGINNING)


class _Body:
    """A body that the SDK can send again from its beginning, after it has logged in."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        stream.seek(0, SEEK_END)
        self._size = stream.tell()

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[bytes]:
        self._stream.seek(0)
        while piece := self._stream.read(_PIECE):
            yield piece


def _part_of(item: Element) -> _Arrived:
    number, size = _number(item, "PartNumber"), _number(item, "Size")
    return UploadedPart(number, size, etag_of(_text(item, "ETag"))), _time(item, "LastModified")


def _text(item: Element, name: str) -> str:
    found = item.findtext(f"{{*}}{name}")
    if not found:
        raise UnusableAnswerError(f"it has no {name}")
    return found


def _number(item: Element, name: str) -> int:
    found = _text(item, name)
    if not found.isascii() or not found.isdigit() or len(found) > _LONGEST_NUMBER:
        raise UnusableAnswerError(f"{name} is not a number")
    return int(found)


def _time(item: Element, name: str) -> datetime:
    try:
        found = datetime.fromisoformat(_text(item, name))
    except ValueError:
        raise UnusableAnswerError(f"{name} is not a time") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)

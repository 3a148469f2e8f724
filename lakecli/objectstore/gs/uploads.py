"""Uploads in parts that outlive a process, on Google Cloud Storage.

The XML API has the multipart uploads of S3, with two differences: parts are joined without a
condition, and unfinished uploads are kept and billed until a lifecycle rule deletes them.
"""

from __future__ import annotations

from base64 import b64encode
from contextlib import contextmanager
from datetime import datetime
from io import SEEK_END
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import unquote
from xml.etree.ElementTree import Element, SubElement, fromstring, tostring

from lakecli.errors import IntegrityError, Unreachable, Unsupported
from lakecli.objectstore.base import AnyVersion, Version
from lakecli.objectstore.uploads import Part, UnfinishedUpload, UploadId, UploadNotFound

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from requests import Response

    from lakecli.objectstore.base import Condition
    from lakecli.objectstore.gs.store import GsStore

_GONE = frozenset({"NoSuchUpload", "InvalidPart", "InvalidPartOrder"})
_PIECE = 1 << 20


class GsUploads:
    """The multipart uploads of one namespace.

    Args:
        store: of the namespace.
    """

    def __init__(self, store: GsStore) -> None:
        self._store = store

    def start(self, key: str) -> UploadId:
        """Begin an upload."""
        with self._of(key) as full:
            answer = self._store.sdk().ask_xml("POST", full, {"uploads": ""})
            return UploadId(_text(_parsed(answer), "UploadId"))

    def put_part(
        self, key: str, upload: UploadId, number: int, body: bytes | BinaryIO, *, crc32c: int
    ) -> Part:
        """Send one part by one request."""
        sent = body if isinstance(body, bytes) else _Body(body)
        digest = b64encode(crc32c.to_bytes(4)).decode()
        with self._of(key) as full:
            answer = self._store.sdk().ask_xml(
                "PUT",
                full,
                {"partNumber": str(number), "uploadId": upload},
                body=sent,
                headers={"x-goog-hash": f"crc32c={digest}"},
                may_repeat=False,
            )
        received = answer.headers.get("x-goog-hash", "")
        if "crc32c=" in received and f"crc32c={digest}" not in received:
            raise IntegrityError(f"the store received other bytes than were sent: {key!r}")
        return Part(number, len(sent), answer.headers["ETag"].strip('"'), crc32c)

    def parts(self, key: str, upload: UploadId) -> Iterator[Part]:
        """Yield the parts that have arrived; listings have no checksums."""
        for item in self._list(key, upload):
            number, size = int(_text(item, "PartNumber")), int(_text(item, "Size"))
            yield Part(number, size, _text(item, "ETag").strip('"'))

    def changed_at(self, key: str, upload: UploadId) -> datetime | None:
        """Return when the last part arrived."""
        times = (_time(item, "LastModified") for item in self._list(key, upload))
        return max(times, default=None)

    def complete(
        self, key: str, upload: UploadId, parts: Sequence[Part], condition: Condition
    ) -> Version:
        """Join the parts.

        Raises:
            Unsupported: there is a condition, which the server would ignore.
        """
        if not isinstance(condition, AnyVersion):
            raise Unsupported(
                f"Google Cloud Storage joins parts unconditionally, nothing was written: {key!r}"
            )
        wanted = Element("CompleteMultipartUpload")
        for part in parts:
            item = SubElement(wanted, "Part")
            SubElement(item, "PartNumber").text = str(part.number)
            SubElement(item, "ETag").text = f'"{part.tag}"'
        with self._of(key) as full:
            answer = self._store.sdk().ask_xml(
                "POST", full, {"uploadId": upload}, body=tostring(wanted)
            )
            _text(_parsed(answer), "ETag")  # missing if the request failed midway
        generation = answer.headers.get("x-goog-generation")
        return Version(generation) if generation else self._store.head(key).version

    def abort(self, key: str, upload: UploadId) -> None:
        """Delete an upload and its parts; a missing one is fine."""
        try:
            with self._of(key) as full:
                self._store.sdk().ask_xml("DELETE", full, {"uploadId": upload})
        except UploadNotFound:
            return

    def iter_unfinished(self, prefix: str = "") -> Iterator[UnfinishedUpload]:
        """Yield the uploads of keys under `prefix`, a page at a time."""
        position: dict[str, str] = {}
        while True:
            wanted = {"uploads": "", "prefix": self._store.start + prefix, "encoding-type": "url"}
            with self._store.translated():
                page = _parsed(self._store.sdk().ask_xml("GET", "", wanted | position))
            is_quoted = page.findtext("{*}EncodingType") == "url"
            for item in page.iterfind("{*}Upload"):
                name = _text(item, "Key")
                key = (unquote(name) if is_quoted else name)[len(self._store.start) :]
                upload = UploadId(_text(item, "UploadId"))
                yield UnfinishedUpload(key, upload, _time(item, "Initiated"))
            if page.findtext("{*}IsTruncated") != "true":
                return
            marker = _text(page, "NextKeyMarker")
            position = {
                "key-marker": unquote(marker) if is_quoted else marker,
                "upload-id-marker": _text(page, "NextUploadIdMarker"),
            }

    def _list(self, key: str, upload: UploadId) -> Iterator[Element]:
        position: dict[str, str] = {}
        while True:
            with self._of(key) as full:
                page = _parsed(
                    self._store.sdk().ask_xml("GET", full, {"uploadId": upload} | position)
                )
            yield from page.iterfind("{*}Part")
            if page.findtext("{*}IsTruncated") != "true":
                return
            position = {"part-number-marker": _text(page, "NextPartNumberMarker")}

    @contextmanager
    def _of(self, key: str) -> Iterator[str]:
        """Name an object in full; raise `UploadNotFound` if the upload or a part is unknown."""
        from google.api_core.exceptions import GoogleAPICallError

        with self._store.translated(key, may_be_absent=True) as full:
            try:
                yield full
            except GoogleAPICallError as error:
                if error.errors and error.errors[0].get("reason") in _GONE:
                    raise UploadNotFound(f"no such upload in parts: {key!r}") from error
                raise


class _Body:
    """A stream that is sent from its beginning each time: the SDK may have to log in again."""

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


def _parsed(answer: Response) -> Element:
    try:
        return fromstring(answer.content)  # noqa: S314 - from the store that holds all data
    except SyntaxError as error:
        raise Unreachable("the response of the store was cut off", hint="repeat the command") from (
            error
        )


def _text(item: Element, name: str) -> str:
    found = item.findtext(f"{{*}}{name}")
    if not found:
        raise Unreachable(f"the response of the store has no {name}", hint="repeat the command")
    return found


def _time(item: Element, name: str) -> datetime:
    return datetime.fromisoformat(_text(item, name))

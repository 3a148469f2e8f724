"""The XML API's multipart uploads for `gcs_server`, as strict as the real ones."""

from __future__ import annotations

import re
from base64 import b64encode
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import md5
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlsplit
from uuid import uuid4
from xml.etree.ElementTree import Element, SubElement, fromstring, tostring

from gcp_storage_emulator.handlers import objects
from google_crc32c import value as crc32c

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Handler = Callable[..., None]

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
SMALLEST = 5 << 20
PAGE_SIZE = 3
"""Entries of a page: few, so that tests read several pages, as a server may return fewer."""


@dataclass
class Upload:
    """An unfinished upload; `parts` are bytes and their time, by number."""

    bucket: str
    name: str
    started: str
    content_type: str
    parts: dict[int, tuple[bytes, str]] = field(default_factory=dict)


class Refusal(Exception):
    """An error answer."""

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(code)
        self.status, self.code, self.text = status, code, text


class Parts:
    """Handles requests about uploads in parts, and passes others on."""

    def __init__(self) -> None:
        self._uploads: dict[str, Upload] = {}

    def or_else(self, handler: Handler | None, method: str) -> Handler:
        """Return a handler for one method of a path."""

        def handle(request: Any, response: Any, storage: Any) -> None:
            query = dict(parse_qsl(urlsplit(request.full_url).query, keep_blank_values=True))
            chosen = self._chosen(method, query, is_object="object_id" in request.params)
            if chosen is not None:
                with refusing(response):
                    if request.params["bucket_name"] not in storage.buckets:
                        raise Refusal(404, "NoSuchBucket", "The specified bucket does not exist.")
                    chosen(request, response, storage, query)
            elif handler is not None:
                handler(request, response, storage)
            else:
                response.status = HTTPStatus.METHOD_NOT_ALLOWED

        return handle

    def _chosen(self, method: str, query: dict[str, str], *, is_object: bool) -> Handler | None:
        if not is_object:
            return self._list_uploads if method == "GET" and "uploads" in query else None
        if "uploadId" in query:
            known: dict[str, Handler] = {
                "PUT": self._put,
                "GET": self._list,
                "POST": self._complete,
                "DELETE": self._abort,
            }
            return known.get(method)
        return self._begin if method == "POST" and "uploads" in query else None

    def _begin(self, request: Any, response: Any, storage: Any, query: dict[str, str]) -> None:
        del storage, query
        bucket, name = request.params["bucket_name"], request.params["object_id"]
        upload = uuid4().hex
        content_type = request.get_header("Content-Type") or "application/octet-stream"
        self._uploads[upload] = Upload(bucket, name, moment(), content_type)
        told = {"Bucket": bucket, "Key": name, "UploadId": upload}
        answer(response, element("InitiateMultipartUploadResult", told))

    def _put(self, request: Any, response: Any, storage: Any, query: dict[str, str]) -> None:
        del storage
        upload, body, number = self._find(request, query), request.data, int(query["partNumber"])
        if not 1 <= number <= 10_000:
            raise Refusal(400, "InvalidArgument", "Part numbers are from 1 to 10000.")
        actual = b64encode(crc32c(body).to_bytes(4)).decode()
        announced = re.search(r"crc32c=([^,]+)", request.get_header("x-goog-hash") or "")
        if announced and announced[1] != actual:
            raise Refusal(400, "BadDigest", "The CRC32C you specified did not match.")
        upload.parts[number] = body, moment()
        response["ETag"] = etag(body)
        response["x-goog-hash"] = f"crc32c={actual},md5={b64encode(digest(body)).decode()}"

    def _list(self, request: Any, response: Any, storage: Any, query: dict[str, str]) -> None:
        del storage
        parts = sorted(self._find(request, query).parts.items())
        left = [each for each in parts if each[0] > int(query.get("part-number-marker") or 0)]
        page = element("ListPartsResult", {"IsTruncated": truth(len(left) > PAGE_SIZE)})
        if len(left) > PAGE_SIZE:
            page.append(element("NextPartNumberMarker", {}))
            page[-1].text = str(left[PAGE_SIZE - 1][0])
        for number, (body, changed) in left[:PAGE_SIZE]:
            told = {
                "PartNumber": str(number),
                "LastModified": changed,
                "ETag": etag(body),
                "Size": str(len(body)),
            }
            page.append(element("Part", told))
        answer(response, page)

    def _complete(self, request: Any, response: Any, storage: Any, query: dict[str, str]) -> None:
        upload = self._find(request, query)
        if request.get_header("x-goog-if-generation-match") is not None:
            raise Refusal(400, "InvalidArgument", "Preconditions are not supported here.")
        wanted = [
            (int(part.findtext("PartNumber") or 0), part.findtext("ETag"))
            for part in fromstring(request.data)
        ]
        numbers = [number for number, _ in wanted]
        if not numbers or numbers != sorted(set(numbers)):
            raise Refusal(400, "InvalidPartOrder", "Parts are joined by their numbers.")
        bodies = []
        for number, tag in wanted:
            body, _ = upload.parts.get(number, (None, ""))
            if body is None or etag(body) != tag:
                raise Refusal(400, "InvalidPart", f"There is no part {number} like this.")
            if len(body) < SMALLEST and number != numbers[-1]:
                raise Refusal(400, "EntityTooSmall", "A part is too small.")
            bodies.append(body)
        joined = b"".join(bodies)
        made = objects._make_object_resource(
            request.base_url, upload.bucket, upload.name, upload.content_type, str(len(joined))
        )
        made = objects._checksums(joined, made)
        del made["md5Hash"]  # objects that were joined have none
        storage.create_file(upload.bucket, upload.name, joined, made)
        del self._uploads[query["uploadId"]]
        told = {"Bucket": upload.bucket, "Key": upload.name, "ETag": f'"{uuid4().hex}"'}
        answer(response, element("CompleteMultipartUploadResult", told))

    def _abort(self, request: Any, response: Any, storage: Any, query: dict[str, str]) -> None:
        del storage
        self._find(request, query)
        del self._uploads[query["uploadId"]]
        response.status = HTTPStatus.NO_CONTENT

    def _list_uploads(
        self, request: Any, response: Any, storage: Any, query: dict[str, str]
    ) -> None:
        del storage
        after = query.get("key-marker", ""), query.get("upload-id-marker", "")
        found = sorted(
            (each.name, upload)
            for upload, each in self._uploads.items()
            if each.bucket == request.params["bucket_name"]
            and each.name.startswith(query.get("prefix", ""))
        )
        left = [each for each in found if each > after]
        written: Callable[[str], str] = str
        told = {"IsTruncated": truth(len(left) > PAGE_SIZE)}
        if query.get("encoding-type") == "url":
            told["EncodingType"], written = "url", quote
        if len(left) > PAGE_SIZE:
            name, upload = left[PAGE_SIZE - 1]
            told |= {"NextKeyMarker": written(name), "NextUploadIdMarker": upload}
        page = element("ListMultipartUploadsResult", told)
        for name, upload in left[:PAGE_SIZE]:
            started = self._uploads[upload].started
            item = {"Key": written(name), "UploadId": upload, "Initiated": started}
            page.append(element("Upload", item))
        answer(response, page)

    def _find(self, request: Any, query: dict[str, str]) -> Upload:
        found = self._uploads.get(query["uploadId"])
        asked = request.params["bucket_name"], request.params["object_id"]
        if found is None or (found.bucket, found.name) != asked:
            raise Refusal(404, "NoSuchUpload", "The requested upload was not found.")
        return found


@contextmanager
def refusing(response: Any) -> Iterator[None]:
    try:
        yield
    except Refusal as refusal:
        error = Element("Error")
        SubElement(error, "Code").text = refusal.code
        SubElement(error, "Message").text = refusal.text
        answer(response, error)
        response.status = HTTPStatus(refusal.status)


def answer(response: Any, content: Element) -> None:
    response["Content-Type"] = "application/xml; charset=UTF-8"
    response._content = tostring(content)


def element(name: str, children: dict[str, str]) -> Element:
    made = Element(f"{{{NAMESPACE}}}{name}")
    for child, text in children.items():
        SubElement(made, f"{{{NAMESPACE}}}{child}").text = text
    return made


def digest(body: bytes) -> bytes:
    return md5(body, usedforsecurity=False).digest()


def etag(body: bytes) -> str:
    return f'"{digest(body).hex()}"'


def moment() -> str:
    return datetime.now(UTC).isoformat()  # noqa: TID251 - a server has a clock


def truth(value: object) -> str:
    return "true" if value else "false"

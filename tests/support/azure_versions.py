"""A small Azure Blob Storage that keeps versions, which Azurite does not.

It knows what lakecli asks of one account: writing a block blob, whole or in blocks, reading it or a
version of it whole or in part, listing current blobs or all versions, deleting in batches, and
deleting a version. Each signature in a URL is verified; shared keys in headers are not.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from hashlib import sha256
from hmac import digest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.support.azurite import ACCOUNT, KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTAINER = "container"
_BOUNDARY = "batchresponse"
_START = datetime(2026, 3, 1, tzinfo=UTC)
_SIGNED = ("sp", "st", "se", "", "si", "sip", "spr", "sv", "sr", "versionid", "ses")
_SAID = ("rscc", "rscd", "rsce", "rscl", "rsct")


@dataclass(frozen=True)
class Kept:
    """A version; its `time` is its name."""

    name: str
    time: str
    body: bytes
    etag: str

    @property
    def headers(self) -> dict[str, str]:
        return {
            "ETag": f'"{self.etag}"',
            "Last-Modified": format_datetime(_START, usegmt=True),
            "x-ms-version-id": self.time,
            "x-ms-blob-type": "BlockBlob",
            "x-ms-creation-time": format_datetime(_START, usegmt=True),
            "Content-Type": "application/octet-stream",
        }


@dataclass
class Blobs:
    """What the container holds.

    Attributes:
        keeps_versions: whether the account has versioning enabled.
        versions: by name and time, in the order of their making.
        current: the time of the current version of each name.
        blocks: blocks that were sent, by the name of the blob and their own.
    """

    keeps_versions: bool = True
    versions: dict[tuple[str, str], Kept] = field(default_factory=dict)
    current: dict[str, str] = field(default_factory=dict)
    blocks: dict[tuple[str, str], bytes] = field(default_factory=dict)
    count: int = 0
    lock: Lock = field(default_factory=Lock)

    def write(self, name: str, body: bytes) -> Kept:
        self.count += 1
        moment = _START + timedelta(microseconds=self.count)
        time = f"{moment:%Y-%m-%dT%H:%M:%S.%f}0Z"
        kept = self.versions[name, time] = Kept(name, time, body, f"0x{self.count:X}")
        self.current[name] = time
        return kept

    def find(self, name: str, time: str) -> Kept | None:
        return self.versions.get((name, time or self.current.get(name, "")))

    def delete(self, name: str, time: str = "") -> bool:
        if not time:
            return self.current.pop(name, None) is not None
        return self.versions.pop((name, time), None) is not None


class _Handler(BaseHTTPRequestHandler):
    blobs: Blobs
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""

    def _serve(self) -> None:
        url = urlsplit(self.path)
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        name = unquote(url.path.removeprefix(f"/{ACCOUNT}/{CONTAINER}").lstrip("/"))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.blobs.lock:
            if "sig" in query and not self._is_genuine(name, query):
                self._fail(403, "AuthenticationFailed")
            elif query.get("comp") == "batch":
                self._delete_many(body)
            elif query.get("comp") == "list":
                self._list(query)
            elif query.get("comp") == "block":
                self.blobs.blocks[name, query["blockid"]] = body
                self._answer(201, {})
            elif query.get("comp") == "blocklist":
                named = re.findall(r"<(?:Latest|Uncommitted)>([^<]+)<", body.decode())
                blocks = [self.blobs.blocks[name, each] for each in named]
                self._answer(201, self.blobs.write(name, b"".join(blocks)).headers)
            else:
                self._serve_blob(name, query.get("versionid", ""), body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815 - the base class's names

    def _serve_blob(self, name: str, time: str, body: bytes) -> None:
        if self.command == "PUT":
            self._answer(201, self.blobs.write(name, body).headers)
        elif (found := self.blobs.find(name, time)) is None:
            self._fail(404, "BlobNotFound")
        elif self.command == "DELETE":
            self.blobs.delete(name, time)
            self._answer(202, {})
        else:
            self._read(found)

    def _read(self, found: Kept) -> None:
        size = len(found.body)
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("x-ms-range") or "")
        if span is None:
            self._answer(200, found.headers, found.body)
        elif int(span[1]) >= size:
            self._fail(416, "InvalidRange")
        else:
            start, end = int(span[1]), min(int(span[2] or size) + 1, size)
            told = found.headers | {"Content-Range": f"bytes {start}-{end - 1}/{size}"}
            self._answer(206, told, found.body[start:end])

    def _list(self, query: dict[str, str]) -> None:
        with_versions = "versions" in query.get("include", "")
        blobs = self.blobs
        named = sorted(
            kept
            for kept in blobs.versions
            if kept[0].startswith(query.get("prefix", ""))
            and (blobs.current.get(kept[0]) == kept[1] or (with_versions and blobs.keeps_versions))
        )
        first = int(query.get("marker") or 0)
        last = first + min(int(query.get("maxresults", 5_000)), 4)
        items = "".join(
            self._item(blobs.versions[kept], with_versions=with_versions)
            for kept in named[first:last]
        )
        marker = str(last) if last < len(named) else ""
        text = (
            f"<?xml version='1.0' encoding='utf-8'?><EnumerationResults><Blobs>{items}</Blobs>"
            f"<NextMarker>{marker}</NextMarker></EnumerationResults>"
        )
        self._answer(200, {"Content-Type": "application/xml"}, text.encode())

    def _item(self, kept: Kept, *, with_versions: bool) -> str:
        version = ""
        if with_versions and self.blobs.keeps_versions:
            is_current = self.blobs.current.get(kept.name) == kept.time
            version = f"<VersionId>{kept.time}</VersionId>"
            version += "<IsCurrentVersion>true</IsCurrentVersion>" if is_current else ""
        return (
            f"<Blob><Name>{escape(kept.name)}</Name>{version}<Properties>"
            f"<Last-Modified>{format_datetime(_START, usegmt=True)}</Last-Modified>"
            f"<Etag>{kept.etag}</Etag><Content-Length>{len(kept.body)}</Content-Length>"
            "<Content-Type>application/octet-stream</Content-Type><BlobType>BlockBlob</BlobType>"
            "</Properties></Blob>"
        )

    def _delete_many(self, body: bytes) -> None:
        paths = re.findall(rb"^DELETE (\S+) HTTP/1\.1", body, re.MULTILINE)
        parts = []
        for number, path in enumerate(paths):
            name = unquote(urlsplit(path.decode()).path).partition(f"/{CONTAINER}/")[2]
            status = "202 Accepted" if self.blobs.delete(name) else "404 Not Found"
            code = "" if status.startswith("202") else "x-ms-error-code: BlobNotFound\r\n"
            parts.append(
                f"--{_BOUNDARY}\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\n"
                f"HTTP/1.1 {status}\r\n{code}\r\n"
            )
        text = "".join(parts) + f"--{_BOUNDARY}--\r\n"
        self._answer(202, {"Content-Type": f"multipart/mixed; boundary={_BOUNDARY}"}, text.encode())

    def _is_genuine(self, name: str, query: dict[str, str]) -> bool:
        resource = f"/blob/{ACCOUNT}/{CONTAINER}/{name}"
        text = "\n".join(
            resource if not each else query.get(each, "") for each in (*_SIGNED, *_SAID)
        )
        expected = b64encode(digest(b64decode(KEY), text.encode(), sha256)).decode()
        return query["sig"] == expected and query["sr"] == ("bv" if "versionid" in query else "b")

    def _fail(self, status: int, code: str) -> None:
        text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>"
        headers = {"x-ms-error-code": code, "Content-Type": "application/xml"}
        self._answer(status, headers, text.encode())

    def _answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def versioned_azure(*, keeps_versions: bool = True) -> Iterator[tuple[str, Blobs]]:
    """Serve a container of its own; yield the connection string, and what the container holds."""
    blobs = Blobs(keeps_versions)
    handler = type("Handler", (_Handler,), {"blobs": blobs})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/{ACCOUNT}"
        try:
            yield f"AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={url};", blobs
        finally:
            server.shutdown()
            thread.join()

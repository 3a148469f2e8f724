"""Requests of S3 as they go over the wire: signed here, independently of lakecli's own code.

What a test sends is exactly what it says: no header is added, no path is normalised, and nothing is
tried again.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree as ET

import google_crc32c

REGION: Final = "us-east-1"
UNSIGNED: Final = "UNSIGNED-PAYLOAD"
CHUNKS: Final = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_TRAILER: Final = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
UNSIGNED_TRAILER: Final = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
EMPTY: Final = hashlib.sha256(b"").hexdigest()
LIMIT: Final = 60.0
"""Seconds that a server may take for an answer."""


class Keys(NamedTuple):
    """A key pair, and what a signature is made for."""

    access: str
    secret: str
    region: str = REGION


class Answer(NamedTuple):
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """The code of an error; empty if the body is none."""
        found = re.search(rb"<Code>(.*?)</Code>", self.body)
        return found[1].decode() if found else ""

    def texts(self, path: str) -> list[str]:
        """Return the texts of the elements at a path below the root, without namespaces."""
        level = [ET.fromstring(self.body)]
        for name in path.split("/"):
            level = [each for above in level for each in above if _local(each) == name]
        return [each.text or "" for each in level]


def _local(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def encode(text: str, *, safe: str = "") -> str:
    """Percent-encode as signatures want it."""
    return quote(text, safe=f"{safe}-._~")


def path_of(bucket: str, key: str | None = None) -> str:
    """Return the path of a bucket, or of a key in it."""
    return f"/{bucket}" if key is None else f"/{bucket}/{encode(key, safe='/')}"


def query_of(query: Mapping[str, str]) -> str:
    """Return a query in the order of its names, as signatures want it."""
    pairs = sorted((encode(name), encode(value)) for name, value in query.items())
    return "&".join(f"{name}={value}" for name, value in pairs)


class Seal(NamedTuple):
    """A signature, and what the signatures of chunks build on."""

    key: bytes
    scope: str
    date: str
    signature: str

    def next(self, kind: str, *parts: bytes) -> Seal:
        """Return the signature that follows this one."""
        digests = (hashlib.sha256(part).hexdigest() for part in parts)
        text = "\n".join((kind, self.date, self.scope, self.signature, *digests))
        return self._replace(signature=_hmac(self.key, text).hex())


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def stamp(at: datetime) -> str:
    """Return a time as signatures write it."""
    return at.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def seal(  # noqa: PLR0917 - the parts of a request, in their order
    keys: Keys,
    method: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    payload: str,
    date: str,
) -> Seal:
    """Sign a request by all of these headers."""
    scope = f"{date[:8]}/{keys.region}/s3/aws4_request"
    names = sorted(headers, key=str.lower)
    lines = "".join(f"{name.lower()}:{' '.join(headers[name].split())}\n" for name in names)
    signed = ";".join(name.lower() for name in names)
    canonical = f"{method}\n{path}\n{query}\n{lines}\n{signed}\n{payload}"
    digest = hashlib.sha256(canonical.encode("utf-8", "surrogateescape")).hexdigest()
    key = f"AWS4{keys.secret}".encode()
    for part in (date[:8], keys.region, "s3", "aws4_request"):
        key = _hmac(key, part)
    text = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{digest}"
    return Seal(key, scope, date, _hmac(key, text).hex())


def sign(  # noqa: PLR0917 - the parts of a request, in their order
    keys: Keys,
    method: str,
    host: str,
    path: str,
    query: str = "",
    headers: Mapping[str, str] | None = None,
    *,
    payload: str,
    at: datetime | None = None,
) -> tuple[dict[str, str], Seal]:
    """Return the headers of a signed request, and the signature."""
    date = stamp(at or now())
    all_of = {"Host": host, "x-amz-date": date, "x-amz-content-sha256": payload, **(headers or {})}
    made = seal(keys, method, path, query, all_of, payload, date)
    names = ";".join(sorted(name.lower() for name in all_of))
    all_of["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys.access}/{made.scope}, SignedHeaders={names}, "
        f"Signature={made.signature}"
    )
    return all_of, made


def presign(
    keys: Keys,
    method: str,
    host: str,
    path: str,
    query: Mapping[str, str] | None = None,
    *,
    expires: int = 60,
    at: datetime | None = None,
    headers: Mapping[str, str] | None = None,
) -> str:
    """Return a path with a query that is signed."""
    date = stamp(at or now())
    all_of = {"Host": host, **(headers or {})}
    full = {
        **(query or {}),
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{keys.access}/{date[:8]}/{keys.region}/s3/aws4_request",
        "X-Amz-Date": date,
        "X-Amz-Expires": str(expires),
        "X-Amz-SignedHeaders": ";".join(sorted(name.lower() for name in all_of)),
    }
    made = seal(keys, method, path, query_of(full), all_of, UNSIGNED, date)
    return f"{path}?{query_of(full)}&X-Amz-Signature={made.signature}"


def now() -> datetime:
    """Return the present time."""
    return datetime.now(UTC)  # noqa: TID251 - servers compare it with theirs


def minutes_from_now(minutes: float) -> datetime:
    """Return a time that a server may refuse."""
    return now() + timedelta(minutes=minutes)


def digest64(name: str, data: bytes) -> str:
    """Return a checksum as headers write it.

    Args:
        name: ``md5``, ``sha1``, ``sha256``, ``crc32``, ``crc32c`` or ``crc64nvme``.
        data: what it is of.
    """
    if name == "crc32":
        raw = zlib.crc32(data).to_bytes(4, "big")
    elif name == "crc32c":
        raw = google_crc32c.value(data).to_bytes(4, "big")
    elif name == "crc64nvme":
        raw = _crc64nvme(data).to_bytes(8, "big")
    else:
        raw = hashlib.new(name, data).digest()
    return base64.b64encode(raw).decode()


def _crc64nvme(data: bytes) -> int:
    crc = 0xFFFFFFFFFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x9A6C9329AC4BC9B5 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFFFFFFFFFF


def signed_chunks(
    made: Seal, pieces: Sequence[bytes], *, spoil: Callable[[int, str], str] = lambda _, text: text
) -> tuple[bytes, Seal]:
    """Return the framed pieces, the empty one at the end included, and the last signature.

    Args:
        made: the signature of the request.
        pieces: the chunks.
        spoil: changes the signature of the chunk of a number.
    """
    framed = []
    for number, piece in enumerate((*pieces, b"")):
        made = made.next("AWS4-HMAC-SHA256-PAYLOAD", b"", piece)
        signature = spoil(number, made.signature)
        framed.append(b"%x;chunk-signature=%s\r\n" % (len(piece), signature.encode()))
        framed.append(piece + b"\r\n" if piece else b"")
    return b"".join(framed), made


def unsigned_chunks(pieces: Sequence[bytes], trailers: Iterable[str] = ()) -> bytes:
    """Return the framed pieces with trailers, without signatures."""
    framed = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return framed + b"0\r\n" + "".join(f"{line}\r\n" for line in trailers).encode() + b"\r\n"


def signed_trailer(made: Seal, line: str) -> bytes:
    """Return a trailer and its signature, as they follow the last chunk."""
    last = made.next("AWS4-HMAC-SHA256-TRAILER", f"{line}\n".encode())
    return f"{line}\r\nx-amz-trailer-signature:{last.signature}\r\n\r\n".encode()


class Wire:
    """Sends requests to a server, each over a connection that is kept if it can be.

    Args:
        endpoint: the URL of the server.
        keys: its key pair.
    """

    def __init__(self, endpoint: str, keys: Keys) -> None:
        self.endpoint = endpoint
        self.host = urlsplit(endpoint).netloc
        self.keys = keys
        self._connection: http.client.HTTPConnection | None = None

    def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        payload: str = "",
    ) -> Answer:
        """Sign and send a request.

        Args:
            method: the method.
            path: the path, percent-encoded.
            query: names and values.
            headers: further headers; all are signed.
            body: what follows the headers.
            payload: what ``x-amz-content-sha256`` says; by default the digest of `body`.
        """
        said = payload or hashlib.sha256(body).hexdigest()
        written = query_of(query or {})
        all_of, _ = sign(self.keys, method, self.host, path, written, headers, payload=said)
        return self.raw(method, f"{path}?{written}" if written else path, all_of, body)

    def raw(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes = b""
    ) -> Answer:
        """Send a request as it is; a body's Content-Length is added unless `headers` has one."""
        connection = self._connection or http.client.HTTPConnection(self.host, timeout=LIMIT)
        self._connection = None
        try:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            names = {name.lower() for name in headers}
            if not names & {"content-length", "transfer-encoding"} and (
                body or method in {"PUT", "POST"}
            ):
                connection.putheader("Content-Length", str(len(body)))
            for name, value in headers.items():
                connection.putheader(name, value.encode("utf-8", "surrogateescape"))
            connection.endheaders()
            with suppress(OSError):  # refused before all of it was sent: the answer says why
                connection.send(body)
            response = connection.getresponse()
            found = response.read()
            fields = {name.lower(): value for name, value in response.getheaders()}
            status = response.status
        except BaseException:
            connection.close()
            raise
        if response.will_close or status >= 400:
            connection.close()
        else:
            self._connection = connection
        return Answer(status, fields, found)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

"""Plain requests to S3 without the SDK's client, signed by Signature Version 4.

Signs requests to S3 by Signature Version 4, all of their headers included.

The SDK's signer takes more processor time than all else about a small object: 0.1 ms for each
request, 40 ms to load. Tests compare the two.

Plain requests to S3 without the SDK's client.

A request of the SDK takes 1.5 ms of processor time, more than everything else about a small object,
and its client 250 ms before the first one. So single objects are read, described and created,
and buckets listed, by a request made here with the SDK's configuration, credentials, proxies and
certificates (see `direct_settings`). Anything but a plain success, or the plain answer that there
is no such key, returns ``None``; the SDK then sends the request again with its retries, so that it
handles every error and every special case.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from http import HTTPStatus
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.stores.presigning import MOMENT, end_of_request
from lakecli.stores.responses import MAX_ANSWER, UnusableAnswerError, log_response, size_of_part
from lakecli.stores.s3.connection import S3Connection
from lakecli.stores.s3.direct_settings import AccessKeys, DirectSettings, find_settings
from lakecli.stores.s3.presign import AWS4, signature

if TYPE_CHECKING:
    from lakecli.stores.s3.direct_http import HttpResponse

UNSIGNED: Final = "UNSIGNED-PAYLOAD"
"""Stands for the digest of a body that something else protects."""

_UNSIGNED_HEADERS: Final = {"Accept-Encoding": "identity", "User-Agent": "lakecli"}
"""Headers that proxies may change."""


def signed(
    keys: AccessKeys,
    region: str,
    now: datetime,
    *,
    method: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    payload: str,
) -> dict[str, str]:
    """Return the headers that a request is sent with.

    Args:
        keys: that sign.
        region: of the bucket.
        now: the moment of signing, in UTC.
        method: of HTTP.
        path: of the URL, percent-encoded.
        query: of the URL, sorted and percent-encoded.
        headers: the request's own, by lower-case names, with that of the host.
        payload: SHA-256 of the body in hex, or `UNSIGNED`.
    """
    moment = now.strftime(MOMENT)
    scope = f"{moment[:8]}/{region}/{AWS4.service}"
    named = {**headers, "x-amz-content-sha256": payload, "x-amz-date": moment}
    if keys.token:
        named["x-amz-security-token"] = keys.token
    canonical = f"{method}\n{path}\n{query}\n{end_of_request(named, payload)}"
    digest = sha256(canonical.encode()).hexdigest()
    made = signature(keys.secret_key, scope, f"{AWS4.algorithm}\n{moment}\n{scope}\n{digest}")
    authorization = (
        f"{AWS4.algorithm} Credential={keys.access_key}/{scope}, "
        f"SignedHeaders={';'.join(sorted(named))}, Signature={made}"
    )
    sent = {name.title(): value for name, value in named.items()}
    return sent | _UNSIGNED_HEADERS | {"Authorization": authorization}


_PLAIN_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*", re.ASCII)
_CHANGED = ("//", "/.")
"""Keys that every HTTP client sends unchanged, as all of lakecli's own, but for these parts."""

_EMPTY_SHA256 = hashlib.sha256().hexdigest()
_WITH_CHECKSUMS = {"x-amz-checksum-mode": "ENABLED"}

_ANSWERS = frozenset(
    {
        HTTPStatus.NOT_FOUND,
        HTTPStatus.PRECONDITION_FAILED,
        HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
    }
)
"""Refusals that say something about the object, and nothing about requests as such."""

_CREATED: dict[int, bool] = {HTTPStatus.OK: True, HTTPStatus.PRECONDITION_FAILED: False}
_SERVER_FAULT = 500

_NO_SUCH_KEY = re.compile(rb"(?s:.{0,200}?)<Error>\s*<Code>NoSuchKey</Code>")
"""How S3 says, in the body of a 404, that the bucket is there and the key is not."""


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - signatures are made for the real time, as the SDK's


class FoundObject(NamedTuple):
    """The bytes that were read, and the object's ETag in its quotes."""

    body: bytes
    etag: str


class NoSuchKeyError(Exception):
    """The bucket has no such key."""


class DirectRequests:
    """Plain requests about one bucket and its objects; safe to share between threads.

    Args:
        connection: of the store.
        bucket: its name.
        clock: the present, for signatures.
    """

    def __init__(
        self, connection: S3Connection, bucket: str, *, clock: Callable[[], datetime] = _now
    ) -> None:
        self._connection = connection
        self._bucket = bucket
        self._clock = clock
        self._lock = Lock()
        self._is_usable = True
        self._settings: DirectSettings | None = None

    def get(self, full: str, *, span: str = "", limit: int | None = None) -> FoundObject | None:
        """Return an object, or the ``Range`` of it that `span` says.

        Args:
            full: the key, with the prefix of the namespace.
            span: bytes of the object, as HTTP writes them.
            limit: bytes to be read, at most.

        Returns:
            ``None`` if the SDK has to send the request.

        Raises:
            NoSuchKeyError: the server says that the key is absent.
        """
        settings = self._prepared(full)
        if settings is None:
            return None
        wanted = {"range": span} if span else {}
        if settings.wants_checksums:
            wanted |= _WITH_CHECKSUMS
        answer = self._send(settings, "GET", settings.start + full, wanted, limit=limit)
        if answer is None:
            return None
        status = HTTPStatus.PARTIAL_CONTENT if span else HTTPStatus.OK
        if answer.status == HTTPStatus.NOT_FOUND and _NO_SUCH_KEY.match(answer.body):
            raise NoSuchKeyError
        if (
            answer.status != status
            or (span and not _is_part(span, answer))
            or not _is_undamaged(answer.body, answer.headers)
        ):
            return None
        return FoundObject(answer.body, answer.headers.get("etag", ""))

    def head(self, full: str) -> Mapping[str, str] | None:
        """Return the headers of an object, by lower-case names.

        Returns:
            ``None`` if the SDK has to send the request.

        Raises:
            NoSuchKeyError: the server says that the key, or the bucket, is absent.
        """
        settings = self._prepared(full)
        if settings is None:
            return None
        answer = self._send(settings, "HEAD", settings.start + full, {})
        if answer is not None and answer.status == HTTPStatus.NOT_FOUND:
            raise NoSuchKeyError
        return answer.headers if answer is not None and answer.status == HTTPStatus.OK else None

    def list(self, query: str, *, limit: int) -> bytes | None:
        """Return a page of a listing.

        Args:
            query: percent-encoded and sorted.
            limit: bytes to be read, at most.

        Returns:
            ``None`` if the SDK has to send the request.
        """
        settings = self._usable_settings()
        if settings is None:
            return None
        path = settings.start.rstrip("/") or "/"
        answer = self._send(settings, "GET", path, {}, query=query, limit=limit)
        return answer.body if answer is not None and answer.status == HTTPStatus.OK else None

    def create(self, full: str, body: bytes) -> bool | None:
        """Write an object unless it is there; tell whether it was absent.

        Returns:
            ``None`` if the SDK has to send the request.
        """
        settings = self._prepared(full)
        if settings is None:
            return None
        headers = {"if-none-match": "*"}
        if settings.sends_checksums:
            headers["x-amz-checksum-crc32c"] = _crc32c(body)
        if settings.is_secure and settings.sends_checksums:
            payload = UNSIGNED  # as the SDK does: the checksum is signed, TLS does the rest
        else:
            payload = hashlib.sha256(body).hexdigest()
        path = settings.start + full
        answer = self._send(settings, "PUT", path, headers, body, limit=MAX_ANSWER, payload=payload)
        if answer is None or (answer.status == HTTPStatus.OK and not answer.headers.get("etag")):
            return None  # without an ETag, nobody says that the object was written
        return _CREATED.get(answer.status)

    def _send(
        self,
        settings: DirectSettings,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        query: str = "",
        limit: int | None = None,
        payload: str = _EMPTY_SHA256,
    ) -> HttpResponse | None:
        """Return the answer, or ``None`` if the SDK has to send the request."""
        sent = signed(
            settings.keys(),
            settings.config.region,
            self._clock(),
            method=method,
            path=path,
            query=query,
            headers={"host": settings.host, **headers},
            payload=payload,
        )
        target = f"{path}?{query}" if query else path
        answer = settings.http.send(method, target, sent, body, limit=limit)
        if answer is None:
            return None
        self._connection.server_date.note(answer.headers.get("date"))
        scheme = "https" if settings.is_secure else "http"
        log_response(method, f"{scheme}://{settings.host}{path}", answer.status)
        status = answer.status
        if HTTPStatus.MULTIPLE_CHOICES <= status < _SERVER_FAULT and status not in _ANSWERS:
            self._is_usable = False  # refused or redirected, which the SDK handles
            return None
        return answer

    def _prepared(self, full: str) -> DirectSettings | None:
        """Return what a request about a key follows, or ``None`` if plain ones do not suffice."""
        if _PLAIN_KEY.fullmatch(full) is None or any(part in full for part in _CHANGED):
            return None
        return self._usable_settings()

    def _usable_settings(self) -> DirectSettings | None:
        if not self._is_usable:
            return None
        settings, config = self._settings, self._connection.config
        if settings is None or settings.config is not config:
            with self._lock:
                settings = self._settings
                if settings is None or settings.config is not config:
                    settings = self._settings = find_settings(self._connection, self._bucket)
                    self._is_usable = settings is not None
        return settings


def _is_undamaged(body: bytes, headers: Mapping[str, str]) -> bool:
    """Compare a body with the checksums that came with it; the SDK reports what is wrong."""
    for name, compute in _CHECKSUMS.items():
        expected = headers.get(name)
        # With a hyphen it is a checksum of the checksums of parts.
        if expected is not None and "-" not in expected and compute(body) != expected:
            return False
    return True


def _is_part(span: str, answer: HttpResponse) -> bool:
    """Return whether an answer is the part of the object that was asked for."""
    try:
        size = size_of_part(span, answer.headers.get("content-range", ""))
    except UnusableAnswerError:
        return False
    return len(answer.body) == size


def _crc32c(body: bytes) -> str:
    import google_crc32c

    return _base64(google_crc32c.value(body).to_bytes(4))


def _crc32(body: bytes) -> str:

    return _base64(zlib.crc32(body).to_bytes(4))


def _sha256(body: bytes) -> str:
    return _base64(hashlib.sha256(body).digest())


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode()


_CHECKSUMS = {
    "x-amz-checksum-crc32": _crc32,
    "x-amz-checksum-crc32c": _crc32c,
    "x-amz-checksum-sha256": _sha256,
}

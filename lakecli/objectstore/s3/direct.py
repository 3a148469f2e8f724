"""Plain requests to S3 without the SDK's client.

A request of the SDK takes 1.5 ms of processor time, more than everything else about a small object,
and its client 250 ms before the first one. So single objects are first read, or created, by a
request made here with the SDK's configuration, credentials, proxies, certificates and connections.
Anything but a plain success, or the plain answer that there is no such key, returns ``None``; the
SDK then sends the request again with its retries, so that it handles every error and every special
case.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from base64 import b64encode
from datetime import UTC, datetime
from http import HTTPStatus
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from lakecli.objectstore.presigning import MOMENT, text_to_sign
from lakecli.objectstore.request_log import log_response
from lakecli.objectstore.s3.presign import AWS4, signature

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lakecli.objectstore.s3.connection import S3Connection

_PLAIN_KEY = re.compile(r"(?!.*(?://|/\.))[A-Za-z0-9_][A-Za-z0-9_./-]*", re.ASCII)
"""Keys that every HTTP client sends unchanged, as all of lakecli's own."""

_EMPTY_SHA256 = hashlib.sha256().hexdigest()
_UNSIGNED = "UNSIGNED-PAYLOAD"
_ANSWERS = frozenset(
    {
        HTTPStatus.NOT_FOUND,
        HTTPStatus.PRECONDITION_FAILED,
        HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
    }
)
"""Refusals that say something about the object, and nothing about requests as such."""

_CREATED = {HTTPStatus.OK: True, HTTPStatus.PRECONDITION_FAILED: False}
_SERVER_FAULT = 500
_NO_SUCH_KEY = re.compile(rb"(?s:.{0,200}?)<Error>\s*<Code>NoSuchKey</Code>")
"""How S3 says, in the body of a 404, that the bucket is there and the key is not."""


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - signatures are made for the real time, as the SDK's


class Found(NamedTuple):
    """The bytes that were read, and the object's ETag in its quotes."""

    body: bytes
    etag: str


class NoSuchKeyError(Exception):
    """The bucket has no such key."""


class DirectRequests:
    """Plain requests about the objects of one bucket; safe to share between threads.

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
        self._is_usable: bool | None = None
        self._session: Any = None
        self._credentials: Any = None

    def get(self, full: str, *, span: str = "") -> Found | None:
        """Return an object, or the ``Range`` of it that `span` says.

        Returns:
            ``None`` if the SDK has to send the request.

        Raises:
            NoSuchKeyError: the server says that the key is absent.
        """
        wanted = {"range": span} if span else {}
        if self._connection.wants_checksums:
            wanted["x-amz-checksum-mode"] = "ENABLED"
        answer = self._send("GET", full, wanted, b"")
        if answer is None:
            return None
        status = HTTPStatus.PARTIAL_CONTENT if span else HTTPStatus.OK
        body: bytes = answer.content
        # Without a length, a response that broke off would look like a whole one.
        is_whole = answer.headers.get("content-length") == str(len(body))
        if answer.status_code == HTTPStatus.NOT_FOUND and _NO_SUCH_KEY.match(body):
            raise NoSuchKeyError
        if answer.status_code != status or not is_whole:
            return None
        if not _is_undamaged(body, answer.headers):
            return None
        return Found(body, answer.headers.get("etag", ""))

    def create(self, full: str, body: bytes) -> bool | None:
        """Write an object unless it is there; tell whether it was absent.

        Returns:
            ``None`` if the SDK has to send the request.
        """
        headers = {"if-none-match": "*"}
        if self._connection.has_checksums:
            headers["x-amz-checksum-crc32c"] = _crc32c(body)
        answer = self._send("PUT", full, headers, body)
        if answer is None:
            return None
        return _CREATED.get(answer.status_code)

    def _send(self, method: str, full: str, headers: dict[str, str], body: bytes) -> Any:  # noqa: ANN401 - the SDK is not typed
        """Return the response, or ``None`` if the SDK has to send the request."""
        if not _PLAIN_KEY.fullmatch(full) or not self._prepare():
            return None
        from botocore.awsrequest import AWSPreparedRequest
        from botocore.exceptions import HTTPClientError

        url = self._connection.config.object_url(self._bucket, full)
        self._sign(method, url, headers, body)
        named = {name.title(): value for name, value in headers.items()}
        request = AWSPreparedRequest(method, url, named, body or None, stream_output=False)
        try:
            answer = self._session.send(request)
        except HTTPClientError:
            return None
        self._connection.server_date.note(answer.headers.get("Date"))
        log_response(method, url, answer.status_code)
        status = answer.status_code
        if HTTPStatus.MULTIPLE_CHOICES <= status < _SERVER_FAULT and status not in _ANSWERS:
            self._is_usable = False  # refused or redirected, which the SDK handles
            return None
        return answer

    def _prepare(self) -> bool:
        """Return whether plain requests suffice for this configuration."""
        if self._is_usable is None:
            with self._lock:
                if self._is_usable is None:
                    self._credentials = self._connection.session.get_credentials()
                    is_usable = self._credentials is not None and self._connection.is_plain
                    if is_usable:
                        self._session = self._connection.new_http_session()
                    self._is_usable = is_usable and not self._bucket.endswith("--x-s3")
        return self._is_usable

    def _sign(self, method: str, url: str, headers: dict[str, str], body: bytes) -> None:
        """Sign a request as Signature Version 4 says, all of its headers included."""
        credentials = self._credentials.get_frozen_credentials()
        parts = urlsplit(url)
        now = self._clock().strftime(MOMENT)
        if parts.scheme == "https" and "x-amz-checksum-crc32c" in headers:
            payload = _UNSIGNED  # as the SDK does: the checksum is signed, TLS does the rest
        else:
            payload = hashlib.sha256(body).hexdigest() if body else _EMPTY_SHA256
        headers |= {"host": parts.netloc, "x-amz-content-sha256": payload, "x-amz-date": now}
        if credentials.token:
            headers["x-amz-security-token"] = credentials.token
        region = self._connection.config.region
        scope = f"{now[:8]}/{region}/{AWS4.service}"
        text = text_to_sign(
            AWS4,
            now,
            scope,
            method=method,
            path=parts.path,
            query="",
            headers=headers,
            payload=payload,
        )
        headers["authorization"] = (
            f"{AWS4.algorithm} Credential={credentials.access_key}/{scope}, "
            f"SignedHeaders={';'.join(sorted(headers))}, "
            f"Signature={signature(credentials.secret_key, scope, text)}"
        )


def _is_undamaged(body: bytes, headers: Mapping[str, str]) -> bool:
    """Compare a body with the checksums that came with it; the SDK reports what is wrong."""
    for name, compute in _CHECKSUMS.items():
        expected = headers.get(f"x-amz-checksum-{name}")
        # With a hyphen it is a checksum of the checksums of parts.
        if expected is not None and "-" not in expected and compute(body) != expected:
            return False
    return True


def _crc32c(body: bytes) -> str:
    import google_crc32c

    return b64encode(google_crc32c.value(body).to_bytes(4)).decode()


def _crc32(body: bytes) -> str:
    return b64encode(zlib.crc32(body).to_bytes(4)).decode()


def _sha256(body: bytes) -> str:
    return b64encode(hashlib.sha256(body).digest()).decode()


_CHECKSUMS = {"crc32": _crc32, "crc32c": _crc32c, "sha256": _sha256}

"""Plain requests to S3 without the SDK's client, signed by Signature Version 4.

The SDK's client takes longer to load than the rest of ``fs cat`` of one object, and uses far more
processor time for each small object and each page of a listing. So this module sends its own
requests to read, describe and create single objects, and to list buckets. It uses the SDK's
configuration, credentials, proxies and certificates; with static keys, it finds them without the
SDK. Tests compare signatures and settings with the SDK's.

A method returns ``None`` unless the response is a plain success, or clearly says that the key does
not exist. The caller then lets the SDK send the request again, with retries, so the SDK handles all
errors and special cases.
"""

from __future__ import annotations

import os
import re
import time
import zlib
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from hashlib import sha256
from http import HTTPStatus
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

import google_crc32c

from lakecli.stores.cloud_errors import MISSING, SERVER_FAULT, Translator
from lakecli.stores.responses import MAX_ANSWER, UnusableAnswerError, log_response, size_of_part
from lakecli.stores.s3.connection import S3Connection
from lakecli.stores.s3.settings import AccessKeys, S3Config, ca_bundle_of
from lakecli.stores.s3.signing import UNSIGNED, S3Signer

if TYPE_CHECKING:
    from lakecli.stores.s3.direct_http import DirectHttp, HttpResponse

_VARIABLES: Final = {
    "ca_bundle": "AWS_CA_BUNDLE",
    "request_checksum_calculation": "AWS_REQUEST_CHECKSUM_CALCULATION",
    "response_checksum_validation": "AWS_RESPONSE_CHECKSUM_VALIDATION",
}
"""Settings of the SDK that affect direct requests, and the environment variable of each."""

_OTHER_ENDPOINTS: Final = ("use_dualstack_endpoint", "use_fips_endpoint")
_DIRECTORY_BUCKET: Final = "--x-s3"
_HOST: Final = re.compile("[0-9A-Za-z:][0-9A-Za-z.:_-]*", re.ASCII)

_PLAIN_KEY = re.compile(r"\w[\w.-]*(?:/[\w-][\w.-]*)*/?", re.ASCII)
"""Keys that no HTTP client changes when it sends them; all of lakecli's own keys match."""

_EMPTY_SHA256 = sha256().hexdigest()
_WITH_CHECKSUMS = {"x-amz-checksum-mode": "ENABLED"}

_ANSWERS = frozenset({404, 412, 416})
"""Error statuses that concern the object, not direct requests in general."""

_CREATED: dict[int, bool] = {HTTPStatus.OK: True, HTTPStatus.PRECONDITION_FAILED: False}

_NO_SUCH_KEY = re.compile(rb"(?s:.{0,200}?)<Error>\s*<Code>NoSuchKey</Code>")
"""The body of a 404 by which S3 says that the bucket exists, but the key does not."""


_Source = tuple[Callable[[], AccessKeys], Callable[[str], str | None]]
"""A function that returns the signing keys, and one that returns a setting of the SDK by name."""


class DirectSettings(NamedTuple):
    """The settings of direct requests about the objects of one bucket.

    Attributes:
        url: the URL that precedes the names of all objects.
        keys: a function that returns the current signing keys.
        sends_checksums: whether objects are sent with a checksum.
        wants_checksums: whether downloads request the object's checksum and verify it.
    """

    config: S3Config
    url: SplitResult
    keys: Callable[[], AccessKeys]
    sends_checksums: bool
    wants_checksums: bool
    http: DirectHttp


def find_settings(connection: S3Connection, bucket: str) -> DirectSettings | None:
    """Return the settings of direct requests, or ``None`` if only the SDK can send them."""
    if bucket.endswith(_DIRECTORY_BUCKET) or connection.demands.anonymous:
        return None  # S3 Express needs a session of its own
    plain, config = connection.plain_access, connection.config
    if plain is not None:
        source: _Source | None = (lambda: plain.keys, lambda name: os.environ.get(_VARIABLES[name]))
    else:
        source = _settings_of_sdk(connection)
    if source is None:
        return None
    keys, setting = source
    url = urlsplit(config.object_url(bucket, ""))
    if "@" in url.netloc or _HOST.fullmatch(url.hostname or "") is None:
        return None
    ca_bundle = ca_bundle_of(setting("ca_bundle"))
    if ca_bundle is not None and not ca_bundle.strip():
        return None  # the SDK refuses it
    from lakecli.stores.s3.direct_http import DirectHttp  # loads http.client

    try:
        http = DirectHttp(f"{url.scheme}://{url.netloc}", ca_bundle, connection.limits)
    except (OSError, ValueError):
        return None
    sends_checksums = _is_default(setting("request_checksum_calculation"))
    wants_checksums = _is_default(setting("response_checksum_validation"))
    return DirectSettings(config, url, keys, sends_checksums, wants_checksums, http)


def _settings_of_sdk(connection: S3Connection) -> _Source | None:
    """Return the SDK's keys and settings, or ``None`` if a setting requires the SDK's requests."""
    session = connection.session
    s3, credentials = session.get_scoped_config().get("s3"), connection.loaded_credentials()
    if (
        credentials is None
        or any(map(session.get_config_variable, _OTHER_ENDPOINTS))
        or (isinstance(s3, dict) and not set(s3) <= {"addressing_style"})
    ):
        return None
    return credentials.get_frozen_credentials, session.get_config_variable


def _is_default(setting: str | None) -> bool:
    """Return whether a checksum setting of the SDK has its default, ``when_supported``."""
    return setting is None or setting.lower() == "when_supported"


class DirectRequests:
    """Plain requests about one bucket and its objects; safe to share between threads."""

    def __init__(self, connection: S3Connection, bucket: str, translator: Translator) -> None:
        self._connection = connection
        self._bucket = bucket
        self._translator = translator
        self._lock = Lock()
        self._is_usable = True
        self._settings: DirectSettings | None = None

    def get(
        self, full: str, *, span: str = "", limit: int | None = None, if_match: str = ""
    ) -> tuple[bytes, str] | None:
        """Return an object, or a range of it, and its ETag in quotes.

        Args:
            full: full name of the object, with the prefix of the namespace.
            span: value of the header ``Range``; ``""``: the whole object.
            if_match: the ETag in quotes that the object must have; ``""``: any.

        Returns:
            ``None`` if the SDK has to send the request.

        Raises:
            ObjectNotFound: the server says that the key does not exist.
        """
        settings = self._prepared(full)
        if settings is None:
            return None
        wanted = {"range": span} if span else {}
        if if_match:
            wanted["if-match"] = if_match
        if settings.wants_checksums:
            wanted |= _WITH_CHECKSUMS
        answer = self._send(settings, "GET", full, wanted, limit=limit)
        if answer is None:
            return None
        status = HTTPStatus.PARTIAL_CONTENT if span else HTTPStatus.OK
        if answer.status == HTTPStatus.NOT_FOUND and _NO_SUCH_KEY.match(answer.body):
            raise self._translator.error(MISSING, full)
        is_asked = answer.status == status and (not span or _is_part(span, answer))
        if not is_asked or not _is_undamaged(answer.body, answer.headers):
            return None
        return answer.body, answer.headers.get("etag", "")

    def head(self, full: str) -> Mapping[str, str] | None:
        """Return the headers of an object, by their names in lower case.

        Returns:
            ``None`` if the SDK has to send the request.

        Raises:
            ObjectNotFound: the server says that the key, or the bucket, does not exist.
        """
        answer = self._send(self._prepared(full), "HEAD", full, {})
        if answer is not None and answer.status == HTTPStatus.NOT_FOUND:
            raise self._translator.error(MISSING, full)
        return answer.headers if answer is not None and answer.status == HTTPStatus.OK else None

    def list(self, query: str) -> bytes | None:
        """Return a page of a listing.

        Args:
            query: the query of the URL, percent-encoded and sorted.

        Returns:
            ``None`` if the SDK has to send the request.
        """
        settings = self._usable_settings()
        answer = self._send(settings, "GET", "", {}, query=query, limit=MAX_ANSWER)
        return answer.body if answer is not None and answer.status == HTTPStatus.OK else None

    def create(self, full: str, body: bytes) -> bool | None:
        """Write an object unless its key exists; return whether the key was absent.

        Returns:
            ``None`` if the SDK has to send the request.
        """
        settings = self._prepared(full)
        if settings is None:
            return None
        headers = {"if-none-match": "*", **self._connection.demands.of_writes}
        if settings.sends_checksums:
            headers["x-amz-checksum-crc32c"] = _base64(_crc32c(body))
        # As in the SDK: over TLS, it is enough to sign the checksum instead of the body.
        is_checked = settings.url.scheme == "https" and settings.sends_checksums
        payload = UNSIGNED if is_checked else sha256(body).hexdigest()
        answer = self._send(settings, "PUT", full, headers, body, limit=MAX_ANSWER, payload=payload)
        if answer is None or (answer.status == HTTPStatus.OK and not answer.headers.get("etag")):
            return None  # without an ETag, the response does not show that the object was written
        return _CREATED.get(answer.status)

    def _send(
        self,
        settings: DirectSettings | None,
        method: str,
        full: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        query: str = "",
        limit: int | None = None,
        payload: str = _EMPTY_SHA256,
    ) -> HttpResponse | None:
        """Send a request about an object, or the bucket if `full` is empty.

        Returns:
            The response, or ``None`` if the SDK has to send the request.
        """
        if settings is None:
            return None
        path = settings.url.path + full if full else settings.url.path.rstrip("/") or "/"
        signer = S3Signer(settings.keys(), settings.config.region, self._connection.demands)
        headers = {"host": settings.url.netloc, **headers}
        now = time.time()  # noqa: TID251 - signatures are made for the real time, as the SDK's
        sent = signer.headers(method, path, query, headers, payload=payload, now=now)
        target = f"{path}?{query}" if query else path
        answer = settings.http.send(method, target, sent, body, limit=limit)
        if answer is None:
            return None
        self._connection.server_date.note(answer.headers.get("date"))
        log_response(method, settings.url._replace(path=path).geturl(), answer.status)
        status = answer.status
        if HTTPStatus.MULTIPLE_CHOICES <= status < SERVER_FAULT and status not in _ANSWERS:
            self._is_usable = False  # refused or redirected, which the SDK handles
            return None
        return answer

    def _prepared(self, full: str) -> DirectSettings | None:
        """Return the settings for a request about a key; ``None`` if the SDK has to send it."""
        return self._usable_settings() if _PLAIN_KEY.fullmatch(full) else None

    def _usable_settings(self) -> DirectSettings | None:
        if not self._is_usable:
            return None
        config = self._connection.config
        with self._lock:
            if self._settings is None or self._settings.config is not config:
                self._settings = find_settings(self._connection, self._bucket)
                self._is_usable = self._settings is not None
            return self._settings


def _is_undamaged(body: bytes, headers: Mapping[str, str]) -> bool:
    """Return whether a body matches the checksums in its headers; the SDK reports a mismatch."""
    for name, compute in _CHECKSUMS.items():
        expected = headers.get(name)
        # With a hyphen it is a checksum of the checksums of parts.
        if expected is not None and "-" not in expected and _base64(compute(body)) != expected:
            return False
    return True


def _is_part(span: str, answer: HttpResponse) -> bool:
    """Return whether a response is the requested part of the object."""
    try:
        size = size_of_part(span, answer.headers.get("content-range", ""))
    except UnusableAnswerError:
        return False
    return len(answer.body) == size


def _base64(digest: bytes) -> str:
    return b2a_base64(digest, newline=False).decode()


def _crc32c(body: bytes) -> bytes:
    return int(google_crc32c.value(body)).to_bytes(4)


_CHECKSUMS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "x-amz-checksum-crc32": lambda body: zlib.crc32(body).to_bytes(4),
    "x-amz-checksum-crc32c": _crc32c,
    "x-amz-checksum-sha256": lambda body: sha256(body).digest(),
}

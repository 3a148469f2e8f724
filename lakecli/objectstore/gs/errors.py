"""What the SDK of Google Cloud Storage says, in lakecli's words.

Messages name the operation's object and the endpoint's host. The SDK's own messages hold URLs,
which may hold the secret of an upload, so only the server's text is taken over.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lakecli.errors import (
    IntegrityError,
    LakeError,
    PermissionDenied,
    Refused,
    Unreachable,
    Unsupported,
    UsageError,
)
from lakecli.objectstore.base import BucketNotFound, ConditionFailed, ObjectNotFound
from lakecli.objectstore.wording import Words, by_class, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TRANSIENT_STATUS = frozenset({408, 429, 500, 502, 503, 504})
"""Worth another try a moment later."""

_LOG_IN = (
    "set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account's key, or run "
    "`gcloud auth application-default login`"
)
_AGAIN = "wait and repeat the command, or check the network and STORAGE_EMULATOR_HOST"
_DAMAGED = "repeat the command; if it happens again, suspect the network in between"

_DENIED = Words(PermissionDenied, "{host} refused the request ({code}): {what}: {text}", "{action}")
_BUSY = Words(Unreachable, "{host} answered {code}: {what}", _AGAIN)
_UNABLE = Words(Unsupported, "{host} cannot do this ({code}): {what}")
_MISSING = Words(ObjectNotFound, "no such object: {what}")
_NO_BUCKET = Words(
    BucketNotFound,
    "no such bucket at {host}: {bucket}",
    "create it, for example with `gcloud storage buckets create {bucket}`, or correct the "
    "namespace",
)
_LOST = Words(ConditionFailed, "another version is there, nothing was written: {what}")
_GARBLED = Words(
    IntegrityError, "{host} received other bytes than were sent: {what}: {text}", _DAMAGED
)
_REFUSED = Words(Refused, "{host} refused the request ({code}): {what}: {text}")
_VANISHED = Words(Unreachable, "{host} lost an unfinished upload: {what}", "repeat the command")
_NO_RANGES = Words(
    Unsupported,
    "{host} answered a request for a part of an object with more than that: {what}",
    "use a server that implements HTTP ranges",
)
_NO_ORDER = Words(Unsupported, "{host} does not list the keys in order: {bucket}")

_BY_STATUS = {
    401: _DENIED,
    403: _DENIED,
    404: _MISSING,
    405: _UNABLE,
    409: _BUSY,  # somebody else is at it and may yet fail, so nothing is decided
    410: _VANISHED,
    412: _LOST,
    501: _UNABLE,
}
_BY_REASON = dict.fromkeys(("rateLimitExceeded", "userRateLimitExceeded"), _BUSY)
_SERVER_FAULT = 500

_SILENT = Words(Unreachable, "{host} did not answer in time: {what}", _AGAIN)
_BROKEN = Words(Unreachable, "{host} broke the connection ({code}): {what}", _AGAIN)
_MUTE = Words(Unreachable, "{host} does not answer ({code}): {what}", _AGAIN)
_NO_CREDENTIALS = Words(
    PermissionDenied, "no credentials for Google Cloud Storage: {text}", _LOG_IN
)
_NO_ENDPOINT = Words(
    UsageError,
    "STORAGE_EMULATOR_HOST is not the URL of a server",
    "http://HOST:PORT, or unset it",
)

_BY_CLASS = {
    "ChunkedEncodingError": _BROKEN,
    "ConnectionError": _MUTE,
    "ConnectTimeout": _MUTE,
    "DataCorruption": Words(
        IntegrityError, "{host} sent or kept other bytes than its checksum says: {what}", _DAMAGED
    ),
    "DefaultCredentialsError": _NO_CREDENTIALS,
    "GoogleAuthError": Words(
        PermissionDenied, "cannot log in to Google Cloud Storage: {text}", _LOG_IN
    ),
    "HTTPError": _BROKEN,  # of urllib3
    "InvalidResponse": _BUSY,
    "InvalidSchema": _NO_ENDPOINT,
    "InvalidURL": _NO_ENDPOINT,
    "MissingSchema": _NO_ENDPOINT,
    "MutualTLSChannelError": Words(
        PermissionDenied, "cannot use the client certificate: {text}", _LOG_IN
    ),
    "ReadTimeout": _SILENT,
    "RefreshError": Words(
        PermissionDenied,
        "the credentials for Google Cloud Storage have expired, or are not accepted: {text}",
        _LOG_IN,
    ),
    "RequestException": _BROKEN,
    "TransportError": Words(Unreachable, "cannot reach Google to log in", _AGAIN),
}

_PERMISSION = re.compile(r"\bstorage\.[a-z]+\.[A-Za-z]+\b")
_MISMATCH = re.compile(r"match(es)? calculated|checksum|crc32c|md5", re.IGNORECASE)
_LONGEST_TEXT = 300


class Translator:
    """Turns the SDK's errors about one bucket into lakecli's.

    Args:
        bucket: its name.
        host: says where requests go; asked when there is something to tell.
    """

    def __init__(self, bucket: str, host: Callable[[], str]) -> None:
        self._bucket = bucket
        self._host = host

    @contextmanager
    def translated(self, key: str = "", *, is_write: bool = False) -> Iterator[None]:
        """Translate what happens inside, about the object `key` or the bucket.

        Args:
            key: in full, with the prefix of the namespace.
            is_write: of the object, which need not be there: only the bucket can be missing.
        """
        try:
            yield
        except LakeError:
            raise  # of a body that is read, for example
        except Exception as error:
            known = self._of_answer(error, key, is_write=is_write)
            known = known or self._of_sdk(error, key)
            if known is None:
                raise
            raise known from error

    def no_bucket(self) -> LakeError:
        """Return the error of a bucket that is not there."""
        return self._error(_NO_BUCKET, "")

    def vanished(self, key: str) -> LakeError:
        """Return the error of an upload that the server knows no more."""
        return self._error(_VANISHED, key)

    def no_ranges(self, key: str) -> LakeError:
        """Return the error of a server that does not implement ranges."""
        return self._error(_NO_RANGES, key)

    def no_order(self) -> LakeError:
        """Return the error of a bucket that is listed in another order."""
        return self._error(_NO_ORDER, "")

    def refused(self, status: int, key: str) -> LakeError:
        """Return the error for one object of several, of which only a status is known."""
        words = _BY_STATUS.get(status) or (_BUSY if status >= _SERVER_FAULT else _REFUSED)
        return self._error(words, key, code=str(status), text="", action=_needed(""))

    def _error(self, words: Words, key: str, **details: str) -> LakeError:
        bucket = f"gs://{self._bucket}"
        what = repr(f"{bucket}/{key}") if key else bucket
        return words.filled({"host": self._host(), "bucket": bucket, "what": what} | details)

    def _of_answer(self, error: Exception, key: str, *, is_write: bool) -> LakeError | None:
        response = getattr(error, "response", None)
        status = getattr(response, "status_code", None) or getattr(error, "code", None)
        if not isinstance(status, int) or not _is_of_server(error):
            return None
        reason, text = _explained(error, response)
        words = _BY_REASON.get(reason) or _BY_STATUS.get(status)
        if status == 400 and _MISMATCH.search(text):  # noqa: PLR2004 - Bad Request
            words = _GARBLED
        elif words is None:
            is_busy = status >= _SERVER_FAULT or status in TRANSIENT_STATUS
            words = _BUSY if is_busy else _REFUSED
        elif words is _MISSING and (is_write or not key):
            words = _NO_BUCKET
        code = f"{int(status)} {reason}".rstrip()
        return self._error(words, key, code=code, text=text, action=_needed(text))

    def _of_sdk(self, error: Exception, key: str) -> LakeError | None:
        words = by_class(_BY_CLASS, error)
        if words is None:
            return None
        text = one_line(str(error.args[0] if error.args else ""))[:_LONGEST_TEXT]
        return self._error(words, key, code=type(error).__name__, text=text)


def _is_of_server(error: Exception) -> bool:
    return any(
        base.__name__ in {"GoogleAPICallError", "InvalidResponse"} for base in type(error).__mro__
    )


def _explained(error: Exception, response: Any) -> tuple[str, str]:  # noqa: ANN401 - not typed
    """Return the reason and the text that the server gave."""
    try:
        details = response.json()["error"]
        reasons = details.get("errors") or [{}]
        return str(reasons[0].get("reason", "")), one_line(str(details.get("message", "")))
    except (AttributeError, KeyError, IndexError, TypeError, ValueError):
        pass
    for details in getattr(error, "errors", None) or ():
        if isinstance(details, dict):
            return str(details.get("reason", "")), one_line(str(details.get("message", "")))
    text = getattr(response, "text", "") or ""
    return "", "" if "<" in text else one_line(text)[:_LONGEST_TEXT]


def _needed(text: str) -> str:
    found = _PERMISSION.search(text)
    permission = found[0] if found else "storage.objects.* (roles/storage.objectAdmin)"
    return f"the credentials in use need the permission {permission} on the bucket; or {_LOG_IN}"

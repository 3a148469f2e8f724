"""Converts the errors of Google Cloud Storage's SDK to lakecli's.

The SDK's own messages contain URLs, which may contain the secret of an upload, so lakecli quotes
only the server's text.
"""

import re
from html import unescape
from http import HTTPStatus
from typing import Any

from lakecli.base.model import Demand
from lakecli.errors import IntegrityError, LakeError, PermissionDenied, Unreachable, UsageError
from lakecli.stores import cloud_errors
from lakecli.stores.cloud_errors import Translator, Words, one_line, permission_hint, templates
from lakecli.stores.contract import BucketNotFound, NotAllowed

TRANSIENT_STATUS = frozenset({408, 429, 500, 502, 503, 504})
"""HTTP statuses of transient failures."""

_LOG_IN = (
    "set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account's key, or run "
    "`gcloud auth application-default login`"
)

_DENIED = Words(PermissionDenied, "{host} refused the request ({code}): {what}: {text}", "{action}")
_NO_BUCKET = Words(
    BucketNotFound,
    "no such bucket at {host}: {bucket}",
    "create it, for example with `gcloud storage buckets create {bucket}`, or correct the URI",
)
VANISHED = Words(Unreachable, "{host} lost an unfinished upload: {what}", "repeat the command")
_BY_STATUS = cloud_errors.BY_STATUS | {
    401: _DENIED,
    403: _DENIED._replace(error=NotAllowed),
    409: cloud_errors.BUSY,  # another write of the object is in progress, and may still fail
    410: VANISHED,
}

_MUTE = Words(Unreachable, "{host} does not answer ({code}): {what}", "{again}")
_NO_CREDENTIALS = Words(
    PermissionDenied, "no credentials for Google Cloud Storage: {text}", _LOG_IN
)
_NO_ENDPOINT = Words(
    UsageError, "STORAGE_EMULATOR_HOST is not the URL of a server", "http://HOST:PORT, or unset it"
)

_DAMAGED = Words(
    IntegrityError,
    "{host} sent or kept other bytes than its checksum says: {what}",
    cloud_errors.DAMAGED,
)
_EXPIRED = "the credentials for Google Cloud Storage have expired, or are not accepted: {text}"
_NO_LOGIN = "cannot log in to Google Cloud Storage: {text}"
_NO_CERTIFICATE = "cannot use the client certificate: {text}"

_BY_CLASS = templates(
    (Words(Unreachable, "cannot reach Google to log in", "{again}"), "TransportError"),
    (cloud_errors.BROKEN, "ChunkedEncodingError HTTPError RequestException"),
    (cloud_errors.BUSY, "InvalidResponse"),
    (cloud_errors.SILENT, "ReadTimeout"),
    (_DAMAGED, "DataCorruption"),
    (_MUTE, "ConnectionError ConnectTimeout"),
    (_NO_CREDENTIALS, "DefaultCredentialsError"),
    (_NO_CREDENTIALS._replace(message=_EXPIRED), "RefreshError"),
    (_NO_CREDENTIALS._replace(message=_NO_CERTIFICATE), "MutualTLSChannelError"),
    (_NO_CREDENTIALS._replace(message=_NO_LOGIN), "GoogleAuthError"),
    (_NO_ENDPOINT, "InvalidSchema InvalidURL MissingSchema"),
)

_NO_PAYER = _DENIED._replace(
    hint=f"to pay for the requests to it, add {{bucket}}=PROJECT to the setting {Demand.GS_PROJECT}"
)
_NO_KEY = _DENIED._replace(
    hint=f"add {{bucket}}=KEY, a key of Cloud KMS, to the setting {Demand.GS_KMS_KEY}"
)
_BY_TEXT = (
    (re.compile("requester pays", re.IGNORECASE), _NO_PAYER),
    (re.compile("restrictNonCmekServices"), _NO_KEY),
)
"""Errors for unmet requirements of a bucket, by patterns that match the text of Google's error."""

_DEMANDING = frozenset({400, 403, 412})
"""The HTTP statuses for which `_BY_TEXT` is used.

The text of another status may contain the name of an object, which could match a pattern.
"""

_MISMATCH = re.compile(r"match(es)? calculated|checksum|crc32c|md5", re.IGNORECASE)
_OF_XML = re.compile("<(Code|Message|Details)>([^<]*)<")


class GsTranslator(Translator):
    """Converts the SDK's errors about one bucket to lakecli's."""

    again = "wait and repeat the command, or check the network and STORAGE_EMULATOR_HOST"
    by_class = _BY_CLASS
    by_code = cloud_errors.BY_XML_CODE | templates(
        (cloud_errors.BUSY, "rateLimitExceeded userRateLimitExceeded")
    )
    by_status = _BY_STATUS
    order_hint = "use a server that lists in byte order"

    def action_for(self, text: str) -> str:
        """Return a hint for a refusal: change the permissions, or log in as another user."""
        return f"{permission_hint(text)}; or {_LOG_IN}"

    def _of_answer(self, error: Exception, key: str, *, may_be_absent: bool) -> LakeError | None:
        response = getattr(error, "response", None)
        status = getattr(response, "status_code", None) or getattr(error, "code", None)
        if not isinstance(status, int) or status < HTTPStatus.BAD_REQUEST:
            return None
        reason, text = _explained(error)
        words = self.words_of(reason, status)
        if status == HTTPStatus.BAD_REQUEST and _MISMATCH.search(text):
            words = cloud_errors.GARBLED
        elif words is cloud_errors.MISSING and (may_be_absent or not key):
            words = _NO_BUCKET
        if status in _DEMANDING:
            words = next((known for said, known in _BY_TEXT if said.search(text)), words)
        code = f"{int(status)} {reason}".rstrip()
        return self.error(words, key, code=code, text=text, action=self.action_for(text))

    def _text_of(self, error: Exception) -> str:
        return one_line(str(error.args[0] if error.args else ""))


def _explained(error: Exception) -> tuple[str, str]:
    """Return the reason and the text of a server's error, in JSON, or in XML from the XML API."""
    response: Any = getattr(error, "response", None)
    try:
        details = response.json()["error"]
        reasons = details.get("errors") or [{}]
        return str(reasons[0].get("reason", "")), one_line(str(details.get("message", "")))
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, RecursionError):
        pass
    text = getattr(response, "text", "") or ""
    said = {name: unescape(found) for name, found in _OF_XML.findall(text)}
    if "Code" in said:
        return said["Code"], one_line(f"{said.get('Message', '')} {said.get('Details', '')}")
    return "", "" if "<" in text else one_line(text)

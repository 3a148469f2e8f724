"""Fetches presigned URLs without credentials, by Python's HTTP client."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from lakecli.errors import LakeError, PermissionDenied, Refused, Unreachable, UsageError
from lakecli.stores.responses import date_of

TIMEOUT: Final = 30.0
"""Seconds to connect, and between two pieces of an answer."""

MAX_BODY: Final = 1 << 16
"""Bytes of a response that are read, at most."""

_CODE: Final = re.compile(rb"<Code>([A-Za-z]{1,64})</Code>")
_OK: Final = 200
_DENIED: Final = frozenset({400, 401, 403})
_SERVER_FAULT: Final = 500


@dataclass(frozen=True, slots=True)
class FetchedUrl:
    """The response to a GET; header names are in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    def date(self) -> datetime | None:
        """Return the server's time, or ``None`` if it sent none."""
        return date_of(self.headers.get("date", ""))

    def problem(self) -> LakeError | None:
        """Return the error of a response, or ``None`` if it is a success."""
        if self.status == _OK:
            return None
        code = _CODE.search(self.body)
        answer = f"{self.status} {code[1].decode()}" if code else str(self.status)
        if self.status in _DENIED:
            return PermissionDenied(f"a signed URL was refused: {answer}")
        if self.status >= _SERVER_FAULT:
            return Unreachable(f"a signed URL was answered by {answer}")
        return Refused(f"a signed URL was answered by {answer}")


def fetch(url: str) -> FetchedUrl:
    """Get a URL, without credentials and retries.

    Proxies come from the environment.

    Raises:
        Unreachable: no response. The message does not contain the URL, which is a secret.
        UsageError: it is no HTTP URL.
    """
    from http.client import HTTPException, IncompleteRead
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    if not url.startswith(("http://", "https://")):
        raise UsageError("a signed URL is no HTTP URL")
    request = Request(url, headers={"User-Agent": "lakecli"})  # noqa: S310 - checked above
    try:
        try:
            answer = urlopen(request, timeout=TIMEOUT)  # noqa: S310 - checked above
        except HTTPError as error:
            answer = error
        with answer:
            headers = {name.lower(): value for name, value in answer.headers.items()}
            body = answer.read(MAX_BODY)
            announced = headers.get("content-length", "")
            if announced.isdecimal() and len(body) < min(int(announced), MAX_BODY):
                raise IncompleteRead(body, int(announced) - len(body))
            return FetchedUrl(answer.status, body, headers)
    except (URLError, HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise Unreachable(
            f"a signed URL cannot be fetched: {reason}",
            hint="check proxies and certificates, which users of such URLs need too",
        ) from error

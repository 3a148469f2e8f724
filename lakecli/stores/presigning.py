"""Presigned URLs: what one permits, what all stores share, and the V4 process.

Presigned URLs: what one permits, and the URL itself.

What the presigned URLs of all stores share, and the V4 process of S3 and Google.

Google's V4 process is Amazon's Signature Version 4 with other names and another algorithm.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import quote

from lakecli.errors import UsageError

_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class PresignedUrl(NamedTuple):
    """A bearer URL and the time at which it stops working.

    Attributes:
        headers: that a PUT to the URL must send.
        unsigned: if the URL still lacks its signature, in hex at its end: the function that signs,
            and the text. It raises `PermissionDenied` if a server refuses to sign, and
            `Unreachable` if that does not answer.
    """

    url: str
    expires_at: datetime
    headers: Mapping[str, str] = _NO_HEADERS
    unsigned: tuple[Callable[[bytes], bytes], bytes] | None = None

    def signed(self, signature: bytes) -> PresignedUrl:
        """Return the URL with its signature."""
        url, expires_at, headers, _ = self
        return PresignedUrl(url + signature.hex(), expires_at, headers)


class PresignRequest(NamedTuple):
    """What a presigned URL permits.

    Attributes:
        method: ``GET`` or ``PUT``.
        expires_in: requested lifetime; the store's limit or the end of the credentials may come
            earlier.
        content_type: of the response to a GET, in place of the object's own; a PUT must send it.
        file_name: suggested to browsers by a GET (``Content-Disposition``).
        attachment: have browsers save the object instead of showing it.
        may_be_unsigned: leave a signature that takes long to the caller; see `PresignedUrl`.
    """

    method: str
    expires_in: timedelta
    content_type: str = ""
    file_name: str = ""
    attachment: bool = False
    may_be_unsigned: bool = False


LONGEST: Final = timedelta(days=7)
"""What V4 signatures allow; Azure's URLs get no more, so that all stores agree."""

_NOT_PLAIN: Final = re.compile(r"[^ !#$&-\[\]-~]")
"""What a file name does not have in the plain form: not printable ASCII, or quoted there."""

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9._~-]+")
"""A file name that is the same in every spelling."""

_PLAIN_PATH: Final = re.compile(r"[A-Za-z0-9._~/-]*")

MOMENT: Final = "%Y%m%dT%H%M%SZ"
"""How V4 signatures write a time."""


class V4(NamedTuple):
    """The names that tell two V4 processes apart.

    Attributes:
        algorithm: as requests name it.
        prefix: of the parameters in a URL.
        service: end of the credential's scope.
    """

    algorithm: str
    prefix: str
    service: str


def lifetime_of(method: str, expires_in: timedelta, *, longest: timedelta) -> timedelta:
    """Return how long a URL works: as requested, at most `longest`.

    Raises:
        UsageError: a method other than GET and PUT, or less than a second.
    """
    if method not in {"GET", "PUT"}:
        raise UsageError(f"cannot presign {method}", hint="GET or PUT")
    if expires_in < timedelta(seconds=1):
        raise UsageError("a presigned URL must live for a second at least")
    return min(expires_in, longest)


def response_headers(request: PresignRequest) -> dict[str, str]:
    """Return the headers that the response to a GET has instead of the object's own."""
    headers = {}
    if request.method == "GET":
        if request.content_type:
            headers["content-type"] = request.content_type
        if request.file_name:
            headers["content-disposition"] = content_disposition(
                request.file_name, attachment=request.attachment
            )
        elif request.attachment:
            headers["content-disposition"] = "attachment"
    return headers


def content_disposition(file_name: str, *, attachment: bool = False) -> str:
    """Return a header value that suggests `file_name`, as RFC 6266 and RFC 8187 spell it.

    With `attachment` browsers save the object instead of showing it.

    Old clients and curl read the plain form, where everything but harmless ASCII is ``_``.
    """
    plain = _NOT_PLAIN.sub("_", file_name)
    exact = quote(file_name.encode("utf-8", "surrogateescape"), safe="!#$&+-.^_`|~")
    kind = "attachment" if attachment else "inline"
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{exact}"


def quoted_disposition(request: PresignRequest) -> str:
    """Return `content_disposition` of the response to a GET, percent-encoded, or ``""``."""
    name = request.file_name
    if request.method != "GET" or not (name or request.attachment):
        return ""
    kind = "attachment" if request.attachment else "inline"
    if not name:
        return kind
    if _PLAIN_NAME.fullmatch(name):
        return f"{kind}%3B%20filename%3D%22{name}%22%3B%20filename%2A%3DUTF-8%27%27{name}"
    return quote(content_disposition(name, attachment=request.attachment), safe="~")


def quoted_path(path: str) -> str:
    """Return a path percent-encoded as V4 signatures and Azure want it."""
    return path if _PLAIN_PATH.fullmatch(path) else quote(path, safe="/~")


def end_of_request(headers: Mapping[str, str], payload: str) -> str:
    """Return what follows the query in the request that a V4 signature signs.

    Args:
        headers: those that are signed, by lower-case names.
        payload: SHA-256 of the body in hex, or ``UNSIGNED-PAYLOAD``.
    """
    names = sorted(headers)
    lines = [f"{name}:{' '.join(headers[name].split())}" for name in names]
    return "\n".join((*lines, "", ";".join(names), payload))


class V4Form:
    """Makes URLs of the V4 process that differ in path and file name only.

    Args:
        v4: the process.
        name: of the key or the account that signs.
        region: part of the credential's scope.
        host: the Host header that clients send.
        method: that the URLs permit.
        content_type: of the request's or response's body; ``""`` for none.
        start: the moment of signing, in UTC.
        seconds: how long the URLs work.
        parameters: further ones, which sort before ``response-``.

    Attributes:
        scope: of the credential.
        expires_at: when the URLs stop working.
        headers: that a PUT must send.
    """

    __slots__ = ("_after", "_before", "_end", "_method", "_text", "expires_at", "headers", "scope")

    def __init__(
        self,
        v4: V4,
        *,
        name: str,
        region: str,
        host: str,
        method: str,
        content_type: str,
        start: datetime,
        seconds: int,
        parameters: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.headers = {"Content-Type": content_type} if method == "PUT" and content_type else {}
        signed = {"host": host} | {header.lower(): value for header, value in self.headers.items()}
        moment = start.strftime(MOMENT)
        self.scope = f"{moment[:8]}/{region}/{v4.service}"
        self.expires_at = start + timedelta(seconds=seconds)
        query = {
            f"{v4.prefix}Algorithm": v4.algorithm,
            f"{v4.prefix}Credential": f"{name}/{self.scope}",
            f"{v4.prefix}Date": moment,
            f"{v4.prefix}Expires": str(seconds),
            f"{v4.prefix}SignedHeaders": ";".join(sorted(signed)),
            **parameters,
        }
        self._before = "&".join(f"{each}={quote(query[each], safe='~')}" for each in sorted(query))
        is_typed = method == "GET" and content_type
        typed = f"&response-content-type={quote(content_type, safe='~')}"
        self._after = typed if is_typed else ""
        self._method = f"{method}\n"
        self._end = f"\n{end_of_request(signed, 'UNSIGNED-PAYLOAD')}"
        self._text = f"{v4.algorithm}\n{moment}\n{self.scope}\n"

    def unsigned(
        self, path: str, request: PresignRequest, *, before: str = "", after: str = ""
    ) -> tuple[str, str]:
        """Return the query of a URL, up to its signature, and the text to sign.

        Args:
            path: of the URL, percent-encoded.
            request: that the form was made for, or one that differs in the file name.
            before: further parameters, each after a ``&``, if they sort before ``response-``.
            after: likewise, if they sort after it.
        """
        disposition = quoted_disposition(request)
        if disposition:
            disposition = f"&response-content-disposition={disposition}"
        query = f"{self._before}{before}{disposition}{self._after}{after}"
        canonical = f"{self._method}{path}\n{query}{self._end}"
        return query, self._text + sha256(canonical.encode()).hexdigest()

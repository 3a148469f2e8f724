"""Presigned URLs: requests and results, helpers for all stores, and V4 signing for S3 and Google.

The SDKs can also sign, but are slower, for one URL as well as for thousands:
``tests/benchmarks/claims.py`` has time limits for both clouds.

Google's V4 signing is Amazon's Signature Version 4 with other names and another algorithm.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit

from lakecli.errors import UsageError

_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


LARGEST_PUT: Final = 5 << 30
"""Largest upload in one request to S3, in bytes; it limits uploads by URL on all stores."""


class PresignedUrl(NamedTuple):
    """A URL that gives its holder access to one object until it expires.

    Attributes:
        url: URL for one request; keep it secret.
        expires_at: time at which the URL stops working.
        headers: headers to send with the object in a PUT.
        unsigned: ``None`` if the URL is signed. Otherwise the function that signs, and the bytes to
            sign; `signed` then appends the signature. The function raises `PermissionDenied` if a
            server refuses to sign, and `Unreachable` if that server does not respond.
        fields: if not empty, the object is sent in a form (POST) after these fields, instead of in
            a PUT; keep them secret.
    """

    url: str
    expires_at: datetime
    headers: Mapping[str, str] = _NO_HEADERS
    unsigned: tuple[Callable[[bytes], bytes], bytes] | None = None
    fields: Mapping[str, str] = _NO_HEADERS

    def signed(self, signature: bytes) -> "PresignedUrl":
        """Return the URL with its signature."""
        return self._replace(url=self.url + signature.hex(), unsigned=None)


class PresignedPart(NamedTuple):
    """A part of a multipart upload, to be sent by a PUT to a presigned URL.

    Attributes:
        size: required size of the part, if the store can check it; 0 for any.
    """

    upload: str
    number: int
    size: int


class PresignRequest(NamedTuple):
    """What a presigned URL permits.

    Attributes:
        method: ``GET`` or ``PUT``.
        expires_in: requested lifetime; the URL may expire earlier, because of the store's limit or
            because the credentials expire.
        content_type: for a GET, the content type of the response, instead of the object's own; for
            a PUT, the content type that the request must send.
        file_name: file name that a GET suggests to browsers (``Content-Disposition``).
        attachment: whether browsers save the object instead of showing it.
        may_be_unsigned: whether the store may return an unsigned URL and leave signing, which may
            be slow, to the caller; see `PresignedUrl.unsigned`.
        max_size: largest number of bytes that a PUT may send. A store with a lower limit of its own
            may ignore this limit; a store that cannot enforce it raises `Unsupported`.
        content_encoding: for a GET, the Content-Encoding of the response, instead of the object's
            own.
        part: the part of a multipart upload that a PUT sends, instead of an object. A store that
            would have to request each signature from a server raises `Unsupported`.
    """

    method: str
    expires_in: timedelta
    content_type: str = ""
    file_name: str = ""
    attachment: bool = False
    may_be_unsigned: bool = False
    max_size: int = LARGEST_PUT
    content_encoding: str = ""
    part: PresignedPart | None = None


LONGEST: Final = timedelta(days=7)
"""Longest lifetime of a URL: the limit of V4 signatures, which lakecli also applies to Azure."""

_NOT_PLAIN: Final = re.compile(r"[^ !#$&-\[\]-~]")
"""Characters not allowed in a plain file name: ``"``, percent, backslash, control, non-ASCII."""

PORTS: Final = {"http": 80, "https": 443}


class V4(NamedTuple):
    """A variant of V4 signing, Amazon's or Google's, and who signs.

    Attributes:
        name: the access key ID, or the e-mail address of the account, with which to sign.
        region: region of the bucket.
    """

    algorithm: str
    prefix: str
    service: str
    name: str = ""
    region: str = ""


def lifetime_of(method: str, expires_in: timedelta, *, longest: timedelta) -> timedelta:
    """Return how long a URL works, at most `longest`; refuse methods other than GET and PUT."""
    if method not in {"GET", "PUT"}:
        raise UsageError(f"cannot presign {method}", hint="GET or PUT")
    if expires_in < timedelta(seconds=1):
        raise UsageError("a presigned URL must live for a second at least")
    return min(expires_in, longest)


def response_headers(request: PresignRequest) -> dict[str, str]:
    """Return the headers that replace the object's own in the response to a GET."""
    if request.method != "GET":
        return {}
    disposition = "attachment" if request.attachment else ""
    if request.file_name:
        disposition = content_disposition(request.file_name, attachment=request.attachment)
    headers = {
        "content-type": request.content_type,
        "content-encoding": request.content_encoding,
        "content-disposition": disposition,
    }
    return {name: value for name, value in headers.items() if value}


def content_disposition(file_name: str, *, attachment: bool = False) -> str:
    """Return a header value that suggests `file_name`, in the form of RFC 6266 and RFC 8187.

    With `attachment`, browsers save the object instead of showing it.

    The value has the name twice: encoded, and in a plain form for old clients and curl, in which
    ``_`` replaces all characters except harmless ASCII.
    """
    plain = _NOT_PLAIN.sub("_", file_name)
    exact = quote(file_name.encode("utf-8", "surrogateescape"), safe="!#$&+-.^_`|~")
    kind = "attachment" if attachment else "inline"
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{exact}"


def quoted_path(path: str) -> str:
    """Return a path percent-encoded as V4 signatures and Azure require."""
    return quote(path, safe="/~")


@lru_cache(64)
def _quoted(value: str) -> str:
    """Return a query value, percent-encoded; most values are the same in all URLs."""
    return quote(value, safe="")


def end_of_request(headers: Mapping[str, str], payload: str) -> str:
    """Return the last lines of the canonical request of a V4 signature, after the query.

    Args:
        headers: the signed headers, by lower-case names.
        payload: SHA-256 of the body in hex, or ``UNSIGNED-PAYLOAD``.
    """
    names = sorted(headers)
    lines = [f"{name}:{' '.join(headers[name].split())}" for name in names]
    return "\n".join((*lines, "", ";".join(names), payload))


def v4_url(
    v4: V4,
    request: PresignRequest,
    url: str,
    period: tuple[datetime, timedelta],
    *,
    parameters: Mapping[str, str],
    put_headers: Mapping[str, str],
) -> tuple[PresignedUrl, str, str]:
    """Return an object's URL without its signature, the scope, and the text to sign.

    Args:
        url: URL of the object, percent-encoded.
        period: the moment of signing, in UTC, and the lifetime of the URL.
        parameters: further parameters of the query; parameters with an empty value are omitted.
    """
    headers: dict[str, str] = {}
    if request.part is not None:
        upload, number, size = request.part
        headers = {"Content-Length": str(size)} if size else {}
        parameters = {**parameters, "partNumber": str(number), "uploadId": upload}
    elif request.method == "PUT":
        headers = {"Content-Type": request.content_type} if request.content_type else {}
        headers |= put_headers
    at = url.index("/", url.index("://") + 3)
    signed = {"host": _host_of(url[:at])} | {name.lower(): headers[name] for name in headers}
    start, seconds = period[0], int(period[1].total_seconds())
    moment, scope = moment_and_scope(int(start.timestamp()), v4.region, v4.service)
    query = {
        f"{v4.prefix}Algorithm": v4.algorithm,
        f"{v4.prefix}Credential": f"{v4.name}/{scope}",
        f"{v4.prefix}Date": moment,
        f"{v4.prefix}Expires": str(seconds),
        f"{v4.prefix}SignedHeaders": ";".join(sorted(signed)),
        **parameters,
        **{f"response-{name}": value for name, value in response_headers(request).items()},
    }
    # No name is a prefix of another, so sorting the pairs sorts them by name.
    pairs = sorted(f"{name}={_quoted(value)}" for name, value in query.items() if value)
    written = "&".join(pairs)
    end = end_of_request(signed, "UNSIGNED-PAYLOAD")
    canonical = f"{request.method}\n{url[at:]}\n{written}\n{end}"
    text = f"{v4.algorithm}\n{moment}\n{scope}\n{sha256(canonical.encode()).hexdigest()}"
    unsigned = f"{url}?{written}&{v4.prefix}Signature="
    return PresignedUrl(unsigned, start + timedelta(seconds=seconds), headers), scope, text


@lru_cache(4)
def _host_of(url: str) -> str:
    """Return the Host header that clients send for a URL."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if ":" in host:
        host = f"[{host}]"
    if parts.port is None or parts.port == PORTS.get(parts.scheme):
        return host
    return f"{host}:{parts.port}"


@lru_cache(4)
def moment_and_scope(seconds: int, region: str, service: str) -> tuple[str, str]:
    """Return a time in the form of V4 signatures, and the scope of the credential that signs."""
    moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%dT%H%M%SZ")
    return moment, f"{moment[:8]}/{region}/{service}"

"""What the presigned URLs of all stores share, and the V4 process of S3 and Google.

Google's V4 process is Amazon's Signature Version 4 with other names and another algorithm.
"""

from __future__ import annotations

import re
from datetime import timedelta
from functools import lru_cache
from hashlib import sha256
from urllib.parse import quote

from lakecli.errors import UsageError
from lakecli.named_tuple import NamedTuple
from lakecli.objectstore.base import PresignedUrl
from lakecli.typed import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from lakecli.objectstore.base import PresignRequest

LONGEST: Final = timedelta(days=7)
"""What V4 signatures allow; Azure's URLs get no more, so that all stores agree."""

_NOT_PLAIN: Final = re.compile(r"[^ !#$&-\[\]-~]")
"""What a file name does not have in the plain form: not printable ASCII, or quoted there."""

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


class V4Signer(NamedTuple):
    """Who signs.

    Attributes:
        name: of the key or the account.
        region: part of the credential's scope.
        sign: returns the signature of a text, in hex; also gets the credential's scope.
    """

    name: str
    region: str
    sign: Callable[[str, str], str]


def lifetime_of(request: PresignRequest, *, longest: timedelta) -> timedelta:
    """Return how long a URL works: as requested, at most `longest`.

    Raises:
        UsageError: a method other than GET and PUT, or less than a second.
    """
    if request.method not in {"GET", "PUT"}:
        raise UsageError(f"cannot presign {request.method}", hint="GET or PUT")
    if request.expires_in < timedelta(seconds=1):
        raise UsageError("a presigned URL must live for a second at least")
    return min(request.expires_in, longest)


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


@lru_cache(1024)
def _quoted(text: str) -> str:
    """Return the value of a parameter, percent-encoded; most are those of the last URL, too."""
    return quote(text, safe="~")


def text_to_sign(
    v4: V4,
    moment: str,
    scope: str,
    *,
    method: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    payload: str,
) -> str:
    """Return the text that a V4 signature signs.

    Args:
        v4: the process.
        moment: of signing.
        scope: of the credential.
        method: of HTTP.
        path: of the URL, percent-encoded.
        query: of the URL, sorted and percent-encoded.
        headers: those that are signed, by lower-case names.
        payload: SHA-256 of the body in hex, or ``UNSIGNED-PAYLOAD``.
    """
    names = sorted(headers)
    lines = [f"{name}:{' '.join(headers[name].split())}" for name in names]
    canonical = "\n".join((method, path, query, *lines, "", ";".join(names), payload))
    digest = sha256(canonical.encode()).hexdigest()
    return f"{v4.algorithm}\n{moment}\n{scope}\n{digest}"


def presign_v4(
    v4: V4,
    signer: V4Signer,
    request: PresignRequest,
    *,
    url: str,
    path: str,
    host: str,
    start: datetime,
    seconds: int,
    parameters: Mapping[str, str],
) -> PresignedUrl:
    """Sign a URL by the V4 process.

    Args:
        v4: the process.
        signer: whose permissions the holder of the URL has, for this object.
        request: what the URL permits.
        url: of the object, percent-encoded.
        path: the part of `url` that is signed.
        host: the Host header that clients send.
        start: the moment of signing, in UTC.
        seconds: how long the URL works.
        parameters: further ones of the URL.
    """
    headers, sent = {"host": host}, {}
    if request.method == "PUT" and request.content_type:
        headers["content-type"] = sent["Content-Type"] = request.content_type
    moment = start.strftime(MOMENT)
    scope = f"{moment[:8]}/{signer.region}/{v4.service}"
    query = {
        f"{v4.prefix}Algorithm": v4.algorithm,
        f"{v4.prefix}Credential": f"{signer.name}/{scope}",
        f"{v4.prefix}Date": moment,
        f"{v4.prefix}Expires": str(seconds),
        f"{v4.prefix}SignedHeaders": ";".join(sorted(headers)),
        **parameters,
    }
    query |= {f"response-{name}": value for name, value in response_headers(request).items()}
    encoded = "&".join([f"{name}={_quoted(query[name])}" for name in sorted(query)])
    text = text_to_sign(
        v4,
        moment,
        scope,
        method=request.method,
        path=path,
        query=encoded,
        headers=headers,
        payload="UNSIGNED-PAYLOAD",
    )
    signed = f"{url}?{encoded}&{v4.prefix}Signature={signer.sign(scope, text)}"
    return PresignedUrl(signed, start + timedelta(seconds=seconds), sent)

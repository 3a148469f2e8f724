"""Signs requests to S3 by Signature Version 4, all of their headers included.

Requests of the same second that have the same headers differ in their paths only, so the rest is
made once for them: threads that read many small objects wait for each other's Python.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256

from lakecli.named_tuple import NamedTuple
from lakecli.objectstore.presigning import MOMENT, end_of_request
from lakecli.objectstore.s3.presign import AWS4, signature
from lakecli.typed import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime

    from lakecli.objectstore.s3.plain import Keys

UNSIGNED: Final = "UNSIGNED-PAYLOAD"
"""Stands for the digest of a body that something else protects."""

_UNSIGNED_HEADERS: Final = {"Accept-Encoding": "identity", "User-Agent": "lakecli"}
"""Headers that proxies may change."""


class _Form(NamedTuple):
    """What requests share that differ in method, path and query only.

    Attributes:
        end: of the canonical request, behind the query.
        start: of the text to sign, before the digest of the canonical request.
        scope: of the key.
        headers: as they are sent, without the signature.
        authorization: the header with the signature, which follows.
    """

    end: str
    start: str
    scope: str
    headers: dict[str, str]
    authorization: str


def signed(
    keys: Keys,
    region: str,
    now: datetime,
    *,
    method: str,
    path: str,
    query: str,
    headers: tuple[tuple[str, str], ...],
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
    form = _form(keys, region, now.replace(microsecond=0), headers, payload)
    canonical = f"{method}\n{path}\n{query}\n{form.end}"
    text = form.start + sha256(canonical.encode()).hexdigest()
    made = signature(keys.secret_key, form.scope, text)
    return {**form.headers, "Authorization": form.authorization + made}


@lru_cache(maxsize=16)
def _form(
    keys: Keys,
    region: str,
    second: datetime,
    headers: tuple[tuple[str, str], ...],
    payload: str,
) -> _Form:
    moment = second.strftime(MOMENT)
    scope = f"{moment[:8]}/{region}/{AWS4.service}"
    named = dict(headers) | {"x-amz-content-sha256": payload, "x-amz-date": moment}
    if keys.token:
        named["x-amz-security-token"] = keys.token
    return _Form(
        end=end_of_request(named, payload),
        start=f"{AWS4.algorithm}\n{moment}\n{scope}\n",
        scope=scope,
        headers={name.title(): value for name, value in named.items()} | _UNSIGNED_HEADERS,
        authorization=(
            f"{AWS4.algorithm} Credential={keys.access_key}/{scope}, "
            f"SignedHeaders={';'.join(sorted(named))}, Signature="
        ),
    )

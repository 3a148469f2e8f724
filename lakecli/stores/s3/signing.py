"""Signs requests to S3 by Signature Version 4, all of their headers included.

The SDK's signer takes more processor time than all else about a small object: 0.1 ms for each
request, 40 ms to load. Tests compare the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Final

from lakecli.stores.presigning import MOMENT, end_of_request
from lakecli.stores.s3.plain import Keys
from lakecli.stores.s3.presign import AWS4, signature

UNSIGNED: Final = "UNSIGNED-PAYLOAD"
"""Stands for the digest of a body that something else protects."""

_UNSIGNED_HEADERS: Final = {"Accept-Encoding": "identity", "User-Agent": "lakecli"}
"""Headers that proxies may change."""


def signed(
    keys: Keys,
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

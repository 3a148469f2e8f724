"""Signed URLs for Google Cloud Storage, by the V4 process."""

from __future__ import annotations

from datetime import UTC, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from lakecli.objectstore.base import PresignedUrl
from lakecli.objectstore.presigning import lifetime_of, response_headers

if TYPE_CHECKING:
    from datetime import datetime

    from lakecli.objectstore.base import PresignRequest
    from lakecli.objectstore.gs.credentials import Signer


def presign(
    signer: Signer, request: PresignRequest, *, endpoint: str, path: str, now: datetime
) -> PresignedUrl:
    """Sign the URL of an object.

    Args:
        signer: whose permissions the holder of the URL will have, for this object.
        request: what the URL shall permit.
        endpoint: URL of the server.
        path: of the object: a slash, the bucket and the key, percent-encoded.
        now: the moment of signing.

    Raises:
        UsageError: a method other than GET and PUT, or no time at all.
    """
    seconds = int(lifetime_of(request, longest=signer.longest).total_seconds())
    start = now.astimezone(UTC).replace(microsecond=0)
    scope = f"{start:%Y%m%d}/auto/storage/goog4_request"
    headers = {"host": urlsplit(endpoint).netloc.rpartition("@")[2]}
    sent = {}
    if request.method == "PUT" and request.content_type:
        headers["content-type"] = sent["Content-Type"] = request.content_type
    signed_names = ";".join(sorted(headers))
    query = {
        "X-Goog-Algorithm": "GOOG4-RSA-SHA256",
        "X-Goog-Credential": f"{signer.email}/{scope}",
        "X-Goog-Date": f"{start:%Y%m%dT%H%M%SZ}",
        "X-Goog-Expires": str(seconds),
        "X-Goog-SignedHeaders": signed_names,
    } | {f"response-{name}": value for name, value in response_headers(request).items()}
    encoded = "&".join(sorted(f"{name}={quote(value, safe='~')}" for name, value in query.items()))
    canonical = "\n".join(
        (
            request.method,
            path,
            encoded,
            *(f"{name}:{' '.join(headers[name].split())}" for name in sorted(headers)),
            "",
            signed_names,
            "UNSIGNED-PAYLOAD",
        )
    )
    digest = sha256(canonical.encode()).hexdigest()
    text = "\n".join(("GOOG4-RSA-SHA256", query["X-Goog-Date"], scope, digest))
    signature = signer.sign(text.encode()).hex()
    return PresignedUrl(
        f"{endpoint}{path}?{encoded}&X-Goog-Signature={signature}",
        start + timedelta(seconds=seconds),
        sent,
    )

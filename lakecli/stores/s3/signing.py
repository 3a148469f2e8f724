"""Signed URLs for S3, computed without a request, a service model or a client.

The SDK's signer takes 60 ms to load and five times as long for each URL; tests compare the two.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hmac import digest
from typing import Final
from urllib.parse import urlsplit

from lakecli.errors import PermissionDenied
from lakecli.stores.presigned_urls import (
    LONGEST,
    V4,
    PresignedUrl,
    PresignRequest,
    lifetime_of,
    v4_url,
)
from lakecli.stores.s3.settings import AccessKeys

AWS4: Final = V4("AWS4-HMAC-SHA256", "X-Amz-", "s3/aws4_request")
_PORTS: Final = {"http": 80, "https": 443}


def presign(
    keys: AccessKeys,
    request: PresignRequest,
    *,
    url: str,
    region: str,
    now: datetime,
    keys_end: datetime | None = None,
    version_id: str = "",
) -> PresignedUrl:
    """Sign the URL of an object.

    Args:
        keys: whose permissions the holder of the URL has, for this object.
        request: what the URL permits.
        url: of the object, percent-encoded.
        region: of the bucket.
        now: the moment of signing.
        keys_end: when the keys end, if they are temporary and it is known.
        version_id: of the version that the URL reads; ``""`` for the current object.

    Raises:
        UsageError: a method other than GET and PUT, or no time at all.
        PermissionDenied: the credentials have expired.
    """
    at = url.index("/", url.index("://") + 3)
    lifetime = lifetime_of(request.method, request.expires_in, longest=LONGEST)
    start = now.astimezone(UTC).replace(microsecond=0)
    if keys_end is not None:
        lifetime = min(lifetime, keys_end - start)
    if lifetime < timedelta(seconds=1):
        raise PermissionDenied(
            "cannot presign, the credentials for S3 have expired",
            hint="log in again, or set a fresh AWS_SESSION_TOKEN",
        )
    made = v4_url(
        AWS4,
        request,
        name=keys.access_key,
        region=region,
        host=_host_of(url[:at]),
        path=url[at:],
        start=start,
        lifetime=lifetime,
        parameters={"X-Amz-Security-Token": keys.token, "versionId": version_id},
    )
    end = f"X-Amz-Signature={signature(keys.secret_key, made.scope, made.text)}"
    return PresignedUrl(f"{url}?{made.query}&{end}", made.expires_at, made.headers)


def signature(secret_key: str, scope: str, text: str) -> str:
    """Return the signature of a text, in hex."""
    return digest(_signing_key(secret_key, scope), text.encode(), "sha256").hex()


@lru_cache(maxsize=4)
def _signing_key(secret_key: str, scope: str) -> bytes:
    """Return the key of a scope, which is the same for a day."""
    key = f"AWS4{secret_key}".encode()
    for part in scope.split("/"):
        key = digest(key, part.encode(), "sha256")
    return key


def _host_of(url: str) -> str:
    """Return the Host header that clients send with a URL."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if ":" in host:
        host = f"[{host}]"
    if parts.port is None or parts.port == _PORTS.get(parts.scheme):
        return host
    return f"{host}:{parts.port}"

"""Signed URLs for Google Cloud Storage, by the V4 process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from lakecli.stores.gs.credentials import Signer
from lakecli.stores.presigning import V4, PresignedUrl, PresignRequest, V4Form, lifetime_of

GOOG4: Final = V4("GOOG4-RSA-SHA256", "X-Goog-", "storage/goog4_request")


def unsigned(
    signer: Signer,
    request: PresignRequest,
    *,
    endpoint: str,
    path: str,
    now: datetime,
    generation: str = "",
) -> PresignedUrl:
    """Return the URL of an object, which lacks its signature.

    Args:
        signer: whose permissions the holder of the URL has, for this object.
        request: what the URL permits.
        endpoint: URL of the server.
        path: of the object: a slash, the bucket and the key, percent-encoded.
        now: the moment of signing.
        generation: that the URL reads; ``""`` for the current object.

    Raises:
        UsageError: a method other than GET and PUT, or no time at all.
    """
    form = _form(
        (signer.email, signer.longest, endpoint),
        now,
        request.method,
        request.content_type,
        request.expires_in,
    )
    query, text = form.unsigned(
        path, request, before=f"&generation={generation}" if generation else ""
    )
    return PresignedUrl(
        f"{endpoint}{path}?{query}&X-Goog-Signature=",
        form.expires_at,
        form.headers,
        (signer.sign, text.encode()),
    )


@lru_cache(64)
def _form(
    who_and_where: tuple[str, timedelta, str],
    now: datetime,
    method: str,
    content_type: str,
    expires_in: timedelta,
) -> V4Form:
    """Return the form of a URL; most are those of the last one."""
    email, longest, endpoint = who_and_where
    return V4Form(
        GOOG4,
        name=email,
        region="auto",
        host=urlsplit(endpoint).netloc.rpartition("@")[2],
        method=method,
        content_type=content_type,
        start=now.astimezone(UTC).replace(microsecond=0),
        seconds=int(lifetime_of(method, expires_in, longest=longest).total_seconds()),
    )

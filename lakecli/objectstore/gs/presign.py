"""Signed URLs for Google Cloud Storage, by the V4 process."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from lakecli.objectstore.presigning import V4, V4Signer, lifetime_of, presign_v4

if TYPE_CHECKING:
    from datetime import datetime

    from lakecli.objectstore.base import PresignedUrl, PresignRequest
    from lakecli.objectstore.gs.credentials import Signer

GOOG4: Final = V4("GOOG4-RSA-SHA256", "X-Goog-", "storage/goog4_request")


def presign(
    signer: Signer,
    request: PresignRequest,
    *,
    endpoint: str,
    path: str,
    now: datetime,
    generation: str = "",
) -> PresignedUrl:
    """Sign the URL of an object.

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
    seconds = int(lifetime_of(request, longest=signer.longest).total_seconds())
    return presign_v4(
        GOOG4,
        V4Signer(signer.email, "auto", lambda _, text: signer.sign(text.encode()).hex()),
        request,
        url=endpoint + path,
        path=path,
        host=urlsplit(endpoint).netloc.rpartition("@")[2],
        start=now.astimezone(UTC).replace(microsecond=0),
        seconds=seconds,
        parameters={"generation": generation} if generation else {},
    )

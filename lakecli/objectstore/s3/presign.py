"""Signed URLs for S3, computed without a request, a service model or a client.

The SDK's signer takes 60 ms to load and five times as long for each URL; tests compare the two.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from hmac import digest
from urllib.parse import urlsplit

from lakecli.errors import PermissionDenied
from lakecli.objectstore.presigning import LONGEST, V4, V4Signer, lifetime_of, presign_v4
from lakecli.typed import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from botocore.session import Session

    from lakecli.objectstore.base import PresignedUrl, PresignRequest
    from lakecli.objectstore.s3.plain import Keys

AWS4: Final = V4("AWS4-HMAC-SHA256", "X-Amz-", "s3/aws4_request")
_PORTS: Final = {"http": 80, "https": 443}


def find_keys(session: Session) -> tuple[Keys, datetime | None]:
    """Return the SDK's credentials, and when temporary ones end.

    This reads files and variables, and sends a request only if they come from a server (single
    sign-on, instance roles).

    Raises:
        botocore.exceptions.BotoCoreError: no credentials.
    """
    from botocore.exceptions import NoCredentialsError

    from lakecli.objectstore.s3.plain import Keys

    credentials = session.get_credentials()
    if credentials is None:
        raise NoCredentialsError
    # This refreshes them if they are about to expire, so the expiry is read afterwards.
    frozen = credentials.get_frozen_credentials()
    keys = Keys(str(frozen.access_key), str(frozen.secret_key), str(frozen.token or ""))
    return keys, expiry_of(credentials)


def presign(
    keys: Keys,
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
    lifetime = lifetime_of(request, longest=LONGEST)
    start = now.astimezone(UTC).replace(microsecond=0)
    if keys_end is not None:
        lifetime = min(lifetime, keys_end - start)
    seconds = int(lifetime.total_seconds())
    if seconds < 1:
        raise PermissionDenied(
            "cannot presign, the credentials for S3 have expired",
            hint="log in again, or set a fresh AWS_SESSION_TOKEN",
        )
    parameters = {"X-Amz-Security-Token": keys.token} if keys.token else {}
    if version_id:
        parameters["versionId"] = version_id
    signer = V4Signer(
        keys.access_key, region, lambda scope, text: signature(keys.secret_key, scope, text)
    )
    return presign_v4(
        AWS4,
        signer,
        request,
        url=url,
        path=urlsplit(url).path,
        host=_host_of(url),
        start=start,
        seconds=seconds,
        parameters=parameters,
    )


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


def expiry_of(credentials: Any) -> datetime | None:  # noqa: ANN401 - the SDK is not typed
    """Return when temporary credentials expire; known only of those that can be refreshed."""
    end = getattr(credentials, "_expiry_time", None)
    return end.astimezone(UTC) if isinstance(end, datetime) else None

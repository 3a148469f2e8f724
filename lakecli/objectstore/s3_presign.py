"""Signed URLs for S3, made without asking anybody: no request, no service model, no client."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import NoCredentialsError

from lakecli.errors import PermissionDenied
from lakecli.objectstore.base import PresignedUrl
from lakecli.objectstore.presigning import lifetime_of, response_headers

if TYPE_CHECKING:
    from botocore.session import Session

    from lakecli.objectstore.base import PresignRequest

LONGEST = timedelta(days=7)
"""What Signature Version 4 allows."""


class _SignerAt(S3SigV4QueryAuth):  # type: ignore[misc] # the SDK is not typed
    """The SDK's signer, as of a given moment instead of now."""

    def __init__(self, *arguments: object, at: datetime, expires: int) -> None:
        super().__init__(*arguments, expires=expires)
        self._at = at

    def add_auth(self, request: AWSRequest) -> None:
        request.context["timestamp"] = self._at.strftime("%Y%m%dT%H%M%SZ")
        self._modify_request_before_signing(request)
        text = self.string_to_sign(request, self.canonical_request(request))
        self._inject_signature_to_request(request, self.signature(text, request))


def presign(
    session: Session, request: PresignRequest, *, url: str, region: str, now: datetime
) -> PresignedUrl:
    """Sign the URL of an object.

    Args:
        session: of the SDK; resolving its credentials reads files and variables, and asks a
            server only where they come from one (single sign-on, instance roles).
        request: what the URL shall permit.
        url: of the object, percent-encoded.
        region: of the bucket.
        now: the moment of signing.

    Raises:
        UsageError: a method other than GET and PUT, or no time at all.
        PermissionDenied: the credentials have expired.
        botocore.exceptions.BotoCoreError: no credentials.
    """
    lifetime = lifetime_of(request, longest=LONGEST)
    credentials = session.get_credentials()
    if credentials is None:
        raise NoCredentialsError
    # Refreshes them if they are about to end, so the end is read afterwards.
    frozen = credentials.get_frozen_credentials()
    start = now.astimezone(UTC).replace(microsecond=0)
    credentials_end = expiry_of(credentials)
    if credentials_end is not None:
        lifetime = min(lifetime, credentials_end - start)
    seconds = int(lifetime.total_seconds())
    if seconds < 1:
        raise PermissionDenied(
            "cannot presign, the credentials for S3 have expired",
            hint="log in again, or set a fresh AWS_SESSION_TOKEN",
        )
    has_type = request.method == "PUT" and bool(request.content_type)
    headers = {"Content-Type": request.content_type} if has_type else {}
    unsigned = AWSRequest(
        method=request.method,
        url=url,
        headers=dict(headers),
        params={f"response-{name}": value for name, value in response_headers(request).items()},
    )
    _SignerAt(frozen, "s3", region, at=start, expires=seconds).add_auth(unsigned)
    return PresignedUrl(unsigned.url, start + timedelta(seconds=seconds), headers)


def expiry_of(credentials: Any) -> datetime | None:  # noqa: ANN401 - the SDK is not typed
    """Return when temporary credentials end; only those that can be refreshed know."""
    end = getattr(credentials, "_expiry_time", None)
    return end.astimezone(UTC) if isinstance(end, datetime) else None

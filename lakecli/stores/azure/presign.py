"""Signed URLs for Azure: shared access signatures of single blobs.

Computed here, because the SDK takes 200 ms to load and signs for the newest version of the service
only. Every account and emulator accepts the version used here.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from hmac import digest
from typing import TYPE_CHECKING
from urllib.parse import quote

from lakecli.errors import PermissionDenied
from lakecli.stores.azure.credentials import HOW_TO_LOG_IN, AzureLogin
from lakecli.stores.presigned_urls import (
    LONGEST,
    PresignedUrl,
    PresignRequest,
    lifetime_of,
    quoted_path,
    response_headers,
)
from lakecli.stores.responses import UnusableAnswerError

if TYPE_CHECKING:
    from azure.storage.blob import UserDelegationKey

VERSION = "2022-11-02"
_PERMISSIONS = {"GET": "r", "PUT": "cw"}


def presign(
    login: AzureLogin,
    request: PresignRequest,
    *,
    container: str,
    name: str,
    now: datetime,
    delegated: UserDelegationKey | None,
    version_id: str = "",
) -> PresignedUrl:
    """Sign the URL of a blob.

    Args:
        login: with the account's key, unless there is a delegated one.
        request: what the URL permits.
        container: of the blob.
        name: of the blob.
        now: the moment of signing.
        delegated: signs instead of the account's key.
        version_id: of the version that the URL reads; ``""`` for the current blob.

    Raises:
        UsageError: a method other than GET and PUT, or no time at all.
        PermissionDenied: the account's key is malformed.
    """
    lifetime = int(lifetime_of(request.method, request.expires_in, longest=LONGEST).total_seconds())
    end = now.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=lifetime)
    signer: dict[str, str] = {}
    if delegated is not None:
        end = min(end, end_of(delegated))
        signer = {
            "skoid": delegated.signed_oid or "",
            "sktid": delegated.signed_tid or "",
            "skt": delegated.signed_start or "",
            "ske": delegated.signed_expiry or "",
            "sks": delegated.signed_service or "",
            "skv": delegated.signed_version or "",
        }
    said = response_headers(request)
    query = {
        "sv": VERSION,
        "sr": "bv" if version_id else "b",
        "sp": _PERMISSIONS[request.method],
        "se": f"{end:%Y-%m-%dT%H:%M:%SZ}",
        "spr": "https" if login.endpoint.startswith("https:") else "",
        "rscd": said.get("content-disposition", ""),
        "rsct": said.get("content-type", ""),
    }
    text = "\n".join(
        (
            query["sp"],
            "",  # valid at once, whatever the store's clock says
            query["se"],
            f"/blob/{login.account}/{container}/{name}",
            # Three kinds of agents for a delegated key, a stored policy for an account's.
            *((*signer.values(), "", "", "") if signer else ("",)),
            "",  # any address
            query["spr"],
            query["sv"],
            query["sr"],
            version_id,  # or the time of a snapshot
            "",  # any encryption scope
            "",  # cache control: as stored
            query["rscd"],
            "",  # encoding: as stored
            "",  # language: as stored
            query["rsct"],
        )
    )
    key = login.key if delegated is None else delegated.value or ""
    query |= signer | {"sig": _signature(key, text), "versionid": version_id}
    token = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items() if value)
    url = f"{login.endpoint}/{container}/{quoted_path(name)}"
    return PresignedUrl(f"{url}?{token}", end, _headers_of(request))


def end_of(delegated: UserDelegationKey) -> datetime:
    """Return when a delegated key ends.

    Raises:
        UnusableAnswerError: the store did not say it.
    """
    try:
        return datetime.fromisoformat(str(delegated.signed_expiry)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise UnusableAnswerError("its key has no end") from None


def _signature(key: str, text: str) -> str:
    try:
        secret = b64decode(key, validate=True)
    except Base64Error:
        raise PermissionDenied(
            "cannot presign, the key of the storage account is malformed", hint=HOW_TO_LOG_IN
        ) from None
    return b64encode(digest(secret, text.encode(), sha256)).decode()


def _headers_of(request: PresignRequest) -> dict[str, str]:
    """Return the headers that a request must send; for a PUT, also the kind of the blob."""
    if request.method != "PUT":
        return {}
    headers = {"x-ms-blob-type": "BlockBlob"}
    if request.content_type:
        headers["Content-Type"] = request.content_type
    return headers

"""Describes the credentials for Google Cloud Storage, and where the SDK found them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakecli.stores.access import Access
from lakecli.stores.gs.credentials import GsLogin

_EMULATOR = "STORAGE_EMULATOR_HOST"
_UNKNOWN = "the application default credentials"


def describe(login: GsLogin) -> Access:
    """Return the credentials in use.

    Raises:
        google.auth.exceptions.GoogleAuthError: there are no credentials, or they cannot be read.
        UsageError: the emulator's variable is no URL.
    """
    if login.emulator:
        return Access("no credentials", "", _EMULATOR, endpoint=login.host)
    credentials = login.credentials
    info = _info_of(credentials)
    identity = info.get("principal") or getattr(credentials, "service_account_email", None) or ""
    return Access(
        kind=str(info.get("credential_type") or type(credentials).__name__),
        identity=str(identity),
        source=_shortened(str(info.get("credential_source") or _UNKNOWN)),
        endpoint=login.host,
    )


def _info_of(credentials: Any) -> Mapping[str, object]:  # noqa: ANN401 - one of the SDK's many classes
    """Return the SDK's description of credentials; old SDKs and rare kinds have none."""
    describe = getattr(credentials, "get_cred_info", None)
    return (describe() if describe is not None else None) or {}


def _shortened(source: str) -> str:
    """Shorten the SDK's words for a file to ``GOOGLE_APPLICATION_CREDENTIALS (/key.json)``."""
    file, found, _ = source.partition(" file via the GOOGLE_APPLICATION_CREDENTIALS")
    return f"GOOGLE_APPLICATION_CREDENTIALS ({file})" if found else source

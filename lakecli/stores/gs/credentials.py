"""Application default credentials and the endpoint of Google's storage, found on first use.

They come from the places of Google's own tools: ``GOOGLE_APPLICATION_CREDENTIALS``, the file of
``gcloud auth application-default login``, or the machine's service account, unless
``NO_GCE_CHECK=true``. ``STORAGE_EMULATOR_HOST`` names another server, which gets no credentials, as
from the SDK.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from threading import RLock
from typing import Any
from urllib.parse import urlsplit

from lakecli.errors import UsageError
from lakecli.stores.capabilities import Access
from lakecli.stores.cloud_errors import has_credentials
from lakecli.stores.gs.presign import DEFAULT_DOMAIN, Signer, signer_of, signer_of_file

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
"""Needed to sign through IAM; the bucket's own permissions limit what requests may do."""

_EMULATOR = "STORAGE_EMULATOR_HOST"
_UNKNOWN = "the application default credentials"


class GsLogin:
    """The caller's identity, found on first use. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._credentials: Any = None
        self._signer: Signer | None = None

    @property
    def emulator(self) -> str:
        """URL of a server that replaces Google's, or ``""``.

        Raises:
            UsageError: the variable is no URL, or has a user or a password.
        """
        url = os.environ.get(_EMULATOR, "")
        if "@" in urlsplit(url).netloc:
            raise has_credentials(_EMULATOR)
        if url and not (url.startswith(("http://", "https://")) and urlsplit(url).netloc):
            raise UsageError(
                f"{_EMULATOR} is not the URL of a server: {url!r}",
                hint="http://HOST:PORT, or unset it",
            )
        return url.rstrip("/")

    @property
    def endpoint(self) -> str:
        """URL of the server, for signed URLs."""
        if self._signer is None and not self.emulator:
            self.credentials  # noqa: B018 - they tell the domain
        return self.emulator or f"https://storage.{self._domain}"

    @property
    def host(self) -> str:
        """Where requests go, for messages: no path, no credentials."""
        return urlsplit(self.emulator or f"https://storage.{self._domain}").netloc

    @property
    def _domain(self) -> str:
        """The domain of the credentials that were found; Google's own before."""
        if self._signer is not None:
            return self._signer.domain
        return self._credentials.universe_domain if self._credentials else DEFAULT_DOMAIN

    @property
    def credentials(self) -> Any:  # noqa: ANN401 - one of the SDK's many classes
        """The application default credentials.

        Raises:
            google.auth.exceptions.GoogleAuthError: there are none, or they cannot be read.
        """
        with self._lock:
            if self._credentials is None:
                self._credentials = _default_credentials()
            return self._credentials

    def signer(self) -> Signer:
        """Return the signer: the service account's own key, or else Google's IAM.

        Raises:
            Unsupported: the credentials are a user's, who cannot sign.
            PermissionDenied: there are no credentials.
        """
        with self._lock:
            if self._signer is None:
                self._signer = signer_of_file() or signer_of(self.credentials)
            return self._signer


def _default_credentials() -> Any:  # noqa: ANN401 - one of the SDK's many classes
    import logging

    import google.auth

    # The SDK's advice on projects and quotas is for programmers.
    logging.getLogger("google").addHandler(logging.NullHandler())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        credentials, _ = google.auth.default(scopes=SCOPES)
    return credentials


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

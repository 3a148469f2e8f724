"""Application default credentials and the endpoint of Google's storage.

The key of a service account, read from its file without the SDK, which takes 170 ms to load.

Application default credentials and the endpoint of Google's storage, found on first use.

They come from the places of Google's own tools: ``GOOGLE_APPLICATION_CREDENTIALS``, the file of
``gcloud auth application-default login``, or the machine's service account, unless
``NO_GCE_CHECK=true``. ``STORAGE_EMULATOR_HOST`` names another server, which gets no credentials, as
from the SDK.

Describes the credentials for Google Cloud Storage, and where the SDK found them.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from lakecli.base.parsing import Unparsable, parse_json
from lakecli.base.validation import Invalid, Record, text
from lakecli.errors import PermissionDenied, Unsupported, UsageError
from lakecli.stores.capabilities import Access
from lakecli.stores.cloud_errors import has_credentials
from lakecli.stores.presigning import LONGEST

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

VARIABLE: Final = "GOOGLE_APPLICATION_CREDENTIALS"

_MAX_SIZE: Final = 1 << 20
_PEM: Final = "-----BEGIN "
_FILE: Final = Record(
    {
        "type": text(64),
        "client_email": text(1_024),
        "token_uri": text(4_096),
        "private_key": text(64 << 10),
    }
)


class PrivateKey:
    """An RSA key, loaded when it first signs. Its text is never shown, and threads may share it.

    Args:
        pem: the key as PEM, not encrypted.
    """

    def __init__(self, pem: str) -> None:
        self._pem = pem

    @cached_property
    def _key(self) -> RSAPrivateKey:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key = load_pem_private_key(self._pem.encode(), None)
        except (TypeError, UnsupportedAlgorithm) as error:
            raise ValueError("a damaged key, or one with a password") from error
        if not isinstance(key, RSAPrivateKey):
            raise ValueError("not an RSA key")  # noqa: TRY004 - it comes from a file
        return key

    def sign(self, text: bytes) -> bytes:
        """Return the signature of a text, by PKCS #1 v1.5 and SHA-256.

        Raises:
            ValueError: not an RSA key, or a damaged one.
        """
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
        from cryptography.hazmat.primitives.hashes import SHA256

        return self._key.sign(text, PKCS1v15(), SHA256())


class ServiceKey(NamedTuple):
    """A service account that signs with a key of this machine.

    Attributes:
        email: of the account.
        domain: of the cloud that it belongs to; ``""``: Google's own.
        key: its private key.
    """

    email: str
    domain: str
    key: PrivateKey


def key_of_this_machine() -> ServiceKey | None:
    """Return the key in the file that the environment names; ``None`` as `read_key` does."""
    name = os.environ.get(VARIABLE, "")
    return read_key(name) if name else None


def read_key(name: str) -> ServiceKey | None:
    """Return the key in a file.

    Returns:
        ``None`` if there is anything else, or no such file; the SDK then uses it, or says why not.
    """
    try:
        with open(name, encoding="utf-8") as file:  # noqa: PTH123 - as given
            fields = parse_json(file.read(_MAX_SIZE + 1), max_size=_MAX_SIZE)
        found = _FILE.read(fields)
    except (OSError, UnicodeDecodeError, Unparsable, Invalid):
        return None
    domain = fields.get("universe_domain", "")
    if found["type"] != "service_account" or not isinstance(domain, str):
        return None
    if not found["private_key"].startswith(_PEM):
        return None
    return ServiceKey(found["client_email"], domain, PrivateKey(found["private_key"]))


DEFAULT_DOMAIN = "googleapis.com"

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
"""Needed to sign through IAM; the bucket's own permissions limit what requests may do."""

LONGEST_BY_IAM = timedelta(hours=12)
"""How long Google keeps a signing key, at least."""

_GET_A_KEY = (
    "set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account's key, or run "
    "`gcloud auth application-default login --impersonate-service-account=ACCOUNT`"
)


class Signer(NamedTuple):
    """Signs as a service account.

    Attributes:
        email: of the account.
        sign: returns the signature of bytes, by RSA and SHA-256.
        longest: how long such a signature is valid, at most.
    """

    email: str
    sign: Callable[[bytes], bytes]
    longest: timedelta


class GsLogin:
    """The caller's identity, found on first use. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._credentials: Any = None
        self._key: ServiceKey | None = None
        self._signer: Signer | None = None

    @property
    def emulator(self) -> str:
        """URL of a server that replaces Google's, or ``""``.

        Raises:
            UsageError: the variable is no URL, or has a user or a password.
        """
        url = os.environ.get("STORAGE_EMULATOR_HOST", "")
        if "@" in urlsplit(url).netloc:
            raise has_credentials("STORAGE_EMULATOR_HOST")
        if url and not (url.startswith(("http://", "https://")) and urlsplit(url).netloc):
            raise UsageError(
                f"STORAGE_EMULATOR_HOST is not the URL of a server: {url!r}",
                hint="http://HOST:PORT, or unset it",
            )
        return url.rstrip("/")

    @property
    def endpoint(self) -> str:
        """URL of the server, for signed URLs."""
        if self.emulator:
            return self.emulator
        domain = self.credentials.universe_domain if self._key is None else _domain_of(self._key)
        return f"https://storage.{domain}"

    @property
    def host(self) -> str:
        """Where requests go, for messages: no path, no credentials."""
        domain = DEFAULT_DOMAIN
        if self._key is not None:
            domain = _domain_of(self._key)
        elif self._credentials is not None:
            domain = self._credentials.universe_domain
        return urlsplit(self.emulator or f"https://storage.{domain}").netloc.rpartition("@")[2]

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
                self._key = key_of_this_machine()
                if self._key is None:
                    self._signer = _signer_of(self.credentials)
                else:
                    self._signer = _signer_with(self._key)
            return self._signer


def _domain_of(key: ServiceKey) -> str:
    return key.domain or DEFAULT_DOMAIN


def _default_credentials() -> Any:  # noqa: ANN401 - one of the SDK's many classes
    import logging

    import google.auth

    # The SDK's advice on projects and quotas is for programmers.
    logging.getLogger("google").addHandler(logging.NullHandler())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        credentials, _ = google.auth.default(scopes=SCOPES)
    return credentials


def _signer_with(key: ServiceKey) -> Signer:
    def sign(text: bytes) -> bytes:
        try:
            return key.key.sign(text)
        except ValueError:
            raise PermissionDenied(
                f"cannot presign, {VARIABLE} names a file whose private key is damaged",
                hint=_GET_A_KEY,
            ) from None

    return Signer(key.email, sign, LONGEST)


def _signer_of(credentials: Any) -> Signer:  # noqa: ANN401 - one of the SDK's many classes
    from google.auth.credentials import Signing
    from google.oauth2.service_account import Credentials as KeyCredentials

    if isinstance(credentials, Signing):
        has_key = isinstance(credentials, KeyCredentials)
        sign = credentials.sign_bytes if has_key else _explaining(credentials.sign_bytes)
        longest = LONGEST if has_key else LONGEST_BY_IAM
        return Signer(str(credentials.signer_email), sign, longest)
    from google.auth.iam import Signer as IamSigner
    from google.auth.transport.requests import Request

    request = Request()
    if getattr(credentials, "service_account_email", None) == "default":
        credentials.refresh(request)  # until then the machine's account has no name
    email = getattr(credentials, "service_account_email", None)
    if not email or email == "default":
        raise Unsupported(
            "cannot presign, the credentials are not those of a service account", hint=_GET_A_KEY
        )
    signer = IamSigner(request, credentials, email)  # type: ignore[no-untyped-call]
    return Signer(str(email), _explaining(signer.sign), LONGEST_BY_IAM)


def _explaining(sign: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Explain a refusal of IAM; an error with a cause is a failed connection."""

    def signed(data: bytes) -> bytes:
        from google.auth.exceptions import TransportError

        try:
            return sign(data)
        except TransportError as error:
            if error.__cause__ is not None:
                raise
            raise PermissionDenied(
                "cannot presign, Google's IAM refused to sign for the service account",
                hint="grant it roles/iam.serviceAccountTokenCreator on itself and enable the IAM "
                f"Service Account Credentials API; or {_GET_A_KEY}",
            ) from error

    return signed


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

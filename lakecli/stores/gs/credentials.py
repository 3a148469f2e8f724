"""Finds application default credentials and the endpoint of Google's storage, and signs URLs.

The key of a service account is read from its file without the SDK: loading the SDK would take
longer than the rest of ``fs presign``. URLs are signed by V4 signing.

Credentials come from the places where Google's own tools look: ``GOOGLE_APPLICATION_CREDENTIALS``,
the file of ``gcloud auth application-default login``, or the machine's service account, unless
``NO_GCE_CHECK=true``. As in the SDK, ``STORAGE_EMULATOR_HOST`` names another server, to which no
credentials are sent.
"""

import logging
import os
import warnings
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from lakecli.base.model import NO_ACCOUNT, Account, Demand
from lakecli.base.parsing import Unparsable, parse_json
from lakecli.base.validation import Invalid, Record, text
from lakecli.errors import PermissionDenied, Unsupported, UsageError
from lakecli.stores.capabilities import Access
from lakecli.stores.cloud_errors import split_server
from lakecli.stores.presigned_urls import LONGEST, V4

if TYPE_CHECKING:
    from lakecli.stores.answer_limits import AnswerLimits

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
"""OAuth scopes of the credentials; signing through IAM needs them."""

_EMULATOR = "STORAGE_EMULATOR_HOST"
_UNKNOWN = "the application default credentials"

GOOG4: Final = V4("GOOG4-RSA-SHA256", "X-Goog-", "storage/goog4_request", region="auto")
DEFAULT_DOMAIN: Final = "googleapis.com"
VARIABLE: Final = "GOOGLE_APPLICATION_CREDENTIALS"

KMS_KEY_HEADER: Final = "x-goog-encryption-kms-key-name"
"""The header that names the KMS key of a new object, in writes by the XML API."""

LONGEST_BY_IAM: Final = timedelta(hours=12)
"""Longest lifetime of a URL signed through IAM: Google keeps the signing key at least this long."""

_MAX_SIZE: Final = 1 << 20
_PEM: Final = "-----BEGIN "
_SIZES: Final = {"type": 64, "client_email": 1_024, "token_uri": 4_096, "private_key": 64 << 10}
_FILE: Final = Record({name: text(size) for name, size in _SIZES.items()})
_GET_A_KEY: Final = (
    "set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account's key, or run "
    "`gcloud auth application-default login --impersonate-service-account=ACCOUNT`"
)


class Signer(NamedTuple):
    """Signs URLs as a service account.

    Attributes:
        sign: a function that returns the signature of bytes, by RSA and SHA-256.
        longest: the longest validity of such a signature.
        domain: domain of the cloud that has the account.
    """

    email: str
    sign: Callable[[bytes], bytes]
    longest: timedelta
    domain: str


def signer_of_file() -> Signer | None:
    """Return a signer with the key in the file that ``GOOGLE_APPLICATION_CREDENTIALS`` names.

    Returns:
        ``None`` if the file is missing, or is not the key of a service account. The SDK then uses
        the file, or reports why it cannot.
    """
    try:
        with open(os.environ.get(VARIABLE, ""), encoding="utf-8") as file:  # noqa: PTH123 - as given
            fields = parse_json(file.read(_MAX_SIZE + 1), max_size=_MAX_SIZE)
        found = _FILE.read(fields)
    except (OSError, UnicodeDecodeError, Unparsable, Invalid):
        return None
    domain = fields.get("universe_domain", "")
    if found["type"] != "service_account" or not isinstance(domain, str):
        return None
    if not found["private_key"].startswith(_PEM):
        return None
    sign = _signing_with(found["private_key"])
    return Signer(found["client_email"], sign, LONGEST, domain or DEFAULT_DOMAIN)


def _signing_with(pem: str) -> Callable[[bytes], bytes]:
    """Return a function that signs with a key; the key is loaded once for all threads.

    Args:
        pem: the key as PEM, not encrypted. No error message contains it.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem.encode(), None)
    except (TypeError, ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, RSAPrivateKey):
        raise PermissionDenied(
            f"cannot presign, {VARIABLE} names a file whose private key is damaged", hint=_GET_A_KEY
        )
    return partial(key.sign, padding=PKCS1v15(), algorithm=SHA256())


def signer_of(credentials: Any, request: Callable[[], Any]) -> Signer:  # noqa: ANN401 - one of the SDK's many classes
    """Return a signer for the SDK's credentials, with their own key or else through Google's IAM.

    Raises:
        Unsupported: the credentials belong to a user, and only service accounts can sign.
    """
    from google.auth.credentials import Signing
    from google.oauth2.service_account import Credentials as KeyCredentials

    domain = str(credentials.universe_domain)
    if isinstance(credentials, Signing):
        has_key = isinstance(credentials, KeyCredentials)
        sign = credentials.sign_bytes if has_key else _explaining(credentials.sign_bytes)
        longest = LONGEST if has_key else LONGEST_BY_IAM
        return Signer(str(credentials.signer_email), sign, longest, domain)
    from google.auth.iam import Signer as IamSigner

    sender = request()
    if getattr(credentials, "service_account_email", None) == "default":
        credentials.refresh(sender)  # before this, the machine's account has no name
    email = getattr(credentials, "service_account_email", None)
    if not email or email == "default":
        raise Unsupported(
            "cannot presign, the credentials are not those of a service account", hint=_GET_A_KEY
        )
    signer = IamSigner(sender, credentials, email)  # type: ignore[no-untyped-call]
    return Signer(str(email), _explaining(signer.sign), LONGEST_BY_IAM, domain)


def _explaining(sign: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Wrap `sign` to convert a refusal by Google's IAM to an error that explains it.

    If the SDK's error has a cause, the connection failed, and the error is not a refusal.
    """

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


class GsLogin:
    """The caller's credentials, found on first use. Safe to share between threads.

    Args:
        check_writes: ``None`` to use the caller's credentials. Otherwise requests are sent without
            credentials, and this function is called with the method of each request; it raises an
            error to refuse the request.
    """

    def __init__(
        self, access: Account = NO_ACCOUNT, check_writes: Callable[[str], None] | None = None
    ) -> None:
        self._access = access
        self.check_writes = check_writes
        self._lock = RLock()
        self._credentials: Any = None
        self._signer: Signer | None = None

    @property
    def emulator(self) -> str:
        """URL of a server that replaces Google's, or ``""``.

        Raises:
            UsageError: the variable is not a URL, or has a user or a password.
        """
        url = os.environ.get(_EMULATOR, "")
        if url and split_server(url, _EMULATOR) is None:
            raise UsageError(
                f"{_EMULATOR} is not the URL of a server: {url.rpartition('@')[2]!r}",
                hint="http://HOST:PORT, or unset it",
            )
        return url.rstrip("/")

    @property
    def endpoint(self) -> str:
        """URL of the server, for requests of the XML API and for presigned URLs."""
        if self._signer is None and not self.emulator:
            self.credentials  # noqa: B018 - finding them determines the domain
        return self.emulator or f"https://storage.{self._domain}"

    @property
    def host(self) -> str:
        """The host that receives requests, without path and credentials, for messages."""
        return urlsplit(self.emulator or f"https://storage.{self._domain}").netloc

    @property
    def _domain(self) -> str:
        """The domain of the credentials, or Google's own until credentials were found."""
        if self._signer is not None:
            return self._signer.domain
        return self._credentials.universe_domain if self._credentials else DEFAULT_DOMAIN

    @property
    def limits(self) -> "AnswerLimits":
        """The limits on how slowly servers may answer."""
        from lakecli.stores.answer_limits import limits_of  # loads http.client

        return limits_of(self._access)

    def request(self) -> Any:  # noqa: ANN401 - the SDK is not typed
        """Return the transport for the SDK's requests about credentials."""
        from google.auth.transport.requests import Request

        from lakecli.stores.bounded_requests import session_for_login

        return Request(session_for_login(self.limits))

    @property
    def credentials(self) -> Any:  # noqa: ANN401 - one of the SDK's many classes
        """The application default credentials; without any, raise the SDK's `GoogleAuthError`."""
        with self._lock:
            if self._credentials is None:
                check = self.check_writes
                self._credentials = (
                    _no_credentials(check) if check else _default_credentials(self.request())
                )
            return self._credentials

    def signer(self) -> Signer:
        """Return a signer that uses the service account's own key, or else Google's IAM.

        Raises:
            Unsupported: the credentials belong to a user, and only service accounts can sign.
        """
        with self._lock:
            if self._signer is None:
                self._signer = signer_of_file() or signer_of(self.credentials, self.request)
            return self._signer


def _no_credentials(check_writes: Callable[[str], None]) -> Any:  # noqa: ANN401 - the SDK's
    from google.auth.credentials import AnonymousCredentials

    class Anonymous(AnonymousCredentials):
        def before_request(self, _request: Any, method: str, _url: str, _headers: Any) -> None:  # noqa: ANN401
            check_writes(method)

    return Anonymous()  # type: ignore[no-untyped-call]


def _default_credentials(request: Any) -> Any:  # noqa: ANN401 - the SDK's
    import google.auth

    # Hide the SDK's warnings about projects and quotas, which are meant for programmers.
    logging.getLogger("google").addHandler(logging.NullHandler())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        credentials, _ = google.auth.default(scopes=SCOPES, request=request)
    return credentials


def describe(login: GsLogin) -> Access:
    """Return the credentials in use; if there are none, raise the SDK's `GoogleAuthError`."""
    if login.emulator:
        return Access("no credentials", "", _EMULATOR, endpoint=login.host)
    if login.check_writes is not None:
        return Access("no credentials", "", Demand.GS_ANONYMOUS, endpoint=login.host)
    credentials = login.credentials
    described = getattr(credentials, "get_cred_info", None)  # absent in old SDKs and rare classes
    info: Mapping[str, object] = (described() if described is not None else None) or {}
    identity = info.get("principal") or getattr(credentials, "service_account_email", None) or ""
    kind = str(info.get("credential_type") or type(credentials).__name__)
    source = _shortened(str(info.get("credential_source") or _UNKNOWN))
    return Access(kind, str(identity), source, login.host)


def _shortened(source: str) -> str:
    """Shorten the SDK's description of a file to ``GOOGLE_APPLICATION_CREDENTIALS (/key.json)``."""
    file, found, _ = source.partition(" file via the GOOGLE_APPLICATION_CREDENTIALS")
    return f"GOOGLE_APPLICATION_CREDENTIALS ({file})" if found else source

"""Finds the credentials and the endpoint of a storage account, and signs URLs.

Presigned URLs have shared access signatures (SAS) for single blobs, in a version that every account
and emulator accepts; the SDK can sign only with the newest version. With the key of an account,
``fs presign`` does not load the SDK, which would take longer than the rest of the command.

Credentials come from the variables that Azure's tools read, in this order:
``AZURE_STORAGE_CONNECTION_STRING``, ``AZURE_STORAGE_KEY``, ``AZURE_STORAGE_SAS_TOKEN``, then
whatever `DefaultAzureCredential` finds: a service principal in ``AZURE_CLIENT_ID`` and related
variables, a workload identity, or the login of ``az``. ``AZURE_STORAGE_ACCOUNT`` names the account
of the key or token, and ``AZURE_STORAGE_SERVICE_ENDPOINT`` an endpoint other than the usual one.
"""

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hmac import digest
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, quote, urlsplit

from lakecli.base.model import Demand
from lakecli.errors import PermissionDenied, UsageError
from lakecli.stores import presigned_urls
from lakecli.stores.capabilities import Access, beginning_of
from lakecli.stores.cloud_errors import one_line, split_server
from lakecli.stores.presigned_urls import LONGEST, PresignedUrl, PresignRequest, lifetime_of
from lakecli.stores.responses import UnusableAnswerError

if TYPE_CHECKING:
    from azure.storage.blob import UserDelegationKey

CONNECTION_STRING: Final = "AZURE_STORAGE_CONNECTION_STRING"
KEY: Final = "AZURE_STORAGE_KEY"
SAS_TOKEN: Final = "AZURE_STORAGE_SAS_TOKEN"  # noqa: S105 - the name of a variable
ACCOUNT: Final = "AZURE_STORAGE_ACCOUNT"
ENDPOINT: Final = "AZURE_STORAGE_SERVICE_ENDPOINT"

DOMAIN: Final = "core.windows.net"

HOW_TO_LOG_IN: Final = (
    f"set {CONNECTION_STRING}, or {ACCOUNT} and {KEY}, or {SAS_TOKEN}, or run `az login`; on a "
    "machine of Azure that has a managed identity, set "
    "AZURE_TOKEN_CREDENTIALS=ManagedIdentityCredential"
)

# The emulator's account and key are public: they are in Azure's documentation.
_EMULATOR: Final = {
    "accountname": "devstoreaccount1",
    "accountkey": "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/"
    "K1SZFPTOtr/KBHBeksoGMGw==",
    "blobendpoint": "http://127.0.0.1:10000/devstoreaccount1",
}
_URL: Final = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?")


@dataclass(frozen=True, slots=True)
class AzureLogin:
    """Credentials and endpoint of one account.

    Attributes:
        endpoint: URL of the account's blobs, without a trailing slash.
        sas_token: the SAS token without a question mark, or ``""``. Without `key` and `sas_token`,
            the login of Azure's tools is used.
    """

    account: str
    endpoint: str
    key: str = ""
    sas_token: str = ""
    source: str = ""
    is_anonymous: bool = False

    @property
    def host(self) -> str:
        """The host that receives requests, without path and credentials, for messages."""
        return urlsplit(self.endpoint).netloc.rpartition("@")[2]


def find_login(account: str, variables: Mapping[str, str]) -> AzureLogin:
    """Return the credentials and endpoint of an account.

    Raises:
        PermissionDenied: the variables are for another account.
        UsageError: a variable is malformed.
    """
    if variables.get(CONNECTION_STRING):
        return _of_connection_string(account, variables[CONNECTION_STRING])
    endpoint = variables.get(ENDPOINT) or f"https://{account}.blob.{DOMAIN}"
    _check_endpoint(endpoint, ENDPOINT)
    endpoint = endpoint.rstrip("/")
    for name in (KEY, SAS_TOKEN):
        secret = variables.get(name, "").strip().lstrip("?")
        if not secret:
            continue
        owner = variables.get(ACCOUNT) or account
        if owner != account:
            raise _other_account(ACCOUNT, owner, account)
        if name == KEY:
            return AzureLogin(account, endpoint, key=secret, source=name)
        return AzureLogin(account, endpoint, sas_token=secret, source=name)
    return AzureLogin(account, endpoint)


def without_login(account: str, variables: Mapping[str, str]) -> AzureLogin:
    """Return the endpoint of an account, without credentials.

    Args:
        variables: the environment; variables for another account are ignored.
    """
    try:
        endpoint = find_login(account, variables).endpoint
    except PermissionDenied:  # the variables are for another account
        endpoint = f"https://{account}.blob.{DOMAIN}"
    return AzureLogin(account, endpoint, is_anonymous=True)


def _of_connection_string(account: str, text: str) -> AzureLogin:
    pairs = [pair.partition("=") for pair in text.strip().strip(";").split(";")]
    settings = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if settings.get("usedevelopmentstorage", "").lower() == "true":
        settings = _EMULATOR | settings
    owner = settings.get("accountname", "")
    endpoint = settings.get("blobendpoint", "").rstrip("/")
    if owner and not endpoint:
        protocol = settings.get("defaultendpointsprotocol", "https")
        endpoint = f"{protocol}://{owner}.blob.{settings.get('endpointsuffix', DOMAIN)}"
    if endpoint:
        _check_endpoint(endpoint, CONNECTION_STRING)
        owner = owner or urlsplit(endpoint).netloc.partition(".blob.")[0]
    key = settings.get("accountkey", "")
    sas_token = settings.get("sharedaccesssignature", "").lstrip("?")
    if not endpoint or not (key or sas_token):
        hint = "copy it from `az storage account show-connection-string`, or unset it"
        raise UsageError(f"{CONNECTION_STRING} is malformed", hint=hint)
    if owner != account:
        raise _other_account(CONNECTION_STRING, owner, account)
    return AzureLogin(
        account, endpoint, key=key, sas_token="" if key else sas_token, source=CONNECTION_STRING
    )


def _check_endpoint(endpoint: str, name: str) -> None:
    if split_server(endpoint, name) is None or not _URL.fullmatch(endpoint):
        raise UsageError(
            f"no URL of a server in {name}", hint=f"https://ACCOUNT.blob.{DOMAIN}, or unset it"
        )


def _other_account(name: str, owner: str, account: str) -> PermissionDenied:
    return PermissionDenied(
        f"{name} is for the storage account {owner!r}, not for {account!r}",
        hint=f"set it for {account!r}, or unset it to use your own login",
    )


_CLIENT = "AZURE_CLIENT_ID"


def describe(login: AzureLogin, variables: Mapping[str, str]) -> Access:
    """Return the credentials in use, without logging in."""
    identity, host = f"of {login.account}", login.host
    if login.is_anonymous:
        return Access("no credentials", "", Demand.AZ_ANONYMOUS, endpoint=host)
    if login.key:
        return Access("account key", identity, login.source, endpoint=host)
    if login.sas_token:
        end = _end_of(login.sas_token)
        return Access("SAS token", identity, login.source, endpoint=host, expires_at=end)
    client = variables.get(_CLIENT, "")
    if client:
        return Access("client", beginning_of(client), _CLIENT, endpoint=host)
    return Access("your own login", "", "`az login`, or this machine's identity", endpoint=host)


def _end_of(sas_token: str) -> datetime | None:
    """Return when a SAS token expires; ``None`` if the token does not say."""
    try:
        end = datetime.fromisoformat(parse_qs(sas_token)["se"][0])
    except (KeyError, ValueError):
        return None
    return end if end.tzinfo else end.replace(tzinfo=UTC)


_VERSION: Final = "2022-11-02"
_PERMISSIONS: Final = {"GET": "r", "PUT": "cw"}
_OF_KEYS: Final = {"skoid": "oid", "sktid": "tid", "skt": "start", "ske": "expiry"}
_DELEGATED: Final = _OF_KEYS | {"sks": "service", "skv": "version"}
"""The parameters of a URL for the fields of a delegated key."""


def sas_url(
    login: AzureLogin,
    request: PresignRequest,
    *,
    container: str,
    name: str,
    now: datetime,
    delegated: "UserDelegationKey | None",
    version_id: str = "",
    scope: str = "",
) -> PresignedUrl:
    """Return the URL of a blob with a shared access signature.

    Args:
        login: the account, with its key unless `delegated` is given.
        delegated: a key that signs instead of the account's key.
        version_id: ID of the version that the URL reads; ``""`` for the current blob.
        scope: encryption scope of the blob that a PUT creates; ``""``: the container's default.
    """
    lifetime = int(lifetime_of(request.method, request.expires_in, longest=LONGEST).total_seconds())
    end = now.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=lifetime)
    signer: dict[str, str] = {}
    if delegated is not None:
        end = min(end, end_of(delegated))
        signer = {
            name: getattr(delegated, f"signed_{field}") or "" for name, field in _DELEGATED.items()
        }
    said = presigned_urls.response_headers(request)
    validity = {
        "sp": _PERMISSIONS[request.method],
        "st": "",  # valid at once, whatever the store's clock says
        "se": f"{end:%Y-%m-%dT%H:%M:%SZ}",
    }
    limits = {
        "sip": "",  # any address
        "spr": "https" if login.endpoint.startswith("https:") else "",
        "sv": _VERSION,
        "sr": "bv" if version_id else "b",
        "versionid": version_id,  # or the time of a snapshot
        "ses": scope if request.method == "PUT" else "",
        "rscc": "",  # cache control: as stored
        "rscd": said.get("content-disposition", ""),
        "rsce": said.get("content-encoding", ""),
        "rscl": "",  # language: as stored
        "rsct": said.get("content-type", ""),
    }
    # With a delegated key, three fields about agents; with an account's key, a policy.
    of_key = (*signer.values(), "", "", "") if signer else ("",)
    blob = f"/blob/{login.account}/{container}/{name}"
    text = "\n".join((*validity.values(), blob, *of_key, *limits.values()))
    key = login.key if delegated is None else delegated.value or ""
    query = validity | limits | signer | {"sig": _signature(key, text)}
    token = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items() if value)
    url = f"{login.endpoint}/{container}/{presigned_urls.quoted_path(name)}"
    return PresignedUrl(f"{url}?{token}", end, _headers_of(request))


def end_of(delegated: "UserDelegationKey") -> datetime:
    """Return when a delegated key expires.

    Raises:
        UnusableAnswerError: the key has no valid time of expiry.
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
    return b64encode(digest(secret, text.encode(), "sha256")).decode()


def _headers_of(request: PresignRequest) -> dict[str, str]:
    """Return the headers that a client must send in a PUT; a GET needs none."""
    if request.method != "PUT":
        return {}
    headers = {"x-ms-blob-type": "BlockBlob"}
    if request.content_type:
        headers["Content-Type"] = request.content_type
    return headers


def unusable_settings(error: ValueError) -> UsageError:
    """Return the error for variables that the SDK refuses, with the SDK's reason."""
    return UsageError(
        f"the settings for Azure cannot be used: {one_line(str(error))}",
        hint="check AZURE_TOKEN_CREDENTIALS and the other variables of the login; or "
        f"{HOW_TO_LOG_IN}",
    )

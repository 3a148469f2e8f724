"""Choosing the credentials of an account, without a request."""

from __future__ import annotations

import pytest

from lakecli.errors import LakeError, PermissionDenied, Unreachable, UsageError
from lakecli.stores.answer_limits import DEFAULT_LIMITS
from lakecli.stores.azure.client import AzureClient
from lakecli.stores.azure.credentials import AzureLogin, find_login
from lakecli.stores.azure.store import AzureStore
from lakecli.stores.responses import ServerDate

USUAL = "https://account.blob.core.windows.net"
STRING = "AZURE_STORAGE_CONNECTION_STRING"


@pytest.mark.parametrize(
    ("variables", "login"),
    [
        ({}, AzureLogin("account", USUAL)),
        (
            {STRING: "DefaultEndpointsProtocol=https;AccountName=account;AccountKey=a2V5==;"},
            AzureLogin("account", USUAL, key="a2V5==", source=STRING),
        ),
        (
            {STRING: " accountname=account ; accountkey=a;endpointsuffix=core.chinacloudapi.cn"},
            AzureLogin(
                "account", "https://account.blob.core.chinacloudapi.cn", key="a", source=STRING
            ),
        ),
        (
            {STRING: f"BlobEndpoint={USUAL}/;SharedAccessSignature=?sv=1&sig=a%3D"},
            AzureLogin("account", USUAL, sas_token="sv=1&sig=a%3D", source=STRING),
        ),
        (
            {STRING: "AccountName=account;AccountKey=a;BlobEndpoint=http://127.0.0.1:9/account"},
            AzureLogin("account", "http://127.0.0.1:9/account", key="a", source=STRING),
        ),
        (
            {"AZURE_STORAGE_KEY": " a2V5 ", "AZURE_STORAGE_SAS_TOKEN": "sig=a"},
            AzureLogin("account", USUAL, key="a2V5", source="AZURE_STORAGE_KEY"),
        ),
        (
            {
                "AZURE_STORAGE_ACCOUNT": "account",
                "AZURE_STORAGE_SAS_TOKEN": "?sig=a",
                "AZURE_STORAGE_SERVICE_ENDPOINT": "https://blobs.example/",
            },
            AzureLogin(
                "account",
                "https://blobs.example",
                sas_token="sig=a",
                source="AZURE_STORAGE_SAS_TOKEN",
            ),
        ),
        # The account decides whose login it is.
        ({"AZURE_STORAGE_ACCOUNT": "another"}, AzureLogin("account", USUAL)),
    ],
)
def test_the_configured_login_is_used(variables: dict[str, str], login: AzureLogin) -> None:
    assert find_login("account", variables) == login


@pytest.mark.parametrize(
    ("variables", "error", "said"),
    [
        ({STRING: "AccountName=another;AccountKey=secret"}, PermissionDenied, "'another', not"),
        (
            {STRING: "BlobEndpoint=https://another.blob.core.windows.net;SharedAccessSignature=s"},
            PermissionDenied,
            "'another', not",
        ),
        ({STRING: "UseDevelopmentStorage=true"}, PermissionDenied, "devstoreaccount1"),
        (
            {"AZURE_STORAGE_KEY": "secret", "AZURE_STORAGE_ACCOUNT": "another"},
            PermissionDenied,
            "AZURE_STORAGE_ACCOUNT is for",
        ),
        ({STRING: "secret"}, UsageError, "malformed"),
        ({STRING: "AccountName=account"}, UsageError, "malformed"),
        ({STRING: "AccountKey=secret"}, UsageError, "malformed"),
        (
            {STRING: "AccountName=account;AccountKey=secret;BlobEndpoint=secret"},
            UsageError,
            "no URL",
        ),
        ({"AZURE_STORAGE_SERVICE_ENDPOINT": "blobs.example"}, UsageError, "no URL"),
    ],
)
def test_a_malformed_setting_is_refused(
    variables: dict[str, str], error: type[LakeError], said: str
) -> None:
    with pytest.raises(error, match=said) as raised:
        find_login("account", variables)
    assert "secret" not in raised.value.message
    assert raised.value.hint


def test_the_emulator_has_a_short_name() -> None:
    login = find_login("devstoreaccount1", {STRING: "UseDevelopmentStorage=true"})
    assert login.endpoint == "http://127.0.0.1:10000/devstoreaccount1"
    assert login.host == "127.0.0.1:10000"


@pytest.mark.parametrize(
    ("variables", "is_excluded"),
    [
        ({}, True),
        ({"AZURE_TOKEN_CREDENTIALS": "ManagedIdentityCredential"}, None),
        ({"IDENTITY_ENDPOINT": "http://127.0.0.1:9"}, None),
    ],
)
def test_managed_identity_is_used_only_where_configured(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], *, is_excluded: bool | None
) -> None:
    asked = []

    class Login:
        def __init__(self, **options: object) -> None:
            asked.append(options["exclude_managed_identity_credential"])

        def get_token(self, *_: str) -> None:
            raise AssertionError

    monkeypatch.setattr("azure.identity.DefaultAzureCredential", Login)
    monkeypatch.delenv("AZURE_TOKEN_CREDENTIALS")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    AzureClient(
        AzureLogin("account", USUAL),
        "container",
        attempts=1,
        server_date=ServerDate(),
        limits=DEFAULT_LIMITS,
        check_writes=lambda _method: None,
    )
    assert asked == [is_excluded]


@pytest.mark.parametrize(
    ("variables", "error", "said"),
    [
        (
            {"AZURE_STORAGE_SERVICE_ENDPOINT": "http://127.0.0.1:9/account"},
            PermissionDenied,
            "no key for 127.0.0.1:9",
        ),
        ({"AZURE_TOKEN_CREDENTIALS": "ManagedIdentity"}, UsageError, "AZURE_TOKEN_CREDENTIALS"),
        (
            dict.fromkeys(("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"), "a")
            | {"AZURE_TENANT_ID": "no tenant"},
            UsageError,
            "tenant ID",
        ),
        (
            dict.fromkeys(("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID"), "a")
            | {"AZURE_AUTHORITY_HOST": "http://127.0.0.1:9"},
            UsageError,
            "authority",
        ),
    ],
)
def test_settings_that_the_sdk_refuses_are_no_unexpected_error(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], error: type[LakeError], said: str
) -> None:
    monkeypatch.delenv("AZURE_TOKEN_CREDENTIALS", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(error, match=said) as raised:
        AzureStore("account", "container").get("k")
    assert "AZURE_" in str(raised.value.hint)


@pytest.mark.parametrize("endpoint", ["http://h:99999", "https://[::1/a"])
def test_a_malformed_endpoint_is_reported(endpoint: str) -> None:
    with pytest.raises(UsageError, match="no URL of a server in AZURE_STORAGE_SERVICE_ENDPOINT"):
        find_login("account", {"AZURE_STORAGE_SERVICE_ENDPOINT": endpoint})


def test_the_reason_of_a_failed_login_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from azure.core.exceptions import ClientAuthenticationError

    class Login:
        def __init__(self, **_: bool) -> None:
            pass

        def get_token(self, *_: str, **__: object) -> None:
            raise ClientAuthenticationError("Failed.\n\tX: Authentication failed: AADSTS1.\nSee")

    monkeypatch.setattr("azure.identity.DefaultAzureCredential", Login)
    with pytest.raises(PermissionDenied, match=r"not accepted: AADSTS1\Z"):
        AzureStore("account", "container").get("k")


@pytest.mark.parametrize(
    ("failure", "error", "said"),
    [
        ("ClientAuthenticationError", PermissionDenied, "no credentials for Azure"),
        ("ServiceRequestError", Unreachable, "cannot reach Azure to log in"),
    ],
)
def test_a_failed_login_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch, failure: str, error: type[LakeError], said: str
) -> None:
    from azure.core import exceptions

    asked = []

    class Login:
        def __init__(self, **_: bool) -> None:
            pass

        def get_token(self, *_: str, **__: object) -> None:
            asked.append(failure)
            raise getattr(exceptions, failure)("of the tests")

    monkeypatch.setattr("azure.identity.DefaultAzureCredential", Login)
    with pytest.raises(error, match=said):
        AzureStore("account", "container").get("k")
    assert asked == [failure]

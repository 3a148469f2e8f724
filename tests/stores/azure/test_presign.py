"""Presigned URLs of Azure: the contract of all clouds, and what only this one does."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from lakecli.errors import PermissionDenied, Unsupported
from lakecli.stores.azure.store import AzureStore
from lakecli.stores.contract import ABSENT
from lakecli.stores.presigned_urls import PresignRequest, content_disposition
from tests.stores.azure.test_store import IMPOSSIBLE
from tests.stores.presign_contract import (
    GET,
    MINUTE,
    NOW,
    PUT,
    PresignContract,
    SignatureTable,
    clock,
    fetch,
)
from tests.support.azurite import (
    ACCOUNT,
    KEY,
    SecureServer,
    connection_string,
    new_container,
    token_for,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.stores.presigned_urls import PresignedUrl


@pytest.fixture
def store(azure_environment: pytest.MonkeyPatch, azurite: str) -> AzureStore:
    return AzureStore(ACCOUNT, new_container(azurite), "some/pre fix")


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> AzureStore:
    """A store at Azure; no test sends it a request."""
    monkeypatch.setenv("AZURE_STORAGE_KEY", KEY)
    return AzureStore("account", "container", "p")


@pytest.fixture
def make_stranger(
    store: AzureStore, azurite: str, azure_environment: pytest.MonkeyPatch
) -> Callable[[], AzureStore]:
    def make() -> AzureStore:
        text = connection_string(azurite, key="Z3Vlc3NlZA==")
        azure_environment.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
        return AzureStore(ACCOUNT, store.uri.split("/")[3], "some/pre fix")

    return make


@pytest.fixture
def answering(store: AzureStore) -> AzureStore:
    return store


@pytest.fixture
def without_credentials() -> None:
    """No test has credentials of Azure unless it asks for them."""


def tampered(signed: PresignedUrl) -> set[str]:
    url = signed.url
    (signature,) = parse_qs(urlsplit(url).query)["sig"]
    end = f"{signed.expires_at:%Y-%m-%dT%H%%3A%M%%3A%SZ}"
    later = f"{signed.expires_at + MINUTE:%Y-%m-%dT%H%%3A%M%%3A%SZ}"
    return {
        url.replace(quote(signature, safe=""), quote(signature.swapcase(), safe="")),
        url.replace(end, later),
        url.replace("sp=r", "sp=rw"),
        url.replace("/k?", "/other?"),
        url.partition("?")[0],
    }


def test_the_size_of_an_upload_cannot_be_limited(offline: AzureStore) -> None:
    with pytest.raises(Unsupported, match="cannot limit the size"):
        offline.presign("k", PUT._replace(max_size=10), now=NOW)


class TestAzurePresign(PresignContract):
    table = SignatureTable(
        uri="az://account/container/prefix",
        start="https://account.blob.core.windows.net/container/prefix/k%20%2B?",
        key_id="sig=",
        secrets=(KEY,),
        unimported=frozenset({"azure"}),
        tampered=tampered,
        refusal=b"",
        expired=frozenset({403}),
        expired_refusal=b"",
        put_headers={"x-ms-blob-type": "BlockBlob"},
        put_status=201,
        type_is_signed=False,
        impossible=frozenset(IMPOSSIBLE),
        of_encoded_text=("text/csv", "gzip"),
        lifetime=lambda signed, _: {
            "se": [f"{signed.expires_at:%Y-%m-%dT%H:%M:%SZ}"],
            "spr": ["https"],
        },
        credentials_hint="AZURE_STORAGE_CONNECTION_STRING",
    )


def test_an_upload_has_the_content_type_that_was_sent(store: AzureStore) -> None:
    request = PresignRequest("PUT", MINUTE, content_type="text/csv")
    signed = store.presign("incoming/x", request, now=clock())
    assert fetch(signed.url, data=b"a,b", method="PUT", headers=dict(signed.headers))[0] == 201
    assert store.head("incoming/x").content_type == "text/csv"


@pytest.mark.parametrize("method", ["GET", "PUT"])
@pytest.mark.parametrize("content_type", ["", "text/csv; charset=utf-8"])
def test_signatures_equal_those_of_the_sdk(
    offline: AzureStore, method: str, content_type: str
) -> None:
    from azure.storage.blob._shared_access_signature import BlobSharedAccessSignature

    asked = PresignRequest(
        method, MINUTE, content_type=content_type, file_name="ü;.csv", content_encoding="gzip"
    )
    signed = offline.presign("odd key/ü+%?&=#.csv", asked, now=NOW)
    sdk = BlobSharedAccessSignature("account", account_key=KEY)
    sdk.x_ms_version = "2022-11-02"  # otherwise it signs for its own version
    theirs = sdk.generate_blob(
        "container",
        "p/odd key/ü+%?&=#.csv",
        permission="r" if method == "GET" else "cw",
        expiry=signed.expires_at,
        protocol="https",
        content_type=content_type if method == "GET" else None,
        content_encoding="gzip" if method == "GET" else None,
        content_disposition=content_disposition("ü;.csv") if method == "GET" else None,
    )
    assert parse_qs(urlsplit(signed.url).query) == parse_qs(theirs)


def test_a_malformed_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_KEY", "guessed!")
    with pytest.raises(PermissionDenied, match="malformed") as raised:
        AzureStore("account", "container").presign("k", GET, now=NOW)
    assert "guessed" not in raised.value.message


# Without a key


@pytest.fixture
def login(
    azurite_https: SecureServer, monkeypatch: pytest.MonkeyPatch
) -> tuple[AzureStore, SecureServer]:
    """A store whose caller is logged in, and the server that gives keys to such callers."""

    class Login:
        def __init__(self, **_: bool) -> None:
            pass

        def get_token(self, *_: str, **__: object) -> object:
            end = clock() + timedelta(hours=1)
            return SimpleNamespace(token=token_for(), expires_on=int(end.timestamp()))

    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(azurite_https.certificate))
    container = new_container(azurite_https.url)
    monkeypatch.setattr("azure.identity.DefaultAzureCredential", Login)
    endpoint = f"{azurite_https.url}/{ACCOUNT}"
    monkeypatch.setenv("AZURE_STORAGE_SERVICE_ENDPOINT", endpoint)
    return AzureStore(ACCOUNT, container), azurite_https


def test_a_login_signs_with_a_delegated_key(login: tuple[AzureStore, SecureServer]) -> None:
    store, server = login
    store.put("k", b"the body", ABSENT)
    store.copy("k", "l")
    now = clock()
    asked = PresignRequest("GET", MINUTE, content_type="text/csv", file_name="a b.csv")
    signed = store.presign("k", asked, now=now)
    assert signed.expires_at == now.replace(microsecond=0) + MINUTE
    status, body, headers = fetch(signed.url, trusted=server.certificate)
    assert (status, body, headers["Content-Type"]) == (200, b"the body", "text/csv")
    assert "skoid=" in signed.url
    for tampered in (signed.url.replace("/k?", "/l?"), signed.url.replace("sp=r", "sp=rw")):
        assert fetch(tampered, trusted=server.certificate)[0] == 403
    expired = store.presign("k", GET, now=now - timedelta(minutes=30))
    assert fetch(expired.url, trusted=server.certificate)[0] == 403
    put = store.presign("incoming/x", PUT, now=now)
    sent = fetch(
        put.url, trusted=server.certificate, data=b"x", method="PUT", headers=dict(put.headers)
    )
    assert sent[0] == 201
    assert store.get("incoming/x") == b"x"


def test_urls_end_with_the_delegated_key(login: tuple[AzureStore, SecureServer]) -> None:
    store, _ = login
    now = clock()
    long = PresignRequest("GET", timedelta(days=30))
    signed = store.presign("k", long, now=now)
    query = parse_qs(urlsplit(signed.url).query)
    assert query["se"] == query["ske"] == [f"{signed.expires_at:%Y-%m-%dT%H:%M:%SZ}"]
    assert timedelta(days=6, hours=23) < signed.expires_at - now < timedelta(days=7)
    # One key serves many URLs.
    again = store.presign("l", GET, now=now + timedelta(seconds=5))
    assert parse_qs(urlsplit(again.url).query)["ske"] == query["ske"]
    later = store.presign("k", long, now=now + timedelta(days=1))
    assert later.expires_at > signed.expires_at + timedelta(hours=23)


def test_a_sas_token_cannot_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2025&sig=secret")
    with pytest.raises(Unsupported, match="a SAS token and no key") as raised:
        AzureStore("account", "container").presign("k", GET, now=NOW)
    assert "secret" not in raised.value.message
    assert "AZURE_STORAGE_KEY" in str(raised.value.hint)

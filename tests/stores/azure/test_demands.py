"""What Azure's containers demand of requests: an encryption scope, no credentials."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import BytesIO
from urllib.parse import parse_qs, urlsplit

import pytest
from azure.storage.blob import generate_blob_sas
from google_crc32c import value as crc32c

from lakecli.base.model import Demand
from lakecli.errors import PermissionDenied, Unsupported
from lakecli.stores.azure.credentials import AzureLogin, without_login
from lakecli.stores.azure.store import AzureStore
from lakecli.stores.capabilities import PART_SIZE, access_of
from lakecli.stores.contract import ABSENT, ANY, Attributes, Match
from lakecli.stores.presigned_urls import PresignRequest
from tests.support.azurite import ACCOUNT, KEY, connection_string, new_container
from tests.support.proxies import Forwarded, forwarding
from tests.support.servers import Answer, StubServer, demanding

HOUR = timedelta(hours=1)


def without_scope(request: Forwarded) -> str:
    """Refuse what writes contents and names no scope, and copies, which cannot name one."""
    query = parse_qs(urlsplit(request.path).query)
    if "x-ms-copy-source" in request.headers:
        return "a copy"
    comp = query.get("comp", [""])[0]
    if request.method != "PUT" or comp not in {"", "block", "blocklist"}:
        return ""
    said = request.headers.get("x-ms-encryption-scope") or query.get("ses", [""])[0]
    return "" if said == "lake-scope" else "no scope"


def test_each_way_of_writing_names_the_scope(
    azure_environment: pytest.MonkeyPatch, azurite: str
) -> None:
    container = new_container(azurite)
    with forwarding(azurite, refuse=without_scope) as url:
        azure_environment.setenv("AZURE_STORAGE_CONNECTION_STRING", connection_string(url))
        store = AzureStore(ACCOUNT, container, "", demanding((Demand.AZ_SCOPE, "lake-scope")))
        large = b"x" * (PART_SIZE + 1)
        assert store.put_new("new", b"1")
        version = store.put("small", b"2", ABSENT, Attributes("text/csv", {"a": "b"}))
        store.put("small", b"3", Match(version), Attributes("text/csv", {"a": "b"}, "gzip"))
        store.put("stream", BytesIO(large), ANY)
        uploads = store.uploads()
        upload = uploads.start("parts")
        part = uploads.put_part("parts", upload, 1, b"5", crc32c=crc32c(b"5"))
        uploads.complete("parts", upload, [part])
        store.copy("small", "copied")
        copied = store.head("copied")
        assert (copied.content_type, dict(copied.metadata)) == ("text/csv", {"a": "b"})
        assert copied.content_encoding == "gzip"
        assert not store.copy_from(store, "small", "elsewhere", Attributes())
        store.renew("small")
        assert store.get("copied") + store.get("parts") == b"35"
        with pytest.raises(PermissionDenied, match="no scope"):
            AzureStore(ACCOUNT, container).put("k", b"", ANY)


def test_a_url_for_an_upload_names_the_scope_as_the_sdk_signs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Azurite refuses URLs with a scope."""
    monkeypatch.setattr("azure.storage.blob._shared_access_signature.X_MS_VERSION", "2022-11-02")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection_string("http://h"))
    now = datetime(2026, 1, 1, tzinfo=UTC)
    store = AzureStore(ACCOUNT, "container", "", demanding((Demand.AZ_SCOPE, "lake-scope")))
    query = parse_qs(urlsplit(store.presign("k", PresignRequest("PUT", HOUR), now=now).url).query)
    theirs = generate_blob_sas(
        ACCOUNT,
        "container",
        "k",
        account_key=KEY,
        permission="cw",
        expiry=now + HOUR,
        encryption_scope="lake-scope",
    )
    assert query == parse_qs(theirs)
    assert query["ses"] == ["lake-scope"]
    reading = store.presign("k", PresignRequest("GET", HOUR), now=now).url
    assert "ses=" not in reading


def test_a_public_container_is_read_without_credentials(
    azure_environment: pytest.MonkeyPatch, azurite: str
) -> None:
    container = new_container(azurite)
    owner = AzureStore(ACCOUNT, container)
    owner.put("k", b"old", ANY)
    owner.sdk()._container.set_container_access_policy({}, public_access="container")

    def refuse(request: Forwarded) -> str:
        return "signed" if "authorization" in request.headers or "sig=" in request.path else ""

    with forwarding(azurite, refuse=refuse) as url:
        azure_environment.setenv("AZURE_STORAGE_CONNECTION_STRING", connection_string(url))
        store = AzureStore(ACCOUNT, container, "", demanding((Demand.AZ_ANONYMOUS, "true")))
        assert [info.key for info in store.list()] == ["k"]
        assert store.get("k") == store.open("k").read() == b"old"
        access = access_of(store)
        assert access is not None
        assert (access.kind, access.source) == ("no credentials", "az.anonymous")
        for write in (
            lambda: store.put("k", b"", ANY),
            lambda: store.delete(["k"]),
            lambda: store.copy("k", "new"),
            lambda: store.renew("k"),
            lambda: store.uploads().start("k"),
        ):
            with pytest.raises(
                PermissionDenied, match="read without credentials, nothing"
            ) as error:
                write()
            assert "az.anonymous" in (error.value.hint or "")
        with pytest.raises(Unsupported, match="cannot presign") as refusal:
            store.presign("k", PresignRequest("GET", HOUR), now=datetime(2026, 1, 1, tzinfo=UTC))
        assert f"{url}/{ACCOUNT}/{container}/k" in (refusal.value.hint or "")


def test_variables_of_another_account_do_not_count() -> None:
    variables = {"AZURE_STORAGE_CONNECTION_STRING": connection_string("https://h", account="mine")}
    theirs = AzureLogin("theirs", "https://theirs.blob.core.windows.net", is_anonymous=True)
    assert without_login("theirs", variables) == theirs
    mine = AzureLogin("mine", "https://h/mine", is_anonymous=True)
    assert without_login("mine", variables) == mine


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (409, "BlobUsesCustomerSpecifiedEncryption"),
        (403, "RequestForbiddenByContainerEncryptionPolicy"),
    ],
)
def test_a_demand_of_azure_names_its_setting(
    monkeypatch: pytest.MonkeyPatch, status: int, code: str
) -> None:
    body = f"<Error><Code>{code}</Code><Message>about the scope</Message></Error>".encode()
    with StubServer(Answer(status, body, {"x-ms-error-code": code})) as server:
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection_string(server.url))
        with pytest.raises(PermissionDenied) as error:
            AzureStore(ACCOUNT, "container").put("k", b"", ANY)
    hint = f"add az://{ACCOUNT}/container=SCOPE"
    assert hint in (error.value.hint or "")

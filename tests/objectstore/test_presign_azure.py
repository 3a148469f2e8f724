"""Presigned URLs for Azure, against a server that checks them."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from lakecli.errors import PermissionDenied, Unsupported, UsageError
from lakecli.objectstore.azure.store import AzureStore
from lakecli.objectstore.base import ABSENT, ANY, PresignRequest
from lakecli.objectstore.presigning import content_disposition
from tests.objectstore.contract import ODD_NAMES
from tests.objectstore.test_azure import IMPOSSIBLE
from tests.support.azurite import (
    ACCOUNT,
    KEY,
    SecureServer,
    connection_string,
    new_container,
    token_for,
)

if TYPE_CHECKING:
    from email.message import Message
    from pathlib import Path

NOW = datetime(2030, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
GET = PresignRequest("GET", MINUTE)
PUT = PresignRequest("PUT", MINUTE)


def fetch(
    url: str, *, trusted: Path | None = None, **options: object
) -> tuple[int, bytes, Message]:
    request = urllib.request.Request(url, **options)  # type: ignore[arg-type]
    context = ssl.create_default_context(cafile=str(trusted)) if trusted else None
    try:
        with urllib.request.urlopen(request, timeout=20, context=context) as answer:
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), error.headers


def clock() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - the server has a clock of its own


@pytest.fixture
def store(azure_environment: pytest.MonkeyPatch, azurite: str) -> AzureStore:
    return AzureStore(ACCOUNT, new_container(azurite), "some/pre fix")


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> AzureStore:
    """A store at Azure that nothing is ever asked of."""
    monkeypatch.setenv("AZURE_STORAGE_KEY", KEY)
    return AzureStore("account", "container", "p")


# A server believes them


def test_a_url_works_with_urllib_and_with_curl(store: AzureStore, tmp_path: Path) -> None:
    store.put("data/k", b"the body", ANY)
    signed = store.presign("data/k", GET, now=clock())
    assert fetch(signed.url)[:2] == (200, b"the body")
    assert fetch(signed.url, headers={"Range": "bytes=4-"})[:2] == (206, b"body")
    curl = shutil.which("curl")
    assert curl is not None, "these tests need curl"
    target = tmp_path / "out"
    subprocess.run([curl, "-sSf", "-o", str(target), signed.url], check=True, timeout=60)
    assert target.read_bytes() == b"the body"


def test_odd_keys_are_signed(store: AzureStore) -> None:
    for name in (*ODD_NAMES, "~tilde-and.dots_", "a//b", "new\nline"):
        if name in IMPOSSIBLE:
            continue
        store.put(f"odd/{name}", name.encode(), ANY)
        signed = store.presign(f"odd/{name}", GET, now=clock())
        assert fetch(signed.url)[:2] == (200, name.encode()), name


def test_what_was_not_signed_is_refused(store: AzureStore) -> None:
    store.put("k", b"the body", ANY)
    store.put("other", b"another body", ANY)
    signed = store.presign("k", GET, now=clock())
    url = signed.url
    later = f"{signed.expires_at + MINUTE:%Y-%m-%dT%H%%3A%M%%3A%SZ}"
    query = parse_qs(urlsplit(url).query)
    tampered = {
        url.replace(
            f"sig={query['sig'][0][0]}", f"sig={'B' if query['sig'][0][0] == 'A' else 'A'}"
        ),
        url.replace(f"{signed.expires_at:%Y-%m-%dT%H%%3A%M%%3A%SZ}", later),
        url.replace("sp=r", "sp=rw"),
        url.replace("/k?", "/other?"),
        url.partition("?")[0],
    }
    assert url not in tampered
    assert len(tampered) == 5
    for other in tampered:
        status, body, _ = fetch(other)
        assert status == 403
        assert b"body" not in body
    headers = {"x-ms-blob-type": "BlockBlob"}
    assert fetch(url, data=b"x", method="PUT", headers=headers)[0] == 403
    assert store.get("k") == b"the body"


def test_an_expired_url_is_refused(store: AzureStore) -> None:
    store.put("k", b"the body", ANY)
    past = clock() - timedelta(hours=1)
    signed = store.presign("k", GET, now=past)
    assert signed.expires_at < clock()
    status, body, _ = fetch(signed.url)
    assert (status, b"the body" in body) == (403, False)


def test_other_keys_are_refused(
    store: AzureStore, azurite: str, azure_environment: pytest.MonkeyPatch
) -> None:
    store.put("k", b"the body", ANY)
    text = connection_string(azurite, key="Z3Vlc3NlZA==")
    azure_environment.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    stranger = AzureStore(ACCOUNT, store.uri.split("/")[3], "some/pre fix")
    assert fetch(stranger.presign("k", GET, now=clock()).url)[0] == 403


def test_a_put_url_takes_a_body(store: AzureStore) -> None:
    signed = store.presign("incoming/x", PUT, now=clock())
    assert signed.headers == {"x-ms-blob-type": "BlockBlob"}
    headers = dict(signed.headers) | {"Content-Type": "application/octet-stream"}
    assert fetch(signed.url, data=b"from a partner", method="PUT", headers=headers)[0] == 201
    assert store.get("incoming/x") == b"from a partner"
    assert fetch(signed.url)[0] == 403


def test_a_put_url_tells_the_type(store: AzureStore) -> None:
    asked = PresignRequest("PUT", MINUTE, content_type="text/csv")
    signed = store.presign("incoming/x", asked, now=clock())
    assert signed.headers == {"x-ms-blob-type": "BlockBlob", "Content-Type": "text/csv"}
    assert fetch(signed.url, data=b"a,b", method="PUT", headers=dict(signed.headers))[0] == 201
    assert store.head("incoming/x").content_type == "text/csv"


def test_the_answer_has_the_type_and_name_that_were_signed(store: AzureStore) -> None:
    store.put("k", b"a,b", ABSENT)
    asked = PresignRequest(
        "GET", MINUTE, content_type="text/csv; charset=utf-8", file_name="Übersicht 1.csv"
    )
    url = store.presign("k", asked, now=clock()).url
    status, body, headers = fetch(url)
    assert (status, body) == (200, b"a,b")
    assert headers["Content-Type"] == "text/csv; charset=utf-8"
    assert headers["Content-Disposition"] == content_disposition("Übersicht 1.csv")
    assert (
        fetch(url.replace("text/csv", "text/html").replace("text%2Fcsv", "text%2Fhtml"))[0] == 403
    )


# When they end


@pytest.mark.parametrize(
    ("asked", "lives"),
    [
        (timedelta(seconds=90, microseconds=999_999), timedelta(seconds=90)),
        (timedelta(days=7), timedelta(days=7)),
        (timedelta(days=8), timedelta(days=7)),
    ],
)
def test_urls_end_as_asked_or_after_seven_days(
    offline: AzureStore, asked: timedelta, lives: timedelta
) -> None:
    signed = offline.presign("k", PresignRequest("GET", asked), now=NOW)
    assert signed.expires_at == NOW.replace(microsecond=0) + lives
    query = parse_qs(urlsplit(signed.url).query)
    assert query["se"] == [f"{signed.expires_at:%Y-%m-%dT%H:%M:%SZ}"]
    assert query["spr"] == ["https"]


@pytest.mark.parametrize(
    "request_", [PresignRequest("DELETE", MINUTE), PresignRequest("GET", timedelta(0))]
)
def test_malformed_requests_are_refused(offline: AzureStore, request_: PresignRequest) -> None:
    with pytest.raises(UsageError):
        offline.presign("k", request_, now=NOW)


# Nobody is asked


@pytest.mark.parametrize("method", ["GET", "PUT"])
@pytest.mark.parametrize("content_type", ["", "text/csv; charset=utf-8"])
def test_signatures_are_the_sdks_own(offline: AzureStore, method: str, content_type: str) -> None:
    from azure.storage.blob._shared_access_signature import BlobSharedAccessSignature

    asked = PresignRequest(method, MINUTE, content_type=content_type, file_name="ü;.csv")
    signed = offline.presign("odd key/ü+%?&=#.csv", asked, now=NOW)
    sdk = BlobSharedAccessSignature("account", account_key=KEY)
    sdk.x_ms_version = "2022-11-02"  # it signs for its own version otherwise
    theirs = sdk.generate_blob(
        "container",
        "p/odd key/ü+%?&=#.csv",
        permission="r" if method == "GET" else "cw",
        expiry=signed.expires_at,
        protocol="https",
        content_type=content_type if method == "GET" else None,
        content_disposition=content_disposition("ü;.csv") if method == "GET" else None,
    )
    assert parse_qs(urlsplit(signed.url).query) == parse_qs(theirs)


def test_a_key_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_KEY", "guessed!")
    with pytest.raises(PermissionDenied, match="malformed") as raised:
        AzureStore("account", "container").presign("k", GET, now=NOW)
    assert "guessed" not in raised.value.message


OFFLINE = """
import json, sys
touched = []
def watch(event, arguments):
    # An HTTP library binds a socket when it is imported, to see whether there is IPv6.
    if event.startswith("socket.") and event not in ("socket.__new__", "socket.bind"):
        touched.append(event)
sys.addaudithook(watch)
from datetime import UTC, datetime, timedelta
from lakecli.objectstore.base import PresignRequest
from lakecli.objectstore.registry import open_store
store = open_store("az://account/container/prefix")
request = PresignRequest("GET", timedelta(minutes=5))
signed = store.presign("k +", request, now=datetime(2030, 1, 1, tzinfo=UTC))
print(json.dumps([touched, sorted(sys.modules), signed.url]))
"""


@pytest.mark.usefixtures("offline")
def test_signing_with_a_key_asks_nobody() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE], check=True, capture_output=True, text=True, timeout=60
    )
    touched, modules, url = json.loads(done.stdout)
    assert touched == []
    assert "azure" not in modules
    assert url.startswith("https://account.blob.core.windows.net/container/prefix/k%20%2B?")
    assert KEY not in url


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


def test_a_signature_signs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2025&sig=secret")
    with pytest.raises(Unsupported, match="a signature and no key") as raised:
        AzureStore("account", "container").presign("k", GET, now=NOW)
    assert "secret" not in raised.value.message
    assert "AZURE_STORAGE_KEY" in str(raised.value.hint)


def test_without_credentials_the_error_says_what_to_set() -> None:
    with pytest.raises(PermissionDenied, match="no credentials") as raised:
        AzureStore("account", "container").presign("k", GET, now=NOW)
    assert "AZURE_STORAGE_CONNECTION_STRING" in str(raised.value.hint)

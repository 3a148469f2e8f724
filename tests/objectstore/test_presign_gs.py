"""Presigned URLs for Google Cloud Storage, against a server that checks them."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from lakecli.errors import PermissionDenied, Unreachable, Unsupported, UsageError
from lakecli.objectstore.base import ABSENT, ANY, PresignRequest
from lakecli.objectstore.gs.store import GsStore
from lakecli.objectstore.presigning import content_disposition
from tests.objectstore.contract import ODD_NAMES
from tests.support.gcs import ACCOUNT, GcsServer, new_gcs_bucket, write_key
from tests.support.servers import Answer, StubServer

if TYPE_CHECKING:
    from email.message import Message

NOW = datetime(2030, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
GET = PresignRequest("GET", MINUTE)


def fetch(url: str, **options: object) -> tuple[int, bytes, Message]:
    request = urllib.request.Request(url, **options)  # type: ignore[arg-type]
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), error.headers


def clock() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - the server has a clock of its own


@pytest.fixture
def store(gcs_environment: pytest.MonkeyPatch, gcs_server: GcsServer) -> GsStore:
    return GsStore(new_gcs_bucket(gcs_server), "some/pre fix")


@pytest.fixture
def offline(gcs_environment: pytest.MonkeyPatch) -> GsStore:
    """A store at Google that nothing is ever asked of."""
    gcs_environment.delenv("STORAGE_EMULATOR_HOST")
    return GsStore("bucket", "p")


# A server believes them


def test_a_url_works_with_urllib_and_with_curl(store: GsStore, tmp_path: Path) -> None:
    store.put("data/k", b"the body", ANY)
    signed = store.presign("data/k", GET, now=clock())
    assert fetch(signed.url)[:2] == (200, b"the body")
    assert fetch(signed.url, headers={"Range": "bytes=4-"})[:2] == (206, b"body")
    curl = shutil.which("curl")
    assert curl is not None, "these tests need curl"
    target = tmp_path / "out"
    subprocess.run([curl, "-sSf", "-o", str(target), signed.url], check=True, timeout=60)
    assert target.read_bytes() == b"the body"


def test_odd_keys_are_signed(store: GsStore) -> None:
    for name in (*ODD_NAMES, "~tilde-and.dots_", "a//b"):
        store.put(f"odd/{name}", name.encode(), ANY)
        signed = store.presign(f"odd/{name}", GET, now=clock())
        assert fetch(signed.url)[:2] == (200, name.encode()), name


def test_what_was_not_signed_is_refused(store: GsStore) -> None:
    store.put("k", b"the body", ANY)
    store.put("other", b"another body", ANY)
    url = store.presign("k", GET, now=clock()).url
    flipped = url[:-1] + ("0" if url[-1] != "0" else "1")
    longer = url.replace("X-Goog-Expires=60", "X-Goog-Expires=6000")
    other = url.replace("/k?", "/other?")
    assert len({url, flipped, longer, other}) == 4
    for tampered in (flipped, longer, other):
        status, body, _ = fetch(tampered)
        assert status == 403
        assert b"SignatureDoesNotMatch" in body
    assert fetch(url.partition("?")[0])[0] == 403
    assert fetch(url, data=b"x", method="PUT")[0] == 403
    assert store.get("k") == b"the body"


def test_an_expired_url_is_refused(store: GsStore) -> None:
    store.put("k", b"the body", ANY)
    past = clock() - timedelta(hours=1)
    signed = store.presign("k", GET, now=past)
    assert signed.expires_at < clock()
    status, body, _ = fetch(signed.url)
    assert (status, b"ExpiredToken" in body) == (400, True)


def test_other_keys_are_refused(
    store: GsStore, gcs_environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store.put("k", b"the body", ANY)
    gcs_environment.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(write_key(tmp_path)[0]))
    stranger = GsStore(store.uri.split("/")[2], "some/pre fix")
    assert fetch(stranger.presign("k", GET, now=clock()).url)[0] == 403


def test_a_put_url_takes_a_body(store: GsStore) -> None:
    signed = store.presign("incoming/x", PresignRequest("PUT", MINUTE), now=clock())
    assert signed.headers == {}
    headers = {"Content-Type": "application/octet-stream"}
    assert fetch(signed.url, data=b"from a partner", method="PUT", headers=headers)[0] == 200
    assert store.get("incoming/x") == b"from a partner"
    assert fetch(signed.url)[0] == 403


def test_a_put_url_may_ask_for_a_type(store: GsStore) -> None:
    asked = PresignRequest("PUT", MINUTE, content_type="text/csv")
    signed = store.presign("incoming/x", asked, now=clock())
    assert signed.headers == {"Content-Type": "text/csv"}
    other = {"Content-Type": "text/html"}
    assert fetch(signed.url, data=b"a,b", method="PUT", headers=other)[0] == 403
    assert fetch(signed.url, data=b"a,b", method="PUT", headers=dict(signed.headers))[0] == 200
    assert store.head("incoming/x").content_type == "text/csv"


def test_the_answer_has_the_type_and_name_that_were_signed(store: GsStore) -> None:
    store.put("k", b"a,b", ABSENT)
    asked = PresignRequest(
        "GET", MINUTE, content_type="text/csv; charset=utf-8", file_name="Übersicht 1.csv"
    )
    url = store.presign("k", asked, now=clock()).url
    status, body, headers = fetch(url)
    assert (status, body) == (200, b"a,b")
    assert headers["Content-Type"] == "text/csv; charset=utf-8"
    assert headers["Content-Disposition"] == content_disposition("Übersicht 1.csv")
    assert fetch(url.replace("text%2Fcsv", "text%2Fhtml"))[0] == 403


# When they end


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        (timedelta(seconds=90, microseconds=999_999), 90),
        (timedelta(days=7), 604_800),
        (timedelta(days=8), 604_800),
    ],
)
def test_urls_end_as_asked_or_after_seven_days(
    offline: GsStore, asked: timedelta, seconds: int
) -> None:
    signed = offline.presign("k", PresignRequest("GET", asked), now=NOW)
    assert signed.expires_at == NOW.replace(microsecond=0) + timedelta(seconds=seconds)
    query = parse_qs(urlsplit(signed.url).query)
    assert query["X-Goog-Expires"] == [str(seconds)]
    assert query["X-Goog-Date"] == ["20300506T070809Z"]


@pytest.mark.parametrize(
    "request_", [PresignRequest("DELETE", MINUTE), PresignRequest("GET", timedelta(0))]
)
def test_malformed_requests_are_refused(offline: GsStore, request_: PresignRequest) -> None:
    with pytest.raises(UsageError):
        offline.presign("k", request_, now=NOW)


# Where they point, and that nobody is asked


@pytest.mark.parametrize("method", ["GET", "PUT"])
@pytest.mark.parametrize("content_type", ["", "text/csv; charset=utf-8"])
def test_signatures_are_the_sdks_own(offline: GsStore, method: str, content_type: str) -> None:
    from google.cloud.storage._signing import generate_signed_url_v4
    from google.oauth2.service_account import Credentials

    asked = PresignRequest(method, MINUTE, content_type=content_type, file_name="ü;.csv")
    ours = offline.presign("odd key/ü+%?&=#.csv", asked, now=NOW)
    info = json.loads(key_file().read_text())
    credentials = Credentials.from_service_account_info(info)  # type: ignore[no-untyped-call]
    theirs = generate_signed_url_v4(
        credentials,
        resource="/bucket/p/odd%20key/%C3%BC%2B%25%3F%26%3D%23.csv",
        expiration=60,
        api_access_endpoint="https://storage.googleapis.com",
        method=method,
        content_type=content_type or None if method == "PUT" else None,
        response_type=content_type or None if method == "GET" else None,
        response_disposition=content_disposition("ü;.csv") if method == "GET" else None,
        _request_timestamp="20300506T070809Z",
    )
    assert ours.url == theirs


def key_file() -> Path:
    import os

    return Path(os.environ["GOOGLE_APPLICATION_CREDENTIALS"])


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
store = open_store("gs://bucket/prefix")
request = PresignRequest("GET", timedelta(minutes=5))
signed = store.presign("k", request, now=datetime(2030, 1, 1, tzinfo=UTC))
print(json.dumps([touched, sorted(sys.modules), signed.url]))
"""


@pytest.mark.usefixtures("offline")
def test_signing_with_a_key_asks_nobody() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE], check=True, capture_output=True, text=True, timeout=60
    )
    touched, modules, url = json.loads(done.stdout)
    assert touched == []
    assert "google.cloud.storage" not in modules
    assert url.startswith("https://storage.googleapis.com/bucket/prefix/k?X-Goog-Algorithm=")
    assert ACCOUNT.replace("@", "%40") in url


# Without a key


@pytest.fixture
def iam(gcs_environment: pytest.MonkeyPatch, tmp_path: Path) -> StubServer:
    """Google's token service and IAM, and a login that goes through both of them."""
    server = StubServer(Answer())
    (tmp_path / "token").write_text("token of a workload")
    login = {
        "type": "external_account",
        "audience": "//iam.googleapis.com/of/the/tests",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"{server.url}/sts",
        "service_account_impersonation_url": f"{server.url}/v1/{ACCOUNT}:generateAccessToken",
        "credential_source": {"file": str(tmp_path / "token")},
    }
    file = tmp_path / "login.json"
    file.write_text(json.dumps(login))
    gcs_environment.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    gcs_environment.delenv("STORAGE_EMULATOR_HOST")
    gcs_environment.setattr(
        "google.auth.iam._IAM_SIGN_ENDPOINT", f"{server.url}/v1/serviceAccounts/{{}}:signBlob"
    )
    return server


def said(**body: object) -> Answer:
    return Answer(body=json.dumps(body).encode(), headers={"Content-Type": "application/json"})


TOKEN = said(access_token="t", issued_token_type="x", token_type="Bearer", expires_in=3_600)
IMPERSONATED = said(accessToken="i", expireTime="2099-01-01T00:00:00Z")


def test_iam_signs_for_those_without_a_key(iam: StubServer) -> None:
    iam.answers = [TOKEN, IMPERSONATED, said(signedBlob=base64.b64encode(b"\xab\xcd").decode())]
    with iam:
        day = PresignRequest("GET", timedelta(days=1))
        signed = GsStore("bucket", "p").presign("k", day, now=NOW)
    assert signed.url.endswith("&X-Goog-Signature=abcd")
    # Google promises to keep a key that it signs with for that long.
    assert signed.expires_at == NOW.replace(microsecond=0) + timedelta(hours=12)
    assert f"serviceAccounts/{ACCOUNT}:signBlob" in iam.requests[-1].path
    text = base64.b64decode(json.loads(iam.requests[-1].body)["payload"]).decode()
    assert text.startswith(
        "GOOG4-RSA-SHA256\n20300506T070809Z\n20300506/auto/storage/goog4_request"
    )


def test_iam_may_refuse(iam: StubServer) -> None:
    refusal = Answer(403, b'{"error": {"message": "iam.serviceAccounts.signBlob denied"}}')
    iam.answers = [TOKEN, IMPERSONATED, refusal]
    with iam, pytest.raises(PermissionDenied, match="IAM refused") as raised:
        GsStore("bucket").presign("k", GET, now=NOW)
    assert "roles/iam.serviceAccountTokenCreator" in str(raised.value.hint)


def test_iam_may_not_answer(iam: StubServer) -> None:
    with iam:
        pass  # nobody listens any more
    with pytest.raises(Unreachable, match="cannot reach Google"):
        GsStore("bucket").presign("k", GET, now=NOW)


def test_users_sign_nothing(gcs_environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "user.json"
    login = {
        "type": "authorized_user",
        "client_id": "c",
        "client_secret": "s",
        "refresh_token": "r",
    }
    file.write_text(json.dumps(login))
    gcs_environment.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    with pytest.raises(Unsupported, match="not those of a service account") as raised:
        GsStore("bucket").presign("k", GET, now=NOW)
    assert "--impersonate-service-account" in str(raised.value.hint)


def test_without_credentials_the_error_says_what_to_set(
    gcs_environment: pytest.MonkeyPatch,
) -> None:
    gcs_environment.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    with pytest.raises(PermissionDenied, match="no credentials") as raised:
        GsStore("bucket").presign("k", GET, now=NOW)
    assert "GOOGLE_APPLICATION_CREDENTIALS" in str(raised.value.hint)

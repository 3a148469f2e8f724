"""Presigned URLs of Google: the contract of all clouds, and what only this one does."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakecli.errors import PermissionDenied, Unreachable, Unsupported
from lakecli.stores.contract import ANY
from lakecli.stores.gs.store import GsStore
from lakecli.stores.presigned_urls import PresignRequest, content_disposition
from tests.stores.presign_contract import (
    GET,
    MINUTE,
    NOW,
    PresignContract,
    SignatureTable,
    clock,
    fetch,
)
from tests.support.gcs import ACCOUNT, GcsServer, new_gcs_bucket, write_key
from tests.support.servers import Answer, StubServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.stores.presigned_urls import PresignedUrl


@pytest.fixture
def store(gcs_environment: pytest.MonkeyPatch, gcs_server: GcsServer) -> GsStore:
    return GsStore(new_gcs_bucket(gcs_server), "some/pre fix")


@pytest.fixture
def offline(gcs_environment: pytest.MonkeyPatch) -> GsStore:
    """A store at Google; no test sends it a request."""
    gcs_environment.delenv("STORAGE_EMULATOR_HOST")
    return GsStore("bucket", "p")


@pytest.fixture
def make_stranger(
    store: GsStore, gcs_environment: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[], GsStore]:
    def make() -> GsStore:
        gcs_environment.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(write_key(tmp_path)[0]))
        return GsStore(store.uri.split("/")[2], "some/pre fix")

    return make


@pytest.fixture
def answering(store: GsStore) -> GsStore:
    return store


@pytest.fixture
def without_credentials(gcs_environment: pytest.MonkeyPatch) -> None:
    gcs_environment.delenv("GOOGLE_APPLICATION_CREDENTIALS")


def tampered(signed: PresignedUrl) -> set[str]:
    url = signed.url
    return {
        url[:-1] + ("0" if url[-1] != "0" else "1"),
        url.replace("X-Goog-Expires=60", "X-Goog-Expires=6000"),
        url.replace("/k?", "/other?"),
    }


class TestGsPresign(PresignContract):
    table = SignatureTable(
        uri="gs://bucket/prefix",
        start="https://storage.googleapis.com/bucket/prefix/k%20%2B?X-Goog-Algorithm=",
        key_id=ACCOUNT.replace("@", "%40"),
        secrets=("PRIVATE",),
        unimported=frozenset({"google.cloud.storage", "google.auth"}),
        tampered=tampered,
        refusal=b"SignatureDoesNotMatch",
        expired=frozenset({400}),
        expired_refusal=b"ExpiredToken",
        put_headers={"x-goog-content-length-range": f"0,{5 << 30}"},
        put_status=200,
        type_is_signed=True,
        impossible=frozenset({"new\nline"}),
        of_encoded_text=("application/gzip", None),  # Google cannot send another encoding
        lifetime=lambda _, granted: {
            "X-Goog-Expires": [f"{granted.total_seconds():.0f}"],
            "X-Goog-Date": ["20300506T070809Z"],
        },
        credentials_hint="GOOGLE_APPLICATION_CREDENTIALS",
    )


def test_an_upload_has_a_limit_of_size(store: GsStore) -> None:
    signed = store.presign("k", PresignRequest("PUT", MINUTE, max_size=10), now=clock())
    headers = dict(signed.headers)
    assert headers == {"x-goog-content-length-range": "0,10"}
    assert fetch(signed.url, data=b"x" * 11, method="PUT", headers=headers)[0] == 400
    for other in ({}, {"x-goog-content-length-range": "0,11"}):
        assert fetch(signed.url, data=b"x" * 11, method="PUT", headers=other)[0] == 403
    assert fetch(signed.url, data=b"x" * 10, method="PUT", headers=headers)[0] == 200
    assert store.head("k").size == 10


def test_an_unsigned_url_is_refused(store: GsStore) -> None:
    store.put("k", b"the body", ANY)
    assert fetch(store.presign("k", GET, now=clock()).url.partition("?")[0])[0] == 403


@pytest.mark.parametrize("method", ["GET", "PUT"])
@pytest.mark.parametrize("content_type", ["", "text/csv; charset=utf-8"])
def test_signatures_equal_those_of_the_sdk(
    offline: GsStore, method: str, content_type: str
) -> None:
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
        headers=dict(ours.headers) if method == "PUT" else None,
        response_type=content_type or None if method == "GET" else None,
        response_disposition=content_disposition("ü;.csv") if method == "GET" else None,
        _request_timestamp="20300506T070809Z",
    )
    assert ours.url == theirs


def key_file() -> Path:
    import os

    return Path(os.environ["GOOGLE_APPLICATION_CREDENTIALS"])


def test_a_key_of_another_universe_signs_for_its_server(
    gcs_environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    info = json.loads(key_file().read_text()) | {"universe_domain": "cloud.example"}
    (tmp_path / "key.json").write_text(json.dumps(info))
    gcs_environment.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    gcs_environment.delenv("STORAGE_EMULATOR_HOST")
    signed = GsStore("bucket", "p").presign("k", GET, now=NOW)
    assert signed.url.startswith("https://storage.cloud.example/bucket/p/k?")
    assert signed.unsigned is None


@pytest.mark.parametrize(
    "changed",
    [
        {"private_key": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"},
        {"private_key": "none"},
        {"token_uri": None},
        {"universe_domain": 5, "private_key": ""},
    ],
)
def test_a_damaged_key_is_refused(
    gcs_environment: pytest.MonkeyPatch, tmp_path: Path, changed: dict[str, object]
) -> None:
    info = json.loads(key_file().read_text()) | changed
    info = {name: value for name, value in info.items() if value is not None}
    (tmp_path / "key.json").write_text(json.dumps(info))
    gcs_environment.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    with pytest.raises(PermissionDenied) as raised:
        GsStore("bucket").presign("k", GET, now=NOW)
    assert raised.value.hint
    assert "AAAA" not in str(raised.value)


def test_a_signature_can_be_left_to_the_caller(offline: GsStore) -> None:
    unsigned = offline.presign("k", GET._replace(may_be_unsigned=True), now=NOW)
    assert unsigned.url.endswith("&X-Goog-Signature=")
    assert unsigned.unsigned is not None
    sign, text = unsigned.unsigned
    assert unsigned.signed(sign(text)) == offline.presign("k", GET, now=NOW)
    assert "PRIVATE" not in repr(unsigned)


# Without a key


@pytest.fixture
def iam(gcs_environment: pytest.MonkeyPatch, tmp_path: Path) -> StubServer:
    """Google's token service and IAM, and a login that uses both."""
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


def test_iam_signs_without_a_local_key(iam: StubServer) -> None:
    iam.answers = [TOKEN, IMPERSONATED, said(signedBlob=base64.b64encode(b"\xab\xcd").decode())]
    with iam:
        day = PresignRequest("GET", timedelta(days=1))
        signed = GsStore("bucket", "p").presign("k", day, now=NOW)
    assert signed.url.endswith("&X-Goog-Signature=abcd")
    # Google keeps its signing keys for twelve hours.
    assert signed.expires_at == NOW.replace(microsecond=0) + timedelta(hours=12)
    assert f"serviceAccounts/{ACCOUNT}:signBlob" in iam.requests[-1].path
    text = base64.b64decode(json.loads(iam.requests[-1].body)["payload"]).decode()
    assert text.startswith(
        "GOOG4-RSA-SHA256\n20300506T070809Z\n20300506/auto/storage/goog4_request"
    )


def test_a_refusal_of_iam_is_reported(iam: StubServer) -> None:
    refusal = Answer(403, b'{"error": {"message": "iam.serviceAccounts.signBlob denied"}}')
    iam.answers = [TOKEN, IMPERSONATED, refusal]
    with iam, pytest.raises(PermissionDenied, match="IAM refused") as raised:
        GsStore("bucket").presign("k", GET, now=NOW)
    assert "roles/iam.serviceAccountTokenCreator" in str(raised.value.hint)


def test_an_unreachable_iam_is_reported(iam: StubServer) -> None:
    with iam:
        pass  # the server has stopped
    with pytest.raises(Unreachable, match="cannot reach Google"):
        GsStore("bucket").presign("k", GET, now=NOW)


def test_user_credentials_cannot_sign(gcs_environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
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

"""Presigned URLs of S3: the contract of all clouds, and what only this one does."""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from lakecli.errors import PermissionDenied
from lakecli.stores.contract import ANY
from lakecli.stores.presigned_urls import PresignRequest, content_disposition
from lakecli.stores.s3.store import S3Store
from tests.stores.presign_contract import MINUTE, NOW, PresignContract, SignatureTable, clock
from tests.support.servers import ACCESS_KEY, SECRET_KEY, new_bucket
from tests.support.tools import require_tool

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakecli.stores.presigned_urls import PresignedUrl


@pytest.fixture
def store(aws_environment: pytest.MonkeyPatch, rclone_endpoint: str) -> S3Store:
    aws_environment.setenv("AWS_ENDPOINT_URL", rclone_endpoint)
    return S3Store(new_bucket(rclone_endpoint), "some/pre fix")


@pytest.fixture
def offline(aws_environment: pytest.MonkeyPatch) -> S3Store:
    """A store on AWS; no test sends it a request."""
    return S3Store("bucket", "p", region="eu-north-1")


@pytest.fixture
def make_stranger(store: S3Store, aws_environment: pytest.MonkeyPatch) -> Callable[[], S3Store]:
    def make() -> S3Store:
        aws_environment.setenv("AWS_SECRET_ACCESS_KEY", "guessed")
        return S3Store(store.uri.split("/")[2], "some/pre fix")

    return make


@pytest.fixture
def answering(aws_environment: pytest.MonkeyPatch, moto_endpoint: str) -> S3Store:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    return S3Store(new_bucket(moto_endpoint))


@pytest.fixture
def without_credentials(aws_environment: pytest.MonkeyPatch) -> None:
    aws_environment.delenv("AWS_ACCESS_KEY_ID")
    aws_environment.delenv("AWS_SECRET_ACCESS_KEY")


def tampered(signed: PresignedUrl) -> set[str]:
    url = signed.url
    return {
        url[:-1] + ("0" if url[-1] != "0" else "1"),
        url.replace("X-Amz-Expires=60", "X-Amz-Expires=6000"),
        url.replace("/k?", "/other?"),
    }


class TestS3Presign(PresignContract):
    table = SignatureTable(
        uri="s3://bucket/prefix",
        start="https://bucket.s3.eu-north-1.amazonaws.com/prefix/k%20%2B?",
        key_id=f"X-Amz-Credential={ACCESS_KEY}%2F",
        secrets=(SECRET_KEY,),
        unimported=frozenset({"boto3", "s3transfer", "google.cloud.storage"}),
        tampered=tampered,
        refusal=b"",
        expired=frozenset({400, 403}),
        expired_refusal=b"",
        put_headers={},
        put_status=200,
        type_is_signed=True,
        impossible=frozenset({"a//b"}),  # to rclone, which serves directories
        of_encoded_text=("text/csv", "gzip"),
        lifetime=lambda _, granted: {
            "X-Amz-Expires": [f"{granted.total_seconds():.0f}"],
            "X-Amz-Date": ["20300506T070809Z"],
        },
        credentials_hint="AWS_ACCESS_KEY_ID",
    )

    def test_signing_with_a_profile_sends_no_request(
        self, aws_environment: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        aws_environment.delenv("AWS_ACCESS_KEY_ID")
        aws_environment.delenv("AWS_SECRET_ACCESS_KEY")
        aws_environment.setenv("AWS_PROFILE", "partner")
        file = tmp_path / "credentials"
        key = f"aws_access_key_id=key-of-a-profile\naws_secret_access_key={SECRET_KEY}"
        file.write_text(f"[partner]\n{key}\n")
        aws_environment.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
        self.check_that_signing_sends_no_request("X-Amz-Credential=key-of-a-profile%2F")


def test_a_small_limit_of_size_makes_a_form(answering: S3Store, tmp_path: Path) -> None:
    """The server takes forms, but does not look at their policies: see the next test."""
    signed = answering.presign(
        "in/ü ;@.csv", PresignRequest("PUT", MINUTE, max_size=9), now=clock()
    )
    file = tmp_path / "sent"
    file.write_bytes(b"data")
    words = [require_tool("curl"), "-sSf"]
    for name, value in signed.fields.items():
        words += ["--form-string", f"{name}={value}"]
    words += ["-F", f"file=@{file}", signed.url]
    subprocess.run(words, check=True, timeout=60)
    assert answering.get("in/ü ;@.csv") == b"data"


@pytest.mark.parametrize("token", ["", "a-token"])
def test_the_policy_of_a_form_is_that_of_the_sdk(
    offline: S3Store, aws_environment: pytest.MonkeyPatch, token: str
) -> None:
    from botocore.auth import S3SigV4PostAuth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    if token:
        aws_environment.setenv("AWS_SESSION_TOKEN", token)
    asked = PresignRequest("PUT", MINUTE, max_size=1_000)
    signed = offline.presign("in/x", asked, now=NOW)
    assert signed.url == "https://bucket.s3.eu-north-1.amazonaws.com/"
    assert signed.expires_at == NOW.replace(microsecond=0) + MINUTE
    policy = json.loads(b64decode(signed.fields["policy"]))
    limit = ["content-length-range", 0, 1_000]
    request = AWSRequest("POST", signed.url)
    request.context["s3-presign-post-fields"] = theirs = {"key": "p/in/x"}
    request.context["s3-presign-post-policy"] = {
        "expiration": "2030-05-06T07:09:09Z",
        "conditions": [{"bucket": "bucket"}, {"key": "p/in/x"}, limit],
    }
    auth = S3SigV4PostAuth(Credentials(ACCESS_KEY, SECRET_KEY, token or None), "s3", "eu-north-1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("botocore.auth.get_current_datetime", lambda: NOW)
        auth.add_auth(request)
    there = json.loads(b64decode(theirs["policy"]))
    assert policy["expiration"] == there["expiration"]
    assert sorted(map(str, policy["conditions"])) == sorted(map(str, there["conditions"]))
    assert signed.fields.keys() == theirs.keys()
    request.context["timestamp"] = signed.fields["x-amz-date"]
    assert signed.fields["x-amz-signature"] == auth.signature(signed.fields["policy"], request)


def test_a_request_signed_with_an_unknown_secret_is_refused(
    store: S3Store, make_stranger: Callable[[], S3Store]
) -> None:
    store.put("k", b"the body", ANY)
    stranger = make_stranger()
    with pytest.raises(PermissionDenied) as raised:
        stranger.get("k")
    assert "AWS_SECRET_ACCESS_KEY" in str(raised.value.hint)
    assert "guessed" not in raised.value.message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("a.csv", "inline; filename=\"a.csv\"; filename*=UTF-8''a.csv"),
        ("a b.csv", "inline; filename=\"a b.csv\"; filename*=UTF-8''a%20b.csv"),
        ('q"u\\o.csv', "inline; filename=\"q_u_o.csv\"; filename*=UTF-8''q%22u%5Co.csv"),
        ("100%;x", "inline; filename=\"100_;x\"; filename*=UTF-8''100%25%3Bx"),
        ("ü.csv", "inline; filename=\"_.csv\"; filename*=UTF-8''%C3%BC.csv"),
        ("x\r\ny", "inline; filename=\"x__y\"; filename*=UTF-8''x%0D%0Ay"),
        ("\udcff", "inline; filename=\"_\"; filename*=UTF-8''%FF"),
    ],
)
def test_file_names_are_quoted_for_old_and_new_clients(name: str, value: str) -> None:
    assert content_disposition(name) == value


def test_urls_end_with_the_credentials(
    offline: S3Store, aws_environment: pytest.MonkeyPatch
) -> None:
    # The SDK checks by the system clock that these have not expired.
    now = clock()
    end = (now + timedelta(hours=2)).replace(microsecond=0)
    aws_environment.setenv("AWS_SESSION_TOKEN", "session/token+of=tests")
    aws_environment.setenv("AWS_CREDENTIAL_EXPIRATION", end.isoformat())
    signed = offline.presign("k", PresignRequest("GET", timedelta(days=1)), now=now)
    assert end - timedelta(seconds=1) <= signed.expires_at <= end
    query = parse_qs(urlsplit(signed.url).query)
    assert query["X-Amz-Security-Token"] == ["session/token+of=tests"]
    soon = offline.presign("k", PresignRequest("GET", MINUTE), now=now)
    assert soon.expires_at == now.replace(microsecond=0) + MINUTE
    with pytest.raises(PermissionDenied, match="expired"):
        offline.presign("k", PresignRequest("GET", MINUTE), now=end)


@pytest.mark.parametrize(
    ("bucket", "region", "endpoint", "start"),
    [
        ("bucket", "eu-north-1", "", "https://bucket.s3.eu-north-1.amazonaws.com/k%20%2B?"),
        ("bucket", "", "", "https://bucket.s3.us-east-1.amazonaws.com/k%20%2B?"),
        ("with.dot", "eu-west-1", "", "https://s3.eu-west-1.amazonaws.com/with.dot/k%20%2B?"),
        ("bucket", "cn-north-1", "", "https://bucket.s3.cn-north-1.amazonaws.com.cn/k%20%2B?"),
        ("bucket", "us-isob-east-1", "", "https://bucket.s3.us-isob-east-1.sc2s.sgov.gov/k%20"),
        ("bucket", "", "http://h:9/base/", "http://h:9/base/bucket/k%20%2B?"),
    ],
)
def test_urls_point_where_requests_would_go(
    aws_environment: pytest.MonkeyPatch, bucket: str, region: str, endpoint: str, start: str
) -> None:
    if endpoint:
        aws_environment.setenv("AWS_ENDPOINT_URL_S3", endpoint)
    store = S3Store(bucket, region=region)
    url = store.presign("k +", PresignRequest("GET", MINUTE), now=NOW).url
    assert url.startswith(start)
    assert f"/{region or 'us-east-1'}/s3/" in unquote(url)


@pytest.mark.parametrize("endpoint", ["", "http://127.0.0.1:9"])
def test_signatures_equal_those_of_the_sdk(
    aws_environment: pytest.MonkeyPatch, endpoint: str
) -> None:
    from botocore.config import Config
    from botocore.session import Session

    if endpoint:
        aws_environment.setenv("AWS_ENDPOINT_URL", endpoint)
    key = "odd key/ü+%?&=#.csv"
    request = PresignRequest(
        "GET", MINUTE, content_type="text/csv", file_name="ü;.csv", content_encoding="br"
    )
    store = S3Store("bucket", "p", region="eu-north-1")
    client = Session().create_client(
        "s3",
        region_name="eu-north-1",
        config=Config(
            signature_version="s3v4", s3={"addressing_style": "path" if endpoint else "virtual"}
        ),
    )
    for _ in range(3):  # a second may pass between the two URLs
        ours = store.presign(key, request, now=clock()).url
        theirs = client.generate_presigned_url(
            "get_object",
            Params={
                "Bucket": "bucket",
                "Key": f"p/{key}",
                "ResponseContentType": "text/csv",
                "ResponseContentEncoding": "br",
                "ResponseContentDisposition": content_disposition("ü;.csv"),
            },
            ExpiresIn=60,
        )
        if _parts(ours) == _parts(theirs):
            break
    assert _parts(ours) == _parts(theirs)
    client.close()


@pytest.mark.parametrize("endpoint", ["", "http://127.0.0.1:9", "https://H.example:443/base/"])
@pytest.mark.parametrize("content_type", ["", "text/csv;  charset=utf-8"])
def test_signatures_of_put_urls_equal_those_of_the_sdk(
    aws_environment: pytest.MonkeyPatch, endpoint: str, content_type: str
) -> None:
    from botocore.config import Config
    from botocore.session import Session

    aws_environment.setenv("AWS_SESSION_TOKEN", "session/token+of=tests")
    if endpoint:
        aws_environment.setenv("AWS_ENDPOINT_URL", endpoint)
    store = S3Store("bucket", "p", region="eu-north-1")
    client = Session().create_client(
        "s3",
        region_name="eu-north-1",
        config=Config(
            signature_version="s3v4",
            s3={"addressing_style": "path" if endpoint else "virtual"},
            # Otherwise the SDK also signs the checksum of an empty body.
            request_checksum_calculation="when_required",
        ),
    )
    parameters = {"Bucket": "bucket", "Key": "p/k"}
    if content_type:
        parameters["ContentType"] = content_type
    request = PresignRequest("PUT", MINUTE, content_type=content_type)
    for _ in range(3):  # a second may pass between the two URLs
        ours = store.presign("k", request, now=clock())
        theirs = client.generate_presigned_url("put_object", Params=parameters, ExpiresIn=60)
        if _parts(ours.url) == _parts(theirs):
            break
    assert _parts(ours.url) == _parts(theirs)
    assert ours.headers == ({"Content-Type": content_type} if content_type else {})
    client.close()


def _parts(url: str) -> tuple[str, str, dict[str, list[str]]]:
    split = urlsplit(url)
    return split.netloc, split.path, parse_qs(split.query)

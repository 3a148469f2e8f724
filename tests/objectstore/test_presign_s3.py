"""Presigned URLs, against a server that checks signatures and expiry."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest

from lakecli.errors import PermissionDenied, UsageError
from lakecli.objectstore.base import ANY, PresignRequest
from lakecli.objectstore.presigning import content_disposition
from lakecli.objectstore.s3.store import S3Store
from tests.objectstore.contract import ODD_NAMES
from tests.support.servers import SECRET_KEY, new_bucket

if TYPE_CHECKING:
    from email.message import Message
    from pathlib import Path

NOW = datetime(2030, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def get(url: str, **headers: str) -> tuple[int, bytes, Message]:
    return fetch(urllib.request.Request(url, headers=headers))


def fetch(request: urllib.request.Request) -> tuple[int, bytes, Message]:
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), error.headers


def clock() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - the server has a clock of its own


@pytest.fixture
def store(aws_environment: pytest.MonkeyPatch, rclone_endpoint: str) -> S3Store:
    aws_environment.setenv("AWS_ENDPOINT_URL", rclone_endpoint)
    return S3Store(new_bucket(rclone_endpoint), "some/pre fix")


@pytest.fixture
def offline(aws_environment: pytest.MonkeyPatch) -> S3Store:
    """A store on AWS that nothing is ever asked of."""
    return S3Store("bucket", "p", region="eu-north-1")


# A real server believes them


def test_a_url_works_with_urllib_and_with_curl(store: S3Store, tmp_path: Path) -> None:
    store.put("data/k", b"the body", ANY)
    signed = store.presign("data/k", PresignRequest("GET", MINUTE), now=clock())
    assert get(signed.url)[:2] == (200, b"the body")
    curl = shutil.which("curl")
    assert curl is not None, "these tests need curl"
    target = tmp_path / "out"
    subprocess.run([curl, "-sSf", "-o", str(target), signed.url], check=True, timeout=60)
    assert target.read_bytes() == b"the body"


def test_odd_keys_are_signed(store: S3Store) -> None:
    for name in (*ODD_NAMES, "new\nline", "~tilde-and.dots_"):
        store.put(f"odd/{name}", name.encode(), ANY)
        signed = store.presign(f"odd/{name}", PresignRequest("GET", MINUTE), now=clock())
        assert get(signed.url)[:2] == (200, name.encode()), name


def test_what_was_not_signed_is_refused(store: S3Store) -> None:
    store.put("k", b"the body", ANY)
    store.put("other", b"another body", ANY)
    url = store.presign("k", PresignRequest("GET", MINUTE), now=clock()).url
    flipped = url[:-1] + ("0" if url[-1] != "0" else "1")
    longer = url.replace("X-Amz-Expires=60", "X-Amz-Expires=6000")
    other = url.replace("/k?", "/other?")
    assert len({url, flipped, longer, other}) == 4
    for tampered in (flipped, longer, other):
        status, body, _ = get(tampered)
        assert status == 403
        assert b"body" not in body
    put = urllib.request.Request(url, data=b"x", method="PUT")
    assert fetch(put)[0] == 403
    assert store.get("k") == b"the body"


def test_an_expired_url_is_refused(store: S3Store) -> None:
    store.put("k", b"the body", ANY)
    past = clock() - timedelta(hours=1)
    signed = store.presign("k", PresignRequest("GET", MINUTE), now=past)
    assert signed.expires_at < clock()
    status, body, _ = get(signed.url)
    assert status in {400, 403}
    assert b"the body" not in body


def test_other_secrets_are_refused(store: S3Store, aws_environment: pytest.MonkeyPatch) -> None:
    store.put("k", b"the body", ANY)
    aws_environment.setenv("AWS_SECRET_ACCESS_KEY", "guessed")
    stranger = S3Store(store.uri.split("/")[2], "some/pre fix")
    assert get(stranger.presign("k", PresignRequest("GET", MINUTE), now=clock()).url)[0] == 403
    with pytest.raises(PermissionDenied) as raised:
        stranger.get("k")
    assert "AWS_SECRET_ACCESS_KEY" in str(raised.value.hint)
    assert "guessed" not in raised.value.message


def test_a_put_url_takes_a_body(store: S3Store) -> None:
    signed = store.presign("incoming/x", PresignRequest("PUT", MINUTE), now=clock())
    request = urllib.request.Request(signed.url, data=b"sent by a partner", method="PUT")
    request.add_header("Content-Type", "application/octet-stream")
    assert fetch(request)[0] == 200
    assert store.get("incoming/x") == b"sent by a partner"
    assert signed.headers == {}


def test_a_put_url_may_ask_for_a_type(store: S3Store) -> None:
    asked = PresignRequest("PUT", MINUTE, content_type="text/csv")
    signed = store.presign("incoming/x", asked, now=clock())
    assert signed.headers == {"Content-Type": "text/csv"}
    for content_type, status in (("text/html", 403), ("text/csv", 200)):
        request = urllib.request.Request(signed.url, data=b"a,b", method="PUT")
        request.add_header("Content-Type", content_type)
        assert fetch(request)[0] == status


# What the answer to a GET says is signed in


def test_moto_honours_type_and_file_name(
    aws_environment: pytest.MonkeyPatch, moto_endpoint: str
) -> None:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    store = S3Store(new_bucket(moto_endpoint))
    store.put("data/k", b"a,b", ANY)
    request = PresignRequest("GET", MINUTE, content_type="text/csv", file_name="Übersicht 1.csv")
    status, body, headers = get(store.presign("data/k", request, now=clock()).url)
    assert (status, body) == (200, b"a,b")
    assert headers["Content-Type"] == "text/csv"
    assert headers["Content-Disposition"] == content_disposition("Übersicht 1.csv")


def test_rclone_refuses_another_type_than_was_signed(store: S3Store) -> None:
    store.put("k", b"the body", ANY)
    request = PresignRequest("GET", MINUTE, content_type="text/csv; charset=utf-8", file_name="a b")
    url = store.presign("k", request, now=clock()).url
    assert get(url)[0] == 200
    assert "text%2Fcsv" in url
    assert get(url.replace("text%2Fcsv", "text%2Fhtml"))[0] == 403


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


# When they end


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        (timedelta(seconds=90), 90),
        (timedelta(seconds=90, microseconds=999_999), 90),
        (timedelta(days=7), 604_800),
        (timedelta(days=8), 604_800),
    ],
)
def test_urls_end_as_asked_or_after_seven_days(
    offline: S3Store, asked: timedelta, seconds: int
) -> None:
    signed = offline.presign("k", PresignRequest("GET", asked), now=NOW)
    start = NOW.replace(microsecond=0)
    assert signed.expires_at == start + timedelta(seconds=seconds)
    query = parse_qs(urlsplit(signed.url).query)
    assert query["X-Amz-Expires"] == [str(seconds)]
    assert query["X-Amz-Date"] == ["20300506T070809Z"]


def test_urls_end_with_the_credentials(
    offline: S3Store, aws_environment: pytest.MonkeyPatch
) -> None:
    # The SDK looks at its own clock to see that these have not ended.
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
    "request_",
    [
        PresignRequest("DELETE", MINUTE),
        PresignRequest("GET", timedelta(0)),
        PresignRequest("GET", timedelta(seconds=-5)),
    ],
)
def test_malformed_requests_are_refused(offline: S3Store, request_: PresignRequest) -> None:
    with pytest.raises(UsageError):
        offline.presign("k", request_, now=NOW)


def test_without_credentials_the_error_says_what_to_set(
    offline: S3Store, aws_environment: pytest.MonkeyPatch
) -> None:
    aws_environment.delenv("AWS_ACCESS_KEY_ID")
    aws_environment.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(PermissionDenied, match="no credentials") as raised:
        offline.presign("k", PresignRequest("GET", MINUTE), now=NOW)
    assert "AWS_ACCESS_KEY_ID" in str(raised.value.hint)


# Where they point, and that nobody is asked


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
def test_signatures_are_the_sdks_own(aws_environment: pytest.MonkeyPatch, endpoint: str) -> None:
    from botocore.config import Config
    from botocore.session import Session

    if endpoint:
        aws_environment.setenv("AWS_ENDPOINT_URL", endpoint)
    key = "odd key/ü+%?&=#.csv"
    request = PresignRequest("GET", MINUTE, content_type="text/csv", file_name="ü;.csv")
    store = S3Store("bucket", "p", region="eu-north-1")
    client = Session().create_client(
        "s3",
        region_name="eu-north-1",
        config=Config(
            signature_version="s3v4",
            s3={"addressing_style": "path" if endpoint else "virtual"},
        ),
    )
    for _ in range(3):  # a second may pass between the two
        ours = store.presign(key, request, now=clock()).url
        theirs = client.generate_presigned_url(
            "get_object",
            Params={
                "Bucket": "bucket",
                "Key": f"p/{key}",
                "ResponseContentType": "text/csv",
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
def test_so_they_are_for_sending(
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
            # The SDK would have the checksum of an empty body signed, too.
            request_checksum_calculation="when_required",
        ),
    )
    parameters = {"Bucket": "bucket", "Key": "p/k"}
    if content_type:
        parameters["ContentType"] = content_type
    request = PresignRequest("PUT", MINUTE, content_type=content_type)
    for _ in range(3):  # a second may pass between the two
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


OFFLINE = """
import json, sys
touched = []
def watch(event, arguments):
    if event == "open" and str(arguments[0]).endswith((".json", ".json.gz")):
        touched.append(str(arguments[0]))
    # The SDK's HTTP library binds a socket when it is imported, to see whether there is IPv6.
    if event.startswith("socket.") and event not in ("socket.__new__", "socket.bind"):
        touched.append(event)
sys.addaudithook(watch)
from datetime import UTC, datetime, timedelta
from lakecli.objectstore.base import PresignRequest
from lakecli.objectstore.registry import open_store
store = open_store("s3://bucket/prefix", region="eu-north-1")
request = PresignRequest("GET", timedelta(minutes=5))
signed = store.presign("k", request, now=datetime(2030, 1, 1, tzinfo=UTC))
print(json.dumps([touched, sorted(sys.modules), signed.url]))
"""


@pytest.mark.parametrize("source", ["environment", "profile"])
def test_signing_loads_no_model_and_opens_no_socket(
    aws_environment: pytest.MonkeyPatch, tmp_path: Path, source: str
) -> None:
    key_id = "access-key-of-the-tests"
    if source == "profile":
        key_id = "access-key-of-a-profile"
        aws_environment.delenv("AWS_ACCESS_KEY_ID")
        aws_environment.delenv("AWS_SECRET_ACCESS_KEY")
        aws_environment.setenv("AWS_PROFILE", "partner")
        file = tmp_path / "credentials"
        file.write_text(
            f"[partner]\naws_access_key_id={key_id}\naws_secret_access_key={SECRET_KEY}\n"
        )
        aws_environment.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE], check=True, capture_output=True, text=True, timeout=60
    )
    touched, modules, url = json.loads(done.stdout)
    assert touched == []
    assert not {"boto3", "s3transfer", "google.cloud.storage"} & set(modules)
    assert f"X-Amz-Credential={quote(key_id + '/', safe='')}" in url
    assert SECRET_KEY not in url

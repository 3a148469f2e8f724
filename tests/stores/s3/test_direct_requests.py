"""Direct requests, which come before those of the SDK; the SDK repeats all that fail."""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING

import pytest

from lakecli.errors import IntegrityError, NotFound, PermissionDenied, Unreachable
from lakecli.stores.contract import ANY, ObjectNotFound
from lakecli.stores.responses import LOGGER
from lakecli.stores.s3 import direct_requests
from lakecli.stores.s3.direct_requests import find_settings
from lakecli.stores.s3.store import S3Store
from tests.support.servers import Answer, StubServer, new_bucket, s3_error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OK = Answer(headers={"ETag": '"etag"'})


@pytest.fixture
def server(aws_environment: pytest.MonkeyPatch) -> Iterator[StubServer]:
    with StubServer(OK) as server:
        aws_environment.setenv("AWS_ENDPOINT_URL", server.url)
        aws_environment.setenv("AWS_MAX_ATTEMPTS", "2")
        yield server


@pytest.fixture
def store(server: StubServer) -> S3Store:
    return S3Store("bucket", "prefix", region="eu-north-1")


def methods(server: StubServer) -> list[str]:
    return [request.method for request in server.requests]


def is_direct(server: StubServer, number: int = -1) -> bool:
    """Return whether a request was direct: the SDK sends its name and the number of the try."""
    return "amz-sdk-invocation-id" not in {name.lower() for name in server.requests[number].headers}


def test_direct_requests_pass_a_server_that_checks_signatures(
    aws_environment: pytest.MonkeyPatch, rclone_endpoint: str
) -> None:
    aws_environment.setenv("AWS_ENDPOINT_URL", rclone_endpoint)
    store = S3Store(new_bucket(rclone_endpoint), "some/prefix")
    requests = store.direct
    assert requests.create("some/prefix/data/k-1_2.x", b"body")
    found = requests.get("some/prefix/data/k-1_2.x")
    assert found is not None
    assert (found[0], found[1].strip('"')) == (b"body", store.head("data/k-1_2.x").version)
    assert store.get("data/k-1_2.x") == b"body"
    query = "encoding-type=url&list-type=2&max-keys=1000&prefix=some%2Fprefix%2F"
    page = requests.list(query)
    assert page is not None
    assert b"data/k-1_2.x" in page
    aws_environment.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    other = S3Store(store.bucket, "some/prefix")
    assert other.direct.get("some/prefix/data/k-1_2.x") is None
    with pytest.raises(PermissionDenied):
        other.get("data/k-1_2.x")


def test_a_session_token_is_signed(
    aws_environment: pytest.MonkeyPatch, store: S3Store, server: StubServer
) -> None:
    aws_environment.setenv("AWS_SESSION_TOKEN", "of the session")
    store.put_new("k", b"body")
    headers = server.requests[-1].headers
    assert headers["X-Amz-Security-Token"] == "of the session"
    assert "x-amz-security-token" in headers["Authorization"]


def test_direct_requests_come_before_those_of_the_sdk(store: S3Store, server: StubServer) -> None:
    server.answers = [Answer(body=b"0123")]
    assert store.get("k") == b"0123"
    assert is_direct(server)
    assert server.requests[-1].path == "/bucket/prefix/k"
    server.answers = [Answer(206, body=b"12", headers={"Content-Range": "bytes 1-2/4"})]
    assert store.get("k", start=1, length=2) == b"12"
    assert server.requests[-1].headers["Range"] == "bytes=1-2"
    server.answers = [OK]
    assert store.put_new("k", b"body")
    sent = server.requests[-1]
    assert (sent.method, sent.body, sent.headers["If-None-Match"]) == ("PUT", b"body", "*")
    assert sent.headers["X-Amz-Checksum-Crc32C"]
    server.answers = [s3_error(412, "PreconditionFailed")]
    assert not store.put_new("k", b"body")
    assert [is_direct(server, number) for number in range(4)] == [True] * 4
    assert len(server.requests) == 4


def test_a_direct_request_is_logged_without_its_query(
    store: S3Store, server: StubServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)
    assert store.direct.get("prefix/k") is not None
    assert store.direct.list("prefix=secret") is not None
    places = [f"{server.url}/bucket/prefix/k", f"{server.url}/bucket"]
    assert caplog.messages == [f"GET {place}: 200" for place in places]


def test_a_failed_direct_request_is_repeated_by_the_sdk(store: S3Store, server: StubServer) -> None:
    server.answers = [s3_error(503, "SlowDown"), Answer(body=b"x")]
    assert store.get("k") == b"x"
    assert [is_direct(server, number) for number in (0, 1)] == [True, False]
    server.answers = [s3_error(503, "SlowDown")]
    with pytest.raises(Unreachable, match="SlowDown"):
        store.get("k")
    server.answers = [Answer(body=b"x" * 1000, sent=10), Answer(body=b"x" * 1000)]
    assert store.get("k") == b"x" * 1000
    server.answers = [Answer(body=b"x", headers={"x-amz-checksum-crc32": "AAAAAA=="})]
    with pytest.raises(IntegrityError):
        store.get("k")


def test_an_absent_key_takes_one_request(store: S3Store, server: StubServer) -> None:
    server.answers = [s3_error(404, "NoSuchKey")]
    with pytest.raises(ObjectNotFound, match="no such object: 's3://bucket/prefix/k'"):
        store.get("k")
    assert [is_direct(server, number) for number in range(len(server.requests))] == [True]


DESCRIBED = {
    "ETag": '"etag"',
    "Last-Modified": "Sat, 29 Feb 2020 01:02:03 GMT",
    "Content-Length": "12",
    "Content-Type": "text/csv",
}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-amz-meta-a": "b c", "x-amz-meta-d-e": "f"},
        {"x-amz-version-id": "v"},
        {"Content-Type": "", "ETag": "", "Content-Length": "0"},
    ],
)
def test_the_sdk_describes_objects_in_the_same_way(
    store: S3Store, server: StubServer, headers: dict[str, str]
) -> None:
    server.answers = [Answer(headers=DESCRIBED | headers)]
    found = store._head("k")
    assert is_direct(server)
    store.direct._is_usable = False
    assert store._head("k") == found
    assert not is_direct(server)


def test_an_absent_object_is_not_asked_for_twice(store: S3Store, server: StubServer) -> None:
    server.answers = [Answer(404), Answer(200)]
    with pytest.raises(ObjectNotFound, match="no such object: 's3://bucket/prefix/k'"):
        store.head("k")
    paths = [(request.method, request.path) for request in server.requests]
    assert paths == [("HEAD", "/bucket/prefix/k"), ("HEAD", "/bucket")]


@pytest.mark.parametrize(
    "odd",
    [
        {"Last-Modified": "2020-02-29T01:02:03Z"},
        {"Last-Modified": "Sat, 31 Feb 2020 01:02:03 GMT"},
        {"Last-Modified": "Sat, 29 Foo 2020 01:02:03 GMT"},
        {"Last-Modified": "Sat, 29 Feb 2020 01:02:03 +99999999999999999"},
        {"Last-Modified": "Sat, 29 Feb 2020 01:02:03 +0100"},
        {"Content-Length": "+12"},
    ],
)
def test_an_odd_description_is_left_to_the_sdk(
    store: S3Store, server: StubServer, odd: dict[str, str]
) -> None:
    server.answers = [Answer(headers=DESCRIBED | odd), Answer(headers=DESCRIBED)]
    assert store.head("k").size == 12
    assert [is_direct(server, number) for number in (0, 1)] == [True, False]


def test_a_version_is_described_by_the_sdk(store: S3Store, server: StubServer) -> None:
    server.answers = [Answer(headers=DESCRIBED)]
    assert store.at_version("v").head("k").size == 12
    assert not is_direct(server)


@pytest.mark.parametrize(
    "answer",
    [
        s3_error(404, "NoSuchBucket"),
        Answer(404),
        Answer(404, b"<html>NoSuchKey</html>"),
        s3_error(404, "NoSuchVersion", "<Code>NoSuchKey</Code>"),
    ],
    ids=["bucket", "nothing", "a proxy", "another code"],
)
def test_another_answer_of_404_is_left_to_the_sdk(
    store: S3Store, server: StubServer, answer: Answer
) -> None:
    server.answers = [answer]
    assert store.direct.get("prefix/k") is None
    with pytest.raises(NotFound):
        store.get("k")
    assert not is_direct(server)


def test_after_a_refusal_the_sdk_sends_all_requests(store: S3Store, server: StubServer) -> None:
    server.answers = [s3_error(403, "AccessDenied")]
    for _ in range(2):
        with pytest.raises(PermissionDenied):
            store.get("k")
    assert methods(server) == ["GET"] * 3
    assert [is_direct(server, number) for number in range(3)] == [True, False, False]


@pytest.mark.parametrize(
    ("status", "stays_direct"),
    [
        *((404, True), (412, True), (416, True), (500, True), (503, True)),
        *((300, False), (301, False), (307, False), (400, False), (403, False), (499, False)),
    ],
)
def test_only_a_refusal_ends_the_direct_requests(
    store: S3Store, server: StubServer, status: int, *, stays_direct: bool
) -> None:
    server.answers = [s3_error(status, "Code")]
    requests = store.direct
    assert requests.get("prefix/k") is None
    server.answers = [Answer(body=b"x")]
    assert (requests.get("prefix/k") is not None) == stays_direct


def test_a_checksum_of_checksums_of_parts_is_not_compared(
    store: S3Store, server: StubServer
) -> None:
    server.answers = [Answer(body=b"x", headers={"x-amz-checksum-crc32": "AAAAAA==-2"})]
    assert store.get("k") == b"x"
    assert len(server.requests) == 1


def test_a_directory_bucket_is_left_to_the_sdk(store: S3Store) -> None:
    """Those of S3 Express need a session of their own."""
    assert find_settings(store._connection, "bucket") is not None
    assert find_settings(store._connection, "bucket--use1-az4--x-s3") is None


@pytest.mark.parametrize("key", ["a b", "ü", "a//b", "a/../b", "./a", "a/.b", "a+b"])
def test_odd_keys_are_left_to_the_sdk(store: S3Store, server: StubServer, key: str) -> None:
    server.answers = [Answer(body=b"x")]
    assert store.get(key) == b"x"
    assert not is_direct(server)


def test_odd_configurations_are_left_to_the_sdk(
    aws_environment: pytest.MonkeyPatch, tmp_path: Path, server: StubServer
) -> None:
    file = tmp_path / "config"
    file.write_text("[default]\ns3 =\n    payload_signing_enabled = true\n")
    aws_environment.setenv("AWS_CONFIG_FILE", str(file))
    store = S3Store("bucket", region="eu-north-1")
    store.put("k", b"", ANY)
    server.answers = [Answer(body=b"x")]
    assert store.get("k") == b"x"
    assert not is_direct(server)


def test_without_credentials_the_sdk_says_so(
    aws_environment: pytest.MonkeyPatch, store: S3Store
) -> None:
    aws_environment.delenv("AWS_ACCESS_KEY_ID")
    aws_environment.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(PermissionDenied, match="no credentials"):
        store.get("k")


def test_checksums_are_left_out_if_so_configured(
    aws_environment: pytest.MonkeyPatch, store: S3Store, server: StubServer
) -> None:
    aws_environment.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    aws_environment.setenv("AWS_RESPONSE_CHECKSUM_VALIDATION", "when_required")
    store.put_new("k", b"body")
    server.answers = [Answer(body=b"x")]
    store.get("k")
    sent = {name.lower() for request in server.requests for name in request.headers}
    assert not {name for name in sent if "checksum" in name}
    assert is_direct(server)


@pytest.mark.parametrize(
    ("is_secure", "sends_checksums", "is_signed"),
    [(True, True, False), (False, True, True), (True, False, True)],
)
def test_over_tls_the_signed_checksum_stands_for_the_body(
    store: S3Store, server: StubServer, *, is_secure: bool, sends_checksums: bool, is_signed: bool
) -> None:
    settings = find_settings(store._connection, "bucket")
    assert settings is not None
    requests = store.direct
    requests._settings = settings._replace(
        url=settings.url._replace(scheme="https" if is_secure else "http"),
        sends_checksums=sends_checksums,
    )
    assert requests.create("prefix/k", b"body")
    signed = hashlib.sha256(b"body").hexdigest()
    expected = signed if is_signed else "UNSIGNED-PAYLOAD"
    assert server.requests[-1].headers["X-Amz-Content-Sha256"] == expected


@pytest.mark.parametrize(
    ("algorithm", "body", "checksum"),
    [
        ("crc32", b"123456789", "y/Q5Jg=="),
        ("crc32c", b"123456789", "4waSgw=="),
        ("crc32", b"", "AAAAAA=="),
        ("crc32c", b"", "AAAAAA=="),
    ],
)
def test_checksums_are_four_bytes_in_base64(algorithm: str, body: bytes, checksum: str) -> None:
    assert direct_requests._is_undamaged(body, {f"x-amz-checksum-{algorithm}": checksum})
    assert not direct_requests._is_undamaged(body + b"x", {f"x-amz-checksum-{algorithm}": checksum})

"""What becomes of the errors of an S3 server, real ones not giving them on demand."""

from __future__ import annotations

import io
import logging
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

import pytest

from lakecli.errors import (
    IntegrityError,
    LakeError,
    PermissionDenied,
    Refused,
    Unreachable,
    Unsupported,
    UsageError,
)
from lakecli.objectstore.base import (
    ABSENT,
    ANY,
    BucketNotFound,
    ConditionFailed,
    Match,
    ObjectNotFound,
    Version,
)
from lakecli.objectstore.s3.direct import DirectRequests
from lakecli.objectstore.s3.store import S3Store
from lakecli.objectstore.streams import PART_SIZE
from lakecli.objectstore.uploads import Part, UploadId
from lakecli.retry import REQUESTS, Retries
from tests.support.servers import (
    ACCESS_KEY,
    SECRET_KEY,
    Answer,
    Request,
    StubServer,
    free_port,
    s3_error,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakecli.objectstore.base import Condition

OK = Answer(headers={"ETag": '"etag"'})


@pytest.fixture
def server(aws_environment: pytest.MonkeyPatch) -> Iterator[StubServer]:
    with StubServer(OK) as server:
        aws_environment.setenv("AWS_ENDPOINT_URL", server.url)
        aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
        yield server


@pytest.fixture
def store(server: StubServer) -> S3Store:
    return S3Store("bucket", "prefix", region="eu-north-1")


@pytest.fixture
def sdk_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the plain request that comes before the SDK's own, so that these can be counted."""
    monkeypatch.setattr(DirectRequests, "_prepare", lambda _: False)


def methods(server: StubServer) -> list[str]:
    return [request.method for request in server.requests]


def drain(stream: BinaryIO) -> None:
    while stream.read(50_000):
        pass


@pytest.mark.parametrize(
    ("answer", "error", "said", "hint"),
    [
        (s3_error(503, "SlowDown"), Unreachable, "SlowDown", "wait"),
        (s3_error(500, "InternalError"), Unreachable, "InternalError", "wait"),
        (Answer(502, b"<html>bad gateway</html>"), Unreachable, "502", "wait"),
        (s3_error(429, "TooManyRequests"), Unreachable, "TooManyRequests", "wait"),
        (s3_error(400, "RequestTimeout"), Unreachable, "RequestTimeout", "wait"),
        (s3_error(403, "AccessDenied"), PermissionDenied, "AccessDenied", "s3:"),
        (s3_error(401, "Unauthorized"), PermissionDenied, "Unauthorized", "s3:"),
        (s3_error(403, "InvalidAccessKeyId"), PermissionDenied, "refused", "AWS_ACCESS_KEY_ID"),
        (s3_error(403, "SignatureDoesNotMatch"), PermissionDenied, "refused", "AWS_SECRET"),
        (s3_error(403, "RequestTimeTooSkewed"), PermissionDenied, "refused", "clock"),
        (s3_error(400, "ExpiredToken"), PermissionDenied, "refused", "AWS_SESSION_TOKEN"),
        (s3_error(400, "InvalidToken"), PermissionDenied, "refused", "AWS_SESSION_TOKEN"),
        (s3_error(400, "AuthorizationHeaderMalformed"), PermissionDenied, "", "AWS_REGION"),
        (s3_error(404, "NoSuchBucket"), BucketNotFound, "no such bucket", "aws s3 mb"),
        (s3_error(301, "PermanentRedirect"), Refused, "not served by", "AWS_REGION"),
        (Answer(302, headers={"Location": "https://elsewhere/"}), Refused, "not served by", "URL"),
        (s3_error(501, "NotImplemented"), Unsupported, "cannot do", None),
        (s3_error(405, "MethodNotAllowed"), Unsupported, "cannot do", None),
        (s3_error(507, "InsufficientStorage"), Unreachable, "no space left", "free some"),
        (s3_error(403, "QuotaExceeded"), Unreachable, "no space left", "quota"),
        (s3_error(400, "KeyTooLongError"), UsageError, "key too long", None),
        (s3_error(400, "BadDigest"), IntegrityError, "other bytes", "repeat"),
        (s3_error(400, "Strange", "odd."), Refused, "Strange, odd:", None),
    ],
)
def test_answers_become_one_line_that_helps(
    *,
    store: S3Store,
    server: StubServer,
    answer: Answer,
    error: type[LakeError],
    said: str,
    hint: str | None,
) -> None:
    server.answers = [answer]
    calls: tuple[Callable[[], object], ...] = (
        lambda: store.get("k"),
        lambda: store.get("k", start=5),
        lambda: store.open("k"),
        lambda: store.put("k", b"body", ANY),
        lambda: store.put("k", b"body", Match(Version("v"))),
        lambda: list(store.list()),
        lambda: store.delete(["k"]),
        lambda: store.copy("k", "l"),
    )
    for call in calls:
        with pytest.raises(error) as raised:
            call()
        message = raised.value.message
        assert said in message
        assert "\n" not in message
        if hint is None:
            assert raised.value.hint is None
        else:
            assert hint in str(raised.value.hint)
        assert "s3://bucket" in message
        assert SECRET_KEY not in message
        assert ACCESS_KEY not in message


@pytest.mark.parametrize(
    ("status", "error", "hint"),
    [
        (302, Refused, "AWS_ENDPOINT_URL"),
        (400, Refused, None),
        (403, PermissionDenied, "check the credentials in use, or give them s3:GetObject"),
        (503, Unreachable, "wait"),
    ],
)
def test_answers_to_head_have_no_body(
    *,
    store: S3Store,
    server: StubServer,
    status: int,
    error: type[LakeError],
    hint: str | None,
) -> None:
    server.answers = [Answer(status)]
    with pytest.raises(error) as raised:
        store.head("k")
    assert (hint or "None") in str(raised.value.hint)


@pytest.mark.parametrize(
    "answer",
    [
        s3_error(412, "PreconditionFailed"),
        s3_error(409, "ConditionalRequestConflict"),
        s3_error(404, "NoSuchKey"),
    ],
)
def test_a_condition_that_did_not_hold(store: S3Store, server: StubServer, answer: Answer) -> None:
    server.answers = [answer]
    for condition in (ABSENT, Match(Version("v"))):
        for body in (b"body", io.BytesIO(b"body")):
            with pytest.raises(ConditionFailed, match="s3://bucket/prefix/k"):
                store.put("k", body, condition)


def test_a_missing_bucket_is_no_lost_race(store: S3Store, server: StubServer) -> None:
    server.answers = [s3_error(404, "NoSuchBucket")]
    for condition in (ANY, ABSENT, Match(Version("v"))):
        with pytest.raises(BucketNotFound):
            store.put("k", b"", condition)


def test_conditions_are_sent_as_http_says(store: S3Store, server: StubServer) -> None:
    assert store.put("k", b"", ABSENT) == "etag"
    assert store.put("k", b"", Match(Version("etag"))) == "etag"
    store.put("k", b"", ANY)
    sent = [
        (request.headers.get("If-None-Match"), request.headers.get("If-Match"))
        for request in server.requests
    ]
    assert sent == [("*", None), (None, "etag"), (None, None)]


# Repeating


def test_what_fails_for_a_moment_is_repeated(
    store: S3Store, server: StubServer, aws_environment: pytest.MonkeyPatch
) -> None:
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "2")
    server.answers = [s3_error(503, "SlowDown"), Answer(body=b"body")]
    assert store.get("k") == b"body"
    server.answers = [s3_error(500, "InternalError"), OK]
    store.put("k", b"body", ANY)
    assert len(server.requests) == 4


def test_conditional_writes_are_sent_once(
    store: S3Store, server: StubServer, aws_environment: pytest.MonkeyPatch
) -> None:
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "3")
    large = io.BytesIO(b"x" * PART_SIZE)
    for condition in (ABSENT, Match(Version("v"))):
        for body in (b"body", io.BytesIO(b"body"), large):
            server.requests.clear()
            server.answers = [s3_error(503, "SlowDown"), OK]
            with pytest.raises(Unreachable):
                store.put("k", body, condition)
            assert methods(server) == ["PUT"]


@pytest.mark.usefixtures("sdk_alone")
def test_answers_that_break_off_are_read_again(store: S3Store, server: StubServer) -> None:
    body = bytes(range(256)) * 1_000
    broken = Answer(body=body, sent=100_000)
    server.answers = [broken, broken, Answer(body=body)]
    assert store.get("k") == body
    server.answers = [broken]
    server.requests.clear()
    with pytest.raises(Unreachable, match="broke the connection"):
        store.get("k")
    assert methods(server) == ["GET"] * 3


def test_a_stream_that_breaks_off_says_so(store: S3Store, server: StubServer) -> None:
    server.answers = [Answer(body=b"x" * 200_000, sent=100_000)]
    with store.open("k") as stream:
        assert stream.read(1_000) == b"x" * 1_000
        with pytest.raises(Unreachable, match="broke the connection"):
            drain(stream)


def test_damaged_bodies_are_noticed(store: S3Store, server: StubServer) -> None:
    headers = {"x-amz-checksum-crc32": "AAAAAA==", "x-amz-checksum-type": "FULL_OBJECT"}
    server.answers = [Answer(body=b"flipped", headers=headers)]
    with pytest.raises(IntegrityError, match="other bytes than its checksum"):
        store.get("k")
    with store.open("k") as stream, pytest.raises(IntegrityError):
        drain(stream)


def test_checksums_of_parts_are_announced_and_checked_again(
    store: S3Store, server: StubServer
) -> None:
    created = (
        "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
    )
    done = "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"
    server.answers = [
        Answer(body=created.encode()),
        Answer(headers={"ETag": '"part"', "x-amz-checksum-crc32": "AAAAAA=="}),
        Answer(body=done.encode()),
    ]
    assert store.put("k", io.BytesIO(b"x" * PART_SIZE), ANY) == "e"
    create, part, complete = server.requests
    assert create.headers["x-amz-checksum-algorithm"] == "CRC32"
    assert "x-amz-checksum-crc32" in part.headers
    assert b"<ChecksumCRC32>AAAAAA==</ChecksumCRC32>" in complete.body


# Connections


def test_nobody_listens(aws_environment: pytest.MonkeyPatch) -> None:
    port = free_port()
    aws_environment.setenv("AWS_ENDPOINT_URL", f"http://user:secret@127.0.0.1:{port}/path")
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
    store = S3Store("bucket")
    calls: tuple[Callable[[], object], ...] = (
        lambda: store.get("k"),
        lambda: store.put("k", b"", ABSENT),
        lambda: list(store.list()),
    )
    for call in calls:
        with pytest.raises(Unreachable, match=rf"127\.0\.0\.1:{port} does not answer") as raised:
            call()
        assert "secret" not in raised.value.message
        assert "AWS_ENDPOINT_URL" in str(raised.value.hint)


def test_an_endpoint_that_is_no_url(aws_environment: pytest.MonkeyPatch) -> None:
    for endpoint in ("localhost:9000", "not a url", "http://", "https://u:secret@h?q=secret"):
        aws_environment.setenv("AWS_ENDPOINT_URL", endpoint)
        with pytest.raises(UsageError, match="endpoint") as raised:
            S3Store("bucket").get("k")
        assert "AWS_ENDPOINT_URL" in str(raised.value.hint)
        assert "secret" not in raised.value.message


@pytest.mark.parametrize(
    ("unset", "said"),
    [
        (("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "no credentials"),
        (("AWS_SECRET_ACCESS_KEY",), "incomplete"),
    ],
)
def test_no_credentials(
    store: S3Store, aws_environment: pytest.MonkeyPatch, unset: tuple[str, ...], said: str
) -> None:
    for name in unset:
        aws_environment.delenv(name)
    with pytest.raises(PermissionDenied, match=said) as raised:
        store.get("k")
    assert "AWS_ACCESS_KEY_ID" in str(raised.value.hint)


# Single operations


def test_a_body_that_fails_speaks_for_itself(store: S3Store) -> None:
    class Changed(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise IntegrityError("the file changed")

    for condition in (ANY, ABSENT):
        for size in (10, PART_SIZE):
            with pytest.raises(IntegrityError, match="the file changed"):
                store.put("k", Changed(b"x" * size), condition)


def test_listing_out_of_order_is_refused(store: S3Store, server: StubServer) -> None:
    entry = (
        "<Contents><Key>prefix/{}</Key><Size>1</Size><ETag>e</ETag>"
        "<LastModified>2030-01-01T00:00:00.000Z</LastModified></Contents>"
    )
    page = "<ListBucketResult><IsTruncated>false</IsTruncated>{}</ListBucketResult>"
    entries = "".join(entry.format(key) for key in ("b", "a"))
    server.answers = [Answer(body=page.format(entries).encode())]
    with pytest.raises(Unsupported, match="in order"):
        list(store.list())


def test_what_a_batch_delete_could_not_delete_is_named(store: S3Store, server: StubServer) -> None:
    failed = "<Error><Key>prefix/{}</Key><Code>{}</Code><Message>m</Message></Error>"
    for code, error in (("AccessDenied", PermissionDenied), ("InternalError", Unreachable)):
        body = failed.format("gone", "NoSuchKey") + failed.format("kept", code)
        server.answers = [Answer(body=f"<DeleteResult>{body}</DeleteResult>".encode())]
        with pytest.raises(error, match="prefix/kept"):
            store.delete(["gone", "kept"])


def test_a_404_without_a_body_is_looked_into_once(store: S3Store, server: StubServer) -> None:
    server.answers = [Answer(404), Answer(404)]
    with pytest.raises(BucketNotFound):
        store.head("k")
    server.answers = [Answer(404), OK, Answer(404)]
    for _ in range(3):
        with pytest.raises(ObjectNotFound, match="prefix/k"):
            store.head("k")
    assert [request.path.count("/") for request in server.requests] == [3, 1, 3, 1, 3, 3]


# Joining parts

_STARTED = Answer(
    body=b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
)


def joins(server: StubServer) -> list[Request]:
    """Return the requests that joined parts."""
    return [each for each in server.requests if each.method == "POST" and "uploadId=" in each.path]


@pytest.mark.parametrize("condition", [ABSENT, Match(Version("v"))])
@pytest.mark.parametrize("answer", [s3_error(500, "InternalError"), s3_error(503, "SlowDown")])
def test_joining_parts_on_a_condition_is_never_repeated(
    aws_environment: pytest.MonkeyPatch,
    store: S3Store,
    server: StubServer,
    condition: Condition,
    answer: Answer,
) -> None:
    """The first try may have had effect; the second one would call the race that it won lost."""
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "3")
    server.answers = [answer]
    parts = [Part(1, 5, '"tag"')]
    with pytest.raises(Unreachable):
        store.uploads().complete("k", UploadId("u"), parts, condition)
    (sent,) = joins(server)
    assert sent.headers.get("If-None-Match" if condition == ABSENT else "If-Match")


def test_joining_parts_without_a_condition_is_repeated(
    aws_environment: pytest.MonkeyPatch, store: S3Store, server: StubServer
) -> None:
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "3")
    joined = b"<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"
    server.answers = [s3_error(500, "InternalError"), Answer(body=joined)]
    parts = [Part(1, 5, '"tag"')]
    assert store.uploads().complete("k", UploadId("u"), parts, ANY) == "e"
    assert len(joins(server)) == 2


def test_a_stream_that_must_be_new_is_joined_once(
    aws_environment: pytest.MonkeyPatch, store: S3Store, server: StubServer
) -> None:
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "3")
    gone = Answer(404)
    failed = s3_error(500, "InternalError")
    # Not there, but the bucket; begun; one part; joined; then it is aborted.
    server.answers = [gone, OK, _STARTED, OK, failed, Answer(204)]

    class Unknown(io.BytesIO):
        """A stream that does not tell its length."""

        def seekable(self) -> bool:
            return False

        def seek(self, *_: int) -> int:
            raise io.UnsupportedOperation

        def tell(self) -> int:
            raise io.UnsupportedOperation

        def fileno(self) -> int:
            raise io.UnsupportedOperation

    with pytest.raises(Unreachable):
        store.put("k", Unknown(bytes(PART_SIZE)), ABSENT)
    (sent,) = joins(server)
    assert sent.headers["If-None-Match"] == "*"
    assert methods(server)[-1] == "DELETE"


# Deletions


@pytest.mark.parametrize("count", [1, 999, 1_000, 1_001, 2_500])
def test_a_request_deletes_a_thousand_objects_at_most(
    store: S3Store, server: StubServer, count: int
) -> None:
    """AWS refuses more, and moto does not."""
    server.answers = [Answer(body=b"<DeleteResult></DeleteResult>")]
    store.delete(f"k{number:05}" for number in range(count))
    pages = [each.body.count(b"<Key>") for each in server.requests]
    assert sum(pages) == count
    assert pages[:-1] == [1_000] * (len(pages) - 1)
    assert 0 < pages[-1] <= 1_000
    named = b"".join(each.body for each in server.requests)
    assert all(b"<Key>prefix/k%05d</Key>" % number in named for number in range(count))


# Batches


@pytest.mark.usefixtures("sdk_alone")
def test_errors_of_a_batch_are_raised_by_flush(store: S3Store, server: StubServer) -> None:
    server.answers = [OK, s3_error(403, "AccessDenied"), OK]
    batch = store.batch()
    for number in range(100):
        batch.put_new(f"k{number}", b"body")
    with pytest.raises(PermissionDenied, match="prefix/k"):
        batch.flush()
    assert len(server.requests) == 100
    batch.put_new("k", b"body")
    batch.flush()


def test_a_batch_is_create_only(store: S3Store, server: StubServer) -> None:
    server.answers = [s3_error(412, "PreconditionFailed")]
    batch = store.batch()
    batch.put_new("k", b"body")
    batch.flush()
    assert server.requests[0].headers["If-None-Match"] == "*"
    assert methods(server) == ["PUT"]


def test_a_batch_waits_for_another_writer_of_the_key(store: S3Store, server: StubServer) -> None:
    server.answers = [s3_error(409, "ConditionalRequestConflict"), OK]
    batch = store.batch()
    batch.put_new("k", b"body")
    batch.flush()
    assert methods(server) == ["PUT", "PUT"]


def test_a_conflict_that_lasts_decides_nothing(
    store: S3Store, server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Callers that go on with other objects catch `Unreachable`."""
    waited: list[float] = []
    retries = partial(Retries, sleep=waited.append)
    monkeypatch.setattr("lakecli.objectstore.s3.store.Retries", retries)
    for code in ("ConditionalRequestConflict", "OperationAborted", "SomethingElse"):
        waited.clear()
        server.answers = [s3_error(409, code)]
        with pytest.raises(Unreachable, match=code):
            store.put_new("k", b"body")
        assert len(waited) == 4


def test_the_environment_cannot_make_a_deletion_outlast_a_sweep(
    store: S3Store, server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "50")
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    server.answers = [s3_error(503, "SlowDown")]
    with pytest.raises(Unreachable, match="SlowDown"):
        store.delete(["k"])
    assert len(server.requests) == REQUESTS.attempts


@pytest.mark.usefixtures("sdk_alone")
def test_a_batch_does_without_conditions_where_there_are_none(
    store: S3Store, server: StubServer
) -> None:
    server.answers = [
        s3_error(501, "NotImplemented"),
        Answer(404),  # no such object
        OK,  # but the bucket
        OK,  # so it is put
        Answer(headers={"ETag": '"e"', "Last-Modified": "Tue, 01 Jan 2030 00:00:00 GMT"}),
    ]
    batch = store.batch()
    batch.put_new("new", b"body")
    batch.flush()
    batch.put_new("there", b"body")
    batch.flush()
    assert methods(server) == ["PUT", "HEAD", "HEAD", "PUT", "HEAD"]
    assert "If-None-Match" not in server.requests[3].headers
    server.answers = [s3_error(501, "NotImplemented")]
    with pytest.raises(Unsupported):
        store.put("ref", b"", ABSENT)


def test_our_loggers_keep_secrets(
    store: S3Store, server: StubServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="lakecli")
    server.answers = [s3_error(403, "SignatureDoesNotMatch")]
    with pytest.raises(PermissionDenied):
        store.get("k")
    assert not [record for record in caplog.records if record.name.startswith("lakecli")]


def test_metadata_that_http_cannot_carry(store: S3Store) -> None:
    with pytest.raises(UsageError, match="Non ascii characters") as raised:
        store.put("k", b"", ANY, metadata={"k": "ü"})
    assert "\n" not in raised.value.message


def test_a_version_is_asked_for_where_a_put_does_not_tell(
    store: S3Store, server: StubServer
) -> None:
    head = Answer(headers={"ETag": '"e"', "Last-Modified": "Tue, 01 Jan 2030 00:00:00 GMT"})
    server.answers = [Answer(), head]
    assert store.put("k", b"body", ANY) == "e"
    assert methods(server) == ["PUT", "HEAD"]

"""Errors of S3: the contract of all clouds, and what is only S3's."""

from __future__ import annotations

import io
import logging
from base64 import b64encode
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

import google_crc32c
import pytest

from lakecli.base.retry import REQUESTS, Retries
from lakecli.errors import (
    IntegrityError,
    LakeError,
    PermissionDenied,
    Refused,
    Unreachable,
    Unsupported,
    UsageError,
)
from lakecli.stores.capabilities import PART_SIZE, UploadedPart, UploadId
from lakecli.stores.contract import (
    ABSENT,
    ANY,
    Attributes,
    BucketNotFound,
    ConditionFailed,
    Match,
    ObjectArchived,
    ObjectNotFound,
    Version,
)
from lakecli.stores.s3 import uploads
from lakecli.stores.s3.direct_requests import DirectRequests
from lakecli.stores.s3.store import S3Store
from tests.stores.errors_contract import ErrorContract, ErrorTable, Failure, methods
from tests.support.memory_store import MemoryStore
from tests.support.servers import ACCESS_KEY, SECRET_KEY, Answer, Request, StubServer, s3_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakecli.stores.contract import Condition

OK = Answer(headers={"ETag": '"etag"'})
HEAD = Answer(headers={"ETag": '"e"', "Last-Modified": "Tue, 01 Jan 2030 00:00:00 GMT"})


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
def persistent(store: S3Store, aws_environment: pytest.MonkeyPatch, sdk_alone: None) -> S3Store:
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "3")
    aws_environment.setattr("botocore.endpoint.time.sleep", lambda _: None)
    return store


@pytest.fixture
def connect(aws_environment: pytest.MonkeyPatch) -> Callable[[str], S3Store]:
    def make(url: str) -> S3Store:
        aws_environment.setenv("AWS_ENDPOINT_URL", f"{url}/path")
        aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
        return S3Store("bucket")

    return make


@pytest.fixture
def without_credentials(aws_environment: pytest.MonkeyPatch) -> None:
    aws_environment.delenv("AWS_ACCESS_KEY_ID")
    aws_environment.delenv("AWS_SECRET_ACCESS_KEY")


@pytest.fixture
def sdk_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send no direct requests, so that those of the SDK can be counted."""
    monkeypatch.setattr(DirectRequests, "_usable_settings", lambda _: None)


_LISTED = (
    "<Contents><Key>prefix/{}</Key><Size>1</Size><ETag>e</ETag>"
    "<LastModified>2030-01-01T00:00:00.000Z</LastModified></Contents>"
)


def listing(*keys: str) -> Answer:
    objects = "".join(map(_LISTED.format, keys))
    page = f"<ListBucketResult><IsTruncated>false</IsTruncated>{objects}</ListBucketResult>"
    return Answer(body=page.encode())


def deletion(code: str) -> Answer:
    """Return the answer to a deletion of an object that does not exist, and of one that stays."""
    failed = "<Error><Key>prefix/{}</Key><Code>{}</Code><Message>m</Message></Error>"
    body = failed.format("gone", "NoSuchKey") + failed.format("kept", code)
    return Answer(body=f"<DeleteResult>{body}</DeleteResult>".encode())


class TestS3Errors(ErrorContract):
    table = ErrorTable(
        uri="s3://bucket",
        ok=OK,
        version="etag",
        busy=s3_error(503, "SlowDown"),
        no_bucket=s3_error(404, "NoSuchBucket"),
        failures=(
            Failure(s3_error(503, "SlowDown"), Unreachable, "SlowDown", "wait"),
            Failure(s3_error(500, "InternalError"), Unreachable, "InternalError", "wait"),
            Failure(Answer(502, b"<html>bad gateway</html>"), Unreachable, "502", "wait"),
            Failure(s3_error(429, "TooManyRequests"), Unreachable, "TooManyRequests", "wait"),
            Failure(s3_error(400, "RequestTimeout"), Unreachable, "RequestTimeout", "wait"),
            Failure(s3_error(403, "AccessDenied"), PermissionDenied, "AccessDenied", "check the"),
            Failure(s3_error(401, "Unauthorized"), PermissionDenied, "Unauthorized", "check the"),
            Failure(
                s3_error(403, "InvalidAccessKeyId"),
                PermissionDenied,
                "refused",
                "AWS_ACCESS_KEY_ID",
            ),
            Failure(
                s3_error(403, "SignatureDoesNotMatch"), PermissionDenied, "refused", "AWS_SECRET"
            ),
            Failure(s3_error(403, "RequestTimeTooSkewed"), PermissionDenied, "refused", "clock"),
            Failure(
                s3_error(400, "ExpiredToken"), PermissionDenied, "refused", "AWS_SESSION_TOKEN"
            ),
            Failure(
                s3_error(400, "InvalidToken"), PermissionDenied, "refused", "AWS_SESSION_TOKEN"
            ),
            Failure(
                s3_error(400, "AuthorizationHeaderMalformed"), PermissionDenied, "", "AWS_REGION"
            ),
            Failure(s3_error(404, "NoSuchBucket"), BucketNotFound, "no such bucket", "aws s3 mb"),
            Failure(s3_error(301, "PermanentRedirect"), Refused, "not served by", "AWS_REGION"),
            Failure(
                Answer(302, headers={"Location": "https://elsewhere/"}),
                Refused,
                "not served by",
                "URL",
            ),
            Failure(s3_error(501, "NotImplemented"), Unsupported, "cannot do", None),
            Failure(s3_error(405, "MethodNotAllowed"), Unsupported, "cannot do", None),
            Failure(
                s3_error(507, "InsufficientStorage"), Unreachable, "no space left", "free some"
            ),
            Failure(s3_error(403, "QuotaExceeded"), Unreachable, "no space left", "quota"),
            Failure(
                s3_error(403, "InvalidObjectState"), ObjectArchived, "restore it", "restore-object"
            ),
            Failure(
                s3_error(403, "ObjectNotInActiveTierError"), ObjectArchived, "archived", "Days=7"
            ),
            Failure(s3_error(400, "KeyTooLongError"), UsageError, "key too long", None),
            Failure(s3_error(400, "BadDigest"), IntegrityError, "other bytes", "repeat"),
            Failure(s3_error(400, "Strange", "odd."), Refused, "Strange, odd:", None),
        ),
        calls=(),  # answers to HEAD have no body
        unsaid=(SECRET_KEY, ACCESS_KEY),
        lost_races=(
            s3_error(412, "PreconditionFailed"),
            s3_error(409, "ConditionalRequestConflict"),
            s3_error(404, "NoSuchKey"),
        ),
        existing=(s3_error(412, "PreconditionFailed"),),
        conditions=(("*", None), (None, "77"), (None, None)),
        condition_of=lambda request: (
            request.headers.get("If-None-Match"),
            request.headers.get("If-Match"),
        ),
        good={
            "get": Answer(body=b"body"),
            "head": HEAD,
            "put": OK,
            "list": listing(),
            "copy": Answer(body=b"<CopyObjectResult><ETag>e</ETag></CopyObjectResult>"),
            "delete": Answer(body=b"<DeleteResult></DeleteResult>"),
        },
        tried_once=(b"body", io.BytesIO(b"body"), io.BytesIO(b"x" * PART_SIZE)),
        writes_by="PUT",
        cut=Answer(body=b"x" * 1_000, sent=10),
        cut_again=(Answer(body=b"x" * 1_000, sent=10),) * 2,
        rest=Answer(body=b"x" * 1_000),
        unordered=listing("b", "a"),
        undeleted=(
            (deletion("AccessDenied"), PermissionDenied),
            (deletion("InternalError"), Unreachable),
        ),
        named="prefix/kept",
        unreachable_hint="AWS_ENDPOINT_URL",
        no_credentials=("no credentials", "AWS_ACCESS_KEY_ID"),
    )


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("User u is not authorized to perform: kms:GenerateDataKey on r", "kms:GenerateDataKey"),
        ("Access Denied", "`help clouds`"),
    ],
)
def test_a_refusal_says_why_in_the_words_of_the_store(
    store: S3Store, server: StubServer, text: str, hint: str
) -> None:
    refused = s3_error(403, "AccessDenied", text)
    deletion = (
        f"<Error><Key>prefix/k</Key><Code>AccessDenied</Code><Message>{text}</Message></Error>"
    )
    for answer, call in (
        (refused, lambda: store.put("k", b"", ANY)),
        (refused, lambda: store.get("k")),
        (refused, lambda: list(store.list())),
        (
            Answer(200, f"<DeleteResult>{deletion}</DeleteResult>".encode()),
            lambda: store.delete("k"),
        ),
    ):
        server.answers = [answer]
        with pytest.raises(PermissionDenied) as raised:
            call()
        assert text in raised.value.message
        assert hint in str(raised.value.hint)
        assert "s3:" not in str(raised.value.hint)


def drain(stream: BinaryIO) -> None:
    while stream.read(50_000):
        pass


@pytest.mark.parametrize(
    ("status", "error", "hint"),
    [
        (302, Refused, "AWS_ENDPOINT_URL"),
        (400, Refused, "set AWS_REGION to the region of the bucket"),
        (403, PermissionDenied, "without the permission to list"),
        (503, Unreachable, "wait"),
    ],
)
def test_answers_to_head_have_no_body(
    *, store: S3Store, server: StubServer, status: int, error: type[LakeError], hint: str | None
) -> None:
    server.answers = [Answer(status)]
    with pytest.raises(error) as raised:
        store.head("k")
    assert (hint or "None") in str(raised.value.hint)


def test_a_bare_refusal_of_a_name_is_not_blamed_on_the_region(
    store: S3Store, server: StubServer
) -> None:
    server.answers = [Answer(400)]
    with pytest.raises(Refused) as raised:
        store.put("back\\slash", b"", ANY)
    assert raised.value.hint == "see whether the server takes an object of this name"


# Retries


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
        Answer(headers={"ETag": '"part"'}),
        Answer(body=done.encode()),
    ]
    body = b"x" * PART_SIZE
    assert store.put("k", io.BytesIO(body), ANY) == "e"
    checksum = b64encode(google_crc32c.value(body).to_bytes(4)).decode()
    create, part, complete = server.requests
    assert create.headers["x-amz-checksum-algorithm"] == "CRC32C"
    assert part.headers["x-amz-checksum-crc32c"] == checksum
    assert f"<ChecksumCRC32C>{checksum}</ChecksumCRC32C>".encode() in complete.body


# Connections


def test_a_plain_request_is_repeated_by_the_sdk_unless_it_is_conditional(
    store: S3Store, server: StubServer, aws_environment: pytest.MonkeyPatch
) -> None:
    """The contract counts requests of the SDK; here a direct one comes before."""
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "3")
    server.answers = [s3_error(503, "SlowDown"), Answer(body=b"body")]
    assert store.get("k") == b"body"
    server.answers = [s3_error(500, "InternalError"), OK]
    store.put("k", b"body", ANY)
    assert methods(server) == ["GET", "GET", "PUT", "PUT"]
    for condition in (ABSENT, Match(Version("v"))):
        server.requests.clear()
        server.answers = [s3_error(503, "SlowDown"), OK]
        with pytest.raises(Unreachable):
            store.put("k", b"body", condition)
        assert methods(server) == ["PUT"]


def test_half_of_the_credentials_is_incomplete(
    store: S3Store, aws_environment: pytest.MonkeyPatch
) -> None:
    aws_environment.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(PermissionDenied, match="incomplete") as raised:
        store.get("k")
    assert "AWS_ACCESS_KEY_ID" in str(raised.value.hint)


def test_an_endpoint_that_is_no_url_is_refused(aws_environment: pytest.MonkeyPatch) -> None:
    for endpoint in ("localhost:9000", "not a url", "http://", "https://u:secret@h?q=secret"):
        aws_environment.setenv("AWS_ENDPOINT_URL", endpoint)
        with pytest.raises(UsageError, match="endpoint") as raised:
            S3Store("bucket").get("k")
        assert "secret" not in raised.value.message


# Single operations


def test_a_404_without_a_body_is_checked_for_a_missing_bucket_once(
    store: S3Store, server: StubServer
) -> None:
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


def test_joining_parts_is_repeated(
    aws_environment: pytest.MonkeyPatch, store: S3Store, server: StubServer
) -> None:
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "3")
    joined = b"<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"
    server.answers = [s3_error(500, "InternalError"), Answer(body=joined)]
    parts = [UploadedPart(1, 5, '"tag"')]
    assert store.uploads().complete("k", UploadId("u"), parts) == "e"
    assert len(joins(server)) == 2


@pytest.mark.parametrize(
    ("size", "condition", "is_whole"),
    [
        (PART_SIZE - 1, ANY, True),
        (PART_SIZE, ANY, False),
        (PART_SIZE, ABSENT, True),
        (PART_SIZE, Match(Version("v")), True),
    ],
)
def test_one_request_writes_a_small_object_or_one_with_a_condition(
    *,
    store: S3Store,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    condition: Condition,
    is_whole: bool,
) -> None:
    sent: list[bool] = []

    def note(*, whole: bool) -> Callable[..., Version]:
        def send(*_: object) -> Version:
            sent.append(whole)
            return Version("v")

        return send

    monkeypatch.setattr(store, "_put_whole", note(whole=True))
    monkeypatch.setattr(store, "_put_stream", note(whole=False))
    store.put("k", io.BytesIO(bytes(size)), condition)
    assert sent == [is_whole]


def test_parts_have_checksums_only_if_so_configured(
    store: S3Store, server: StubServer, aws_environment: pytest.MonkeyPatch
) -> None:
    aws_environment.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    joined = b"<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"
    part = Answer(headers={"ETag": '"p"', "x-amz-checksum-type": "FULL_OBJECT"})
    server.answers = [_STARTED, part, Answer(body=joined)]
    assert store.put("k", io.BytesIO(bytes(PART_SIZE)), ANY) == "e"
    assert not [name for name in server.requests[0].headers if "checksum" in name.lower()]
    assert b"Checksum" not in server.requests[-1].body


def test_a_range_is_copied_up_to_its_last_byte() -> None:
    part = uploads.COPY_PART_SIZE
    assert list(uploads.ranges_of(1)) == ["bytes=0-0"]
    assert list(uploads.ranges_of(part)) == [f"bytes=0-{part - 1}"]
    assert list(uploads.ranges_of(part + 1)) == [f"bytes=0-{part - 1}", f"bytes={part}-{part}"]


# Copies


def test_a_copy_from_another_bucket_has_its_own_attributes(
    store: S3Store, server: StubServer
) -> None:
    server.answers = [Answer(body=b"<CopyObjectResult><ETag>e</ETag></CopyObjectResult>")]
    source = S3Store("source", "from", region="eu-north-1")
    attributes = Attributes("text/csv", {"a": "b"})
    assert store.copy_from(source, "k", "to", attributes)
    (sent,) = server.requests
    assert (sent.method, sent.path) == ("PUT", "/bucket/prefix/to")
    assert sent.headers["x-amz-copy-source"] == "source/from/k"
    assert sent.headers["x-amz-metadata-directive"] == "REPLACE"
    assert (sent.headers["Content-Type"], sent.headers["x-amz-meta-a"]) == ("text/csv", "b")
    assert store.copy_from(source, "k", "to", Attributes())
    assert server.requests[-1].headers["x-amz-metadata-directive"] == "REPLACE"
    assert not store.copy_from(MemoryStore(), "k", "to", attributes)
    assert len(server.requests) == 2


def test_all_parts_of_a_copy_are_of_one_version(
    store: S3Store, server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "SINGLE_LIMIT", 2)
    described = Answer(headers={"ETag": '"e"', "Content-Length": "3"})
    server.answers = [Answer(400), described, _STARTED, Answer(412), Answer(204)]
    with pytest.raises(ConditionFailed):
        store.copy("k", "to")
    assert server.requests[3].headers["x-amz-copy-source-if-match"] == '"e"'
    assert server.requests[4].method == "DELETE"


def test_a_copy_in_the_bucket_keeps_the_attributes(store: S3Store, server: StubServer) -> None:
    server.answers = [Answer(body=b"<CopyObjectResult><ETag>e</ETag></CopyObjectResult>")]
    store.copy("k", "to")
    (sent,) = server.requests
    assert sent.headers["x-amz-copy-source"] == "bucket/prefix/k"
    assert "x-amz-metadata-directive" not in sent.headers


# Listings


def test_a_listing_names_each_object_once(store: S3Store, server: StubServer) -> None:
    server.answers = [listing("a", "a")]
    with pytest.raises(Unsupported, match="order"):
        list(store.list())


# Deletions


@pytest.mark.parametrize("count", [1, 999, 1_000, 1_001, 2_500])
def test_a_request_deletes_a_thousand_objects_at_most(
    store: S3Store, server: StubServer, count: int
) -> None:
    """AWS refuses more; moto does not."""
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
    for number in range(2):
        batch.put_new(f"k{number}", b"body")
    with pytest.raises(PermissionDenied, match="prefix/k"):
        batch.flush()
    assert len(server.requests) == 2
    batch.put_new("k", b"body")
    batch.flush()


def test_a_batch_waits_for_another_writer_of_the_key(store: S3Store, server: StubServer) -> None:
    server.answers = [s3_error(409, "ConditionalRequestConflict"), OK]
    batch = store.batch()
    batch.put_new("k", b"body")
    batch.flush()
    assert methods(server) == ["PUT", "PUT"]


def test_a_conflict_that_lasts_decides_nothing(
    store: S3Store, server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Callers that continue with other objects catch `Unreachable`."""
    waited: list[float] = []
    retries = partial(Retries, sleep=waited.append)
    monkeypatch.setattr("lakecli.stores.s3.store.Retries", retries)
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
def test_a_batch_works_without_conditional_writes(store: S3Store, server: StubServer) -> None:
    server.answers = [
        s3_error(501, "NotImplemented"),
        Answer(404),  # no such object
        OK,  # the bucket exists
        OK,  # the object is written
        Answer(headers={"ETag": '"e"', "Last-Modified": "Tue, 01 Jan 2030 00:00:00 GMT"}),
    ]
    batch = store.batch()
    batch.put_new("new", b"body")
    batch.flush()
    batch.put_new("there", b"body")
    batch.flush()
    assert methods(server) == ["PUT", "HEAD", "HEAD", "PUT", "HEAD"]
    assert "If-None-Match" not in server.requests[3].headers
    server.answers = [Answer(404), OK, HEAD]
    assert [store.put_new("k", b"body") for _ in range(2)] == [True, False]
    server.answers = [s3_error(501, "NotImplemented")]
    with pytest.raises(Unsupported):
        store.put("ref", b"", ABSENT)


def test_lakecli_logs_no_secrets(
    store: S3Store, server: StubServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="lakecli")
    server.answers = [s3_error(403, "SignatureDoesNotMatch")]
    with pytest.raises(PermissionDenied):
        store.get("k")
    signature = server.requests[0].headers["Authorization"].rpartition("Signature=")[2]
    said = [record.getMessage() for record in caplog.records if record.name.startswith("lakecli")]
    assert said
    assert not [text for text in said if signature in text or "Signature" in text or "?" in text]


def test_metadata_that_http_cannot_carry_is_refused(store: S3Store) -> None:
    with pytest.raises(UsageError, match="Non ascii characters") as raised:
        store.put("k", b"", ANY, Attributes(metadata={"k": "ü"}))
    assert "\n" not in raised.value.message


def test_a_version_is_requested_if_a_put_does_not_return_it(
    store: S3Store, server: StubServer
) -> None:
    head = Answer(headers={"ETag": '"e"', "Last-Modified": "Tue, 01 Jan 2030 00:00:00 GMT"})
    server.answers = [Answer(), head]
    assert store.put("k", b"body", ANY) == "e"
    assert methods(server) == ["PUT", "HEAD"]


@pytest.mark.parametrize(
    ("state", "said", "hint"),
    [
        (
            "<StorageClass>GLACIER</StorageClass>",
            "archived (GLACIER), restore it first: 's3://bucket/a b'",
            "aws s3api restore-object --bucket bucket --key 'a b' --restore-request Days=7",
        ),
        (
            "<StorageClass>INTELLIGENT_TIERING</StorageClass><AccessTier>ARCHIVE_ACCESS</AccessTier>",
            "archived (ARCHIVE_ACCESS), restore it first: 's3://bucket/a b'",
            "aws s3api restore-object --bucket bucket --key 'a b'",
        ),
    ],
)
def test_an_archived_object_is_named_as_such(
    server: StubServer, state: str, said: str, hint: str
) -> None:
    body = f"<Error><Code>InvalidObjectState</Code><Message>no</Message>{state}</Error>"
    server.answers = [Answer(403, body.encode())]
    with pytest.raises(ObjectArchived) as raised:
        S3Store("bucket").get("a b")
    assert (raised.value.message, raised.value.hint) == (said, hint)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_CREDENTIAL_EXPIRATION", "garbage"),
        ("AWS_CREDENTIAL_EXPIRATION", "2030-13-99T00:00:00Z"),
        ("AWS_CREDENTIAL_EXPIRATION", "1"),
        ("AWS_MAX_ATTEMPTS", "many"),
    ],
)
def test_a_malformed_setting_is_no_unexpected_error(
    server: StubServer, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    del server
    monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    with pytest.raises(PermissionDenied, match="cannot use the AWS configuration") as raised:
        S3Store("bucket").put("k", b"", ANY)
    assert name in str(raised.value.hint)


@pytest.mark.parametrize(
    "printed",
    [
        "no JSON",
        "[1]",
        '{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "s", "Expiration": 1}',
    ],
)
def test_a_program_that_prints_no_credentials_is_named(
    server: StubServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, printed: str
) -> None:
    del server
    (tmp_path / "config").write_text(f"[profile p]\ncredential_process = echo '{printed}'\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "p")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(PermissionDenied, match="cannot use the AWS configuration") as raised:
        S3Store("bucket").get("k")
    assert "program" in str(raised.value.hint)

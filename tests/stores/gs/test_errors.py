"""Errors of Google Cloud Storage: the contract of all clouds, and what is only its own."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

from lakecli.base.retry import RetryPolicy
from lakecli.errors import (
    IntegrityError,
    LakeError,
    PermissionDenied,
    Refused,
    Unreachable,
    Unsupported,
    UsageError,
)
from lakecli.stores.capabilities import PART_SIZE
from lakecli.stores.contract import (
    ABSENT,
    ANY,
    BucketNotFound,
    Match,
    NotAllowed,
    ObjectNotFound,
    Version,
)
from lakecli.stores.gs.errors import GsTranslator
from lakecli.stores.gs.store import GsStore
from lakecli.stores.streams import READ_SIZE
from tests.stores.errors_contract import ErrorContract, ErrorTable, Failure, methods, with_attempts
from tests.support.servers import Answer, StubServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakecli.stores.contract import Condition

WHOLE = READ_SIZE + 3
OBJECT = {
    "name": "prefix/k",
    "bucket": "bucket",
    "generation": "1234567890123456",
    "size": "4",
    "timeCreated": "2030-01-02T03:04:05.678Z",
    "etag": "CAE=",
    "md5Hash": "hBotaJrYa9FhFEdFPCLG/A==",
    "crc32c": "yZRlqg==",
}


def gs_error(status: int, reason: str, message: str = "said the stub") -> Answer:
    """Return an error as the JSON API writes it."""
    details = {"message": message, "domain": "global", "reason": reason}
    body = {"error": {"code": status, "message": message, "errors": [details]}}
    return Answer(status, json.dumps(body).encode(), {"Content-Type": "application/json"})


def described(**changed: object) -> Answer:
    body = json.dumps(OBJECT | changed).encode()
    return Answer(body=body, headers={"Content-Type": "application/json"})


def part(start: int, body: bytes, *, whole: int = 1_000, sent: int | None = None) -> Answer:
    """Return the answer to a request for a part of an object."""
    span = f"bytes {start}-{start + len(body) - 1}/{whole}"
    return Answer(206, body, {"Content-Range": span}, sent)


OK = described()
LISTED: dict[str, object] = {"kind": "storage#objects"}
EMPTY = Answer(body=json.dumps(LISTED).encode())
NO_BUCKET = gs_error(404, "notFound", "The specified bucket does not exist.")
NO_OBJECT = gs_error(404, "notFound", "No such object: bucket/prefix/k")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubServer]:
    with StubServer(OK) as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        yield server


@pytest.fixture
def store(server: StubServer) -> GsStore:
    return with_attempts(1, GsStore("bucket", "prefix"))


@pytest.fixture
def persistent(server: StubServer, impatient: None) -> GsStore:
    return with_attempts(3, GsStore("bucket", "prefix"))


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], GsStore]:
    def make(url: str) -> GsStore:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
        return with_attempts(1, GsStore("bucket"))

    return make


@pytest.fixture
def without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait between attempts."""
    monkeypatch.setattr("lakecli.stores.gs.client.REQUESTS", RetryPolicy(5, first_delay=0.0))


def batch_answer(*statuses: int) -> Answer:
    parts = "".join(
        "--b\r\nContent-Type: application/http\r\n\r\n"
        f"HTTP/1.1 {status} Said\r\nContent-Type: application/json\r\n\r\n{{}}\r\n"
        for status in statuses
    )
    headers = {"Content-Type": "multipart/mixed; boundary=b"}
    return Answer(200, f"{parts}--b--".encode(), headers)


class TestGsErrors(ErrorContract):
    table = ErrorTable(
        uri="gs://bucket",
        ok=OK,
        version="1234567890123456",
        busy=gs_error(503, "backendError"),
        no_bucket=NO_BUCKET,
        failures=(
            Failure(gs_error(503, "backendError"), Unreachable, "503 backendError", "wait"),
            Failure(gs_error(500, "internalError"), Unreachable, "500", "wait"),
            Failure(Answer(502, b"<html>bad gateway</html>"), Unreachable, "502", "wait"),
            Failure(gs_error(429, "rateLimitExceeded"), Unreachable, "429", "wait"),
            Failure(gs_error(408, "timeout"), Unreachable, "408", "wait"),
            Failure(gs_error(403, "rateLimitExceeded"), Unreachable, "rateLimitExceeded", "wait"),
            Failure(gs_error(403, "forbidden"), PermissionDenied, "403 forbidden", "check the"),
            Failure(
                gs_error(
                    403,
                    "forbidden",
                    "x@my-project.iam.gserviceaccount.com does not have storage.objects.create "
                    "access.",
                ),
                PermissionDenied,
                "does not have storage.objects.create access",
                "decide on storage.objects.create",
            ),
            Failure(
                gs_error(403, "forbidden", "x@a.b.example.com: see https://cloud.google.com/x"),
                PermissionDenied,
                "403 forbidden",
                "check the",
            ),
            Failure(
                NO_BUCKET,
                BucketNotFound,
                "no such bucket",
                "gcloud storage buckets create gs://bucket`,",
            ),
            Failure(gs_error(501, "notImplemented"), Unsupported, "cannot do", None),
            Failure(gs_error(405, "methodNotAllowed"), Unsupported, "cannot do", None),
            Failure(
                gs_error(410, "uploadBrokenConnection"), Unreachable, "unfinished upload", "repeat"
            ),
            Failure(gs_error(400, "invalid", "odd."), Refused, "(400 invalid)", None),
        ),
        calls=(
            lambda store: store.head("k"),
            lambda store: store.put("k", io.BytesIO(b"x" * PART_SIZE), ANY),
        ),
        unsaid=("uploadType",),
        lost_races=(gs_error(412, "conditionNotMet"),),
        existing=(gs_error(412, "conditionNotMet"),),
        conditions=("0", "77", ""),
        condition_of=lambda request: request.path.partition("ifGenerationMatch=")[2],
        good={
            "get": part(10, b"x" * 990),
            "head": OK,
            "put": OK,
            "list": EMPTY,
            "copy": described(done=True, totalBytesRewritten=1, objectSize=1, resource=OBJECT),
        },
        tried_once=(b"body", io.BytesIO(b"body")),
        writes_by="POST",
        cut=Answer(body=b"x" * 1_000, sent=10),
        cut_again=(part(10, b"x" * 990, sent=10), part(20, b"x" * 980, sent=10)),
        rest=part(20, b"x" * 980),
        unordered=Answer(
            body=json.dumps(
                LISTED | {"items": [OBJECT | {"name": f"prefix/{name}"} for name in ("b", "a")]}
            ).encode()
        ),
        undeleted=((batch_answer(404, 403), PermissionDenied),),
        named="prefix/kept",
        unreachable_hint="STORAGE_EMULATOR_HOST",
        no_credentials=("were not found", "GOOGLE_APPLICATION_CREDENTIALS", "gcloud auth"),
    )


def test_rejected_credentials_are_reported() -> None:
    # Without a server, because the SDK would request new credentials after this answer.
    from google.api_core.exceptions import Unauthorized

    refusal = Unauthorized("GET https://storage.example/?secret: odd")  # type: ignore[no-untyped-call]
    translated = GsTranslator("gs://bucket", lambda: "storage.example").translated("k")
    said = r"storage\.example refused .*401"
    with pytest.raises(PermissionDenied, match=said) as raised, translated:
        raise refusal
    assert "secret" not in raised.value.message
    assert "gcloud auth" in str(raised.value.hint)


def test_a_conflict_decides_nothing(store: GsStore, server: StubServer) -> None:
    # Taking it for "exists already" would lose the object if the other writer fails.
    server.answers = [gs_error(409, "conflict")]
    conditions: tuple[Condition, ...] = (ANY, ABSENT, Match(Version("1234")))
    for condition in conditions:
        with pytest.raises(Unreachable, match="409 conflict"):
            store.put("k", b"body", condition)
    batch = store.batch()
    batch.put_new("k", b"body")
    with pytest.raises(Unreachable, match="409 conflict"):
        batch.flush()


def test_an_answer_without_a_generation_is_no_version(store: GsStore, server: StubServer) -> None:
    server.answers = [described(generation=None)]
    for call in (lambda: store.put("k", b"", ABSENT), lambda: store.head("k")):
        with pytest.raises(Unreachable, match="cannot be used, it has no generation"):
            call()


# Retries


@pytest.mark.usefixtures("impatient")
def test_a_conditional_stream_is_sent_once(server: StubServer) -> None:
    store = with_attempts(2, GsStore("bucket"))
    busy = gs_error(503, "backendError")
    begun = Answer(headers={"Location": f"{server.url}/upload?upload_id=secret"})
    more = Answer(308, headers={"Range": f"bytes=0-{PART_SIZE - 1}"})
    server.answers = [begun, busy, OK]
    body = b"x" * (PART_SIZE + 1)
    with pytest.raises(Unreachable, match="503") as raised:
        store.put("k", io.BytesIO(body), Match(Version("1")))
    assert methods(server) == ["POST", "PUT"]
    assert "secret" not in raised.value.message
    server.requests.clear()
    server.answers = [busy, begun, busy, more, busy, described(crc32c="n5uBqQ==")]
    with pytest.raises(
        IntegrityError
    ):  # the upload is complete, and the checksum of the stub is compared
        store.put("k", io.BytesIO(body), ANY)
    assert methods(server)[:6] == ["POST", "POST", "PUT", "PUT", "PUT", "PUT"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (gs_error(400, "invalid", "invalid uploadType"), Unsupported),
        (Answer(404, b"Not Found\n"), Unsupported),
        (Answer(405), Unsupported),
        (Answer(501, b"{}"), Unsupported),
        (Answer(400, b"<?xml version='1.0'?><Error><Code>InvalidArgument</Code></Error>"), Refused),
        (Answer(404, b"<html>not here</html>"), BucketNotFound),
        (gs_error(403, "forbidden"), NotAllowed),
    ],
)
def test_servers_without_uploads_in_parts_are_recognised(
    store: GsStore, server: StubServer, answer: Answer, error: type[LakeError]
) -> None:
    server.answers = [answer]
    with pytest.raises(LakeError) as raised:
        store.uploads().start("k")
    assert type(raised.value) is error


def test_servers_without_uploads_in_parts_have_no_unfinished_ones(
    store: GsStore, server: StubServer
) -> None:
    server.answers = [Answer(body=b"<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>")]
    assert list(store.uploads().iter_unfinished("k")) == []
    server.answers = [Answer(404, b"Not Found\n")]
    assert list(store.uploads().iter_unfinished("k")) == []
    server.answers = [Answer(body=b"<ListMultipartUploadsResult></ListMultipartUploadsResult>")]
    with pytest.raises(Unreachable, match="without IsTruncated"):
        list(store.uploads().iter_unfinished("k"))


def test_an_upload_that_the_server_dropped_is_reported(store: GsStore, server: StubServer) -> None:
    begun = Answer(headers={"Location": f"{server.url}/upload?upload_id=x"})
    server.answers = [begun, gs_error(404, "notFound"), EMPTY]
    with pytest.raises(Unreachable, match="lost an unfinished upload"):
        store.put("k", io.BytesIO(b"x" * PART_SIZE), ANY)
    server.answers = [NO_BUCKET]
    with pytest.raises(BucketNotFound):
        store.put("k", io.BytesIO(b"x" * PART_SIZE), ANY)


# Answers to downloads


def test_damaged_bodies_are_noticed(store: GsStore, server: StubServer) -> None:
    server.answers = [Answer(body=b"flipped", headers={"X-Goog-Hash": "crc32c=AAAAAA=="})]
    with pytest.raises(IntegrityError, match="other bytes than its checksum"):
        store.get("k")
    with pytest.raises(IntegrityError, match="other bytes than their checksum"):
        store.open("k")


def test_a_large_object_is_read_from_one_generation(store: GsStore, server: StubServer) -> None:
    pieces = part(0, b"x" * READ_SIZE, whole=WHOLE), part(READ_SIZE, b"end", whole=WHOLE)
    for each in pieces:
        each.headers["X-Goog-Generation"] = "77"
    server.answers = list(pieces)
    with store.open("k") as stream:
        assert stream.read() == b"x" * READ_SIZE + b"end"
    assert ["generation=77" in request.path for request in server.requests] == [False, True]


def test_a_missing_generation_is_requested(store: GsStore, server: StubServer) -> None:
    # A proxy may remove the header, without which the generation is unknown.
    piece = part(0, b"x" * READ_SIZE, whole=WHOLE)
    rest = part(READ_SIZE, b"end", whole=WHOLE)
    server.answers = [piece, described(generation="88"), piece, rest]
    with store.open("k") as stream:
        assert stream.read() == b"x" * READ_SIZE + b"end"
    paths = [request.path for request in server.requests]
    assert ["generation=88" in path for path in paths] == [False, False, True, True]
    server.answers = [part(0, b"small", whole=5)]
    with store.open("k") as stream:
        assert stream.read() == b"small"


def test_bytes_and_version_agree_without_the_header(store: GsStore, server: StubServer) -> None:
    gone = gs_error(404, "notFound", "No such object: bucket/prefix/k")
    old, new = described(generation="88"), described(generation="89")
    server.answers = [Answer(body=b"old"), old, gone, new, Answer(body=b"new")]
    assert store.get_versioned("k") == (b"new", "89")
    paths = [request.path for request in server.requests if "alt=media" in request.path]
    assert [path.partition("generation=")[2].partition("&")[0] for path in paths] == [
        "",
        "88",
        "89",
    ]


def test_an_answer_longer_than_the_range_is_refused(store: GsStore, server: StubServer) -> None:
    server.answers = [Answer(200, b"0123456789")]
    assert store.get("k") == b"0123456789"
    for start, length in ((2, 3), (-3, None)):
        with pytest.raises(Unsupported, match="with that part"):
            store.get("k", start=start, length=length)


# Listing and deleting


@pytest.mark.usefixtures("impatient")
def test_deletions_that_fail_are_repeated_or_named(server: StubServer) -> None:
    store = with_attempts(2, GsStore("bucket", "prefix"))
    busy = gs_error(503, "backendError")
    server.answers = [busy, batch_answer(204, 404, 503), busy, Answer(204), EMPTY]
    store.delete(["a", "gone", "busy"])
    assert methods(server) == ["POST", "POST", "DELETE", "DELETE", "GET"]
    server.answers = [batch_answer(204, 403)]
    with pytest.raises(PermissionDenied, match="prefix/kept"):
        store.delete(["a", "kept"])


@pytest.mark.parametrize(
    "ignored", [batch_answer(), batch_answer(204), Answer(body=b"null"), Answer(body=b"")]
)
def test_without_batches_deletions_are_sent_one_by_one(
    store: GsStore, server: StubServer, ignored: Answer
) -> None:
    gone = gs_error(412, "conditionNotMet")
    deleted = [Answer(204), NO_OBJECT]  # each is looked for, since such a server may say anything
    server.answers = [ignored, *deleted, Answer(body=b"null"), NO_OBJECT, gone, *deleted, OK]
    versions = [Version(str(number)) for number in range(1, 5)]
    objects = zip("abcd", versions, strict=True)
    assert store.delete_matching(objects) == ["c"]
    pair = ["DELETE", "GET"]
    assert methods(server) == ["POST", *pair, *pair, "DELETE", *pair, "GET"]
    deletions = [each for each in server.requests if each.method == "DELETE"]
    asked = [each.path.partition("ifGenerationMatch=")[2][:1] for each in deletions]
    assert asked == ["1", "2", "3", "4"]
    server.requests.clear()
    server.answers = [*deleted, *deleted]
    store.delete(["e", "f"])
    assert methods(server) == [*pair, *pair]


def test_a_404_is_checked_for_a_missing_bucket_once(store: GsStore, server: StubServer) -> None:
    server.answers = [NO_OBJECT, NO_BUCKET]
    with pytest.raises(BucketNotFound):
        store.head("k")
    server.answers = [NO_OBJECT, gs_error(403, "forbidden"), NO_OBJECT, EMPTY, NO_OBJECT]
    for _ in range(3):
        with pytest.raises(ObjectNotFound, match="prefix/k"):
            store.head("k")
    assert len(server.requests) == 7


# Connections and credentials


def test_an_endpoint_that_is_no_url_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for endpoint in ("localhost:9000", "not a url", "http://"):
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", endpoint)
        with pytest.raises(UsageError, match="STORAGE_EMULATOR_HOST"):
            GsStore("bucket").get("k")


def test_missing_credentials_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for file, said in (("", "were not found"), (str(tmp_path / "missing.json"), "was not found")):
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
        with pytest.raises(PermissionDenied, match=said) as raised:
            GsStore("bucket").get("k")
        assert "GOOGLE_APPLICATION_CREDENTIALS" in str(raised.value.hint)
        assert "gcloud auth" in str(raised.value.hint)

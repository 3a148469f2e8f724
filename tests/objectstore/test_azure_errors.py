"""What becomes of the errors of Azure, real ones not being given on demand."""

from __future__ import annotations

import io
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

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
from lakecli.objectstore.azure.store import AzureStore
from lakecli.objectstore.base import (
    ABSENT,
    ANY,
    BucketNotFound,
    ConditionFailed,
    Match,
    ObjectNotFound,
    Version,
)
from lakecli.objectstore.capabilities import renew
from lakecli.objectstore.streams import PART_SIZE
from lakecli.retry import Retries
from tests.support.azurite import ACCOUNT, KEY, connection_string
from tests.support.servers import Answer, StubServer, free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakecli.objectstore.base import Condition

MODIFIED = "Wed, 02 Jan 2030 03:04:05 GMT"
OK = Answer(201, headers={"ETag": '"0x1"', "Last-Modified": MODIFIED})
FOUND = {"ETag": '"0x1"', "Last-Modified": MODIFIED, "x-ms-blob-type": "BlockBlob"}


def azure_error(status: int, code: str, message: str = "said the stub.") -> Answer:
    """Return an error as Azure writes it."""
    text = f"<Code>{code}</Code><Message>{message}\nRequestId:1</Message>"
    body = f"<?xml version='1.0'?><Error>{text}</Error>"
    return Answer(
        status, body.encode(), {"Content-Type": "application/xml", "x-ms-error-code": code}
    )


def batch_answer(*codes: tuple[int, str]) -> Answer:
    parts = "".join(
        f"--b\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\n"
        f"HTTP/1.1 {status} Said\r\nx-ms-error-code: {code}\r\n\r\n\r\n"
        for number, (status, code) in enumerate(codes)
    )
    headers = {"Content-Type": "multipart/mixed; boundary=b"}
    return Answer(202, f"{parts}--b--\r\n".encode(), headers)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubServer]:
    with StubServer(OK) as server:
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection_string(server.url))
        yield server


@pytest.fixture
def store(server: StubServer) -> AzureStore:
    return AzureStore(ACCOUNT, "container", "prefix", attempts=1)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for nothing between attempts."""
    monkeypatch.setattr("azure.storage.blob.ExponentialRetry.get_backoff_time", lambda *_: 0)
    monkeypatch.setattr("azure.storage.blob._download.time.sleep", lambda _: None)


def methods(server: StubServer) -> list[str]:
    return [request.method for request in server.requests]


@pytest.mark.parametrize(
    ("answer", "error", "said", "hint"),
    [
        (azure_error(503, "ServerBusy"), Unreachable, "ServerBusy", "wait"),
        (azure_error(500, "OperationTimedOut"), Unreachable, "OperationTimedOut", "wait"),
        (Answer(502, b"<html>bad gateway</html>"), Unreachable, "502", "wait"),
        (azure_error(429, "TooManyRequests"), Unreachable, "TooManyRequests", "wait"),
        (azure_error(403, "AuthenticationFailed"), PermissionDenied, "does not accept", "clock"),
        (azure_error(401, "NoAuthenticationInformation"), PermissionDenied, "", "az login"),
        (azure_error(403, "AuthorizationPermissionMismatch"), PermissionDenied, "", "Contributor"),
        (azure_error(403, "AuthorizationFailure"), PermissionDenied, "refused", "Contributor"),
        (
            azure_error(403, "KeyBasedAuthenticationNotPermitted"),
            PermissionDenied,
            "no account keys",
            "az login",
        ),
        (azure_error(409, "PublicAccessNotPermitted"), PermissionDenied, "refused", "role"),
        (azure_error(404, "ContainerNotFound"), BucketNotFound, "no such", "az storage container"),
        (azure_error(409, "ContainerBeingDeleted"), BucketNotFound, "no such container", "create"),
        (azure_error(501, "APINotImplemented"), Unsupported, "cannot do", None),
        (azure_error(405, "UnsupportedHttpVerb"), Unsupported, "cannot do", None),
        (azure_error(412, "LeaseIdMissing"), Refused, "LeaseIdMissing", None),
        (azure_error(409, "BlobImmutableDueToPolicy"), Refused, "Immutable", None),
        (azure_error(400, "InvalidUri"), UsageError, "of this key", None),
        (azure_error(400, "Md5Mismatch"), IntegrityError, "other bytes", "repeat"),
        (azure_error(400, "Strange", "odd."), Refused, "(Strange)", None),
    ],
)
def test_answers_become_one_line_that_helps(
    *,
    store: AzureStore,
    server: StubServer,
    answer: Answer,
    error: type[LakeError],
    said: str,
    hint: str | None,
) -> None:
    server.answers = [answer]
    calls: tuple[Callable[[], object], ...] = (
        lambda: store.get("k"),
        lambda: store.get("k", start=5, length=3),
        lambda: store.get("k", start=-5),
        lambda: store.open("k"),
        lambda: store.head("k"),
        lambda: store.put("k", b"body", ANY),
        lambda: store.put("k", b"body", Match(Version("0x1"))),
        lambda: store.put("k", io.BytesIO(b"x" * PART_SIZE), ANY),
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
        assert "RequestId" not in message
        assert not message.endswith((":", "."))
        if hint is None:
            assert raised.value.hint is None
        else:
            assert hint in str(raised.value.hint)
        assert f"az://{ACCOUNT}/container" in message
        assert KEY not in message


@pytest.mark.parametrize(
    "answer",
    [
        azure_error(412, "ConditionNotMet"),
        azure_error(409, "BlobAlreadyExists"),
        azure_error(403, "UnauthorizedBlobOverwrite"),
        azure_error(404, "BlobNotFound"),
    ],
)
def test_a_condition_that_did_not_hold(
    store: AzureStore, server: StubServer, answer: Answer
) -> None:
    server.answers = [answer]
    conditions: tuple[Condition, ...] = (ABSENT, Match(Version("0x1")))
    for condition in conditions:
        for body in (b"body", io.BytesIO(b"body")):
            with pytest.raises(ConditionFailed, match="container/prefix/k"):
                store.put("k", body, condition)
    batch = store.batch()
    batch.put_new("k", b"body")
    batch.flush()


def test_conditions_are_sent_as_http_says(store: AzureStore, server: StubServer) -> None:
    assert store.put("k", b"", ABSENT) == "0x1"
    store.put("k", b"", Match(Version("0x7")))
    store.put("k", b"", ANY)
    sent = [
        (request.headers.get("If-None-Match"), request.headers.get("If-Match"))
        for request in server.requests
    ]
    assert sent == [("*", None), (None, '"0x7"'), (None, None)]
    assert all("Content-MD5" in request.headers for request in server.requests)


def test_an_answer_without_an_etag_is_no_version(store: AzureStore, server: StubServer) -> None:
    server.answers = [Answer(201)]
    for body in (b"", io.BytesIO(b"x" * PART_SIZE)):
        with pytest.raises(ValueError, match="told no ETag"):
            store.put("k", body, ANY)


# Repeating


@pytest.mark.usefixtures("impatient")
def test_what_fails_for_a_moment_is_repeated(server: StubServer) -> None:
    store = AzureStore(ACCOUNT, "container", attempts=3)
    busy = azure_error(503, "ServerBusy")
    body = Answer(206, b"body", {"Content-Range": "bytes 0-3/4", **FOUND})
    listing = Answer(
        200,
        b"<EnumerationResults><Blobs/></EnumerationResults>",
        {"Content-Type": "application/xml"},
    )
    copied = Answer(202, headers={"x-ms-copy-status": "success", **FOUND})
    calls: tuple[tuple[Callable[[], object], Answer], ...] = (
        (lambda: store.get("k"), body),
        (lambda: store.head("k"), Answer(200, headers={**FOUND, "Content-Length": "0"})),
        (lambda: store.put("k", b"body", ANY), OK),
        (lambda: list(store.list()), listing),
        (lambda: store.delete(["k"]), batch_answer((202, ""))),
        (lambda: store.copy("k", "l"), copied),
    )
    for call, good in calls:
        server.requests.clear()
        server.answers = [busy, busy, good]
        call()
        assert len(server.requests) == 3
        server.answers = [busy]
        with pytest.raises(Unreachable):
            call()
        assert len(server.requests) == 6


@pytest.mark.usefixtures("impatient")
def test_conditional_writes_are_sent_once(server: StubServer) -> None:
    store = AzureStore(ACCOUNT, "container", attempts=3)
    conditions: tuple[Condition, ...] = (ABSENT, Match(Version("0x1")))
    for condition in conditions:
        for body in (b"body", io.BytesIO(b"body")):
            server.requests.clear()
            server.answers = [azure_error(503, "ServerBusy"), OK]
            with pytest.raises(Unreachable):
                store.put("k", body, condition)
            assert methods(server) == ["PUT"]


@pytest.mark.usefixtures("impatient")
def test_of_a_conditional_upload_only_the_end_is_sent_once(server: StubServer) -> None:
    store = AzureStore(ACCOUNT, "container", attempts=2)
    busy = azure_error(503, "ServerBusy")
    server.answers = [busy, OK, busy, OK]
    with pytest.raises(Unreachable, match="ServerBusy"):
        store.put("k", io.BytesIO(b"x" * PART_SIZE), Match(Version("0x1")))
    paths = [request.path.partition("comp=")[2].partition("&")[0] for request in server.requests]
    assert paths == ["block", "block", "blocklist"]
    server.answers = [busy, OK, busy, OK]
    assert store.put("k", io.BytesIO(b"x" * PART_SIZE), ANY) == "0x1"


@pytest.mark.usefixtures("impatient")
def test_answers_that_break_off_are_read_again(server: StubServer) -> None:
    store = AzureStore(ACCOUNT, "container", attempts=1)
    whole = {"Content-Range": "bytes 0-999/1000", **FOUND}
    broken = Answer(206, b"x" * 1_000, whole, sent=10)
    server.answers = [broken]
    with pytest.raises(Unreachable, match="broke the connection"):
        store.get("k")
    with pytest.raises(Unreachable, match="broke the connection"):
        store.open("k")


# Reading


def test_a_server_without_ranges(store: AzureStore, server: StubServer) -> None:
    server.answers = [Answer(200, b"0123456789", FOUND)]
    with pytest.raises(Unsupported, match="something else"):
        store.get("k", start=2, length=3)


def test_the_end_of_an_object_that_changes_is_looked_for_again(
    store: AzureStore, server: StubServer
) -> None:
    def described(size: int, etag: str) -> Answer:
        return Answer(200, b"x" * size, FOUND | {"ETag": etag})

    end = Answer(206, b"89", {"Content-Range": "bytes 8-9/10", **FOUND})
    gone = azure_error(412, "ConditionNotMet")
    server.answers = [described(5, '"0x1"'), gone, described(10, '"0x2"'), end]
    assert store.get("k", start=-2) == b"89"
    read = server.requests[-1].headers
    assert (read["If-Match"], read["x-ms-range"]) == ('"0x2"', "bytes=8-4194311")
    server.answers = [described(5, '"0x1"'), gone] * 6
    with pytest.raises(ConditionFailed, match="replaced while it was read"):
        store.get("k", start=-2)


# Listing, deleting, copying


def test_directories_are_no_objects(store: AzureStore, server: StubServer) -> None:
    def blob(name: str, metadata: str = "") -> str:
        properties = (
            f"<Last-Modified>{MODIFIED}</Last-Modified><Etag>0x1</Etag>"
            "<Content-Length>1</Content-Length><BlobType>BlockBlob</BlobType>"
        )
        return (
            f"<Blob><Name>prefix/{name}</Name><Properties>{properties}</Properties>"
            f"<Metadata>{metadata}</Metadata></Blob>"
        )

    def listed(*blobs: str) -> Answer:
        body = f"<EnumerationResults><Blobs>{''.join(blobs)}</Blobs></EnumerationResults>"
        return Answer(200, body.encode(), {"Content-Type": "application/xml"})

    folder = blob("a", "<hdi_isfolder>true</hdi_isfolder>")
    server.answers = [listed(folder, blob("a/x"), blob("b"))]
    assert [info.key for info in store.list()] == ["a/x", "b"]
    server.answers = [listed(folder, blob("a/x"), blob("a-b"))]
    with pytest.raises(Unsupported, match="in byte order"):
        list(store.list())


def test_deletions_that_fail_are_named(store: AzureStore, server: StubServer) -> None:
    server.answers = [batch_answer((202, ""), (404, "BlobNotFound"))]
    store.delete(["a", "gone"])
    for status, code, error in (
        (403, "AuthorizationPermissionMismatch", PermissionDenied),
        (503, "ServerBusy", Unreachable),
        (412, "LeaseIdMissing", Refused),
        (404, "ContainerNotFound", BucketNotFound),
    ):
        server.answers = [batch_answer((202, ""), (status, code))]
        with pytest.raises(error, match="container"):
            store.delete(["a", "kept"])


def test_copies_that_take_their_time(
    store: AzureStore, server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    retries = partial(Retries, sleep=waited.append, random=lambda: 0.5)
    monkeypatch.setattr("lakecli.objectstore.azure.client.Retries", retries)

    def copy(status: str) -> Answer:
        headers = FOUND | {"x-ms-copy-status": status, "x-ms-copy-id": "1"}
        return Answer(202 if not waited else 200, headers=headers)

    def described(status: str) -> Answer:
        return Answer(200, headers=copy(status).headers)

    server.answers = [copy("pending"), described("pending"), described("success")]
    store.copy("k", "l")
    assert waited == [0.1, 0.2]
    waited.clear()
    server.answers = [copy("pending"), described("pending")]
    with pytest.raises(Unreachable, match=r"did not finish a copy \(pending\)"):
        store.copy("k", "l")
    assert 500 < sum(waited) < 700
    waited.clear()
    server.answers = [copy("pending"), described("failed")]
    with pytest.raises(Unreachable, match="did not finish a copy"):
        store.copy("k", "l")
    server.answers = [azure_error(404, "CannotVerifyCopySource")]
    with pytest.raises(ObjectNotFound, match="prefix/k"):
        store.copy("k", "l")


def test_renewing_never_copies(store: AzureStore, server: StubServer) -> None:
    """The store may make a copy later; until then the object would be empty."""
    described = Answer(200, headers={"ETag": '"v1"', "x-ms-meta-k": "v", "Content-Length": "0"})
    lost = azure_error(412, "ConditionNotMet")
    server.answers = [described, lost, described, Answer(200, headers={"ETag": '"v2"'})]
    renew(store, "k", aside="aside")
    assert [(each.method, each.path.partition("?")[2]) for each in server.requests] == [
        ("HEAD", ""),
        ("PUT", "comp=metadata"),
    ] * 2
    assert all("x-ms-copy-source" not in each.headers for each in server.requests)
    assert server.requests[-1].headers["If-Match"] == '"v1"'
    assert server.requests[-1].headers["x-ms-meta-k"] == "v"
    server.answers = [azure_error(404, "BlobNotFound")]
    with pytest.raises(ObjectNotFound):
        renew(store, "k", aside="aside")


# Connections


def test_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    url = f"http://user:secret@127.0.0.1:{port}"
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection_string(url))
    store = AzureStore(ACCOUNT, "container", attempts=1)
    calls: tuple[Callable[[], object], ...] = (
        lambda: store.get("k"),
        lambda: store.put("k", b"", ABSENT),
        lambda: list(store.list()),
    )
    for call in calls:
        with pytest.raises(Unreachable, match=rf"^127\.0\.0\.1:{port} does not answer") as raised:
            call()
        assert "secret" not in raised.value.message
        assert "network" in str(raised.value.hint)


def test_no_credentials_and_nothing_printed() -> None:
    script = (
        "from lakecli.errors import PermissionDenied\n"
        "from lakecli.objectstore.registry import open_store\n"
        "try: open_store('az://account/container').get('k')\n"
        "except PermissionDenied as error: print(error.message, error.hint)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    assert done.stdout.startswith("no credentials for Azure, or they are not accepted set AZURE_")
    assert "az login" in done.stdout

"""Errors of Azure: the contract of all clouds, and what is only Azure's."""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING

import pytest

from lakecli.base.retry import Retries
from lakecli.errors import (
    IntegrityError,
    PermissionDenied,
    Refused,
    Unreachable,
    Unsupported,
    UsageError,
)
from lakecli.stores.azure.store import AzureStore
from lakecli.stores.capabilities import PART_SIZE, renew
from lakecli.stores.contract import (
    ANY,
    BucketNotFound,
    ConditionFailed,
    Match,
    ObjectArchived,
    ObjectNotFound,
    Version,
)
from tests.stores.errors_contract import ErrorContract, ErrorTable, Failure, methods, with_attempts
from tests.support.azurite import ACCOUNT, KEY, connection_string
from tests.support.servers import Answer, StubServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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
    return with_attempts(1, AzureStore(ACCOUNT, "container", "prefix"))


@pytest.fixture
def persistent(server: StubServer, impatient: None) -> AzureStore:
    return with_attempts(3, AzureStore(ACCOUNT, "container", "prefix"))


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], AzureStore]:
    def make(url: str) -> AzureStore:
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection_string(url))
        return with_attempts(1, AzureStore(ACCOUNT, "container"))

    return make


@pytest.fixture
def without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING", raising=False)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait between attempts."""
    monkeypatch.setattr("azure.storage.blob.ExponentialRetry.get_backoff_time", lambda *_: 0)
    monkeypatch.setattr("azure.storage.blob._download.time.sleep", lambda _: None)


def blob(name: str, metadata: str = "") -> str:
    properties = (
        f"<Last-Modified>{MODIFIED}</Last-Modified><Etag>0x1</Etag>"
        "<Content-Length>1</Content-Length><BlobType>BlockBlob</BlobType>"
    )
    return (
        f"<Blob><Name>prefix/{name}</Name><Properties>{properties}</Properties>"
        f"<Metadata>{metadata}</Metadata></Blob>"
    )


def listing(*blobs: str) -> Answer:
    body = f"<EnumerationResults><Blobs>{''.join(blobs)}</Blobs><NextMarker/></EnumerationResults>"
    return Answer(200, body.encode(), {"Content-Type": "application/xml"})


class TestAzureErrors(ErrorContract):
    table = ErrorTable(
        uri=f"az://{ACCOUNT}/container",
        ok=OK,
        version="0x1",
        busy=azure_error(503, "ServerBusy"),
        no_bucket=azure_error(404, "ContainerNotFound"),
        failures=(
            Failure(azure_error(503, "ServerBusy"), Unreachable, "ServerBusy", "wait"),
            Failure(azure_error(409, "BlobArchived"), ObjectArchived, "restore it", "set-tier"),
            Failure(azure_error(409, "BlobBeingRehydrated"), ObjectArchived, "archived", "wait"),
            Failure(
                azure_error(500, "OperationTimedOut"), Unreachable, "OperationTimedOut", "wait"
            ),
            Failure(Answer(502, b"<html>bad gateway</html>"), Unreachable, "502", "wait"),
            Failure(azure_error(429, "TooManyRequests"), Unreachable, "TooManyRequests", "wait"),
            Failure(
                azure_error(403, "AuthenticationFailed"),
                PermissionDenied,
                "does not accept",
                "clock",
            ),
            Failure(
                azure_error(401, "NoAuthenticationInformation"), PermissionDenied, "", "az login"
            ),
            Failure(
                azure_error(403, "AuthorizationPermissionMismatch"),
                PermissionDenied,
                "",
                "check the credentials in use",
            ),
            Failure(azure_error(403, "AuthorizationFailure"), PermissionDenied, "refused", "check"),
            Failure(
                azure_error(403, "KeyBasedAuthenticationNotPermitted"),
                PermissionDenied,
                "no account keys",
                "az login",
            ),
            Failure(
                azure_error(409, "PublicAccessNotPermitted"), PermissionDenied, "refused", "check"
            ),
            Failure(
                azure_error(404, "ContainerNotFound"),
                BucketNotFound,
                "no such",
                "az storage container",
            ),
            Failure(
                azure_error(409, "ContainerBeingDeleted"),
                BucketNotFound,
                "no such container",
                "create",
            ),
            Failure(azure_error(501, "APINotImplemented"), Unsupported, "cannot do", None),
            Failure(azure_error(405, "UnsupportedHttpVerb"), Unsupported, "cannot do", None),
            Failure(azure_error(412, "LeaseIdMissing"), Refused, "LeaseIdMissing", None),
            Failure(azure_error(409, "BlobImmutableDueToPolicy"), Refused, "Immutable", None),
            Failure(azure_error(400, "InvalidUri"), UsageError, "of this key", None),
            Failure(azure_error(400, "Md5Mismatch"), IntegrityError, "other bytes", "repeat"),
            Failure(azure_error(400, "Strange", "odd."), Refused, "(Strange)", None),
        ),
        calls=(
            lambda store: store.get("k", start=5, length=3),
            lambda store: store.get("k", start=-5),
            lambda store: store.head("k"),
            lambda store: store.put("k", io.BytesIO(b"x" * PART_SIZE), ANY),
        ),
        unsaid=("RequestId", KEY),
        lost_races=(
            azure_error(412, "ConditionNotMet"),
            azure_error(409, "BlobAlreadyExists"),
            azure_error(403, "UnauthorizedBlobOverwrite"),
            azure_error(404, "BlobNotFound"),
        ),
        existing=(
            azure_error(412, "ConditionNotMet"),
            azure_error(409, "BlobAlreadyExists"),
            azure_error(403, "UnauthorizedBlobOverwrite"),
            azure_error(404, "BlobNotFound"),
        ),
        conditions=(("*", None, True), (None, '"77"', True), (None, None, True)),
        condition_of=lambda request: (
            request.headers.get("If-None-Match"),
            request.headers.get("If-Match"),
            "Content-MD5" in request.headers,
        ),
        good={
            "get": Answer(206, b"body", {"Content-Range": "bytes 0-3/4", **FOUND}),
            "head": Answer(200, headers={**FOUND, "Content-Length": "0"}),
            "put": OK,
            "list": listing(),
            "copy": Answer(202, headers={"x-ms-copy-status": "success", **FOUND}),
            "delete": batch_answer((202, "")),
        },
        tried_once=(b"body", io.BytesIO(b"body")),
        writes_by="PUT",
        cut=Answer(206, b"x" * 1_000, {"Content-Range": "bytes 0-999/1000", **FOUND}, sent=10),
        cut_again=(
            Answer(206, b"x" * 1_000, {"Content-Range": "bytes 0-999/1000", **FOUND}, sent=10),
        )
        * 2,
        rest=Answer(206, b"x" * 1_000, {"Content-Range": "bytes 0-999/1000", **FOUND}),
        unordered=listing(blob("b"), blob("a")),
        undeleted=tuple(
            (batch_answer((202, ""), (status, code)), error)
            for status, code, error in (
                (403, "AuthorizationPermissionMismatch", PermissionDenied),
                (503, "ServerBusy", Unreachable),
                (412, "LeaseIdMissing", Refused),
                (404, "ContainerNotFound", BucketNotFound),
            )
        ),
        named="container",
        unreachable_hint="network",
        no_credentials=(
            "no credentials for Azure, or they are not accepted set AZURE_",
            "az login",
        ),
    )


def test_an_answer_without_an_etag_is_no_version(store: AzureStore, server: StubServer) -> None:
    server.answers = [Answer(201)]
    for body in (b"", io.BytesIO(b"x" * PART_SIZE)):
        with pytest.raises(Unreachable, match="cannot be used, it has no ETag"):
            store.put("k", body, ANY)


@pytest.mark.parametrize("answer", [Answer(404), azure_error(404, "ResourceNotFound")])
def test_not_found_without_the_code_of_a_blob_is_no_existing_object(
    store: AzureStore, server: StubServer, answer: Answer
) -> None:
    server.answers = [answer]
    with pytest.raises(BucketNotFound):
        store.put_new("k", b"body")
    with pytest.raises(BucketNotFound):
        store.put("k", b"body", ANY)


# Retries


@pytest.mark.usefixtures("impatient")
def test_a_conditional_stream_is_sent_once(server: StubServer) -> None:
    store = with_attempts(2, AzureStore(ACCOUNT, "container"))
    busy = azure_error(503, "ServerBusy")
    server.answers = [busy, OK]
    with pytest.raises(Unreachable, match="ServerBusy"):
        store.put("k", io.BytesIO(b"x" * PART_SIZE), Match(Version("0x1")))
    assert len(server.requests) == 1
    server.answers = [busy, OK, busy, OK]
    assert store.put("k", io.BytesIO(b"x" * PART_SIZE), ANY) == "0x1"


# Reading


def test_a_server_without_ranges_is_unsupported(store: AzureStore, server: StubServer) -> None:
    server.answers = [Answer(200, b"0123456789", FOUND)]
    with pytest.raises(Unsupported, match="with that part"):
        store.get("k", start=2, length=3)


def test_the_end_of_a_changing_object_is_read_again(store: AzureStore, server: StubServer) -> None:
    def described(size: int, etag: str) -> Answer:
        return Answer(200, b"x" * size, FOUND | {"ETag": etag})

    end = Answer(206, b"89", FOUND | {"Content-Range": "bytes 8-9/10", "ETag": '"0x2"'})
    gone = azure_error(412, "ConditionNotMet")
    server.answers = [described(5, '"0x1"'), gone, described(10, '"0x2"'), end]
    assert store.get("k", start=-2) == b"89"
    read = server.requests[-1].headers
    assert (read["If-Match"], read["x-ms-range"]) == ('"0x2"', "bytes=8-4194311")
    server.answers = [described(5, '"0x1"'), gone] * 6
    with pytest.raises(ConditionFailed, match="replaced while it was read"):
        store.get("k", start=-2)


# Listing, deleting, copying


def test_directories_are_not_listed(store: AzureStore, server: StubServer) -> None:
    folder = blob("a", "<hdi_isfolder>true</hdi_isfolder>")
    server.answers = [listing(folder, blob("a/x"), blob("b"))]
    assert [info.key for info in store.list()] == ["a/x", "b"]
    server.answers = [listing(folder, blob("a/x"), blob("a-b"))]
    with pytest.raises(Unsupported, match="in byte order"):
        list(store.list())


def test_deleting_an_absent_object_succeeds(store: AzureStore, server: StubServer) -> None:
    server.answers = [batch_answer((202, ""), (404, "BlobNotFound"))]
    store.delete(["a", "gone"])
    assert methods(server) == ["POST"]  # and raised nothing


def test_a_pending_copy_is_polled(
    store: AzureStore, server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    retries = partial(Retries, sleep=waited.append, random=lambda: 0.5)
    monkeypatch.setattr("lakecli.stores.azure.client.Retries", retries)

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
    """The store may copy later, and the object would be empty until then."""
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


def test_archived_blobs_are_known(server: StubServer, store: AzureStore) -> None:
    archived = blob("a").replace("</Properties>", "<AccessTier>Archive</AccessTier></Properties>")
    server.answers = [listing(archived, blob("b"))]
    assert [info.archive for info in store.list()] == ["Archive", ""]
    server.answers = [Answer(headers=FOUND | {"x-ms-access-tier": "Archive"})]
    assert store.head("a").archive == "Archive"

"""Servers that are no stores, and servers of an enemy, in front of each adapter."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from lakecli.errors import IntegrityError, Unreachable
from lakecli.stores import answer_limits
from lakecli.stores.azure.store import AzureStore
from lakecli.stores.capabilities import PART_SIZE, UploadId
from lakecli.stores.contract import ANY
from lakecli.stores.gs.store import GsStore
from lakecli.stores.registry import open_store
from lakecli.stores.s3.direct_requests import DirectRequests
from lakecli.stores.s3.store import S3Store
from tests.stores.errors_contract import with_attempts
from tests.stores.hostile_contract import PATIENCE, HostileContract, HostileTable
from tests.support.azurite import ACCOUNT, connection_string
from tests.support.servers import Answer, StubServer
from tests.support.slow_server import SlowServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.stores.contract import ObjectStore

MODIFIED = "Wed, 02 Jan 2030 03:04:05 GMT"
FOUND = {"ETag": '"0x1"', "Last-Modified": MODIFIED}
XML = {"Content-Type": "application/xml"}


@pytest.fixture
def server() -> Iterator[StubServer]:
    with StubServer(Answer()) as server:
        yield server


@pytest.fixture(autouse=True)
def _works_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_limits, "LONGEST_WORK", 0)


@pytest.fixture(scope="class")
def slow() -> Iterator[SlowServer]:
    with SlowServer() as slow:
        yield slow


@pytest.fixture(scope="class")
def opened() -> dict[str, ObjectStore]:
    """The store of all tests with slow answers: making a client takes longer than they do."""
    return {}


@pytest.fixture
def elsewhere() -> Iterator[StubServer]:
    with StubServer(Answer(headers=FOUND)) as server:
        yield server


def s3_listing(body: str, state: str = "<IsTruncated>false</IsTruncated>") -> Answer:
    return Answer(body=f"<ListBucketResult>{state}{body}</ListBucketResult>".encode(), headers=XML)


S3_OBJECT = (
    "<Contents><Key>prefix/k</Key><Size>1</Size><ETag>e</ETag>"
    "<LastModified>2030-01-01T00:00:00.000Z</LastModified></Contents>"
)
MORE = "<IsTruncated>true</IsTruncated>"


class TestS3(HostileContract):
    hostile = HostileTable(
        found=FOUND,
        cut_listings=(
            s3_listing(S3_OBJECT, ""),
            s3_listing("", "<IsTruncated/>"),
            s3_listing("", "<IsTruncated>maybe</IsTruncated>"),
            s3_listing(S3_OBJECT, MORE),
            s3_listing(S3_OBJECT, f"{MORE}<NextContinuationToken/>"),
            s3_listing(S3_OBJECT, f"{MORE}<NextContinuationToken>a&#10;b</NextContinuationToken>"),
            Answer(body=f"<ListBucketResult>{S3_OBJECT}".encode(), headers=XML),
            Answer(body=f"<x>{s3_listing('').body.decode()}</x>".encode(), headers=XML),
        ),
        endless=s3_listing("", f"{MORE}<NextContinuationToken>t</NextContinuationToken>"),
        foreign=s3_listing(S3_OBJECT.replace("prefix/k", "other/k")),
        nameless=(
            s3_listing(S3_OBJECT.replace("<Key>prefix/k</Key>", "")),
            s3_listing(S3_OBJECT.replace("<Size>1</Size>", "")),
            s3_listing(S3_OBJECT.replace("LastModified", "Modified")),
            s3_listing(S3_OBJECT.replace(">e<", ">a&#10;b<")),
            *(
                s3_listing(S3_OBJECT.replace("<Size>1<", f"<Size>{size}<"))
                for size in ("x", "-1", "", "9" * 5_000)
            ),
            *(
                s3_listing(S3_OBJECT.replace("2030-01-01T00:00:00.000Z", moment))
                for moment in ("x", f"Sat, 29 Feb {'9' * 30} 01:02:03 GMT", "9" * 5_000)
            ),
        ),
        upload="upload",
    )

    @pytest.fixture
    def store(self, server: StubServer, aws_environment: pytest.MonkeyPatch) -> S3Store:
        aws_environment.setenv("AWS_ENDPOINT_URL", server.url)
        aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
        return S3Store("bucket", "prefix", region="eu-north-1")

    @pytest.fixture
    def impatient(
        self, slow: SlowServer, opened: dict[str, ObjectStore], aws_environment: pytest.MonkeyPatch
    ) -> ObjectStore:
        aws_environment.setenv("AWS_ENDPOINT_URL", slow.url)
        aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
        store = S3Store("bucket", "prefix", region="eu-north-1", account=PATIENCE)
        return opened.setdefault("store", store)

    @pytest.mark.parametrize("upload", ["", "a&#10;b", "ü", "x" * 3_000])
    def test_the_id_of_an_upload_that_would_change_a_url_is_refused(
        self, store: S3Store, server: StubServer, upload: str
    ) -> None:
        root = "InitiateMultipartUploadResult"
        body = f"<{root}><UploadId>{upload}</UploadId></{root}>"
        server.answers = [Answer(body=body.encode(), headers=XML)]
        with pytest.raises(Unreachable, match="cannot be used"):
            store.uploads().start("k")

    @pytest.mark.parametrize("checksum", ["x", "AAAA", "AAAAAAAAAAA=", "é"])
    def test_a_part_with_a_malformed_checksum_is_refused(
        self, store: S3Store, server: StubServer, checksum: str
    ) -> None:
        part = (
            "<Part><PartNumber>1</PartNumber><Size>1</Size><ETag>e</ETag><LastModified>"
            f"2030-01-01T00:00:00Z</LastModified><ChecksumCRC32C>{checksum}</ChecksumCRC32C></Part>"
        )
        body = f"<ListPartsResult><IsTruncated>false</IsTruncated>{part}</ListPartsResult>"
        server.answers = [Answer(body=body.encode(), headers=XML)]
        with pytest.raises(Unreachable, match="the CRC32C of a part is malformed"):
            list(store.uploads().parts("k", UploadId("u")))

    def test_a_version_is_an_opaque_text(self, store: S3Store, server: StubServer) -> None:
        server.answers = [Answer(headers=FOUND | {"x-amz-version-id": "a&b=c#/+"})]
        assert store._head("k")[1] == "a&b=c#/+"
        server.answers = [Answer(headers=FOUND | {"x-amz-version-id": "a b"})]
        with pytest.raises(Unreachable, match="the ID of a version is malformed"):
            store._head("k")

    @pytest.mark.parametrize(
        "odd",
        [
            {"Content-Length": "x"},
            {"Content-Length": "9" * 5_000},
            {"Last-Modified": "x"},
            {"Last-Modified": f"Sat, 29 Feb {'9' * 30} 01:02:03 GMT"},
            {"x-amz-mp-parts-count": "x", "Last-Modified": "x"},
        ],
    )
    def test_an_object_with_a_malformed_number_or_time_is_refused(
        self, store: S3Store, server: StubServer, odd: dict[str, str]
    ) -> None:
        server.answers = [Answer(headers=FOUND | {"Connection": "close"} | odd)]
        for call in (lambda: store.head("k"), lambda: store.open("k")):
            with pytest.raises(Unreachable):
                call()

    def test_an_answer_with_a_malformed_length_is_refused(
        self, store: S3Store, server: StubServer
    ) -> None:
        odd = {"Content-Length": "x", "Connection": "close"}
        server.answers = [Answer(body=s3_listing("").body, headers=XML | odd)]
        with pytest.raises(Unreachable, match="does not say how long it is"):
            list(store.list())

    def test_an_answer_without_a_length_is_no_object(
        self, store: S3Store, server: StubServer
    ) -> None:
        # Whoever cuts the connection decides what the object is.
        server.answers = [Answer(body=b"x", headers=FOUND, is_cut_short=True)]
        for call in (lambda: store.get("k"), lambda: store.open("k"), lambda: store.head("k")):
            with pytest.raises(Unreachable):
                call()

    @pytest.mark.parametrize("region", ["evil.example/#", "evil.example#", "a b", "", "x" * 64])
    def test_a_region_that_would_be_another_host_is_refused(
        self, server: StubServer, aws_environment: pytest.MonkeyPatch, region: str
    ) -> None:
        aws_environment.setenv("AWS_ENDPOINT_URL", server.url)
        aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
        for status in (200, 301, 400, 403):
            server.answers = [Answer(status, headers={"x-amz-bucket-region": region})]
            store = S3Store("bucket")
            if region:
                with pytest.raises(Unreachable, match="the region is malformed"):
                    store.prepare()
            assert store._connection.region == ""
            if region:
                with pytest.raises(IntegrityError, match="the region is malformed"):
                    open_store("s3://bucket", region=region)


class TestS3BySdk(TestS3):
    """All requests are the SDK's."""

    @pytest.fixture(autouse=True)
    def _no_direct_requests(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(DirectRequests, "_usable_settings", lambda _: None)


class TestS3ByProxy(TestS3):
    """The direct requests go by the SDK's HTTP client."""

    @pytest.fixture
    def store(self, server: StubServer, aws_environment: pytest.MonkeyPatch) -> S3Store:
        aws_environment.setenv("AWS_ENDPOINT_URL", "http://store.example")
        aws_environment.setenv("http_proxy", server.url)
        aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
        return S3Store("bucket", "prefix", region="eu-north-1")

    @pytest.fixture
    def impatient(
        self, slow: SlowServer, opened: dict[str, ObjectStore], aws_environment: pytest.MonkeyPatch
    ) -> ObjectStore:
        aws_environment.setenv("AWS_ENDPOINT_URL", "http://store.example")
        aws_environment.setenv("http_proxy", slow.url)
        aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
        store = S3Store("bucket", "prefix", region="eu-north-1", account=PATIENCE)
        return opened.setdefault("store", store)


GS_OBJECT: dict[str, object] = {
    "name": "prefix/k",
    "generation": "1234567890123456",
    "size": "4",
    "timeCreated": "2030-01-02T03:04:05.678Z",
    "etag": "CAE=",
}


def gs_listing(*objects: dict[str, object], **fields: object) -> Answer:
    page = {"kind": "storage#objects", "items": list(objects)} | fields
    return Answer(body=json.dumps(page).encode(), headers={"Content-Type": "application/json"})


class TestGoogle(HostileContract):
    hostile = HostileTable(
        found={"X-Goog-Generation": "1"},
        cut_listings=(
            gs_listing(GS_OBJECT, kind=None),
            gs_listing(GS_OBJECT, kind="storage#object"),
            Answer(body=gs_listing(GS_OBJECT).body[:-1]),
        ),
        endless=gs_listing(nextPageToken="t"),
        foreign=gs_listing(GS_OBJECT | {"name": "other/k"}),
        nameless=tuple(
            gs_listing({name: value for name, value in GS_OBJECT.items() if name != gone})
            for gone in ("size", "timeCreated", "generation")
        ),
        upload="upload",
    )

    @pytest.fixture
    def store(self, server: StubServer, monkeypatch: pytest.MonkeyPatch) -> GsStore:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        return with_attempts(1, GsStore("bucket", "prefix"))

    @pytest.fixture
    def impatient(
        self, slow: SlowServer, opened: dict[str, ObjectStore], monkeypatch: pytest.MonkeyPatch
    ) -> ObjectStore:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", slow.url)
        store = with_attempts(1, GsStore("bucket", "prefix", PATIENCE))
        return opened.setdefault("store", store)

    @pytest.mark.parametrize("generation", ["", "x", "-1", "9" * 5_000])
    def test_an_object_with_a_malformed_generation_is_refused(
        self, store: GsStore, server: StubServer, generation: str
    ) -> None:
        server.answers = [Answer(headers={"X-Goog-Generation": generation}, body=b"body")]
        for read in (store.get, store.get_versioned, store.open):
            with pytest.raises(Unreachable, match="its generation is malformed"):
                read("k")

    def test_a_time_without_a_zone_is_in_utc(self, store: GsStore, server: StubServer) -> None:
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><Size>1</Size><ETag>e</ETag>"
            f"<LastModified>2030-01-0{number}T00:00:00{zone}</LastModified></Part>"
            for number, zone in ((1, "Z"), (2, ""))
        )
        body = f"<ListPartsResult><IsTruncated>false</IsTruncated>{parts}</ListPartsResult>"
        server.answers = [Answer(body=body.encode(), headers=XML)]
        changed_at = store.uploads().changed_at("k", UploadId("u"))
        assert changed_at == datetime(2030, 1, 2, tzinfo=UTC)

    def test_an_upload_does_not_go_on_at_another_server(
        self, store: GsStore, server: StubServer, elsewhere: StubServer
    ) -> None:
        server.answers = [Answer(headers={"Location": f"{elsewhere.url}/upload?upload_id=x"})]
        with pytest.raises(Unreachable, match="sends an upload to another server"):
            store.put("k", bytes(PART_SIZE), ANY)
        assert elsewhere.requests == []


AZURE_OBJECT = (
    "<Blob><Name>prefix/k</Name><Properties>"
    f"<Last-Modified>{MODIFIED}</Last-Modified><Etag>0x1</Etag>"
    "<Content-Length>1</Content-Length><BlobType>BlockBlob</BlobType></Properties></Blob>"
)


def azure_listing(body: str, state: str = "<NextMarker/>") -> Answer:
    page = f"<EnumerationResults><Blobs>{body}</Blobs>{state}</EnumerationResults>"
    return Answer(body=page.encode(), headers=XML)


class TestAzure(HostileContract):
    hostile = HostileTable(
        found=FOUND | {"x-ms-blob-type": "BlockBlob"},
        cut_listings=(
            azure_listing(AZURE_OBJECT, ""),
            Answer(body=b"<EnumerationResults><NextMarker/></EnumerationResults>", headers=XML),
            Answer(body=azure_listing(AZURE_OBJECT).body[:-9], headers=XML),
        ),
        endless=azure_listing("", "<NextMarker>t</NextMarker>"),
        foreign=azure_listing(AZURE_OBJECT.replace("prefix/k", "other/k")),
        nameless=(
            azure_listing(AZURE_OBJECT.replace("Etag", "Tag")),
            azure_listing(AZURE_OBJECT.replace("Content-Length", "Length")),
            azure_listing(AZURE_OBJECT.replace("Last-Modified", "Modified")),
            azure_listing(AZURE_OBJECT.replace(">0x1<", ">a&#10;b<")),
        ),
        upload="0" * 32 + "00000000",
    )

    @pytest.fixture
    def store(self, server: StubServer, monkeypatch: pytest.MonkeyPatch) -> AzureStore:
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection_string(server.url))
        return with_attempts(1, AzureStore(ACCOUNT, "container", "prefix"))

    @pytest.fixture
    def impatient(
        self, slow: SlowServer, opened: dict[str, ObjectStore], monkeypatch: pytest.MonkeyPatch
    ) -> ObjectStore:
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection_string(slow.url))
        store = with_attempts(1, AzureStore(ACCOUNT, "container", "prefix", PATIENCE))
        return opened.setdefault("store", store)

"""Pages of listings are read as the SDK reads them, or left to it."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus
from xml.sax.saxutils import escape

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakecli.errors import Unreachable
from lakecli.stores.contract import ConditionFailed, ObjectInfo, Version
from lakecli.stores.read_only import at_version
from lakecli.stores.responses import UnusableAnswerError
from lakecli.stores.s3.reading import described, read_page
from lakecli.stores.s3.store import S3Store
from tests.support.servers import Answer, StubServer, s3_error

if TYPE_CHECKING:
    from collections.abc import Iterator

OBJECT = (
    "<Contents><Key>{key}</Key><LastModified>2026-03-02T10:20:30.123Z</LastModified>"
    "<ETag>&quot;e&quot;</ETag><ChecksumAlgorithm>CRC32</ChecksumAlgorithm><Size>12</Size>"
    "<Owner><ID>Key</ID><Size>9</Size></Owner><StorageClass>STANDARD</StorageClass></Contents>"
)
END = "<IsTruncated>false</IsTruncated>"
MORE = "<IsTruncated>true</IsTruncated><NextContinuationToken>a+/=</NextContinuationToken>"
ENCODED = "<EncodingType>url</EncodingType>"


def page(*keys: str, state: str = END, encoding: str = ENCODED) -> bytes:
    encode = quote_plus if encoding else escape
    objects = "".join(OBJECT.format(key=encode(key)) for key in keys)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>'
        f"<Prefix>Key</Prefix><KeyCount>9</KeyCount>{encoding}{state}{objects}</ListBucketResult>"
    ).encode()


@pytest.fixture
def server(aws_environment: pytest.MonkeyPatch) -> Iterator[StubServer]:
    with StubServer(Answer(body=page("a"))) as server:
        aws_environment.setenv("AWS_ENDPOINT_URL", server.url)
        aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
        yield server


@pytest.fixture
def store(server: StubServer) -> S3Store:
    del server
    return S3Store("bucket", region="eu-north-1")


@pytest.fixture
def listings(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> tuple[S3Store, S3Store]:
    """One that is direct, and one by the SDK."""
    other = S3Store("bucket", region="eu-north-1")
    monkeypatch.setattr(other.direct, "_is_usable", False)
    return store, other


@pytest.mark.parametrize("key", ["plain", "not plain"])  # which go directly, and by the SDK
class TestConditionsOfReads:
    def test_a_server_that_ignores_them_shows_another_etag(
        self, server: StubServer, store: S3Store, key: str
    ) -> None:
        server.answers = [Answer(body=b"new", headers={"ETag": '"new"'})]
        with pytest.raises(ConditionFailed):
            store.get(key, matching="old")
        assert server.requests[-1].headers["If-Match"] == '"old"'
        assert len(server.requests) == 1
        assert store.get(key, matching="new") == b"new"
        server.answers = [Answer(body=b"new")]
        with pytest.raises(ConditionFailed):  # it does not say what it sends
            store.get(key, matching="new")

    @pytest.mark.parametrize("status", [400, 412, 501])
    def test_a_server_that_refuses_them_is_asked_without(
        self, server: StubServer, store: S3Store, key: str, status: int
    ) -> None:
        good = Answer(body=b"new", headers={"ETag": '"new"'})
        refusal = s3_error(status, "NotImplemented")
        server.answers = [refusal, *([refusal] if key == "plain" else []), good]
        assert store.get(key, matching="new") == b"new"
        sent = len(server.requests)
        with store.open(key, matching="new") as file:
            assert file.read() == b"new"
        with pytest.raises(ConditionFailed):
            store.get(key, matching="old")
        at_version(store, "v1").get(key, matching="new")
        for request in server.requests[sent:]:
            assert "If-Match" not in request.headers

    def test_what_a_read_of_a_version_learns_holds_for_others(
        self, server: StubServer, store: S3Store, key: str
    ) -> None:
        good = Answer(body=b"new", headers={"ETag": '"new"'})
        server.answers = [s3_error(501, "NotImplemented"), good]
        assert at_version(store, "v1").get(key, matching="new") == b"new"
        sent = len(server.requests)
        for reader in (store, at_version(store, "v2")):
            reader.get(key, matching="new")
        assert len(server.requests) == sent + 2

    def test_a_condition_that_did_not_hold_is_sent_again(
        self, server: StubServer, store: S3Store, key: str
    ) -> None:
        refusal = s3_error(412, "PreconditionFailed")
        other = Answer(body=b"new", headers={"ETag": '"new"'})
        server.answers = [refusal, *([refusal] if key == "plain" else []), other]
        with pytest.raises(ConditionFailed):
            store.get(key, matching="old")
        with pytest.raises(ConditionFailed):
            store.get(key, matching="old")
        assert server.requests[-1].headers["If-Match"] == '"old"'

    def test_a_condition_that_no_header_can_have_is_not_sent(
        self, server: StubServer, store: S3Store, key: str
    ) -> None:
        server.answers = [Answer(body=b"new", headers={"ETag": '"new"'})]
        for matching in ("a\r\nx-evil: 1", "\u20ac", 'W/"new', "x" * 5_000):
            with suppress(ConditionFailed):
                store.get(key, matching=matching)
            assert "If-Match" not in server.requests[-1].headers
            assert "x-evil" not in server.requests[-1].headers


def is_direct(request: Any) -> bool:
    return "amz-sdk-invocation-id" not in {name.lower() for name in request.headers}


def test_a_page_has_objects_and_says_whether_another_follows() -> None:
    moment = datetime(2026, 3, 2, 10, 20, 30, tzinfo=UTC)
    a, b = (ObjectInfo(key, 12, moment, Version("e"), "e") for key in ("a b/ü", "b"))
    assert read_page(page("a b/ü", "b")) == ([a, b], "")
    assert read_page(page("b", state=MORE)) == ([b], "a+/=")
    assert read_page(page("a b/ü", encoding="")) == ([a], "")


def test_a_time_may_lack_a_fraction() -> None:
    (found,) = read_page(page("a").replace(b"30.123Z", b"30Z"))[0]
    assert found.modified_at == datetime(2026, 3, 2, 10, 20, 30, tzinfo=UTC)


def test_elements_that_are_not_known_are_left_out() -> None:
    within = b"<Name>" + b"<n>" * 60 + b"</n>" * 60
    assert read_page(page("a").replace(b"<Name>", within, 1)) == read_page(page("a"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.text(st.characters(codec="utf-8"), min_size=1), max_size=4),
    st.sampled_from([END, MORE]),
)
def test_the_sdk_reads_the_same(
    server: StubServer, listings: tuple[S3Store, S3Store], keys: list[str], state: str
) -> None:
    direct, by_sdk = listings
    server.answers = [Answer(body=page(*keys, state=state))]
    found = direct.page("", "", "")
    assert is_direct(server.requests[-1])
    assert found == by_sdk.page("", "", "")
    assert not is_direct(server.requests[-1])
    assert [info.key for info in found[0]] == keys


@pytest.mark.parametrize(
    ("prefix", "after", "token"),
    [("", "", ""), ("a b/ü+&=~", "", ""), ("p/", "p/a b", ""), ("p/", "p/a", "t+/= %")],
)
def test_the_sdk_asks_for_the_same(
    server: StubServer, listings: tuple[S3Store, S3Store], *, prefix: str, after: str, token: str
) -> None:
    server.answers = [Answer(body=page())]
    for listing in listings:
        listing.page(prefix, after, token)
    direct, by_sdk = (request.path.partition("?") for request in server.requests)
    assert direct[0] == by_sdk[0] == "/bucket"
    assert sorted(direct[2].split("&")) == sorted(by_sdk[2].split("&"))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"<ListBucketResult>",
        b"<ListBucketResult/>",
        b"<Error><Code>NoSuchBucket</Code></Error>",
        b"<x><ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult></x>",
        page("a") + b"<x/>",
        page("a", state=""),
        page("a", state="<IsTruncated>maybe</IsTruncated>"),
        page("a", state="<IsTruncated>true</IsTruncated>"),
        page("a", state=END + END),
        page("a", state=MORE.replace("a+/=", "a<b/>c")),
        page("a", state=f"<!-- {'x' * 9} -->"),
        page("a").replace(b"<Key>a</Key>", b""),
        page("a").replace(b"<Key>a</Key>", b"<Key>a</Key><Key>b</Key>"),
        page("a").replace(b"<Key>a</Key>", b"<Key>a<b/>c</Key>"),
        page("a").replace(b"<Key>a</Key>", b"<Key>%ff</Key>"),
        page("a").replace(b"<Size>12<", b"<Size>-12<"),
        page("a").replace(b"<Size>12<", b"<Size>1e3<"),
        page("a").replace(b"<Size>12<", "<Size>\u0661<".encode()),
        page("a").replace(b"<Size>12<", b"<Size>" + b"9" * 19 + b"<"),
        page("a").replace(b"2026-03-02T", b"2026-02-30T"),
        page("a").replace(b"30.123Z", b"30.123"),
        page("a").replace(b"30.123Z", b"30+02:00"),
        page("a").replace(b"<Name>b<", b"<Name>\xff<"),
    ],
)
def test_an_unusual_page_is_refused(body: bytes) -> None:
    with pytest.raises(UnusableAnswerError):
        read_page(body)


VERSION = (
    '<Version><Key>{}</Key><VersionId>{}</VersionId><IsLatest>{}</IsLatest><ETag>"e"</ETag>'
    "<LastModified>2026-03-02T10:20:30.123Z</LastModified><Size>12</Size></Version>"
)


@pytest.mark.parametrize(
    "root", ["ListVersionsResult", "ListBucketVersionsResult", "ListBucketResult"]
)
def test_servers_name_a_listing_of_versions_otherwise(
    store: S3Store, server: StubServer, root: str
) -> None:
    versions = VERSION.format("a", "new", "true") + VERSION.format("a", "old", "false")
    server.answers = [
        Answer(body=f"<{root}>{END}{versions}</{root}>".encode()),
        Answer(body=page("a")),
    ]
    assert [(info.key, version) for info, version in store.list_versions()] == [("a", "new")]


@pytest.mark.parametrize("root", ["Contents", "html"])
def test_what_is_no_listing_of_versions_is_refused(
    store: S3Store, server: StubServer, root: str
) -> None:
    server.answers = [Answer(body=f"<{root}>{END}</{root}>".encode())]
    with pytest.raises(Unreachable, match="expected was ListVersionsResult"):
        list(store.list_versions())


def test_pages_follow_each_other_by_their_tokens(store: S3Store, server: StubServer) -> None:
    server.answers = [Answer(body=page("a", "b", state=MORE)), Answer(body=page("c"))]
    assert [info.key for info in store.list()] == ["a", "b", "c"]
    assert [is_direct(request) for request in server.requests] == [True, True]
    assert "continuation-token=a%2B%2F%3D&" in server.requests[1].path


@pytest.mark.parametrize(
    "odd", [s3_error(503, "SlowDown"), Answer(body=b"<html/>"), Answer(body=page("x"), sent=9)]
)
def test_any_page_may_come_from_the_sdk(store: S3Store, server: StubServer, odd: Answer) -> None:
    server.answers = [
        *(Answer(body=page("a", state=MORE)), odd),
        *(Answer(body=page("b", state=MORE.replace("a+", "b+"))), Answer(body=page("c"))),
    ]
    assert [info.key for info in store.list()] == ["a", "b", "c"]
    assert [is_direct(request) for request in server.requests] == [True, True, False, True]


@pytest.mark.parametrize(
    ("headers", "archive"),
    [
        ({}, ""),
        ({"x-amz-storage-class": "GLACIER_IR"}, ""),
        ({"x-amz-storage-class": "DEEP_ARCHIVE"}, "DEEP_ARCHIVE"),
        ({"x-amz-storage-class": "GLACIER", "x-amz-restore": 'ongoing-request="true"'}, "GLACIER"),
        ({"x-amz-storage-class": "GLACIER", "x-amz-restore": 'ongoing-request="false"'}, ""),
        (
            {
                "x-amz-storage-class": "INTELLIGENT_TIERING",
                "x-amz-archive-status": "ARCHIVE_ACCESS",
            },
            "ARCHIVE_ACCESS",
        ),
    ],
)
def test_archived_objects_are_known(headers: dict[str, str], archive: str) -> None:
    usual = {"content-length": "1", "last-modified": "Tue, 01 Jan 2030 00:00:00 GMT", "etag": '"e"'}
    info = described(usual | headers, "k")
    assert info is not None
    assert info.archive == archive


@pytest.mark.parametrize("encoding", [ENCODED, ""])
def test_a_listing_tells_archived_objects(
    server: StubServer, store: S3Store, encoding: str
) -> None:
    body = page("a", "b", encoding=encoding).replace(b">STANDARD<", b">GLACIER<", 1)
    server.answers = [Answer(body=body)]
    assert [info.archive for info in store.list()] == ["GLACIER", ""]

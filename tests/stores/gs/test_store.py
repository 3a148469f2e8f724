from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import pytest
from google_crc32c import value

from lakecli.errors import IntegrityError, UsageError
from lakecli.stores.capabilities import PART_SIZE, UploadNotFound, store_time
from lakecli.stores.contract import (
    ABSENT,
    ANY,
    Attributes,
    BucketNotFound,
    ConditionFailed,
    Match,
    Version,
)
from lakecli.stores.gs.store import GsStore
from lakecli.stores.registry import prepare_namespace
from lakecli.stores.streams import READ_SIZE
from tests.stores.contract import ODD_NAMES, PREFIXES, Chunked, ObjectStoreContract
from tests.stores.uploads_contract import CheckedPartsContract
from tests.support.gcs import GcsServer, new_gcs_bucket
from tests.support.proxies import tampering

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakecli.stores.contract import Condition, ObjectStore
    from lakecli.stores.gs.client import ObjectPiece


@pytest.fixture
def bucket(gcs_environment: pytest.MonkeyPatch, gcs_server: GcsServer) -> str:
    return new_gcs_bucket(gcs_server)


@pytest.fixture
def store(bucket: str) -> GsStore:
    return GsStore(bucket, "prefix")


class TestGsStore(CheckedPartsContract, ObjectStoreContract):
    odd_names = (*ODD_NAMES, "\x01\x7f", "n" * 500, "x/../y", "x/./y", "a//b")

    @pytest.fixture(params=PREFIXES[::2])
    def make_store(self, request: pytest.FixtureRequest, bucket: str) -> Callable[[], ObjectStore]:
        return lambda: GsStore(bucket, request.param)

    @pytest.fixture
    def missing_store(self, bucket: str) -> ObjectStore:
        return GsStore(f"{bucket}-missing", "some/prefix")

    @pytest.fixture
    def store(self, make_store: Callable[[], ObjectStore]) -> ObjectStore:
        return make_store()


# Streams in chunks


@pytest.mark.parametrize("size", [PART_SIZE, 2 * PART_SIZE, 2 * PART_SIZE + 3])
def test_large_streams_keep_their_condition(store: GsStore, size: int) -> None:
    created = store.put("k", chunked(size), ABSENT, Attributes("a/b", {"k": "v"}))
    info = store.head("k")
    assert (info.size, info.content_type, info.metadata) == (size, "a/b", {"k": "v"})
    assert info.version == created
    with pytest.raises(ConditionFailed):
        store.put("k", chunked(size), ABSENT)
    replaced = store.put("k", chunked(size + 1), Match(created))
    with pytest.raises(ConditionFailed):
        store.put("k", chunked(size), Match(created))
    with pytest.raises(ConditionFailed):
        store.put("missing", chunked(size), Match(created))
    assert store.head("k").version == replaced
    assert store.head("k").size == size + 1


def test_a_stream_is_read_over_several_requests(store: GsStore) -> None:
    pattern = bytes(range(256)) * 1_000
    for size in (READ_SIZE - 1, READ_SIZE, READ_SIZE + 1, 2 * READ_SIZE):
        body = (pattern * (size // len(pattern) + 1))[:size]
        store.put("k", body, ANY)
        with store.open("k") as stream:
            assert stream.read(100) == body[:100]
            assert stream.read() == body[100:]
            assert stream.read(1) == b""


def test_a_condition_is_checked_again_at_the_end(store: GsStore) -> None:
    first = store.put("k", b"1", ANY)
    conditions: tuple[tuple[str, Condition], ...] = (("new", ABSENT), ("k", Match(first)))
    for key, condition in conditions:
        stream = StagedConflict(store, key)
        with pytest.raises(ConditionFailed):
            store.put(key, cast("BinaryIO", stream), condition)
        assert stream.is_overtaken
        assert store.get(key) == b"faster"


class StagedConflict(Chunked):
    """A body during whose sending another writer is faster."""

    def __init__(self, store: GsStore, key: str) -> None:
        super().__init__(PART_SIZE + 1)
        self._store, self._key = store, key
        self.is_overtaken = False

    def read(self, size: int = -1) -> bytes:
        data = super().read(size)
        if not data and not self.is_overtaken:
            self.is_overtaken = True
            self._store.put(self._key, b"faster", ANY)
        return data


def test_a_failed_upload_leaves_nothing(store: GsStore) -> None:
    class Broken(Chunked):
        def read(self, size: int = -1) -> bytes:
            data = super().read(size)
            if not data:
                raise IntegrityError("changed while it was read")
            return data

    with pytest.raises(IntegrityError, match="changed while"):
        store.put("k", cast("BinaryIO", Broken(PART_SIZE + 1)), ANY)
    assert list(store.list()) == []


def test_an_object_replaced_while_it_is_read_is_an_error(store: GsStore) -> None:
    store.put("k", chunked(3 * READ_SIZE), ANY)
    with store.open("k") as stream:
        assert stream.read(10) == b"\x5a" * 10
        store.put("k", chunked(3 * READ_SIZE), ANY)
        with pytest.raises(ConditionFailed, match="replaced while it was read"):
            stream.read()


# Uploads in parts


def test_unfinished_uploads_are_listed_in_pages(store: GsStore, bucket: str) -> None:
    GsStore(bucket).uploads().start("prefix-of-others/k")
    uploads = store.uploads()
    keys = [f"odd & <{number}>/ü%20+ 1/../x" for number in range(4)] * 2
    started = sorted((key, uploads.start(key)) for key in keys)
    assert [(each.key, each.id) for each in uploads.iter_unfinished()] == started
    key, upload = started[0]
    for number in range(1, 9):
        uploads.put_part(key, upload, number, b"%d" % number, crc32c=value(b"%d" % number))
    assert [part.number for part in uploads.parts(key, upload)] == list(range(1, 9))
    last = list(uploads.parts(key, upload))[-1:]
    assert uploads.complete(key, upload, last) == store.head(key).version
    assert store.get(key) == b"8"
    assert store.head(key).etag


def test_missing_parts_are_not_joined(store: GsStore) -> None:
    uploads = store.uploads()
    upload = uploads.start("k")
    part = uploads.put_part("k", upload, 1, b"x", crc32c=value(b"x"))
    for parts in ([part._replace(number=2)], [part._replace(tag="0" * 32)], [part, part]):
        with pytest.raises(UploadNotFound):
            uploads.complete("k", upload, parts)
    with pytest.raises(UploadNotFound):
        list(uploads.parts("other", upload))
    uploads.complete("k", upload, [part])


# Checksums


def test_a_part_damaged_in_transit_is_refused(
    bucket: str, gcs_server: GcsServer, gcs_environment: pytest.MonkeyPatch
) -> None:
    with tampering(gcs_server.url, old=b"the very body", new=b"the VERY body") as url:
        gcs_environment.setenv("STORAGE_EMULATOR_HOST", url)
        store = GsStore(bucket)
        large = b"the very body" + b"\x5a" * PART_SIZE
        conditions: tuple[Condition, ...] = (ANY, ABSENT)
        for condition in conditions:
            for body in (b"the very body", BytesIO(large)):
                with pytest.raises(IntegrityError, match="received other bytes than were sent"):
                    store.put("k", body, condition)
        assert list(store.list()) == []
        store.put("k", b"another body", ABSENT)


def test_an_object_whose_answer_says_nothing_is_described_first(
    store: GsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("k", b"x" * (READ_SIZE + 1), ANY)
    seen = store.head("k")
    sdk = store.sdk()
    read = sdk.read

    for tags in (("etag?", ""), ("", "")):

        def read_silently(name: str, tags: tuple[str, str] = tags, **options: Any) -> ObjectPiece:
            return read(name, **options)._replace(generation=None, crc32c=None, tags=tags)

        monkeypatch.setattr(sdk, "read", read_silently)
        assert store.get("k", start=1, length=2, matching=seen.etag) == b"xx"
        with store.open("k", matching=seen.etag) as file:
            assert len(file.read()) == seen.size
        for matching in ("0" * 32, "etag"):
            with pytest.raises(ConditionFailed):
                store.get("k", length=2, matching=matching)


# Preparing a bucket


def test_preparing_needs_the_bucket(bucket: str) -> None:
    assert prepare_namespace(f"gs://{bucket}/prefix") == ""
    with pytest.raises(BucketNotFound, match="missing"):
        prepare_namespace(f"gs://{bucket}-missing/prefix")


def test_namespaces_of_one_bucket_do_not_see_each_other(bucket: str) -> None:
    one, nested, whole = GsStore(bucket, "a"), GsStore(bucket, "a/b"), GsStore(bucket)
    GsStore(bucket, "ab").put("k", b"", ANY)
    one.put("k", b"", ANY)
    nested.put("k", b"", ANY)
    assert [info.key for info in one.list()] == ["b/k", "k"]
    assert [info.key for info in nested.list()] == ["k"]
    assert [info.key for info in whole.list()] == ["a/b/k", "a/k", "ab/k"]
    assert (one.uri, whole.uri) == (f"gs://{bucket}/a", f"gs://{bucket}")


# Properties of objects, and impossible keys


def test_the_etag_is_the_md5_of_the_bytes(store: GsStore) -> None:
    store.put("k", b"hello", ANY)
    assert store.head("k").etag == "5d41402abc4b2a76b9719d911017c592"
    assert next(store.list()).etag == store.head("k").etag


def test_impossible_keys_are_refused(store: GsStore) -> None:
    for key, said in (
        ("not-utf-8-\udcff", "not UTF-8"),
        ("", "needs a key"),
        ("new\nline", "cannot hold"),
        ("carriage\rreturn", "cannot hold"),
        ("ü" * 512, "too long"),
    ):
        for call in (store.get, store.head, lambda key: store.put(key, b"", ANY)):
            with pytest.raises(UsageError, match=said):
                call(key)
    store.put("n" * (1_024 - len("prefix/")), b"1", ANY)
    with pytest.raises(UsageError, match="cannot hold"):
        GsStore("bucket").get("..")


def test_metadata_can_hold_any_text(store: GsStore) -> None:
    metadata = {"Größe": "XL 🎉", "x-y": " blanks ", "empty": ""}
    store.put("k", b"", ANY, Attributes(metadata=metadata))
    assert store.head("k").metadata == metadata


def test_versions_of_other_stores_match_nothing(store: GsStore) -> None:
    with pytest.raises(ValueError, match="cannot be empty"):
        store.put("k", b"", Match(Version("")))
    for version in ("0", "-1", "0x1D", "v1", "٣"):
        with pytest.raises(ConditionFailed):
            store.put("k", b"", Match(Version(version)))
    assert list(store.list()) == []


def test_a_bucket_has_no_files(store: GsStore) -> None:
    assert store.local_path("k") is None


def test_nothing_is_loaded_before_the_first_request() -> None:
    script = (
        "import sys; from lakecli.stores.registry import open_store;"
        "store = open_store('gs://bucket/prefix'); store.uri; store.batch();"
        "sys.exit(bool({'google', 'requests'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def chunked(size: int) -> BinaryIO:
    return cast("BinaryIO", Chunked(size))


def test_responses_show_the_stores_clock(store: GsStore) -> None:
    assert store_time(store) is None
    store.put("clock", b"", ANY)
    shown, modified = store_time(store), store.head("clock").modified_at
    assert shown is not None
    assert abs(shown - modified) < timedelta(minutes=1)


class _Requests:
    """A client that records the number of deletions in each request."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def delete(self, names: Sequence[str], versions: Sequence[object] = ()) -> list[object]:
        assert len(versions) in {0, len(names)}
        self.sizes.append(len(names))
        return []


def test_a_request_deletes_at_most_a_hundred_objects() -> None:
    """The emulator may accept more."""
    store, requests = GsStore("bucket"), _Requests()
    store._clients = [requests]  # type: ignore[list-item]
    store.delete(f"k{number}" for number in range(201))
    assert requests.sizes == [100, 100, 1]
    requests.sizes.clear()
    assert store.delete_matching((f"k{n}", Version("1")) for n in range(201)) == []
    assert requests.sizes == [100, 100, 1]

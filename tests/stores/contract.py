"""The contract of all object stores. One subclass per adapter, in its ``test_store.py``."""

from __future__ import annotations

import gzip
import io
import time
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from threading import Barrier
from typing import TYPE_CHECKING

import pytest
from blake3 import blake3

from lakecli.base.layout import data_key
from lakecli.base.model import Entry
from lakecli.errors import IntegrityError, LakeError, NotFound
from lakecli.repository.reading.contents import read_located
from lakecli.repository.reading.recorded import PIECE
from lakecli.stores.capabilities import DeletesMatching, renew
from lakecli.stores.contract import (
    ABSENT,
    ANY,
    Attributes,
    BucketNotFound,
    ConditionFailed,
    Match,
    ObjectNotFound,
    TooLarge,
    Version,
    get_bounded,
    key_bytes,
    put_content,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO

    from lakecli.stores.contract import Condition, ObjectStore

ODD_NAMES: tuple[str, ...] = (
    "space in it",
    " leading and trailing ",
    "100%",
    "%41",
    "a+b&c=d?e#f;g",
    "quote'\"`quote",
    "back\\slash",
    "[*]{}<>|^~!$@,:()",
    "unicode-ü-中-🎉",
    "combining-é",
    ".hidden",
    "...",
    "tab\there",
)


PREFIXES: tuple[str, ...] = ("some/pre fix", "some/prefix", "")
"""Prefixes of namespaces. One with a space keeps S3 from its direct requests."""


class Chunked(io.RawIOBase):
    """A stream of a known size that can be read once, in pieces smaller than asked for."""

    def __init__(self, size: int) -> None:
        self._left = size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        count = min(self._left, 70_000 if size < 0 else min(size, 70_000))
        self._left -= count
        return b"\x5a" * count


EXPECTED: list[object] = [b"first bytes", b"rst", b"tes", b"first bytes"]


def read_ways(store: ObjectStore, key: str, matching: str) -> list[object]:
    """Return what each way of reading gives, or the class of its error."""

    def opened(file: BinaryIO) -> bytes:
        with file:
            return file.read()

    ways: list[Callable[[], bytes]] = [
        lambda: store.get(key, matching=matching),
        lambda: store.get(key, start=2, length=3, matching=matching),
        lambda: store.get(key, start=-3, matching=matching),
        lambda: opened(store.open(key, matching=matching)),
    ]
    found: list[object] = []
    for way in ways:
        try:
            found.append(way())
        except LakeError as error:
            found.append(type(error))
    return found


def _tag(store: ObjectStore, key: str) -> str:
    seen = store.head(key)
    return seen.etag or str(seen.version)


class ObjectStoreContract(ABC):
    """Subclasses make the stores; every test below then runs on them."""

    keeps_metadata = True
    """Content type and metadata come back from `head`."""

    is_conditional = True
    """The server under test honours conditions."""

    names_existing = True
    """A flushed batch reports which of its keys existed."""

    has_matching_deletes = True
    """Objects can be deleted on the condition of a version that every write changes."""

    odd_names = ODD_NAMES

    many = 300
    """Objects of the paging test: more than one page of the store's listing."""

    @abstractmethod
    @pytest.fixture
    def make_store(self) -> Callable[[], ObjectStore]:
        """Return a function that makes stores of one empty namespace, new in every test."""

    @abstractmethod
    @pytest.fixture
    def missing_store(self) -> ObjectStore:
        """Return a store whose bucket does not exist."""

    @pytest.fixture
    def store(self, make_store: Callable[[], ObjectStore]) -> ObjectStore:
        return make_store()

    # Reading and writing

    def test_a_read_gives_bytes_of_the_object_that_it_must_match_or_none(
        self, store: ObjectStore
    ) -> None:
        store.put("k", b"first bytes", ANY)
        store.put("empty", b"", ANY)
        seen = store.head("k")
        tag = seen.etag or str(seen.version)
        for matching in (tag, f'"{tag}"', f'W/"{tag}"', f'"{tag}-gzip"', f"{tag};gzip", ""):
            assert read_ways(store, "k", matching) == EXPECTED
        if seen.md5:
            assert read_ways(store, "k", seen.md5) == EXPECTED
        with pytest.raises(ConditionFailed):
            store.get("k", length=0, matching="other")
        with store.open("empty", matching=_tag(store, "empty")) as file:
            assert file.read() == b""

        time.sleep(0.01)  # a tick of the kernel's clock, by which directories tell files apart
        store.put("k", b"other bytes", ANY)
        unequal = (tag, f'"{tag}-gzip"', "0" * 32, "0" * 32 + "-2", "no tag", "\u20ac\r\nx: y")
        for matching in unequal:
            assert read_ways(store, "k", matching) == [ConditionFailed] * len(EXPECTED), matching
        store.put("k", b"", ANY)
        assert read_ways(store, "k", "0" * 32) == [ConditionFailed] * len(EXPECTED)
        found = read_ways(store, "missing", tag)
        assert set(found) <= {ObjectNotFound, ConditionFailed}  # Azure looks at the condition first

    def test_get_returns_what_put_wrote(self, store: ObjectStore) -> None:
        store.put("a/b", b"one", ANY)
        store.put("a/c", b"", ANY)
        assert store.get("a/b") == b"one"
        assert store.get("a/c") == b""
        store.put("a/b", b"two!", ANY)
        assert store.get("a/b") == b"two!"

    def test_ranges_are_read(self, store: ObjectStore) -> None:
        store.put("k", b"0123456789", ANY)
        assert store.get("k", start=3) == b"3456789"
        assert store.get("k", start=3, length=4) == b"3456"
        assert store.get("k", length=2) == b"01"
        assert store.get("k", start=8, length=100) == b"89"
        assert store.get("k", start=-3) == b"789"
        assert store.get("k", start=-10) == b"0123456789"
        assert store.get("k", start=-99) == b"0123456789"
        assert store.get("k", start=10) == b""
        assert store.get("k", start=11, length=5) == b""
        assert store.get("k", start=5, length=0) == b""

    def test_ranges_of_an_empty_object_are_empty(self, store: ObjectStore) -> None:
        store.put("k", b"", ANY)
        assert store.get("k", start=0, length=10) == b""
        assert store.get("k", start=-5) == b""
        assert store.get("k", start=1) == b""

    @pytest.mark.parametrize("size", [0, 5, PIECE + 5])
    def test_of_a_replaced_object_no_other_bytes_pass_for_those_of_the_entry(
        self, store: ObjectStore, size: int
    ) -> None:
        data = b"x" * size
        digest = blake3(data).hexdigest()
        entry = Entry(data_key(digest), size, digest, datetime(2026, 1, 1, tzinfo=UTC))
        store.put(entry.physical_address, data, ANY)
        assert b"".join(read_located("", store, entry.physical_address, entry)) == data
        for other in {b"", b"x" * 4, b"x" * (size + 1), b"x" * (size + PIECE)} - {data}:
            store.put(entry.physical_address, other, ANY)
            seen: list[bytes] = []
            with pytest.raises(IntegrityError, match="damaged"):
                seen.extend(read_located("", store, entry.physical_address, entry))
            assert sum(map(len, seen)) <= size
        store.delete([entry.physical_address])
        with pytest.raises(NotFound, match="gone"):
            list(read_located("", store, entry.physical_address, entry))

    def test_undefined_ranges_are_errors_of_the_caller(self, store: ObjectStore) -> None:
        store.put("k", b"0123456789", ANY)
        with pytest.raises(ValueError, match="no such range"):
            store.get("k", start=-3, length=2)
        with pytest.raises(ValueError, match="no such range"):
            store.get("k", length=-1)

    def test_missing_objects_are_named(self, store: ObjectStore) -> None:
        store.put("there/x", b"x", ANY)
        missing: tuple[Callable[[str], object], ...] = (
            store.get,
            store.open,
            store.head,
            lambda key: store.get(key, start=5, length=0),
            lambda key: store.get(key, start=-5),
            lambda key: store.copy(key, "elsewhere"),
        )
        for key in ("no/such", "there/x/y", "there"):
            for call in missing:
                with pytest.raises(ObjectNotFound, match=key):
                    call(key)
            assert store.local_path(key) is None

    def test_open_returns_a_stream(self, store: ObjectStore) -> None:
        body = bytes(range(256)) * 1_024
        store.put("k", body, ANY)
        with store.open("k") as stream:
            assert stream.read(10) == body[:10]
            pieces = [stream.read(100_000)]
            while piece := stream.read(100_000):
                pieces.append(piece)
            assert b"".join(pieces) == body[10:]
            assert stream.read(1) == b""

    def test_a_body_may_be_a_stream(self, store: ObjectStore) -> None:
        size = 9 * 1_024 * 1_024 + 1
        version = store.put("large", _binary(Chunked(size)), ANY)
        info = store.head("large")
        assert info.size == size
        assert info.version == version
        assert store.get("large", start=size - 3, length=10) == b"\x5a" * 3
        store.put("small", _binary(io.BytesIO(b"tiny")), ABSENT)
        assert store.get("small") == b"tiny"
        store.put("empty", _binary(io.BytesIO(b"")), ANY)
        assert store.get("empty") == b""

    def test_a_stream_is_written_from_where_it_stands(self, store: ObjectStore) -> None:
        conditions: tuple[Condition, ...] = (ANY, ABSENT)
        for number, condition in enumerate(conditions):
            body = io.BytesIO(b"0123456789")
            body.seek(4)
            store.put(f"k{number}", body, condition)
            assert store.get(f"k{number}") == b"456789"

    def test_head_returns_size_type_and_metadata(self, store: ObjectStore) -> None:
        attributes = Attributes(
            "text/csv; charset=utf-8", {"colour": "blue", "x-y_z": "1 2"}, "gzip"
        )
        version = store.put("a/k", b"12345", ANY, attributes)
        info = store.head("a/k")
        assert (info.key, info.size, info.version) == ("a/k", 5, version)
        assert info.modified_at.tzinfo is not None
        assert info.modified_at.microsecond == 0
        if self.keeps_metadata:
            assert info.content_type == "text/csv; charset=utf-8"
            assert info.metadata == {"colour": "blue", "x-y_z": "1 2"}
            assert info.content_encoding == "gzip"

    def test_encoded_bytes_are_read_as_they_are_stored(self, store: ObjectStore) -> None:
        body = gzip.compress(b"decoded" * 99)
        store.put("k", body, ANY, Attributes("text/csv", content_encoding="gzip"))
        with store.open("k") as opened:
            assert opened.read() == body
        assert store.get("k") == store.get_versioned("k")[0] == body
        assert store.get("k", start=3, length=4) == body[3:7]
        assert store.get("k", start=-5) == body[-5:]
        assert [info.size for info in store.list()] == [len(body)]

    # Conditions

    def test_put_absent_creates_only(self, store: ObjectStore) -> None:
        version = store.put("k", b"first", ABSENT)
        assert store.head("k").version == version
        with pytest.raises(ConditionFailed, match="k"):
            store.put("k", b"second", ABSENT)
        with pytest.raises(ConditionFailed, match="k"):
            store.put("k", io.BytesIO(b"third"), ABSENT)
        assert store.get("k") == b"first"

    def test_put_match_replaces_only_that_version(self, store: ObjectStore) -> None:
        first = store.put("k", b"1", ANY)
        second = store.put("k", b"2", Match(first))
        assert second != first
        with pytest.raises(ConditionFailed, match="k"):
            store.put("k", b"3", Match(first))
        assert store.get("k") == b"2"
        listed = next(iter(store.list("k"))).version
        assert listed == second
        store.put("k", b"4", Match(listed))
        assert store.get("k") == b"4"

    def test_get_versioned_reads_a_beginning(self, store: ObjectStore) -> None:
        written = store.put("k", b"2" * 300_000, ANY)
        assert store.get_versioned("k", length=7) == (b"2" * 7, written)
        assert store.get_versioned("k", length=400_000) == (b"2" * 300_000, written)
        store.put("empty", b"", ANY)
        assert store.get_versioned("empty", length=7)[0] == b""
        with pytest.raises(ObjectNotFound, match="missing"):
            store.get_versioned("missing", length=7)

    def test_get_bounded_refuses_a_larger_object(self, store: ObjectStore) -> None:
        store.put("k", b"12345", ANY)
        assert get_bounded(store, "k", 5) == b"12345"
        with pytest.raises(TooLarge, match="more than 4 bytes"):
            get_bounded(store, "k", 4)
        with pytest.raises(ObjectNotFound, match="missing"):
            get_bounded(store, "missing", 5)
        store.put("empty", b"", ANY)
        assert get_bounded(store, "empty", 5) == b""

    def test_get_versioned_returns_bytes_and_version(self, store: ObjectStore) -> None:
        versions = []
        for body in (b"1", b"", b"2" * 300_000):
            written = store.put("k", body, ANY)
            found, version = store.get_versioned("k")
            assert (found, version) == (body, written)
            assert version == store.head("k").version
            versions.append(version)
        assert len(set(versions)) == len(versions)
        store.put("k", b"next", Match(versions[-1]))
        with pytest.raises(ConditionFailed):
            store.put("k", b"late", Match(versions[-1]))
        with pytest.raises(ObjectNotFound, match="missing"):
            store.get_versioned("missing")

    def test_bytes_and_version_belong_together(self, make_store: Callable[[], ObjectStore]) -> None:
        stores = [make_store() for _ in range(4)]
        stores[0].put("counter", b"0", ABSENT)
        _race(stores, _increment_by_one_read)
        assert stores[0].get("counter") == b"12"

    def test_put_match_of_a_missing_object_fails(self, store: ObjectStore) -> None:
        version = store.put("k", b"1", ANY)
        store.delete(["k"])
        with pytest.raises(ConditionFailed, match="k"):
            store.put("k", b"2", Match(version))
        with pytest.raises(ConditionFailed, match="never"):
            store.put("never", b"2", Match(version))
        with pytest.raises(ConditionFailed, match="k"):
            store.put("k", b"2", Match(Version("no-such-version")))
        assert list(store.list()) == []

    def test_every_put_of_other_bytes_makes_another_version(self, store: ObjectStore) -> None:
        versions = [store.put("k", b"%03d" % number, ANY) for number in range(20)]
        assert len(set(versions)) == len(versions)

    def test_one_of_eight_racing_creators_wins(self, make_store: Callable[[], ObjectStore]) -> None:
        stores = [make_store() for _ in range(8)]
        for round_number in range(5):
            key = f"race/{round_number}"
            wins = _race(stores, partial(_create, key))
            assert wins.count(True) == 1
            assert stores[0].get(key) == b"%d" % wins.index(True)

    def test_no_update_is_lost_among_eight_writers(
        self, make_store: Callable[[], ObjectStore]
    ) -> None:
        stores = [make_store() for _ in range(8)]
        stores[0].put("counter", b"0", ABSENT)
        _race(stores, _increment_three_times)
        assert stores[0].get("counter") == b"24"

    # Listing

    def test_listing_is_in_byte_order(self, store: ObjectStore) -> None:
        keys = ["a-b", "a/b", "a/b-c/d", "a/b/c", "a0", "a", "Z", "z/\U0001f389", "z/\uffee", "é/x"]
        keys = [key for key in keys if key not in self.clashing]
        for key in keys:
            store.put(key, key_bytes(key), ANY)
        ordered = sorted(keys, key=key_bytes)
        assert [info.key for info in store.list()] == ordered
        for after in (
            *ordered,
            "",
            "a",
            "a.",
            "a/",
            "a/b",
            "a/b/",
            "a/b/zz",
            "b",
            "z/",
            "\U0010ffff",
        ):
            expected = [key for key in ordered if key_bytes(key) > key_bytes(after)]
            assert [info.key for info in store.list(after=after)] == expected, after
            within = [key for key in expected if key.startswith("a/")]
            assert [info.key for info in store.list("a/", after=after)] == within, after

    clashing: tuple[str, ...] = ()
    """Keys of the listing tests that this store cannot hold together with the others."""

    def test_listing_takes_a_prefix(self, store: ObjectStore) -> None:
        for key in ("data/ab/1", "data/ab/2", "data/ac/1", "data/b", "datum", "x/data/ab/1"):
            store.put(key, b"12", ANY)
        listed = {
            prefix: [info.key for info in store.list(prefix)]
            for prefix in ("data/ab/", "data/a", "data/ab/2", "dat", "none", "data//", "./", "../")
        }
        assert listed == {
            "data/ab/": ["data/ab/1", "data/ab/2"],
            "data/a": ["data/ab/1", "data/ab/2", "data/ac/1"],
            "data/ab/2": ["data/ab/2"],
            "dat": ["data/ab/1", "data/ab/2", "data/ac/1", "data/b", "datum"],
            "none": [],
            "data//": [],
            "./": [],
            "../": [],
        }
        info = next(iter(store.list("data/b")))
        assert (info.size, info.modified_at) == (2, store.head("data/b").modified_at)

    def test_many_objects_are_listed_and_deleted(self, store: ObjectStore) -> None:
        keys = [f"many/{number % 10}/{number:05}" for number in range(self.many)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda key: store.put(key, b"", ANY), keys))
        keys.sort()
        assert [info.key for info in store.list("many/")] == keys
        store.put("stays", b"", ANY)
        store.delete(iter(keys))
        assert [info.key for info in store.list()] == ["stays"]

    def test_odd_names_are_kept(self, store: ObjectStore) -> None:
        names = [f"odd/{name}" for name in self.odd_names]
        for name in names:
            store.put(name, key_bytes(name), ABSENT)
        assert [info.key for info in store.list("odd/")] == sorted(names, key=key_bytes)
        for name in names:
            assert store.get(name) == key_bytes(name)
            assert store.head(name).key == name
            assert next(iter(store.list(name))).key == name
            store.copy(name, f"copied/{name}")
            assert store.get(f"copied/{name}") == key_bytes(name)
        store.delete(names)
        assert list(store.list("odd/")) == []
        assert len(list(store.list("copied/odd/"))) == len(names)

    # Deleting and copying

    def test_delete_removes_objects_and_ignores_missing_ones(self, store: ObjectStore) -> None:
        for key in ("a/1", "a/2", "b"):
            store.put(key, b"x", ANY)
        store.delete(["a/1", "missing", "a/1/below", "a", "none/at/all"])
        assert [info.key for info in store.list()] == ["a/2", "b"]
        store.delete([])
        store.put("a/1", b"again", ABSENT)
        assert store.get("a/1") == b"again"

    def test_delete_matching_removes_only_that_version(self, store: ObjectStore) -> None:
        assert isinstance(store, DeletesMatching) == self.has_matching_deletes
        if not isinstance(store, DeletesMatching):
            return
        old = {
            f"data/{number:03}": store.put(f"data/{number:03}", b"same", ANY) for number in range(6)
        }
        written, copied, renewed = list(old)[:3]
        assert store.put(written, b"same", ANY) != old[written]
        store.put("aside", b"same", ANY)
        store.copy("aside", copied)
        renew(store, renewed, aside="aside-2")
        wanted = [*old.items(), ("data/missing", old[written]), ("data/000/below", old[written])]
        kept = store.delete_matching(iter(wanted))
        assert sorted(kept) == [written, copied, renewed]
        left = {info.key: info.version for info in store.list()}
        assert sorted(left) == ["aside", written, copied, renewed]
        assert all(version != left.get(key) for key, version in old.items())
        # With the version of a listing, with that of `head`, and with one that never existed.
        assert store.delete_matching([(written, Version("no-such-version"))]) == [written]
        assert not store.delete_matching([(written, left[written])])
        assert not store.delete_matching([(copied, store.head(copied).version)])
        assert [info.key for info in store.list("data/")] == [renewed]
        assert not store.delete_matching([])

    def test_delete_matching_removes_many(self, store: ObjectStore) -> None:
        if not isinstance(store, DeletesMatching):
            return
        objects = [(f"many/{n:05}", store.put(f"many/{n:05}", b"", ANY)) for n in range(self.many)]
        for key, _ in objects[::7]:
            store.put(key, b"", ANY)
        kept = sorted(store.delete_matching(objects))
        assert kept == [key for key, _ in objects[::7]]
        assert [info.key for info in store.list("many/")] == kept

    def test_renew_gives_an_object_a_new_time(self, store: ObjectStore) -> None:
        store.put("k/1", b"body", ANY, Attributes("text/plain", {"k": "v"}))
        before = store.head("k/1")
        renew(store, "k/1", aside="k/aside")
        after = store.head("k/1")
        assert store.get("k/1") == b"body"
        assert after.modified_at >= before.modified_at
        assert (after.content_type, after.metadata) == (before.content_type, before.metadata)
        assert [info.key for info in store.list()] == ["k/1"]
        if self.has_matching_deletes:
            assert after.version != before.version
        for key in ("missing", "k/1/below", "k"):
            with pytest.raises(ObjectNotFound):
                renew(store, key, aside="k/aside")

    def test_copy_keeps_contents_and_metadata(self, store: ObjectStore) -> None:
        store.put("from", b"body", ANY, Attributes("text/plain", {"k": "v"}, "br"))
        store.copy("from", "deep/er/to")
        assert store.get("deep/er/to") == b"body"
        assert store.get("from") == b"body"
        if self.keeps_metadata:
            info = store.head("deep/er/to")
            assert (info.content_type, info.metadata) == ("text/plain", {"k": "v"})
            assert info.content_encoding == "br"
        store.put("from", b"other", ANY)
        store.copy("from", "deep/er/to")
        assert store.get("deep/er/to") == b"other"

    # Create-only writes

    def test_put_new_reports_an_existing_object(self, store: ObjectStore) -> None:
        assert store.put_new("data/00/new", b"first")
        assert not store.put_new("data/00/new", b"second")
        assert store.get("data/00/new") == b"first"

    # Writes of content-addressed objects: an object exists if name and size are the same

    def test_put_content_replaces_an_object_of_another_size(self, store: ObjectStore) -> None:
        assert put_content(store, "data/00/k", b"whole")
        first = store.head("data/00/k")
        assert not put_content(store, "data/00/k", b"whole")
        assert store.head("data/00/k") == first
        for damaged in (b"", b"who", b"whole and more"):
            store.put("data/00/k", damaged, ANY)
            assert put_content(store, "data/00/k", b"whole")
            assert store.get("data/00/k") == b"whole"
        assert not put_content(store, "data/00/k", b"whole")

    def test_other_objects_are_never_replaced(self, store: ObjectStore) -> None:
        store.put("_lakefs/range", b"another writer's", ANY)
        batch = store.batch()
        batch.put_new("_lakefs/range", b"ours")
        batch.flush()
        assert not store.put_new("_lakefs/range", b"ours")
        assert store.get("_lakefs/range") == b"another writer's"

    # Batches

    def test_a_batch_writes_new_objects(self, store: ObjectStore) -> None:
        store.put("data/00/old", b"old", ANY)
        batch = store.batch()
        expected = {f"data/{n % 50:02}/{n}": b"%d" % n for n in range(150)}
        for key, body in expected.items():
            batch.put_new(key, body)
        batch.put_new("data/00/old", b"newer")
        batch.put_new("data/00/0", b"again")
        existing = set(batch.flush())
        assert existing == ({"data/00/old", "data/00/0"} if self.names_existing else set())
        listed = {info.key for info in store.list()}
        assert listed == {*expected, "data/00/old"}
        assert store.get("data/00/old") == b"old"
        assert store.get("data/00/0") == b"0"
        assert store.get("data/49/149") == b"149"
        batch.put_new("later", b"second round")
        batch.flush()
        batch.flush()
        assert store.get("later") == b"second round"

    def test_a_batch_is_filled_by_several_threads(self, store: ObjectStore) -> None:
        batch = store.batch()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: batch.put_new(f"t/{n}", b"%d" % n), range(100)))
        batch.flush()
        assert {info.key: info.size for info in store.list()} == {
            f"t/{n}": len(str(n)) for n in range(100)
        }

    # A missing bucket

    def test_a_missing_bucket_is_reported(self, missing_store: ObjectStore) -> None:
        def flush() -> None:
            batch = missing_store.batch()
            batch.put_new("k", b"body")
            batch.flush()

        calls: tuple[Callable[[], object], ...] = (
            lambda: missing_store.get("k"),
            lambda: missing_store.get_versioned("k"),
            lambda: missing_store.open("k"),
            lambda: missing_store.head("k"),
            lambda: missing_store.put("k", b"", ANY),
            lambda: missing_store.put("k", b"", ABSENT),
            lambda: missing_store.put("k", b"", Match(Version("v"))),
            lambda: list(missing_store.list()),
            lambda: list(missing_store.list("a/b")),
            lambda: missing_store.delete(["k"]),
            lambda: missing_store.copy("k", "l"),
            flush,
        )
        for call in calls:
            with pytest.raises(BucketNotFound) as raised:
                call()
            assert raised.value.message


def _binary(stream: object) -> BinaryIO:
    return stream  # type: ignore[return-value]


def _race(stores: Sequence[ObjectStore], act: Callable[[ObjectStore, int], bool]) -> list[bool]:
    """Let writers, each with another store, act at the same moment."""
    barrier = Barrier(len(stores))

    def run(me: int) -> bool:
        barrier.wait()
        return act(stores[me], me)

    with ThreadPoolExecutor(len(stores)) as pool:
        return list(pool.map(run, range(len(stores))))


def _create(key: str, store: ObjectStore, me: int) -> bool:
    try:
        store.put(key, b"%d" % me, ABSENT)
    except ConditionFailed:
        return False
    return True


def _increment_by_one_read(store: ObjectStore, me: int) -> bool:
    left = 3
    while left:
        body, version = store.get_versioned("counter")
        try:
            store.put("counter", b"%d" % (int(body) + 1), Match(version))
        except ConditionFailed:
            continue
        left -= 1
    return True


def _increment_three_times(store: ObjectStore, me: int) -> bool:
    left = 3
    while left:
        version = store.head("counter").version
        value = int(store.get("counter"))
        try:
            store.put("counter", b"%d" % (value + 1), Match(version))
        except ConditionFailed:
            continue
        left -= 1
    return True

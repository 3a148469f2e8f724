from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lakecli.errors import Unsupported
from lakecli.stores.contract import ANY, BucketNotFound
from lakecli.stores.presigned_urls import PresignRequest
from lakecli.stores.registry import open_store, prepare_namespace
from tests.stores.contract import ObjectStoreContract
from tests.stores.uploads_contract import CheckedPartsContract
from tests.support.memory_store import BUCKETS, MemoryBucket, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.stores.contract import ObjectStore


class TestMemoryStore(CheckedPartsContract, ObjectStoreContract):
    @pytest.fixture
    def make_store(self) -> Callable[[], ObjectStore]:
        bucket = MemoryBucket()
        return lambda: MemoryStore(bucket, "some/prefix/")

    @pytest.fixture
    def missing_store(self) -> ObjectStore:
        return MemoryStore(missing=True)

    @pytest.fixture
    def store(self, make_store: Callable[[], ObjectStore]) -> ObjectStore:
        return make_store()


def test_namespaces_of_one_bucket_do_not_see_each_other() -> None:
    bucket = MemoryBucket()
    one, two = MemoryStore(bucket, "one/"), MemoryStore(bucket, "two/")
    one.put("k", b"1", ANY)
    assert list(two.list()) == []
    assert list(bucket.objects) == ["one/k"]
    assert (one.uri, MemoryStore().uri) == ("memory://one", "memory://")


def test_a_batch_writes_nothing_before_its_flush() -> None:
    store = MemoryStore()
    batch = store.batch()
    batch.put_new("k", b"1")
    assert list(store.list()) == []


def test_the_clock_is_a_parameter() -> None:
    at = datetime(2030, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
    store = MemoryStore(MemoryBucket(clock=lambda: at))
    store.put("k", b"", ANY)
    assert store.head("k").modified_at == at.replace(microsecond=0)
    with pytest.raises(Unsupported, match="cannot presign"):
        store.presign("k", PresignRequest("GET", timedelta(minutes=1)), now=at)


def test_a_named_bucket_is_opened_by_its_uri(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = MemoryBucket()
    monkeypatch.setitem(BUCKETS, "named", bucket)
    assert prepare_namespace("memory://named/some/prefix") == ""
    store = open_store("memory://named/some/prefix")
    store.put("k", b"1", ANY)
    assert store.uri == "memory://named/some/prefix"
    assert list(bucket.objects) == ["some/prefix/k"]


def test_a_bucket_without_a_name_in_this_process_is_not_found() -> None:
    with pytest.raises(BucketNotFound, match="no bucket 'unknown'"):
        prepare_namespace("memory://unknown/prefix")
    with pytest.raises(BucketNotFound):
        open_store("memory://unknown/prefix").put("k", b"1", ANY)

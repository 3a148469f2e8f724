"""Tables by their ID: which copy is read, what is believed of it, and what is claimed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakecli.base.model import EMPTY_TREE, RangeId
from lakecli.committed.cache import SstableCache
from lakecli.committed.metaranges import Mismatch
from lakecli.committed.point_reads import find
from lakecli.committed.tree_store import MissingTable, TreeStore
from lakecli.committed.writer import apply
from lakecli.errors import IntegrityError
from lakecli.stores.contract import ANY
from lakecli.stores.local.store import DirectoryStore
from tests.committed.trees import (
    RecordingStore,
    build,
    change,
    contents,
    iter_ranges,
    key,
    large_model,
    new_trees,
    value,
)
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lakecli.stores.contract import ObjectStore

MODEL = large_model(100)


class Claims:
    """A guard that records its calls."""

    is_active = True

    def __init__(self) -> None:
        self.calls: list[object] = []

    def begin(self) -> bool:
        self.calls.append("begin")
        return self.is_active

    def claim(self, keys: Collection[str]) -> Mapping[str, int]:
        return dict.fromkeys(keys, 1)

    def settle(
        self, *, found: Collection[str], written: Collection[str], whole: bool = False
    ) -> None:
        self.calls.append((set(found), set(written), whole))


def keys_of(trees: TreeStore) -> set[str]:
    return {info.key for info in trees.store.list("_lakefs/")}


@pytest.mark.parametrize("is_local", [False, True])
def test_tables_that_existed_are_claimed_apart_from_new_ones(
    tmp_path: Path, *, is_local: bool
) -> None:
    store: ObjectStore = MemoryStore()
    if is_local:
        (tmp_path / "namespace").mkdir()
        store = DirectoryStore(str(tmp_path / "namespace"))
    plain = new_trees(store)
    tree = build(plain, MODEL)
    before = keys_of(plain)
    guard = Claims()
    trees = TreeStore(store, cache=None, range_entries=16, guard=lambda: guard)
    assert build(trees, MODEL) == tree
    assert guard.calls[:-1] == ["begin"] * len(before)
    assert guard.calls[-1] == (before, set(), True)
    guard.calls.clear()
    change(trees, tree, {key(3): value(-1)})
    written = keys_of(trees) - before
    assert written
    assert guard.calls == ["begin"] * len(written) + [(set(), written, True)]


def test_what_was_claimed_is_not_claimed_again() -> None:
    guard = Claims()
    trees = TreeStore(MemoryStore(), cache=None, range_entries=16, guard=lambda: guard)
    batch = trees.begin()
    trees.flush(batch)
    assert guard.calls == []
    trees.write(batch, "a" * 64, b"table")
    trees.flush(batch)
    trees.flush(batch)
    assert guard.calls == ["begin", (set(), {f"_lakefs/{'a' * 64}"}, True)]


def test_without_a_guard_that_is_active_no_table_is_known_to_have_existed(tmp_path: Path) -> None:
    """A look at the directory would be in vain; the batch finds it at its end."""
    store = DirectoryStore(str(tmp_path))
    guard = Claims()
    guard.is_active = False
    trees = TreeStore(store, cache=None, range_entries=16, guard=lambda: guard)
    for _ in range(2):
        batch = trees.begin()
        trees.write(batch, "a" * 64, b"table")
        assert list(batch.written.values()) == [False]
        trees.flush(batch)


def test_the_size_of_a_table_is_that_of_the_copy_that_remains(tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path))
    trees = new_trees(store)
    name = "a" * 64
    batch = trees.begin()
    assert trees.write(batch, name, b"table") == 5
    trees.flush(batch)
    batch = trees.begin()
    assert trees.write(batch, name, b"another") == 5
    assert trees.counts.bytes_written == 12


class Evicted(SstableCache):
    """A cache whose files another process removes after they were found."""

    def find(self, table_id: str) -> str | None:
        path = super().find(table_id)
        if path is not None:
            Path(path).unlink()
        return path


def test_a_cached_table_that_is_evicted_after_it_was_found_is_fetched(tmp_path: Path) -> None:
    store = RecordingStore()
    tree = build(new_trees(store), MODEL)
    count = len(keys_of(new_trees(store)))

    def with_full_cache() -> TreeStore:
        contents(new_trees(store, cache=SstableCache(tmp_path)), tree)
        assert len(list(tmp_path.iterdir())) == count
        return new_trees(store, cache=Evicted(tmp_path))

    assert contents(with_full_cache(), tree) == MODEL
    assert find(with_full_cache(), tree, key(7)) == MODEL[key(7)]
    trees = with_full_cache()
    assert [record.size for record in iter_ranges(trees, build(trees, MODEL))] == [
        store.head(f"_lakefs/{record.id}").size for record in iter_ranges(trees, tree)
    ]


def test_a_damaged_file_of_the_cache_goes_even_if_the_bucket_has_nothing(tmp_path: Path) -> None:
    store = RecordingStore()
    tree = build(new_trees(store, cache=SstableCache(tmp_path)), MODEL)
    trees = new_trees(store, cache=SstableCache(tmp_path))
    record = next(iter_ranges(trees, tree))
    again = new_trees(store, cache=SstableCache(tmp_path))
    for name, reader in ((tree, again), (record.id, trees)):
        (tmp_path / name).write_bytes(b"damaged")
        store.delete([f"_lakefs/{name}"])
        with pytest.raises(MissingTable):
            find(reader, tree, record.min_key)
        assert not (tmp_path / name).exists()


def test_a_range_that_is_not_as_described_is_neither_believed_nor_kept(tmp_path: Path) -> None:
    """Neither in memory nor in the cache: the next read asks the bucket again."""
    store = RecordingStore()
    tree = build(new_trees(store), MODEL)
    trees = new_trees(store, cache=SstableCache(tmp_path))
    record, other, *_ = iter_ranges(trees, tree)
    object_key = f"_lakefs/{record.id}"
    right = store.get(object_key)
    for wrong, told in (
        (other.id, "not the range that its metarange describes"),
        (tree, "is not a range"),
    ):
        store.put(object_key, store.get(f"_lakefs/{wrong}"), ANY)
        with pytest.raises(IntegrityError, match=told):
            trees.table(record)
        assert not (tmp_path / record.id).exists()
        with pytest.raises(IntegrityError, match=told):
            trees.open_for_points(record, is_exact=False)
        (tmp_path / record.id).write_bytes(store.get(object_key))
        assert trees.open_copy(record) is None
        assert not (tmp_path / record.id).exists()
    store.put(object_key, right, ANY)
    table = trees.table(record)
    assert table.count == record.count
    # What is in memory is compared with each record that describes it.
    for wrong_record in (
        record._replace(count=record.count + 1),
        record._replace(min_key=b"a"),
        record._replace(max_key=b"z"),
    ):
        with pytest.raises(Mismatch):
            trees.table(wrong_record)


def test_a_misnamed_metarange_is_not_kept() -> None:
    store = MemoryStore()
    tree, other = build(new_trees(store), MODEL), build(new_trees(store), large_model(50))
    right = store.get(f"_lakefs/{tree}")
    store.put(f"_lakefs/{tree}", store.get(f"_lakefs/{other}"), ANY)
    trees = new_trees(store)
    for _ in range(2):
        with pytest.raises(IntegrityError, match="not the digest of its records"):
            trees.metarange(tree)
    store.put(f"_lakefs/{tree}", right, ANY)
    assert contents(trees, tree) == MODEL


def test_a_copy_is_opened_only_if_this_machine_has_one(tmp_path: Path) -> None:
    store = RecordingStore()
    tree = build(new_trees(store), MODEL)
    trees = new_trees(store, cache=SstableCache(tmp_path))
    record, *_ = iter_ranges(trees, tree)
    before = dict(trees.reads), trees.counts.ranges_opened
    assert trees.open_copy(record) is None
    assert (dict(trees.reads), trees.counts.ranges_opened) == before
    trees.table(record)
    before = dict(trees.reads), trees.counts.ranges_opened
    copy = trees.open_copy(record)
    assert copy is not None
    assert copy.count == record.count
    assert trees.reads["disk"] == before[0]["disk"] + 1
    assert trees.counts.ranges_opened == before[1] + 1


def test_a_range_in_memory_is_read_there_and_counts_so() -> None:
    store = RecordingStore()
    tree = build(new_trees(store), MODEL)
    trees = new_trees(store)
    record, *_ = iter_ranges(trees, tree)
    table = trees.table(record)
    before = dict(trees.reads), trees.counts.ranges_opened
    found, tier = trees.open_for_points(record, is_exact=True)
    assert (found.source, tier) == (table.source, "memory")
    assert trees.reads == before[0] | {"memory": before[0]["memory"] + 1}
    assert trees.counts.ranges_opened == before[1]


def test_a_damaged_range_of_the_right_size_is_asked_for_once() -> None:
    """Only another size says that the bucket may hold another writer's copy."""
    store = RecordingStore()
    tree = build(new_trees(store), MODEL)
    trees = new_trees(store)
    record, *_ = iter_ranges(trees, tree)
    object_key = f"_lakefs/{record.id}"
    store.put(object_key, bytes(record.size), ANY)
    store.reads.clear()
    with pytest.raises(IntegrityError):
        trees.open_for_points(record, is_exact=True)
    assert len(store.reads) == 1
    assert store.heads == [object_key]


def test_a_tree_just_written_is_in_memory() -> None:
    trees = new_trees(RecordingStore())
    tree = apply(trees, EMPTY_TREE, sorted(MODEL.items()))
    assert contents(trees, tree) == MODEL
    assert trees.counts.metaranges_opened == 0


def test_a_missing_table_is_an_error_that_names_it() -> None:
    trees = new_trees()
    with pytest.raises(MissingTable, match="b" * 64):
        trees.read_object(RangeId("b" * 64))


def test_the_empty_tree_has_no_ranges_and_no_object() -> None:
    empty = new_trees(MemoryStore()).metarange(EMPTY_TREE)
    assert (len(empty), empty.id, empty.find(b"a")) == (0, EMPTY_TREE, 0)

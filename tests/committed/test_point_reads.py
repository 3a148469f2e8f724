"""Point reads: correct with any state of the caches, and with few requests to a bucket."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.committed import tree_store
from lakecli.committed.cache import SstableCache
from lakecli.committed.metaranges import Metarange, Mismatch, encode_range_record
from lakecli.committed.point_reads import FETCH_AFTER, PointReader, find, find_many, kept_reader
from lakecli.committed.scan import scan
from lakecli.committed.tree_store import MissingTable
from lakecli.sstable.reader import KeyLookup, SSTable
from lakecli.stores.contract import ANY
from lakecli.stores.local.store import DirectoryStore
from tests.committed.trees import (
    RecordingStore,
    build,
    change,
    iter_ranges,
    key,
    large_model,
    new_trees,
    value,
)

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.base.model import MetarangeId
    from lakecli.committed.metaranges import RangeRecord
    from lakecli.sstable.directory import ReadableFile
    from lakecli.sstable.reader import Block

pytestmark = pytest.mark.usefixtures("either_core")

MODEL = {path: value(at, bytes(at % 300)) for at, path in enumerate(large_model(3000))}


def test_an_uncached_range_in_a_bucket_costs_two_ranged_reads() -> None:
    """The end of the file, which holds the index, then one block; never the file."""
    store = RecordingStore()
    large = {path: value(at, random.Random(at).randbytes(400)) for at, path in enumerate(MODEL)}
    tree = build(new_trees(store, range_entries=4096), large)
    trees = new_trees(store, range_entries=4096)
    record = max(iter_ranges(trees, tree), key=lambda each: each.size)
    assert record.size > 500_000
    store.reads.clear()
    before = trees.reads["bucket"]
    assert find(trees, tree, record.min_key) == large[record.min_key]
    assert trees.reads["bucket"] - before == len(store.reads)
    tail, block = store.reads
    assert tail == (f"_lakefs/{record.id}", record.size - 65536, 65536)
    assert block[0] == f"_lakefs/{record.id}"
    assert block[1] == 0
    assert block[2] is not None
    assert block[2] < 16_384
    assert store.heads == []
    assert find(trees, tree, record.min_key) == large[record.min_key]
    assert len(store.reads) == 2


def test_a_range_of_a_bucket_that_is_read_again_and_again_is_fetched_whole(tmp_path: Path) -> None:
    store = RecordingStore()
    tree = build(new_trees(store, range_entries=4096), MODEL)
    trees = new_trees(store, range_entries=4096, cache=SstableCache(tmp_path))
    record = max(iter_ranges(trees, tree), key=lambda each: each.count)
    store.reads.clear()
    for path, expected in MODEL.items():
        if record.min_key <= path <= record.max_key:
            assert find(trees, tree, path) == expected
    assert len(store.reads) == 1 + FETCH_AFTER + 1
    assert SstableCache(tmp_path).find(record.id) is not None


def test_a_copy_of_another_size_in_the_bucket_is_read_as_it_is() -> None:
    """Two clones wrote one range with different times; the bucket has the other clone's copy."""
    store, elsewhere = RecordingStore(), RecordingStore()
    mine = {path: value(at, b"x" * 90) for at, path in enumerate(large_model(100))}
    theirs = {path: value(at, b"other") for at, path in enumerate(large_model(100))}
    tree = build(new_trees(store, range_entries=256), mine)
    assert build(new_trees(elsewhere, range_entries=256), theirs) == tree
    for record in iter_ranges(new_trees(store, range_entries=256), tree):
        object_key = f"_lakefs/{record.id}"
        store.put(object_key, elsewhere.get(object_key), ANY)
    trees = new_trees(store, range_entries=256)
    for path, expected in theirs.items():
        assert find(trees, tree, path) == expected


@pytest.mark.parametrize("room", [0, 1_000, 20_000, 1 << 30])
def test_answers_do_not_depend_on_the_room(room: int) -> None:
    trees = new_trees(range_entries=1024)
    trees.kept[PointReader] = PointReader(trees, blocks_limit=room)
    first = build(trees, MODEL)
    second = change(trees, first, {key(at): value(-at - 1) for at in range(0, 3000, 50)})
    asked = random.Random(room)
    for _ in range(4000):
        number = asked.randrange(-5, 3005)
        tree = asked.choice([first, first, first, second])
        expected = MODEL.get(key(number))
        if tree == second and number >= 0 and number % 50 == 0 and number < 3000:
            expected = value(-number - 1)
        assert find(trees, tree, key(number)) == expected
        assert find(trees, tree, key(number) + b"!") is None
    assert kept_reader(trees).blocks_size <= max(room, 20_000)  # one block always stays
    kept = [each.copy for each in kept_reader(trees)._open.values()]
    held = sum(len(path) + len(found) for copy in kept for path, found in copy.records.items())
    assert 0 < held <= kept_reader(trees).blocks_size


def test_many_ranges_do_not_stay_open_for_ever() -> None:
    trees = new_trees()
    trees.kept[PointReader] = PointReader(trees, tables_limit=5_000)
    tree = build(trees, MODEL)
    for _ in range(2):
        for path, expected in MODEL.items():
            assert find(trees, tree, path) == expected
    assert trees.counts.ranges_opened > len(trees.metarange(tree))


def test_closed_ranges_are_not_kept_by_blocks_that_were_read() -> None:
    trees = new_trees(range_entries=64)
    points = trees.kept[PointReader] = PointReader(trees, tables_limit=20_000)
    tree = build(trees, MODEL)
    asked = list(MODEL)
    random.Random(0).shuffle(asked)
    for path in asked:
        assert find(trees, tree, path) == MODEL[path]
    held = [opened for opened in points._trees[tree].ranges if opened is not None]
    assert {id(each) for each in held} == {id(each) for each in points._open.values()}
    assert points._open_size == sum(each.size for each in held) <= 20_000
    assert len(held) < len(trees.metarange(tree)) / 3
    assert len(points._kept) == sum(len(each.copy.blocks) for each in held)
    assert points.blocks_size == sum(size for each in held for _, size in each.copy.blocks.values())


@pytest.mark.parametrize("how", ["cut", "changed", "replaced"])
@pytest.mark.parametrize("is_full", [False, True])
def test_a_cached_file_that_is_damaged_while_it_is_open_is_fetched_again(
    tmp_path: Path, how: str, *, is_full: bool
) -> None:
    """It has two levels of index."""
    store = RecordingStore()
    large = {path: value(at, random.Random(at).randbytes(900)) for at, path in enumerate(MODEL)}
    tree = build(new_trees(store, range_entries=4096, cache=SstableCache(tmp_path)), large)
    trees = new_trees(store, range_entries=4096, cache=SstableCache(tmp_path))
    points = trees.kept[PointReader] = PointReader(trees, blocks_limit=0 if is_full else None)
    paths = list(large)[::40]
    assert points.find_many(tree, paths) == [large[path] for path in paths]
    opened = max(points._open.values(), key=lambda each: each.record.size)
    assert opened.copy.lookup.is_deep
    file = tmp_path / opened.record.id
    data = file.read_bytes()
    if how == "replaced":
        file.unlink()
        file.write_bytes(bytes(len(data)))
    elif how == "cut":
        os.truncate(file, 100)
    else:
        file.write_bytes(bytes(byte ^ 1 for byte in data))
    store.reads.clear()
    others = list(large)[1::40]
    assert points.find_many(tree, others) == [large[path] for path in others]
    assert [name for name, *_ in store.reads].count(f"_lakefs/{opened.record.id}") > 0
    assert [points.find(tree, path) for path in paths] == [large[path] for path in paths]


@pytest.mark.parametrize("is_open", [False, True])
def test_many_keys_are_read_as_one_by_one(*, is_open: bool) -> None:
    trees = new_trees(range_entries=64)
    tree = build(trees, {path: MODEL[path] for path in list(MODEL)[10:500]})
    keys = [key(at) for at in (499, 10, 250, 9, 500, 0, 10, 3000)] + [b"", b"k00250!", b"z"]
    expected = [MODEL[path] if path in keys[:3] else None for path in keys]
    if is_open:
        assert [find(trees, tree, path) for path in keys] == expected
    assert find_many(trees, tree, keys) == expected
    assert find_many(trees, tree, []) == []


class Decoded:
    """Counts the blocks that are decoded whole, and the searches in stored blocks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.blocks: list[tuple[str, int]] = []
        self.searches = 0
        decode, search, value = KeyLookup.block_at, KeyLookup.get_many, KeyLookup.value

        def block(lookup: KeyLookup, file: ReadableFile, handle: tuple[int, int]) -> Block:
            self.blocks.append((lookup.name, handle[0]))
            return decode(lookup, file, handle)

        def searched(lookup: KeyLookup, keys: list[bytes], file: ReadableFile) -> Any:
            self.searches += len(keys)
            with monkeypatch.context() as within:
                within.setattr(KeyLookup, "value", value)
                return search(lookup, keys, file)

        def one(lookup: KeyLookup, *args: Any) -> bytes | None:
            self.searches += 1
            return value(lookup, *args)

        monkeypatch.setattr(KeyLookup, "block_at", block)
        monkeypatch.setattr(KeyLookup, "get_many", searched)
        monkeypatch.setattr(KeyLookup, "value", one)


@pytest.mark.parametrize("is_remote", [False, True])
def test_with_room_each_range_is_opened_and_each_block_decoded_at_most_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, is_remote: bool
) -> None:
    store = RecordingStore() if is_remote else local_trees(tmp_path)
    tree = build(new_trees(store, range_entries=1024), MODEL)
    trees = new_trees(store, range_entries=1024)
    decoded = Decoded(monkeypatch)
    fetched: list[RangeRecord] = []
    fetch = trees.table

    def table(record: RangeRecord) -> SSTable:
        fetched.append(record)
        return fetch(record)

    monkeypatch.setattr(trees, "table", table)
    asked = [*MODEL, *MODEL]
    random.Random(0).shuffle(asked)
    for path in asked:
        assert find(trees, tree, path) == MODEL[path]
        assert find_many(trees, tree, [path]) == [MODEL[path]]
    ranges = len(trees.metarange(tree))
    twice = len(decoded.blocks) - len(set(decoded.blocks))
    assert twice == (ranges * FETCH_AFTER if is_remote else 0)  # before a range was fetched
    assert len(set(decoded.blocks)) > ranges
    opened = [each.copy.lookup for each in kept_reader(trees)._open.values()]
    few = sum(1 + each.block_count // 16 for each in opened)
    assert decoded.searches == (0 if is_remote else few)
    assert len(fetched) == (ranges if is_remote else 0)
    assert trees.counts.ranges_opened == ranges + len(fetched)


def test_a_full_cache_admits_few_of_the_blocks_that_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trees = new_trees(range_entries=1024)
    trees.kept[PointReader] = PointReader(trees, blocks_limit=1)
    tree = build(trees, MODEL)
    decoded = Decoded(monkeypatch)
    paths = list(MODEL)[:: len(MODEL) // 330]
    for path in paths:
        assert find(trees, tree, path) == MODEL[path]
    misses = len(decoded.blocks) + decoded.searches
    assert misses > 100
    assert misses // 20 < len(decoded.blocks) < misses // 10
    assert len(set(decoded.blocks)) == len(decoded.blocks)


@pytest.mark.parametrize(("trees_read", "opened"), [(1, 1), (2, 2), (3, 6)])
def test_trees_that_are_read_alternately_stay_open(
    monkeypatch: pytest.MonkeyPatch, trees_read: int, opened: int
) -> None:
    monkeypatch.setattr("lakecli.committed.point_reads.MOST_TREES", 2)
    trees = new_trees()
    made = [build(trees, {key(at): value(at)}) for at in range(trees_read)]
    asked: list[MetarangeId] = []
    metarange = trees.metarange

    def record(tree: MetarangeId) -> Metarange:
        asked.append(tree)
        return metarange(tree)

    monkeypatch.setattr(trees, "metarange", record)
    for _ in range(2):
        for at, tree in enumerate(made):
            assert find(trees, tree, key(at)) == value(at)
    assert len(asked) == opened


def local_trees(tmp_path: Path) -> DirectoryStore:
    (tmp_path / "namespace").mkdir()
    return DirectoryStore(str(tmp_path / "namespace"))


def test_a_file_of_this_machine(tmp_path: Path) -> None:
    store = local_trees(tmp_path)
    tree = build(new_trees(store), MODEL)
    trees = new_trees(store)
    for path in list(MODEL)[::50]:
        assert find(trees, tree, path) == MODEL[path]


def test_a_file_that_disappears_is_missing(tmp_path: Path) -> None:
    store = local_trees(tmp_path)
    tree = build(new_trees(store, range_entries=4096), MODEL)
    trees = new_trees(store, range_entries=4096)
    assert find(trees, tree, key(0)) == MODEL[key(0)]
    store.delete([f"_lakefs/{record.id}" for record in iter_ranges(trees, tree)])
    with pytest.raises(MissingTable):
        find(trees, tree, key(300))


def test_a_cached_file_that_another_process_evicts_is_read_from_the_bucket(tmp_path: Path) -> None:
    store = RecordingStore()
    tree = build(new_trees(store, range_entries=4096, cache=SstableCache(tmp_path)), MODEL)
    trees = new_trees(store, range_entries=4096, cache=SstableCache(tmp_path))
    assert find(trees, tree, key(0)) == MODEL[key(0)]
    assert store.reads == []
    for file in tmp_path.iterdir():
        file.unlink()
    assert find(trees, tree, key(300)) == MODEL[key(300)]
    assert len(store.reads) == 1  # it is small


def test_one_read_fetches_a_small_range_and_none_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end, with the index, would be all of it; a larger one is read by its end and a block."""
    store = RecordingStore()
    tree = build(new_trees(store, range_entries=4096), MODEL)
    record, *_ = iter_ranges(new_trees(store), tree)

    def reads_of_range(directory: Path) -> int:
        store.reads.clear()
        trees = new_trees(store, range_entries=4096, cache=SstableCache(directory))
        assert find(trees, tree, key(0)) == MODEL[key(0)]
        return [name for name, *_ in store.reads].count(f"_lakefs/{record.id}")

    monkeypatch.setattr(tree_store, "TAIL_SIZE", record.size - 1)
    assert [reads_of_range(tmp_path / "large") for _ in range(2)] == [2, 2]
    monkeypatch.setattr(tree_store, "TAIL_SIZE", record.size)
    assert [reads_of_range(tmp_path / "small") for _ in range(2)] == [1, 0]


def test_a_small_range_is_read_in_memory_where_the_cache_keeps_nothing(tmp_path: Path) -> None:
    store = RecordingStore()
    tree = build(new_trees(store, range_entries=4096), MODEL)
    cache = SstableCache(tmp_path, size_limit=0)
    trees = new_trees(store, range_entries=4096, cache=cache)
    for _ in range(2):
        assert kept_reader(trees).find(tree, key(0)) == MODEL[key(0)]
    assert len(store.reads) == 2  # the metarange and the range
    assert trees.reads == {"memory": 2, "disk": 0, "bucket": 2}


@pytest.mark.parametrize("how", ["point", "scan"])
@pytest.mark.parametrize("side", ["min_key", "max_key"])
def test_a_block_that_reaches_over_the_end_of_its_range_is_refused(
    monkeypatch: pytest.MonkeyPatch, side: str, how: str
) -> None:
    """The metarange says that the range begins later, or ends earlier, than its block does."""
    trees = new_trees(RecordingStore(), range_entries=4096)
    tree = build(trees, {key(at): value(at) for at in range(5)})
    (record,) = iter_ranges(trees, tree)
    assert (record.min_key, record.max_key) == (key(0), key(4))
    if side == "min_key":
        narrower = record._replace(min_key=key(2))
    else:
        narrower = record._replace(max_key=key(2))
    values = (encode_range_record(narrower),)
    trees.remember(Metarange(tree, (narrower.max_key,), values, range_entries=4096))
    # For tables that lakecli wrote, opening them detects this; for lakeFS's tables, it does not.
    monkeypatch.setattr("lakecli.committed.tree_store.check_described", lambda *_: None)
    said = "a block from b'k00000' to b'k00004'|its first key is b'k00000'|it has the key b'k00004'"
    with pytest.raises(Mismatch, match=said):
        find(trees, tree, key(2)) if how == "point" else list(scan(trees, tree))


def test_a_key_behind_the_last_one_of_a_range_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The metarange says that the range ends later than it does."""
    trees = new_trees(RecordingStore(), range_entries=4096)
    tree = build(trees, {key(at): value(at) for at in range(5)})
    (record,) = iter_ranges(trees, tree)
    wider = record._replace(max_key=b"z")
    records = (encode_range_record(wider),)
    trees.remember(Metarange(tree, (wider.max_key,), records, range_entries=4096))
    monkeypatch.setattr("lakecli.committed.tree_store.check_described", lambda *_: None)
    for _ in range(2):  # the second time the range is open
        assert [find(trees, tree, path) for path in (key(4), key(7), b"y")] == [
            value(4),
            None,
            None,
        ]
        assert find_many(trees, tree, [key(4), key(7), b"y"]) == [value(4), None, None]


def test_a_range_that_is_closed_while_it_is_read_answers_all_the_same() -> None:
    trees = new_trees(RecordingStore(), range_entries=4096)
    tree = build(trees, {key(at): value(at) for at in range(5)})
    points = kept_reader(trees)
    expected = points.find(tree, key(3))
    assert expected is not None
    (opened,) = points._open.values()
    points._close(opened)  # as another thread does that needs the room
    assert points._read(opened, [key(3)]) == [expected]
    assert (points.blocks_size, len(points._kept)) == (0, 0)
    assert points.find(tree, key(3)) == expected


def test_of_many_keys_those_that_were_in_memory_count_as_such() -> None:
    store = RecordingStore()
    tree = build(new_trees(store), {key(at): value(at) for at in range(0, 10, 2)})
    trees = new_trees(store)
    asked = [key(2), key(3), key(4)]
    for answered in (2, 3):  # the first key reads the block
        before = dict(trees.reads)
        assert find_many(trees, tree, asked) == [value(2), None, value(4)]
        assert trees.reads["memory"] - before["memory"] == answered


def test_of_blocks_that_another_thread_has_partly_read_each_key_is_answered() -> None:
    trees = new_trees(RecordingStore(), range_entries=4096)
    tree = build(trees, MODEL)
    points = kept_reader(trees)
    assert points.find(tree, key(0)) == MODEL[key(0)]
    opened = next(iter(points._open.values()))
    table = SSTable(opened.copy.lookup.source)
    blocks = {table.offsets[number]: table.block(number) for number in (0, 1)}
    other = table.block(1).keys[1]
    found = [points._keep(opened, opened.copy, blocks, path) for path in (key(0), other)]
    assert found == [MODEL[key(0)], MODEL[other]]
    for absent in (key(0) + b"!", other + b"!", table.block(1).keys[-1] + b"!"):
        assert points._keep(opened, opened.copy, blocks, absent) is None
    # What the other thread had not read was kept, and nothing twice.
    assert list(opened.copy.blocks) == table.offsets[:2]
    assert list(opened.copy.records) == [*table.block(0).keys, *table.block(1).keys]
    assert points.blocks_size == sum(size for _, size in opened.copy.blocks.values())

"""Filling the memory in the background: reads are answered alike before, meanwhile and after."""

from __future__ import annotations

import random
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise
from threading import Event
from typing import TYPE_CHECKING

import pytest

from lakecli.base.model import EMPTY_TREE
from lakecli.committed import point_reads
from lakecli.committed.cache import SstableCache
from lakecli.committed.point_reads import Fill, PointReader, find, kept_reader
from lakecli.committed.scan import prefix_end
from lakecli.committed.tree_store import MissingTable
from lakecli.errors import IntegrityError
from lakecli.stores.contract import ANY
from lakecli.stores.local.store import DirectoryStore
from tests.committed.trees import (
    RecordingStore,
    build,
    change,
    changed,
    iter_ranges,
    key,
    large_model,
    new_trees,
    value,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.base.model import MetarangeId
    from lakecli.committed.tree_store import TreeStore

MODEL = {path: value(at, bytes(at % 300)) for at, path in enumerate(large_model(3000))}
WAIT = 60


def fill(trees: TreeStore, tree: MetarangeId, prefix: bytes = b"") -> bool:
    with closing(Fill(kept_reader(trees), tree, prefix=prefix)) as filling:
        whole = filling.wait(WAIT)
        assert not filling._thread.is_alive()
    return whole


def check(trees: TreeStore, tree: MetarangeId) -> None:
    for path, expected in MODEL.items():
        assert find(trees, tree, path) == expected
        assert find(trees, tree, path + b"!") is None


def check_accounts(points: PointReader) -> None:
    """The size of what is kept is that of the records in memory."""
    copies = [opened.copy for opened in points._open.values()]
    held = [item for copy in copies for item in copy.records.items()]
    blocks = sum(len(copy.blocks) for copy in copies)
    size = sum(len(path) + len(found) + point_reads._RECORD_SIZE for path, found in held)
    assert points.blocks_size == size + blocks * point_reads._BLOCK_SIZE
    assert blocks == len(points._kept)


@pytest.mark.parametrize("place", ["directory", "bucket", "bucket, cached on disk"])
def test_after_a_fill_every_read_is_answered_from_memory(tmp_path: Path, place: str) -> None:
    (tmp_path / "namespace").mkdir()
    store = RecordingStore()
    where = DirectoryStore(str(tmp_path / "namespace")) if place == "directory" else store
    cache = SstableCache(tmp_path / "cache") if "cached" in place else None
    tree = build(new_trees(where, range_entries=1024), MODEL)
    trees = new_trees(where, range_entries=1024, cache=cache)
    assert fill(trees, tree)
    check_accounts(kept_reader(trees))
    before, asked = dict(trees.reads), len(store.reads)
    opened = trees.counts.ranges_opened
    if place == "directory":
        tables = [each.copy.lookup for each in kept_reader(trees)._open.values()]
        parts = [-(-table.block_count // point_reads.FILL_AT_ONCE) for table in tables]
        assert before["disk"] == len(tables) + sum(parts)
    for path, expected in MODEL.items():
        assert find(trees, tree, path) == expected
    assert kept_reader(trees).find_many(tree, list(MODEL)) == list(MODEL.values())
    after = {**before, "memory": before["memory"] + 2 * len(MODEL)}
    assert (trees.reads, len(store.reads), trees.counts.ranges_opened) == (after, asked, opened)
    check(trees, tree)
    assert fill(trees, tree)
    assert len(store.reads) == asked


def test_ranges_of_a_bucket_do_not_stay_in_memory_as_files(tmp_path: Path) -> None:
    """A range that was fetched is read from its copy on disk; without one, its size counts."""
    store = RecordingStore()
    tree = build(new_trees(store, range_entries=1024), MODEL)
    sizes = []
    for cache in (SstableCache(tmp_path), None):
        trees = new_trees(store, range_entries=1024, cache=cache)
        assert fill(trees, tree)
        points = kept_reader(trees)
        tiers = {opened.tier for opened in points._open.values()}
        assert tiers == ({"memory"} if cache is None else {"disk"})
        assert kept_reader(trees)._open_size == sum(
            each.size for each in kept_reader(trees)._open.values()
        )
        sizes.append(kept_reader(trees)._open_size)
    assert sizes[1] - sizes[0] == sum(record.size for record in iter_ranges(trees, tree))


def test_only_what_may_have_the_prefix_is_read() -> None:
    store = RecordingStore()
    tree = build(new_trees(store), MODEL)
    trees = new_trees(store)
    assert fill(trees, tree, b"k010")
    opened = {each.record.id for each in kept_reader(trees)._open.values()}
    assert opened == {
        record.id
        for record in iter_ranges(trees, tree)
        if record.max_key >= b"k010" and record.min_key < b"k011"
    }
    assert 0 < len(opened) < len(trees.metarange(tree)) / 4
    asked = len(store.reads)
    for at in range(1000, 1100):
        assert find(trees, tree, key(at)) == MODEL[key(at)]
    assert len(store.reads) == asked
    assert fill(trees, tree, b"zzz")
    assert fill(trees, EMPTY_TREE)
    assert len(store.reads) == asked


def test_a_range_that_begins_with_the_first_path_after_the_prefix_is_not_read() -> None:
    trees = new_trees()
    tree = build(trees, MODEL)
    last = next(
        record
        for record, following in pairwise(iter_ranges(trees, tree))
        if prefix_end(record.max_key) == following.min_key
    )
    assert fill(trees, tree, last.max_key)
    assert [each.record for each in kept_reader(trees)._open.values()] == [last]


def test_a_fill_ends_where_the_memory_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(point_reads, "FILL_AT_ONCE", 2)
    store = RecordingStore()
    tree = build(new_trees(store, range_entries=256), MODEL)
    trees = new_trees(store, range_entries=256)
    trees.kept[PointReader] = PointReader(trees, blocks_limit=300_000)
    assert not fill(trees, tree)
    assert 100_000 < kept_reader(trees).blocks_size <= 300_000
    check_accounts(kept_reader(trees))
    assert not kept_reader(trees)._has_dropped
    assert len(kept_reader(trees)._open) < len(trees.metarange(tree))
    check(trees, tree)
    assert not fill(trees, tree)


@pytest.mark.parametrize("kept", [1, 2])
def test_trees_that_share_ranges_are_filled_side_by_side(
    monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr(point_reads, "MOST_TREES", kept)
    trees = new_trees(range_entries=256)
    first = build(trees, MODEL)
    changes = {key(at): None if at % 2 else value(-at - 1) for at in range(1000, 1020)}
    second = change(trees, first, changes)
    models = {first: MODEL, second: changed(MODEL, changes)}
    asked = [*MODEL, key(5) + b"!"]
    for tree in (first, second, first):
        assert fill(trees, tree)
        check_accounts(kept_reader(trees))
        for each, model in models.items():
            expected = [model.get(path) for path in asked]
            assert kept_reader(trees).find_many(each, asked) == expected
            assert [find(trees, each, path) for path in asked] == expected
        assert len(kept_reader(trees)._trees) == kept
    check_accounts(kept_reader(trees))


class Gate(RecordingStore):
    """A bucket whose reads wait, once it is shut, until it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.opened = Event(), Event()
        self.opened.set()

    def get(
        self, key: str, *, start: int = 0, length: int | None = None, matching: str = ""
    ) -> bytes:
        if not self.opened.is_set():
            self.reached.set()
            assert self.opened.wait(WAIT)
        return super().get(key, start=start, length=length, matching=matching)


def test_nobody_waits_for_a_fill_that_waits_for_the_bucket() -> None:
    store = Gate()
    tree = build(new_trees(store), MODEL)
    trees = new_trees(store)
    assert find(trees, tree, key(0)) == MODEL[key(0)]
    assert find(trees, tree, key(2999)) == MODEL[key(2999)]
    store.opened.clear()
    filling = Fill(kept_reader(trees), tree, prefix=b"")
    assert store.reached.wait(WAIT)
    assert filling._thread.daemon  # so a process can end
    assert not filling.wait(0)
    assert find(trees, tree, key(0)) == MODEL[key(0)]
    assert find(trees, tree, key(2999)) == MODEL[key(2999)]
    with ThreadPoolExecutor(1) as pool:
        closed = pool.submit(filling.close)
        assert filling._stop.wait(WAIT)
        assert not closed.done()
        store.opened.set()
        closed.result(WAIT)
    assert not filling.wait()
    assert len(kept_reader(trees)._open) < len(trees.metarange(tree)) / 4
    filling.close()
    check(trees, tree)


def test_an_error_is_kept_for_who_waits_and_for_who_reads_there() -> None:
    store = RecordingStore()
    tree = build(new_trees(store), MODEL)
    records = list(iter_ranges(new_trees(store), tree))
    missing = records[len(records) // 2]
    data = store.get(f"_lakefs/{missing.id}")
    store.delete([f"_lakefs/{missing.id}"])
    trees = new_trees(store)
    filling = Fill(kept_reader(trees), tree, prefix=b"")
    for _ in range(2):
        with pytest.raises(MissingTable, match=missing.id):
            filling.wait(WAIT)
    filling.close()
    with pytest.raises(MissingTable, match=missing.id):
        find(trees, tree, missing.max_key)
    assert find(trees, tree, key(0)) == MODEL[key(0)]
    assert find(trees, tree, key(2999)) == MODEL[key(2999)]
    store.put(f"_lakefs/{missing.id}", data, ANY)
    assert fill(trees, tree)
    check(trees, tree)


def test_a_damaged_block_is_not_taken_into_memory() -> None:
    store = RecordingStore()
    tree = build(new_trees(store, range_entries=4096), MODEL)
    record = max(iter_ranges(new_trees(store), tree), key=lambda each: each.size)
    data = bytearray(store.get(f"_lakefs/{record.id}"))
    data[100] ^= 1
    store.put(f"_lakefs/{record.id}", bytes(data), ANY)
    trees = new_trees(store, range_entries=4096)
    with pytest.raises(IntegrityError, match="checksum"):
        fill(trees, tree)
    with pytest.raises(IntegrityError, match="checksum"):
        find(trees, tree, record.min_key)
    check_accounts(kept_reader(trees))


def test_a_fill_goes_on_when_another_process_evicts_what_it_reads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(point_reads, "FILL_AT_ONCE", 2)
    store = RecordingStore()
    tree = build(new_trees(store, range_entries=4096, cache=SstableCache(tmp_path)), MODEL)
    trees = new_trees(store, range_entries=4096, cache=SstableCache(tmp_path))
    keep = kept_reader(trees)._keep
    evicted: list[Path] = []

    def evicting(*args: object) -> bytes | None:
        found: bytes | None = keep(*args)  # type: ignore[arg-type]
        if not evicted:
            evicted.extend(tmp_path.iterdir())
            for file in evicted:
                file.unlink()
        return found

    monkeypatch.setattr(kept_reader(trees), "_keep", evicting)
    assert fill(trees, tree)
    assert evicted
    assert store.reads
    check(trees, tree)


@pytest.fixture
def switching() -> Iterator[None]:
    """Let threads switch as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("switching")
@pytest.mark.parametrize("room", [200_000, 1 << 30])
def test_others_read_while_two_fills_run(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    monkeypatch.setattr(point_reads, "FILL_AT_ONCE", 7)
    store = RecordingStore()
    tree = build(new_trees(store, range_entries=512), MODEL)
    for seed in range(3):
        trees = new_trees(store, range_entries=512)
        trees.kept[PointReader] = PointReader(trees, blocks_limit=room)

        def read(seed: int, trees: TreeStore = trees) -> None:
            asked = list(MODEL)
            random.Random(seed).shuffle(asked)
            for path in asked:
                assert find(trees, tree, path) == MODEL[path]

        with ThreadPoolExecutor(2) as pool:
            fills = [Fill(kept_reader(trees), tree, prefix=b"") for _ in range(2)]
            list(pool.map(read, range(seed, seed + 2)))
            whole = [each.wait(WAIT) for each in fills]
        assert whole == [room > 200_000] * 2
        check_accounts(kept_reader(trees))
        assert kept_reader(trees).blocks_size <= room

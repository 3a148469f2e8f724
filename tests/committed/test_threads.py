"""One `TreeStore` shared between threads: every result is of the requested tree."""

from __future__ import annotations

import gc
import random
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.model import EMPTY_TREE
from lakecli.committed import point_reads
from lakecli.committed.point_reads import PointReader, find, kept_reader
from lakecli.committed.scan import scan
from lakecli.committed.tree_store import LruCache
from lakecli.committed.writer import TreeWriter, apply
from tests.committed.trees import RecordingStore, build, key, new_trees, value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from lakecli.base.model import MetarangeId
    from lakecli.committed.tree_store import TreeStore

COUNT = 600
LEFT = {key(at): value(at, b"left") for at in range(COUNT)}
RIGHT = {key(at): value(at, b"right") for at in range(0, COUNT, 3)}


@pytest.fixture
def switching() -> Iterator[None]:
    """Let threads switch as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def two_trees() -> tuple[TreeStore, MetarangeId, MetarangeId]:
    store = RecordingStore()
    left = build(new_trees(store, range_entries=16), LEFT)
    right = build(new_trees(store, range_entries=16), RIGHT)
    return new_trees(store, range_entries=16), left, right


@pytest.mark.parametrize("step", ["metarange", "open_for_points"])
def test_another_tree_is_read_while_a_read_waits_for_the_bucket(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Another thread reads its tree inside the call that the first thread waits for."""
    trees, left, right = two_trees()
    waits = getattr(trees, step)

    def step_with_another(*args: Any, **options: Any) -> object:
        monkeypatch.undo()
        done = waits(*args, **options)
        assert find(trees, right, key(COUNT - 3)) == RIGHT[key(COUNT - 3)]
        return done

    monkeypatch.setattr(trees, step, step_with_another)
    assert find(trees, left, key(1)) == LEFT[key(1)]
    for at in range(COUNT):
        assert find(trees, right, key(at)) == RIGHT.get(key(at))
        assert find(trees, left, key(at)) == LEFT[key(at)]


def test_two_threads_share_what_answers_their_first_point_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trees, _, _ = two_trees()
    both = Barrier(2)

    class Together(PointReader):
        def __init__(self, *args: Any, **options: Any) -> None:
            both.wait()
            super().__init__(*args, **options)

    monkeypatch.setattr(point_reads, "PointReader", Together)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: kept_reader(trees), range(2))
    assert first is second is kept_reader(trees)


def test_a_store_without_point_reads_is_freed_at_once_with_its_tables() -> None:
    """Otherwise an executor keeps the ranges of task after task until it collects garbage."""
    trees, left, _ = two_trees()
    assert dict(scan(trees, left)) == LEFT
    freed = weakref.ref(trees)
    gc.disable()
    try:
        del trees
        assert freed() is None
    finally:
        gc.enable()


@pytest.mark.usefixtures("switching")
@pytest.mark.parametrize("room", [0, 20_000, 1 << 30])
def test_eight_threads_read_two_trees(room: int) -> None:
    trees, left, right = two_trees()
    tables_limit = 4_000 if room == 20_000 else 1 << 30
    trees.kept[PointReader] = PointReader(trees, blocks_limit=room, tables_limit=tables_limit)
    begin = Barrier(8)

    def read(number: int) -> int:
        numbers = random.Random(number)
        begin.wait()
        for _ in range(500):
            at = numbers.randrange(COUNT + 5)
            tree, model = ((left, LEFT), (right, RIGHT))[numbers.randrange(2)]
            assert find(trees, tree, key(at)) == model.get(key(at))
        assert dict(scan(trees, left)) == LEFT
        return number

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(read, range(8))) == list(range(8))
    assert 0 <= kept_reader(trees).blocks_size <= max(room, 10_000)


class Told:
    """A guard that records its arguments."""

    def __init__(self) -> None:
        self.settled: list[set[str]] = []

    def begin(self) -> bool:
        """Say that tables need protection."""
        return True

    def settle(
        self, *, found: Collection[str], written: Collection[str], whole: bool = False
    ) -> None:
        """Remember all keys."""
        assert whole
        self.settled.append({*found, *written})

    def claim(self, keys: Collection[str]) -> Mapping[str, int]:
        """Say that all exist."""
        return dict.fromkeys(keys, 1)


def test_a_writer_claims_its_own_tables_only() -> None:
    """Two trees are written at once; the tables of the other one are not durable yet."""
    store, guard = RecordingStore(), Told()
    trees = new_trees(store, range_entries=16)
    trees._guard = lambda: guard
    slow = TreeWriter(trees)
    slow.add_many(list(RIGHT), list(RIGHT.values()))
    quick = apply(trees, EMPTY_TREE, iter(LEFT.items()))
    there = {info.key for info in store.list("_lakefs/")}
    assert f"_lakefs/{quick}" in there
    assert len(guard.settled) == 1
    assert guard.settled[0] <= there
    late = slow.finish()
    assert f"_lakefs/{late}" in guard.settled[1]
    assert dict(scan(trees, late)) == RIGHT


@pytest.mark.usefixtures("switching")
def test_the_most_recently_used_values_are_kept_by_many_threads() -> None:
    recent: LruCache[int, int] = LruCache(100)

    def use(number: int) -> None:
        numbers = random.Random(number)
        for _ in range(3_000):
            at = numbers.randrange(40)
            found = recent.get(at)
            assert found in (None, at)
            if found is None:
                recent.put(at, at, 10)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(use, range(8)))
    assert recent._size == 10 * len(recent._items) == 100

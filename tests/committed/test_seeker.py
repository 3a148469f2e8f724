"""Jumping from path to path finds what the whole list of paths has."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import pytest

from lakecli.committed.cache import SstableCache
from lakecli.committed.metaranges import Metarange, encode_range_record
from lakecli.committed.seeker import Seeker
from lakecli.sstable.reader import Table
from tests.committed.trees import (
    RecordingStore,
    boundaries,
    build,
    iter_ranges,
    key,
    large_model,
    new_trees,
)

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.sstable.reader import Block

PATHS = [key(at) for at in range(0, 6_000, 2)]
STARTS = sorted([b"", b"z", *PATHS, *(key(at) for at in range(1, 6_000, 14))])


def following(paths: list[bytes], start: bytes) -> bytes | None:
    return next(iter(paths[bisect_left(paths, start) :][:1]), None)


@pytest.mark.parametrize("step", [1, 7, 300])
def test_the_next_path_is_found_from_any_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    cache = SstableCache(tmp_path)
    trees = new_trees(RecordingStore(), range_entries=1024, cache=cache)
    tree = build(trees, {path: large_model(1)[key(0)] for path in PATHS})
    decoded: list[tuple[str, int]] = []
    block = Table.block

    def counted(table: Table, number: int) -> Block:
        decoded.append((table.name, number))
        return block(table, number)

    monkeypatch.setattr(Table, "block", counted)
    trees.counts.ranges_opened = 0
    seeker = Seeker(trees, tree, ranges=1_000)
    for start in STARTS[::step]:
        assert seeker.seek(start) == following(PATHS, start)
    assert len(decoded) == len(set(decoded))
    assert 1 < trees.counts.ranges_opened <= len(trees.metarange(tree))


@pytest.mark.parametrize("opened", [0, 1, 2])
def test_between_the_ends_of_a_range_that_is_not_opened_its_end_is_known(
    tmp_path: Path, opened: int
) -> None:
    trees = new_trees(RecordingStore(), range_entries=1024, cache=SstableCache(tmp_path))
    tree = build(trees, {path: large_model(1)[key(0)] for path in PATHS})
    ends = boundaries(trees, tree)
    records = list(iter_ranges(trees, tree))
    seeker = Seeker(trees, tree, ranges=opened)
    for at, record in enumerate(records):
        assert seeker.seek(record.min_key) == record.min_key
        within = following(PATHS, record.min_key + b"\0")
        for _ in range(2):
            found = seeker.seek(record.min_key + b"\0")
            assert found == (within if at < opened else ends[at])


def test_behind_the_last_path_of_a_range_the_end_that_its_metarange_states_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees = new_trees(RecordingStore(), range_entries=1024, cache=SstableCache(tmp_path))
    tree = build(trees, large_model(5))
    (record,) = iter_ranges(trees, tree)
    wider = record._replace(max_key=b"z")
    records = (encode_range_record(wider),)
    trees.remember(Metarange(tree, (wider.max_key,), records, range_entries=1024))
    monkeypatch.setattr("lakecli.committed.tree_store.check_described", lambda *_: None)
    seeker = Seeker(trees, tree, ranges=1)
    assert [seeker.seek(path) for path in (key(3) + b"!", key(9))] == [key(4), b"z"]
    assert seeker._left == 0

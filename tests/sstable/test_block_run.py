"""Runs of blocks: which blocks have which records, and where the rule ends one."""

from __future__ import annotations

from itertools import combinations_with_replacement, pairwise
from typing import TYPE_CHECKING

import google_crc32c

from lakecli import native
from lakecli.sstable.block import Run, blocks_between, payload_of, seal
from tests.sstable.tables import build, many_records, open_bytes

if TYPE_CHECKING:
    import pytest

STARTS = [0, 3, 5, 9]
KEYS = [b"%d" % at for at in range(9)]


def run_of(data: bytes, offsets: list[int], sizes: list[int]) -> Run:
    return Run(memoryview(data), offsets, sizes, [b""] * 3, STARTS, KEYS, KEYS)


def test_each_record_is_in_its_block() -> None:
    run = run_of(b"", [], [])
    assert [run.block_of(position) for position in range(10)] == [0, 0, 0, 1, 1, 2, 2, 2, 2, 3]


def test_blocks_between_two_positions_are_whole() -> None:
    run = run_of(b"", [], [])
    for start, stop in combinations_with_replacement(range(10), 2):
        whole = [
            number
            for number, (first, last) in enumerate(pairwise(STARTS))
            if start <= first and last <= stop
        ]
        first, last = blocks_between(run.starts, start, stop)
        assert list(range(first, last)) == whole
        assert all(number >= first or run.starts[number] < start for number in range(3))


def test_stored_blocks_are_one_piece_unless_something_is_between() -> None:
    dense = run_of(b"aabbbcccc", [0, 2, 5], [2, 3, 4])
    loose = run_of(b"-aa--bbbcccc-", [1, 5, 8], [2, 3, 4])
    assert dense.stored(0, 3) == [b"aabbbcccc"]
    assert dense.stored(1, 2) == [b"bbb"]
    assert loose.stored(0, 3) == [b"aa", b"bbb", b"cccc"]
    assert loose.stored(0, 2) == [b"aa", b"bbb"]
    assert loose.stored(1, 3) == [b"bbbcccc"]


def test_the_rule_is_applied_to_each_block_of_a_run_alike() -> None:
    """It counts a block's own restart points, wherever in the run the block is."""
    run = open_bytes(build(many_records(3000))).read_all()

    def ends_at_cut(run: Run, number: int) -> bool:
        count = run.starts[number + 1] - run.starts[number]
        return run.copied(number, number + 1).end_at_cut(count)

    number = len(run.sizes) - 2
    assert all(ends_at_cut(run, each) for each in range(number + 1))
    assert run.copied(0, number + 1).end_at_cut(run.starts[number + 1] - run.starts[number])
    stored = run.stored(number, number + 1)[0]
    payload = payload_of(bytes(stored))
    key = run.keys[run.starts[number + 1] - 1]
    assert google_crc32c.value(key) & 7 == 0
    restarts = int.from_bytes(payload[-4:], "little")
    for size, is_cut in ((2048, True), (2047, False)):
        end = size + 4 * restarts + 4
        other = seal(payload[: end - 4] + payload[-4:], compress=False)
        sizes = [*run.sizes[:number], len(other), *run.sizes[number + 1 :]]
        data = bytes(run.data[: run.offsets[number]]) + other
        changed = run._replace(data=memoryview(data), sizes=sizes)
        assert ends_at_cut(changed, number) == is_cut


def test_a_run_of_long_keys_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the core, which leaves such blocks to its twin."""
    table = open_bytes(build(many_records(2_000), type=b"ranges"), "the file")
    whole = list(table.runs())
    assert len(whole[0].sizes) > 3
    monkeypatch.setattr(native, "core", lambda: None)
    assert list(table.runs()) == whole
    most = sum(map(len, whole[0].keys)) // 2
    monkeypatch.setattr("lakecli.sstable.reader._MOST_IN_RUN", most)
    runs = list(table.runs())
    assert len(runs) > len(whole)
    for run in runs:
        last = run.starts[-2]  # where the last block begins
        assert sum(map(len, run.keys[:last])) <= most
        assert len(run.sizes) == len(run.offsets) == len(run.separators) == len(run.starts) - 1
    assert [key for run in runs for key in run.keys] == [key for run in whole for key in run.keys]
    assert table.read_all().keys == [key for run in whole for key in run.keys]

"""The reflog in the bucket: it has all moves of a ref that no longer fit into its object."""

from __future__ import annotations

import pytest

from lakecli.base.layout import MAX_REF_SIZE, reflog_key, reflog_prefix
from lakecli.base.model import RefKind
from lakecli.remote.ref_records import MAX_MOVES, NotOurs, dump_moves, parse_moves
from lakecli.remote.refs import find_move, find_ref, iter_moves, spill
from lakecli.stores.contract import ANY
from tests.remote.chains import PATIENT, advance, checked_moves, commit, intent, move_ref, write_id
from tests.support.counting import CountingStore


@pytest.mark.parametrize("count", [1, 31, 32, 33, 48, 49, 100, 200])
def test_all_moves_newest_first(count: int) -> None:
    store = CountingStore()
    advance(store, count)
    assert [move.write_id for move in checked_moves(store)] == [
        write_id(f"old-{number}") for number in range(1, count + 1)
    ]


def test_chunks_are_few_and_found_without_a_listing() -> None:
    store = CountingStore()
    advance(store, 200)
    keys = [info.key for info in store.list(reflog_prefix(RefKind.BRANCH, "main"))]
    assert keys == [reflog_key(RefKind.BRANCH, "main", number) for number in range(16, 177, 16)]
    ref = find_ref(store, RefKind.BRANCH, "main")
    assert ref is not None
    assert len(ref.moves) <= MAX_MOVES
    store.reset()
    moves = iter_moves(store, ref)
    for _ in ref.moves:
        next(moves)
    assert store.counts == {}
    next(moves)
    assert store.counts == {"get": 1}
    assert len(list(moves)) == 200 - len(ref.moves) - 1
    assert store.counts == {"get": 11}


def test_a_full_ref_object_is_not_cut_yet() -> None:
    store = CountingStore()
    advance(store, 2 * MAX_MOVES)
    moves = tuple(checked_moves(store)[:MAX_MOVES][::-1])
    store.reset()
    assert spill(store, RefKind.BRANCH, "main", moves) == moves
    assert store.counts == {}


def test_chunks_that_another_version_cut_elsewhere() -> None:
    store = CountingStore()
    advance(store, 100)
    expected = checked_moves(store)
    older = {move.sequence: move for move in expected[:80]}
    keys = [info.key for info in store.list(reflog_prefix(RefKind.BRANCH, "main"))]
    store.delete(keys)
    # Two chunks that overlap, and reach into what the ref object holds.
    for newest, oldest in ((90, 41), (50, 1)):
        moves = tuple(expected[number - 1] for number in range(newest, oldest - 1, -1))
        store.put(reflog_key(RefKind.BRANCH, "main", newest), dump_moves(moves), ANY)
    assert older
    assert checked_moves(store) == expected


def test_the_moves_of_a_ref_that_has_none_in_its_object() -> None:
    store = CountingStore()
    advance(store, 49)
    ref = find_ref(store, RefKind.BRANCH, "main")
    assert ref is not None
    bare = ref._replace(moves=(), sequence=32)
    assert [move.sequence for move in iter_moves(store, bare)] == list(range(32, 0, -1))


def test_reading_moves_ends_at_deleted_chunks() -> None:
    store = CountingStore()
    advance(store, 100)
    store.delete([reflog_key(RefKind.BRANCH, "main", 48)])
    ref = find_ref(store, RefKind.BRANCH, "main")
    assert ref is not None
    # What lies above the hole reaches down to it, and the next chunk up is no older one.
    assert [move.sequence for move in iter_moves(store, ref)] == list(range(100, 48, -1))


def test_chunks_that_are_not_ours() -> None:
    store = CountingStore()
    advance(store, 100)
    ref = find_ref(store, RefKind.BRANCH, "main")
    assert ref is not None
    key = reflog_key(RefKind.BRANCH, "main", 64)
    good = store.get(key)
    for body in (b"garbage", store.get(reflog_key(RefKind.BRANCH, "main", 48))):
        store.put(key, body, ANY)
        with pytest.raises(NotOurs, match="reflog/branches/main/0000000000000064"):
            list(iter_moves(store, ref))
        assert find_move(store, ref, 64) is None
    store.put(key, b" " * (MAX_REF_SIZE + 1), ANY)
    assert find_move(store, ref, 64) is None
    store.put(key, good, ANY)
    assert find_move(store, ref, 64) is not None
    assert len(list(iter_moves(store, ref))) == 100


def test_moves_are_not_dropped_for_others_in_their_place() -> None:
    store = CountingStore()
    advance(store, 32)
    other = parse_moves("x", dump_moves(tuple(checked_moves(store)[15::-1])))
    key = reflog_key(RefKind.BRANCH, "main", 16)
    store.put(key, dump_moves(tuple(move._replace(who="Eve") for move in other)), ANY)
    with pytest.raises(NotOurs, match="moves that do not belong"):
        move_ref(store, intent("w", commit(32), commit(33)), retries=PATIENT)
    store.put(key, dump_moves(other), ANY)
    move_ref(store, intent("w", commit(32), commit(33)), retries=PATIENT)
    assert len(checked_moves(store)) == 33

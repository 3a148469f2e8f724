"""What a clone keeps of the bucket: tracked refs, their moves, intents, packs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.ids import CommitId, PackId, WriteId
from lakecli.base.model import RefKind
from lakecli.errors import IntegrityError
from lakecli.kv.bucket import IntentStore, PackedStore, ReflogStore, Tracked, TrackingStore
from lakecli.kv.local_store import Table
from tests.support.stores import scratch

if TYPE_CHECKING:
    from lakecli.kv.local_store import LocalStore

ONE, OTHER = b"1" * 16, b"2" * 16
HEAD = CommitId("ab" * 32)


def test_tracked_refs(store: LocalStore) -> None:
    refs = [
        Tracked(RefKind.BRANCH, "a", HEAD, 1, WriteId("0e" * 16), "v"),
        Tracked(RefKind.BRANCH, "ab\udc80/ü", None, 7, WriteId("0e" * 16), "v"),
        Tracked(RefKind.BRANCH, "x" * 255, HEAD, 2, WriteId("0e" * 16), "v"),
        Tracked(RefKind.TAG, "a", HEAD, 1, WriteId("0f" * 16), "v2"),
    ]
    with scratch(store) as txn:
        tracking = TrackingStore(txn, ONE)
        for ref in reversed(refs):
            tracking.put(ref)
        TrackingStore(txn, OTHER).put(refs[0])
        assert list(tracking.iter()) == refs
        assert list(tracking.iter(RefKind.BRANCH)) == refs[:3]
        assert list(tracking.iter(RefKind.BRANCH, "ab")) == [refs[1]]
        assert list(tracking.iter(RefKind.TAG)) == refs[3:]
        assert [tracking.find(ref.kind, ref.name) for ref in refs] == refs
        moved = refs[0]._replace(commit_id=None, sequence=2)
        tracking.put(moved)
        assert tracking.find(RefKind.BRANCH, "a") == moved
        assert tracking.delete(RefKind.BRANCH, "a")
        assert not tracking.delete(RefKind.BRANCH, "a")
        assert tracking.find(RefKind.BRANCH, "a") is None
        assert list(TrackingStore(txn, OTHER).iter()) == [refs[0]]


def test_intents(store: LocalStore) -> None:
    with scratch(store) as txn:
        intents = IntentStore(txn, ONE)
        intents.put(b"b" * 16, {"name": "ü\udc80", "at": 1, "before": None})
        intents.put(b"a" * 16, {"local": {"x": [1]}})
        IntentStore(txn, OTHER).put(b"c" * 16, {})
        assert list(intents.iter()) == [
            (b"a" * 16, {"local": {"x": [1]}}),
            (b"b" * 16, {"name": "ü\udc80", "at": 1, "before": None}),
        ]
        assert intents.delete(b"a" * 16)
        assert not intents.delete(b"a" * 16)
        assert [key for key, _ in intents.iter()] == [b"b" * 16]


def test_packs(store: LocalStore) -> None:
    first, second, merged, foreign = (
        PackId.of_bytes(blake3_of(b"%d" % number)) for number in range(4)
    )
    ids = [CommitId.of_bytes(blake3_of(b"commit %d" % number)) for number in range(10)]
    with scratch(store) as txn:
        packed = PackedStore(txn, ONE)
        packed.add(first, ids[:2])
        packed.add(second, ids[2:5])
        assert set(packed.known_packs()) == set(packed.live_packs()) == {first, second}
        assert [packed.find_pack(each) for each in ids[1:6]] == [first, *[second] * 3, None]
        packed.add(merged, ids[:8], replaces=[first, second, foreign])
        assert set(packed.known_packs()) == {first, second, merged, foreign}
        assert set(packed.live_packs()) == {merged}
        packed.add(first, ids[:2])  # read late; it stays replaced
        assert set(packed.live_packs()) == {merged}
        assert packed.find_pack(ids[7]) == merged
        assert list(PackedStore(txn, OTHER).known_packs()) == []
        assert PackedStore(txn, OTHER).find_pack(ids[0]) is None


def test_moves(store: LocalStore) -> None:
    moves = [{"sequence": number, "who": "Ada"} for number in (300, 299, 2, 1)]
    with scratch(store) as txn:
        ReflogStore(txn, ONE).put_moves(RefKind.BRANCH, "main", moves[2:])
        ReflogStore(txn, ONE).put_moves(RefKind.BRANCH, "main", moves[:3])
        ReflogStore(txn, ONE).put_moves(RefKind.TAG, "main", moves[:1])
        ReflogStore(txn, OTHER).put_moves(RefKind.BRANCH, "main", moves[:1])
        assert list(ReflogStore(txn, ONE).iter_moves(RefKind.BRANCH, "main")) == moves
        assert list(ReflogStore(txn, ONE).iter_moves(RefKind.BRANCH, "other")) == []
        assert list(ReflogStore(txn, ONE).iter_moves(RefKind.TAG, "main")) == moves[:1]


def test_writing_needs_a_write_transaction(store: LocalStore) -> None:
    with store.read() as txn:
        for write in (
            lambda: TrackingStore(txn, ONE).delete(RefKind.BRANCH, "a"),
            lambda: IntentStore(txn, ONE).delete(b"a" * 16),
            lambda: PackedStore(txn, ONE).add(PackId("ab" * 32), []),
            lambda: ReflogStore(txn, ONE).put_moves(RefKind.BRANCH, "a", []),
        ):
            with pytest.raises(TypeError, match="write transaction"):
                write()


def test_rows_that_make_no_sense(store: LocalStore) -> None:
    with scratch(store) as txn:
        txn.put(Table.TRACKING, ONE + b"branch\0main", b"{}")
        txn.put(Table.INTENTS, ONE + b"a" * 16, b"[1]")
        for read in (
            lambda: TrackingStore(txn, ONE).find(RefKind.BRANCH, "main"),
            lambda: list(IntentStore(txn, ONE).iter()),
        ):
            with pytest.raises(IntegrityError, match="malformed"):
                read()

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.model import MAX_PATH_SIZE, StagingToken
from lakecli.staging import area
from lakecli.staging.area import TOMBSTONE
from tests.support.lakes import unclaimed
from tests.support.stores import scratch

if TYPE_CHECKING:
    from lakecli.kv.local_store import LocalStore

TOKEN = StagingToken(b"t" * 16)
OTHER = StagingToken(b"t" * 15 + b"u")

paths = st.binary(min_size=1, max_size=8) | st.builds(
    lambda head, tail: (head * MAX_PATH_SIZE)[: MAX_PATH_SIZE - len(tail)] + tail,
    st.sampled_from([b"a", b"long/"]),
    st.binary(max_size=3),
)
changes = st.dictionaries(paths, st.sampled_from([TOMBSTONE, b"1", b"2"]), max_size=12)


@given(changes, changes, paths, st.binary(max_size=2))
def test_an_area_is_a_sorted_map(
    store: LocalStore,
    first: dict[bytes, bytes],
    second: dict[bytes, bytes],
    path: bytes,
    prefix: bytes,
) -> None:
    model = first | second
    with scratch(store) as txn:
        area.put_many(txn, OTHER, unclaimed([(b"a", b"other")]))
        area.put_many(txn, TOKEN, unclaimed(sorted(first.items())))
        area.put_many(txn, TOKEN, unclaimed(sorted(second.items())))
        assert list(area.scan(txn, TOKEN)) == sorted(model.items())
        assert list(area.scan(txn, TOKEN, start=path, prefix=prefix)) == sorted(
            (key, value) for key, value in model.items() if key >= path and key.startswith(prefix)
        )
        assert area.get(txn, TOKEN, path) == model.get(path)
        assert area.is_empty(txn, TOKEN) == (not model)
        assert area.remove(txn, TOKEN, path) == (path in model)
        assert area.get(txn, TOKEN, path) is None
        area.drop(txn, TOKEN)
        assert area.is_empty(txn, TOKEN)
        assert list(area.scan(txn, OTHER)) == [(b"a", b"other")]


def test_a_tombstone_is_staged_and_not_nothing(store: LocalStore) -> None:
    with scratch(store) as txn:
        area.put_many(txn, TOKEN, unclaimed([(b"gone", TOMBSTONE)]))
        assert area.get(txn, TOKEN, b"gone") == TOMBSTONE
        assert not area.is_empty(txn, TOKEN)


def test_the_longest_paths_keep_their_order(store: LocalStore) -> None:
    records = sorted((b"p" * (MAX_PATH_SIZE - 1) + bytes([last]), b"v") for last in range(256))
    with scratch(store) as txn:
        area.put_many(txn, TOKEN, unclaimed(records))
        assert list(area.scan(txn, TOKEN)) == records
        assert list(area.scan(txn, TOKEN, start=records[100][0])) == records[100:]


def test_dropping_goes_in_batches(store: LocalStore) -> None:
    with scratch(store) as txn:
        area.put_many(txn, TOKEN, unclaimed([(b"%04d" % number, b"v") for number in range(250)]))
        assert [area.drop(txn, TOKEN, limit=100) for _ in range(4)] == [100, 100, 50, 0]

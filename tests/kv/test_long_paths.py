from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.kv import local_store
from lakecli.kv.local_store import LocalStore, Table
from tests.support.stores import scratch

if TYPE_CHECKING:
    from collections.abc import Iterator

OWNER = b"o" * 16
# In order on both sides of the owner under test, so that nothing may leak in or out.
OTHERS = (b"n" * 16, b"o" * 15 + b"p")
CHUNK = 3

# Few different bytes, so that paths share chunks; 0 is the byte that marks a link.
short_paths = st.lists(st.sampled_from(b"\0\1a\xff"), min_size=1, max_size=11).map(bytes)
long_paths = st.builds(
    lambda head, size, tail: (head * 1024)[:size] + tail,
    st.sampled_from([b"a", b"\0", b"\xff", b"ab/"]),
    st.sampled_from([1, 491, 492, 493, 494, 985, 986, 987, 988, 1020]),
    st.binary(max_size=4),
)
trees = st.dictionaries(short_paths, st.binary(max_size=3), max_size=25)


def under(
    tree: dict[bytes, bytes], *, prefix: bytes = b"", start: bytes = b""
) -> list[tuple[bytes, bytes]]:
    return sorted(
        (path, value) for path, value in tree.items() if path.startswith(prefix) and path >= start
    )


@pytest.fixture(scope="class")
def short_chunks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_store, "CHUNK", CHUNK)
        yield


@pytest.mark.usefixtures("short_chunks")
class TestAgainstADict:
    @given(
        tree=trees,
        prefix=st.lists(st.sampled_from(b"\0\1a\xff"), max_size=8).map(bytes),
        start=st.lists(st.sampled_from(b"\0\1a\xff"), max_size=11).map(bytes),
    )
    def test_scans(
        self, store: LocalStore, tree: dict[bytes, bytes], prefix: bytes, start: bytes
    ) -> None:
        with scratch(store) as txn:
            for other in OTHERS:
                txn.put_paths(Table.STAGING, other, [(b"aaaa", b"other")])
            txn.put_paths(Table.STAGING, OWNER, sorted(tree.items()))
            found = txn.scan_paths(Table.STAGING, OWNER, start=start, prefix=prefix)
            assert list(found) == under(tree, prefix=prefix, start=start)

    @given(
        tree=trees,
        gone=st.sets(short_paths, max_size=15),
        changed=st.dictionaries(short_paths, st.binary(max_size=3), max_size=10),
    )
    def test_changes_one_by_one(
        self,
        store: LocalStore,
        tree: dict[bytes, bytes],
        gone: set[bytes],
        changed: dict[bytes, bytes],
    ) -> None:
        model = dict(tree)
        with scratch(store) as txn:
            for path, value in tree.items():
                txn.put_paths(Table.STAGING, OWNER, [(path, value)])
            for path in gone:
                was = txn.delete_path(Table.STAGING, OWNER, path)
                assert was == (model.pop(path, None) is not None)
            for path, value in changed.items():
                txn.put_paths(Table.STAGING, OWNER, [(path, value)])
                model[path] = value
            assert list(txn.scan_paths(Table.STAGING, OWNER)) == under(model)
            for path in tree | changed:
                assert txn.get_path(Table.STAGING, OWNER, path) == model.get(path)
            assert (not txn.has_owned(Table.STAGING, OWNER)) == (not model)
            # Links go with what they led to.
            for path in list(model):
                txn.delete_path(Table.STAGING, OWNER, path)
            assert list(txn.scan_keys(Table.STAGING)) == []

    @given(tree=trees, limit=st.integers(1, 6) | st.none())
    def test_dropping_leaves_nothing_behind(
        self, store: LocalStore, tree: dict[bytes, bytes], limit: int | None
    ) -> None:
        with scratch(store) as txn:
            for other in OTHERS:
                txn.put_paths(Table.STAGING, other, [(b"aaaaaaa", b"other")])
            rest = set(txn.scan_keys(Table.STAGING))
            txn.put_paths(Table.STAGING, OWNER, sorted(tree.items()))
            keys = len(list(txn.scan_keys(Table.STAGING))) - len(rest)
            dropped = 0
            while limit is not None:
                step = txn.drop_paths(Table.STAGING, OWNER, limit=limit)
                dropped += step
                left = dict(txn.scan_paths(Table.STAGING, OWNER))
                assert left.items() <= tree.items()
                if step < limit:
                    break
            else:
                dropped = txn.drop_paths(Table.STAGING, OWNER, limit=None)
            assert dropped == keys
            assert set(txn.scan_keys(Table.STAGING)) == rest

    @given(old=trees, new=trees)
    def test_keeping_what_is_there(
        self, store: LocalStore, old: dict[bytes, bytes], new: dict[bytes, bytes]
    ) -> None:
        with scratch(store) as txn:
            txn.put_paths(Table.STAGING, OWNER, sorted(old.items()))
            txn.put_paths(Table.STAGING, OWNER, sorted(new.items()), overwrite=False)
            assert dict(txn.scan_paths(Table.STAGING, OWNER)) == new | old


class TestRealKeys:
    @given(st.dictionaries(long_paths, st.binary(max_size=3), max_size=12), long_paths)
    def test_against_a_dict(
        self, store: LocalStore, tree: dict[bytes, bytes], start: bytes
    ) -> None:
        with scratch(store) as txn:
            txn.put_paths(Table.STAGING, OWNER, sorted(tree.items()))
            assert list(txn.scan_paths(Table.STAGING, OWNER)) == under(tree)
            found = txn.scan_paths(Table.STAGING, OWNER, start=start)
            assert list(found) == under(tree, start=start)
            found = txn.scan_paths(Table.STAGING, OWNER, prefix=start[:500])
            assert list(found) == under(tree, prefix=start[:500])
            assert txn.get_path(Table.STAGING, OWNER, start) == tree.get(start)
            txn.drop_paths(Table.STAGING, OWNER, limit=None)
            assert list(txn.scan_keys(Table.STAGING)) == []


@pytest.mark.parametrize("size", [1, 492, 493, 494, 986, 987, 1023, 1024, 4096])
def test_every_length_has_its_place(store: LocalStore, size: int) -> None:
    path = b"x" * size
    with scratch(store) as txn:
        txn.put_paths(Table.STAGING, OWNER, [(path, b"")])
        assert txn.get_path(Table.STAGING, OWNER, path) == b""
        assert txn.get_path(Table.STAGING, OWNER, path + b"y") is None
        assert txn.get_path(Table.STAGING, OWNER, path[:-1]) is None
        assert list(txn.scan_paths(Table.STAGING, OWNER, prefix=path)) == [(path, b"")]
        assert list(txn.scan_paths(Table.STAGING, OWNER, start=path + b"\0")) == []


def test_the_stored_form_of_a_long_path(store: LocalStore) -> None:
    path = b"x" * 600
    with scratch(store) as txn:
        txn.put_paths(Table.STAGING, b"0123456789abcdef", [(path, b"value")])
        child = bytes.fromhex("54422bd573dafe4a8369ca97dfc9053e")
        assert list(txn.scan(Table.STAGING)) == sorted(
            [(b"0123456789abcdef" + b"x" * 493 + b"\0", child), (child + b"x" * 107, b"value")]
        )


def test_many_records_in_batches_with_long_ones_between(store: LocalStore) -> None:
    tree = {
        b"%05d" % number + b"x" * (500 * (number % 97 == 0)): b"%d" % number
        for number in range(5000)
    }
    with scratch(store) as txn:
        txn.put_paths(Table.STAGING, OWNER, sorted(tree.items()))
        assert list(txn.scan_paths(Table.STAGING, OWNER)) == under(tree)
        found = txn.scan_paths(Table.STAGING, OWNER, start=b"02500")
        assert list(found) == under(tree, start=b"02500")

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.model import StagingToken
from lakecli.staging import area
from lakecli.staging.area import TOMBSTONE, overlay
from tests.support.lakes import unclaimed
from tests.support.stores import scratch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.kv.local_store import LocalStore, WriteTransaction

keys = st.integers(0, 30).map(lambda number: b"%02d" % number)
staged_trees = st.dictionaries(keys, st.sampled_from([TOMBSTONE, b"1", b"2", b"3"]), max_size=15)
committed_trees = st.dictionaries(keys, st.sampled_from([b"A", b"B"]), max_size=15)


def stream(tree: dict[bytes, bytes]) -> Iterator[tuple[bytes, bytes]]:
    return iter(sorted(tree.items()))


def merged(layers: list[dict[bytes, bytes]]) -> dict[bytes, bytes]:
    result: dict[bytes, bytes] = {}
    for layer in reversed(layers):  # newest first
        result |= layer
    return result


def put_layers(txn: WriteTransaction, layers: list[dict[bytes, bytes]]) -> list[StagingToken]:
    """Stage each layer under a token of its own, and return the tokens."""
    tokens = [StagingToken(bytes([number]) * 16) for number in range(len(layers))]
    for token, layer in zip(tokens, layers, strict=True):
        area.put_many(txn, token, unclaimed(sorted(layer.items())))
    return tokens


@given(st.lists(staged_trees, max_size=5))
def test_the_newest_of_a_path_counts(store: LocalStore, layers: list[dict[bytes, bytes]]) -> None:
    with scratch(store) as txn:
        found = list(area.scan_newest(txn, put_layers(txn, layers)))
    assert found == sorted(merged(layers).items())


def test_a_branch_may_have_thousands_of_areas(store: LocalStore) -> None:
    """Each commit that fails, for example at a hook, leaves one."""
    tokens = [StagingToken(b"%016d" % number) for number in range(2_000)]
    with scratch(store) as txn:
        for token in tokens:
            area.put_many(txn, token, unclaimed([(b"all", token), (token, token)]))
        found = dict(area.scan_newest(txn, tokens))
    assert found == {b"all": tokens[0]} | {token: token for token in tokens}


@given(staged_trees, committed_trees)
def test_staged_changes_are_made(staged: dict[bytes, bytes], committed: dict[bytes, bytes]) -> None:
    expected = {path: value for path, value in (committed | staged).items() if value != TOMBSTONE}
    assert list(overlay(stream(staged), stream(committed))) == sorted(expected.items())


@given(st.lists(staged_trees, max_size=4), committed_trees)
def test_a_branch_with_several_areas(
    store: LocalStore, layers: list[dict[bytes, bytes]], committed: dict[bytes, bytes]
) -> None:
    with scratch(store) as txn:
        staged = area.scan_newest(txn, put_layers(txn, layers))
        expected = {
            path: value
            for path, value in (committed | merged(layers)).items()
            if value != TOMBSTONE
        }
        assert list(overlay(staged, stream(committed))) == sorted(expected.items())


def test_without_staged_changes_the_committed_records_are_passed_on() -> None:
    committed = stream({b"a": b"1"})
    assert overlay(iter(()), committed) is committed


def test_nothing_is_read_before_it_is_asked_for() -> None:
    def committed() -> Iterator[tuple[bytes, bytes]]:
        yield b"b", b"1"
        raise AssertionError

    view = overlay(stream({b"a": b"0", b"c": TOMBSTONE}), committed())
    assert [next(view), next(view)] == [(b"a", b"0"), (b"b", b"1")]


def test_no_areas_have_no_changes(store: LocalStore) -> None:
    with store.read() as txn:
        assert list(area.scan_newest(txn, [])) == []

"""What the guard claims before it is staged or becomes a parent, and what that costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.base.layout import sstable_key
from lakecli.base.model import MetarangeId
from lakecli.committed.values import decode_entry, encode_entry
from lakecli.errors import PermissionDenied, Unreachable
from lakecli.refs.ref_store import RefStore
from lakecli.remote.gc_protocol import Phase, SweepRunning, look, move
from lakecli.repository import branch, guard
from lakecli.repository.commit import commit
from lakecli.repository.guard import (
    Gone,
    Reclaimed,
    claim_entry,
    claim_trees,
    claim_values,
    unless_away,
)
from lakecli.stores.contract import ANY, BucketNotFound
from tests.support.collection import make_state
from tests.support.counting import CountingStore
from tests.support.lakes import Numbered, entry_of, stage, through

if TYPE_CHECKING:
    from lakecli.repository.contract import Repository

CONTENTS = [b"%d" % number for number in range(5)]
VALUES = [(b"path-" + each, encode_entry(entry_of(each))) for each in CONTENTS]
OUTSIDE = entry_of(b"outside")._replace(physical_address="s3://elsewhere/key")


@pytest.fixture
def store() -> CountingStore:
    return CountingStore()


@pytest.fixture
def counted(repository: Repository, store: CountingStore) -> Repository:
    """A repository whose garbage was collected before; all objects of `CONTENTS` exist."""
    for each in CONTENTS:
        store.put(entry_of(each).physical_address, each, ANY)
    move(store, look(store), make_state(Phase.IDLE, 1))
    store.reset()
    return through(repository, store, new_id=Numbered("gate"))


def delete(store: CountingStore, *numbers: int) -> None:
    store.delete([entry_of(CONTENTS[number]).physical_address for number in numbers])


@pytest.mark.parametrize("missing", range(5))
@pytest.mark.parametrize("batch", [1, 2, 5])
def test_a_missing_object_is_found_wherever_it_is(
    counted: Repository,
    store: CountingStore,
    monkeypatch: pytest.MonkeyPatch,
    missing: int,
    batch: int,
) -> None:
    monkeypatch.setattr(guard, "BATCH", batch)
    assert claim_values(counted, VALUES) == VALUES
    delete(store, missing)
    with pytest.raises(Gone, match=r"^the object of this path is no longer in .*: 1$") as raised:
        claim_values(counted, VALUES)
    assert raised.value.paths == (b"path-%d" % missing,)
    reclaimed = Reclaimed(counted)
    reclaimed.add_values(iter([(b"gone", b""), *VALUES]))
    assert reclaimed.gone == 1


def test_missing_objects_are_counted_and_some_are_listed(
    counted: Repository, store: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete(store, 1, 3)
    with pytest.raises(Gone, match=r"^the objects of these paths are no longer in .*: 2$"):
        claim_values(counted, VALUES)
    monkeypatch.setattr(guard, "MAX_LISTED", 2)
    delete(store, 4)
    with pytest.raises(
        Gone, match=r"^the objects of these paths are no longer in .*: 3$"
    ) as raised:
        claim_values(counted, VALUES)
    assert raised.value.paths == (b"path-1", b"path-3")


def test_an_object_of_another_size_is_missing(counted: Repository, store: CountingStore) -> None:
    entry = entry_of(CONTENTS[0])
    assert decode_entry(claim_entry(counted, b"p", entry)) == entry
    store.put(entry.physical_address, b"longer", ANY)
    with pytest.raises(Gone):
        claim_entry(counted, b"p", entry)


def test_what_collections_never_delete_costs_no_request(
    counted: Repository, store: CountingStore
) -> None:
    other = entry_of(b"x")._replace(physical_address="other/name")
    values = [(b"a", b""), (b"b", encode_entry(OUTSIDE)), (b"c", encode_entry(other))]
    assert claim_values(counted, values) == values
    Reclaimed(counted).add_values(iter([(b"a", b""), (b"b", b"")]))
    assert store.counts == {}


def test_nothing_is_looked_for_if_nothing_was_ever_collected(
    repository: Repository, store: CountingStore
) -> None:
    never = through(repository, store)
    assert claim_values(never, VALUES) == VALUES
    reclaimed = Reclaimed(never)
    reclaimed.add_values(iter(VALUES))
    claim_trees(never, [MetarangeId("a" * 64)])
    assert (store.counts, reclaimed.gone) == ({"get": 1}, 0)


def test_trees_must_exist_except_the_empty_one(counted: Repository, store: CountingStore) -> None:
    there, gone, too = (MetarangeId(digit * 64) for digit in "abc")
    store.put(sstable_key(there), b"x", ANY)
    claim_trees(counted, [there, MetarangeId("")])
    claim_trees(counted, [MetarangeId("")])
    with pytest.raises(Gone, match=f": 1, such as {sstable_key(gone)}"):
        claim_trees(counted, [there, gone])
    with pytest.raises(Gone, match=f": 2, such as {sstable_key(gone)}"):
        claim_trees(counted, [there, too, gone])


def test_a_commit_that_is_put_back_without_its_tree_is_counted(
    repository: Repository, store: CountingStore
) -> None:
    initial = branch.show(repository, "main").commit_id
    stage(repository, "main", {b"a": b"1"})
    made = commit(repository, "main", message="m", committer="me")
    move(store, look(store), make_state(Phase.IDLE, 1))
    elsewhere = through(repository, store, new_id=Numbered("gate"))
    with elsewhere.lake.kv.read() as txn:
        first = RefStore(txn, repository.key).get_commit(initial)
        reclaimed = Reclaimed(elsewhere)
        reclaimed.add_commit(txn, first)
        assert reclaimed.gone == 0
        reclaimed.add_commit(txn, made)
        assert reclaimed.gone == 1


@pytest.mark.parametrize("error", [Unreachable, BucketNotFound, PermissionDenied])
def test_refs_of_this_clone_move_without_the_bucket(error: type[Exception]) -> None:
    def fail(raised: Exception) -> None:
        with unless_away():
            raise raised

    fail(error("away"))
    with pytest.raises(SweepRunning):
        fail(SweepRunning("wait"))

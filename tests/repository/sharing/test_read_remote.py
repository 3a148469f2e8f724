"""Which refs of a bucket are read, and what a clone makes of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from lakecli.base.layout import ref_key
from lakecli.base.model import RefKind
from lakecli.base.progress import NoProgress
from lakecli.kv.bucket import Tracked, TrackingStore
from lakecli.remote.refs import find_ref
from lakecli.repository.journal import bucket_state, tracking
from lakecli.repository.sharing.fetch import read_remote
from lakecli.stores.contract import ANY
from tests.remote.chains import PATIENT, commit, intent, move_ref, write_id
from tests.support.clones import make_commit
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from lakecli.remote.ref_records import RemoteRef
    from lakecli.repository.contract import Repository
    from lakecli.repository.sharing.fetch import RefsInBucket


class Counting(NoProgress):
    """Counts the refs that were read."""

    read = 0

    def advance(self, *, items: int = 0, size: int = 0, parts: int = 0) -> None:
        del size, parts
        self.read += items


class Bucket:
    """A bucket, and what a clone has seen of it."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.known: dict[tuple[RefKind, str], Tracked] = {}

    def move(self, name: str, number: int) -> RemoteRef:
        """Move a branch to a commit; return it."""
        found = find_ref(self.store, RefKind.BRANCH, name)
        before = None if found is None else found.commit_id
        wanted = intent(f"{name}-{number}", before, commit(number))
        ref = move_ref(self.store, wanted._replace(name=name), retries=PATIENT).ref
        assert ref is not None
        return ref

    def see(self, ref: RemoteRef) -> Tracked:
        seen = Tracked(
            ref.kind, ref.name, ref.commit_id, ref.sequence, ref.write_id, str(ref.version)
        )
        self.known[ref.kind, ref.name] = seen
        return seen

    def read(self) -> tuple[RefsInBucket, int, int]:
        """Return what is read, how often the owner was checked, and how many refs were counted."""
        repository: Any = SimpleNamespace(store=self.store)
        counting = Counting()
        with mock.patch("lakecli.repository.sharing.fetch.check_readable") as check:
            remote = read_remote(repository, self.known, checks_owner=True, progress=counting)
        return remote, check.call_count, counting.read


def test_a_ref_that_has_not_moved_did_not_go_back() -> None:
    bucket = Bucket()
    first, second = (bucket.move("main", number) for number in (1, 2))
    seen = bucket.see(second)
    found = [tracking.went_back(bucket.store, seen, ref) for ref in (first, second, None)]
    assert found == [True, False, True]


def test_only_refs_that_moved_are_read() -> None:
    bucket = Bucket()
    for name in ("dev", "main", "other"):
        bucket.see(bucket.move(name, 1))
    remote, checks, read = bucket.read()
    assert (remote, checks, read) == ((3, (), (), ()), 0, 0)
    moved = [bucket.move("other", 2), bucket.move("main", 2)]
    remote, checks, read = bucket.read()
    assert remote == (3, (moved[1], moved[0]), (), ())
    assert (checks, read) == (1, 2)


def test_a_ref_that_is_gone_is_asked_for_by_its_key() -> None:
    bucket = Bucket()
    bucket.see(bucket.move("main", 1))
    gone = bucket.see(bucket.move("dev", 1))
    bucket.store.delete([ref_key(RefKind.BRANCH, "dev")])
    remote, checks, read = bucket.read()
    assert (remote, checks, read) == ((1, (), (gone,), ()), 1, 0)


def test_the_owner_of_an_empty_bucket_is_checked() -> None:
    assert Bucket().read() == ((0, (), (), ()), 1, 0)


def test_an_object_that_is_no_ref_is_reported() -> None:
    bucket = Bucket()
    ref = bucket.move("main", 1)
    bucket.see(bucket.move("dev", 1))
    for name in ("dev", "illegal..name"):
        bucket.store.put(ref_key(RefKind.BRANCH, name), b"garbage", ANY)
    remote, checks, read = bucket.read()
    assert (remote.listed, remote.refs, remote.gone) == (2, (ref,), ())
    assert [each.key for each in remote.damaged] == [ref_key(RefKind.BRANCH, "dev")]
    assert (checks, read) == (1, 2)


@pytest.mark.parametrize("kind", [RefKind.BRANCH, RefKind.TAG])
def test_a_ref_that_went_back_is_behind_until_it_catches_up(
    repository: Repository, kind: RefKind
) -> None:
    lower, stood, upper = (make_commit(repository, name).id for name in (b"1", b"2", b"3"))

    def is_behind(number: int, there: Any) -> bool:
        with repository.lake.kv.write() as txn:
            positions = TrackingStore(txn, repository.key)
            positions.delete(kind, "name")
            if there is not ...:
                name = write_id(str(number))
                positions.put(Tracked(kind, "name", there, number, name, f"version {number}"))
            return list(bucket_state.iter_behind(txn, repository)) == [(kind, "name")]

    assert not is_behind(1, stood)
    with repository.lake.kv.write() as txn:
        seen = Tracked(kind, "name", stood, 1, write_id("1"), "version 1")
        bucket_state.accept_rollback(txn, repository, [seen], packs=())
    assert not is_behind(2, stood)
    assert is_behind(3, lower)
    assert is_behind(4, None)
    assert is_behind(5, ...)
    assert is_behind(6, upper) == (kind is RefKind.TAG)

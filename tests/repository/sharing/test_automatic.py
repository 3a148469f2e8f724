"""Automatic sync: the next command of a machine sees what another machine did."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.layout import SHARING, sstable_key
from lakecli.errors import LakeError, LostRace, NotFound, NothingToDo, PermissionDenied, Unreachable
from lakecli.kv.bucket import IntentStore
from lakecli.repository import branch, tag
from lakecli.repository.commit import StagedConflict, commit
from lakecli.repository.contract import Repository
from lakecli.repository.handle.lake import LocalRepository
from lakecli.repository.log import LogOptions, log
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.reading.view import view_of_branch
from lakecli.repository.sharing import automatic as following
from lakecli.repository.sharing.automatic import SharedMover, follow
from lakecli.repository.sharing.fetch import fetch
from lakecli.repository.staged.changes import check_clean
from lakecli.repository.undo.remote_undo import put_back
from lakecli.repository.undo.undo import undo
from tests.support.clones import Clones, synced
from tests.support.lakes import checksums, read, stage, through

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from lakecli.base.model import Commit
    from lakecli.stores.contract import ObjectStore


class KilledError(Exception):
    """The process was killed."""


@pytest.fixture
def clones(tmp_path: Path) -> Iterator[tuple[Repository, ...]]:
    with Clones.make(tmp_path, "ada", "bob", "eve") as made:
        yield made.repositories


@contextmanager
def command(repository: Repository, who: str = "somebody") -> Iterator[Repository]:
    """Run the block as one command under ``sync = auto``."""
    sharing = synced(repository, who)
    sharing.catch_up()
    yield sharing.repository
    sharing.finish()


def put(repository: Repository, contents: Mapping[bytes, bytes | None], message: str) -> Commit:
    """Stage and commit to main."""
    with command(repository) as shared:
        stage(shared, "main", contents)
    with command(repository) as shared:
        return commit(shared, "main", message=message, committer="me")


def messages(repository: Repository, ref: str = "main") -> list[str]:
    with log(repository, ref, LogOptions()) as commits:
        return [each.message for each in commits][:-1]


def notes(repository: Repository) -> list[object]:
    with repository.lake.kv.read() as txn:
        return list(IntentStore(txn, repository.key).iter())


def is_clean(repository: Repository) -> bool:
    with repository.lake.kv.read() as txn:
        check_clean(view_of_branch(repository, txn, "main"))
    return True


def test_a_lost_race_is_followed_by_a_pause_that_grows(
    clones: tuple[Repository, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, bob, _ = clones
    monkeypatch.setattr(type(bob.lake.runtime), "random_number", lambda _runtime: 1.0)
    slept: list[float] = []
    mover = SharedMover(b"bob", who=lambda: "bob", put_back=put_back)
    shared = LocalRepository(bob.lake, bob.record)
    shared.mover = mover
    races = 0

    def commit_first(step: str) -> None:
        nonlocal races
        if step == "intent" and races:
            races -= 1
            put(ada, {b"a": b"%d" % len(slept)}, "ada's")

    bob.lake.runtime = bob.lake.runtime._replace(on_step=commit_first, sleep=slept.append)
    for number, wanted in enumerate((3, 1)):
        races = wanted
        stage(shared, "main", {b"b": b"%d" % number})
        commit(shared, "main", message="bob's", committer="me")
    assert slept == [0.2, 0.4, 0.8, 0.2]
    with command(ada):
        assert messages(ada) == ["bob's", "ada's", "bob's", "ada's", "ada's", "ada's"]


@pytest.mark.parametrize("there", ["branch", "tag"])
def test_a_ref_of_the_bucket_does_not_take_the_name_of_another_one_here(
    clones: tuple[Repository, ...], there: str
) -> None:
    ada, bob, _ = clones
    put(ada, {b"a": b"1"}, "one")

    def make(repository: Repository, kind: str) -> None:
        if kind == "branch":
            branch.create(repository, "x", source="main")
        else:
            tag.create(repository, "x", "main")

    here = "tag" if there == "branch" else "branch"
    with command(ada) as shared:
        make(shared, there)
    make(bob, here)
    with command(bob) as shared:
        shown = {"branch": branch.show, "tag": tag.show}
        found = [kind for kind, show in shown.items() if _has(shared, show)]
    assert found == [here]


def _has(repository: Repository, show: Callable[[Repository, str], object]) -> bool:
    try:
        show(repository, "x")
    except NotFound:
        return False
    return True


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_a_ref_that_was_deleted_while_nothing_was_shared_comes_back(
    clones: tuple[Repository, ...], kind: str
) -> None:
    ada, bob, _ = clones
    put(ada, {b"a": b"1"}, "one")

    def there(repository: Repository) -> str:
        return (branch.show if kind == "branch" else tag.show)(repository, "x").commit_id

    with command(ada) as shared:
        if kind == "branch":
            branch.create(shared, "x", source="main")
        else:
            tag.create(shared, "x", "main")
    with command(bob) as shared:
        made = there(shared)
    (branch.delete if kind == "branch" else tag.delete)(bob, "x")
    with pytest.raises(NotFound):
        there(bob)
    with command(bob) as shared:
        assert there(shared) == made


def test_a_branch_stays_if_it_cannot_be_found_out_what_is_staged_on_it(
    clones: tuple[Repository, ...],
) -> None:
    ada, bob, _ = clones
    put(ada, {b"a": b"1"}, "one")
    with command(bob):
        head = branch.show(bob, "main").commit_id
    stage(bob, "main", {b"b": b"2"})
    made = put(ada, {b"a": b"2"}, "two")
    ada.store.delete([sstable_key(made.metarange_id)])
    bob.forget_trees()
    with command(bob):
        assert branch.show(bob, "main").commit_id == head


def test_a_branch_does_not_follow_to_a_position_that_is_outdated_meanwhile(
    clones: tuple[Repository, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, bob, _ = clones
    put(ada, {b"a": b"1"}, "one")
    with command(bob):
        pass
    put(ada, {b"a": b"2"}, "two")
    fetch(bob)
    real = following._is_ready
    newest: list[str] = []

    def is_ready(*given: Any) -> bool:
        """Let another process of the machine share and follow first."""
        monkeypatch.setattr(following, "_is_ready", real)
        newest.append(put(ada, {b"a": b"3"}, "three").id)
        with command(bob, "another"):
            assert branch.show(bob, "main").commit_id == newest[0]
        return real(*given)

    monkeypatch.setattr(following, "_is_ready", is_ready)
    follow(bob)
    assert branch.show(bob, "main").commit_id == newest[0]


def test_a_commit_of_one_machine_reaches_all(clones: tuple[Repository, ...]) -> None:
    ada, bob, eve = clones
    put(ada, {b"a": b"1"}, "one")
    put(bob, {b"b": b"2"}, "two")
    put(ada, {b"a": None}, "three")
    with command(eve) as synced_eve:
        assert messages(synced_eve) == ["three", "two", "one"]
        assert read(synced_eve, "main") == checksums({b"b": b"2"})
    assert not notes(ada)
    assert not notes(bob)


def test_a_commit_that_loses_a_race_is_rebuilt_on_the_new_head(
    clones: tuple[Repository, ...],
) -> None:
    ada, bob, _ = clones
    with command(ada) as synced_ada:
        stage(synced_ada, "main", {b"a": b"1"})
    with command(ada) as synced_ada:
        put(bob, {b"b": b"2"}, "bob's")  # after ada has fetched
        commit(synced_ada, "main", message="ada's", committer="me")
    assert messages(ada) == ["ada's", "bob's"]
    assert read(ada, "main@") == checksums({b"a": b"1", b"b": b"2"})
    assert is_clean(ada)


def test_a_fetch_by_another_process_meanwhile_is_no_conflict(
    clones: tuple[Repository, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, bob, _ = clones
    other = LocalRepository(ada.lake, ada.record)
    fetches = [True]

    def on_step(name: str) -> None:
        if name == "build" and fetches:
            fetches.clear()
            put(bob, {b"b": b"2"}, "bob's")
            with command(other):  # any command does
                pass

    with command(ada) as synced_ada:
        stage(synced_ada, "main", {b"a": b"1"})
    with command(ada) as synced_ada:
        runtime = synced_ada.lake.runtime._replace(on_step=on_step)
        monkeypatch.setattr(synced_ada.lake, "runtime", runtime)
        commit(synced_ada, "main", message="ada's", committer="me")
    assert messages(ada) == ["ada's", "bob's"]
    assert read(ada, "main@") == checksums({b"a": b"1", b"b": b"2"})
    assert is_clean(ada)


def test_a_path_changed_on_both_sides_is_a_conflict(clones: tuple[Repository, ...]) -> None:
    ada, bob, _ = clones
    put(ada, {b"a": b"1"}, "first")
    with command(ada) as synced_ada:
        stage(synced_ada, "main", {b"a": b"ada's", b"b": b"ada's"})
    put(bob, {b"a": b"bob's"}, "bob's")
    with command(ada) as synced_ada, pytest.raises(StagedConflict) as caught:
        commit(synced_ada, "main", message="ada's", committer="me")
    assert caught.value.paths == (b"a",)
    assert messages(ada) == ["bob's", "first"]
    with command(ada) as synced_ada:
        stage(synced_ada, "main", {b"a": b"both"})
        commit(synced_ada, "main", message="ada's", committer="me")
    with command(bob) as synced_bob:
        assert read(synced_bob, "main@") == checksums({b"a": b"both", b"b": b"ada's"})


def test_a_merge_that_loses_a_race_is_merged_again(clones: tuple[Repository, ...]) -> None:
    ada, bob, _ = clones
    put(ada, {b"a": b"1"}, "first")
    with command(ada) as synced_ada:
        branch.create(synced_ada, "dev", source="main")
        stage(synced_ada, "dev", {b"d": b"1"})
        commit(synced_ada, "dev", message="dev", committer="me")
    with command(ada) as synced_ada:
        put(bob, {b"b": b"2"}, "bob's")
        merged = merge(synced_ada, "dev", "main", MergeOptions("me"))
    assert read(ada, "main@") == checksums({b"a": b"1", b"b": b"2", b"d": b"1"})
    with command(bob) as synced_bob:
        assert branch.show(synced_bob, "main").commit_id == merged.id
        assert branch.show(synced_bob, "dev").commit_id in merged.parents


def test_created_and_deleted_refs_reach_the_other_machine(clones: tuple[Repository, ...]) -> None:
    ada, bob, _ = clones
    put(ada, {b"a": b"1"}, "first")
    with command(ada) as synced_ada:
        branch.create(synced_ada, "dev", source="main")
        tag.create(synced_ada, "v1", "main")
    with command(bob) as synced_bob:
        head = branch.show(synced_bob, "dev").commit_id
        assert tag.show(synced_bob, "v1").commit_id == head
        branch.delete(synced_bob, "dev")
    with command(ada) as synced_ada, pytest.raises(NotFound):
        branch.show(synced_ada, "dev")


def test_staged_changes_keep_a_branch_that_others_delete(clones: tuple[Repository, ...]) -> None:
    ada, bob, _ = clones
    with command(ada) as synced_ada:
        branch.create(synced_ada, "dev", source="main")
    with command(bob) as synced_bob:
        stage(synced_bob, "dev", {b"b": b"2"})
    with command(ada) as synced_ada:
        branch.delete(synced_ada, "dev")
    with command(bob) as synced_bob:
        assert read(synced_bob, "dev") == checksums({b"b": b"2"})


def test_one_of_two_creators_of_a_branch_wins(clones: tuple[Repository, ...]) -> None:
    ada, bob, eve = clones
    first = put(ada, {b"a": b"1"}, "first")
    with command(ada) as synced_ada:
        branch.create(synced_ada, "dev", source="main")
        with command(bob) as synced_bob:
            branch.create(synced_bob, "dev", source="main~1")
        with pytest.raises(LostRace, match="dev"):
            raise_at_end(synced_ada)
    with command(eve) as synced_eve:
        assert branch.show(synced_eve, "dev").commit_id == first.parents[0]
    assert not notes(ada)


def raise_at_end(repository: Repository) -> None:
    assert repository.mover is not None
    repository.mover.finish(repository)


@pytest.mark.parametrize("step", ["pack", "intent", "move", "track"])
def test_a_killed_commit_is_made_once(step: str, clones: tuple[Repository, ...]) -> None:
    ada, bob, _ = clones
    with command(ada) as synced_ada:
        stage(synced_ada, "main", {b"a": b"1"})

    def kill(name: str) -> None:
        if name == step:
            raise KilledError

    runtime = ada.lake.runtime
    with command(ada) as synced_ada:
        synced_ada.lake.runtime = runtime._replace(on_step=kill)
        with pytest.raises(KilledError):
            commit(synced_ada, "main", message="mine", committer="me")
        synced_ada.lake.runtime = runtime
    put(bob, {b"b": b"2"}, "bob's")
    # If the bucket had the commit, this command lands it and has nothing else to do.
    with command(ada) as synced_ada, suppress(NothingToDo):
        commit(synced_ada, "main", message="mine", committer="me")
    with command(bob) as synced_bob:
        assert sorted(messages(synced_bob)) == ["bob's", "mine"]
        assert read(synced_bob, "main") == checksums({b"a": b"1", b"b": b"2"})
    assert is_clean(ada)
    assert not notes(ada)


def test_a_ref_that_was_not_pushed_is_pushed_by_the_next_command(
    clones: tuple[Repository, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, bob, _ = clones
    with command(ada) as synced_ada:
        branch.create(synced_ada, "dev", source="main")
        # Killed before it could push.
        monkeypatch.setattr(synced_ada.mover, "finish", lambda _: None)
    assert notes(ada)
    with command(ada) as synced_ada:
        assert not notes(synced_ada)
    with command(bob) as synced_bob:
        assert branch.show(synced_bob, "dev").commit_id == branch.show(ada, "dev").commit_id


def test_a_diverged_branch_is_reported(clones: tuple[Repository, ...]) -> None:
    ada, bob, _ = clones
    stage(ada, "main", {b"a": b"1"})
    commit(ada, "main", message="by myself", committer="me")  # without automatic sync
    put(bob, {b"b": b"2"}, "bob's")
    with command(ada) as synced_ada:
        stage(synced_ada, "main", {b"c": b"3"})
        with pytest.raises(LostRace, match="diverged") as caught:
            commit(synced_ada, "main", message="more", committer="me")
    assert caught.value.hint is not None
    assert "`pull" in caught.value.hint
    assert messages(ada) == ["by myself"]


def test_a_tag_follows_the_bucket_from_where_it_once_stood(clones: tuple[Repository, ...]) -> None:
    ada, bob, eve = clones
    first = put(ada, {b"a": b"1"}, "first")
    tag.create(eve, "v1", first.parents[0])  # eve's own, of another commit
    with command(ada) as synced_ada:
        tag.create(synced_ada, "v1", "main")
    with command(bob) as synced_bob:
        assert tag.show(synced_bob, "v1").commit_id == first.id
    second = put(ada, {b"a": b"2"}, "second")
    with command(ada) as synced_ada:
        tag.create(synced_ada, "v1", "main", force=True)
    with command(bob) as synced_bob:
        assert tag.show(synced_bob, "v1").commit_id == second.id
        tag.delete(synced_bob, "v1")
    with command(ada) as synced_ada, pytest.raises(NotFound):
        tag.show(synced_ada, "v1")
    with command(eve) as synced_eve:
        assert tag.show(synced_eve, "v1").commit_id == first.parents[0]


def test_undo_skips_what_sync_did(clones: tuple[Repository, ...]) -> None:
    ada, bob, _ = clones
    with command(bob) as synced_bob:
        branch.create(synced_bob, "mine", source="main")
    with command(ada) as synced_ada:
        tag.create(synced_ada, "v1", "main")
    with command(bob) as synced_bob:
        tag.show(synced_bob, "v1")
    with command(bob) as synced_bob:
        assert undo(synced_bob, remote=True, committer="bob").operation.kind == "branch create"
        assert tag.show(synced_bob, "v1").commit_id


class Refusing:
    """A store that refuses every write, with a given error."""

    def __init__(self, inner: ObjectStore) -> None:
        self._inner = inner
        self.error: LakeError | None = None

    def __getattr__(self, name: str) -> Any:
        if self.error is not None and name in ("put", "put_new"):
            raise self.error
        return getattr(self._inner, name)


@pytest.mark.parametrize("kind", [PermissionDenied, Unreachable])
def test_a_ref_that_cannot_be_pushed_does_not_stop_the_command(
    clones: tuple[Repository, ...], kind: type[LakeError]
) -> None:
    ada, bob, _ = clones
    put(ada, {b"a": b"1"}, "first")
    bob.store.delete([SHARING])  # so that the first write is a test, and the ref is not sent
    store = Refusing(bob.store)
    bob = through(bob, store)
    with command(bob) as synced_bob:
        store.error = kind("not now", hint="wait and repeat the command")
        branch.create(synced_bob, "dev", source="main")
        with pytest.raises(kind, match="branch dev moved here, not yet in the bucket") as told:
            raise_at_end(synced_bob)
        assert told.value.hint is not None
        assert "`undo lakefs://demo" in told.value.hint
        assert told.value.hint.startswith("wait and repeat") == (kind is PermissionDenied)

        again = synced(synced_bob, "bob")
        if kind is Unreachable:
            with pytest.raises(kind):
                again.catch_up()
        else:
            assert [type(each) for each in again.catch_up().unsent] == [kind]
        again.finish()  # it has nothing to push
        assert notes(synced_bob)
        store.error = None
    # The refused move was kept; now it is pushed.
    with command(bob) as synced_bob:
        assert not notes(synced_bob)
    with command(ada) as synced_ada:
        assert branch.show(synced_ada, "dev").commit_id == branch.show(synced_ada, "main").commit_id

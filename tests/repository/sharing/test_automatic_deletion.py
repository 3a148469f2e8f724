"""Automatic sync, and a branch that is deleted or renamed with commits that were never pushed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

import pytest

from lakecli.base.model import RefKind
from lakecli.errors import LostRace, NotFound, Refused
from lakecli.kv.bucket import IntentStore, UnsentMove
from lakecli.remote.refs import find_ref
from lakecli.repository import branch, tag
from lakecli.repository.pull import PullOptions, pull
from lakecli.repository.push import PushLease, PushOptions, push, push_deletion
from lakecli.repository.sharing.fetch import fetch
from lakecli.repository.undo.log import iter_log
from lakecli.repository.undo.remote_undo import _find
from lakecli.repository.undo.undo import redo, restore, undo
from tests.support.clones import Clones, auto, make_commit, synced
from tests.support.lakes import read, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakecli.base.model import CommitId
    from lakecli.repository.contract import Repository

ME: Final = PushOptions(who="Me <me@example.com>")


class World(NamedTuple):
    """Two clones; ``dev`` is pushed, and Ada has one more commit on it, and something staged."""

    ada: Repository
    bob: Repository
    pushed: CommitId
    mine: CommitId


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Clones.make(tmp_path, "ada", "bob") as made:
        ada, bob = made.repositories
        make_commit(ada, b"first")
        branch.create(ada, "dev", source="main")
        pushed = make_commit(ada, b"pushed", "dev").id
        tag.create(ada, "v1", "main")
        for name in ("main", "dev", "v1"):
            push(ada, name, options=ME)
        pull(bob, "dev", PullOptions(committer="bob"))
        fetch(bob)
        mine = make_commit(ada, b"mine", "dev").id
        stage(ada, "dev", {b"staged": b"staged"})
        yield World(ada, bob, pushed, mine)


def here(repository: Repository, name: str = "dev") -> CommitId | None:
    try:
        return branch.show(repository, name).commit_id
    except NotFound:
        return None


def there(
    repository: Repository, name: str = "dev", kind: RefKind = RefKind.BRANCH
) -> CommitId | None:
    ref = find_ref(repository.store, kind, name)
    return None if ref is None else ref.commit_id


def settle(repository: Repository) -> None:
    """Run two more commands, which have nothing left to send."""
    for _ in range(2):
        with auto(repository) as (_, resumed):
            assert resumed.unsent == ()
    with repository.lake.kv.read() as txn:
        assert list(IntentStore(txn, repository.key).iter()) == []


def push_theirs(world: World) -> CommitId:
    theirs = make_commit(world.bob, b"theirs", "dev").id
    push(world.bob, "dev", options=ME)
    return theirs


def move_back(world: World) -> CommitId:
    """Let Bob move the branch back in the bucket, to what Ada's branch has too."""
    back = branch.reset(world.bob, "dev", to="dev~1").commit_id
    push(world.bob, "dev", options=PushOptions(who="Bob <b@example.com>", lease=PushLease()))
    return back


def check_mine(world: World) -> None:
    """Check that Ada's branch is as it was: with her commit, and what she has staged."""
    assert here(world.ada) == world.mine
    assert set(read(world.ada, "dev")) == {b"first", b"pushed", b"mine", b"staged"}


def test_a_deletion_is_sent_undone_and_redone(world: World) -> None:
    ada = world.ada
    with auto(ada) as (shared, _):
        branch.delete(shared, "dev")
    assert here(ada) is there(ada) is None
    settle(ada)
    assert here(ada) is None
    with auto(world.bob):
        pass
    assert here(world.bob) is None
    with auto(ada) as (shared, _):
        assert undo(shared, remote=True, committer="me").operation.kind == "branch delete"
    settle(ada)
    check_mine(world)
    assert there(ada) == world.mine
    with auto(ada) as (shared, _):
        redo(shared)
    settle(ada)
    assert here(ada) is there(ada) is None


def test_a_deletion_that_was_killed_is_sent_by_the_next_command(world: World) -> None:
    ada = world.ada
    branch.delete(synced(ada, "killed").repository, "dev")
    settle(ada)
    assert here(ada) is there(ada) is None


def test_a_deletion_undone_before_it_was_sent_pushes_nothing(world: World) -> None:
    ada = world.ada
    branch.delete(synced(ada, "killed").repository, "dev")
    undo(ada)
    settle(ada)
    check_mine(world)
    assert there(ada) == world.pushed


def test_a_renaming_is_sent_and_undone(world: World) -> None:
    ada = world.ada
    branch.reset(ada, "dev")
    with auto(ada) as (shared, _):
        branch.rename(shared, "dev", "trial")
    settle(ada)
    assert (here(ada), here(ada, "trial")) == (None, world.mine)
    assert (there(ada), there(ada, "trial")) == (None, world.mine)
    with auto(ada) as (shared, _):
        assert undo(shared, remote=True, committer="me").operation.kind == "branch rename"
    settle(ada)
    assert (here(ada), here(ada, "trial")) == (world.mine, None)
    assert (there(ada), there(ada, "trial")) == (world.mine, None)


def test_what_the_bucket_has_more_refuses_before_anything_is_changed(world: World) -> None:
    ada = world.ada
    theirs = push_theirs(world)
    for change in (branch.check_delete, branch.delete):
        with auto(ada) as (shared, _), pytest.raises(LostRace, match="nothing was changed") as told:
            change(shared, "dev")
        assert f"it stands on {theirs}" in told.value.message
        assert told.value.hint is not None
        assert told.value.hint.endswith(f"`push --delete {ada.uri}/dev`")
        check_mine(world)
        assert there(ada) == theirs
    branch.reset(ada, "dev")
    with auto(ada) as (shared, _), pytest.raises(LostRace, match="nothing was changed"):
        branch.rename(shared, "dev", "trial")
    settle(ada)
    assert (here(ada), here(ada, "trial"), there(ada)) == (world.mine, None, theirs)
    branch.delete(ada, "dev")  # without automatic sync, it is deleted here


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("act", [push_theirs, move_back])
def test_what_others_move_meanwhile_puts_the_branch_back(
    world: World, act: Callable[[World], CommitId], *, is_killed: bool
) -> None:
    ada = world.ada
    if is_killed:
        branch.delete(synced(ada, "killed").repository, "dev")
        theirs = act(world)
        with auto(ada) as (_, resumed):
            (message,) = [each.message for each in resumed.unsent]
    else:
        sharing = synced(ada, "ada")
        sharing.catch_up()
        branch.delete(sharing.repository, "dev")
        theirs = act(world)
        with pytest.raises(LostRace) as told:
            sharing.finish()
        message = told.value.message
    assert "branch dev was deleted here, not in the bucket" in message
    assert message.endswith("this is undone here: branch delete")
    settle(ada)
    check_mine(world)
    assert there(ada) == theirs
    if act is move_back:
        with auto(ada) as (shared, _):
            redo(shared)
        settle(ada)
        assert here(ada) is there(ada) is None


@pytest.mark.parametrize("taken", ["dev", "trial"])
@pytest.mark.parametrize("is_killed", [False, True])
def test_what_others_move_meanwhile_puts_a_renamed_branch_back(
    world: World, taken: str, *, is_killed: bool
) -> None:
    ada = world.ada
    branch.reset(ada, "dev")

    def act() -> CommitId:
        if taken == "dev":
            return push_theirs(world)
        branch.create(world.bob, "trial", source="main")
        made = make_commit(world.bob, b"theirs", "trial").id
        push(world.bob, "trial", options=ME)
        return made

    if is_killed:
        branch.rename(synced(ada, "killed").repository, "dev", "trial")
        theirs = act()
        with auto(ada) as (_, resumed):
            assert len(resumed.unsent) == 1
    else:
        sharing = synced(ada, "ada")
        sharing.catch_up()
        branch.rename(sharing.repository, "dev", "trial")
        theirs = act()
        with pytest.raises(LostRace):
            sharing.finish()
        assert there(ada, "trial") == (theirs if taken == "trial" else None)  # at once
    settle(ada)
    assert here(ada) == world.mine
    assert there(ada, taken) == theirs
    assert here(ada, "trial") == there(ada, "trial") == (theirs if taken == "trial" else None)
    if taken == "trial":
        assert there(ada) == world.pushed


def test_what_cannot_be_put_back_stays_deleted_here(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise LostRace("another command came between")

    sharing = synced(world.ada, "ada")
    sharing.catch_up()
    branch.delete(sharing.repository, "dev")
    theirs = push_theirs(world)
    monkeypatch.setattr("lakecli.repository.undo.remote_undo.claim_operations", refuse)
    with pytest.raises(LostRace, match="branch dev was deleted here, not in the bucket") as told:
        sharing.finish()
    assert "undone here" not in told.value.message
    assert (here(world.ada), there(world.ada)) == (None, theirs)


def test_a_branch_that_was_made_again_meanwhile_stays(world: World) -> None:
    ada = world.ada
    branch.delete(synced(ada, "killed").repository, "dev")
    theirs = push_theirs(world)
    branch.create(ada, "dev", source="main")
    made = make_commit(ada, b"made", "dev").id
    with auto(ada) as (_, resumed):
        (error,) = resumed.unsent
    assert "undone here" not in error.message
    assert (here(ada), there(ada)) == (made, theirs)


def test_a_moved_tag_is_deleted_only_where_it_is_in_the_bucket(world: World) -> None:
    ada = world.ada
    before = there(ada, "v1", RefKind.TAG)
    tag.create(ada, "v1", "dev", force=True)
    for change in (tag.check_delete, tag.delete):
        with auto(ada) as (shared, _), pytest.raises(LostRace, match="and elsewhere here"):
            change(shared, "v1")
    settle(ada)
    assert tag.show(ada, "v1").commit_id == world.mine
    assert there(ada, "v1", RefKind.TAG) == before
    undo(ada)
    with auto(ada) as (shared, _):
        tag.delete(shared, "v1")
    assert there(ada, "v1", RefKind.TAG) is None


def test_undoing_a_deletion_leaves_what_others_made_since(world: World) -> None:
    ada, bob = world.ada, world.bob
    with auto(ada) as (shared, _):
        branch.delete(shared, "dev")
    theirs = make_commit(bob, b"theirs", "dev").id
    fetch(bob)
    push(bob, "dev", options=ME)
    with auto(ada) as (shared, _), pytest.raises((Refused, LostRace)):
        undo(shared, remote=True, committer="me")
    settle(ada)
    assert there(ada) == here(ada) == theirs


@pytest.mark.parametrize("step", ["intent", "move", "read", "put", "track"])
def test_a_branch_that_is_restored_while_its_deletion_is_sent_stays(
    world: World, step: str
) -> None:
    """To a position that it has in the bucket, before the unpushed commit."""
    ada = world.ada
    kept = next(each.operation for each in iter_log(ada) if each.operation.kind == "push")
    sharing = synced(ada, "ada")
    sharing.catch_up()
    branch.delete(sharing.repository, "dev")
    runtime = ada.lake.runtime
    pending = [step]

    def on_step(name: str) -> None:
        if pending == [name]:
            pending.clear()
            ada.lake.runtime = runtime
            with auto(ada) as (shared, _):
                restore(shared, kept.id.hex(), remote=True, committer="me")

    ada.lake.runtime = runtime._replace(on_step=on_step)
    sharing.finish()
    assert pending == []
    settle(ada)
    assert here(ada) == there(ada) == world.pushed


def test_what_is_restored_past_unpushed_commits_goes_back_in_the_bucket_too(world: World) -> None:
    ada = world.ada
    settle(ada)
    kept, before = next(iter_log(ada)).operation.id.hex(), here(ada, "main")
    with auto(ada) as (shared, _):
        branch.create(shared, "new", source="main")
        make_commit(shared, b"pushed")
    pushed = there(ada, "main")
    unpushed = [make_commit(ada, b"mine", name).id for name in ("new", "main")]
    with auto(ada) as (shared, _):
        restore(shared, kept, remote=True, committer="me")
    settle(ada)
    assert here(ada, "new") is there(ada, "new") is None
    assert here(ada, "main") == there(ada, "main") == before != pushed
    with auto(ada) as (shared, _):
        undo(shared, remote=True, committer="me")
    settle(ada)
    assert [here(ada, name) for name in ("new", "main")] == unpushed
    assert [there(ada, name) for name in ("new", "main")] == unpushed


def test_only_the_operation_whose_move_was_refused_is_put_back(world: World) -> None:
    ada = world.ada
    branch.create(ada, "trial", source="main")

    def found(name: str, after: CommitId | None) -> str | None:
        """Return the kind of the operation that is put back."""
        note = UnsentMove(RefKind.BRANCH, name, "test", world.pushed, after, ())
        with ada.lake.kv.read() as txn:
            operation = _find(txn, ada, note)
        return None if operation is None else operation.kind

    assert found("dev", None) is None  # it was not deleted
    branch.delete(ada, "trial")
    assert found("trial", None) == "branch delete"
    assert found("trial", world.mine) is None
    branch.reset(ada, "dev")
    branch.rename(ada, "dev", "trial")
    assert found("trial", None) is None  # it was made again since
    assert found("trial", world.mine) == found("dev", None) == "branch rename"
    undo(ada)
    assert found("trial", None) is found("dev", world.mine) is None
    # One that followed the bucket was never to be sent.
    push_deletion(world.bob, "dev", options=ME)
    branch.reset(ada, "dev", to=world.pushed)
    with auto(ada):
        pass
    assert here(ada) is None
    assert found("dev", None) is None

"""What an undo moves in the bucket, and how far: what others had pushed stays there."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import pytest

from lakecli.base.ids import WriteId
from lakecli.base.model import RefKind
from lakecli.errors import LostRace, NotFound, Refused
from lakecli.kv.bucket import Tracked, TrackingStore, UnsentMove
from lakecli.kv.operations import RefChange
from lakecli.repository import branch, tag
from lakecli.repository.handle.shareable import CannotShare
from lakecli.repository.journal import unsent_moves
from lakecli.repository.journal.tracking import iter_known_moves
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.pull import PullOptions, pull
from lakecli.repository.push import PushLease, PushOptions, push, push_deletion
from lakecli.repository.sharing.fetch import fetch
from lakecli.repository.undo.interrupted import may_be_left
from lakecli.repository.undo.log import find_operation, iter_log
from lakecli.repository.undo.pushed_refs import PushedRef, _has_seen, moved_on
from lakecli.repository.undo.remote_undo import _is_left_behind, _is_reversed
from lakecli.repository.undo.undo import _holds, complete, redo, restore, undo
from tests.support.clones import Clones, auto, here, make_commit, synced, there
from tests.support.lakes import stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.base.model import CommitId
    from lakecli.kv.operations import Operation
    from lakecli.remote.ref_records import RecordedMove
    from lakecli.repository.contract import Repository

ME: Final = PushOptions(who="Me <me@example.com>")
FORCED: Final = PushOptions(who="Me <me@example.com>", lease=PushLease())


class World(NamedTuple):
    """Two clones; Ada has pushed two commits of ``main``, and Eve has the first one."""

    ada: Repository
    eve: Repository
    first: CommitId
    second: CommitId


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Clones.make(tmp_path, "ada", "eve") as made:
        ada, eve = made.repositories
        first = make_commit(ada, b"first").id
        push(ada, "main", options=ME)
        pull(eve, "main", PullOptions(committer="eve"))
        second = make_commit(ada, b"second").id
        push(ada, "main", options=ME)
        yield World(ada, eve, first, second)


def newest(repository: Repository) -> Operation:
    return next(iter_log(repository)).operation


def both(repository: Repository) -> tuple[CommitId, CommitId | None]:
    """Return where main is here and in the bucket."""
    return here(repository), there(repository)


def let_pass(repository: Repository) -> None:
    """Run two commands under automatic sharing."""
    for _ in range(2):
        with auto(repository) as (_, resumed):
            assert resumed.unsent == ()


# -- how far a ref goes back there ------------------------------------------------------------


@pytest.mark.parametrize("is_auto", [False, True])
def test_undoing_a_merge_leaves_what_others_had_pushed(world: World, *, is_auto: bool) -> None:
    """The branch was never in the bucket as it is here before the merge."""
    eve = world.eve
    mine = make_commit(eve, b"mine").id
    pull(eve, "main", PullOptions(committer="eve"))
    merged = here(eve)
    push(eve, "main", options=ME)
    assert there(eve) == merged
    if not is_auto:
        done = undo(eve, remote=True, committer="eve")
        assert [(each.name, each.before) for each in done.remote] == [("main", world.second)]
        assert both(eve) == (mine, world.second)
        return
    with auto(eve) as (shared, _):
        assert undo(shared, remote=True, committer="eve").operation.kind == "merge"
    let_pass(eve)
    assert both(eve) == (mine, world.second)
    with auto(eve) as (shared, _):
        redo(shared)
    let_pass(eve)
    assert both(eve) == (merged, merged)


def test_undoing_a_reset_leaves_what_others_had_pushed(world: World) -> None:
    """The branch here stays behind the bucket, and does not follow it at once."""
    eve = world.eve
    fetch(eve)
    branch.create(eve, "dev", source=world.second)
    mine = make_commit(eve, b"mine", "dev").id
    branch.reset(eve, "main", to=mine)
    push(eve, "main", options=ME)
    with auto(eve) as (shared, _):
        undo(shared, remote=True, committer="eve")
    let_pass(eve)
    assert both(eve) == (world.first, world.second)
    with auto(eve) as (shared, _):
        redo(shared)
    let_pass(eve)
    assert both(eve) == (mine, mine)


def test_a_commit_on_a_branch_that_others_deleted_is_undone_here(world: World) -> None:
    ada, eve = world.ada, world.eve
    branch.create(ada, "dev", source="main")
    push(ada, "dev", options=ME)
    pull(eve, "dev", PullOptions(committer="eve"))
    make_commit(eve, b"mine", "dev")
    push_deletion(ada, "dev", options=ME)
    fetch(eve)
    assert undo(eve).remote == ()
    assert here(eve, "dev") == world.second


def test_a_deleted_ref_whose_moves_are_unknown_was_not_moved_by_this_clone(world: World) -> None:
    eve = world.eve
    mine = make_commit(eve, b"mine").id
    tracked = Tracked(RefKind.BRANCH, "unknown", None, 1, WriteId("0" * 32), "")
    with eve.lake.kv.read() as txn:
        assert not _has_seen(txn, eve, tracked, (world.first, None), resets=False)
        assert not _has_seen(txn, eve, tracked, (None, world.first), resets=False)
        assert not _has_seen(txn, eve, tracked, (mine, world.first), resets=True)
        main = TrackingStore(txn, eve.key).find(RefKind.BRANCH, "main")
        assert main is not None
        assert not _has_seen(txn, eve, main, (mine, None), resets=True)


def test_a_reset_to_where_the_bucket_only_went_forward_was_not_moved_there(world: World) -> None:
    """It leaves a commit behind that was never there."""
    eve = world.eve
    mine = make_commit(eve, b"mine").id
    fetch(eve)
    with eve.lake.kv.read() as txn:
        tracked = TrackingStore(txn, eve.key).find(RefKind.BRANCH, "main")
        assert tracked is not None
        assert not _has_seen(txn, eve, tracked, (mine, world.second), resets=True)
    push(eve, "main", options=FORCED)
    branch.reset(eve, "main", to=world.second)
    push(eve, "main", options=FORCED)
    with eve.lake.kv.read() as txn:
        tracked = TrackingStore(txn, eve.key).find(RefKind.BRANCH, "main")
        assert tracked is not None
        assert _has_seen(txn, eve, tracked, (mine, world.second), resets=True)


def test_nothing_is_undone_where_no_ref_can_be_moved(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Repository) -> NoReturn:
        raise CannotShare("the store has no working compare-and-set")

    ada = world.ada
    before = newest(ada)
    monkeypatch.setattr("lakecli.repository.undo.pushed_refs.check_writable", refuse)
    with pytest.raises(CannotShare):
        undo(ada, remote=True, committer="ada")
    assert newest(ada) == before


def test_a_branch_is_held_only_where_sharing_is_automatic(world: World) -> None:
    eve = world.eve
    fetch(eve)
    branch.create(eve, "dev", source=world.second)
    mine = make_commit(eve, b"mine", "dev").id
    branch.reset(eve, "main", to=mine)
    push(eve, "main", options=ME)
    undo(eve, remote=True, committer="eve")
    assert both(eve) == (world.first, world.second)
    let_pass(eve)
    assert both(eve) == (world.second, world.second)


def test_undoing_a_new_branch_leaves_what_others_pushed_to_it(world: World) -> None:
    ada, eve = world.ada, world.eve
    kept = newest(eve).id.hex()
    branch.create(eve, "dev", source="main")
    push(eve, "dev", options=ME)
    pull(ada, "dev", PullOptions(committer="ada"))
    theirs = make_commit(ada, b"theirs", "dev").id
    push(ada, "dev", options=ME)
    make_commit(eve, b"mine", "dev")
    pull(eve, "dev", PullOptions(committer="eve"))
    push(eve, "dev", options=ME)
    restore(eve, kept, remote=True, committer="eve")
    assert "dev" not in {each.name for each in branch.iter_branches(eve)}
    assert there(eve, "dev") == theirs


def test_undoing_a_forced_push_puts_back_what_it_replaced(world: World) -> None:
    eve = world.eve
    fetch(eve)
    make_commit(eve, b"mine")
    push(eve, "main", options=FORCED)
    undo(eve, remote=True, committer="eve")
    assert both(eve) == (world.first, world.second)


def test_undoing_a_forced_tag_puts_back_what_it_replaced(world: World) -> None:
    ada, eve = world.ada, world.eve
    commits = [world.first, world.second]
    mine = make_commit(eve, b"mine").id
    for name, (old, theirs) in {"v1": commits, "v2": commits[::-1]}.items():
        tag.create(ada, name, old)
        push(ada, name, options=ME)
        fetch(eve)
        tag.create(ada, name, theirs, force=True)
        push(ada, name, options=FORCED)
        tag.create(eve, name, mine, force=True)
        fetch(eve)
        push(eve, name, options=FORCED)
        assert there(eve, name, RefKind.TAG) == mine
        undo(eve, remote=True, committer="eve")
        assert tag.show(eve, name).commit_id == old
        assert there(eve, name, RefKind.TAG) == theirs


def test_a_tag_that_went_there_and_back_stays(world: World) -> None:
    eve = world.eve
    fetch(eve)
    tag.create(eve, "v1", world.first)
    push(eve, "v1", options=ME)
    kept = newest(eve).id.hex()
    branch.create(eve, "dev", source="main")
    push(eve, "dev", options=ME)
    for commit_id in (world.second, world.first):
        tag.create(eve, "v1", commit_id, force=True)
        push(eve, "v1", options=FORCED)
    restore(eve, kept, remote=True, committer="eve")
    assert tag.show(eve, "v1").commit_id == there(eve, "v1", RefKind.TAG) == world.first
    assert there(eve, "dev") is None


def test_of_what_others_have_built_on_the_newest_commit_is_to_be_reverted(world: World) -> None:
    ada, eve = world.ada, world.eve
    pull(eve, "main", PullOptions(committer="eve"))
    kept = newest(eve).id.hex()
    mine = [make_commit(eve, path).id for path in (b"1", b"2")]
    push(eve, "main", options=ME)
    pull(ada, "main", PullOptions(committer="ada"))
    theirs = make_commit(ada, b"theirs").id
    push(ada, "main", options=ME)
    fetch(eve)
    with pytest.raises(Refused, match="main has moved on") as told:
        restore(eve, kept, remote=True, committer="eve")
    assert str(told.value.hint).endswith(f" {mine[1]}`")
    assert both(eve) == (mine[1], theirs)


def test_unpushed_commits_below_go_to_the_bucket_too(world: World) -> None:
    """What was there is kept: the branch is the same on both sides."""
    eve = world.eve
    pull(eve, "main", PullOptions(committer="eve"))
    lower = make_commit(eve, b"lower").id
    make_commit(eve, b"upper")
    push(eve, "main", options=ME)
    undo(eve, remote=True, committer="eve")
    assert both(eve) == (lower, lower)


def test_what_this_clone_had_pushed_earlier_stays(world: World) -> None:
    eve = world.eve
    pull(eve, "main", PullOptions(committer="eve"))
    earlier = make_commit(eve, b"earlier").id
    push(eve, "main", options=ME)
    branch.reset(eve, "main", to=world.second)
    branch.create(eve, "dev", source=earlier)
    make_commit(eve, b"later", "dev")
    branch.reset(eve, "main", to="dev")
    push(eve, "main", options=ME)
    undo(eve, remote=True, committer="eve")
    assert both(eve) == (world.second, earlier)


@pytest.mark.parametrize("has_gap", [False, True])
def test_all_own_moves_go_back_and_none_before_an_unknown_one(
    world: World, monkeypatch: pytest.MonkeyPatch, *, has_gap: bool
) -> None:
    eve = world.eve
    fetch(eve)
    kept = newest(eve).id.hex()
    branch.create(eve, "dev", source=world.second)
    sent = [make_commit(eve, path, "dev").id for path in (b"1", b"2")]
    for commit_id in sent:
        branch.reset(eve, "main", to=commit_id)
        push(eve, "main", options=ME)
    with auto(eve) as (shared, _):
        top = make_commit(shared, b"3").id
    assert both(eve) == (top, top)

    def known(*arguments: Any) -> Iterator[RecordedMove]:
        return (each for each in iter_known_moves(*arguments) if each.after != sent[1])

    if has_gap:
        monkeypatch.setattr("lakecli.repository.undo.pushed_refs.iter_known_moves", known)
    restore(eve, kept, remote=True, committer="eve")
    assert both(eve) == (world.first, sent[1] if has_gap else world.second)


def test_what_was_shared_at_once_and_what_was_pushed_go_back_together(world: World) -> None:
    eve = world.eve
    pull(eve, "main", PullOptions(committer="eve"))
    kept = newest(eve).id.hex()
    with auto(eve) as (shared, _):
        make_commit(shared, b"shared")
    make_commit(eve, b"pushed")
    push(eve, "main", options=ME)
    restore(eve, kept, remote=True, committer="eve")
    assert both(eve) == (world.second, world.second)


def test_resets_below_a_merge_that_was_shared_at_once_stay_here(world: World) -> None:
    ada, eve = world.ada, world.eve
    branch.create(ada, "dev", source="main")
    third = make_commit(ada, b"third", "dev").id
    push(ada, "dev", options=ME)
    fetch(eve)
    kept = newest(eve).id.hex()
    for commit_id in (third, world.second):
        branch.reset(eve, "main", to=commit_id)
    with auto(eve) as (shared, _):
        merge(shared, "dev", "main", MergeOptions(committer="eve"))
    assert here(eve) == there(eve) != world.second
    with auto(eve) as (shared, _):
        restore(shared, kept, remote=True, committer="eve")
    let_pass(eve)
    assert both(eve) == (world.first, world.second)


def test_resets_that_a_push_did_not_send_stay_here(world: World) -> None:
    """Only the commit on top of them goes back."""
    eve = world.eve
    fetch(eve)
    branch.reset(eve, "main", to=world.second)
    branch.reset(eve, "main", to=world.first)
    kept = newest(eve).id.hex()
    branch.reset(eve, "main", to=world.second)
    make_commit(eve, b"third")
    push(eve, "main", options=ME)
    restore(eve, kept, remote=True, committer="eve")
    assert both(eve) == (world.first, world.second)


def test_a_push_over_a_commit_that_was_not_fetched_puts_it_back(world: World) -> None:
    eve = world.eve
    kept = newest(eve).id.hex()
    branch.reset(eve, "main", to="main~1")
    make_commit(eve, b"mine")
    lease = PushLease(world.second)  # which Eve has not fetched
    push(eve, "main", options=PushOptions(who="Eve <e@example.com>", lease=lease))
    restore(eve, kept, remote=True, committer="eve")
    assert both(eve) == (world.first, world.second)


def test_a_reset_as_others_made_it_stays_here(world: World) -> None:
    """This clone had once pushed the same one, before others took that back."""
    ada, eve = world.ada, world.eve
    pull(eve, "main", PullOptions(committer="eve"))
    branch.reset(eve, "main", to=world.first)
    push(eve, "main", options=FORCED)
    fetch(ada)
    push(ada, "main", options=ME)
    pull(eve, "main", PullOptions(committer="eve"))
    branch.reset(ada, "main", to=world.first)
    push(ada, "main", options=FORCED)
    fetch(eve)
    assert both(eve) == (world.second, world.first)
    branch.reset(eve, "main", to=world.first)
    undo(eve, remote=True, committer="eve")
    assert both(eve) == (world.second, world.first)


def test_a_reset_to_what_others_had_pushed_takes_none_of_it_back(world: World) -> None:
    """The reset has the two ends of their push, and stayed here."""
    ada, eve = world.ada, world.eve
    pull(eve, "main", PullOptions(committer="eve"))
    kept = newest(eve).id.hex()
    make_commit(eve, b"mine")
    push(eve, "main", options=ME)
    pull(ada, "main", PullOptions(committer="ada"))
    theirs = make_commit(ada, b"theirs").id
    push(ada, "main", options=ME)
    fetch(eve)
    branch.reset(eve, "main", to=theirs)
    make_commit(eve, b"on top")
    push(eve, "main", options=ME)
    restore(eve, kept, remote=True, committer="eve")
    assert both(eve) == (world.second, theirs)


@pytest.mark.parametrize("kind", [RefKind.BRANCH, RefKind.TAG])
def test_a_move_here_as_others_made_it_there_keeps_what_is_below(
    world: World, kind: RefKind
) -> None:
    """What this clone had pushed below is theirs to build on, as after a pull."""
    ada, eve = world.ada, world.eve
    pull(eve, "main", PullOptions(committer="eve"))
    kept = newest(eve).id.hex()
    mine = make_commit(eve, b"mine").id
    tag.create(eve, "v1", mine)
    for name in ("main", "v1"):
        push(eve, name, options=ME)
    pull(ada, "main", PullOptions(committer="ada"))
    theirs = make_commit(ada, b"theirs").id
    fetch(ada)
    tag.create(ada, "v1", theirs, force=True)
    name = "main" if kind is RefKind.BRANCH else "v1"
    push(ada, name, options=FORCED)
    fetch(eve)
    if kind is RefKind.BRANCH:
        branch.reset(eve, "main", to=theirs)
    else:
        tag.create(eve, "v1", theirs, force=True)
    with pytest.raises(Refused, match=f"{name} has moved on in the bucket since"):
        restore(eve, kept, remote=True, committer="eve")
    assert there(eve, name, kind) == theirs
    assert here(eve) == (theirs if kind is RefKind.BRANCH else mine)


@pytest.mark.parametrize("is_again", [False, True])
def test_what_others_put_back_stays(world: World, *, is_again: bool) -> None:
    """Between two moves of this clone, others had moved the branch away and back again."""
    ada, eve = world.ada, world.eve
    pull(eve, "main", PullOptions(committer="eve"))
    kept = newest(eve).id.hex()
    lower = make_commit(eve, b"lower").id
    push(eve, "main", options=ME)
    pull(ada, "main", PullOptions(committer="ada"))
    away = world.second if is_again else world.first
    for commit_id in (away, lower):
        branch.reset(ada, "main", to=commit_id)
        push(ada, "main", options=FORCED)
    fetch(eve)
    make_commit(eve, b"upper")
    push(eve, "main", options=ME)
    restore(eve, kept, remote=True, committer="eve")
    assert both(eve) == (world.second, lower)


def test_a_commit_that_others_put_back_is_undone_there_all_the_same(world: World) -> None:
    """They brought it from elsewhere, and it still is the commit of this clone."""
    ada, eve = world.ada, world.eve
    pull(eve, "main", PullOptions(committer="eve"))
    mine = make_commit(eve, b"mine").id
    push(eve, "main", options=ME)
    pull(ada, "main", PullOptions(committer="ada"))
    for commit_id in (world.first, mine):
        branch.reset(ada, "main", to=commit_id)
        push(ada, "main", options=FORCED)
    fetch(eve)
    undo(eve, remote=True, committer="eve")
    assert both(eve) == (world.second, world.second)


# -- whose move it is -------------------------------------------------------------------------


def test_a_tag_that_others_made_again_stays(world: World) -> None:
    """This clone had pushed the same tag before, and deleted it."""
    ada, eve = world.ada, world.eve
    tag.create(eve, "v1", world.first)
    push(eve, "v1", options=ME)
    push_deletion(eve, "v1", options=ME)
    tag.delete(eve, "v1")
    tag.create(ada, "v1", world.first)
    push(ada, "v1", options=ME)
    fetch(eve)
    tag.delete(eve, "v1")  # which the fetch has made
    tag.create(eve, "v1", world.first)
    undo(eve, remote=True, committer="eve")
    assert there(eve, "v1", RefKind.TAG) == world.first


@pytest.mark.parametrize("how", ["pushed", "shared at once", "pushed later"])
def test_a_branch_that_others_made_again_stays(world: World, how: str) -> None:
    """It stood on the same commit when this clone made it; undone are only commits made here."""
    ada, eve = world.ada, world.eve
    kept = newest(eve).id.hex()
    branch.create(eve, "dev", source="main")
    if how == "shared at once":
        with auto(eve) as (shared, _):
            make_commit(shared, b"mine", "dev")
    else:
        push(eve, "dev", options=ME)
    if how == "pushed later":
        make_commit(eve, b"mine", "dev")
        push(eve, "dev", options=ME)
    mine = here(eve, "dev")
    assert there(eve, "dev") == mine
    fetch(ada)
    push_deletion(ada, "dev", options=ME)
    branch.create(ada, "dev", source=mine)
    push(ada, "dev", options=ME)
    fetch(eve)
    restore(eve, kept, remote=True, committer="eve")
    assert "dev" not in {each.name for each in branch.iter_branches(eve)}
    assert there(eve, "dev") == world.first


def test_a_tag_that_was_elsewhere_in_the_bucket_stays_deleted_there(world: World) -> None:
    """A tag has no commits on top, so its deletion there was another move."""
    eve = world.eve
    pull(eve, "main", PullOptions(committer="eve"))
    tag.create(eve, "v1", world.first)
    push(eve, "v1", options=ME)
    tag.create(eve, "v1", world.second, force=True)
    tag.delete(eve, "v1")
    push_deletion(eve, "v1", options=ME)
    undo(eve, remote=True, committer="eve")
    assert tag.show(eve, "v1").commit_id == world.second
    assert there(eve, "v1", RefKind.TAG) is None


def test_a_branch_that_others_made_stays_without_the_commits_on_it(world: World) -> None:
    ada, eve = world.ada, world.eve
    kept = newest(eve).id.hex()
    branch.create(ada, "dev", source="main")
    push(ada, "dev", options=ME)
    fetch(eve)
    branch.create(eve, "dev", source=world.second)
    with auto(eve) as (shared, _):
        mine = make_commit(shared, b"mine", "dev").id
    assert there(eve, "dev") == mine
    with auto(eve) as (shared, _):
        restore(shared, kept, remote=True, committer="eve")
    assert there(eve, "dev") == world.second


# -- in the bucket ----------------------------------------------------------------------------


class KilledError(BaseException):
    """The process was killed."""


def at_step(repository: Repository, step: str, act: object) -> None:
    """Act once at a step; an exception is raised."""
    runtime = repository.lake.runtime

    def on_step(name: str) -> None:
        if name == step:
            repository.lake.runtime = runtime
            if isinstance(act, BaseException):
                raise act
            assert callable(act)
            act()

    repository.lake.runtime = runtime._replace(on_step=on_step)


@pytest.mark.parametrize("is_auto", [False, True])
def test_a_completed_undo_says_what_it_undid(world: World, *, is_auto: bool) -> None:
    eve = world.eve
    pull(eve, "main", PullOptions(committer="eve"))
    make_commit(eve, b"mine")
    push(eve, "main", options=ME)
    made = next(each.operation for each in iter_log(eve) if each.operation.kind == "commit")
    at_step(eve, "undo there", KilledError())
    with pytest.raises(KilledError):
        undo(eve, remote=True, committer="eve")
    sharing = synced(eve, "eve")
    if is_auto:
        sharing.catch_up()
    done = undo(sharing.repository if is_auto else eve, remote=True, committer="eve")
    assert done.is_completed
    assert done.operation == made
    assert [(each.name, each.before) for each in done.remote] == [("main", world.second)]
    assert done.appended.kind == "undo"
    assert both(eve) == (world.second, world.second)


def test_an_answer_is_not_kept_once_something_else_was_done(world: World) -> None:
    eve = world.eve
    branch.create(eve, "dev", source="main")
    at_step(eve, "undo done", KilledError())
    with pytest.raises(KilledError):
        undo(eve)
    assert may_be_left(eve)
    tag.create(eve, "v1", "main")
    done = undo(eve)
    assert (done.operation.kind, done.is_completed) == ("tag create", False)
    assert not may_be_left(eve)


def test_an_answer_is_left_to_the_command_that_owes_it(world: World) -> None:
    eve = world.eve
    branch.create(eve, "dev", source="main")
    at_step(eve, "undo done", KilledError())
    with pytest.raises(KilledError):
        undo(eve)
    assert complete(eve, "redo", remote=False) is None
    assert complete(eve, "op restore", remote=False) is None
    assert undo(eve).is_completed
    assert not may_be_left(eve)


def kill_an_undo_of_a_push(repository: Repository) -> None:
    """Push a commit, and undo that until the bucket is to be changed."""
    pull(repository, "main", PullOptions(committer="eve"))
    make_commit(repository, b"mine")
    push(repository, "main", options=ME)
    at_step(repository, "undo there", KilledError())
    with pytest.raises(KilledError):
        undo(repository, remote=True, committer="eve")


def test_a_refused_undo_leaves_the_answer_to_its_repetition(world: World) -> None:
    """Even while its error is still known."""
    eve = world.eve
    kill_an_undo_of_a_push(eve)
    with pytest.raises(Refused, match="was interrupted") as told:
        undo(eve)
    assert undo(eve, remote=True, committer="eve").is_completed
    assert not may_be_left(eve)
    assert told.value.hint == "complete it there: `remote=True`"


def test_an_undo_does_not_have_to_send_what_an_earlier_one_left(world: World) -> None:
    eve = world.eve
    kill_an_undo_of_a_push(eve)
    branch.create(eve, "dev", source="main")
    at_step(eve, "undo done", KilledError())
    with pytest.raises(KilledError):
        undo(eve)
    done = undo(eve)
    assert (done.operation.kind, done.is_completed) == ("branch create", True)


@pytest.mark.parametrize("is_auto", [False, True])
def test_an_undo_does_not_answer_for_one_that_still_runs(world: World, *, is_auto: bool) -> None:
    """With automatic sharing, it has nothing to wait for: it undoes the next operation."""
    eve = world.eve
    pull(eve, "main", PullOptions(committer="eve"))
    lower, upper = (make_commit(eve, path).id for path in (b"lower", b"upper"))
    push(eve, "main", options=ME)

    def act() -> None:
        if is_auto:
            with auto(eve) as (shared, _):
                assert not undo(shared, remote=True, committer="eve").is_completed
            return
        for remote in (False, True):
            with pytest.raises(LostRace, match="another undo is yet to move main in the bucket"):
                undo(eve, remote=remote, committer="eve")
        with pytest.raises(LostRace, match="another undo"):
            undo(eve, remote=True, committer="eve")
        assert both(eve) == (lower, upper)

    at_step(eve, "undo there", act)
    assert not undo(eve, remote=True, committer="eve").is_completed
    assert not may_be_left(eve)
    assert here(eve) == lower


@pytest.mark.parametrize("moved", ["dev", "main"])
def test_every_ref_of_a_killed_command_has_to_hold(world: World, moved: str) -> None:
    """Else the next command does not answer for it: there is something else to do."""
    eve = world.eve
    for name in ("dev", "other"):
        branch.create(eve, name, source="main")
    kept = newest(eve).id.hex()
    made = {name: make_commit(eve, name.encode(), name) for name in ("dev", "main", "other")}
    restore(eve, kept)
    restored = newest(eve)
    same = restored.refs[0]._replace(before=restored.refs[0].after)  # as of a staging token
    restored = restored._replace(refs=(same, *restored.refs))
    on_top = make_commit(eve, b"on top", moved).id
    for to, holds in (
        (on_top, True),
        (world.first, True),
        (f"{world.first}~1", False),
        (made[moved].id, False),  # which was taken back
    ):
        branch.reset(eve, moved, to=to)
        with eve.lake.kv.read() as txn:
            assert _holds(eve.refs(txn), restored) == holds
    branch.reset(eve, moved, to=on_top)
    branch.delete(eve, "other")
    with eve.lake.kv.read() as txn:
        assert not _holds(eve.refs(txn), restored)


def test_a_tag_that_was_moved_on_does_not_hold(world: World) -> None:
    eve = world.eve
    fetch(eve)
    tag.create(eve, "v1", world.first)
    made = newest(eve)
    for commit_id in (world.first, world.second):
        tag.create(eve, "v1", commit_id, force=True)
        with eve.lake.kv.read() as txn:
            assert _holds(eve.refs(txn), made) == (commit_id == world.first)


def test_a_completed_redo_says_what_it_redid(world: World) -> None:
    eve = world.eve
    pull(eve, "main", PullOptions(committer="eve"))
    mine = make_commit(eve, b"mine").id
    push(eve, "main", options=ME)
    made = next(each.operation for each in iter_log(eve) if each.operation.kind == "commit")
    with auto(eve) as (shared, _):
        undo(shared, remote=True, committer="eve")
    redo(synced(eve, "killed").repository)
    with auto(eve) as (shared, _):
        done = redo(shared)
    assert done.is_completed
    assert (done.operation, done.remote) == (made, ())
    assert both(eve) == (mine, mine)


def test_an_undo_that_another_command_saw_refused_is_refused(world: World) -> None:
    """The other command has deleted the note, and the branch here has followed the bucket."""
    ada, eve = world.ada, world.eve
    pull(eve, "main", PullOptions(committer="eve"))
    make_commit(eve, b"mine")
    push(eve, "main", options=ME)
    pull(ada, "main", PullOptions(committer="ada"))
    theirs = make_commit(ada, b"theirs").id

    def act() -> None:
        push(ada, "main", options=ME)
        with auto(eve) as (_, resumed):
            assert len(resumed.unsent) == 1

    sharing = synced(eve, "eve")
    sharing.catch_up()
    at_step(eve, "undo there", act)
    with pytest.raises(LostRace, match="main was moved here, not in the bucket") as told:
        undo(sharing.repository, remote=True, committer="eve")
    assert theirs[:12] in told.value.message
    let_pass(eve)
    assert both(eve) == (theirs, theirs)


def test_an_operation_is_reversed_by_what_was_done_after_it(world: World) -> None:
    eve = world.eve
    for path in (b"1", b"2"):
        make_commit(eve, path)

    def is_reversed(operation: Operation) -> bool:
        with eve.lake.kv.read() as txn:
            return _is_reversed(txn, eve, operation)

    earlier = undo(eve).appended
    redo(eve)
    outer = undo(eve).appended
    undo(eve)
    inner = undo(eve).appended
    assert is_reversed(earlier)
    assert not is_reversed(outer)  # a redo before it is none of it
    assert not is_reversed(inner)
    redo(eve)
    assert is_reversed(inner)
    assert not is_reversed(outer)
    redo(eve)
    redo(eve)
    assert is_reversed(outer)
    restore(eve, earlier.id.hex())
    restored = newest(eve)
    stage(eve, "main", {b"more": b"1"})
    assert not is_reversed(restored)
    undo(eve)
    undo(eve)
    assert is_reversed(restored)


# -- what stays behind the bucket -------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "before", "here", "is_left"),
    [
        ("second", "second", "first", True),
        ("second", "third", "first", True),  # with a commit that was not pushed
        ("third", "second", "first", True),  # others have moved on
        ("second", "fork", "first", False),  # the bucket has nothing of what was undone
        ("second", "third", "fork", False),
        ("second", "third", "second", False),
        ("second", "third", "third", False),
        ("third", "second", "second", False),
        (None, "second", "first", False),
        ("second", None, "first", False),
        ("second", "second", None, False),
    ],
)
def test_a_branch_is_left_behind_by_what_the_bucket_has_of_it(
    world: World, there: str | None, before: str | None, here: str | None, *, is_left: bool
) -> None:
    ada = world.ada
    commits: dict[str | None, str] = {"first": world.first, "second": world.second}
    commits["third"] = make_commit(ada, b"third").id
    branch.create(ada, "fork", source=world.first)
    commits["fork"] = make_commit(ada, b"fork", "fork").id
    name = "main" if there else "unknown"
    if there == "third":
        push(ada, "main", options=ME)

    def change(kind: RefKind) -> RefChange:
        fields = [None if each is None else {"commit_id": commits[each]} for each in (before, here)]
        return RefChange(kind, name, before=fields[0], after=fields[1])

    with ada.lake.kv.read() as txn:
        assert _is_left_behind(txn, ada, change(RefKind.BRANCH)) == is_left
        assert not _is_left_behind(txn, ada, change(RefKind.TAG))


def test_a_branch_is_left_behind_by_what_is_to_be_sent(world: World) -> None:
    ada = world.ada
    third = make_commit(ada, b"third").id
    push(ada, "main", options=ME)
    change = RefChange(
        RefKind.BRANCH, "main", before={"commit_id": third}, after={"commit_id": world.first}
    )
    for after, is_left in ((world.second, True), (world.first, False)):
        with ada.lake.kv.write() as txn:
            note = UnsentMove(RefKind.BRANCH, "main", "undo", third, after, ())
            unsent_moves.put(txn, ada, note)
            assert _is_left_behind(txn, ada, change) == is_left
            assert TrackingStore(txn, ada.key).position(RefKind.BRANCH, "main") == third


# -- messages ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "before", "after", "hint"),
    [
        (RefKind.BRANCH, "1", "2", "`branch revert lakefs://demo/main 2`"),
        (RefKind.BRANCH, None, "2", "`fetch lakefs://demo`"),
        (RefKind.BRANCH, "1", None, "`fetch lakefs://demo`"),
        (RefKind.TAG, "1", "2", "`fetch lakefs://demo`"),
    ],
)
def test_what_has_moved_on_is_looked_at_first_or_reverted(
    world: World, kind: RefKind, before: CommitId | None, after: CommitId | None, hint: str
) -> None:
    error = moved_on(world.ada, PushedRef(kind, "main", before, after, after, 1))
    assert isinstance(error, Refused)
    assert error.hint is not None
    assert error.hint.endswith(f": {hint}")


def test_ten_operations_that_begin_alike_are_listed(world: World) -> None:
    ada = world.ada
    while True:
        ids = [each.operation.id.hex() for each in iter_log(ada)]
        first = max("0123456789abcdef", key=lambda digit: sum(id_[0] == digit for id_ in ids))
        alike = sorted(each for each in ids if each.startswith(first))
        if len(alike) > 11:
            break
        tag.create(ada, f"v{len(ids)}", "main")
    with pytest.raises(NotFound, match="several operations begin with") as told:
        find_operation(ada, first)
    assert told.value.hint is not None
    assert told.value.hint.splitlines()[1:] == [f"  {each}" for each in alike[:10]]
    shared = (
        one[:end] for one, other in pairwise(alike) for end in range(32) if other[:end] == one[:end]
    )
    most_alike = max(shared, key=len)
    with pytest.raises(NotFound, match="several operations begin with"):
        find_operation(ada, most_alike)
    (only,) = [each for each in alike if each.startswith(alike[0][:8])]
    assert find_operation(ada, only[:8]).operation.id.hex() == only

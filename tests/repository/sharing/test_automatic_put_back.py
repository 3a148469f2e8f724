"""Refs that move here first, where somebody else moves them in the bucket meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.model import RefKind
from lakecli.errors import LakeError, LostRace
from lakecli.repository import branch, tag
from lakecli.repository.log import rev_parse
from lakecli.repository.pull import PullOptions, pull
from lakecli.repository.push import PushLease, PushOptions, push, push_reset
from lakecli.repository.reading.view import open_view
from lakecli.repository.undo.log import redo_target
from lakecli.repository.undo.undo import undo
from tests.support.clones import Clones, auto, here, make_commit, synced, there
from tests.support.lakes import stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakecli.base.model import Branch, CommitId
    from lakecli.repository.contract import Repository

ME = PushOptions(who="me")
FORCED = PushOptions(who="me", lease=PushLease())


@pytest.fixture
def clones(tmp_path: Path) -> Iterator[tuple[Repository, ...]]:
    """Two clones, on whose main branch are two commits and a tag that the bucket has."""
    with Clones.make(tmp_path, "ada", "bob") as made:
        ada, bob = made.repositories
        for path in (b"one", b"two"):
            make_commit(ada, path)
        tag.create(ada, "v1", "main~1")
        push(ada, "main", options=ME)
        push(ada, "v1", options=ME)
        pull(bob, "main", PullOptions(committer="bob"))
        yield made.repositories


def refuse(
    ada: Repository, act: Callable[[Repository], object], meanwhile: Callable[[], object]
) -> LakeError:
    """Run a command with automatic sync that somebody overtakes; return its error."""
    sharing = synced(ada, "ada")
    sharing.catch_up()
    act(sharing.repository)
    meanwhile()
    with pytest.raises(LakeError) as told:
        sharing.finish()
    return told.value


def test_a_reset_that_the_bucket_refuses_is_undone_here(clones: tuple[Repository, ...]) -> None:
    ada, bob = clones
    first = here(ada)
    behind = make_commit(ada, b"ahead").id
    branch.reset(ada, "main", to=first)  # without automatic sync, as all that ada has done so far
    stage(ada, "main", {b"mine": b"staged"})
    theirs: list[CommitId] = []

    def overtake() -> None:
        theirs.append(make_commit(bob, b"theirs").id)
        push(bob, "main", options=ME)

    told = refuse(ada, lambda shared: branch.reset(shared, "main", to=behind), overtake)
    assert isinstance(told, LostRace)
    assert told.message.endswith("this is undone here: branch reset")
    assert here(ada) == first
    with open_view(ada, "main") as view:
        assert [path for path, _ in view.staged()] == [b"mine"]
    with auto(ada) as (_, caught_up):
        assert caught_up.unsent == ()
    assert here(ada) == there(ada) == theirs[0]  # it follows, and is not held


def test_a_branch_that_somebody_made_meanwhile_is_theirs(clones: tuple[Repository, ...]) -> None:
    ada, bob = clones

    def overtake() -> None:
        branch.create(bob, "new", source="main")
        make_commit(bob, b"theirs", "new")
        push(bob, "new", options=ME)

    make_commit(ada, b"mine")
    told = refuse(ada, lambda shared: branch.create(shared, "new", source="main"), overtake)
    assert told.message.endswith("this is undone here: branch create")
    assert told.hint == "see what others have there, then decide: `log lakefs://demo/new`"
    with auto(ada):  # as the command of the hint has it
        pass
    assert here(ada, "new") == there(ada, "new") == here(bob, "new")


def test_a_tag_that_somebody_moved_meanwhile_is_where_they_moved_it(
    clones: tuple[Repository, ...],
) -> None:
    ada, bob = clones
    first = tag.show(ada, "v1").commit_id

    def overtake() -> None:
        tag.create(bob, "v1", make_commit(bob, b"theirs").id, force=True)
        push(bob, "v1", kind=RefKind.TAG, options=FORCED)

    told = refuse(ada, lambda shared: tag.create(shared, "v1", "main", force=True), overtake)
    assert told.message.endswith("this is undone here: tag create")
    assert "`log lakefs://demo/v1" in (told.hint or "")
    assert tag.show(ada, "v1").commit_id == first
    with auto(ada):
        pass
    assert tag.show(ada, "v1").commit_id == there(ada, "v1", RefKind.TAG)


def test_what_came_after_a_refused_move_keeps_it_here(clones: tuple[Repository, ...]) -> None:
    """Only the move itself can be undone; commits on top of it are somebody's work."""
    ada, bob = clones
    branch.create(synced(ada, "killed").repository, "new", source="main")
    mine = make_commit(ada, b"mine", "new").id
    branch.create(bob, "new", source="main")
    make_commit(bob, b"theirs", "new")
    push(bob, "new", options=ME)
    with auto(ada) as (_, caught_up):
        (told,) = caught_up.unsent
    assert "branch new was moved here, not in the bucket" in told.message
    assert "undone" not in told.message
    assert told.hint is not None
    assert "pull" in told.hint
    assert here(ada, "new") == mine


@pytest.mark.parametrize("to", ["main", "main~1"])
def test_a_reset_with_a_lease_that_somebody_overtakes_drops_nothing(
    clones: tuple[Repository, ...], to: str
) -> None:
    ada, bob = clones
    stage(ada, "main", {b"mine": b"staged"})
    before, target = here(ada), rev_parse(ada, to).commit.id
    runtime = ada.lake.runtime

    def on_step(name: str) -> None:
        if name == "reset":  # after the bucket was asked
            make_commit(bob, b"theirs")
            push(bob, "main", options=ME)

    ada.lake.runtime = runtime._replace(on_step=on_step)
    with pytest.raises(LostRace) as told:
        push_reset(ada, branch.show(ada, "main"), target, FORCED)
    assert told.value.message.endswith("this is undone here: branch reset")
    assert (here(ada), there(ada)) == (before, here(bob))
    with open_view(ada, "main") as view:
        assert [path for path, _ in view.staged()] == [b"mine"]


def test_a_reset_with_a_lease_sends_no_commit_that_came_after_it(
    clones: tuple[Repository, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, _ = clones
    target = rev_parse(ada, "main~1").commit.id

    def reset_before_a_commit(*args: Any, **options: Any) -> Branch:
        moved = branch.reset(*args, **options)
        make_commit(ada, b"on top")
        return moved

    monkeypatch.setattr("lakecli.repository.push.reset", reset_before_a_commit)
    _, pushed = push_reset(ada, branch.show(ada, "main"), target, FORCED)
    assert pushed.after == there(ada) == target
    assert rev_parse(ada, "main~1").commit.id == target


def test_a_reset_with_a_lease_that_was_undone_meanwhile_sends_nothing(
    clones: tuple[Repository, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, _ = clones
    before, target = here(ada), rev_parse(ada, "main~1").commit.id

    def reset_and_undo(*args: Any, **options: Any) -> Branch:
        moved = branch.reset(*args, **options)
        undo(ada)
        return moved

    monkeypatch.setattr("lakecli.repository.push.reset", reset_and_undo)
    with pytest.raises(LostRace, match="was put back meanwhile"):
        push_reset(ada, branch.show(ada, "main"), target, FORCED)
    assert here(ada) == there(ada) == before


def test_a_tag_moved_onto_its_own_commit_is_no_operation(clones: tuple[Repository, ...]) -> None:
    ada, _ = clones
    branch.create(ada, "new", source="main")
    undo(ada)
    for again in (
        lambda: tag.create(ada, "v1", "v1", force=True),
        lambda: branch.reset(ada, "main"),
    ):
        again()
        target = redo_target(ada)
        assert target is not None
        assert target.kind == "branch create"

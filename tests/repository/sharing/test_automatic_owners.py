"""Automatic sync moves and deletes in the bucket only what this clone's user moved."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.model import RefKind
from lakecli.errors import LostRace, NotFound, PermissionDenied, Refused
from lakecli.kv.bucket import IntentStore, UnsentMove
from lakecli.remote.refs import find_ref
from lakecli.repository import branch, tag
from lakecli.repository.clone import clone
from lakecli.repository.commit import commit
from lakecli.repository.handle.lake import LocalRepository
from lakecli.repository.journal import unsent_moves
from lakecli.repository.pull import PullOptions, pull
from lakecli.repository.push import PushOptions, push, push_deletion
from lakecli.repository.sharing import automatic
from lakecli.repository.sharing.fetch import fetch
from lakecli.repository.sharing.publish import NonFastForward, StaleLease
from lakecli.repository.undo.log import iter_log, logged_repository
from lakecli.repository.undo.undo import redo, restore, undo
from tests.support.clones import Clones, auto, here, machine, make_commit, position, synced, there
from tests.support.lakes import checksums, read, stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.base.model import CommitId
    from lakecli.kv.operations import Operation
    from lakecli.repository.contract import Repository
    from lakecli.repository.undo.undo import Undone

ME = PushOptions(who="Me <me@example.com>")
PULL = PullOptions(committer="me")


@pytest.fixture
def clones(tmp_path: Path) -> Iterator[tuple[Repository, ...]]:
    with Clones.make(tmp_path, "ada", "bob", "eve") as made:
        ada, *others = made.repositories
        make_commit(ada, b"first")
        branch.create(ada, "dev", source="main")
        tag.create(ada, "v1", "main")
        for name in ("main", "dev", "v1"):
            push(ada, name, options=ME)
        for other in others:
            for name in ("main", "dev"):
                pull(other, name, PULL)
        yield made.repositories


@contextmanager
def killed(repository: Repository) -> Iterator[Repository]:
    """Run the block as a command under ``sync = auto`` that is killed before it pushes."""
    yield synced(repository, "somebody").repository


def auto_undo(repository: Repository) -> Undone:
    with auto(repository) as (shared, _):
        return undo(shared, remote=True, committer="me")


def everything(repository: Repository) -> list[CommitId | None]:
    return [there(repository), there(repository, "dev"), there(repository, "v1", RefKind.TAG)]


def newest(repository: Repository) -> Operation:
    return next(iter(iter_log(repository))).operation


def rows(repository: Repository) -> list[object]:
    with repository.lake.kv.read() as txn:
        return list(IntentStore(txn, repository.key).iter())


class TestFromTheBucket:
    def test_undoing_a_clone_leaves_the_bucket_alone(
        self, clones: tuple[Repository, ...], tmp_path: Path
    ) -> None:
        before = everything(clones[0])
        assert None not in before
        with machine(tmp_path, "late") as lake:
            clone(lake, str(tmp_path / "namespace"), "demo")
            made = logged_repository(lake, "demo", wanted="undo")
            assert auto_undo(made).operation.kind == "clone"
            assert list(lake.repositories()) == []
            assert everything(clones[0]) == before
            again = logged_repository(lake, "demo", wanted="redo")
            redo(again)
            with auto(again) as (synced_again, _):
                assert here(synced_again, "dev") == before[1]
            assert everything(clones[0]) == before

    def test_a_redone_clone_is_not_pushed(
        self, clones: tuple[Repository, ...], tmp_path: Path
    ) -> None:
        ada = clones[0]
        with machine(tmp_path, "late") as lake:
            clone(lake, str(tmp_path / "namespace"), "demo")
            auto_undo(logged_repository(lake, "demo", wanted="undo"))
            push_deletion(ada, "dev", options=ME)
            again = logged_repository(lake, "demo", wanted="redo")
            with killed(again) as synced_again:
                redo(synced_again)
            assert not [each for each in rows(again) if "unsent" in str(each)]
            with auto(again) as (_, resumed):
                assert resumed.unsent == ()
            assert there(ada, "dev") is None

    def test_undoing_a_repo_create_leaves_the_default_branch(
        self, clones: tuple[Repository, ...]
    ) -> None:
        ada = clones[0]
        fresh = Clones.make(
            Path(ada.lake.home.store).parent, "x", namespace=str(ada.store.uri) + "-x"
        )
        with fresh as made:
            (alone,) = made.repositories
            push(alone, "main", options=ME)
            before = there(alone)
            assert before is not None
            assert auto_undo(alone).operation.kind == "repo create"
            assert there(alone) == before

    def test_undoing_a_pull_stays_here_until_the_bucket_moves_again(
        self, clones: tuple[Repository, ...]
    ) -> None:
        ada, bob, _ = clones
        first = here(bob)
        second = make_commit(ada, b"second").id
        push(ada, "main", options=ME)
        pull(bob, "main", PULL)
        assert auto_undo(bob).operation.kind == "pull"
        assert (here(bob), there(bob)) == (first, second)
        with auto(bob) as (synced_bob, _):
            assert here(synced_bob) == first  # an undone operation does not come back
        with auto(bob) as (synced_bob, _):
            assert redo(synced_bob).operation.kind == "pull"
        assert (here(bob), there(bob)) == (second, second)
        auto_undo(bob)
        with auto(bob) as (synced_bob, _):
            assert here(synced_bob) == first
        third = make_commit(ada, b"third").id
        push(ada, "main", options=ME)
        with auto(bob) as (synced_bob, _):
            assert here(synced_bob) == third
        assert rows(bob) == []

    def test_a_pull_lets_a_held_back_ref_follow_again(self, clones: tuple[Repository, ...]) -> None:
        ada, bob, _ = clones
        make_commit(ada, b"second")
        push(ada, "main", options=ME)
        pull(bob, "main", PULL)
        auto_undo(bob)
        pull(bob, "main", PULL)
        assert rows(bob) == []
        assert here(bob) == here(ada)

    def test_undoing_a_fetched_or_pulled_tag_leaves_the_bucket(
        self, clones: tuple[Repository, ...]
    ) -> None:
        ada, bob, _ = clones
        tag.create(ada, "v2", "main")
        push(ada, "v2", options=ME)
        for take in (lambda: fetch(bob), lambda: pull(bob, "v2", PULL)):
            take()
            assert auto_undo(bob).operation.kind in ("fetch", "pull")
            with pytest.raises(NotFound):
                tag.show(bob, "v2")
            with auto(bob) as (synced_bob, _), pytest.raises(NotFound):
                tag.show(synced_bob, "v2")
            assert there(bob, "v2", RefKind.TAG) is not None

    def test_restoring_past_a_sync_leaves_the_bucket(self, clones: tuple[Repository, ...]) -> None:
        ada, bob, _ = clones
        before = newest(bob)
        first = here(bob)
        second = make_commit(ada, b"second").id
        push(ada, "main", options=ME)
        push_deletion(ada, "dev", options=ME)
        with auto(bob) as (synced_bob, _):
            assert here(synced_bob) == second
        with auto(bob) as (synced_bob, _):
            restore(synced_bob, before.id.hex(), remote=True, committer="me")
        assert (here(bob), there(bob)) == (first, second)
        assert here(bob, "dev") == first
        assert there(bob, "dev") is None
        with auto(bob) as (synced_bob, _):
            assert (here(synced_bob), there(synced_bob)) == (first, second)
            assert here(synced_bob, "dev") == first

    def test_restoring_past_a_sync_takes_back_only_the_own_commit(
        self, clones: tuple[Repository, ...]
    ) -> None:
        ada, bob, _ = clones
        kept = newest(bob)
        first = here(bob)
        second = make_commit(ada, b"second").id
        push(ada, "main", options=ME)
        with auto(bob) as (synced_bob, _):
            make_commit(synced_bob, b"mine")
        assert there(bob) == here(bob)
        with auto(bob) as (synced_bob, _):
            restore(synced_bob, kept.id.hex(), remote=True, committer="me")
        assert (here(bob), there(bob)) == (first, second)

    def test_restoring_past_a_sync_onto_an_own_commit_is_refused(
        self, clones: tuple[Repository, ...]
    ) -> None:
        ada, bob, _ = clones
        kept = newest(bob)
        with auto(bob) as (synced_bob, _):
            make_commit(synced_bob, b"mine")
        pull(ada, "main", PULL)
        theirs = make_commit(ada, b"theirs").id
        push(ada, "main", options=ME)
        with auto(bob) as (synced_bob, _):
            assert here(synced_bob) == theirs
            with pytest.raises(Refused, match="has moved on in the bucket since"):
                restore(synced_bob, kept.id.hex(), remote=True, committer="me")
        assert (here(bob), there(bob)) == (theirs, theirs)


class TestOwn:
    def test_undoing_an_unpushed_commit_after_another_push_stays_local(
        self, clones: tuple[Repository, ...]
    ) -> None:
        ada, bob, _ = clones
        make_commit(bob, b"mine")  # without automatic sync
        theirs = make_commit(ada, b"theirs").id
        push(ada, "main", options=ME)
        assert auto_undo(bob).operation.kind == "commit"
        assert there(bob) == theirs
        with auto(bob) as (synced_bob, _):
            assert here(synced_bob) == theirs  # no local commit is left on it

    def test_deleting_a_diverged_branch_leaves_the_bucket(
        self, clones: tuple[Repository, ...]
    ) -> None:
        ada, bob, _ = clones
        mine = make_commit(bob, b"mine", "dev").id
        theirs = make_commit(ada, b"theirs", "dev").id
        push(ada, "dev", options=ME)
        with pytest.raises(LostRace, match="nothing was changed"), auto(bob) as (synced_bob, _):
            branch.delete(synced_bob, "dev")
        assert there(bob, "dev") == theirs
        with auto(bob) as (synced_bob, resumed):
            assert resumed.unsent == ()
            assert here(synced_bob, "dev") == mine

    def test_deleting_a_shared_branch_deletes_it_in_the_bucket(
        self, clones: tuple[Repository, ...]
    ) -> None:
        _, bob, _ = clones
        with auto(bob) as (synced_bob, _):
            branch.delete(synced_bob, "dev")
        assert there(bob, "dev") is None
        auto_undo(bob)
        assert there(bob, "dev") == here(bob, "dev")
        with auto(bob) as (synced_bob, _):
            redo(synced_bob)
        assert there(bob, "dev") is None

    def test_a_renamed_branch_always_has_a_name_in_the_bucket(
        self, clones: tuple[Repository, ...]
    ) -> None:
        bob = clones[1]
        head = here(bob, "dev")
        for old, new in (("dev", "trial"), ("trial", "dev"), ("dev", "a"), ("a", "z")):
            names: list[tuple[bool, bool]] = []

            def on_step(_name: str, old: str = old, new: str = new) -> None:
                names.append((there(bob, old) == head, there(bob, new) == head))  # noqa: B023

            with auto(bob) as (synced_bob, _):
                branch.rename(synced_bob, old, new)
                calm = bob.lake.runtime
                bob.lake.runtime = synced_bob.lake.runtime = calm._replace(on_step=on_step)
            bob.lake.runtime = synced_bob.lake.runtime = calm
            assert (True, True) in names
            assert (False, False) not in names
            assert (there(bob, old), there(bob, new)) == (None, head)

    def test_a_renaming_that_the_bucket_refuses_leaves_the_old_name_there(
        self, clones: tuple[Repository, ...]
    ) -> None:
        ada, bob, _ = clones
        head = here(bob, "dev")
        with killed(bob) as synced_bob:
            branch.rename(synced_bob, "dev", "trial")
        branch.create(ada, "trial", source="main")
        make_commit(ada, b"theirs", "trial")
        push(ada, "trial", options=ME)
        with auto(bob) as (_, resumed):
            assert [each.message for each in resumed.unsent] != []
        with auto(bob) as (_, resumed):
            assert resumed.unsent == ()
        assert there(bob, "dev") == head
        assert there(bob, "trial") == here(ada, "trial")

    @pytest.mark.parametrize("since", ["commit", "branch rename"])
    def test_a_renaming_that_the_bucket_refuses_leaves_the_old_name_whatever_came_since(
        self, clones: tuple[Repository, ...], since: str
    ) -> None:
        ada, bob, _ = clones
        head = here(bob, "dev")
        with killed(bob) as synced_bob:
            branch.rename(synced_bob, "dev", "trial" if since == "commit" else "first")
        if since == "commit":
            make_commit(bob, b"mine", "trial")
        else:
            with killed(bob) as synced_bob:
                branch.rename(synced_bob, "first", "trial")
        self.refuse(ada, bob, taken="trial")
        assert there(bob, "dev") == head

    def test_a_renaming_whose_undo_the_bucket_refuses_leaves_the_new_name_there(
        self, clones: tuple[Repository, ...]
    ) -> None:
        ada, bob, _ = clones
        head = here(bob, "dev")
        with auto(bob) as (synced_bob, _):
            branch.rename(synced_bob, "dev", "trial")
        calm = bob.lake.runtime

        def kill(name: str) -> None:
            if name == "undo there":
                raise KeyboardInterrupt

        bob.lake.runtime = calm._replace(on_step=kill)
        with killed(bob) as synced_bob, pytest.raises(KeyboardInterrupt):
            undo(synced_bob, remote=True, committer="me")
        bob.lake.runtime = calm
        self.refuse(ada, bob, taken="dev")
        assert there(bob, "trial") == head

    def refuse(self, ada: Repository, bob: Repository, *, taken: str) -> None:
        """Let Ada make a branch first that Bob has noted."""
        with auto(ada) as (synced_ada, _):
            branch.create(synced_ada, taken, source="main")
            make_commit(synced_ada, b"theirs", taken)
        with auto(bob) as (_, resumed):
            assert [each.message for each in resumed.unsent] != []
        assert there(bob, taken) == here(ada, taken)

    def test_a_branch_that_the_bucket_never_had_is_sent_if_its_deletion_is_undone(
        self, clones: tuple[Repository, ...]
    ) -> None:
        """Here, of a branch that was renamed twice, before anything was sent."""
        bob = clones[1]
        head = here(bob, "dev")
        for old, new in (("dev", "first"), ("first", "second")):
            with killed(bob) as synced_bob:
                branch.rename(synced_bob, old, new)
        with killed(bob) as synced_bob:
            undo(synced_bob)
        with auto(bob):
            pass
        assert (there(bob, "first"), there(bob, "dev")) == (head, None)

    def test_redoing_the_deletion_of_a_ref_that_others_moved_is_refused(
        self, clones: tuple[Repository, ...]
    ) -> None:
        ada, bob, _ = clones
        with auto(bob) as (synced_bob, _):
            branch.delete(synced_bob, "dev")
        auto_undo(bob)
        with killed(bob) as synced_bob:
            redo(synced_bob)
        pull(ada, "dev", PULL)
        theirs = make_commit(ada, b"theirs", "dev").id
        push(ada, "dev", options=ME)
        with auto(bob) as (_, resumed):
            assert [type(each) for each in resumed.unsent] == [StaleLease]
        assert there(bob, "dev") == theirs

    def test_the_same_deletion_by_another_machine_is_not_undone(
        self, clones: tuple[Repository, ...]
    ) -> None:
        ada, bob, _ = clones
        branch.delete(bob, "dev")
        push_deletion(ada, "dev", options=ME)
        auto_undo(bob)
        assert there(bob, "dev") is None
        assert here(bob, "dev")

    def test_the_same_branch_by_another_machine_is_not_undone(
        self, clones: tuple[Repository, ...]
    ) -> None:
        ada, bob, _ = clones
        clock = bob.lake.runtime.clock
        clock.present -= timedelta(days=3)  # type: ignore[attr-defined]
        branch.create(bob, "new", source="main")
        clock.present += timedelta(days=3)  # type: ignore[attr-defined]
        branch.create(ada, "new", source="main")
        push(ada, "new", options=ME)
        auto_undo(bob)
        assert there(bob, "new") is not None

    def test_the_same_tag_move_by_another_machine_is_not_undone(
        self, clones: tuple[Repository, ...]
    ) -> None:
        ada, bob, _ = clones
        tag.create(bob, "v1", "main~1", force=True)
        theirs = tag.create(ada, "v1", "main~1", force=True).commit_id
        from lakecli.repository.push import PushLease

        push(ada, "v1", options=PushOptions(who="ada", lease=PushLease()))
        auto_undo(bob)
        assert there(bob, "v1", RefKind.TAG) == theirs

    def test_undo_deletes_a_branch_in_the_bucket_that_a_commit_shared(
        self, clones: tuple[Repository, ...]
    ) -> None:
        bob = clones[1]
        branch.create(bob, "new", source="main")
        with auto(bob) as (synced_bob, _):
            make_commit(synced_bob, b"mine", "new")
        assert there(bob, "new") == here(bob, "new")
        while auto_undo(bob).operation.kind != "branch create":
            pass
        assert there(bob, "new") is None

    def test_all_refs_are_checked_before_the_first_moves(
        self, clones: tuple[Repository, ...]
    ) -> None:
        ada, bob, _ = clones
        kept = newest(bob)
        with auto(bob) as (synced_bob, _):
            make_commit(synced_bob, b"more", "dev")
        with auto(bob) as (synced_bob, _):
            make_commit(synced_bob, b"mine")  # which is undone first
        mine = here(bob)
        pull(ada, "dev", PULL)
        make_commit(ada, b"theirs", "dev")
        push(ada, "dev", options=ME)
        before = everything(bob)
        with pytest.raises(Refused, match="branch dev has moved on"):
            restore(bob, kept.id.hex(), remote=True, committer="me")
        assert everything(bob) == before
        assert here(bob) == mine


class TestNotes:
    def test_unpushed_moves_of_one_ref_are_pushed_as_one(
        self, clones: tuple[Repository, ...]
    ) -> None:
        bob = clones[1]
        first, older = here(bob), branch.show(bob, "main").commit_id
        with killed(bob) as synced_bob:
            tag.create(synced_bob, "t", "main")
            tag.create(synced_bob, "t", "main~1", force=True)
        (row,) = rows(bob)
        assert row[1]["before"] is None  # type: ignore[index]
        assert row[1]["after"] == tag.show(bob, "t").commit_id != first == older  # type: ignore[index]
        tag.create(
            bob, "t", "main", force=True
        )  # without sync; the note still has the local position
        with auto(bob) as (_, resumed):
            assert resumed.unsent == ()
        assert there(bob, "t", RefKind.TAG) == first
        assert rows(bob) == []

    def test_a_move_undone_before_it_was_pushed_is_not_pushed(
        self, clones: tuple[Repository, ...]
    ) -> None:
        bob = clones[1]
        with killed(bob) as synced_bob:
            branch.create(synced_bob, "new", source="main")
        undo(bob)
        assert rows(bob) == []
        with killed(bob) as synced_bob:
            tag.create(synced_bob, "t", "main")
            tag.delete(synced_bob, "t")
        assert rows(bob) == []
        with killed(bob) as synced_bob:
            branch.delete(synced_bob, "dev")
        undo(bob)
        assert rows(bob) == []
        with auto(bob):
            pass
        assert there(bob, "dev") == here(bob, "dev")

    def test_fetching_the_moved_ref_removes_the_note(self, clones: tuple[Repository, ...]) -> None:
        bob = clones[1]
        with killed(bob) as synced_bob:
            branch.delete(synced_bob, "dev")
        pull(bob, "dev", PULL)
        assert rows(bob) == []

    def test_a_fast_forward_is_pushed(self, clones: tuple[Repository, ...]) -> None:
        """The note starts before the position of the bucket and ends after it."""
        ada, bob, _ = clones
        made = make_commit(bob, b"mine").id
        with bob.lake.kv.write() as txn:
            old = make_move(bob, before=here(ada), after=made)
            unsent_moves.put(txn, bob, old._replace(before=make_commit_id(bob)))
        with auto(bob) as (_, resumed):
            assert resumed.unsent == ()
        assert there(bob) == made

    def test_the_messages_are_those_of_push(self, clones: tuple[Repository, ...]) -> None:
        ada, bob, _ = clones
        theirs = make_commit(ada, b"theirs").id
        push(ada, "main", options=ME)
        first = here(bob)
        mine = make_commit(bob, b"mine").id
        with bob.lake.kv.write() as txn:
            unsent_moves.put(txn, bob, make_move(bob, before=first, after=mine))
        with auto(bob) as (_, resumed):
            (error,) = resumed.unsent
        assert isinstance(error, NonFastForward)
        assert "the bucket has commits on main that are not here" in error.message
        assert error.hint == f"merge them first: `pull {bob.uri}/main`"
        assert (here(bob), there(bob)) == (mine, theirs)


def make_move(repository: Repository, *, before: CommitId, after: CommitId) -> UnsentMove:
    return UnsentMove(RefKind.BRANCH, "main", "test", before, after, ())


def make_commit_id(repository: Repository) -> CommitId:
    """Return a commit of this history where the bucket's main does not stand."""
    from lakecli.repository.log import LogOptions, log

    with log(repository, "main", LogOptions()) as commits:
        return list(commits)[-1].id


class TestNeverPushed:
    """Refs that the bucket never had, though they moved here while sharing was manual."""

    def test_a_redo_is_pushed(self, clones: tuple[Repository, ...]) -> None:
        ada, bob, _ = clones
        branch.create(ada, "new", source="main")
        made = make_commit(ada, b"new", "new").id
        auto_undo(ada)
        assert there(ada, "new") is None
        with auto(ada) as (shared, _):
            redo(shared)
        assert here(ada, "new") == there(ada, "new") == made
        with auto(bob):
            pass
        assert here(bob, "new") == made

    def test_a_branch_that_somebody_deleted_stays_deleted(
        self, clones: tuple[Repository, ...]
    ) -> None:
        ada, bob, _ = clones
        branch.create(ada, "new", source="main")
        push(ada, "new", options=ME)
        made = make_commit(ada, b"new", "new").id
        undo(ada)
        fetch(bob)
        push_deletion(bob, "new", options=ME)
        with killed(ada) as shared:
            redo(shared)
        with auto(ada) as (_, resumed):
            (error,) = resumed.unsent
        assert "branch new was deleted in the bucket" in error.message
        assert (here(ada, "new"), there(ada, "new")) == (made, None)


class TestProcesses:
    """Two commands of one home at the same time."""

    @pytest.fixture
    def both(self, clones: tuple[Repository, ...]) -> tuple[Repository, Repository]:
        bob = clones[1]
        return bob, LocalRepository(bob.lake, bob.record)

    def test_each_command_pushes_what_it_moved(self, both: tuple[Repository, Repository]) -> None:
        one, two = both
        first, second = synced(one, "one"), synced(two, "two")
        first.catch_up()
        second.catch_up()
        branch.create(first.repository, "of-one", source="main")
        branch.create(second.repository, "of-two", source="main")
        first.finish()
        assert there(one, "of-one") == here(one)
        assert there(one, "of-two") is None
        second.finish()
        assert there(one, "of-two") == here(one)
        assert rows(one) == []

    def test_a_note_that_another_command_just_pushed_is_dropped(
        self, both: tuple[Repository, Repository], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One has read its note; the other begins and pushes it first."""
        one, two = both
        first = synced(one, "one")
        first.catch_up()
        branch.create(first.repository, "new", source="main")
        second = synced(two, "two")
        pushing = automatic.push_note

        def push(repository: Repository, note: UnsentMove, **options: Any) -> None:
            if repository is first.repository:
                second.catch_up()
            pushing(repository, note, **options)

        monkeypatch.setattr(automatic, "push_note", push)
        first.finish()
        assert there(one, "new") == here(one)
        assert position(one, "new") == here(one)
        ref = find_ref(one.store, RefKind.BRANCH, "new")
        assert ref is not None
        assert ref.sequence == 1

    def test_a_move_that_was_undone_while_it_was_pushed_is_moved_back(
        self, both: tuple[Repository, Repository]
    ) -> None:
        one, two = both
        before = there(one, "v1", RefKind.TAG)
        first = synced(one, "one")
        first.catch_up()
        tag.delete(first.repository, "v1")
        runtime = one.lake.runtime

        def on_step(name: str) -> None:
            if name == "put":
                one.lake.runtime = runtime
                with killed(two) as other:
                    undo(other)

        one.lake.runtime = runtime._replace(on_step=on_step)
        first.finish()
        assert there(one, "v1", RefKind.TAG) == tag.show(one, "v1").commit_id == before
        assert rows(one) == []

    def test_a_move_that_was_undone_while_the_bucket_refused_it_has_no_way_back(
        self, both: tuple[Repository, Repository], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one, two = both
        before = there(one, "v1", RefKind.TAG)
        first = synced(one, "one")
        first.catch_up()
        tag.delete(first.repository, "v1")

        def refuse(*_: object, **__: object) -> tuple[automatic.SendDecision, CommitId | None]:
            with killed(two) as other:
                undo(other)
            return automatic.SendDecision.REFUSE, before

        monkeypatch.setattr(automatic, "_move", refuse)
        with pytest.raises(StaleLease):
            first.finish()
        assert there(one, "v1", RefKind.TAG) == tag.show(one, "v1").commit_id == before
        assert rows(one) == []

    @pytest.mark.parametrize("step", ["pack", "intent", "move", "track"])
    def test_a_move_added_while_the_note_is_pushed_stays(
        self, step: str, both: tuple[Repository, Repository]
    ) -> None:
        one, two = both
        first, second = synced(one, "one"), synced(two, "two")
        first.catch_up()
        tag.create(first.repository, "t", "main")
        runtime = one.lake.runtime

        def on_step(name: str) -> None:
            if name == step:
                one.lake.runtime = runtime
                tag.create(second.repository, "t", "main~1", force=True)

        one.lake.runtime = runtime._replace(on_step=on_step)
        first.finish()
        assert there(one, "t", RefKind.TAG) == here(one)
        second.finish()
        assert there(one, "t", RefKind.TAG) == tag.show(one, "t").commit_id != here(one)
        assert rows(one) == []


@pytest.mark.parametrize("most_read", [0, 4])
def test_only_what_no_ref_of_the_bucket_reaches_is_new(
    clones: tuple[Repository, ...], monkeypatch: pytest.MonkeyPatch, most_read: int
) -> None:
    """Whether the refs are read one by one or listed."""
    from lakecli.repository.sharing import publish as publishing

    monkeypatch.setattr(publishing, "_MOST_READ", most_read)
    bob = clones[1]
    branch.create(bob, "new", source="main")
    made = make_commit(bob, b"new", "new")
    found = publishing._new_commits(bob, None, made.id, publishing._settled(bob))
    assert [each.id for each in found] == [made.id]


class TestFollowing:
    """Cases that mutants of following had survived."""

    def test_a_tag_with_the_name_of_a_branch_here_is_not_made(
        self, clones: tuple[Repository, ...]
    ) -> None:
        ada, bob, _ = clones
        branch.create(bob, "taken", source="main")
        tag.create(ada, "taken", "main")
        push(ada, "taken", options=ME)
        with auto(bob):
            pass
        with pytest.raises(NotFound):
            tag.show(bob, "taken")
        assert branch.show(bob, "taken").commit_id == here(bob)

    def test_sealed_work_keeps_a_branch_that_others_deleted(
        self, clones: tuple[Repository, ...]
    ) -> None:
        ada, bob, _ = clones
        stage(bob, "dev", {b"mine": b"1"})

        def kill(name: str) -> None:
            if name == "build":
                raise PermissionDenied("killed", hint="-")

        runtime = bob.lake.runtime
        bob.lake.runtime = runtime._replace(on_step=kill)
        with suppress(PermissionDenied):
            commit(bob, "dev", message="never", committer="me")
        bob.lake.runtime = runtime
        shown = branch.show(bob, "dev")
        assert shown.sealed_tokens
        push_deletion(ada, "dev", options=ME)
        with auto(bob) as (synced_bob, _):
            assert read(synced_bob, "dev") == checksums({b"first": b"first", b"mine": b"1"})

    def test_an_unpushed_move_does_not_follow_the_bucket(
        self, clones: tuple[Repository, ...]
    ) -> None:
        """A tag moved here to an earlier position of the bucket does not lag behind."""
        ada, bob, _ = clones
        first = here(bob)
        second = make_commit(ada, b"second").id
        push(ada, "main", options=ME)
        pull(bob, "main", PULL)
        with auto(bob) as (synced_bob, _):
            tag.create(synced_bob, "v1", "main", force=True)
        assert there(bob, "v1", RefKind.TAG) == second
        with killed(bob) as synced_bob:
            tag.create(synced_bob, "v1", first, force=True)
        from lakecli.repository.sharing.automatic import follow

        follow(bob)
        assert tag.show(bob, "v1").commit_id == first
        with auto(bob):
            pass
        assert there(bob, "v1", RefKind.TAG) == first

    def test_a_command_pushes_the_rest_of_an_earlier_one(
        self, clones: tuple[Repository, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An earlier note could not be pushed at the beginning; the command moves the same ref."""
        bob = clones[1]
        with killed(bob) as synced_bob:
            tag.create(synced_bob, "t", "main")
        sharing = synced(bob, "bob")
        with monkeypatch.context() as patch:
            patch.setattr(automatic, "push_note", refuse)
            assert [type(each) for each in sharing.catch_up().unsent] == [PermissionDenied]
        sharing.finish()
        assert there(bob, "t", RefKind.TAG) is None  # it moved nothing, so it pushes nothing
        tag.create(sharing.repository, "t", "main~1", force=True)
        sharing.finish()
        assert there(bob, "t", RefKind.TAG) == tag.show(bob, "t").commit_id


def refuse(*_: object, **__: object) -> None:
    raise PermissionDenied("not now", hint="wait")

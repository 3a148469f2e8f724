"""Mutants that each take a fix out, and a short story of the team that shows the defect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from lakecli.cli.context import Context
from lakecli.gc import known_refs, lease
from lakecli.gc.lease import SweepLease
from lakecli.kv.operations import iter_operations
from lakecli.repository import commit_attempts
from lakecli.repository.guard import GcGuard
from lakecli.repository.journal import tracking, unsent_moves
from lakecli.repository.reading.view import branch_at, view_of_branch
from lakecli.repository.sharing import automatic, references
from lakecli.repository.staged import changes
from lakecli.repository.undo import pushed_refs, remote_undo, undo
from lakecli.repository.undo.take_back import TakeBack
from tests.meetings.arguments import REPOSITORY
from tests.meetings.team import Team, bucket_copy, days, operations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from lakecli.base.model import Branch
    from lakecli.kv.bucket import UnsentMove
    from lakecli.kv.local_store import ReadTransaction
    from lakecli.remote.ref_records import RecordedMove
    from lakecli.repository.contract import Repository

MAIN: Final = f"{REPOSITORY}/main"


class Mutant(NamedTuple):
    """A fix taken out.

    Attributes:
        apply: takes it out.
        story: commands of the team after which the model fails with the mutant, and only then.
    """

    apply: Callable[[pytest.MonkeyPatch], None]
    story: Callable[[Team], None]


def _change(team: Team, person: str, branch: str, path: str, text: str) -> None:
    team.upload(person, branch, path, text, sync=False)
    team.commit(person, branch, sync=False)


def _stage_nothing_new(team: Team, person: str) -> None:
    """Remove a file and upload it again as it was."""
    team.remove(person, "main", "p/0", sync=False)
    team.upload(person, "main", "p/0", "first", sync=False)


def _no_seal(patch: pytest.MonkeyPatch) -> None:
    def leave(repository: Repository, name: str) -> Branch:
        with repository.lake.kv.read() as txn:
            changes.check_clean(view_of_branch(repository, txn, name))
            return branch_at(repository, txn, name)

    patch.setattr(commit_attempts, "_seal_clean", leave)


def _merge_onto_clean(team: Team) -> None:
    _change(team, "ada", "dev", "p/0", "fixed")
    _stage_nothing_new(team, "ada")
    line = ("merge", f"{REPOSITORY}/dev", MAIN)
    team.run("ada", *line, sync=False, cleans="main")


def _no_unstaging(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(automatic, "unstage_unchanged", _nothing)


def _follow_onto_clean(team: Team) -> None:
    _stage_nothing_new(team, "bob")
    _change(team, "ada", "main", "p/0", "fixed")
    team.run("ada", "push", MAIN, sync=False)
    team.run("bob", "status", REPOSITORY, sync=True)


def _no_rollback(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tracking, "went_back", lambda *_args: False)
    _no_sample(patch)


def _push_after_rollback(team: Team) -> None:
    backup: Any = bucket_copy(team.world)
    _change(team, "ada", "dev", "p/1", "lost")
    team.run("ada", "push", f"{REPOSITORY}/dev", sync=False)
    team.restore_backup(backup)
    reply = team.run("ada", "fetch", REPOSITORY, sync=False)
    assert "went back in time" in reply.stderr, team.story()


def _no_sample(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(references, "SAMPLE", 0)


def _commit_after_rollback(team: Team) -> None:
    backup: Any = bucket_copy(team.world)
    team.upload("bob", "main", "q/3", "lost", sync=False)
    team.restore_backup(backup)
    team.commit("bob", "main", sync=False)
    team.run("bob", "push", MAIN, sync=False)


def _no_claim(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GcGuard, "_renew", _nothing)
    patch.setattr(GcGuard, "_keep", lambda *_args: True)


def _use_of_garbage(team: Team) -> None:
    team.upload("ada", "main", "p/1", "garbage", sync=False)
    team.reset("ada", "main", sync=False)
    team.world.pass_time(days(40))
    team.run("ada", "gc", "run", REPOSITORY, "-y", sync=False)
    team.world.pass_time(days(0))
    team.write_file("bob", "main", "p/1", "garbage", commits=True)
    team.world.pass_time(days(15))
    team.run("ada", "gc", "run", REPOSITORY, "-y", sync=False)
    reply = team.run("bob", "push", MAIN, sync=False)
    assert reply.exit_code == 0, team.story()  # what was used once condemned is kept


def _deletes_without_a_lease(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SweepLease, "check", _nothing)


class _NoStore:
    """The type of no store: none deletes on a condition, as S3 does not."""


def _sweep_that_stalls(team: Team) -> None:
    team.upload("ada", "main", "p/1", "garbage", sync=False)
    team.reset("ada", "main", sync=False)
    team.world.pass_time(days(40))
    team.run("ada", "gc", "run", REPOSITORY, "-y", sync=False)
    team.world.pass_time(days(15))
    stalled: list[str] = []

    def meanwhile(step: str) -> None:
        """Let Bob end the sweep while Ada's machine sleeps, and upload what it has deleted."""
        if step == "gc:delete" and not stalled:
            stalled.append(step)
            team.world.pass_time(days(1))
            team.run("bob", "gc", "run", REPOSITORY, "-y", sync=False)
            _change(team, "bob", "main", "p/1", "garbage")
            team.run("bob", "push", MAIN, sync=False)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lease, "DeletesMatching", _NoStore)
        team.run("ada", "gc", "run", REPOSITORY, "-y", sync=False, on_step=meanwhile)
    assert stalled


def _sends_blindly(patch: pytest.MonkeyPatch) -> None:
    verdicts = automatic.SendDecision

    def judge(_txn: object, _repository: object, move: UnsentMove, there: object) -> Any:
        return verdicts.NOTHING if there == move.after else verdicts.SEND

    patch.setattr(automatic, "judge", judge)
    for module in (unsent_moves, pushed_refs):
        patch.setattr(module, "is_local", lambda *_args: False)


def _undo_of_a_pull(team: Team) -> None:
    _change(team, "ada", "main", "p/0", "by ada")
    team.run("ada", "push", MAIN, sync=False)
    team.run("bob", "pull", MAIN, sync=False)
    team.run("bob", "undo", REPOSITORY, sync=True)


def _dates_the_log(patch: pytest.MonkeyPatch) -> None:
    def expired_through(
        txn: ReadTransaction, repository: Repository, *, now: datetime, cutoff: datetime
    ) -> int:
        del now
        log = iter_operations(txn, repository.key)
        return max((each.sequence for each in log if each.at < cutoff), default=0)

    patch.setattr("lakecli.repository.undo.log.expired_through", expired_through)


def _command_in_1971(team: Team) -> None:
    team.upload("ada", "main", "p/1", "early", sync=False)
    team.world.ahead["ada"] = -days(20_000)
    team.upload("ada", "main", "p/1", "in between", sync=False)
    team.world.ahead.clear()
    team.upload("ada", "main", "p/1", "late", sync=False)


def _dates_by_mover(patch: pytest.MonkeyPatch) -> None:
    def counted(
        groups: Sequence[Sequence[RecordedMove]], _seen: object, cutoff: datetime
    ) -> Iterator[RecordedMove]:
        return (move for group in groups for move in group if move.at >= cutoff)

    patch.setattr(known_refs, "counted", counted)


def _move_back_by_a_wrong_clock(team: Team) -> None:
    team.world.ahead["bob"] = -days(60)
    _change(team, "bob", "main", "p/1", "taken back")
    team.run("bob", "push", MAIN, sync=False)
    team.world.pass_time(days(14))
    team.run("bob", "undo", REPOSITORY, sync=True)
    for passed in (1, 15):
        team.world.pass_time(days(passed))
        team.run("ada", "gc", "run", REPOSITORY, "-y", sync=False)


def _forgets_staging(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TakeBack, "_restore", _nothing)


def _undo_of_an_upload(team: Team) -> None:
    team.upload("ada", "main", "p/1", "one", sync=False)
    team.upload("ada", "main", "p/1", "two", sync=False)
    team.run("ada", "undo", REPOSITORY, sync=False)


def _deletes_what_is_unseen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(unsent_moves, "find_lease", unsent_moves._there)


def _deletion_of_a_parted_branch(team: Team) -> None:
    _change(team, "bob", "dev", "p/1", "by bob")
    team.run("bob", "push", f"{REPOSITORY}/dev", sync=False)
    _change(team, "ada", "dev", "p/1", "by ada")
    team.run("ada", "fetch", REPOSITORY, sync=False)
    team.delete_branch("ada", "dev", sync=True)


def _deletes_without_a_position(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(unsent_moves, "find_lease", _nothing)
    patch.setattr(unsent_moves, "check_deletion", _nothing)
    patch.setattr("lakecli.repository.undo.remote_undo.put_back", _nothing)


def _deletion_of_an_unpushed_branch(team: Team) -> None:
    _change(team, "ada", "dev", "p/1", "never pushed")
    team.delete_branch("ada", "dev", sync=True)


def _believes_the_position(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pushed_refs, "TO_KNOWN", frozenset())


def _holds_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(remote_undo, "_is_left_behind", lambda *_args: False)


def _restore_of_a_reset(team: Team) -> None:
    """Go back to a reset that was undone, behind what Bob has pushed."""
    _change(team, "bob", "main", "p/1", "by bob")
    team.run("bob", "push", MAIN, sync=False)
    team.run("ada", "pull", MAIN, sync=False)
    team.reset_to("ada", "main", "main~1", sync=False)
    reset = next(operations(team, "ada"))
    team.run("ada", "undo", REPOSITORY, sync=False)
    team.run("ada", "op", "restore", REPOSITORY, reset, "-y", sync=True)
    team.run("ada", "status", REPOSITORY, sync=True)


def _completes_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(undo, "complete", _nothing)


def _undo_that_is_repeated(team: Team) -> None:
    for text in ("one", "two"):
        team.upload("ada", "main", "p/1", text, sync=True)
        team.commit("ada", "main", sync=True)
    team.undo_twice("ada", sync=True)


def _finishes_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("lakecli.cli.commands.op._has_finished", lambda *_args: False)


def _undo_of_files_that_is_repeated(team: Team) -> None:
    directory = team.link("ada", sync=False)
    assert directory is not None
    team.check_out_directory("ada", "p/0", "mine", sync=False)
    team.undo_twice("ada", sync=False, step="publish")
    assert (directory / "p/0").read_text() == "mine", team.story()


def _restores_on_its_own(patch: pytest.MonkeyPatch) -> None:
    synced = Context._synced

    def unless_deleted(context: Context, repository: Repository) -> Repository:
        return synced(context, repository) if repository.is_here() else repository

    patch.setattr(Context, "_synced", unless_deleted)


def _restore_of_a_deleted_repository(team: Team) -> None:
    _change(team, "bob", "main", "p/1", "by bob")
    team.run("bob", "push", MAIN, sync=False)
    before = next(operations(team, "ada"))
    team.run("ada", "pull", MAIN, sync=False)
    team.run("ada", "repo", "delete", REPOSITORY, "-y", sync=True)
    team.run("ada", "op", "restore", REPOSITORY, before, "-y", sync=True)
    team.run("ada", "status", REPOSITORY, sync=True)


def _nothing(*_args: object, **_kwargs: object) -> None:
    pass


MUTANTS: Final = {
    "a merge leaves what is staged as the head has it": Mutant(_no_seal, _merge_onto_clean),
    "following leaves what is staged as the head has it": Mutant(_no_unstaging, _follow_onto_clean),
    "nobody notices that the bucket went back": Mutant(_no_rollback, _push_after_rollback),
    "young data is trusted without a look": Mutant(_no_sample, _commit_after_rollback),
    "what another one moved is moved back": Mutant(_sends_blindly, _undo_of_a_pull),
    "the log ends at the first old date": Mutant(_dates_the_log, _command_in_1971),
    "a former head is as old as its mover says": Mutant(
        _dates_by_mover, _move_back_by_a_wrong_clock
    ),
    "undo leaves what was staged": Mutant(_forgets_staging, _undo_of_an_upload),
    "a sweeper that stalls goes on deleting": Mutant(_deletes_without_a_lease, _sweep_that_stalls),
    "garbage that is used again is not claimed": Mutant(_no_claim, _use_of_garbage),
    "commits that were never seen go with a branch": Mutant(
        _deletes_what_is_unseen, _deletion_of_a_parted_branch
    ),
    "a branch with unpushed commits is deleted here only": Mutant(
        _deletes_without_a_position, _deletion_of_an_unpushed_branch
    ),
    "what the bucket has counts as sent from here": Mutant(
        _believes_the_position, _restore_of_a_reset
    ),
    "what was taken back follows the bucket": Mutant(_holds_nothing, _restore_of_a_reset),
    "an interrupted undo is repeated for another operation": Mutant(
        _completes_nothing, _undo_that_is_repeated
    ),
    "an undo that has not brought all files back is not completed": Mutant(
        _finishes_nothing, _undo_of_files_that_is_repeated
    ),
    "a deleted repository is restored without automatic sync": Mutant(
        _restores_on_its_own, _restore_of_a_deleted_repository
    ),
}

"""Automatic sharing: fetch before a command, push after it, one ref at a time.

`Synchroniser.begin` finishes what an interrupted command left, fetches, and lets local refs
follow the bucket (`lakecli.repository.follow`). While it is attached to a repository, commits,
merges and reverts move a branch in the bucket before they move it here
(`lakecli.repository.core.transaction`), and every other move of a ref leaves a note in the
transaction that makes it, which `end` sends (`lakecli.repository.core.unsent`). A command that is
killed in between leaves its note, or the intent of its move, to the next one.

A note is sent only where the bucket stands on what the note moved the ref from, or where that is a
fast-forward. Anything else is refused as `push` refuses it, once: what was done here stays here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lakecli.errors import LakeError, LostRace, OutcomeUnknown, Refused, Unreachable
from lakecli.kv.tracking import TrackingStore
from lakecli.refs.graph import is_ancestor
from lakecli.refs.store import RefStore
from lakecli.repository.core import tracking, unsent
from lakecli.repository.core.transaction import is_as_built
from lakecli.repository.core.unsent import Verdict
from lakecli.repository.follow import follow
from lakecli.retry import REF_MOVES, Retries

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.kv.env import ReadTransaction
    from lakecli.model import Branch, Commit, CommitId, StagingToken
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.core.pending import Finished
    from lakecli.repository.core.unsent import Unsent


class Synchroniser:
    """Keeps one repository and the bucket together for the length of a command.

    Args:
        repository: whose branches and tags; it publishes through this from now on.
        who: returns who moves them, for the shared reflog; called when something is moved.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        repository: Repository,
        *,
        who: Callable[[], str],
        sleep: Callable[[float], None],
    ) -> None:
        self._repository = repository
        self._who = who
        self._sleep = sleep
        self._lost = 0
        self._id = repository.lake.runtime.new_id()
        repository.publisher = self

    @property
    def id(self) -> bytes:
        """Random bytes that tell this command from others that run at the same time."""
        return self._id

    def begin(self) -> Resumed:
        """Finish what was interrupted, fetch, and let local refs follow.

        What earlier commands moved and could not send is sent. Where that fails, the error is in
        the result, and the command goes on.

        Raises:
            Unreachable: the store does not answer; everything here is as it was.
            PermissionDenied: reading or listing is not allowed, likewise.
        """
        from lakecli.repository.core.pending import finish_pending
        from lakecli.repository.fetch import fetch

        finished = finish_pending(self._repository)
        fetch(self._repository)
        errors: list[LakeError] = []
        for move in self._unsent():
            try:
                self._send(move)
            except Unreachable:
                raise
            except LakeError as error:
                errors.append(error)
        follow(self._repository)
        return Resumed(tuple(finished), tuple(errors))

    def end(self) -> None:
        """Send what refs this command moved here.

        Raises:
            LostRace, AlreadyExists: the bucket has moves that it would take back; it was not sent.
            OutcomeUnknown: the next command finds out.
            Unreachable, PermissionDenied, …: it was not sent; the next command tries again.
        """
        for move in self._unsent():
            if self._id.hex() in move.by:
                self._send(move)

    def publish(
        self,
        branch: Branch,
        commit: Commit,
        *,
        kind: str,
        sealed: tuple[StagingToken, ...],
        from_staging: bool,
    ) -> bool:
        """Move a branch in the bucket to a commit, as `Publisher` has it."""
        from lakecli.remote.move import Outcome
        from lakecli.repository.sharing.publish import publish

        repository = self._repository
        with repository.lake.kv.read() as txn:
            present = RefStore(txn, repository.key).find_branch(branch.name)
            if present is None or not is_as_built(present, branch, sealed):
                return False  # another process of this machine has moved it, and may have fetched
            tracked = TrackingStore(txn, repository.key).find("branch", branch.name)
            before = None if tracked is None else tracked.commit_id
            self._check_ahead(txn, branch, before)
        with repository.lake.kv.write() as txn:
            RefStore(txn, repository.key).put_commit(commit)
        result = publish(
            repository,
            "branch",
            branch.name,
            before=before,
            after=commit.id,
            who=self._who(),
            why=kind,
            local={
                "operation": kind,
                "sealed": [token.hex() for token in sealed],
                "from_staging": from_staging,
            },
        )
        if result.outcome == Outcome.APPLIED:
            return True
        self._back_off()
        self._fetch_and_follow()
        return False

    def _check_ahead(self, txn: ReadTransaction, branch: Branch, before: CommitId | None) -> None:
        """Refuse to publish a branch that lacks what the bucket has.

        Raises:
            LostRace: they have parted.
        """
        refs = RefStore(txn, self._repository.key)
        if before is not None and not is_ancestor(refs, before, branch.commit_id):
            raise LostRace(
                f"branch {branch.name} and its counterpart in the bucket have parted",
                hint=f"merge them: lakecli pull {self._repository.uri}/{branch.name}",
            )

    def _back_off(self) -> None:
        retries = Retries(REF_MOVES, sleep=self._sleep, random=self._repository.lake.random_number)
        retries.pause(self._lost)
        self._lost += 1

    def _fetch_and_follow(self) -> None:
        from lakecli.repository.fetch import fetch

        fetch(self._repository)
        follow(self._repository)

    # -- moves that were made here and are to be sent -------------------------------------------

    def _unsent(self) -> list[Unsent]:
        with self._repository.lake.kv.read() as txn:
            return list(unsent.iter_unsent(txn, self._repository))

    def _send(self, move: Unsent) -> None:
        """Make a move in the bucket, if that takes back nothing that others did.

        Raises:
            LostRace, AlreadyExists: it would; the note is gone, and what was done here stays here.
            OutcomeUnknown, Unreachable, PermissionDenied, …: the note stays.
        """
        repository = self._repository
        with repository.lake.kv.read() as txn:
            tracked = TrackingStore(txn, repository.key).find(move.kind, move.name)
            there = None if tracked is None else tracked.commit_id
            verdict = unsent.judge(txn, repository, move, there)
        was_sent = verdict is Verdict.SEND
        if was_sent:
            verdict, there = self._publish_unsent(move, there)
        with repository.lake.kv.write() as txn:
            taken_back = None
            if was_sent and verdict is Verdict.NOTHING:
                taken_back = unsent.note_taken_back(txn, repository, move, by=self._id)
            unsent.forget(txn, repository, move)
        if verdict is Verdict.REFUSE:
            raise _not_sent(repository, move, there)
        if taken_back is not None:
            self._send(taken_back)

    def _publish_unsent(
        self, move: Unsent, there: CommitId | None
    ) -> tuple[Verdict, CommitId | None]:
        """Make a move in the bucket; return what became of it, and where the ref stands there."""
        from lakecli.remote.move import Outcome
        from lakecli.repository.sharing.publish import publish

        repository = self._repository
        try:
            result = publish(
                repository,
                move.kind,
                move.name,
                before=there,
                after=move.after,
                who=self._who(),
                why=move.operation,
                local=None,
            )
        except OutcomeUnknown:
            raise
        except LakeError as error:
            raise _unsent(repository, move, error) from error
        if result.outcome == Outcome.APPLIED:
            return Verdict.NOTHING, move.after
        there = None if result.ref is None else result.ref.commit_id
        if there != move.after:
            return Verdict.REFUSE, there
        # Another process of this machine has sent it.
        if result.ref is not None:
            with repository.lake.kv.write() as txn:
                tracking.track(txn, repository, result.ref)
        return Verdict.NOTHING, there


class Resumed(NamedTuple):
    """What became of that which earlier commands left.

    Attributes:
        finished: moves whose outcome was not written down.
        unsent: why refs that were moved here are not in the bucket.
    """

    finished: tuple[Finished, ...]
    unsent: tuple[LakeError, ...]


def _unsent(repository: Repository, move: Unsent, error: LakeError) -> LakeError:
    """Return an error that says that a ref moved here, though not in the bucket."""
    error.message = f"{move.kind} {move.name} moved here, not yet in the bucket: {error.message}"
    error.args = (error.message,)
    help_first = "" if error.hint is None or isinstance(error, Unreachable) else f"{error.hint}; "
    error.hint = (
        f"{help_first}the next command tries again to send it; or take it back: "
        f"lakecli undo {repository.uri}"
    )
    return error


def _not_sent(repository: Repository, move: Unsent, there: CommitId | None) -> LakeError:
    """Return the error for a move that the bucket does not get."""
    from lakecli.repository.push import refused

    if not move.is_known:
        return Refused(
            f"an earlier version of lakecli moved {move.kind} {move.name} here and did not write "
            "down from where; it was not sent to the bucket",
            hint=f"compare: lakecli status {repository.uri}, then push it: "
            f"lakecli push {repository.uri}/{move.name}",
        )
    error = refused(repository, move.kind, move.name, before=there, after=move.after)
    error.message = (
        f"{move.kind} {move.name} was {'moved' if move.after else 'deleted'} here, "
        f"not in the bucket: {error.message}"
    )
    error.args = (error.message,)
    return error

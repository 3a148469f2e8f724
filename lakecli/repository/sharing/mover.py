"""Automatic sharing: fetch before a command, move branches in the bucket first, push after it.

A `Repository` has a `SharedMover` where the setting ``sync`` is ``auto``.
`SharedMover.catch_up` finishes what an interrupted command left, fetches, and lets local refs
follow the bucket. Commits, merges and reverts move a branch in the bucket before they move it here.
Every other move of a ref leaves a note in the transaction that makes it, which `finish` sends
(`lakecli.repository.sharing.notes`). A command that is killed leaves its notes and the intent of
its move to the next one.

The way of a commit, what makes it durable and what a crash leaves: `lakecli.repository.core.mover`.
"""

from __future__ import annotations

from collections.abc import Callable

from lakecli.base.model import Branch, Commit, CommitId, RefKind
from lakecli.base.retry import REF_MOVES, Retries
from lakecli.errors import LakeError, LostRace, Unreachable
from lakecli.kv.bucket import TrackingStore
from lakecli.kv.env import ReadTransaction
from lakecli.refs.graph import is_ancestor
from lakecli.refs.ref_store import RefStore
from lakecli.remote.move import Outcome
from lakecli.repository.core import staging_tokens, unsent
from lakecli.repository.core.lake import Repository
from lakecli.repository.core.landing import Landing, is_built_from
from lakecli.repository.core.mover import CaughtUp, Resumed
from lakecli.repository.core.pending import finish_pending
from lakecli.repository.core.unsent import Unsent
from lakecli.repository.sharing.fetch import fetch
from lakecli.repository.sharing.follow import follow
from lakecli.repository.sharing.notes import PutBack, push_note
from lakecli.repository.sharing.publish import publish


class SharedMover:
    """Moves branches in the bucket before they move here, for the length of one command.

    Args:
        command_id: random bytes that identify the command.
        who: returns who moves refs, for the shared reflog; called when one is moved.
        sleep: waits for so many seconds.
        put_back: undoes a deletion or renaming here that the bucket refuses.
    """

    def __init__(
        self,
        command_id: bytes,
        *,
        who: Callable[[], str],
        sleep: Callable[[float], None],
        put_back: PutBack,
    ) -> None:
        self._command_id = command_id
        self._who = who
        self._sleep = sleep
        self._put_back = put_back
        self._lost = 0
        self._resumed: tuple[Resumed, ...] = ()

    @property
    def command_id(self) -> bytes:
        """The bytes that identify this command in the notes of refs that it moves."""
        return self._command_id

    def catch_up(self, repository: Repository) -> CaughtUp:
        """Finish what earlier commands left, fetch, and let local refs follow."""
        finished = finish_pending(repository)
        fetch(repository)
        errors: list[LakeError] = []
        resumed: list[Resumed] = []
        for note in _notes(repository):
            try:
                self._push(repository, note)
            except Unreachable:
                raise
            except LakeError as error:
                errors.append(error)
                if _is_noted(repository, note):
                    continue
                resumed.append(Resumed(note, error))
            else:
                resumed.append(Resumed(note, None))
        follow(repository)
        self._resumed = tuple(resumed)
        return CaughtUp(tuple(finished), tuple(errors))

    def take_resumed(self) -> tuple[Resumed, ...]:
        """Return what `catch_up` has resumed, the first time; then nothing."""
        taken, self._resumed = self._resumed, ()
        return taken

    def move(
        self, repository: Repository, branch: Branch, commit: Commit, landing: Landing
    ) -> bool:
        """Move the branch in the bucket, then land the commit here."""
        with repository.lake.kv.read() as txn:
            present = RefStore(txn, repository.key).find_branch(branch.name)
            if present is None or not is_built_from(present, branch.commit_id, landing.sealed):
                return False  # another process of this machine has moved it, and may have fetched
            before = TrackingStore(txn, repository.key).position(RefKind.BRANCH, branch.name)
            _check_ahead(txn, repository, branch, before)
        with repository.lake.kv.write() as txn:
            if not staging_tokens.are_noted(txn, repository, landing.left):
                return False
            staging_tokens.note_copies(txn, repository, landing.left)
            RefStore(txn, repository.key).put_commit(commit)
        result = publish(
            repository,
            RefKind.BRANCH,
            branch.name,
            before=before,
            after=commit.id,
            who=self._who(),
            why=landing.operation,
            landing=landing,
        )
        if result.outcome == Outcome.APPLIED:
            self._lost = 0
            return True
        self._back_off(repository)
        _fetch_and_follow(repository)
        return False

    def finish(self, repository: Repository) -> None:
        """Send the notes of refs that this command moved here."""
        for note in _notes(repository):
            if self._command_id.hex() in note.by:
                self._push(repository, note)

    def _push(self, repository: Repository, note: Unsent) -> None:

        command_id, put_back = self._command_id, self._put_back
        push_note(repository, note, who=self._who, command_id=command_id, put_back=put_back)

    def _back_off(self, repository: Repository) -> None:
        retries = Retries(REF_MOVES, sleep=self._sleep, random=repository.lake.random_number)
        retries.pause(self._lost)
        self._lost += 1


def _notes(repository: Repository) -> list[Unsent]:
    """Return the notes, deletions last: a renamed branch always has a name in the bucket."""
    with repository.lake.kv.read() as txn:
        notes = list(unsent.iter_unsent(txn, repository))
    return sorted(notes, key=lambda note: note.after is None)


def _is_noted(repository: Repository, move: Unsent) -> bool:
    with repository.lake.kv.read() as txn:
        return unsent.find_unsent(txn, repository, move.kind, move.name) is not None


def _check_ahead(
    txn: ReadTransaction, repository: Repository, branch: Branch, before: CommitId | None
) -> None:
    """Refuse to move a branch in the bucket that lacks what the bucket has.

    Raises:
        LostRace: they have diverged.
    """
    refs = RefStore(txn, repository.key)
    if before is not None and not is_ancestor(refs, before, branch.commit_id):
        raise LostRace(
            f"branch {branch.name} here and in the bucket have diverged",
            hint=f"merge them: lakecli pull {repository.uri}/{branch.name}",
        )


def _fetch_and_follow(repository: Repository) -> None:

    fetch(repository)
    follow(repository)

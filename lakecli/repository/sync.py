"""Automatic sharing: fetch before a command, push after it, one ref at a time.

`Synchroniser.begin` finishes what an interrupted command left, fetches, and lets local branches
follow the bucket. While it is attached to a repository, commits, merges and reverts move a branch
in the bucket before they move it here (`lakecli.repository.transaction`), and every other change of
a ref leaves a note in the transaction that makes it, which `end` sends. A command that is killed
in between leaves its note, or the intent of its move, to the next one.

A branch follows where it has nothing of its own: where it stands at an ancestor of the bucket's
position, or where the bucket itself once stood. Uncommitted changes stay on it; those that others
have overtaken are found when they are committed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.errors import LostRace
from lakecli.kv.intents import IntentStore
from lakecli.kv.tracking import TrackingStore
from lakecli.model import Branch
from lakecli.refs.graph import is_ancestor
from lakecli.refs.store import RefStore
from lakecli.remote.known import iter_moves
from lakecli.repository import operations, tokens
from lakecli.repository.transaction import follow_head

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.kv.env import ReadTransaction, WriteTransaction
    from lakecli.kv.operations import RefChange
    from lakecli.kv.tracking import Tracked
    from lakecli.model import Commit, CommitId, StagingToken
    from lakecli.repository.lake import Repository

FOLLOWED: Final = "sync"
"""The kind of operation by which a branch followed the bucket."""

BASE: Final = 0.2
CAP: Final = 20.0
"""Seconds to wait after a lost race: at random up to BASE, doubled with each, up to CAP."""


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
        repository.publisher = self

    def begin(self) -> None:
        """Finish what was interrupted, fetch, and let local branches follow.

        Raises:
            Unreachable: the store does not answer; everything here is as it was.
            OutcomeUnknown: it is still not known whether an earlier move took place.
        """
        from lakecli.repository.pending import finish_pending

        finish_pending(self._repository)
        self.end()
        self._fetch_and_follow()

    def end(self) -> None:
        """Send what refs were moved here and not yet in the bucket.

        Raises:
            LostRace: somebody else moved one of them first; that one was not sent.
            OutcomeUnknown: the next command finds out.
            Unreachable: nothing was sent; the next command tries again.
        """
        for note in self._notes():
            self._send(note)

    def publish(
        self, branch: Branch, commit: Commit, *, kind: str, sealed: tuple[StagingToken, ...]
    ) -> bool:
        """Move a branch in the bucket to a commit, as `Publisher` has it."""
        from lakecli.remote.move import Outcome
        from lakecli.repository.publish import publish

        repository = self._repository
        with repository.lake.kv.read() as txn:
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
            local={"operation": kind, "sealed": [token.hex() for token in sealed]},
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
        longest = min(CAP, BASE * 2**self._lost)
        self._lost += 1
        self._sleep(longest * self._repository.lake.random_number())

    def _fetch_and_follow(self) -> None:
        from lakecli.repository.fetch import fetch

        fetch(self._repository)
        follow(self._repository)

    # -- notes of refs that are to be sent -----------------------------------------------------

    def _notes(self) -> list[_Note]:
        with self._repository.lake.kv.read() as txn:
            found = IntentStore(txn, self._repository.key).iter()
            return [
                _Note(note, fields["kind"], fields["name"], fields["operation"])
                for note, fields in found
                if fields.get(operations.UNSENT)
            ]

    def _send(self, note: _Note) -> None:
        from lakecli.remote.move import Outcome
        from lakecli.repository.publish import publish

        repository = self._repository
        with repository.lake.kv.read() as txn:
            refs = RefStore(txn, repository.key)
            found = (
                refs.find_branch(note.name) if note.kind == "branch" else refs.find_tag(note.name)
            )
            after = None if found is None else found.commit_id
            tracked = TrackingStore(txn, repository.key).find(note.kind, note.name)
            before = None if tracked is None else tracked.commit_id
        lost = False
        if before != after:
            result = publish(
                repository,
                note.kind,
                note.name,
                before=before,
                after=after,
                who=self._who(),
                why=note.operation,
                local=None,
            )
            lost = result.outcome != Outcome.APPLIED
        # Whatever came of it, it is not tried again: what was lost is told, and stays here.
        with repository.lake.kv.write() as txn:
            IntentStore(txn, repository.key).delete(note.id)
        if lost:
            raise LostRace(
                f"somebody else moved {note.kind} {note.name} first; what was done here stays here",
                hint=f"see how they differ: lakecli status {repository.uri}",
            )


class _Note(NamedTuple):
    """A ref that was moved here and is still to be moved in the bucket."""

    id: bytes
    kind: str
    name: str
    operation: str


def follow(repository: Repository) -> int:
    """Let local branches that have nothing of their own go where the bucket's are.

    New branches appear, deleted ones go unless something is staged on them.

    Returns:
        How many moved.
    """
    with repository.lake.kv.read() as txn:
        behind = [
            tracked
            for tracked in TrackingStore(txn, repository.key).iter("branch")
            if _differs(RefStore(txn, repository.key), tracked)
        ]
    if not behind:
        return 0
    with repository.lake.kv.write() as txn:
        unsent = {
            (fields["kind"], fields["name"])
            for _, fields in IntentStore(txn, repository.key).iter()
        }
        changes = [
            change
            for tracked in behind
            if ("branch", tracked.name) not in unsent
            and (change := _follow(txn, repository, tracked)) is not None
        ]
        if changes:
            operations.append(txn, repository, kind=FOLLOWED, refs=changes, is_shared=True)
    return len(changes)


def _differs(refs: RefStore, tracked: Tracked) -> bool:
    local = refs.find_branch(tracked.name)
    return (None if local is None else local.commit_id) != tracked.commit_id


def _follow(txn: WriteTransaction, repository: Repository, tracked: Tracked) -> RefChange | None:
    """Let one branch follow; return what changed, or ``None`` where it stays as it is."""
    from lakecli.staging import area

    refs = RefStore(txn, repository.key)
    before = refs.find_branch(tracked.name)
    if before is None:
        if tracked.commit_id is None:
            return None
        token = tokens.start(txn, repository, tracked.name, tracked.commit_id)
        after = Branch(tracked.name, tracked.commit_id, token)
        refs.put_branch(after)
        return operations.branch_change(None, after)
    if not _has_nothing_of_its_own(txn, repository, before, tracked):
        return None
    if tracked.commit_id is None:
        areas = (before.staging_token, *before.sealed_tokens)
        is_staged = any(not area.is_empty(txn, token) for token in areas)
        if is_staged or before.name == repository.record.default_branch:
            return None
        refs.delete_branch(before.name)
        return operations.branch_change(before, None)
    after = replace(before, commit_id=tracked.commit_id)
    refs.put_branch(after)
    follow_head(txn, before, after, is_ours=False)
    return operations.branch_change(before, after)


def _has_nothing_of_its_own(
    txn: WriteTransaction, repository: Repository, local: Branch, tracked: Tracked
) -> bool:
    """Whether the bucket has had all that a local branch has."""
    refs = RefStore(txn, repository.key)
    if tracked.commit_id is not None:
        if refs.find_commit(tracked.commit_id) is None:
            return False  # its pack was not there yet
        if is_ancestor(refs, local.commit_id, tracked.commit_id):
            return True
    # Somebody took a move back, or deleted the branch.
    moves = iter_moves(txn, repository.key, "branch", local.name)
    return any(local.commit_id in (move.before, move.after) for move in moves)

"""Automatic sharing: fetch before a command, push after it, one ref at a time.

`Synchroniser.begin` finishes what an interrupted command left, fetches, and lets local branches
follow the bucket. While it is attached to a repository, commits, merges and reverts move a branch
in the bucket before they move it here (`lakecli.repository.transaction`), and every other change of
a ref leaves a note in the transaction that makes it, which `end` sends. A command that is killed
in between leaves its note, or the intent of its move, to the next one.

A branch follows where it has nothing of its own: where it stands at an ancestor of the bucket's
position, or where the bucket itself once stood. Uncommitted changes stay on it; those that others
have overtaken are found when they are committed. A tag follows where the bucket's once stood.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.errors import (
    IntegrityError,
    LakeError,
    LostRace,
    NotFound,
    OutcomeUnknown,
    Unreachable,
)
from lakecli.kv.intents import IntentStore
from lakecli.kv.tracking import TrackingStore
from lakecli.model import Branch, Tag
from lakecli.refs.graph import is_ancestor
from lakecli.refs.store import RefStore
from lakecli.remote.known import iter_moves
from lakecli.repository import operations, tokens
from lakecli.repository.clean import unstage_unchanged
from lakecli.repository.sharing.under_way import CommitUnderWay
from lakecli.repository.transaction import follow_head, is_as_built

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.kv.env import ReadTransaction, WriteTransaction
    from lakecli.kv.operations import RefChange
    from lakecli.kv.tracking import Tracked
    from lakecli.model import Commit, CommitId, StagingToken
    from lakecli.repository.lake import Repository
    from lakecli.repository.sharing.pending import Finished


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
        self._left: dict[_Note, CommitId | None] = {}
        repository.publisher = self

    def begin(self) -> Resumed:
        """Finish what was interrupted, fetch, and let local refs follow.

        What earlier commands moved and could not send is sent. Where that fails it is told, and
        keeps nobody from going on.

        Raises:
            Unreachable: the store does not answer; everything here is as it was.
            PermissionDenied: reading or listing is not allowed, likewise.
        """
        from lakecli.repository.sharing.pending import finish_pending

        self._left = {note: self._position(note) for note in self._notes()}
        finished = finish_pending(self._repository)
        unsent: list[LakeError] = []
        for note in self._left:
            try:
                self._send(note)
            except Unreachable:
                raise
            except LakeError as error:
                unsent.append(error)
        self._fetch_and_follow()
        return Resumed(tuple(finished), tuple(unsent))

    def end(self) -> None:
        """Send what refs this command moved here.

        Raises:
            LostRace: somebody else moved one of them first; that one was not sent.
            OutcomeUnknown: the next command finds out.
            Unreachable, PermissionDenied, …: it was not sent; the next command tries again.
        """
        for note in self._notes():
            if note not in self._left or self._left[note] != self._position(note):
                self._send(note)

    def publish(
        self, branch: Branch, commit: Commit, *, kind: str, sealed: tuple[StagingToken, ...]
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
        from lakecli.remote.move import Retries

        Retries(random=self._repository.lake.random_number, sleep=self._sleep).pause(self._lost)
        self._lost += 1

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
        from lakecli.repository.sharing.publish import publish

        repository = self._repository
        with repository.lake.kv.read() as txn:
            tracked = TrackingStore(txn, repository.key).find(note.kind, note.name)
            before = None if tracked is None else tracked.commit_id
        after = self._position(note)
        lost = False
        if before != after:
            try:
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
            except OutcomeUnknown:
                raise
            except LakeError as error:
                raise _unsent(repository, note, error) from error
            lost = result.outcome != Outcome.APPLIED
        # Whatever came of it, it is not tried again: what was lost is told, and stays here.
        with repository.lake.kv.write() as txn:
            IntentStore(txn, repository.key).delete(note.id)
        if lost:
            raise LostRace(
                f"somebody else moved {note.kind} {note.name} first; what was done here stays here",
                hint=f"see how they differ: lakecli status {repository.uri}",
            )

    def _position(self, note: _Note) -> CommitId | None:
        """Return where a ref stands here."""
        with self._repository.lake.kv.read() as txn:
            refs = RefStore(txn, self._repository.key)
            find = refs.find_branch if note.kind == "branch" else refs.find_tag
            found = find(note.name)
        return None if found is None else found.commit_id


class Resumed(NamedTuple):
    """What became of that which earlier commands left.

    Attributes:
        finished: moves whose outcome was not written down.
        unsent: why refs that were moved here are not in the bucket.
    """

    finished: tuple[Finished, ...]
    unsent: tuple[LakeError, ...]


class _Note(NamedTuple):
    """A ref that was moved here and is still to be moved in the bucket."""

    id: bytes
    kind: str
    name: str
    operation: str


def _unsent(repository: Repository, note: _Note, error: LakeError) -> LakeError:
    """Return an error that says that a ref moved here, though not in the bucket."""
    error.message = f"{note.kind} {note.name} moved here, not yet in the bucket: {error.message}"
    error.args = (error.message,)
    help_first = "" if error.hint is None or isinstance(error, Unreachable) else f"{error.hint}; "
    error.hint = (
        f"{help_first}the next command tries again to send it; or take it back: "
        f"lakecli undo {repository.uri}"
    )
    return error


def follow(repository: Repository) -> int:
    """Let local refs that have nothing of their own go where the bucket's are.

    New ones appear, deleted ones go, but no branch that something is staged on.

    Returns:
        How many moved.
    """
    with repository.lake.kv.read() as txn:
        behind = [
            tracked
            for tracked in TrackingStore(txn, repository.key).iter()
            if _differs(RefStore(txn, repository.key), tracked)
        ]
    if not behind:
        return 0
    behind = [tracked for tracked in behind if _is_ready(repository, tracked)]
    with repository.lake.kv.write() as txn:
        unsent = {
            (fields["kind"], fields["name"])
            for _, fields in IntentStore(txn, repository.key).iter()
        }
        changes = [
            change
            for tracked in behind
            if (tracked.kind, tracked.name) not in unsent
            and (change := _FOLLOW[tracked.kind](txn, repository, tracked)) is not None
        ]
        if changes:
            operations.append(
                txn, repository, kind=operations.FOLLOWED, refs=changes, is_shared=True
            )
    return len(changes)


def _is_ready(repository: Repository, tracked: Tracked) -> bool:
    """Take off a branch that is to follow what is staged as it is committed.

    Returns:
        Whether it may follow; not if what is to be taken off cannot be told, or not be taken.
    """
    if tracked.kind != "branch" or tracked.commit_id is None:
        return True
    with repository.lake.kv.read() as txn:
        local = RefStore(txn, repository.key).find_branch(tracked.name)
        if local is None or not _has_nothing_of_its_own(txn, repository, local, tracked):
            return True
    try:
        unstage_unchanged(repository, tracked.name, tracked.commit_id)
    except (IntegrityError, NotFound, CommitUnderWay):
        return False
    return True


def _differs(refs: RefStore, tracked: Tracked) -> bool:
    find = refs.find_branch if tracked.kind == "branch" else refs.find_tag
    local = find(tracked.name)
    return (None if local is None else local.commit_id) != tracked.commit_id


def _follow_branch(
    txn: WriteTransaction, repository: Repository, tracked: Tracked
) -> RefChange | None:
    """Let a branch follow; return what changed, or ``None`` where it stays as it is."""
    from lakecli.staging import area

    refs = RefStore(txn, repository.key)
    before = refs.find_branch(tracked.name)
    if before is None:
        if tracked.commit_id is None or refs.find_tag(tracked.name) is not None:
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


def _follow_tag(
    txn: WriteTransaction, repository: Repository, tracked: Tracked
) -> RefChange | None:
    """Let a tag follow; return what changed, or ``None`` where it stays as it is."""
    refs = RefStore(txn, repository.key)
    before = refs.find_tag(tracked.name)
    if before is None:
        if tracked.commit_id is None or refs.find_branch(tracked.name) is not None:
            return None
    elif not _was_in_bucket(txn, repository, "tag", before):
        return None
    if tracked.commit_id is None:
        refs.delete_tag(tracked.name)
        return operations.tag_change(before, None)
    after = Tag(tracked.name, tracked.commit_id)
    refs.put_tag(after)
    return operations.tag_change(before, after)


_FOLLOW: Final = {"branch": _follow_branch, "tag": _follow_tag}


def _has_nothing_of_its_own(
    txn: ReadTransaction, repository: Repository, local: Branch, tracked: Tracked
) -> bool:
    """Whether the bucket has had all that a local branch has."""
    refs = RefStore(txn, repository.key)
    if tracked.commit_id is not None:
        if refs.find_commit(tracked.commit_id) is None:
            return False  # its pack was not there yet
        if is_ancestor(refs, local.commit_id, tracked.commit_id):
            return True
    # Somebody took a move back, or deleted the branch.
    return _was_in_bucket(txn, repository, "branch", local)


def _was_in_bucket(
    txn: ReadTransaction, repository: Repository, kind: str, local: Branch | Tag
) -> bool:
    """Whether the bucket's ref once stood where the one here does, as far as is known."""
    moves = iter_moves(txn, repository.key, kind, local.name)
    return any(local.commit_id in (move.before, move.after) for move in moves)

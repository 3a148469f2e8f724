"""Automatic sharing: fetch before a command, move branches in the bucket first, push after it.

A `Repository` has a `SharedMover` if the setting ``sync`` is ``auto``. `SharedMover.catch_up`
finishes the work of interrupted commands, fetches, and lets local refs follow the bucket. Commits,
merges and reverts move a branch in the bucket before they move the local branch. Every other move
of a ref writes a note in the transaction of the move, and `finish` sends the noted moves. If a
command is killed, the next command finds its notes and the intent of its move.

A branch follows the bucket if it has no commits that the bucket lacks: it is at an ancestor of the
bucket's commit, or at a former commit of the ref in the bucket. Uncommitted changes are kept; when
they are committed, conflicts are detected. A tag follows if it is at a former commit of the tag in
the bucket.

If `undo` or `op restore` undid a clone, fetch, pull or sync, the moved ref stays until it moves in
the bucket again, or until a pull.

A noted move is sent only if the bucket's ref is at the commit where the move began, if the move is
a fast-forward in the bucket, or if the bucket never had the ref (`judge`). Any other move is
refused with the error of `push`, once: the note is deleted, and the operation that moved the ref is
undone in this clone. The operation is not undone if other refs or later operations depend on the
refused move. Undo in the bucket sends noted moves, too, with or without automatic sharing.

`lakecli.repository.commit_attempts` describes the steps of a commit, when it is durable, and what a
crash leaves.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum, auto
from shlex import quote
from typing import NamedTuple

from lakecli import errors
from lakecli.base.model import Branch, Commit, CommitId, RefKind, Tag
from lakecli.errors import Forbidden, LakeError, LostRace, OutcomeUnknown, Unreachable
from lakecli.kv.bucket import LocalMove, Tracked, UnsentMove
from lakecli.kv.local_store import ReadTransaction, WriteTransaction
from lakecli.kv.operations import FOLLOWED, RefChange
from lakecli.refs.graph import is_ancestor
from lakecli.remote.refs import MoveOutcome
from lakecli.repository.contract import CaughtUp, Repository
from lakecli.repository.journal import intents, operation_log, tracking, unsent_moves
from lakecli.repository.journal.intents import CommitUnderWay, WantedMove, finish_pending
from lakecli.repository.journal.operation_log import Ref, follow_head, is_built_from
from lakecli.repository.sharing.fetch import fetch
from lakecli.repository.sharing.publish import compare_and_publish, refused
from lakecli.repository.staged.changes import unstage_unchanged
from lakecli.staging import area

PutBack = Callable[[Repository, UnsentMove, str], bool]
"""Undoes a local move that the bucket refuses, as a committer; returns whether it was undone."""


@dataclass(eq=False)
class SharedMover:
    """Moves branches in the bucket before the local branches, during one command.

    Args:
        command_id: random bytes that identify the command.
        who: returns the committer for the shared reflog; called only when a ref may be moved.
        put_back: undoes a local move that the bucket refuses.
        only: the branch that follows the bucket, and whose notes are sent; ``""``: all refs.
    """

    command_id: bytes
    _: KW_ONLY
    who: Callable[[], str]
    put_back: PutBack
    only: str = ""
    resumed: list[tuple[UnsentMove, LakeError | None]] = field(default_factory=list, init=False)
    _lost: int = field(default=0, init=False)

    def catch_up(self, repository: Repository) -> CaughtUp:
        """Finish the work of interrupted commands, fetch, and let local refs follow the bucket."""
        finished = finish_pending(repository)
        fetch(repository)
        errors: list[LakeError] = []
        self.resumed.clear()
        for note in unsent_notes(repository):
            if self.only not in ("", note.name):
                continue
            try:
                push_note(repository, note, who=self.who(), put_back=self.put_back)
            except Unreachable:
                raise
            except LakeError as error:
                errors.append(error)
                noted = {(each.kind, each.name) for each in unsent_notes(repository)}
                if (note.kind, note.name) not in noted:
                    self.resumed.append((note, error))
            else:
                self.resumed.append((note, None))
        follow(repository, only=self.only)
        return CaughtUp(tuple(finished), tuple(errors))

    def move(
        self, repository: Repository, branch: Branch, commit: Commit, landing: LocalMove
    ) -> bool:
        """Move a branch in the bucket, then the local branch; return whether both have moved."""
        with repository.lake.kv.read() as txn:
            present = repository.refs(txn).find_branch(branch.name)
            if present is None or not is_built_from(present, branch.commit_id, landing.sealed):
                return False  # another process of this machine has moved it, and may have fetched
            before = repository.tracking(txn).position(RefKind.BRANCH, branch.name)
            check_ahead(txn, repository, branch, before)
        with repository.lake.kv.write() as txn:
            if not operation_log.are_noted(txn, repository, landing.left):
                return False
            operation_log.note_copies(txn, repository, landing.left)
            repository.refs(txn).put_commit(commit)
        ends, who = (before, commit.id), self.who()
        wanted = WantedMove(RefKind.BRANCH, branch.name, *ends, who, landing.operation, landing)
        if compare_and_publish(repository, wanted).outcome == MoveOutcome.APPLIED:
            self._lost = 0
            return True
        intents.move_retries(repository).pause(self._lost)
        self._lost += 1
        fetch(repository)
        follow(repository, only=self.only)
        return False

    def finish(self, repository: Repository) -> None:
        """Send the noted moves of the refs that this command moved locally."""
        for note in unsent_notes(repository):
            if self.command_id.hex() in note.by:
                push_note(repository, note, who=self.who(), put_back=self.put_back)


def check_ahead(
    txn: ReadTransaction, repository: Repository, branch: Branch, before: CommitId | None
) -> None:
    """Refuse to move a branch in the bucket if the local branch lacks commits of that branch.

    Raises:
        LostRace: the local branch and the branch in the bucket have diverged.
    """
    refs = repository.refs(txn)
    if before is not None and not is_ancestor(refs, before, branch.commit_id):
        hint = f"merge them: `pull {repository.uri}/{branch.name}`"
        raise LostRace(f"branch {branch.name} here and in the bucket have diverged", hint=hint)


def follow(repository: Repository, *, only: str = "") -> None:
    """Move local refs that have no unpushed commits to the commits of the bucket's refs.

    New refs are created locally. Refs that were deleted in the bucket are deleted locally, except
    the default branch and branches with staged changes. Refs with unsent moves stay. So do refs
    that are held because `undo` or `op restore` has moved them (`unsent_moves.is_held`).

    Args:
        only: move only refs with this name; ``""``: all refs.
    """
    with repository.lake.kv.read() as txn:
        refs = repository.refs(txn)
        behind = [
            tracked
            for tracked in repository.tracking(txn).iter()
            if only in ("", tracked.name)
            and refs.position(tracked.kind, tracked.name) != tracked.commit_id
            and not _stays(txn, repository, tracked)
        ]
    if not behind:
        return
    behind = [tracked for tracked in behind if _is_ready(repository, tracked)]
    with repository.lake.kv.write() as txn:
        positions = repository.tracking(txn)
        changes = [
            change
            for tracked in behind
            # Another process may have pushed meanwhile: then `tracked` is outdated.
            if positions.find(tracked.kind, tracked.name) == tracked
            and not _stays(txn, repository, tracked)
            and (change := _follow(txn, repository, tracked)) is not None
        ]
        if changes:
            operation_log.append(txn, repository, kind=FOLLOWED, refs=changes)
            unsent_moves.drop_notes(txn, repository, changes)


def _is_ready(repository: Repository, tracked: Tracked) -> bool:
    """Prepare a branch to follow the bucket: remove its staged records that equal the head.

    Returns:
        Whether the branch may follow. It may not if a tree cannot be read, or if another process is
        committing the staged records.
    """
    if tracked.kind is not RefKind.BRANCH or tracked.commit_id is None:
        return True
    with repository.lake.kv.read() as txn:
        local = repository.refs(txn).find_branch(tracked.name)
        if local is None or not _may_follow(txn, repository, local, tracked):
            return True
    try:
        unstage_unchanged(repository, tracked.name, tracked.commit_id)
    except (errors.IntegrityError, errors.NotFound, CommitUnderWay):
        return False
    return True


def _stays(txn: ReadTransaction, repository: Repository, tracked: Tracked) -> bool:
    """Return whether a ref must not follow: it has an unsent or unfinished move, or is held."""
    key = (tracked.kind, tracked.name)
    return (
        unsent_moves.find_unsent(txn, repository, *key) is not None
        or unsent_moves.is_held(txn, repository, tracked)
        or intents.is_begun(txn, repository, *key)
    )


def _follow(txn: WriteTransaction, repository: Repository, tracked: Tracked) -> RefChange | None:
    """Move a ref to its commit in the bucket; return the change, or ``None`` if the ref stays."""
    refs, name, head = repository.refs(txn), tracked.name, tracked.commit_id
    branch, tag = refs.find_branch(name), refs.find_tag(name)
    before: Ref | None = branch if tracked.kind is RefKind.BRANCH else tag
    after: Ref | None = None
    if before is None:
        if head is None or branch is not None or tag is not None:
            return None
        after = Tag(name, head)
        if tracked.kind is RefKind.BRANCH:
            after = operation_log.new_branch(txn, repository, name, head)
    elif not _may_follow(txn, repository, before, tracked):
        return None
    elif head is not None:
        after = before._replace(commit_id=head)
    change = operation_log.change_ref(txn, repository, before, after)
    if before is not None and isinstance(after, Branch):
        follow_head(txn, after)
    return change


def _may_follow(txn: ReadTransaction, repository: Repository, local: Ref, tracked: Tracked) -> bool:
    """Return whether a ref in the bucket has, or once had, all commits of the local ref.

    The default branch, and a branch with staged changes, do not follow a deletion.
    """
    refs, head = repository.refs(txn), tracked.commit_id
    if isinstance(local, Branch) and head is None:
        if local.name == repository.record.default_branch or not area.is_clean(txn, local):
            return False
    elif isinstance(local, Branch) and head is not None:
        if refs.find_commit(head) is None:
            return False  # its pack is not listed yet
        if is_ancestor(refs, local.commit_id, head):
            return True
    # The ref may have been moved back or deleted in the bucket.
    return _was_there(txn, repository, tracked.kind, local.name, local.commit_id)


def _was_there(
    txn: ReadTransaction, repository: Repository, kind: RefKind, name: str, commit_id: CommitId
) -> bool:
    """Return whether a ref in the bucket is known to have been at a commit."""
    moves = tracking.iter_known_moves(txn, repository, kind, name)
    return any(commit_id in (move.before, move.after) for move in moves)


class SendDecision(Enum):
    """Whether a local move of a ref may be made in the bucket."""

    SEND = auto()
    NOTHING = auto()
    """The bucket has the move already, perhaps with later moves."""
    REFUSE = auto()
    """The bucket's ref is at another commit: the move would undo or delete moves of others."""


class Sent(NamedTuple):
    """The result of sending a noted move.

    Attributes:
        verdict: ``NOTHING``: the bucket has the move, or nothing was left to send; ``REFUSE``: the
            bucket's ref is at another commit, and the note was deleted.
        there: the commit of the ref in the bucket, as far as is known.
        way_back: the note of the reverse move, if another process has undone the local move since.
        why: the error that names the rule, if a rule forbids the move.
    """

    verdict: SendDecision
    there: CommitId | None
    way_back: UnsentMove | None = None
    why: Forbidden | None = None


def unsent_notes(repository: Repository) -> list[UnsentMove]:
    """Return the notes, deletions last, so that a renamed branch never vanishes from the bucket."""
    with repository.lake.kv.read() as txn:
        notes = list(unsent_moves.iter_unsent(txn, repository))
    return sorted(notes, key=lambda note: note.after is None)


def push_note(
    repository: Repository, note: UnsentMove, *, who: str, put_back: PutBack | None = None
) -> None:
    """Make a noted move in the bucket, unless it would undo moves of others.

    Args:
        who: the committer for the shared reflog.
        put_back: called with the refused move and `who`; it undoes the operation that moved the
            ref, and returns whether it did. If `put_back` is ``None``, the local move stays.

    Raises:
        LostRace, AlreadyExists: the move would undo moves of others; the note was deleted.
        Forbidden: the rules of the bucket forbid the move; the note was deleted.
        OutcomeUnknown, Unreachable, PermissionDenied, …: the note is kept.
    """
    try:
        sent = send_note(repository, note, who=who)
    except OutcomeUnknown:
        raise
    except LakeError as error:
        raise not_yet_sent(repository, note, error) from error
    if sent.verdict is SendDecision.REFUSE:
        refusal = not_sent(repository, note, sent.there, sent.why)
        if put_back is not None and put_back(repository, note, who):
            say_undone(refusal, note)
            if note.after is not None and sent.why is None:  # the hint is about the undone move
                there = quote(f"{repository.uri}/{note.name}")
                refusal.hint = f"see what others have there, then decide: `log {there}`"
        raise refusal
    if sent.way_back is not None:
        push_note(repository, sent.way_back, who=who)


def send_note(repository: Repository, note: UnsentMove, *, who: str) -> Sent:
    """Make a noted move in the bucket, unless it would undo moves of others; return the result.

    Raises:
        OutcomeUnknown, Unreachable, PermissionDenied, …: as raised by `publish`; the note is kept.
    """
    with repository.lake.kv.read() as txn:
        there = repository.tracking(txn).position(note.kind, note.name)
        if unsent_moves.find_unsent(txn, repository, note.kind, note.name) is None:
            return Sent(SendDecision.NOTHING, there)  # it was deleted since it was read
        verdict = judge(txn, repository, note, there)
    was_sent, why = verdict is SendDecision.SEND, None
    if was_sent:
        try:
            verdict, there = _move(repository, note, there, who=who)
        except Forbidden as error:
            verdict, why = SendDecision.REFUSE, error
    with repository.lake.kv.write() as txn:
        way_back = None
        if was_sent and verdict is SendDecision.NOTHING:
            way_back = unsent_moves.note_taken_back(txn, repository, note)
            unsent_moves.renew_hold(txn, repository, note.kind, note.name)
        unsent_moves.forget(txn, repository, note)
        if verdict is SendDecision.REFUSE:
            unsent_moves.forget_renaming(txn, repository, note)
    return Sent(verdict, there, way_back, why)


def judge(
    txn: ReadTransaction, repository: Repository, move: UnsentMove, there: CommitId | None
) -> SendDecision:
    """Decide whether a move may be made in the bucket.

    Args:
        txn: the state of the local store, with the history of `there`.
        there: the commit of the ref in the bucket; ``None``: the bucket does not have the ref.
    """
    before, after = move.before, move.after
    if there == after:
        return SendDecision.NOTHING
    was_pushed = repository.tracking(txn).find(move.kind, move.name) is not None
    if there in (before, move.lease or before) or (there is None and not was_pushed):
        return SendDecision.SEND
    # Two branches that were created independently under one name are unrelated.
    if move.kind is RefKind.TAG or there is None or before is None or after is None:
        return SendDecision.REFUSE
    refs = repository.refs(txn)
    goes_back = is_ancestor(refs, after, before)
    if goes_back and is_ancestor(refs, before, there):
        return SendDecision.REFUSE
    if is_ancestor(refs, there, after):
        # Others have moved the branch back already: do not bring removed commits back.
        was_there = goes_back and _was_there(txn, repository, move.kind, move.name, before)
        return SendDecision.NOTHING if was_there else SendDecision.SEND
    return SendDecision.NOTHING if is_ancestor(refs, after, there) else SendDecision.REFUSE


def _move(
    repository: Repository, note: UnsentMove, there: CommitId | None, *, who: str
) -> tuple[SendDecision, CommitId | None]:
    """Make a move in the bucket; return the result, and the ref's commit in the bucket."""
    wanted = WantedMove(note.kind, note.name, there, note.after, who, note.operation)
    result = compare_and_publish(repository, wanted)
    if result.outcome == MoveOutcome.APPLIED:
        return SendDecision.NOTHING, note.after
    there = None if result.ref is None else result.ref.commit_id
    with repository.lake.kv.read() as txn:
        here = repository.refs(txn).position(note.kind, note.name)
    if there not in (note.after, here):
        return SendDecision.REFUSE, there
    # Another process of this machine has sent this move, or a later move of the ref.
    tracking.track_now(repository, result.ref)
    return SendDecision.NOTHING, there


def not_yet_sent(repository: Repository, note: UnsentMove, error: LakeError) -> LakeError:
    """Reword an error: the ref moved locally, but not yet in the bucket. Return the same error."""
    _reword(error, f"{note.kind} {note.name} moved here, not yet in the bucket: {error.message}")
    help_first = "" if error.hint is None or isinstance(error, Unreachable) else f"{error.hint}; "
    retry = f"{help_first}the next command tries again to push it"
    error.hint = f"{retry}; or undo it: `undo {repository.uri}`"
    return error


def not_sent(
    repository: Repository, note: UnsentMove, there: CommitId | None, why: LakeError | None = None
) -> LakeError:
    """Return the error for a local move that the bucket refuses."""
    error = why or refused(repository, note.kind, note.name, before=there, after=note.after)
    done = "moved" if note.after else "deleted"
    _reword(error, f"{note.kind} {note.name} was {done} here, not in the bucket: {error.message}")
    return error


def say_undone(error: LakeError, move: UnsentMove) -> None:
    """Add to the error about a refused move that the local move was undone."""
    _reword(error, f"{error.message}; this is undone here: {move.operation}")


def _reword(error: LakeError, message: str) -> None:
    error.message = message
    error.args = (message,)

"""Move refs in the bucket, and record begun moves as intents until their outcome is recorded.

This clone moves refs in the bucket only by `make_move`. Each intent has a random write ID, and is
written to the local store before the first request that moves the ref. So after a crash the next
command can find out whether the ref moved, and can repeat the move with the same write ID. If the
move publishes a commit that was built here, the intent also records the `LocalMove` that follows on
this machine.

A shared commit is recorded as an intent, then sent to the bucket, then landed here: the local
branch moves to the commit. Between the first request and the outcome, the branch must keep the head
and the sealed areas that the commit was built from. Otherwise a reset or undo would report success,
and the commit would still arrive in the bucket with the discarded changes.

- Right before each request `_mark_sent` compares the branch with the head and areas that the commit
  was built from, in the transaction that marks the intent as sent. If a command has already changed
  the branch, the commit is outdated and is built again.
- A command that would change the branch later finds the mark (`check_none_sent`) and asks the
  bucket whether the commit arrived. The command is refused if the answer is not yet known
  (`when_none_under_way`).
- An explicit push is marked in the same way, if the local ref contains the commit to be pushed.
  While the outcome is unknown, an undo that would move the ref behind that commit is refused
  (`check_none_taken_back`).
- A mark older than `STALE_AFTER` was left by a process that was killed. Its intent is deleted. If
  the process is still running, it finds no intent before its next request and gives up.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar

from lakecli.base.ids import MalformedId, PackId, WriteId
from lakecli.base.model import Branch, Commit, CommitId, RefKind
from lakecli.base.retry import REF_MOVES, Retries
from lakecli.errors import IntegrityError, LakeError, LostRace, Unreachable
from lakecli.kv.bucket import IntentStore, LocalMove
from lakecli.kv.local_store import ReadTransaction, WriteTransaction
from lakecli.kv.operations import LEFT, MOVE, iter_operations
from lakecli.refs.graph import is_ancestor
from lakecli.refs.ref_store import RefStore
from lakecli.remote import refs as remote_refs
from lakecli.remote.refs import Intent, MoveOutcome, MoveResult, RefMove, find_ref, sequence_of
from lakecli.repository.contract import FinishedMove, Repository
from lakecli.repository.journal import bucket_state, operation_log, tracking, unsent_moves
from lakecli.repository.journal.operation_log import follow_head, is_built_from

_ID_FIELD: Final = "write_id"
"""The field that marks a row as an intent; a row without it is a note of `unsent_moves`."""


class WantedMove(NamedTuple):
    """A move of a ref in the bucket that a command wants to make.

    Attributes:
        kind: a branch or a tag.
        before: the commit that the ref in the bucket must have; ``None``: the ref must not exist.
        after: the new commit, which is in the local store; ``None`` deletes the ref.
        who: ``Name <email>``, for the shared reflog.
        why: the reason for the move, for the shared reflog.
        landing: the local changes to make in the transaction that records the outcome, now or in
            the next command. ``None``: only append a ``push`` to the operation log.
    """

    kind: RefKind
    name: str
    before: CommitId | None
    after: CommitId | None
    who: str
    why: str
    landing: LocalMove | None = None


class Begun(NamedTuple):
    """A move of a ref in the bucket that this clone has begun.

    Attributes:
        landing: the local changes to make once the bucket has accepted the commit; ``None`` for a
            push, which sends changes that are already made here.
        sent: when the last request of the move was sent, by this machine's clock; ``None`` if no
            request was sent, or if the local ref may change before the outcome is known.
    """

    intent: Intent
    landing: LocalMove | None
    sent: datetime | None = None

    @property
    def id(self) -> bytes:
        """The key of the move's row in the local store."""
        return bytes.fromhex(self.intent.write_id)

    @property
    def ref(self) -> tuple[RefKind, str]:
        """The kind and name of the moved ref."""
        return self.intent.kind, self.intent.name


def make_move(
    repository: Repository, wanted: WantedMove, *, pack: PackId | None = None, is_push: bool = False
) -> MoveResult:
    """Move a ref in the bucket by compare-and-set, and record the outcome.

    A move that an earlier command began keeps its write ID, so it cannot be made twice.

    Args:
        wanted: the move; all objects that it makes reachable are in the bucket.
        is_push: whether this is an explicit push: the local ref is at `WantedMove.after`. If the
            local ref is moved back before the request, nothing is sent. After the request,
            moving the local ref back is refused until the outcome is known.

    Returns:
        The present ref in the bucket, and the outcome: ``APPLIED`` or ``LOST``. It is ``LOST`` if
        the ref was not at `WantedMove.before`, if the local branch has changed since the commit was
        built, or if the local ref of a push was moved back.

    Raises:
        OutcomeUnknown: the intent is kept, and the next command finds out whether the ref moved.
        Forbidden: the rules of the bucket forbid the move. Either nothing was sent, or a newly
            created ref was deleted again.
        Unreachable, PermissionDenied, …: nothing was sent. The intent is deleted, unless an earlier
            command may have sent it, or the local store has failed.
    """
    from lakecli.repository.policy.judge import check_move  # not for commits on this machine

    lake = repository.lake
    lake.runtime.on_step("intent")
    lake.runtime.on_step("read")
    ref = find_ref(repository.store, wanted.kind, wanted.name)
    fields = wanted._asdict()
    landing = fields.pop("landing")
    write_id, at = WriteId.of_bytes(lake.runtime.new_id()), lake.runtime.now()
    intent = Intent(**fields, write_id=write_id, at=at, pack=pack or "", since=sequence_of(ref))
    begun = Begun(intent, landing)
    with lake.kv.write() as txn:
        same = [each for each in iter_begun(txn, repository) if _is_same(each, begun)]
        if not same:
            write_down(txn, repository, begun)
    begun = same[0] if same else begun

    lake.runtime.on_step("move")
    retries, on_step = move_retries(repository), lake.runtime.on_step
    move = RefMove(repository.store, begun.intent, ref, retries=retries, on_step=on_step)
    needs_mark = is_push or wanted.landing is not None
    number = 0
    while (result := move.outcome()) is None:
        try:
            number = check_move(repository, begun.intent, move.seen).number
        except LakeError as error:
            move.give_up(error)
            continue
        if not needs_mark or _mark_sent(repository, begun):
            move.send(policy=number)
        else:
            move.give_up()
    if ref is None and not isinstance(result, LakeError):
        result = _withdraw_if_forbidden(repository, begun, result, number) or result
    if isinstance(result, LakeError):
        if not same:
            with lake.kv.write() as txn:
                IntentStore(txn, repository.key).delete(begun.id)
        raise result
    lake.runtime.on_step("track")
    with lake.kv.write() as txn:
        record_outcome(txn, repository, begun, result)
    return result


def _withdraw_if_forbidden(
    repository: Repository, begun: Begun, result: MoveResult, judged: int
) -> LakeError | None:
    """Delete a ref that was just created if newer rules forbid it; return the reason, or ``None``.

    Args:
        judged: the version number of the rules that allowed the move.
    """
    intent = begun.intent
    if result.outcome is not MoveOutcome.APPLIED or intent.before is not None:
        return None
    from lakecli.repository.policy.judge import WITHDRAWN, check_created

    refusal = check_created(repository, intent, result.ref, judged)
    if refusal is not None:
        write_id = WriteId.of_bytes(repository.lake.runtime.new_id())
        way_back = intent._replace(write_id=write_id, before=intent.after, after=None)
        way_back = way_back._replace(why=WITHDRAWN, since=sequence_of(result.ref))
        move = RefMove(repository.store, way_back, result.ref, retries=move_retries(repository))
        while (done := move.outcome()) is None:
            move.send(policy=0 if result.ref is None else result.ref.policy)
        if isinstance(done, LakeError):
            raise done
    return refusal


def move_retries(repository: Repository) -> Retries:
    """Return the policy by which moves of refs in the bucket are repeated."""
    runtime = repository.lake.runtime
    return Retries(REF_MOVES, sleep=runtime.sleep, random=runtime.random_number)


def _is_same(begun: Begun, wanted: Begun) -> bool:
    what = attrgetter("landing", "ref", "intent.before", "intent.after")
    return bool(what(begun) == what(wanted))


def iter_begun(txn: ReadTransaction, repository: Repository) -> Iterator[Begun]:
    """Yield the moves that were begun, and whose outcome is not yet recorded."""
    for _, fields in IntentStore(txn, repository.key).iter():
        if _ID_FIELD in fields:
            yield _load(fields)


def is_begun(txn: ReadTransaction, repository: Repository, kind: RefKind, name: str) -> bool:
    """Return whether a move of a ref was begun, and its outcome is not yet recorded."""
    return any(each.ref == (kind, name) for each in iter_begun(txn, repository))


def write_down(txn: WriteTransaction, repository: Repository, begun: Begun) -> None:
    """Record a move before it is sent; delete the ref's recorded moves that were never sent.

    Records of sent moves are kept, since another process may be waiting for the outcome.
    """
    rows = IntentStore(txn, repository.key)
    for other in list(iter_begun(txn, repository)):
        if other.ref == begun.ref and other.sent is None:
            rows.delete(other.id)
    _put(txn, repository, begun)


def record_outcome(
    txn: WriteTransaction, repository: Repository, begun: Begun, result: MoveResult
) -> None:
    """Record the outcome of a move, and make its local changes; a repeated call changes nothing."""
    is_new = IntentStore(txn, repository.key).delete(begun.id)
    intent = begun.intent
    # If somebody else moved the ref, only a fetch records that: a lease is the last fetched commit.
    if result.outcome != MoveOutcome.APPLIED:
        return
    if result.ref is not None:
        tracking.track(txn, repository, result.ref)
    bucket_state.put_pushed_at(txn, repository, repository.lake.runtime.now())
    if begun.landing is None:
        if not is_new:
            return  # another process has recorded it
        metadata = {"ref": intent.name, "kind": intent.kind, MOVE: intent.write_id}
        metadata |= {"before": intent.before or "", "after": intent.after or ""}
        operation_log.append(txn, repository, kind="push", metadata=metadata)
    elif intent.after is not None and (is_new or not _was_landed(txn, repository, begun)):
        # Another process may have landed the commit, or deleted the intent for another move. Then
        # `_land` changes nothing, or makes the missing changes. But a commit that was landed before
        # may have been undone since, so it is not landed again.
        commit = repository.refs(txn).get_commit(intent.after)
        _land(txn, repository, intent.name, commit, begun.landing, move=intent.write_id)


def land(repository: Repository, built_on: Branch, commit: Commit, landing: LocalMove) -> bool:
    """Move a local branch to a new commit; return whether the branch moved.

    Callers use this function only without automatic sharing. The branch does not move if its head
    or its oldest sealed tokens have changed since the commit was built, or if housekeeping has
    deleted the copies of staged changes as abandoned.

    Raises:
        CommitUnderWay: another process is sending a commit of the branch to the bucket.
    """

    def move() -> bool:
        with repository.lake.kv.write() as txn:
            check_none_sent(txn, repository, built_on.name, ignores_stale=True)
            present = repository.refs(txn).find_branch(built_on.name)
            if present is None or not is_built_from(present, built_on.commit_id, landing.sealed):
                return False
            if not operation_log.are_noted(txn, repository, landing.left):
                return False
            _land(txn, repository, built_on.name, commit, landing)
        return True

    repository.lake.runtime.on_step("move")
    return when_none_under_way(repository, move)


def _land(
    txn: WriteTransaction,
    repository: Repository,
    branch: str,
    commit: Commit,
    landing: LocalMove,
    *,
    move: str = "",
) -> None:
    """Move a branch to a commit built from it, in one operation; a repeated call changes nothing.

    If the branch is no longer at a parent of the commit, only the sealed tokens of the commit are
    removed from it. The branch then has followed the bucket, has later commits, or has diverged,
    which `status` shows. If the branch was deleted, only the commit is written.

    Args:
        move: the write ID of the move in the bucket; ``""`` if the bucket does not have the commit.
    """
    refs = repository.refs(txn)
    before = refs.find_branch(branch)
    refs.put_commit(commit)
    if before is None:
        return
    sealed = [token for token in before.sealed_tokens if token in landing.sealed]
    kept = [token for token in before.sealed_tokens if token not in landing.sealed]
    # If the sealed tokens are gone, their changes were discarded or have landed, and so have the
    # copies of the changes that stay staged.
    left = landing.left if sealed else ()
    moves = before.commit_id in commit.parents
    if not moves and not sealed:
        return
    head, kind = commit.id if moves else before.commit_id, landing.operation
    after = before._replace(commit_id=head, sealed_tokens=(*kept, *left))
    change = operation_log.change_ref(txn, repository, before, after)
    for token in left:
        operation_log.settle_copy(txn, repository, token)
    follow_head(txn, after, since=before.commit_id if landing.from_staging else None)
    metadata = ({LEFT: "true"} if left else {}) | ({MOVE: move} if move else {})
    operation_log.append(
        txn, repository, kind=kind, refs=[change], sealed=sealed, metadata=metadata
    )
    if move:
        unsent_moves.drop_notes(txn, repository, [change])
    else:
        unsent_moves.extend(txn, repository, change, kind)


def _was_landed(txn: WriteTransaction, repository: Repository, begun: Begun) -> bool:
    """Return whether an operation in the log has moved the local branch to the sent commit."""
    wanted = (RefKind.BRANCH, begun.intent.name, begun.intent.after)
    return any(
        (change.kind, change.name, change.commit_after) == wanted
        for operation in iter_operations(txn, repository.key)
        for change in operation.refs
    )


def _put(txn: WriteTransaction, repository: Repository, begun: Begun) -> None:
    fields = {
        **begun.intent._asdict(),
        "at": int(begun.intent.at.timestamp()),
        "local": None if begun.landing is None else begun.landing.to_fields(),
        "sent": None if begun.sent is None else int(begun.sent.timestamp()),
    }
    IntentStore(txn, repository.key).put(begun.id, fields)


def _load(row: Mapping[str, Any]) -> Begun:
    try:
        fields = {name: row[name] for name in Intent._fields}
        fields |= {name: row[name] and CommitId(row[name]) for name in ("before", "after")}
        fields |= {"kind": RefKind(row["kind"]), "write_id": WriteId(row["write_id"])}
        fields |= {"pack": row["pack"] and PackId(row["pack"])}
        intent = Intent(**fields | {"at": datetime.fromtimestamp(row["at"], UTC)})
        landing = None if row["local"] is None else LocalMove.from_fields(row["local"])
        sent = None if row["sent"] is None else datetime.fromtimestamp(row["sent"], UTC)
    except (KeyError, TypeError, ValueError, MalformedId) as error:
        raise IntegrityError(
            f"an unfinished move of {row.get('kind')} {row.get('name')} in the local store cannot "
            f"be read: {error}",
            hint="the store may be damaged: move it away and clone the repository again",
        ) from error
    return Begun(intent, landing, sent)


def finish_pending(repository: Repository) -> list[FinishedMove]:
    """Find the outcomes of the moves that interrupted commands began, and record them.

    The bucket is read only if there are such moves. Nothing is sent: a move whose outcome is
    unknown is sent again when the command that began it is repeated.

    Raises:
        Unreachable: the store does not answer; nothing changed.
    """
    with repository.lake.kv.read() as txn:
        begun = list(iter_begun(txn, repository))
    return [FinishedMove(each.intent, _find_outcome(repository, each)) for each in begun]


def _find_outcome(repository: Repository, begun: Begun) -> MoveOutcome:
    """Find the outcome of an interrupted move in the bucket, and record it."""
    result = remote_refs.look_up_move(repository.store, begun.intent)
    if result is None:
        return MoveOutcome.OPEN
    seen = 0 if result.ref is None else result.ref.policy
    if _withdraw_if_forbidden(repository, begun, result, seen) is not None:
        result = MoveResult(MoveOutcome.LOST, result.ref)
    repository.lake.runtime.on_step("track")
    with repository.lake.kv.write() as txn:
        record_outcome(txn, repository, begun, result)
    return result.outcome


R = TypeVar("R")

STALE_AFTER: Final = timedelta(minutes=5)
"""The age at which a sent mark is stale. A request takes less time, and its repetition renews the
mark."""


class CommitUnderWay(LostRace):
    """Another process is sending a commit, or pushing a ref, to the bucket."""


def _mark_sent(repository: Repository, begun: Begun) -> bool:
    """Mark a move as sent, right before its request, if the local ref still allows the move.

    A commit is allowed if the local branch is unchanged since the commit was built. A push is
    allowed if the local ref is at the pushed commit, or is a branch with later commits on top of
    the pushed commit.

    Returns:
        Whether the move was marked, and may be sent.
    """
    intent, landing = begun.intent, begun.landing
    if intent.after is None:
        return False
    with repository.lake.kv.write() as txn:
        refs = repository.refs(txn)
        if landing is None:
            is_allowed = _stands_for(refs, intent, refs.position(intent.kind, intent.name))
        else:
            branch = refs.find_branch(intent.name)
            built_on = refs.get_commit(intent.after).parents[0]
            is_allowed = branch is not None and is_built_from(branch, built_on, landing.sealed)
        if not is_allowed or IntentStore(txn, repository.key).find(begun.id) is None:
            return False  # without an intent: another process has deleted it
        _put(txn, repository, begun._replace(sent=repository.lake.runtime.now()))
    repository.lake.runtime.on_step("send")
    return True


def check_none_sent(
    txn: WriteTransaction, repository: Repository, branch: str, *, ignores_stale: bool = False
) -> None:
    """Before a branch is changed, raise `CommitUnderWay` if a commit of the branch is being sent.

    Args:
        ignores_stale: ignore moves with a stale mark, and leave them to a later command.
    """
    for begun in _iter_sent(txn, repository, RefKind.BRANCH, branch):
        is_ignored = ignores_stale and _is_stale(repository, begun)
        if begun.landing is not None and not is_ignored:
            raise _under_way(begun, begun.landing.operation)


def check_none_taken_back(
    txn: WriteTransaction, repository: Repository, kind: RefKind, name: str, *, to: CommitId | None
) -> None:
    """Raise `CommitUnderWay` if moving a local ref would undo a commit that is being pushed.

    Args:
        to: the commit that the ref would move to; ``None``: the ref would be deleted.
    """
    refs = repository.refs(txn)
    for begun in _iter_sent(txn, repository, kind, name):
        if begun.landing is None and not _stands_for(refs, begun.intent, to):
            raise _under_way(begun, "push")


def _iter_sent(
    txn: WriteTransaction, repository: Repository, kind: RefKind, name: str
) -> Iterator[Begun]:
    """Yield the moves of a ref that were sent and whose outcome is not yet recorded."""
    for begun in iter_begun(txn, repository):
        if begun.sent is not None and begun.ref == (kind, name):
            yield begun


def _is_stale(repository: Repository, begun: Begun) -> bool:
    """Return whether a move was sent so long ago that its process must have ended."""
    assert begun.sent is not None
    return abs(repository.lake.runtime.now() - begun.sent) > STALE_AFTER


def _stands_for(refs: RefStore, intent: Intent, position: CommitId | None) -> bool:
    """Return whether a local ref at `position` still contains the commit that a push sends.

    The ref contains it if the ref is at the pushed commit, or is a branch with later commits on top
    of it. For the push of a deletion, the result is always true. If a push moves a branch back, the
    commits that it removes are also descendants of the pushed commit. If the local branch is at one
    of them, or at a descendant of the branch's old commit, somebody has moved the branch forward
    again, and the result is false.
    """
    before, after = intent.before, intent.after
    if after is None or position == after:
        return True
    is_branch = intent.kind is RefKind.BRANCH
    if position is None or not is_branch or not is_ancestor(refs, after, position):
        return False
    if before is None or is_ancestor(refs, before, after):
        return True
    return not (is_ancestor(refs, before, position) or is_ancestor(refs, position, before))


def _under_way(begun: Begun, what: str) -> CommitUnderWay:
    minutes = STALE_AFTER // timedelta(minutes=1)
    kind, name, after = begun.intent.kind, begun.intent.name, begun.intent.after
    return CommitUnderWay(
        f"a {what} of {kind} {name} is on its way to the bucket: {after}",
        hint="nothing was changed here; try again when it has ended, or after "
        f"{minutes} minutes if it was interrupted",
    )


def when_none_under_way(repository: Repository, act: Callable[[], R]) -> R:
    """Call `act`, which changes local refs; if it raises `CommitUnderWay`, call it once more.

    Before the second call, the outcomes of unfinished moves are recorded. Stale moves whose outcome
    is unknown are deleted.

    Raises:
        CommitUnderWay: the commit or push is still under way, or the bucket cannot be read; nothing
            was changed.
    """
    try:
        return act()
    except CommitUnderWay as under_way:
        try:
            finish_pending(repository)
        except Unreachable:
            raise under_way from None
    with repository.lake.kv.write() as txn:
        for begun in list(iter_begun(txn, repository)):
            if begun.sent is not None and _is_stale(repository, begun):
                IntentStore(txn, repository.key).delete(begun.id)
    return act()

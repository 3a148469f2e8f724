"""Move refs in the bucket to where they stand here: Git's ``push``.

A branch moves forward only, to a commit that reaches what the bucket has. Anything else is refused,
and `pull` merges. With a lease, a ref is moved or deleted if it still stands where this clone last
saw it, or where the caller says. A tag is made once, and moved with a lease only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from shlex import quote
from typing import Final, NamedTuple

from lakecli.base.model import NAMED_KINDS, Branch, CommitId, RefKind
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.errors import (
    AlreadyExists,
    LakeError,
    LostRace,
    NotFound,
    OutcomeUnknown,
    Refused,
    is_interrupt,
)
from lakecli.kv.bucket import TrackingStore, UnsentMove
from lakecli.kv.local_store import ReadTransaction
from lakecli.refs.graph import is_ancestor
from lakecli.refs.ref_store import RefStore
from lakecli.remote.ref_records import RemoteRef
from lakecli.remote.refs import MoveOutcome, find_ref
from lakecli.repository.branch import reset
from lakecli.repository.contract import FinishedMove, Notice, Repository
from lakecli.repository.handle.namespace import check_readable
from lakecli.repository.journal import tracking
from lakecli.repository.journal.intents import WantedMove, finish_pending
from lakecli.repository.policy.judge import Forbidden
from lakecli.repository.sharing.automatic import say_undone
from lakecli.repository.sharing.fetch import fetch, take_packs
from lakecli.repository.sharing.publish import Unverified, publish, refused, stale
from lakecli.repository.undo.pushed_refs import RESET
from lakecli.repository.undo.remote_undo import put_back

SAME_NAME: Final = "a branch has the same name here and in the bucket: `push BRANCH`"
MAX_ATTEMPTS: Final = 8
"""How often others may move a ref while it is pushed, each time to an ancestor of it."""


class Pushing(StrEnum):
    """What a push does to a ref."""

    CREATED = "created"
    UPDATED = "updated"
    FORCED = "forced"
    DELETED = "deleted"
    UP_TO_DATE = "up to date"
    BEHIND = "behind"
    """The bucket has it and more, so there is nothing to push."""


class PushLease(NamedTuple):
    """Where a ref has to stand in the bucket for a forced move.

    Attributes:
        commit_id: the commit; ``None``: where this clone last saw the ref.
    """

    commit_id: CommitId | None = None


@dataclass(frozen=True, slots=True)
class PushOptions:
    """How to push.

    Attributes:
        who: ``Name <email>``, for the shared reflog.
        lease: allows moves that are not fast-forwards; ``None``: they are refused.
        dry_run: only find out what would be done.
    """

    who: str
    lease: PushLease | None = None
    dry_run: bool = False


class RefPush(NamedTuple):
    """What a push did to one ref.

    Attributes:
        kind: branch or tag.
        name: name of the branch or tag.
        before: its commit in the bucket before; null if it was not there.
        after: its commit there now; null if it was deleted.
        state: created, updated, forced, deleted, up to date or behind.
    """

    kind: RefKind
    name: str
    before: CommitId | None
    after: CommitId | None
    state: Pushing


class PushFailure(NamedTuple):
    """A ref that was not pushed, and why.

    Attributes:
        kind: branch or tag.
        name: name of the branch or tag.
        error: the reason.
    """

    kind: RefKind
    name: str
    error: LakeError


class PushReport(NamedTuple):
    """What a push did to all refs."""

    pushed: tuple[RefPush, ...]
    failed: tuple[PushFailure, ...]


def push(
    repository: Repository,
    name: str,
    *,
    kind: RefKind | None = None,
    options: PushOptions,
    moved: tuple[CommitId, CommitId] | None = None,
) -> RefPush:
    """Move a branch or a tag in the bucket to where it stands here.

    Args:
        kind: a branch or a tag; ``None``: whichever exists, a branch first.
        moved: where the branch stood here before and after the move that is to be pushed; another
            process may have put it back since.

    Raises:
        LostRace: another process has put the branch back here.
        NotFound: no such ref here; the message names an interrupted push of it.
        NonFastForward: the bucket has commits that the branch does not reach.
        StaleLease: the ref does not stand where the lease says.
        AlreadyExists: the tag is in the bucket already, on another commit.
        CannotShare, NewerRepository, NotInBucket, OutcomeUnknown, …: as `publish` does.
    """
    finished = _finish(repository)
    check_readable(repository)
    with repository.lake.kv.read() as txn:
        try:
            kind, _ = _local(txn, repository, kind, name)
        except NotFound as error:
            raise _interrupted(repository, kind, name, finished) or error from None
        expected = TrackingStore(txn, repository.key).position(kind, name)
    return _push(repository, kind, name, expected=expected, options=options, moved=moved)


def push_reset(
    repository: Repository, branch: Branch, to: CommitId, options: PushOptions
) -> tuple[Branch, RefPush]:
    """Discard what is uncommitted on a branch, and move it to a commit here and in the bucket.

    What the bucket refuses changes nothing here: it is asked first, and where somebody moves the
    branch there in between, the reset is undone here.

    Args:
        branch: the branch as the caller has seen it.

    Raises:
        LostRace: the branch is not where it was seen, here or in the bucket.
        OutcomeUnknown, Unverified: it has moved here; the next command determines what became of
            it there.
        LakeError: as of `reset` and `push`; nothing has changed, unless the message says so.
    """
    push(repository, branch.name, kind=RefKind.BRANCH, options=replace(options, dry_run=True))
    moved = reset(repository, branch.name, to=to, expected=branch.commit_id, is_forced=True)
    ends = (branch.commit_id, moved.commit_id)
    try:
        pushed = push(repository, branch.name, kind=RefKind.BRANCH, options=options, moved=ends)
    except (OutcomeUnknown, Unverified):
        raise
    except LakeError as error:
        refusal = UnsentMove(RefKind.BRANCH, branch.name, RESET, *ends, ())
        if not is_interrupt(error) and put_back(repository, refusal, options.who):
            say_undone(error, refusal)
        raise
    return moved, pushed


def push_all(
    repository: Repository,
    options: PushOptions,
    *,
    progress: Progress = NO_PROGRESS,
) -> PushReport:
    """Move every branch and every tag in the bucket to where it stands here.

    Each ref moves independently: one that is refused does not stop the others.

    Args:
        options: how to push; a lease is where this clone last saw each ref.
        progress: counts the refs that were pushed.

    Raises:
        OutcomeUnknown, Unreachable, PermissionDenied, …: the store failed.
    """
    _finish(repository)
    expected = _all_tracked(repository)
    fetch(repository)
    present = _all_tracked(repository)
    with repository.lake.kv.read() as txn:
        here = list(RefStore(txn, repository.key).iter_refs())
    pushed: list[RefPush] = []
    failed: list[PushFailure] = []
    for kind, name, commit_id in here:
        if present.get((kind, name)) == commit_id:  # asking again for each would take a while
            pushed.append(RefPush(kind, name, commit_id, commit_id, Pushing.UP_TO_DATE))
            continue
        try:
            last_seen = expected.get((kind, name))
            each = _push(
                repository, kind, name, expected=last_seen, options=options, has_fetched=True
            )
        except (LostRace, AlreadyExists, Forbidden) as error:
            failed.append(PushFailure(kind, name, error))
            continue
        pushed.append(each)
        progress.advance(items=1)
    return PushReport(tuple(pushed), tuple(failed))


def push_deletion(
    repository: Repository, name: str, *, kind: RefKind | None = None, options: PushOptions
) -> RefPush:
    """Delete a branch or a tag in the bucket, if it stands where this clone last saw it.

    The ref on this machine stays.

    Raises:
        NotFound: no such ref in the bucket.
        Refused: it is the default branch.
        StaleLease: somebody else has moved it since, or it does not stand where the lease says.
        OutcomeUnknown, Unreachable, …: as `publish` does.
    """
    _finish(repository)
    check_readable(repository)
    with repository.lake.kv.read() as txn:
        kinds = NAMED_KINDS if kind is None else (kind,)
        tracked = TrackingStore(txn, repository.key)
        expectations = {each: tracked.position(each, name) for each in kinds}
    found = (_look(repository, each, name) for each in kinds)
    remote = next((each for each in found if each is not None and each.commit_id is not None), None)
    if remote is None:
        raise NotFound(
            f"no branch or tag {name!r} in the bucket",
            hint=f"see: `status {repository.uri}`",
        )
    if remote.kind is RefKind.BRANCH and name == repository.record.default_branch:
        raise Refused(
            f"cannot delete the default branch {name}",
            hint=f"undo commits on it: `branch revert {repository.uri}/{name} REF`",
        )
    before, lease = remote.commit_id, options.lease or PushLease()
    _check_lease(repository, name, before, lease, expectations[remote.kind])
    if not options.dry_run:
        move = WantedMove(remote.kind, name, before, None, who=options.who, why="delete")
        if publish(repository, move).outcome != MoveOutcome.APPLIED:
            raise stale(repository, name, before)
    return RefPush(remote.kind, name, before, None, Pushing.DELETED)


def _finish(repository: Repository) -> list[FinishedMove]:
    """Find out what became of moves that interrupted commands began, and leave notices of it."""
    finished = finish_pending(repository)
    for each in finished:
        repository.notify(Notice(each.text()))
    return finished


def _push(
    repository: Repository,
    kind: RefKind,
    name: str,
    *,
    expected: CommitId | None,
    options: PushOptions,
    moved: tuple[CommitId, CommitId] | None = None,
    has_fetched: bool = False,
) -> RefPush:
    """Move a ref; try again if it moved meanwhile, here or there, and may still be pushed.

    Args:
        expected: where it was last seen before this command, for a lease.
        moved: as of `push`.
        has_fetched: whether this command has fetched all refs.
    """
    for _ in range(MAX_ATTEMPTS):
        remote = _look(repository, kind, name)
        before = None if remote is None else remote.commit_id
        with repository.lake.kv.read() as txn:
            _, after = _local(txn, repository, kind, name)
            state = _compare(txn, repository, kind, before=before, after=after)
            is_put_back = moved is not None and _is_put_back(txn, repository, *moved, after)
        if is_put_back:
            raise LostRace(
                f"{kind} {name} was put back meanwhile, to {after}",
                hint=f"see what was done: `op log {repository.uri}`",
            )
        if options.lease is not None and state is not Pushing.UP_TO_DATE:
            _check_lease(repository, name, before, options.lease, expected)
            if state in (None, Pushing.BEHIND):
                state = Pushing.FORCED
        if state is None:
            raise refused(repository, kind, name, before=before, after=after)
        if state is Pushing.UP_TO_DATE:
            tracking.track_now(repository, remote)
        if state in (Pushing.UP_TO_DATE, Pushing.BEHIND):
            return RefPush(kind, name, before, before, state)
        move = WantedMove(
            kind,
            name,
            before,
            after,
            who=options.who,
            why="force" if state is Pushing.FORCED else "push",
        )
        if options.dry_run:
            return RefPush(kind, name, before, after, state)
        result = publish(repository, move, has_fetched=has_fetched)
        if result.outcome == MoveOutcome.APPLIED:
            return RefPush(kind, name, before, after, state)
    raise LostRace(f"{name} moved {MAX_ATTEMPTS} times while it was pushed", hint="try again")


def _look(repository: Repository, kind: RefKind, name: str) -> RemoteRef | None:
    """Read a ref in the bucket, bring its commits here, and return it.

    It is not tracked yet: after a push that moves nothing, a lease still means what was fetched. If
    it shows that the bucket went back in time, all refs are fetched.
    """
    ref = find_ref(repository.store, kind, name)
    if tracking.shows_rollback(repository, kind, name, ref):
        fetch(repository)
    if ref is not None and ref.commit_id is not None:
        with repository.lake.kv.read() as txn:
            is_known = RefStore(txn, repository.key).find_commit(ref.commit_id) is not None
        if not is_known:
            take_packs(repository, [ref])
    return ref


def _compare(
    txn: ReadTransaction,
    repository: Repository,
    kind: RefKind,
    *,
    before: CommitId | None,
    after: CommitId,
) -> Pushing | None:
    """Return what a push would do to a ref; ``None`` if it needs force."""
    refs = RefStore(txn, repository.key)
    if before == after:
        return Pushing.UP_TO_DATE
    if before is None:
        return Pushing.CREATED
    if kind is RefKind.TAG or refs.find_commit(before) is None:
        return None
    if is_ancestor(refs, before, after):
        return Pushing.UPDATED
    return Pushing.BEHIND if is_ancestor(refs, after, before) else None


def _is_put_back(
    txn: ReadTransaction,
    repository: Repository,
    before: CommitId,
    moved: CommitId,
    now: CommitId,
) -> bool:
    """Return whether a branch that was moved stands where it had been, or on top of that again."""
    refs = RefStore(txn, repository.key)
    if now == moved:
        return False
    is_on_top = is_ancestor(refs, before, now) and not is_ancestor(refs, before, moved)
    return is_on_top or is_ancestor(refs, now, before)


def _check_lease(
    repository: Repository,
    name: str,
    present: CommitId | None,
    lease: PushLease,
    expected: CommitId | None,
) -> None:
    """Refuse to force a ref that does not stand where the lease says."""
    if present != (expected if lease.commit_id is None else lease.commit_id):
        raise stale(repository, name, present)


def _local(
    txn: ReadTransaction, repository: Repository, kind: RefKind | None, name: str
) -> tuple[RefKind, CommitId]:
    """Return the kind and the position of a ref here."""
    refs = RefStore(txn, repository.key)
    for each in NAMED_KINDS if kind is None else (kind,):
        if (commit_id := refs.position(each, name)) is not None:
            return each, commit_id
    raise NotFound(
        f"no {kind or 'branch or tag'} {name!r} in {repository.uri}",
        hint=SAME_NAME if ":" in name else f"list them: `branch list {repository.uri}`",
    )


def _interrupted(
    repository: Repository, kind: RefKind | None, name: str, finished: Sequence[FinishedMove]
) -> NotFound | None:
    """Return the error for a ref that is not here any more, if a push of it was interrupted."""
    for each in finished:
        if each.intent.name == name and kind in (None, each.intent.kind):
            uri = quote(f"{repository.uri}/{name}")
            return NotFound(
                f"no {each.intent.kind} {name!r} in {repository.uri}; {each.text()}",
                hint=f"delete it in the bucket too: `push --delete {uri}`"
                if each.state is MoveOutcome.APPLIED and each.intent.after is not None
                else f"see what is in the bucket: `status {repository.uri}`",
            )
    return None


def _all_tracked(repository: Repository) -> dict[tuple[RefKind, str], CommitId | None]:
    with repository.lake.kv.read() as txn:
        tracked = TrackingStore(txn, repository.key).by_ref()
    return {ref: each.commit_id for ref, each in tracked.items()}

"""Move refs in the bucket to their commits on this machine: Git's ``push``.

A branch only moves forward: the new commit must be a descendant of the branch's commit in the
bucket. Any other move is refused, and `pull` merges. With a lease, a ref may move anywhere or be
deleted, if it still points to the commit at which this clone saw it last, or to a commit that the
caller names. A tag is created once, and moved only with a lease.
"""

from collections.abc import Sequence
from enum import StrEnum
from shlex import quote
from typing import Final, NamedTuple

from lakecli import errors
from lakecli.base.model import NAMED_KINDS, Branch, CommitId, RefKind
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.kv.bucket import UnsentMove
from lakecli.kv.local_store import ReadTransaction
from lakecli.refs.graph import is_ancestor
from lakecli.refs.ref_store import RefStore
from lakecli.remote.ref_records import RemoteRef, Unwritable
from lakecli.remote.refs import MoveOutcome, find_ref
from lakecli.repository.branch import reset
from lakecli.repository.contract import FinishedMove, Repository
from lakecli.repository.handle.namespace import check_readable
from lakecli.repository.journal import intents, tracking
from lakecli.repository.sharing.automatic import say_undone
from lakecli.repository.sharing.fetch import fetch, take_packs
from lakecli.repository.sharing.publish import Unverified, publish, refused, stale
from lakecli.repository.undo.pushed_refs import RESET
from lakecli.repository.undo.remote_undo import put_back

SAME_NAME: Final = "a branch has the same name here and in the bucket: `push BRANCH`"
MAX_ATTEMPTS: Final = 8
"""Maximum number of attempts of a push while others keep moving the ref."""

_OF_ONE_REF: Final = (
    errors.LostRace,
    errors.NotFound,
    errors.AlreadyExists,
    errors.Forbidden,
    errors.HookFailed,
    errors.IntegrityError,
    Unwritable,
)
"""Errors of a push that say nothing about other refs."""


class Pushing(StrEnum):
    """What a push does to a ref."""

    CREATED = "created"
    UPDATED = "updated"
    FORCED = "forced"
    DELETED = "deleted"
    UP_TO_DATE = "up to date"
    BEHIND = "behind"
    """The bucket has all commits of the ref and more, so there is nothing to push."""


class PushLease(NamedTuple):
    """The commit to which a ref in the bucket must point, so that a forced move is allowed.

    Attributes:
        commit_id: the commit; ``None``: the commit at which this clone saw the ref last.
    """

    commit_id: CommitId | None = None


class PushOptions(NamedTuple):
    """Options of a push.

    Attributes:
        who: ``Name <email>``, for the shared reflog.
        lease: allows moves that are not fast-forwards; ``None``: they are refused.
        dry_run: only report what would be done.
    """

    who: str
    lease: PushLease | None = None
    dry_run: bool = False


class RefPush(NamedTuple):
    """What a push did to one ref.

    Attributes:
        kind: branch or tag.
        name: name of the branch or tag.
        before: the ref's commit in the bucket before the push; null if the bucket did not have the
            ref.
        after: the ref's commit in the bucket after the push; null if the ref was deleted.
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
        error: the reason of the failure.
    """

    kind: RefKind
    name: str
    error: errors.LakeError


class PushReport(NamedTuple):
    """What a push did to all refs.

    Attributes:
        pushed: branches and tags that were pushed or did not need a push.
        failed: branches and tags that were not pushed, with the reasons.
    """

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
    """Move a branch or a tag in the bucket to its commit on this machine.

    Args:
        kind: a branch or a tag; ``None``: whichever exists, a branch first.
        moved: the commits of the local branch before and after the move that is to be pushed;
            another process may have reversed this move since.

    Raises:
        LostRace: another process has reversed the move on this machine.
        NotFound: no such ref on this machine; the message mentions an interrupted push of the ref.
        NonFastForward: the branch in the bucket has commits that the local branch lacks.
        StaleLease: the ref in the bucket does not point to the commit of the lease.
        AlreadyExists: the tag is in the bucket already, at another commit.
        CannotShare, NewerRepository, NotInBucket, OutcomeUnknown, …: as raised by `publish`.
    """
    finished = _finish(repository)
    check_readable(repository)
    with repository.lake.kv.read() as txn:
        try:
            kind, _ = _local(txn, repository, kind, name)
        except errors.NotFound as error:
            raise _interrupted(repository, kind, name, finished) or error from None
        expected = repository.tracking(txn).position(kind, name)
    return _push(repository, kind, name, expected=expected, options=options, moved=moved)


def push_reset(
    repository: Repository, branch: Branch, to: CommitId, options: PushOptions
) -> tuple[Branch, RefPush]:
    """Discard all uncommitted changes of a branch; move it here and in the bucket to a commit.

    The bucket is checked first: if it would refuse the move, nothing changes on this machine. If
    somebody moves the branch in the bucket after this check, the reset is undone on this machine.

    Args:
        branch: the branch as the caller has seen it.
        to: the commit.

    Raises:
        LostRace: the branch has moved since the caller saw it, on this machine or in the bucket.
        OutcomeUnknown, Unverified: the branch has moved on this machine; the next command finds out
            whether it has moved in the bucket.
        LakeError: as raised by `reset` and `push`; unless the message says otherwise, nothing has
            changed.
    """
    push(repository, branch.name, kind=RefKind.BRANCH, options=options._replace(dry_run=True))
    moved = reset(repository, branch.name, to=to, expected=branch.commit_id, is_forced=True)
    ends = (branch.commit_id, moved.commit_id)
    try:
        pushed = push(repository, branch.name, kind=RefKind.BRANCH, options=options, moved=ends)
    except (errors.OutcomeUnknown, Unverified):
        raise
    except errors.LakeError as error:
        refusal = UnsentMove(RefKind.BRANCH, branch.name, RESET, *ends, ())
        if not errors.is_interrupt(error) and put_back(repository, refusal, options.who):
            say_undone(error, refusal)
        raise
    return moved, pushed


def push_all(
    repository: Repository, options: PushOptions, *, progress: Progress = NO_PROGRESS
) -> PushReport:
    """Move every branch and every tag in the bucket to its commit on this machine.

    Branches of runs are not pushed, because their data is not checked yet. Each ref moves
    independently: if a ref is refused, deleted meanwhile, or damaged, the others are still pushed.

    Args:
        options: how to push; with a lease, each ref must point to the commit at which this clone
            saw it last.
        progress: counts the refs that were pushed.

    Raises:
        OutcomeUnknown, Unreachable, PermissionDenied, …: the store failed.
    """
    from lakecli.repository.run import iter_runs  # a push of one ref does not need it

    _finish(repository)
    expected = _all_tracked(repository)
    fetch(repository)
    present = _all_tracked(repository)
    with repository.lake.kv.read() as txn:
        here = list(repository.refs(txn).iter_refs())
    kept_back = {each.branch for each in iter_runs(repository)}
    pushed: list[RefPush] = []
    failed: list[PushFailure] = []
    for kind, name, commit_id in here:
        if kind is RefKind.BRANCH and name in kept_back:
            continue
        if present.get((kind, name)) == commit_id:  # saves one request for each ref
            pushed.append(RefPush(kind, name, commit_id, commit_id, Pushing.UP_TO_DATE))
            continue
        try:
            seen = expected.get((kind, name))
            each = _push(repository, kind, name, expected=seen, options=options, has_fetched=True)
            pushed.append(each)
            progress.advance(items=1)
        except _OF_ONE_REF as error:
            failed.append(PushFailure(kind, name, error))
    return PushReport(tuple(pushed), tuple(failed))


def push_deletion(
    repository: Repository, name: str, *, kind: RefKind | None = None, options: PushOptions
) -> RefPush:
    """Delete a ref in the bucket if it still points to the commit that this clone saw last.

    The branch or tag on this machine stays.

    Raises:
        NotFound: no such ref in the bucket.
        Refused: it is the default branch.
        StaleLease: somebody else has moved the ref since this clone saw it, or the ref does not
            point to the commit of the lease.
        OutcomeUnknown, Unreachable, …: as raised by `publish`.
    """
    _finish(repository)
    check_readable(repository)
    with repository.lake.kv.read() as txn:
        kinds = NAMED_KINDS if kind is None else (kind,)
        tracked = repository.tracking(txn)
        expectations = {each: tracked.position(each, name) for each in kinds}
    found = (_look(repository, each, name) for each in kinds)
    remote = next((each for each in found if each is not None and each.commit_id is not None), None)
    if remote is None:
        hint = f"see: `status {repository.uri}`"
        raise errors.NotFound(f"no branch or tag {name!r} in the bucket", hint=hint)
    if remote.kind is RefKind.BRANCH and name == repository.record.default_branch:
        hint = f"undo commits on it: `branch revert {repository.uri}/{name} REF`"
        raise errors.Refused(f"cannot delete the default branch {name}", hint=hint)
    before, lease = remote.commit_id, options.lease or PushLease()
    _check_lease(repository, name, before, lease.commit_id or expectations[remote.kind])
    if not options.dry_run:
        move = intents.WantedMove(remote.kind, name, before, None, who=options.who, why="delete")
        if publish(repository, move).outcome != MoveOutcome.APPLIED:
            raise stale(repository, name, before)
    return RefPush(remote.kind, name, before, None, Pushing.DELETED)


def _finish(repository: Repository) -> list[FinishedMove]:
    """Find out the outcome of moves that interrupted commands began; add notices about it."""
    finished = intents.finish_pending(repository)
    for each in finished:
        repository.notify(each.text())
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
    """Move a ref in the bucket; if it moved meanwhile, locally or in the bucket, try again.

    Args:
        expected: for a lease, the commit of the ref in the bucket as seen before this command.
        moved: as for `push`.
        has_fetched: whether this command has fetched all refs.
    """
    for _ in range(MAX_ATTEMPTS):
        remote = _look(repository, kind, name)
        before = None if remote is None else remote.commit_id
        with repository.lake.kv.read() as txn:
            _, present = _local(txn, repository, kind, name)
            after = present if moved is None else moved[1]  # without later commits of others
            refs = repository.refs(txn)
            state = _compare(refs, kind, before, after)
            is_put_back = moved is not None and _is_put_back(refs, *moved, present)
        if is_put_back:
            hint = f"see what was done: `op log {repository.uri}`"
            raise errors.LostRace(f"{kind} {name} was put back meanwhile, to {present}", hint=hint)
        if options.lease is not None and state is not Pushing.UP_TO_DATE:
            _check_lease(repository, name, before, options.lease.commit_id or expected)
            if state in (None, Pushing.BEHIND):
                state = Pushing.FORCED
        if state is None:
            raise refused(repository, kind, name, before=before, after=after)
        if state is Pushing.UP_TO_DATE:
            tracking.track_now(repository, remote)
        if state in (Pushing.UP_TO_DATE, Pushing.BEHIND):
            return RefPush(kind, name, before, before, state)
        why = "force" if state is Pushing.FORCED else "push"
        move = intents.WantedMove(kind, name, before, after, who=options.who, why=why)
        if options.dry_run:
            return RefPush(kind, name, before, after, state)
        result = publish(repository, move, has_fetched=has_fetched)
        if result.outcome == MoveOutcome.APPLIED:
            return RefPush(kind, name, before, after, state)
    what = f"{name} moved {MAX_ATTEMPTS} times while it was pushed"
    raise errors.LostRace(what, hint="try again")


def _look(repository: Repository, kind: RefKind, name: str) -> RemoteRef | None:
    """Read a ref in the bucket, fetch its commits, and return it.

    The commit is not recorded as seen yet: after a push that moves nothing, a lease still refers to
    the commit of the last fetch. If the ref shows that the bucket was restored to an older state,
    all refs are fetched.
    """
    ref = find_ref(repository.store, kind, name)
    if tracking.shows_rollback(repository, kind, name, ref):
        fetch(repository)
    if ref is not None and ref.commit_id is not None:
        with repository.lake.kv.read() as txn:
            is_known = repository.refs(txn).find_commit(ref.commit_id) is not None
        if not is_known:
            take_packs(repository, [ref])
    return ref


def _compare(
    refs: RefStore, kind: RefKind, before: CommitId | None, after: CommitId
) -> Pushing | None:
    """Return what a push would do to a ref; ``None`` if it needs a lease.

    Args:
        before: the commit of the ref in the bucket; ``None``: the bucket does not have the ref.
        after: the commit of the ref on this machine.
    """
    if before == after:
        return Pushing.UP_TO_DATE
    if before is None:
        return Pushing.CREATED
    if kind is RefKind.TAG or refs.find_commit(before) is None:
        return None
    if is_ancestor(refs, before, after):
        return Pushing.UPDATED
    return Pushing.BEHIND if is_ancestor(refs, after, before) else None


def _is_put_back(refs: RefStore, before: CommitId, moved: CommitId, now: CommitId) -> bool:
    """Return whether a move of a local branch was reversed, even if new commits followed."""
    if now == moved:
        return False
    is_on_top = is_ancestor(refs, before, now) and not is_ancestor(refs, before, moved)
    return is_on_top or is_ancestor(refs, now, before)


def _check_lease(
    repository: Repository, name: str, present: CommitId | None, expected: CommitId | None
) -> None:
    """Raise `StaleLease` if a ref in the bucket does not point to the commit of the lease."""
    if present != expected:
        raise stale(repository, name, present)


def _local(
    txn: ReadTransaction, repository: Repository, kind: RefKind | None, name: str
) -> tuple[RefKind, CommitId]:
    """Return kind and commit of the ref with a name on this machine; a branch is preferred.

    Raises:
        NotFound: no such ref.
    """
    refs = repository.refs(txn)
    for each in NAMED_KINDS if kind is None else (kind,):
        if (commit_id := refs.position(each, name)) is not None:
            return each, commit_id
    hint = SAME_NAME if ":" in name else f"list them: `branch list {repository.uri}`"
    raise errors.NotFound(f"no {kind or 'branch or tag'} {name!r} in {repository.uri}", hint=hint)


def _interrupted(
    repository: Repository, kind: RefKind | None, name: str, finished: Sequence[FinishedMove]
) -> errors.NotFound | None:
    """Return the error for a ref that no longer exists here, if its push was interrupted."""
    for each in finished:
        if each.intent.name == name and kind in (None, each.intent.kind):
            hint = f"see what is in the bucket: `status {repository.uri}`"
            if each.state is MoveOutcome.APPLIED and each.intent.after is not None:
                uri = quote(f"{repository.uri}/{name}")
                hint = f"delete it in the bucket too: `push --delete {uri}`"
            what = f"no {each.intent.kind} {name!r} in {repository.uri}; {each.text()}"
            return errors.NotFound(what, hint=hint)
    return None


def _all_tracked(repository: Repository) -> dict[tuple[RefKind, str], CommitId | None]:
    with repository.lake.kv.read() as txn:
        tracked = repository.tracking(txn).by_ref()
    return {ref: each.commit_id for ref, each in tracked.items()}

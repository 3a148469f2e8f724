"""Bring a branch up to date with the bucket: Git's ``pull``, a fetch and a merge.

A branch without unpushed commits is fast-forwarded, and keeps its staged changes; if the new
commits change a staged path, the pull is refused. A branch with unpushed commits is merged, and
must not have uncommitted changes.
"""

from enum import StrEnum
from functools import partial
from hashlib import blake2b
from itertools import islice
from shlex import quote
from typing import NamedTuple

from lakecli.base.model import NAMED_KINDS, Branch, ChangeType, CommitId, RefKind, Tag
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.committed.decisions import UNDECIDED, Decisions
from lakecli.committed.diff import diff
from lakecli.committed.merge import TABLE_LOGS, Conflicts, MergeConflict
from lakecli.errors import ConflictError, LostRace, NotFound
from lakecli.kv.local_store import ReadTransaction, WriteTransaction
from lakecli.refs.graph import is_ancestor
from lakecli.refs.ref_store import RefStore
from lakecli.repository.branch import check_free
from lakecli.repository.commit import MAX_LISTED, counted_paths
from lakecli.repository.commit_attempts import MAX_ATTEMPTS
from lakecli.repository.contract import Repository
from lakecli.repository.journal import intents, operation_log, unsent_moves
from lakecli.repository.merge import MergeOptions, merge, preview
from lakecli.repository.reading.view import View, view_of_branch
from lakecli.repository.sharing.fetch import FetchReport, fetch
from lakecli.repository.sharing.publish import NonFastForward
from lakecli.repository.staged.changes import iter_crossing, unstage_unchanged


class IncomingConflict(ConflictError):
    """The commits to pull have changed staged paths."""


class Pulling(StrEnum):
    """What a pull does to a branch or tag."""

    CREATED = "created"
    FAST_FORWARD = "fast-forward"
    MERGED = "merged"
    UP_TO_DATE = "up to date"
    AHEAD = "ahead"
    """The branch has all commits of the bucket and more, so there is nothing to pull."""
    TAG = "tag"
    """The ref is a tag, which is only fetched."""


class PullOptions(NamedTuple):
    """Options of a pull.

    Attributes:
        committer: the committer of a merge commit.
        message: the message of a merge commit; ``None``: ``Merge remote B``.
        decisions: decide paths that both sides changed differently; the bucket is the source.
        ff_only: refuse a pull that needs a merge.
        dry_run: fetch, and only report what would be done.
    """

    committer: str
    message: str | None = None
    decisions: Decisions = UNDECIDED
    ff_only: bool = False
    dry_run: bool = False


class PullReport(NamedTuple):
    """What a pull did to a branch or tag.

    Attributes:
        fetched: the report of the fetch, which covers all refs.
        name: name of the branch or tag.
        before: commit of the ref on this machine before; ``None`` if the ref did not exist here.
        after: commit of the ref now; in a dry run, the commit that it would get; for a merge, the
            commit that would be merged.
        state: created, fast-forward, merged, up to date, ahead or tag.
    """

    fetched: FetchReport
    name: str
    before: CommitId | None
    after: CommitId
    state: Pulling


def pull(
    repository: Repository, name: str, options: PullOptions, *, progress: Progress = NO_PROGRESS
) -> PullReport:
    """Fetch, then bring a branch up to date with the bucket.

    A branch or tag that only the bucket has is created on this machine.

    Args:
        name: the name of the branch or tag.
        progress: counts the refs and commits that were read.

    Raises:
        NotFound: the ref is not in the bucket, or was deleted there.
        IncomingConflict: the new commits change staged paths; nothing moved.
        DirtyBranch: a merge is needed, and the branch has uncommitted changes.
        MergeConflict: both sides changed the same paths differently, and the decisions leave
            some open.
        NonFastForward: a merge is needed, and `PullOptions.ff_only` is set.
        CommitUnderWay: another process is pushing the branch, which was moved back on this machine.
        Unreachable, PermissionDenied, …: as raised by `fetch`.
    """
    intents.finish_pending(repository)
    fetched = fetch(repository, progress=progress)
    with repository.lake.kv.read() as txn:
        kind, there = _tracked(txn, repository, name)
    if kind is RefKind.TAG:
        return _pull_tag(repository, fetched, name, there, dry_run=options.dry_run)
    for _ in range(MAX_ATTEMPTS):
        if (report := _pull_branch(repository, fetched, name, options)) is not None:
            return report
    raise LostRace(f"branch {name} moved {MAX_ATTEMPTS} times meanwhile", hint="try again")


def _pull_branch(
    repository: Repository, fetched: FetchReport, name: str, options: PullOptions
) -> PullReport | None:
    """Bring a branch up to date once; return ``None`` if it moved meanwhile."""
    with repository.lake.kv.read() as txn:
        _, there = _tracked(txn, repository, name)
        before, state = _compare(repository.refs(txn), name, there)
    report = PullReport(fetched, name, before, there, state)
    if state in (Pulling.UP_TO_DATE, Pulling.AHEAD):
        return report._replace(after=before or there)
    if state is Pulling.MERGED:
        return _merge(repository, report, options)
    if options.dry_run:
        if before is not None:
            _check_staged(repository, name, there, ignores_unchanged=True)
        return report
    follow = partial(_follow, repository, name, before, there)
    return report if intents.when_none_under_way(repository, follow) else None


def _pull_tag(
    repository: Repository, fetched: FetchReport, name: str, there: CommitId, *, dry_run: bool
) -> PullReport:
    """Restore a tag that was deleted on this machine; raise an error if a local tag differs."""
    with repository.lake.kv.read() as txn:
        tag = repository.refs(txn).find_tag(name)
    if tag is None:
        if not dry_run:
            with repository.lake.kv.write() as txn:
                check_free(repository.refs(txn), name)
                _move(txn, repository, None, Tag(name, there))
        return PullReport(fetched, name, None, there, Pulling.CREATED)
    if tag.commit_id != there:
        uri = quote(f"{repository.uri}/{name}")
        raise ConflictError(
            f"tag {name} stands on {tag.commit_id} here, and on {there} in the bucket",
            hint=f"take that one: `tag create --force {uri} {repository.uri}/{there}`",
        )
    return PullReport(fetched, name, there, there, Pulling.TAG)


def _tracked(txn: ReadTransaction, repository: Repository, name: str) -> tuple[RefKind, CommitId]:
    """Return kind and commit of the branch of a name in the bucket, or of the tag."""
    positions = repository.tracking(txn)
    found = [positions.find(kind, name) for kind in NAMED_KINDS]
    for tracked in found:
        if tracked is not None and tracked.commit_id is not None:
            return tracked.kind, tracked.commit_id
    uri = quote(f"{repository.uri}/{name}")
    if any(found):
        hint = f"it is kept on this machine; restore it in the bucket: `push {uri}`"
        raise NotFound(f"{name} was deleted in the bucket", hint=hint)
    hint = f"see what there is: `status {repository.uri}`"
    if any(repository.refs(txn).position(kind, name) for kind in NAMED_KINDS):
        hint = f"bring it there: `push {uri}`"
    raise NotFound(f"no branch or tag {name!r} in the bucket", hint=hint)


def _compare(refs: RefStore, name: str, there: CommitId) -> tuple[CommitId | None, Pulling]:
    """Return the head of a local branch, and what a pull of the commit `there` does to it."""
    here = refs.position(RefKind.BRANCH, name)
    if here is None:
        return None, Pulling.CREATED
    if here == there:
        return here, Pulling.UP_TO_DATE
    if is_ancestor(refs, there, here):
        return here, Pulling.AHEAD
    return here, Pulling.FAST_FORWARD if is_ancestor(refs, here, there) else Pulling.MERGED


def _follow(repository: Repository, name: str, planned: CommitId | None, there: CommitId) -> bool:
    """Create or fast-forward a local branch, unless it has changed since this was planned.

    Args:
        planned: the head of the branch when the move was planned; ``None``: the branch did not
            exist.
        there: the new head, which the branch has in the bucket.

    Returns:
        ``False`` if the branch or its staged changes have changed since the move was planned.
    """
    lake, staged = repository.lake, None
    if planned is not None:
        unstage_unchanged(repository, name, there)
        staged = _check_staged(repository, name, there)
    lake.runtime.on_step("move")
    with lake.kv.write() as txn:
        refs = repository.refs(txn)
        before = refs.find_branch(name)
        if (None if before is None else before.commit_id) != planned:
            return False
        if before is None:
            check_free(refs, name)
            after = operation_log.new_branch(txn, repository, name, there)
        else:
            if _fingerprint(view_of_branch(repository, txn, name)) != staged:
                return False
            intents.check_none_taken_back(txn, repository, RefKind.BRANCH, name, to=there)
            after = before._replace(commit_id=there)
            operation_log.follow_head(txn, after, since=before.commit_id)
        _move(txn, repository, before, after)
    return True


def _move(
    txn: WriteTransaction, repository: Repository, before: Branch | None, after: Branch | Tag
) -> None:
    """Create a ref here, or move it to its commit in the bucket; append the operation."""
    changes = [operation_log.change_ref(txn, repository, before, after)]
    operation_log.append(txn, repository, kind="pull", refs=changes)
    unsent_moves.drop_notes(txn, repository, changes)


def _check_staged(
    repository: Repository, name: str, there: CommitId, *, ignores_unchanged: bool = False
) -> bytes:
    """Return a digest of a branch's staged changes, or raise an error if a move conflicts.

    Args:
        there: the commit to which the branch moves.
        ignores_unchanged: ignore paths staged identically to the head; a pull unstages them first.

    Raises:
        IncomingConflict: the move changes staged paths.
    """
    with repository.lake.kv.read() as txn:
        view = view_of_branch(repository, txn, name)
        tree = repository.refs(txn).get_commit(there).metarange_id
        changes = diff(repository.trees, view.commit.metarange_id, tree)
        crossing = iter_crossing(view.staged(), changes, ignores_unchanged=ignores_unchanged)
        paths = [path for path, _ in islice(crossing, MAX_LISTED)]
        if paths:
            uri = f"{repository.uri}/{name}"
            raise IncomingConflict(
                f"{counted_paths(paths, of=f' of {name}')} changed in the bucket too",
                hint=f"commit first, then pull merges: `commit {uri} -m MESSAGE`; or discard "
                f"what is staged: `branch reset {uri}`",
                paths=paths,
            )
        return _fingerprint(view)


def _fingerprint(view: View) -> bytes:
    """Return a digest of the staged changes, to detect later changes."""
    digest = blake2b(digest_size=16)
    for path, value in view.staged():
        digest.update(b"%d %d " % (len(path), len(value)))
        digest.update(path)
        digest.update(value)
    return digest.digest()


def _merge(repository: Repository, report: PullReport, options: PullOptions) -> PullReport:
    """Merge the bucket's branch into a local branch that has unpushed commits."""
    uri = f"{repository.uri}/{report.name}"
    if options.ff_only:
        what = f"branch {report.name} and the bucket's have diverged, so it cannot fast-forward"
        raise NonFastForward(what, hint=f"merge them: `pull {uri}`")
    message, decisions = options.message or f"Merge remote {report.name}", options.decisions
    merging = MergeOptions(options.committer, message, decisions=decisions, allow_empty=True)
    try:
        if options.dry_run:
            _check_merge(repository, report, merging)
            return report
        made = merge(repository, report.after, report.name, merging)
    except MergeConflict as conflict:
        if conflict.hint != TABLE_LOGS:
            conflict.hint = (
                f"let one side win: `pull {uri} --strategy source-wins` (the bucket's) or "
                "dest-wins (what is here), or by patterns: `take=source:PATTERN`; or decide each "
                f"in a file: `merge --conflicts FILE {repository.uri}/{report.after} {uri}`"
            )
        raise
    return report._replace(after=made.id)


def _check_merge(repository: Repository, report: PullReport, options: MergeOptions) -> None:
    """Raise `MergeConflict` and the other errors that a merge would raise."""
    conflicts = Conflicts()
    with preview(repository, report.after, report.name, options) as changes:
        for change in changes:
            if change.type == ChangeType.CONFLICT:
                conflicts.add(change.path, unlike_checksums=change.unlike_checksums)
    conflicts.check()

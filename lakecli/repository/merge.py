"""Merge a ref into a branch."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from itertools import chain, islice
from typing import Final, NamedTuple

from lakecli.base.model import ChangeType, Commit, CommitId, Difference
from lakecli.committed import scan, values
from lakecli.committed.decisions import UNDECIDED, Decide, Decisions, MergeSide, is_table_log
from lakecli.committed.merge import compare, iter_conflicts
from lakecli.committed.merge import merge as merge_trees
from lakecli.errors import NothingToDo
from lakecli.repository.annotate import last_changes
from lakecli.repository.commit_attempts import MAX_ATTEMPTS, Draft, clean_attempt, kept_moving
from lakecli.repository.contract import Repository
from lakecli.repository.guard import claim_commit, claim_head
from lakecli.repository.lakefs.hooks import MERGE, notify_hooks
from lakecli.repository.reading.merge_points import MergePoints, find_merge_points
from lakecli.repository.reading.view import View, view_of_branch
from lakecli.repository.staged.changes import check_clean

MERGE_STRATEGY: Final = ".lakefs.merge.strategy"
"""The key of the strategy in the metadata of a merge commit."""


class MergeOptions(NamedTuple):
    """Options of a merge.

    Attributes:
        message: the commit message; ``None`` for ``Merge 'S' into 'D'``.
        decisions: which side each conflicting path takes; other paths are not affected.
        squash: leave the source out of the parents.
        allow_empty: commit even if the source has no changes for the destination.
    """

    committer: str
    message: str | None = None
    metadata: Mapping[str, str] | None = None
    decisions: Decisions = UNDECIDED
    squash: bool = False
    allow_empty: bool = False


def merge(
    repository: Repository,
    source: str,
    destination: str,
    options: MergeOptions,
    *,
    review: Callable[[Commit], None] | None = None,
) -> Commit:
    """Merge a ref expression into a branch, always with a merge commit.

    Uncommitted changes of the source are ignored.

    Args:
        review: called with the merge commit before the branch moves; raises an error to refuse it.
            After a lost race it is called again, with the rebuilt merge commit.

    Raises:
        NotFound: the source or the branch does not exist.
        DirtyBranch: the destination has uncommitted changes.
        MergeConflict: both sides changed the same paths differently, and the decisions leave
            some open.
        OutdatedPlan: the plan of the decisions was made for other conflicts.
        NothingToDo: the source has no changes that the destination lacks; or both are at the same
            commit, so that a merge commit would have one parent twice.
    """
    default = f"Merge '{source}' into '{destination}'"
    message = default if options.message is None else options.message
    for _ in range(MAX_ATTEMPTS):
        attempt = clean_attempt(
            repository, destination, kind="merge", who=options.committer, merges=not options.squash
        )
        with attempt.view() as view:
            points = _points(repository, view, source, options)
            head = claim_head(view)
            merged_commit = claim_commit(view.txn, repository, points.source)
            base, trees = points.base, repository.trees
            source_tree, head_tree = points.source.metarange_id, points.destination.metarange_id
            sides = {"source": source_tree, "destination": head_tree}
            refs = f"{repository.uri}/{source} {repository.uri}/{destination}"
            hint = (
                "let one side win: `strategy=source-wins` or `strategy=dest-wins`; or by "
                "patterns: `take=source:PATTERN`, `take=dest:PATTERN`; or decide each in a file: "
                f"`merge --conflicts FILE {refs}`"
            )
            tree = merge_trees(trees, base=base, **sides, decisions=options.decisions, hint=hint)
        parents = [head] if options.squash else [head, merged_commit]
        metadata = {MERGE_STRATEGY: str(options.decisions.strategy), **(options.metadata or {})}
        also_counts = [points.source]
        draft = Draft(tree, parents, message, options.committer, metadata, also_counts=also_counts)
        commit = attempt.move(draft, review=review)
        if commit is not None:
            notify_hooks(repository, MERGE, destination, source_tree, head_tree)
            return commit
    raise kept_moving(destination)


def _points(repository: Repository, view: View, source: str, options: MergeOptions) -> MergePoints:
    """Return the source, the destination and their merge base for a merge into a view.

    Raises:
        NothingToDo: the source has no changes, and an empty merge is not allowed; or the source is
            the head of the destination.
    """
    points = find_merge_points(repository, view.txn, source=source, destination=view.commit.id)
    if points.source.id == view.commit.id:
        what = f"cannot merge {source} into {view.name}: both are at the same commit"
        hint = f"a merge takes commits; changes that are not committed: `status {repository.uri}`"
        raise NothingToDo(what, hint=hint)
    if not options.allow_empty and _brings_nothing(repository, points):
        hint = "record a merge anyway: `allow_empty=True`"
        raise NothingToDo(f"{source} brings nothing new to {view.name}", hint=hint)
    return points


def _brings_nothing(repository: Repository, points: MergePoints) -> bool:
    """Return whether the source has the same contents as the merge base."""
    base, source = points.base, points.source.metarange_id
    if base.only_tree is not None:
        return source == base.only_tree
    # At a path that the source changes, it differs from at least one of the base's trees.
    changes = (compare(repository.trees, base=base, left=tree, right=source) for tree in base.trees)
    return bool(base.trees) and next(chain.from_iterable(changes), None) is None


@contextmanager
def preview(
    repository: Repository, source: str, destination: str, options: MergeOptions
) -> Iterator[Iterator[Difference]]:
    """Open the stream of the changes that `merge` with these options would make.

    Conflicts are included if the decisions leave them open.

    Raises:
        OutdatedPlan: the plan of the decisions was made for other conflicts; raised at the end of
            the stream.
        NotFound: the source or the branch does not exist.
        DirtyBranch: the destination has uncommitted changes.
        NothingToDo: the source has no changes that the destination lacks.
    """
    with repository.lake.kv.read() as txn:
        view = view_of_branch(repository, txn, destination)
        check_clean(view)
        points = _points(repository, view, source, options)
        left, right = points.destination.metarange_id, points.source.metarange_id
        changes = compare(repository.trees, base=points.base, left=left, right=right)
        with options.decisions.begin() as decide:
            yield _decided(changes, decide)


def _decided(changes: Iterator[Difference], decide: Decide) -> Iterator[Difference]:
    """Yield changes; a decided conflict becomes a change, or nothing if the destination wins."""
    for change in changes:
        is_conflict = change.type == ChangeType.CONFLICT
        side = decide(change.path, change.right, change.left) if is_conflict else None
        if side is None:
            yield change
        elif side is MergeSide.SOURCE:
            kind = scan.type_of(change.left, change.right)
            yield Difference(kind, change.path, change.left, change.right)


_PAGE: Final = 1 << 13
"""Maximum number of conflicts that are held in memory."""


class ConflictingObject(NamedTuple):
    """One side's version of an object in conflict.

    Attributes:
        size: size in bytes.
        checksum: BLAKE3 in 64 hex digits if lakecli uploaded the object, otherwise an ETag.
        modified_at: time of the upload.
        identity: digest of the object and its metadata; if it differs, a plan is outdated.
    """

    size: int
    checksum: str
    modified_at: datetime
    identity: str


class LastChange(NamedTuple):
    """The commit that changed or deleted a path last.

    Attributes:
        commit_id: ID of the commit.
        committer: name and e-mail.
        created_at: time of the commit.
    """

    commit_id: CommitId
    committer: str
    created_at: datetime


class Conflict(NamedTuple):
    """A path that both sides changed differently: a line of a plan.

    Attributes:
        take: the side that wins: source or dest; empty if it is still to be decided.
        path: the path.
        table_log: whether the path is in the log of a table; then `table_logs` is needed, too.
        source: the object of the source; null if it was deleted.
        dest: the object of the destination; null if it was deleted.
        base: the object of the common ancestor; null without one, or if there are several.
        source_change: the last change of the source; null if it is unknown.
        dest_change: the last change of the destination; null if it is unknown.
        base_change: the last change of the common ancestor; null if it is unknown.
    """

    take: str
    path: bytes
    table_log: bool
    source: ConflictingObject | None
    dest: ConflictingObject | None
    base: ConflictingObject | None
    source_change: LastChange | None
    dest_change: LastChange | None
    base_change: LastChange | None


@contextmanager
def conflicts_of(
    repository: Repository, source: str, destination: str, options: MergeOptions
) -> Iterator[Iterator[Conflict]]:
    """Open the stream of the conflicts of a merge, in path order, with the decisions so far.

    A plan's decisions about objects that have changed since are left out.

    Raises:
        NotFound, DirtyBranch, NothingToDo: as `preview` does.
    """
    decided = options.decisions.begin(may_be_outdated=True)
    with repository.lake.kv.read() as txn, decided as decide:
        view = view_of_branch(repository, txn, destination)
        check_clean(view)
        points = _points(repository, view, source, options)
        yield _conflicts(view, points, decide)


def _conflicts(view: View, points: MergePoints, decide: Decide) -> Iterator[Conflict]:
    source_tree, head_tree = points.source.metarange_id, points.destination.metarange_id
    repository, trees = view.repository, view.repository.trees
    found = iter_conflicts(trees, base=points.base, source=source_tree, destination=head_tree)
    base = points.bases[0] if len(points.bases) == 1 else None
    while page := list(islice(found, _PAGE)):
        paths = [each.path for each in page]
        source, dest, before = (
            {} if commit is None else last_changes(repository, view.txn, commit, paths)
            for commit in (points.source, points.destination, base)
        )
        for each in page:
            yield Conflict(
                decide(each.path, each.source, each.destination) or "",
                each.path,
                is_table_log(each.path),
                _object(each.source),
                _object(each.destination),
                _object(each.bases[0]) if len(each.bases) == 1 else None,
                _last_change(source.get(each.path)),
                _last_change(dest.get(each.path)),
                _last_change(before.get(each.path)),
            )


def _object(value: bytes | None) -> ConflictingObject | None:
    if value is None:
        return None
    entry, identity = values.decode_entry(value), values.identity_of(value).hex()
    return ConflictingObject(entry.size, entry.checksum, entry.modified_at, identity)


def _last_change(commit: Commit | None) -> LastChange | None:
    return None if commit is None else LastChange(commit.id, commit.committer, commit.created_at)

"""Merge a ref into a branch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Final

from lakecli.base.model import ChangeType, Commit, Difference, MergeStrategy
from lakecli.committed.merge import compare, refuse_conflicts
from lakecli.committed.merge import merge as merge_trees
from lakecli.committed.scan import type_of
from lakecli.errors import NothingToDo
from lakecli.repository.commit_attempts import MAX_ATTEMPTS, Draft, clean_attempt, kept_moving
from lakecli.repository.contract import Repository
from lakecli.repository.guard import claim_commit, claim_head
from lakecli.repository.lakefs.hooks import MERGE, notify_hooks
from lakecli.repository.reading.merge_points import MergePoints, find_merge_points
from lakecli.repository.reading.view import View, view_of_branch
from lakecli.repository.staged.changes import check_clean

MERGE_STRATEGY: Final = ".lakefs.merge.strategy"
"""The key of a merge commit's metadata that has its strategy."""


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """How to merge.

    Attributes:
        message: ``None`` for ``Merge 'S' into 'D'``.
        strategy: decides conflicting paths, and only those.
        squash: leave the source out of the parents.
        allow_empty: commit even if the source brings nothing.
    """

    committer: str
    message: str | None = None
    metadata: Mapping[str, str] | None = None
    strategy: MergeStrategy = MergeStrategy.FAIL
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
    """Merge what a ref expression names into a branch; there is always a merge commit.

    Uncommitted changes of the source are ignored.

    Args:
        review: called with the merge commit before the branch moves, and again with the one that is
            built after a lost race; refuses it by an error.

    Raises:
        NotFound: the source or the branch does not exist.
        DirtyBranch: the destination has uncommitted changes.
        MergeConflict: both sides changed the same paths differently, and no strategy decides.
        NothingToDo: the source brings nothing that the destination lacks, or it is at the head
            of the destination: a merge commit would have one parent twice.
    """
    default = f"Merge '{source}' into '{destination}'"
    message = default if options.message is None else options.message
    for _ in range(MAX_ATTEMPTS):
        attempt = clean_attempt(repository, destination, kind="merge")
        with attempt.view() as view:
            points = _points(repository, view, source, options)
            head = claim_head(view)
            merged_commit = claim_commit(view.txn, repository, points.source)
            base, trees = points.base, repository.trees
            sides = {
                "source": points.source.metarange_id,
                "destination": points.destination.metarange_id,
            }
            if options.strategy == MergeStrategy.FAIL:
                refs = f"{repository.uri}/{source} {repository.uri}/{destination}"
                hint = (
                    "let one side win with --strategy source-wins or dest-wins; see all changes: "
                    f"`merge --dry-run {refs}`"
                )
                refuse_conflicts(trees, base=base, **sides, hint=hint)
            source_wins = options.strategy == MergeStrategy.SOURCE_WINS
            tree = merge_trees(trees, base=base, **sides, source_wins=source_wins)
        parents = [head] if options.squash else [head, merged_commit]
        metadata = {MERGE_STRATEGY: str(options.strategy), **(options.metadata or {})}
        draft = Draft(
            tree, parents, message, options.committer, metadata, also_counts=[points.source]
        )
        commit = attempt.move(draft, review=review)
        if commit is not None:
            notify_hooks(repository, MERGE, destination, sides["source"], sides["destination"])
            return commit
    raise kept_moving(destination)


def _points(repository: Repository, view: View, source: str, options: MergeOptions) -> MergePoints:
    """Return the three commits of a merge into a view.

    Raises:
        NothingToDo: the source brings nothing, and an empty merge is not allowed; or the source
            is the head of the destination.
    """
    points = find_merge_points(repository, view.txn, source=source, destination=view.commit.id)
    if points.source.id == view.commit.id:
        raise NothingToDo(
            f"cannot merge {source} into {view.name}: both are at the same commit",
            hint=f"a merge takes commits; changes that are not committed: `status "
            f"{repository.uri}`",
        )
    if not options.allow_empty and _brings_nothing(repository, points):
        raise NothingToDo(
            f"{source} brings nothing new to {view.name}",
            hint="record a merge anyway: --allow-empty",
        )
    return points


def _brings_nothing(repository: Repository, points: MergePoints) -> bool:
    """Return whether the source equals the base everywhere."""
    base, source = points.base, points.source.metarange_id
    if base.only_tree is not None:
        return source == base.only_tree
    # Where it has, it also differs from one of the trees of which the base is merged.
    changes = (compare(repository.trees, base=base, left=tree, right=source) for tree in base.trees)
    return bool(base.trees) and next(chain.from_iterable(changes), None) is None


@contextmanager
def preview(
    repository: Repository, source: str, destination: str, options: MergeOptions
) -> Iterator[Iterator[Difference]]:
    """Open the stream of what `merge` with these options would change on its destination.

    Conflicts are included if no strategy decides them.

    Raises:
        NotFound: the source or the branch does not exist.
        DirtyBranch: the destination has uncommitted changes.
        NothingToDo: the source brings nothing that the destination lacks.
    """
    with repository.lake.kv.read() as txn:
        view = view_of_branch(repository, txn, destination)
        check_clean(view)
        points = _points(repository, view, source, options)
        changes = compare(
            repository.trees,
            base=points.base,
            left=points.destination.metarange_id,
            right=points.source.metarange_id,
        )
        yield _decided(changes, options.strategy)


def _decided(changes: Iterator[Difference], strategy: MergeStrategy) -> Iterator[Difference]:
    """Replace conflicts by what a strategy decides."""
    for change in changes:
        if change.type != ChangeType.CONFLICT or strategy == MergeStrategy.FAIL:
            yield change
        elif strategy == MergeStrategy.SOURCE_WINS:
            kind = type_of(change.left, change.right)
            yield Difference(kind, change.path, change.left, change.right)

"""Differences: staged against committed, and between two refs."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.model import ChangeType, Difference
from lakecli.repository.core.merge_base import find_merge_points
from lakecli.repository.core.view import commit_at, open_view, resolve_ref

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakecli.committed.store import TreeStore
    from lakecli.model import MetarangeId
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.core.view import View

_BLOCKS_SIZE: Final = 8 << 20
"""Bytes that decoded blocks of the committed tree may take while staging is compared with it."""


def uncommitted(view: View, *, prefix: bytes = b"") -> Iterator[Difference]:
    """Yield how a branch's staging area differs from its commit, in path order.

    What is staged as it was committed, or deleted where nothing was, is no difference.
    """
    from lakecli.committed.points import PointReader

    # Paths come in order, so few blocks are needed at a time, however much is staged.
    points = PointReader(view.repository.trees, blocks_limit=_BLOCKS_SIZE)
    tree = view.commit.metarange_id
    for path, staged in view.staged(prefix=prefix):
        difference = _compare(path, points.find(tree, path), staged)
        if difference is not None:
            yield difference


def _compare(path: bytes, left: bytes | None, staged: bytes) -> Difference | None:
    from lakecli.committed.values import identity_of
    from lakecli.staging.area import TOMBSTONE

    right = None if staged == TOMBSTONE else staged
    if left is None:
        return None if right is None else Difference(ChangeType.ADDED, path, None, right)
    if right is None:
        return Difference(ChangeType.REMOVED, path, left, None)
    if identity_of(left) == identity_of(right):
        return None
    return Difference(ChangeType.CHANGED, path, left, right)


@contextmanager
def diff_uncommitted(
    repository: Repository, branch: str, *, prefix: bytes = b""
) -> Iterator[Iterator[Difference]]:
    """Open the stream of a branch's uncommitted changes; for anything but a branch it is empty.

    Raises:
        NotFound: no such ref.
    """
    with open_view(repository, branch) as view:
        yield uncommitted(view, prefix=prefix)


class Compared(NamedTuple):
    """Trees of which the differences are asked for.

    Attributes:
        base: what both came from; ``None``: `left` and `right` are compared as they are.
        prefix: only paths that start with it.
    """

    base: MetarangeId | None
    left: MetarangeId
    right: MetarangeId
    prefix: bytes


def compare_here(trees: TreeStore, compared: Compared) -> Iterator[Difference]:
    """Yield the differences of trees in path order, by this process."""
    from lakecli.committed import diff

    base, left, right, prefix = compared
    if base is None:
        return diff.diff(trees, left, right, prefix=prefix)
    return diff.compare(trees, base=base, left=left, right=right, prefix=prefix)


@contextmanager
def diff_refs(
    repository: Repository,
    left: str,
    right: str,
    *,
    prefix: bytes = b"",
    two_way: bool = False,
    compare: Callable[[Compared], Iterator[Difference]] | None = None,
) -> Iterator[Iterator[Difference]]:
    """Open the stream of differences between two refs, in path order.

    Without `two_way`, it is what merging `right` into `left` would change, conflicts included, and
    uncommitted changes are ignored. With it, it is the plain difference of the two trees, where
    ``branch$`` on the right includes what is staged there.

    Args:
        repository: of both refs.
        left: a ref expression.
        right: likewise.
        prefix: only paths that start with it.
        two_way: compare the two trees as they are.
        compare: compares committed trees; this process does by default.

    Raises:
        NotFound: one of the refs names nothing.
        UsageError: ``$`` where a commit is needed.
        Refused: no common ancestor, without `two_way`.
    """
    if compare is None:
        compare = partial(compare_here, repository.trees)
    with repository.lake.kv.read() as txn:
        if not two_way:
            points = find_merge_points(repository, txn, source=right, destination=left)
            yield compare(
                Compared(
                    base=points.base.metarange_id,
                    left=points.destination.metarange_id,
                    right=points.source.metarange_id,
                    prefix=prefix,
                )
            )
            return
        left_tree = commit_at(repository, txn, left).metarange_id
        resolved = resolve_ref(repository, txn, right)
        between = compare(Compared(None, left_tree, resolved.commit.metarange_id, prefix))
        if not (resolved.staging and resolved.steps):
            yield between
            return
        with open_view(repository, right) as view:
            yield _with_staging(view, left_tree, between, prefix=prefix)


def _with_staging(
    view: View, left_tree: MetarangeId, between: Iterator[Difference], *, prefix: bytes
) -> Iterator[Difference]:
    """Lay staged changes over the differences of two commits."""
    from heapq import merge

    from lakecli.committed.scan import find

    trees = view.repository.trees
    staged_now = ((path, 0, value, None) for path, value in view.staged(prefix=prefix))
    committed = ((item.path, 1, b"", item) for item in between)
    covered: bytes | None = None
    for path, _, value, item in merge(staged_now, committed, key=lambda each: each[:2]):
        if item is not None:
            if path != covered:
                yield item
            continue
        covered = path
        difference = _compare(path, find(trees, left_tree, path), value)
        if difference is not None:
            yield difference

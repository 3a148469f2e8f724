"""Differences between trees, read only where they differ."""

from __future__ import annotations

from collections.abc import Iterator

from lakecli.committed.conflicts import may_be_none
from lakecli.committed.cursor import Cursor, iter_windows
from lakecli.committed.keys import first_key, prefix_end
from lakecli.committed.metaranges import Metarange, range_id_of
from lakecli.committed.pairs import is_same, iter_pairs, type_of
from lakecli.committed.scan import find
from lakecli.committed.threeway import iter_candidates, segments
from lakecli.committed.tree_store import TreeStore
from lakecli.model import ChangeType, Difference, MetarangeId, RangeId


def diff(
    trees: TreeStore,
    left: MetarangeId,
    right: MetarangeId,
    *,
    prefix: bytes = b"",
    after: bytes = b"",
    start: bytes = b"",
    stop: bytes | None = None,
) -> Iterator[Difference]:
    """Yield the paths that differ, in order: the changes that turn `left` into `right`.

    Args:
        trees: the store that holds the trees.
        left: the old tree.
        right: the new tree.
        prefix: only paths that start with it.
        after: only paths greater than it.
        start: only paths no less than it.
        stop: only paths less than it; without it, to the end of the prefix.

    Raises:
        IntegrityError: a table that had to be read is missing or damaged.
    """
    start, stop = _interval(prefix, after, start, stop)
    windows = iter_windows(
        Cursor(trees, trees.metarange(left), start=start, stop=stop),
        Cursor(trees, trees.metarange(right), start=start, stop=stop),
    )
    for path, old, new in iter_pairs(windows):
        yield Difference(type_of(old, new), path, old, new)


def compare(
    trees: TreeStore,
    *,
    base: MetarangeId,
    left: MetarangeId,
    right: MetarangeId,
    prefix: bytes = b"",
    after: bytes = b"",
    start: bytes = b"",
    stop: bytes | None = None,
) -> Iterator[Difference]:
    """Yield what merging `right` into `left` would change, in path order, conflicts included.

    Paths that changed on the left only, or in the same way on both sides, are left out.

    Args:
        trees: the store that holds the trees.
        base: the common ancestor.
        left: the destination of the merge.
        right: the source of the merge.
        prefix: only paths that start with it.
        after: only paths greater than it.
        start: only paths no less than it.
        stop: only paths less than it; without it, to the end of the prefix.

    Raises:
        IntegrityError: a table that had to be read is missing or damaged.
    """
    start, stop = _interval(prefix, after, start, stop)
    three = map(trees.metarange, (base, right, left))
    for segment in segments(*three, start=start, stop=stop):
        if segment.keeps_destination:
            continue
        for candidate in iter_candidates(trees, segment, start=start, stop=stop):
            path, _, source, destination = candidate
            if candidate.is_conflict:
                unlike = may_be_none(candidate)
                yield Difference(ChangeType.CONFLICT, path, destination, source, unlike)
            else:
                yield Difference(type_of(destination, source), path, destination, source)


def differs_at(trees: TreeStore, left: MetarangeId, right: MetarangeId, path: bytes) -> bool:
    """Return whether two trees differ at one path.

    A range that both trees have is not opened.

    Raises:
        IntegrityError: a table that had to be read is missing or damaged.
    """
    ranges = [_range_at(trees.metarange(tree), path) for tree in (left, right)]
    if ranges[0] == ranges[1]:
        return False
    return not is_same(find(trees, left, path), find(trees, right, path))


def _range_at(tree: Metarange, path: bytes) -> RangeId | None:
    """Return the range of a tree that may hold a path, or ``None``."""
    position = tree.find(path)
    return None if position == len(tree) else range_id_of(tree.values[position])


def _interval(
    prefix: bytes, after: bytes, start: bytes, stop: bytes | None
) -> tuple[bytes, bytes | None]:
    return max(start, first_key(prefix, after)), prefix_end(prefix) if stop is None else stop

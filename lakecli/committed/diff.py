"""What differs between two trees, read only where they differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.committed.cursor import Cursor, iter_windows
from lakecli.committed.keys import first_key, prefix_end
from lakecli.committed.pairs import iter_pairs, type_of
from lakecli.committed.threeway import iter_candidates, segments
from lakecli.model import ChangeType, Difference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.committed.tree_store import TreeStore
    from lakecli.model import MetarangeId


def diff(
    trees: TreeStore,
    left: MetarangeId,
    right: MetarangeId,
    *,
    prefix: bytes = b"",
    after: bytes = b"",
) -> Iterator[Difference]:
    """Yield the paths that differ, in order: what turns `left` into `right`.

    Args:
        trees: where the trees lie.
        left: the tree to start from.
        right: the tree to arrive at.
        prefix: only paths that start with it.
        after: only paths greater than it.

    Raises:
        IntegrityError: a table that had to be read is missing or damaged.
    """
    yield from diff_between(
        trees, left, right, start=first_key(prefix, after), stop=prefix_end(prefix)
    )


def diff_between(
    trees: TreeStore,
    left: MetarangeId,
    right: MetarangeId,
    *,
    start: bytes = b"",
    stop: bytes | None = None,
) -> Iterator[Difference]:
    """Yield the same of the paths from `start` to before `stop`; ``None``: to the end.

    Raises:
        IntegrityError: a table that had to be read is missing or damaged.
    """
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
) -> Iterator[Difference]:
    """Yield what merging `right` into `left` would change, in path order, conflicts included.

    What changed on the left only is not shown, nor what changed alike on both sides.

    Args:
        trees: where the trees lie.
        base: what both came from.
        left: the merge's destination.
        right: the merge's source.
        prefix: only paths that start with it.
        after: only paths greater than it.

    Raises:
        IntegrityError: a table that had to be read is missing or damaged.
    """
    yield from compare_between(
        trees,
        base=base,
        left=left,
        right=right,
        start=first_key(prefix, after),
        stop=prefix_end(prefix),
    )


def compare_between(
    trees: TreeStore,
    *,
    base: MetarangeId,
    left: MetarangeId,
    right: MetarangeId,
    start: bytes = b"",
    stop: bytes | None = None,
) -> Iterator[Difference]:
    """Yield the same of the paths from `start` to before `stop`; ``None``: to the end.

    Raises:
        IntegrityError: a table that had to be read is missing or damaged.
    """
    three = map(trees.metarange, (base, right, left))
    for segment in segments(*three, start=start, stop=stop):
        if segment.keeps_destination:
            continue
        for candidate in iter_candidates(trees, segment, start=start, stop=stop):
            path, _, source, destination = candidate
            kind = ChangeType.CONFLICT if candidate.is_conflict else type_of(destination, source)
            yield Difference(kind, path, destination, source)

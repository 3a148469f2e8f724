"""Three-way merge of base, source and destination.

The result for one path, where A, B and C are different contents:

    ======  ======  ===========  ============================================
    base    source  destination  result
    ======  ======  ===========  ============================================
    A       A       any          the destination: the source did not change it
    A       any     A            the source: only the source changed it
    any     B       B            B: both made the same change; the destination's record is kept
    any     B       C            conflict: both changed it differently
    ======  ======  ===========  ============================================

An absent path counts as a content. A strategy decides conflicts and nothing else. Contents differ
if their identities do, unless the bytes of conflicting ones are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from lakecli.base.model import MergeStrategy, MetarangeId
from lakecli.committed.apply import Application, PathCounts
from lakecli.committed.metaranges import RangeRecord
from lakecli.committed.scan import Cursor, iter_pairs, iter_windows
from lakecli.committed.threeway import (
    Candidate,
    Conflicts,
    Segment,
    Slice,
    iter_candidates,
    may_be_none,
    segments,
)
from lakecli.committed.tree_store import TreeStore
from lakecli.committed.writer import TreeWriter, canonical


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The merged tree and how many paths differ from the destination."""

    metarange_id: MetarangeId
    added: int
    changed: int
    removed: int


class Resolution(Protocol):
    """Resolves a conflict; called for conflicts only."""

    def __call__(self, conflict: Candidate) -> bytes | None:
        """Return the value to record, or ``None`` for the path to be absent."""


def _take_source(conflict: Candidate) -> bytes | None:
    return conflict.source


def _take_destination(conflict: Candidate) -> bytes | None:
    return conflict.destination


STRATEGIES: Final[Mapping[MergeStrategy, Resolution | None]] = {
    MergeStrategy.FAIL: None,
    MergeStrategy.SOURCE_WINS: _take_source,
    MergeStrategy.DEST_WINS: _take_destination,
}
"""How each strategy resolves a conflict; ``None``: the merge fails."""


def merge(
    trees: TreeStore,
    *,
    base: MetarangeId,
    source: MetarangeId,
    destination: MetarangeId,
    strategy: MergeStrategy,
) -> MergeResult:
    """Merge `source` into `destination`; the result is durable when this returns.

    Args:
        trees: the store that holds the trees.
        base: the common ancestor.
        source: the tree whose changes since the base are merged.
        destination: the tree they are merged into.
        strategy: how conflicts are resolved.

    Raises:
        MergeConflict: there are conflicts and `strategy` resolves none; nothing was written.
        IntegrityError: a table that had to be read is missing or damaged.
    """
    if source in {base, destination}:
        return MergeResult(destination, 0, 0, 0)
    # Only the destination has to be cut as lakecli does it: the base and the source are read.
    ours = canonical(trees, destination, build=destination != base)
    before, theirs = (canonical(trees, tree, build=False) for tree in (base, source))
    counts = PathCounts()
    if destination == base:
        _count(trees, counts, Slice(ours, 0, len(ours)), Slice(theirs, 0, len(theirs)))
        return MergeResult(source, counts.added, counts.changed, counts.removed)
    resolve = STRATEGIES[strategy]
    if resolve is None:
        _refuse_conflicts(trees, segments(before, theirs, ours))
    writer = TreeWriter(trees, bases=(ours, theirs))
    application = Application(trees, writer, counts)
    for segment in segments(before, theirs, ours):
        more = not segment.is_last
        if segment.keeps_destination:
            writer.copy_ranges(*segment.destination, more=more)
        elif segment.base.is_same(segment.destination):
            _count(trees, counts, segment.destination, segment.source)
            writer.copy_ranges(*segment.source, more=more)
        else:
            changes = _iter_changes(iter_candidates(trees, segment), resolve)
            application.run(*segment.destination, changes, more=more)
    if not counts:
        return MergeResult(destination, 0, 0, 0)
    return MergeResult(writer.finish(), counts.added, counts.changed, counts.removed)


def _iter_changes(
    candidates: Iterable[Candidate], resolve: Resolution | None
) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the changes that the merge makes to the destination."""
    for candidate in candidates:
        if not candidate.is_conflict:
            yield candidate.path, candidate.source
        elif resolve is not None:
            value = resolve(candidate)
            if value is not candidate.destination:
                yield candidate.path, value


def _refuse_conflicts(trees: TreeStore, all_segments: Iterable[Segment]) -> None:
    """Refuse a merge with conflicts, before anything is written.

    Raises:
        MergeConflict: there are conflicts.
    """
    conflicts = Conflicts()
    for segment in all_segments:
        if segment.is_contested:
            for candidate in iter_candidates(trees, segment):
                if candidate.is_conflict:
                    conflicts.add(candidate.path, unlike_checksums=may_be_none(candidate))
    conflicts.check()


def _count(trees: TreeStore, counts: PathCounts, before: Slice, after: Slice) -> None:
    """Count the paths that differ; a range that nothing overlaps is counted without opening it."""
    left = Cursor(trees, before.tree, first=before.first, last=before.last)
    right = Cursor(trees, after.tree, first=after.first, last=after.last)

    def count_range(cursor: Cursor, record: RangeRecord) -> None:
        if cursor is left:
            counts.removed += record.count
        else:
            counts.added += record.count

    for _, old, new in iter_pairs(iter_windows(left, right, skip_whole=count_range)):
        if old is None:
            counts.added += 1
        elif new is None:
            counts.removed += 1
        else:
            counts.changed += 1

"""Join the parts of an import, and the records of the branch around them, into one tree."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from lakecli.base.model import MetarangeId
from lakecli.committed.metaranges import Metarange, is_ours, iter_runs
from lakecli.committed.tree_store import TreeStore
from lakecli.committed.writer import TreeWriter
from lakecli.imports.sink import Cut


def join_parts(
    trees: TreeStore, base: Metarange, cuts: Iterable[Cut], *, low: bytes, high: bytes | None
) -> MetarangeId:
    """Write the tree that has `cuts` from `low` up to `high`, and `base` elsewhere.

    Args:
        trees: reads and writes trees.
        base: the tree of the branch.
        cuts: results of the parts, in order of their paths.
        low: the first path of the parts.
        high: the first path after the parts; ``None``: they have no end.

    Returns:
        The ID of the tree, which is durable.
    """
    writer = TreeWriter(trees, bases=(base,))
    _copy_before(trees, writer, base, low)
    for cut in cuts:
        writer.add_many(cut.head_keys, cut.head_values)
        writer.take_ranges(cut.range_keys, cut.range_values)
        writer.add_many(cut.tail_keys, cut.tail_values)
    if high is not None:
        _copy_from(trees, writer, base, high)
    return writer.finish()


def _copy_before(trees: TreeStore, writer: TreeWriter, base: Metarange, low: bytes) -> None:
    """Copy the records of the base before a path."""
    position = base.find(low)
    if position:
        writer.copy_ranges(base, 0, position, more=True)
    if position == len(base):
        return
    record = base.record(position)
    if record.min_key >= low:
        return
    table = trees.table(record)
    verbatim = is_ours(table)
    for run in iter_runs(table, record):
        end = bisect_left(run.keys, low)
        writer.add_run(run, 0, end, verbatim=verbatim)
        if end < len(run.keys):
            return


def _copy_from(trees: TreeStore, writer: TreeWriter, base: Metarange, high: bytes) -> None:
    """Copy the records of the base from a path on."""
    position = base.find(high)
    if position == len(base):
        return
    record = base.record(position)
    if record.min_key < high:
        table = trees.table(record)
        verbatim = is_ours(table)
        for run in iter_runs(table, record):
            writer.add_run(run, bisect_left(run.keys, high), verbatim=verbatim)
        position += 1
    writer.copy_ranges(base, position, len(base), more=False)

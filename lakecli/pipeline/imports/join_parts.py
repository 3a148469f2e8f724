"""Joining the parts of an import, and what the branch has outside of it, into one tree."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from lakecli.committed.ranges import is_ours, iter_blocks
from lakecli.committed.writer import TreeWriter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakecli.committed.metaranges import Metarange
    from lakecli.committed.tree_store import TreeStore
    from lakecli.model import MetarangeId
    from lakecli.pipeline.imports.sink import Cut


def join_parts(
    trees: TreeStore, base: Metarange, cuts: Iterable[Cut], *, low: bytes, high: bytes | None
) -> MetarangeId:
    """Return the tree that has `cuts` from `low` up to `high`, and `base` elsewhere.

    All of it is durable by then.

    Args:
        trees: where the trees lie.
        base: the branch's.
        cuts: what the parts made, in order of their paths.
        low: the first path that the parts stand for.
        high: the first one after them; ``None`` where they reach to the end.
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
    """Copy what the base has before a path."""
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
    for block in iter_blocks(table, record):
        if block.keys[-1] < low:
            writer.add_block(block, verbatim=verbatim)
            continue
        end = bisect_left(block.keys, low)
        writer.add_many(block.keys[:end], block.values[:end])
        return


def _copy_from(trees: TreeStore, writer: TreeWriter, base: Metarange, high: bytes) -> None:
    """Copy what the base has from a path on."""
    position = base.find(high)
    if position == len(base):
        return
    record = base.record(position)
    if record.min_key < high:
        table = trees.table(record)
        verbatim = is_ours(table)
        for block in iter_blocks(table, record):
            if block.keys[0] >= high:
                writer.add_block(block, verbatim=verbatim)
            elif block.keys[-1] >= high:
                start = bisect_left(block.keys, high)
                writer.add_many(block.keys[start:], block.values[start:])
        position += 1
    writer.copy_ranges(base, position, len(base), more=False)

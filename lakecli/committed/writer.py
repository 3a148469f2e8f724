"""Writing trees: `apply` changes a tree, as a commit does, and `TreeWriter` writes any tree.

`TreeWriter` builds every tree: of commits, merges and imports. It takes records, blocks and whole
ranges in ascending order of their keys, and always cuts ranges by the rule of `splitter`. So equal
contents make equal ranges, equal names and an equal tree, no matter where the records come from.

Ranges that no change touches are reused and never opened. In the other ranges, blocks that no
change touches are copied as they are stored. A range of another tree is reused unread if the writer
is at a cut and the range was cut by the same rule: writing its records one by one would give the
same range. Only the last range of a tree may end where the rule does not cut. It is reused if the
rule happens to cut there, or if nothing follows. Otherwise its records are written again, and its
untouched blocks are copied.

lakeFS's ranges end at other keys, so a commit on top of a lakeFS tree would write the whole tree
again, and so would the next commit on another branch. So `canonical` first writes the tree without
changes, and records the result. Every commit and merge then writes only the ranges that it touches.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeAlias

from lakecli.base import layout
from lakecli.base.identity import DIGEST_SIZE, blake3_of, record_id, tree_id
from lakecli.base.model import EMPTY_TREE, MetarangeId, RangeId
from lakecli.committed import metaranges
from lakecli.committed.outline import Copied, outline_of
from lakecli.committed.segments import Slice
from lakecli.committed.splitter import Splitter
from lakecli.committed.tree_store import RebuiltTrees, TableBatch, TreeStore
from lakecli.committed.values import digests, identity_of
from lakecli.sstable.block import Run
from lakecli.sstable.reader import BytesSource, SSTable
from lakecli.sstable.writer import TableWriter

CHUNK_SIZE = 4096
"""Largest number of changes that are in memory at a time."""

_WRITER: Final = {metaranges.WRITER_PROPERTY: metaranges.WRITER}


Change: TypeAlias = tuple[bytes, bytes | None]
"""A path, and its new encoded value; ``None`` to delete the path."""


def apply(trees: TreeStore, base: MetarangeId, changes: Iterable[Change]) -> MetarangeId:
    """Apply `changes` to `base`, make the new tree durable and return it.

    Writing a value of equal identity keeps the existing record, and deleting an absent path does
    nothing; neither counts as a change. Without a change the result is `base` and nothing is
    written.

    Args:
        changes: paths with encoded values, or with ``None`` to delete the path; sorted by path,
            each path once.

    Raises:
        ValueError: the changes are not in ascending order.
    """
    pending = iter(changes)
    first = next(pending, None)
    if first is None:
        return base
    tree = canonical(trees, base)
    application = Application(trees, bases=(tree,))
    application.run(Slice(tree, 0, len(tree)), chain([first], pending), more=False)
    return application.finish(base)


class Changes:
    """A stream of changes, with the key of the next change visible before the change is taken.

    Attributes:
        key: the key of the next change; ``None`` at the end.
    """

    def __init__(self, changes: Iterable[Change]) -> None:
        self._rest = iter(changes)
        self.key: bytes | None = None
        self._value: bytes | None = None
        self.pop()

    def pop(self) -> bytes | None:
        """Return the value of the next change and move past it."""
        last, value = self.key, self._value
        self.key, self._value = next(self._rest, (None, None))
        if last is not None and self.key is not None and self.key <= last:
            raise ValueError("changes that are not in ascending order of their paths")
        return value

    def before(self, limit: bytes | None) -> Iterator[list[Change]]:
        """Yield, in chunks, all changes with keys less than `limit`; ``None``: no limit."""
        chunk: list[Change] = []
        while (key := self.key) is not None and (limit is None or key < limit):
            chunk.append((key, self.pop()))
            if len(chunk) == CHUNK_SIZE:
                yield chunk
                chunk = []
        if chunk:
            yield chunk


class Application:
    """Writes a new tree: ranges of other trees, unchanged or with changes applied."""

    def __init__(self, trees: TreeStore, *, bases: Sequence[metaranges.Metarange]) -> None:
        self._trees = trees
        self._writer = TreeWriter(trees, bases=bases)
        self._is_changed = False

    def finish(self, before: MetarangeId) -> MetarangeId:
        """Make the new tree durable and return it; return `before` if nothing changed."""
        return self._writer.finish() if self._is_changed else before

    def take(self, ranges: Slice, *, more: bool) -> None:
        """Write ranges of another tree, unchanged, instead of ranges of the tree to change."""
        self._is_changed = True
        self._writer.copy_ranges(*ranges, more=more)

    def run(self, ranges: Slice, changes: Iterable[Change], *, more: bool) -> None:
        """Write ranges of a tree with changes applied.

        Args:
            changes: the changes, sorted by key. All keys are at or after the start of the first
                range. If the last of these ranges is not the last one of the tree, all keys are at
                or before its end.
            more: whether anything is written afterwards.
        """
        writer = self._writer
        tree, first, last = ranges
        pending = Changes(changes)
        while first < last:
            key = pending.key
            if key is None:
                writer.copy_ranges(tree, first, last, more=more)
                return
            touched = min(tree.find(key, first), last)
            if touched > first:
                writer.copy_ranges(tree, first, touched, more=True)
                first = touched
                continue
            record = tree.record(first)
            if key < record.min_key:
                self._add(pending, record.min_key)
                continue
            self._rewrite(record, pending)
            first += 1
        self._add(pending, None)

    def _add(self, changes: Changes, limit: bytes | None) -> None:
        """Write changes with keys less than `limit`; the tree has none of these paths."""
        for chunk in changes.before(limit):
            added = [(key, value) for key, value in chunk if value is not None]
            self._writer.add_many([key for key, _ in added], [value for _, value in added])
            self._is_changed = self._is_changed or bool(added)

    def _rewrite(self, record: metaranges.RangeRecord, changes: Changes) -> None:
        """Write a range with the changes up to its last key."""
        table = self._trees.table(record)
        verbatim = metaranges.is_ours(table)
        for run in metaranges.iter_runs(table, record):
            done = 0
            last = run.keys[-1]
            while (key := changes.key) is not None and key <= last:
                number = run.block_of(bisect_left(run.keys, key, done))
                done = self._rewrite_block(run, number, changes, done, verbatim=verbatim)
            self._writer.add_run(run, done, verbatim=verbatim)

    def _rewrite_block(
        self, run: Run, number: int, changes: Changes, done: int, *, verbatim: bool
    ) -> int:
        """Write a run from position `done` to the end of block `number`, with the block's changes.

        If no change alters the block, nothing is written.

        Returns:
            The position up to which the run has been written.
        """
        start, stop = run.starts[number], run.starts[number + 1]
        keys, values = run.keys[start:stop], run.values[start:stop]
        last = keys[-1]
        new_keys: list[bytes] = []
        new_values: list[bytes] = []
        written = 0
        differs = False
        while (key := changes.key) is not None and key <= last:
            value = changes.pop()
            at = bisect_left(keys, key, written)
            present = keys[at] == key
            if value is None:
                if not present:
                    continue
            elif present and identity_of(value) == identity_of(values[at]):
                continue  # keep the existing record, including its times
            if not differs:
                self._writer.add_run(run, done, start, verbatim=verbatim)
                differs = self._is_changed = True
            new_keys += keys[written:at]
            new_values += values[written:at]
            written = at + present
            if value is not None:
                new_keys.append(key)
                new_values.append(value)
                if len(new_keys) >= CHUNK_SIZE:
                    self._writer.add_many(new_keys, new_values)
                    new_keys, new_values = [], []
        if not differs:
            return done
        self._writer.add_many(new_keys + keys[written:], new_values + values[written:])
        return stop


class TreeWriter:
    """Builds one tree, in one thread. Nothing is durable before `finish` returns.

    Args:
        bases: similar trees, whose ranges are reused instead of written again.
    """

    def __init__(self, trees: TreeStore, *, bases: Sequence[metaranges.Metarange] = ()) -> None:
        self._trees = trees
        self._bases = bases
        self._splitter = Splitter(trees.range_entries)
        self._batch: TableBatch | None = None
        # The finished ranges: slices of metaranges, in order; the metarange's records of ranges
        # written since the last slice; and the IDs of all records.
        self._kept: list[Slice] = []
        self._keys: list[bytes] = []
        self._values: list[bytes] = []
        self._ids: list[bytes] = []
        self._last_key = b""
        self._table: TableWriter | None = None
        self._record_ids: list[bytes] = []

    @property
    def at_cut(self) -> bool:
        """Whether the next record is the first one of a range."""
        return self._table is None

    @property
    def open_entries(self) -> int:
        """Number of records added since the last finished range."""
        return 0 if self._table is None else self._table.count

    def add_run(self, run: Run, start: int = 0, stop: int | None = None, *, verbatim: bool) -> None:
        """Add records of a run of blocks.

        Args:
            verbatim: whether to copy blocks as they are stored, except blocks inside which a range
                ends. Only allowed if lakecli wrote the blocks: the ends of its blocks depend on the
                records alone.

        Raises:
            ValueError: the keys do not ascend.
        """
        copied = (run, start) if verbatim else None
        self.add_many(run.keys[start:stop], run.values[start:stop], copied)

    def copy_ranges(self, tree: metaranges.Metarange, first: int, last: int, *, more: bool) -> None:
        """Add consecutive ranges of a tree.

        Args:
            more: whether anything is added afterwards.
        """
        canonical = tree.range_entries == self._splitter.range_entries
        while first < last:
            if not (canonical and self.at_cut):
                self._stream(tree, first)
                first += 1
                continue
            whole = last
            if last == len(tree) and more:
                record = tree.record(last - 1)
                whole -= not self._splitter.is_cut(blake3_of(record.max_key), record.count)
            if whole > first:
                self._take(tree, first, whole)
            if whole < last:
                self._stream(tree, whole)
            return

    def take_ranges(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Add finished ranges of another writer without reading them.

        Args:
            keys: the last key of each range.
            values: the metarange's record of each range.

        Raises:
            ValueError: the last added range is not finished, or the keys do not ascend.
        """
        if not keys:
            return
        if not self.at_cut:
            raise ValueError("ranges added in the middle of another range")
        self._check_order(metaranges.decode_range_record(values[0]).min_key)
        self._keys += keys
        self._values += values
        self._ids.append(digests(keys, values)[1])
        self._last_key = self._keys[-1]

    def finish_ranges(self) -> tuple[list[bytes], list[bytes]]:
        """Make the finished ranges durable and return them as records of a metarange.

        The last `open_entries` records are not part of a finished range: the caller must keep them.
        """
        if self._batch is not None:
            self._trees.flush(self._batch)
        keys: list[bytes] = []
        values: list[bytes] = []
        self._keep_own()
        for tree, first, last in self._kept:
            keys += tree.keys[first:last]
            values += tree.values[first:last]
        return keys, values

    def finish(self) -> MetarangeId:
        """Write the metarange, make everything durable and return the tree's ID.

        If the tree equals one of the bases, nothing is written.
        """
        if self._table is not None:
            self._end_range(self._table)
        self._keep_own()
        if not self._kept:
            return EMPTY_TREE
        range_entries = self._splitter.range_entries
        record_ids = b"".join(self._ids)
        tree = MetarangeId(tree_id([record_ids]))
        if any(tree == base.id for base in self._bases):
            return tree
        cuts = {metaranges.TREE_PROPERTY: metaranges.encode_tree_property(range_entries)}
        table = TableWriter(properties={"type": b"metaranges", **cuts, **_WRITER})
        copied: list[Copied] = []
        for kept, first, last in self._kept:
            if kept.blocks is None:
                table.add_many(kept.keys[first:last], kept.values[first:last])
            else:
                where = table.copy_run(kept.blocks, first, last)
                if where is not None:
                    copied.append(Copied(where[0], kept.blocks.outline, *where[1:]))
        body = table.finish()
        self._write(tree, body)
        self._trees.counts.metaranges_written += 1
        self._trees.flush(self._open_batch())
        if self._trees.is_outlined(len(body)):
            written = SSTable(BytesSource(layout.sstable_key(tree), body))
            outline = outline_of(written, range_entries, record_ids, copied)
            self._trees.put_outline(tree, outline)
        else:
            ranges = self.finish_ranges()
            new = metaranges.Metarange(tree, *ranges, range_entries=range_entries)
            self._trees.remember(new)
        return tree

    def add_many(
        self, keys: Sequence[bytes], values: Sequence[bytes], copied: tuple[Run, int] | None = None
    ) -> None:
        """Add records in ascending order of their keys.

        Args:
            copied: the run that has the records, and the position of the first record in it: blocks
                are copied as they are stored. ``None``: encode the records.
        """
        if not keys:
            return
        self._check_order(keys[0])
        key_digests, record_ids = digests(keys, values)
        self._last_key = keys[-1]
        cuts = self._splitter.cuts(key_digests, self.open_entries)
        start = 0
        for end in dict.fromkeys([*(cut + 1 for cut in cuts), len(keys)]):
            if self._table is None:
                self._table = TableWriter(properties={"type": b"ranges", **_WRITER})
            table = self._table
            if copied is None:
                table.add_many(keys[start:end], values[start:end])
            else:
                run, at = copied
                table.copy_run(run, at + start, at + end)
            self._record_ids.append(record_ids[start * DIGEST_SIZE : end * DIGEST_SIZE])
            start = end
            if cuts and end <= cuts[-1] + 1:
                self._end_range(table)

    def _check_order(self, key: bytes) -> None:
        if key <= self._last_key and (self._table is not None or self._ids):
            raise ValueError(f"keys are not in ascending order: {key!r}")

    def _end_range(self, table: TableWriter) -> None:
        range_id = RangeId(tree_id(self._record_ids))
        key = table.max_key
        value = next(filter(None, (base.value_of(range_id, key) for base in self._bases)), None)
        if value is None:
            size = self._write(range_id, table.finish())
            value = metaranges.encode_range_record(
                metaranges.RangeRecord(range_id, table.min_key, key, size, table.count)
            )
            self._trees.counts.ranges_written += 1
        self._keys.append(key)
        self._values.append(value)
        self._ids.append(record_id(key, range_id.encode()))
        self._table = None
        self._record_ids = []

    def _write(self, table_id: str, body: bytes) -> int:
        return self._trees.write(self._open_batch(), table_id, body)

    def _open_batch(self) -> TableBatch:
        if self._batch is None:
            self._batch = self._trees.begin()
        return self._batch

    def _take(self, tree: metaranges.Metarange, first: int, last: int) -> None:
        """Reuse ranges of a tree without reading them.

        Raises:
            Mismatch: the first range begins before the end of the tree that was written so far.
        """
        record = tree.record(first)
        if record.min_key <= self._last_key and self._ids:
            what = f"its first key would be {record.min_key!r}, after {self._last_key!r}"
            raise metaranges.Mismatch(layout.sstable_key(record.id), what)
        self._keep_own()
        self._kept.append(Slice(tree, first, last))
        self._ids.append(tree.record_ids[first * DIGEST_SIZE : last * DIGEST_SIZE])
        self._last_key = tree.keys[last - 1]

    def _keep_own(self) -> None:
        """Append the newly written ranges to the list of finished ranges."""
        if self._keys:
            own = metaranges.Metarange(EMPTY_TREE, self._keys, self._values, range_entries=None)
            self._kept.append(Slice(own, 0, len(own)))
            self._keys, self._values = [], []

    def _stream(self, tree: metaranges.Metarange, position: int) -> None:
        """Add the records of the range at a position."""
        record = tree.record(position)
        table = self._trees.table(record)
        verbatim = metaranges.is_ours(table)
        for run in metaranges.iter_runs(table, record):
            self.add_run(run, verbatim=verbatim)


def canonical(trees: TreeStore, tree: MetarangeId) -> metaranges.Metarange:
    """Return a tree with the same contents and lakecli's ranges; rebuild it if lakeFS wrote it.

    Raises:
        LostRace: garbage collection is running, or has just deleted the rebuilt tree.
    """
    found = find_canonical(trees, tree)
    if trees.rebuilt is None or trees.cuts_as(found):
        return found
    return trees.metarange(_rebuild(trees, found, trees.rebuilt))


def find_canonical(trees: TreeStore, tree: MetarangeId) -> metaranges.Metarange:
    """Return the tree that `canonical` built from `tree` earlier, else `tree` itself.

    Raises:
        LostRace: garbage collection is running, or has just deleted the rebuilt tree.
    """
    found = trees.metarange(tree)
    if trees.rebuilt is None or trees.cuts_as(found):
        return found
    known = trees.rebuilt.find(tree)
    return trees.metarange(known) if known is not None and trees.claim(known) else found


def _rebuild(trees: TreeStore, tree: metaranges.Metarange, rebuilt: RebuiltTrees) -> MetarangeId:
    """Write a tree again with lakecli's ranges, and record the result."""
    writer = TreeWriter(trees)
    records = [tree.record(position) for position in range(len(tree))]
    with rebuilt.show(sum(record.count for record in records)) as progress:
        for position, record in enumerate(records):
            writer.copy_ranges(tree, position, position + 1, more=True)
            progress.advance(items=record.count)
        made = writer.finish()
    rebuilt.put(tree.id, made)
    return made

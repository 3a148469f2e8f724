"""Applying changes to a tree, as a commit does.

Ranges that no change touches are reused and never opened. In the other ranges, blocks that no
change touches are copied as they are stored.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from operator import lt
from typing import NamedTuple

from lakecli.base.model import MetarangeId
from lakecli.committed.metaranges import Metarange, RangeRecord, is_ours, iter_runs
from lakecli.committed.tree_store import TreeStore
from lakecli.committed.values import identity_of
from lakecli.committed.writer import TreeWriter, canonical
from lakecli.sstable.block import Run

CHUNK = 4096
"""Changes held in memory at a time."""


class ApplyResult(NamedTuple):
    """A new tree and how many paths differ from the old one, or from a merge's destination."""

    metarange_id: MetarangeId
    added: int
    changed: int
    removed: int


class PathCounts:
    """Paths that differ so far."""

    def __init__(self) -> None:
        self.added = 0
        self.changed = 0
        self.removed = 0

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


def apply(
    trees: TreeStore, base: MetarangeId, changes: Iterable[tuple[bytes, bytes | None]]
) -> ApplyResult:
    """Apply `changes` to `base` and return the new tree, which is durable by then.

    Writing a value of equal identity keeps the existing record, and deleting an absent path does
    nothing; neither is counted. Without a counted change the result is `base` and nothing is
    written.

    Args:
        trees: the store that holds the trees.
        base: the tree to start from.
        changes: path and encoded value, or ``None`` to delete it; sorted by path, each path once.

    Raises:
        IntegrityError: a table that had to be read is missing or damaged.
        ValueError: the changes are not in ascending order.
    """
    pending = iter(changes)
    first = next(pending, None)
    if first is None:
        return ApplyResult(base, 0, 0, 0)
    tree = trees.metarange(base)
    if not trees.cuts_as(tree):
        tree = canonical(trees, base, build=True)
    writer = TreeWriter(trees, bases=(tree,))
    counts = PathCounts()
    Application(trees, writer, counts).run(tree, 0, len(tree), chain([first], pending), more=False)
    if not counts:
        return ApplyResult(base, 0, 0, 0)
    return ApplyResult(writer.finish(), counts.added, counts.changed, counts.removed)


class Changes:
    """A stream of changes whose next key is visible.

    Attributes:
        key: of the next change; ``None`` at the end.
    """

    def __init__(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        self._rest = iter(changes)
        self._keys: list[bytes] = []
        self._values: list[bytes | None] = []
        self._at: int
        self.key: bytes | None
        self._fill()

    def pop(self) -> bytes | None:
        """Return the value of the next change and move past it."""
        value = self._values[self._at]
        self._step(self._at + 1)
        return value

    def before(self, limit: bytes | None) -> Iterator[tuple[list[bytes], list[bytes | None]]]:
        """Yield, in chunks, all changes with keys less than `limit`; ``None`` is no limit."""
        while self.key is not None and (limit is None or self.key < limit):
            start = self._at
            end = len(self._keys) if limit is None else bisect_left(self._keys, limit, start)
            chunk = self._keys[start:end], self._values[start:end]
            self._step(end)
            yield chunk

    def _step(self, at: int) -> None:
        self._at = at
        if at < len(self._keys):
            self.key = self._keys[at]
        else:
            self._fill()

    def _fill(self) -> None:
        last = self._keys[-1:]
        chunk = list(islice(self._rest, CHUNK))
        self._keys = [key for key, _ in chunk]
        self._values = [value for _, value in chunk]
        ordered = last + self._keys
        if not all(map(lt, ordered, islice(ordered, 1, None))):
            raise ValueError("changes that are not in ascending order of their paths")
        self._at = 0
        self.key = self._keys[0] if chunk else None


class Application:
    """Applies changes to ranges of a tree and passes the result to a writer.

    Args:
        trees: the store that holds the tree.
        writer: takes the new tree.
        counts: incremented for every path that differs afterwards.
    """

    def __init__(self, trees: TreeStore, writer: TreeWriter, counts: PathCounts) -> None:
        self._trees = trees
        self._writer = writer
        self._counts = counts

    def run(
        self,
        tree: Metarange,
        first: int,
        last: int,
        changes: Iterable[tuple[bytes, bytes | None]],
        *,
        more: bool,
    ) -> None:
        """Write ranges of a tree with changes applied.

        Args:
            tree: the tree that has the ranges.
            first: position of the first range.
            last: position after the last range.
            changes: sorted; none precedes the range at `first`, and none follows the last of these
                ranges unless it is the last of the tree.
            more: whether anything is written afterwards.
        """
        writer = self._writer
        pending = Changes(changes)
        while first < last:
            key = pending.key
            if key is None:
                writer.copy_ranges(tree, first, last, more=more)
                return
            touched = min(bisect_left(tree.keys, key, first), last)
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
        """Write changes to paths that the tree does not have."""
        for keys, values in changes.before(limit):
            added = [value for value in values if value is not None]
            if len(added) == len(keys):
                self._writer.add_many(keys, added)
            else:
                pairs = zip(keys, values, strict=True)
                self._writer.add_many([key for key, value in pairs if value is not None], added)
            self._counts.added += len(added)

    def _rewrite(self, record: RangeRecord, changes: Changes) -> None:
        """Write a range with the changes up to its last key."""
        table = self._trees.table(record)
        verbatim = is_ours(table)
        for run in iter_runs(table, record):
            done = 0
            last = run.keys[-1]
            while (key := changes.key) is not None and key <= last:
                number = run.block_of(bisect_left(run.keys, key, done))
                done = self._rewrite_block(run, number, changes, done, verbatim=verbatim)
            self._writer.add_run(run, done, verbatim=verbatim)

    def _rewrite_block(
        self, run: Run, number: int, changes: Changes, done: int, *, verbatim: bool
    ) -> int:
        """Write a run from position `done` to the end of a block that changes.

        If it does not change, nothing is written.

        Returns:
            The position up to which the run is written.
        """
        counts = self._counts
        start, stop = run.start_of(number), run.start_of(number + 1)
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
                counts.removed += 1
            elif not present:
                counts.added += 1
            elif identity_of(value) == identity_of(values[at]):
                continue  # keep the existing record, including its times
            else:
                counts.changed += 1
            if not differs:
                self._writer.add_run(run, done, start, verbatim=verbatim)
                differs = True
            new_keys += keys[written:at]
            new_values += values[written:at]
            written = at + present
            if value is not None:
                new_keys.append(key)
                new_values.append(value)
                if len(new_keys) >= CHUNK:
                    self._writer.add_many(new_keys, new_values)
                    new_keys, new_values = [], []
        if not differs:
            return done
        self._writer.add_many(new_keys + keys[written:], new_values + values[written:])
        return stop

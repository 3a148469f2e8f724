"""Read the records of a branch in an interval of paths, opening as few ranges as possible."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from lakecli.committed.metaranges import Metarange, iter_runs
from lakecli.committed.tree_store import TreeStore
from lakecli.sstable.block import Run


class Whole(NamedTuple):
    """A range that lies completely in the interval, not opened."""

    position: int
    records: int


class Records(NamedTuple):
    """Some consecutive records."""

    keys: list[bytes]
    values: list[bytes]


if TYPE_CHECKING:
    Piece: TypeAlias = Whole | Records


class BaseSlice:
    """A walk over the records of a tree from `low` up to `high`.

    Args:
        trees: reads the tree.
        tree: the tree.
        low: the first path.
        high: the first path after the interval; ``None``: the interval has no end.
    """

    def __init__(
        self, trees: TreeStore, tree: Metarange, *, low: bytes, high: bytes | None
    ) -> None:
        self._trees = trees
        self._tree = tree
        self._low = low
        self._high = high
        self._next = tree.find(low)
        self._keys: list[bytes] = []
        self._values: list[bytes] = []
        self._at = 0
        self._runs: Iterator[Run] | None = None
        self._max_key = b""

    def before(self, limit: bytes | None) -> Iterator[Piece]:
        """Yield the records before `limit`, or all remaining ones, and step past them."""
        if limit is None or (self._high is not None and limit > self._high):
            limit = self._high
        while True:
            if self._at < len(self._keys):
                start = self._at
                end = len(self._keys) if limit is None else bisect_left(self._keys, limit, start)
                self._at = end
                if end > start:
                    yield Records(self._keys[start:end], self._values[start:end])
                if end < len(self._keys):
                    return
            if self._load_run():
                continue
            if self._next >= len(self._tree):
                return
            record = self._tree.record(self._next)
            if limit is not None and record.min_key >= limit:
                return
            if record.min_key >= self._low and (limit is None or record.max_key < limit):
                self._next += 1
                yield Whole(self._next - 1, record.count)
            else:
                self._open()

    def horizon(self, key: bytes) -> bytes | None:
        """Return the end of the run that contains `key`: of records of one range, or of none.

        All records before `key` must have been stepped past.

        Returns:
            The first path after the run; ``None`` if nothing follows.
        """
        if self._runs is None and self._next < len(self._tree):
            first = self._tree.record(self._next).min_key
            if first > key:
                return first if self._high is None or first < self._high else None
            self._open()
        return None if self._runs is None else self._max_key + b"\0"

    def read(self, position: int) -> Iterator[Records]:
        """Yield the records of a range that `before` yielded as `Whole`."""
        record = self._tree.record(position)
        for run in iter_runs(self._trees.table(record), record):
            yield Records(run.keys, run.values)

    def _open(self) -> None:
        record = self._tree.record(self._next)
        self._runs = iter_runs(self._trees.table(record), record)
        self._max_key = record.max_key
        self._next += 1

    def _load_run(self) -> bool:
        """Load the next blocks of the open range that reach into the interval."""
        while self._runs is not None:
            run = next(self._runs, None)
            if run is None:
                self._runs = None
                break
            if run.keys[-1] >= self._low:
                self._keys, self._values = run.keys, run.values
                self._at = bisect_left(run.keys, self._low)
                return True
        self._keys, self._values, self._at = [], [], 0
        return False

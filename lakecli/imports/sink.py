"""Write the ranges of one part of a tree, independent of what comes before and after it.

Where a range ends depends on where it began, except at keys where x mod N is 0: there a range
always ends (see `lakecli.committed.splitter`). So the records up to the first such key are returned
as the *head*, ranges are written from there on, and records in no finished range are returned as
the *tail*. `join_parts` writes tails and heads.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from lakecli.base.identity import h
from lakecli.committed.metaranges import Metarange
from lakecli.committed.splitter import Splitter, key_number
from lakecli.committed.tree_store import TreeStore
from lakecli.committed.writer import TreeWriter
from lakecli.imports.base import BaseSlice, Whole


class Cut(NamedTuple):
    """A part of a tree: single records, records of finished ranges, and single records."""

    head_keys: list[bytes]
    head_values: list[bytes]
    range_keys: list[bytes]
    range_values: list[bytes]
    tail_keys: list[bytes]
    tail_values: list[bytes]


EMPTY = Cut([], [], [], [], [], [])


class Sink:
    """Takes records and whole ranges of `base` in ascending order.

    Args:
        trees: writes the ranges.
        base: the present tree, whose ranges are reused.
    """

    def __init__(self, trees: TreeStore, base: Metarange) -> None:
        self._writer = TreeWriter(trees, bases=(base,))
        self._base = base
        self._splitter = Splitter(trees.range_entries)
        self._is_canonical = base.range_entries == trees.range_entries
        self._has_cut = False
        self._head_keys: list[bytes] = []
        self._head_values: list[bytes] = []
        self._recent: deque[tuple[list[bytes], list[bytes]]] = deque()
        self._recent_count = 0

    def add(self, keys: list[bytes], values: list[bytes]) -> None:
        """Add records."""
        if not self._has_cut:
            end = self._find_cut(keys)
            self._head_keys += keys[:end]
            self._head_values += values[:end]
            keys, values = keys[end:], values[end:]
        if not keys:
            return
        self._writer.add_many(keys, values)
        self._recent.append((keys, values))
        self._recent_count += len(keys)
        self._forget()

    def add_range(self, base: BaseSlice, whole: Whole) -> None:
        """Add a range of the base; read it only if it cannot be reused as it is."""
        position = whole.position
        if self._has_cut and self._is_canonical and self._writer.at_cut:
            record = self._base.record(position)
            is_last = position == len(self._base) - 1
            if not is_last or self._splitter.is_cut(h(record.max_key), record.count):
                self._writer.copy_ranges(self._base, position, position + 1, more=True)
                self._forget()
                return
        for keys, values in base.read(position):
            self.add(keys, values)

    def finish(self) -> Cut:
        """Make the ranges durable and return the part."""
        range_keys, range_values = self._writer.finish_ranges()
        open_entries = self._writer.open_entries
        tail_keys = [key for keys, _ in self._recent for key in keys]
        tail_values = [value for _, values in self._recent for value in values]
        start = len(tail_keys) - open_entries
        return Cut(
            self._head_keys,
            self._head_values,
            range_keys,
            range_values,
            tail_keys[start:],
            tail_values[start:],
        )

    def _find_cut(self, keys: list[bytes]) -> int:
        """Return the position after the first key that always ends a range, or after all keys."""
        number = self._splitter.range_entries
        for at, key in enumerate(keys):
            if key_number(h(key)) % number == 0:
                self._has_cut = True
                return at + 1
        return len(keys)

    def _forget(self) -> None:
        """Drop records that are in finished ranges."""
        needed = self._writer.open_entries
        while self._recent and self._recent_count - len(self._recent[0][0]) >= needed:
            self._recent_count -= len(self._recent.popleft()[0])

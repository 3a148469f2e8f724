"""Reading a tree in order: scans, listings, the cursor, and the walk over two trees side by side.

The next item of a cursor is an unopened range, an undecoded block, or a record. The cursor can
enter or skip a range or a block, so a comparison of two trees skips equal parts without reading
them. The ranges of two trees need not end at the same keys: where the ends differ, both cursors
enter their ranges, until both stand before a range again. `iter_pairs` walks two trees in this way
and yields the records that differ.

`list_prefix` lists paths with a prefix and a delimiter. It works with any sorted records that can
be scanned from a given path.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from functools import partial
from typing import AnyStr, Final, NamedTuple, Self, TypeAlias

from lakecli.base.model import ChangeType, MetarangeId
from lakecli.committed.metaranges import Metarange, Mismatch, RangeRecord, is_ours, iter_runs
from lakecli.committed.tree_store import TreeStore
from lakecli.committed.values import is_same
from lakecli.sstable.reader import SSTable


def scan(
    trees: TreeStore, tree: MetarangeId, *, start: bytes = b"", prefix: bytes = b""
) -> Iterator[tuple[bytes, bytes]]:
    """Yield paths and encoded values in order."""
    for keys, values in scan_columns(trees, tree, start=start, prefix=prefix):
        yield from zip(keys, values, strict=True)


def scan_columns(
    trees: TreeStore, tree: MetarangeId, *, start: bytes = b"", prefix: bytes = b""
) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """Yield paths and encoded values in order, one or several blocks of them at a time."""
    first, stop = max(start, prefix), prefix_end(prefix)
    cursor = Cursor(trees, trees.metarange(tree), start=first, stop=stop)
    while cursor.standing != Standing.END:
        if cursor.standing == Standing.RANGE:
            record = cursor.record
            table = trees.table(record)
            is_whole = first <= record.min_key and (stop is None or record.max_key < stop)
            if is_whole and is_ours(table):
                yield from ((run.keys, run.values) for run in iter_runs(table, record))
                cursor.skip_range()
            else:
                cursor.enter_range(table)
        elif cursor.standing == Standing.BLOCK:
            cursor.enter_block()
        else:
            yield cursor.take(len(cursor.keys))


Window: TypeAlias = tuple[list[bytes], list[bytes], list[bytes], list[bytes]]
"""Keys and values of the left tree, then keys and values of the right tree."""


class Standing(IntEnum):
    """The kind of the next item of a cursor: a range, a block or a record; or the end."""

    RANGE = 0
    BLOCK = 1
    RECORD = 2
    END = 3


class Cursor:
    """A position in a tree, or in some consecutive ranges of a tree.

    Args:
        last: the position after the last range to walk; ``None``: walk to the last range of the
            tree.
        stop: the key before which the walk ends; ``None``: no limit.

    Attributes:
        standing: the kind of the next item.
        keys: the keys of the entered block; the next record is at the position `at`.
    """

    def __init__(
        self,
        trees: TreeStore,
        tree: Metarange,
        *,
        first: int = 0,
        last: int | None = None,
        start: bytes = b"",
        stop: bytes | None = None,
    ) -> None:
        self.tree = tree
        self.keys: list[bytes] = []
        self.values: list[bytes] = []
        self.at = 0
        self._trees = trees
        self._start = start
        self._stop = stop
        last = len(tree) if last is None else last
        self._last = last if stop is None else min(last, end_position(tree, stop))
        self._position = max(first, tree.find(start)) if start else first
        self._record: RangeRecord | None = None
        # The table of the entered range, and the number of the block; unset before.
        self._table: SSTable
        self._number: int
        self.standing = Standing.RANGE if self._position < self._last else Standing.END

    @property
    def record(self) -> RangeRecord:
        """The range that the cursor has entered, or the next range."""
        if self._record is None:
            self._record = self.tree.record(self._position)
        return self._record

    def skip_range(self) -> None:
        """Move past the next range."""
        self._position += 1
        self._record = None
        self.standing = Standing.RANGE if self._position < self._last else Standing.END

    def enter_range(self, table: SSTable | None = None) -> None:
        """Enter the next range; then its first block is the next item.

        Args:
            table: the range, if the caller has opened it.
        """
        self._table = self._trees.table(self.record) if table is None else table
        self._number = self._table.find_block(self._start)
        self._stand_before_block()

    def skip_block(self) -> None:
        """Move past the next block."""
        self._number += 1
        self._stand_before_block()

    def enter_block(self) -> None:
        """Decode the next block; then its first record is the next item."""
        table = self._table
        block = table.block(self._number)
        keys, values = block.keys, block.values
        record = self.record
        if keys and not record.min_key <= keys[0] <= keys[-1] <= record.max_key:
            raise Mismatch(table.name, f"a block from {keys[0]!r} to {keys[-1]!r}")
        if keys and keys[0] < self._start:
            at = bisect_left(keys, self._start)
            keys, values = keys[at:], values[at:]
        if self._stop is not None and keys and keys[-1] >= self._stop:
            at = bisect_left(keys, self._stop)
            keys, values = keys[:at], values[:at]
            self._last = self._position  # nothing follows this block
        self.keys, self.values, self.at = keys, values, 0
        self.standing = Standing.RECORD
        if not keys:
            self._leave_block()

    def take(self, end: int) -> tuple[list[bytes], list[bytes]]:
        """Return the records of the entered block up to position `end`, and move past them."""
        taken = self.keys[self.at : end], self.values[self.at : end]
        self.at = end
        if end == len(self.keys):
            self._leave_block()
        return taken

    def _stand_before_block(self) -> None:
        if self._number < self._table.block_count:
            self.standing = Standing.BLOCK
        else:
            self.skip_range()

    def _leave_block(self) -> None:
        self.keys, self.values, self.at = [], [], 0
        if self._last <= self._position:
            self.standing = Standing.END
        else:
            self.skip_block()

    def skip_equal_ranges(self, other: Self) -> None:
        """Move both cursors past all following ranges that the two trees share.

        Each cursor must be at the start of a range.
        """
        left, right = self._position, other._position
        most = min(self._last - left, other._last - right)
        count = self.tree.count_equal(left, other.tree, right, most)
        if count:
            self._position, other._position = left + count - 1, right + count - 1
            self.skip_range()
            other.skip_range()

    def skip_equal_blocks(self, other: Self) -> bool:
        """Move two cursors that are before blocks past the blocks with equal stored bytes.

        Returns:
            Whether any block was skipped.
        """
        count = self._table.count_equal_blocks(self._number, other._table, other._number)
        if count:
            self._number += count
            other._number += count
            self._stand_before_block()
            other._stand_before_block()
        return bool(count)


def end_position(tree: Metarange, stop: bytes) -> int:
    """Return the position after the last range that may have keys less than `stop`."""
    position = tree.find(stop)
    return position + (position < len(tree) and tree.record(position).min_key < stop)


Pair: TypeAlias = tuple[bytes, bytes | None, bytes | None]
"""A path and its different values in the left and the right tree (``None`` if absent)."""


SkipWhole: TypeAlias = Callable[[Cursor, RangeRecord], None] | None
"""A function that is called with a range instead of entering the range."""


def iter_pairs(left: Cursor, right: Cursor, *, skip_whole: SkipWhole = None) -> Iterator[Pair]:
    """Yield the records of two trees that differ by identity or presence, in order of their keys.

    Args:
        left: the cursor of the left tree; it is at its end afterwards.
        right: the cursor of the right tree; it is at its end afterwards.
        skip_whole: a function that is called with each range that overlaps no range of the other
            tree, instead of yielding the records of the range. ``None``: the records are yielded.
    """
    for left_keys, left_values, right_keys, right_values in _iter_windows(left, right, skip_whole):
        if left_keys == right_keys:
            for key, old, new in zip(left_keys, left_values, right_values, strict=True):
                if not is_same(old, new):
                    yield key, old, new
        elif not left_keys:
            for key, value in zip(right_keys, right_values, strict=True):
                yield key, None, value
        elif not right_keys:
            for key, value in zip(left_keys, left_values, strict=True):
                yield key, value, None
        else:
            before = dict(zip(left_keys, left_values, strict=True))
            after = dict(zip(right_keys, right_values, strict=True))
            yield from _merged(before, after)


def iter_new(
    left: Cursor, right: Cursor, choose: Callable[[Sequence[bytes]], Iterable[int]]
) -> Iterator[tuple[bytes, bytes]]:
    """Yield records of the right tree that the left tree lacks, or has with another identity.

    Args:
        choose: a function that is called with a sequence of values of the right tree, and returns
            the positions of the values to consider, in ascending order.
    """
    for left_keys, left_values, right_keys, right_values in _iter_windows(left, right, None):
        before = dict(zip(left_keys, left_values, strict=True))
        for at in choose(right_values):
            key, value = right_keys[at], right_values[at]
            if not is_same(before.get(key), value):
                yield key, value


def _merged(left: dict[bytes, bytes], right: dict[bytes, bytes]) -> Iterator[Pair]:
    for key in sorted(left.keys() | right.keys()):
        old, new = left.get(key), right.get(key)
        if not is_same(old, new):
            yield key, old, new


def _iter_windows(left: Cursor, right: Cursor, skip_whole: SkipWhole) -> Iterator[Window]:
    """Walk two trees together and skip equal ranges and blocks.

    Yields:
        The remaining records of both sides, for one interval of keys after another, ascending. One
        side of an interval may be empty. Some records may be equal on both sides.
    """
    while not left.standing == right.standing == Standing.END:
        if left.standing == right.standing == Standing.RANGE:
            _pass_ranges(left, right, skip_whole)
        elif Standing.BLOCK in {left.standing, right.standing}:
            _pass_blocks(left, right)
        elif left.standing == right.standing == Standing.RECORD:
            limit = min(left.keys[-1], right.keys[-1])
            yield (
                *left.take(bisect_right(left.keys, limit, left.at)),
                *right.take(bisect_right(right.keys, limit, right.at)),
            )
        # One cursor stands before a record, the other before a range or at its end.
        elif left.standing == Standing.RECORD:
            yield (*_take_before(left, right), [], [])
        elif right.standing == Standing.RECORD:
            yield ([], [], *_take_before(right, left))
        # One cursor stands before a range, the other at its end.
        else:
            _pass_lone_range(left if right.standing == Standing.END else right, skip_whole)


def _pass_ranges(left: Cursor, right: Cursor, skip_whole: SkipWhole) -> None:
    """Skip equal ranges; then enter both next ranges, or only the first if they do not overlap."""
    left.skip_equal_ranges(right)
    if Standing.END in {left.standing, right.standing}:
        return
    if left.record.max_key < right.record.min_key:
        _pass_lone_range(left, skip_whole)
    elif right.record.max_key < left.record.min_key:
        _pass_lone_range(right, skip_whole)
    else:
        left.enter_range()
        right.enter_range()


def _pass_blocks(left: Cursor, right: Cursor) -> None:
    """Skip equal blocks; otherwise each cursor whose next item is a block enters this block."""
    if left.standing == right.standing and left.skip_equal_blocks(right):
        return
    for cursor in (left, right):
        if cursor.standing == Standing.BLOCK:
            cursor.enter_block()


def _pass_lone_range(cursor: Cursor, skip_whole: SkipWhole) -> None:
    """Enter a range that overlaps no range of the other side, or call `skip_whole` and skip it."""
    if skip_whole is None:
        cursor.enter_range()
    else:
        skip_whole(cursor, cursor.record)
        cursor.skip_range()


def _take_before(inside: Cursor, outside: Cursor) -> tuple[list[bytes], list[bytes]]:
    """Take the records before the other cursor's range; if there are none, enter that range."""
    if outside.standing == Standing.END:
        return inside.take(len(inside.keys))
    end = bisect_left(inside.keys, outside.record.min_key, inside.at)
    if end == inside.at:
        outside.enter_range()
        return [], []
    return inside.take(end)


_ADDED, _CHANGED, _REMOVED = ChangeType.ADDED, ChangeType.CHANGED, ChangeType.REMOVED
"""Module-level names, because class lookups would take most of the time of `type_of`."""


def type_of(old: bytes | None, new: bytes | None) -> ChangeType:
    """Return the type of the change from one value to another."""
    if old is None:
        return _ADDED
    return _REMOVED if new is None else _CHANGED


def prefix_end(prefix: bytes) -> bytes | None:
    """Return the smallest key greater than every key that starts with `prefix`.

    Return ``None`` if no key is greater: `prefix` is empty, or has only ``0xff`` bytes.
    """
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,)) if stem else None


def first_key(prefix: bytes, after: bytes) -> bytes:
    """Return a lower bound of the keys that start with `prefix` and are greater than `after`."""
    return max(prefix, after + b"\0") if after else prefix


def common_start(left: AnyStr, right: AnyStr) -> AnyStr:
    """Return the longest common prefix of two texts."""
    for at, (here, there) in enumerate(zip(left, right, strict=False)):
        if here != there:
            return left[:at]
    return min(left, right)


STEPS_BEFORE_SEEK: Final = 16
"""Number of paths with a common prefix to skip one by one before a scan starts after the prefix."""


class ListedObject(NamedTuple):
    """A path and its encoded value."""

    path: bytes
    value: bytes


class ListedPrefix(NamedTuple):
    """A common prefix of several paths, up to and including the delimiter."""

    path: bytes


def list_prefix(
    scan_from: Callable[[bytes], Iterator[tuple[bytes, bytes]]],
    *,
    prefix: bytes = b"",
    delimiter: bytes = b"",
    after: bytes = b"",
) -> Iterator[ListedObject | ListedPrefix]:
    """Yield the paths that start with `prefix`; paths with a common prefix become one result.

    Args:
        scan_from: a function that yields the paths that start with `prefix`, in path order, from
            the given path on.
        delimiter: a path that contains the delimiter after the prefix is reduced to the part up to
            and including the delimiter; ``b""``: no path is reduced.
        after: only results that sort after this one; pass the last result of a page to get the next
            page.
    """
    skipped = _common_prefix(after, prefix, delimiter)
    # A common prefix sorts before the paths below it, so one that contains `after` was listed.
    start = first_key(prefix, after) if skipped is None else prefix_end(skipped)
    if start is None:
        return
    records = scan_from(start)
    if not delimiter:
        # Like `ListedObject(…)`, in less than half of the time.
        yield from map(partial(tuple.__new__, ListedObject), records)
        return
    record = next(records, None)
    while record is not None:
        common = _common_prefix(record[0], prefix, delimiter)
        if common is None:
            yield ListedObject(*record)
            record = next(records, None)
            continue
        yield ListedPrefix(common)
        for _ in range(STEPS_BEFORE_SEEK):
            record = next(records, None)
            if record is None or not record[0].startswith(common):
                break
        else:
            start = prefix_end(common)
            if start is None:
                return
            records = scan_from(start)
            record = next(records, None)


def _common_prefix(path: bytes, prefix: bytes, delimiter: bytes) -> bytes | None:
    """Return the common prefix to which a path is reduced; ``None`` if it has no delimiter."""
    if not delimiter or not path.startswith(prefix):
        return None
    at = path.find(delimiter, len(prefix))
    return path[: at + len(delimiter)] if at >= 0 else None

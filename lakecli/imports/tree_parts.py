"""Write one part of a tree independently of the other parts, and join all parts into the tree.

The end of a range depends on where the range began, except at keys whose number (`key_number`) is a
multiple of N: a range always ends at such a key (see `lakecli.committed.splitter`). So a part can
be written independently of the records before and after it. The records up to the first such key
are returned as the *head*. After the head, ranges are written. The records after the last finished
range are returned as the *tail*. `join_parts` writes tails and heads.

`rebuild_heads` rebuilds the trees that lakeFS wrote at the heads of branches. On Spark, it uses the
same parts: each part consists of consecutive ranges of a lakeFS tree.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import partial
from operator import itemgetter
from typing import Final, NamedTuple

from lakecli.base.identity import blake3_of
from lakecli.base.model import MetarangeId
from lakecli.committed.metaranges import Metarange, RangeRecord, is_ours, iter_runs
from lakecli.committed.splitter import Splitter, key_number
from lakecli.committed.tree_store import RebuiltTrees, TreeStore
from lakecli.committed.writer import TreeWriter, canonical, find_canonical
from lakecli.engine.runner import Runner, StoreLocation
from lakecli.errors import Refused
from lakecli.repository.contract import Repository
from lakecli.sstable.block import Run
from lakecli.stores.streams import groups_of


class Whole(NamedTuple):
    """A range of the base that is completely inside the interval; its records were not read."""

    position: int
    records: int


class Records(NamedTuple):
    """The keys and the values of consecutive records, in ascending order of the keys."""

    keys: list[bytes]
    values: list[bytes]


class BaseSlice:
    """A walk over the records of a tree from `low` up to `high`."""

    def __init__(self, trees: TreeStore, tree: Metarange, low: bytes, high: bytes | None) -> None:
        self._trees = trees
        self._tree = tree
        self._low, self._high = low, high
        self._next = tree.find(low)
        self._opened: RangeRecord | None = None
        self._runs: Iterator[Run] = iter(())
        self._keys: list[bytes] = []
        self._values: list[bytes] = []

    def before(self, limit: bytes | None) -> Iterator[Whole | Records]:
        """Yield the records before `limit`, or all remaining records, and move past them."""
        if limit is None or (self._high is not None and limit > self._high):
            limit = self._high
        while True:
            if self._keys:
                end = len(self._keys) if limit is None else bisect_left(self._keys, limit)
                records = Records(self._keys[:end], self._values[:end])
                del self._keys[:end], self._values[:end]
                if end:
                    yield records
                if self._keys:
                    return
            elif self._opened is not None:
                self._load_run()
            elif self._next == len(self._tree):
                return
            else:
                record = self._tree.record(self._next)
                if limit is not None and record.min_key >= limit:
                    return
                if record.min_key >= self._low and (limit is None or record.max_key < limit):
                    self._next += 1
                    yield Whole(self._next - 1, record.count)
                else:
                    self._open(record)

    def horizon(self, key: bytes) -> bytes | None:
        """Return the end of the range, or of the gap between two ranges, that contains `key`.

        `before` must have yielded all records before `key`.

        Returns:
            The first path after the range or gap; ``None`` if nothing follows.
        """
        if self._opened is None and self._next < len(self._tree):
            record = self._tree.record(self._next)
            if record.min_key > key:
                is_last = self._high is not None and record.min_key >= self._high
                return None if is_last else record.min_key
            self._open(record)
        return None if self._opened is None else self._opened.max_key + b"\0"

    def read(self, position: int) -> Iterator[Records]:
        """Yield the records of a range that `before` yielded as `Whole`."""
        record = self._tree.record(position)
        for run in iter_runs(self._trees.table(record), record):
            yield Records(run.keys, run.values)

    def _open(self, record: RangeRecord) -> None:
        self._opened = record
        self._runs = iter_runs(self._trees.table(record), record)
        self._next += 1

    def _load_run(self) -> None:
        """Load the next blocks of the open range, without the records before `low`."""
        run = next(self._runs, None)
        if run is None:
            self._opened = None
        else:
            start = bisect_left(run.keys, self._low)
            self._keys, self._values = run.keys[start:], run.values[start:]


class Cut(NamedTuple):
    """The result of a part: the records of its head, its finished ranges, the records of its tail.

    `range_keys` and `range_values` are the metarange records of the finished ranges.
    """

    head_keys: list[bytes]
    head_values: list[bytes]
    range_keys: list[bytes]
    range_values: list[bytes]
    tail_keys: list[bytes]
    tail_values: list[bytes]


EMPTY = Cut([], [], [], [], [], [])


class PartWriter:
    """Writes one part of a tree, from records and whole ranges of `base` in ascending order.

    Args:
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
        self._open_keys: list[bytes] = []
        self._open_values: list[bytes] = []

    def add(self, keys: list[bytes], values: list[bytes]) -> None:
        """Add records to the part, in ascending order of their keys."""
        if not self._has_cut:
            end = self._find_cut(keys)
            self._head_keys += keys[:end]
            self._head_values += values[:end]
            keys, values = keys[end:], values[end:]
        self._writer.add_many(keys, values)
        self._open_keys += keys
        self._open_values += values
        self._forget()

    def add_range(self, base: BaseSlice, whole: Whole) -> None:
        """Add a range of the base; read the range only if it cannot be reused as it is."""
        position = whole.position
        if self._has_cut and self._is_canonical and self._writer.at_cut:
            record = self._base.record(position)
            is_last = position == len(self._base) - 1
            if not is_last or self._splitter.is_cut(blake3_of(record.max_key), record.count):
                self._writer.copy_ranges(self._base, position, position + 1, more=True)
                self._forget()
                return
        for keys, values in base.read(position):
            self.add(keys, values)

    def finish(self) -> Cut:
        """Make the ranges durable and return the result of the part."""
        ranges = self._writer.finish_ranges()
        heads = self._head_keys, self._head_values
        return Cut(*heads, *ranges, self._open_keys, self._open_values)

    def _find_cut(self, keys: list[bytes]) -> int:
        """Return the position after the first key that always ends a range, or after all keys."""
        number = self._splitter.range_entries
        for at, key in enumerate(keys):
            if key_number(blake3_of(key)) % number == 0:
                self._has_cut = True
                return at + 1
        return len(keys)

    def _forget(self) -> None:
        """Drop kept records that are in finished ranges now."""
        finished = len(self._open_keys) - self._writer.open_entries
        del self._open_keys[:finished], self._open_values[:finished]


def join_parts(
    trees: TreeStore, base: Metarange, cuts: Iterable[Cut], *, low: bytes, high: bytes | None
) -> MetarangeId:
    """Write the tree that consists of `cuts` from `low` up to `high`, and of `base` elsewhere.

    Args:
        cuts: results of the parts, in order of their paths.
        high: the first path after the parts; ``None``: the parts have no end.

    Returns:
        The ID of the tree, which is durable.
    """
    writer = TreeWriter(trees, bases=(base,))
    position = base.find(low)
    writer.copy_ranges(base, 0, position, more=True)
    if position < len(base) and base.record(position).min_key < low:
        _copy_records(trees, writer, base.record(position), b"", low)
    for cut in cuts:
        writer.add_many(cut.head_keys, cut.head_values)
        writer.take_ranges(cut.range_keys, cut.range_values)
        writer.add_many(cut.tail_keys, cut.tail_values)
    if high is not None:
        position = base.find(high)
        if position < len(base) and base.record(position).min_key < high:
            _copy_records(trees, writer, base.record(position), high, None)
            position += 1
        writer.copy_ranges(base, position, len(base), more=False)
    return writer.finish()


def _copy_records(
    trees: TreeStore, writer: TreeWriter, record: RangeRecord, start: bytes, stop: bytes | None
) -> None:
    """Copy the records of a range from `start` up to `stop`."""
    table = trees.table(record)
    verbatim = is_ours(table)
    for run in iter_runs(table, record):
        end = len(run.keys) if stop is None else bisect_left(run.keys, stop)
        writer.add_run(run, bisect_left(run.keys, start), end, verbatim=verbatim)
        if end < len(run.keys):
            return


PART_ENTRIES: Final = 1_000_000
"""Approximate number of entries of a part."""


class RangesPart(NamedTuple):
    """Consecutive ranges of a tree, from the position `first` up to, but not including, `last`."""

    tree: MetarangeId
    first: int
    last: int


def rebuild_heads(repository: Repository, runner: Runner) -> int:
    """Rebuild the trees that lakeFS wrote at the heads of branches; return the number of trees.

    Raises:
        Refused: Spark would have to write to a namespace that belongs to lakeFS.
        IntegrityError: a table of a tree is missing or damaged.
    """
    trees = repository.trees
    with repository.lake.kv.read() as txn:
        refs = repository.refs(txn)
        heads = {refs.get_commit(each.commit_id).metarange_id for each in refs.iter_branches()}
    found = map(trees.metarange, sorted(heads))
    foreign = [tree for tree in found if not trees.cuts_as(tree)]
    if runner.name == "local":
        for tree in foreign:
            canonical(trees, tree.id)
        return len(foreign)
    if repository.record.is_borrowed:
        raise Refused(
            f"{repository.uri} reads a namespace that belongs to lakeFS, so only this machine can "
            "hold what is rebuilt",
            hint="rebuild in one process, or clone the repository by a take-over",
        )
    known = trees.rebuilt
    assert known is not None
    for tree in foreign:
        if not trees.cuts_as(find_canonical(trees, tree.id)):
            _rebuild(repository, tree, runner, known)
    return len(foreign)


def _rebuild(repository: Repository, tree: Metarange, runner: Runner, known: RebuiltTrees) -> None:
    task = partial(cut_ranges, location=StoreLocation.of(repository))
    cuts: dict[int, Cut] = {}
    entries = sum(record.count for record in tree.records())
    with known.show(entries) as progress:
        for part, cut in runner.run(task, _parts(tree)):
            cuts[part.first] = cut
            positions = range(part.first, part.last)
            progress.advance(items=sum(tree.record(each).count for each in positions))
        ordered = (cuts[first] for first in sorted(cuts))
        made = join_parts(repository.trees, tree, ordered, low=b"", high=None)
    known.put(tree.id, made)


def _parts(tree: Metarange) -> Iterator[RangesPart]:
    counts = ((position, record.count) for position, record in enumerate(tree.records()))
    for group in groups_of(counts, itemgetter(1), most=PART_ENTRIES):
        yield RangesPart(tree.id, group[0][0], group[-1][0] + 1)


def cut_ranges(part: RangesPart, *, location: StoreLocation) -> Cut:
    """Write the records of some ranges into new ranges that end by lakecli's rule."""
    trees = location.trees()
    tree = trees.metarange(part.tree)
    sink = PartWriter(trees, tree)
    for position in range(part.first, part.last):
        record = tree.record(position)
        for run in iter_runs(trees.table(record), record):
            sink.add(run.keys, run.values)
    return sink.finish()

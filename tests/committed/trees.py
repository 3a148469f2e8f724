"""Trees for tests: values without entries in them, stores that count, models as plain dicts."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from lakecli.base.identity import blake3_of
from lakecli.base.model import EMPTY_TREE, MergeStrategy, MetarangeId, RangeId
from lakecli.committed import merge as tree_merge
from lakecli.committed.decisions import Decisions
from lakecli.committed.merge_base import MergeBase
from lakecli.committed.metaranges import RangeRecord, encode_range_record, name_of_table
from lakecli.committed.scan import scan
from lakecli.committed.tree_store import TreeStore
from lakecli.committed.values import encode_value
from lakecli.committed.writer import apply
from lakecli.sstable.reader import BytesSource, SSTable
from lakecli.sstable.writer import TableWriter
from lakecli.stores.contract import ABSENT, ConditionFailed
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakecli.committed.cache import SstableCache
    from lakecli.stores.contract import ObjectInfo, ObjectStore

Model = dict[bytes, bytes]
Changes = dict[bytes, bytes | None]

N = 16


def value(number: int, data: bytes = b"") -> bytes:
    """Return a value whose identity depends on `number` only."""
    return encode_value(blake3_of(b"%d" % number), data or b"data of %d" % number)


def key(number: int) -> bytes:
    return b"k%05d" % number


def new_trees(
    store: ObjectStore | None = None, *, cache: SstableCache | None = None, range_entries: int = N
) -> TreeStore:
    return TreeStore(store or MemoryStore(), cache=cache, range_entries=range_entries)


def reopened(trees: TreeStore, *, cache: SstableCache | None = None) -> TreeStore:
    """Return the same trees with nothing in memory and all counts at zero."""
    return TreeStore(trees.store, cache=cache, range_entries=trees.range_entries)


def build(trees: TreeStore, model: Model) -> MetarangeId:
    """Return the tree of a model, built at once."""
    return apply(trees, EMPTY_TREE, sorted(model.items()))


def change(trees: TreeStore, tree: MetarangeId, changes: Changes) -> MetarangeId:
    return apply(trees, tree, sorted(changes.items()))


def merge(
    trees: TreeStore,
    *,
    base: MetarangeId,
    source: MetarangeId,
    destination: MetarangeId,
    strategy: MergeStrategy,
) -> MetarangeId:
    """Merge trees of which one is the base; a strategy decides conflicts."""
    return tree_merge.merge(
        trees,
        base=MergeBase.of(base),
        source=source,
        destination=destination,
        decisions=Decisions(strategy),
    )


def changed(model: Model, changes: Changes) -> Model:
    """Return a model with changes applied."""
    merged = {**model, **changes}
    return {path: each for path, each in merged.items() if each is not None}


def contents(trees: TreeStore, tree: MetarangeId) -> Model:
    records = list(scan(trees, tree))
    assert records == sorted(records)
    return dict(records)


def iter_ranges(trees: TreeStore, tree: MetarangeId) -> Iterator[RangeRecord]:
    return trees.metarange(tree).records()


def boundaries(trees: TreeStore, tree: MetarangeId) -> list[bytes]:
    return [record.max_key for record in iter_ranges(trees, tree)]


def large_model(count: int, *, seed: int = 0) -> Model:
    return {key(number): value(number + seed) for number in range(count)}


def models(max_key: int = 120) -> st.SearchStrategy[Model]:
    """Small contents in few keys and fewer identities, so that coincidences are common."""
    return st.dictionaries(
        st.integers(0, max_key).map(key), st.integers(0, 3).map(value), max_size=90
    )


def edits(max_key: int = 120) -> st.SearchStrategy[Changes]:
    """Changes to any keys: scattered ones, or a run of them."""
    run = st.builds(
        lambda start, count, each: {key(start + at): each for at in range(count)},
        st.integers(0, max_key),
        st.integers(1, 60),
        st.none() | st.integers(0, 3).map(value),
    )
    scattered = st.dictionaries(
        st.integers(0, max_key).map(key), st.none() | st.integers(0, 3).map(value), max_size=12
    )
    return scattered | run


def apply_all(model: Model, steps: Iterable[Changes]) -> list[Model]:
    """Return the models after each step, the first one included."""
    found = [model]
    for step in steps:
        found.append(changed(found[-1], step))
    return found


class RecordingStore(MemoryStore):
    """A bucket that records which reads it receives."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[str, int, int | None]] = []
        self.heads: list[str] = []

    def get(
        self, key: str, *, start: int = 0, length: int | None = None, matching: str = ""
    ) -> bytes:
        self.reads.append((key, start, length))
        return super().get(key, start=start, length=length, matching=matching)

    def head(self, key: str) -> ObjectInfo:
        self.heads.append(key)
        return super().head(key)


def put_foreign(store: ObjectStore, model: Model, *, size: int) -> MetarangeId:
    """Write a tree as lakeFS does: ranges of any `size`, estimated sizes, names of its own."""
    records = sorted(model.items())
    ranges = [
        put_foreign_range(store, records[start : start + size])
        for start in range(0, len(records), size)
    ]
    return put_foreign_metarange(store, ranges)


def put_foreign_range(store: ObjectStore, records: Sequence[tuple[bytes, bytes]]) -> RangeRecord:
    table = TableWriter(properties={"type": b"ranges"})
    table.add_many([path for path, _ in records], [each for _, each in records])
    data = table.finish()
    range_id = RangeId(name_of(data))
    _put_table(store, range_id, data)
    return RangeRecord(range_id, records[0][0], records[-1][0], 1190, len(records))


def put_foreign_metarange(store: ObjectStore, ranges: Sequence[RangeRecord]) -> MetarangeId:
    table = TableWriter(properties={"type": b"metaranges"})
    for record in ranges:
        table.add_many([record.max_key], [encode_range_record(record)])
    data = table.finish()
    tree = MetarangeId(name_of(data))
    _put_table(store, tree, data)
    return tree


def _put_table(store: ObjectStore, name: str, data: bytes) -> None:
    with suppress(ConditionFailed):  # as lakeFS, which leaves a table of this name as it is
        store.put(f"_lakefs/{name}", data, ABSENT)


def name_of(data: bytes) -> str:
    """Return the name that a table of these bytes must have."""
    table = SSTable(BytesSource("table", data))
    records = list(table.records())
    return name_of_table(table, [key for key, _ in records], [each for _, each in records])

"""An import writes the same tree as commits of the same entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.model import EMPTY_TREE
from lakecli.committed.scan import scan
from lakecli.committed.tree_store import TreeStore
from lakecli.committed.writer import apply
from lakecli.engine.runner import LocalRunner, StoreLocation
from lakecli.imports.import_part import import_item
from lakecli.imports.job import destination
from lakecli.imports.model import ImportTally, NumberedPart, Task
from lakecli.imports.tree_parts import join_parts
from tests.imports.sources import Split, value_of
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from lakecli.base.model import MetarangeId

N = 16
NAMES = st.binary(min_size=1, max_size=3) | st.integers(0, 400).map(lambda n: b"%03d" % n)
CONTENTS = st.dictionaries(NAMES, st.integers(0, 3), max_size=200)
DENSE = st.integers(0, 600).map(lambda n: {b"%04d" % i: i % 4 for i in range(n)})
SOME = CONTENTS | DENSE
PREFIXES = st.sampled_from([None, b"data", b"data/", b"\xff", b"a/b"])


STORE = MemoryStore()


class MemorySite(StoreLocation):
    """A location in memory, as syncing a disk is not tested here."""

    def trees(self) -> TreeStore:
        return TreeStore(STORE, cache=None, range_entries=self.range_entries)


class World:
    """A namespace, and trees built from dictionaries in it."""

    def __init__(self) -> None:
        self.location = MemorySite("memory://bucket", "", N)
        self.trees = self.location.trees()

    def build(self, contents: dict[bytes, int]) -> MetarangeId:
        changes = [(key, value_of(contents[key])) for key in sorted(contents)]
        return apply(self.trees, EMPTY_TREE, changes)

    def run(
        self, base: MetarangeId, path: bytes | None, source: Split, *, replaces: bool
    ) -> tuple[MetarangeId, ImportTally]:
        prefix, high = destination(path)
        task = Task(self.location, base, prefix, replaces, copies=False, writes=True, seconds=0)
        tally = ImportTally()
        cuts = []
        for number, part in enumerate(source.plan(task, LocalRunner(), high)):
            result = import_item(task, NumberedPart(number, part))
            assert result is not None
            tally += result.tally
            cuts.append(result.cut)
        tree = self.trees.metarange(base)
        return join_parts(self.trees, tree, cuts, low=prefix, high=high), tally


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def expected_of(
    base: dict[bytes, int], source: dict[bytes, int], path: bytes | None, *, replaces: bool
) -> tuple[dict[bytes, int], ImportTally]:
    prefix = destination(path)[0]
    new = {prefix + key: number for key, number in source.items()}
    below = {key for key in base if key.startswith(prefix)}
    kept = {key: base[key] for key in base if not replaces or key not in below}
    tally = ImportTally(
        objects=len(new),
        size=sum(new.values()),
        added=len(new.keys() - base.keys()),
        changed=sum(key in base and base[key] != number for key, number in new.items()),
        removed=len(below - new.keys()) if replaces else 0,
        unchanged=sum(key in base and base[key] == number for key, number in new.items()),
    )
    return kept | new, tally


@given(
    outside=SOME,
    below=SOME,
    source=SOME,
    path=PREFIXES,
    replaces=st.booleans(),
    bounds=st.lists(NAMES, max_size=4),
    at_once=st.sampled_from([1, 7, 1_000]),
)
def test_equal_entries_make_an_equal_tree(  # noqa: PLR0917
    world: World,
    outside: dict[bytes, int],
    below: dict[bytes, int],
    source: dict[bytes, int],
    path: bytes | None,
    replaces: bool,  # noqa: FBT001
    bounds: list[bytes],
    at_once: int,
) -> None:
    prefix = destination(path)[0]
    base = outside | {prefix + key: number for key, number in below.items()}
    contents, tally = expected_of(base, source, path, replaces=replaces)
    tree, counted = world.run(
        world.build(base), path, Split(source, bounds, at_once), replaces=replaces
    )
    assert tree == world.build(contents)
    assert counted == tally
    read = dict(scan(world.trees, tree))
    assert read == {key: value_of(number) for key, number in contents.items()}


def test_a_destination_means_whole_path_components(world: World) -> None:
    base = {b"data/1": 1, b"database/1": 1, b"data": 1, b"data.csv": 1, b"data0": 1}
    tree, _ = world.run(world.build(base), b"data", Split({b"2": 2}), replaces=True)
    assert [key for key, _ in scan(world.trees, tree)] == [
        b"data", b"data.csv", b"data/2", b"data0", b"database/1",
    ]  # fmt: skip


def test_an_empty_source_empties_the_prefix(world: World) -> None:
    base = {b"data/%03d" % n: 1 for n in range(300)} | {b"a": 1, b"z": 1}
    tree, tally = world.run(world.build(base), b"data", Split({}), replaces=True)
    assert tree == world.build({b"a": 1, b"z": 1})
    assert tally == ImportTally(removed=300)
    tree, _ = world.run(world.build({b"a": 1}), None, Split({}), replaces=True)
    assert tree == EMPTY_TREE


def test_a_small_merge_opens_few_ranges(world: World) -> None:
    base = world.build({b"data/%05d" % n: 1 for n in range(20_000)})
    world.trees = world.location.trees()
    task = Task(
        world.location, base, b"data/", replaces=False, copies=False, writes=True, seconds=1
    )
    source = Split({b"10000x": 5})
    ((_, part),) = enumerate(source.plan(task, LocalRunner(), b"data0"))
    from lakecli.imports.import_part import open_base

    trees, tree = open_base(task)
    before = trees.counts.ranges_opened
    result = import_item(task, NumberedPart(0, part))
    assert result is not None
    assert len(tree) > 500
    assert trees.counts.ranges_opened - before < 12
    assert result.ranges_written <= 3

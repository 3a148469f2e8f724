"""Rebuild the trees of lakeFS that branches stand on, in this process or part by part on Spark.

A part is some ranges of a tree of lakeFS; `PartWriter` cuts it independently of
what comes before and after it, and `join_parts` joins the parts. See `lakecli.committed.writer`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from lakecli.base.model import MetarangeId
from lakecli.committed.metaranges import Metarange, iter_runs
from lakecli.committed.writer import canonical
from lakecli.engine.runner import Runner
from lakecli.engine.store_location import StoreLocation
from lakecli.errors import Refused
from lakecli.imports.tree_parts import Cut, PartWriter, join_parts
from lakecli.refs.ref_store import RefStore
from lakecli.repository.contract import Repository
from lakecli.repository.handle.lake import RebuiltTrees

PART_ENTRIES: Final = 1_000_000
"""Entries of a part, about."""


class RangesPart(NamedTuple):
    """Consecutive ranges of a tree, by their positions."""

    tree: MetarangeId
    first: int
    last: int


def rebuild_heads(repository: Repository, runner: Runner) -> int:
    """Rebuild the trees of all branches that lakeFS cut, and return how many there are.

    Raises:
        Refused: Spark would have to write to a namespace that belongs to lakeFS.
        IntegrityError: a table of a tree is missing or damaged.
    """
    trees = repository.trees
    foreign = [tree for tree in _heads(repository) if not trees.cuts_as(tree)]
    if runner.name == "local":
        for tree in foreign:
            canonical(trees, tree.id, build=True)
        return len(foreign)
    if repository.record.is_borrowed:
        raise Refused(
            f"{repository.uri} reads a namespace that belongs to lakeFS, so only this machine can "
            "hold what is rebuilt",
            hint="rebuild in one process, or clone the repository by a take-over",
        )
    remembered = RebuiltTrees(repository)
    for tree in foreign:
        if remembered.find(tree.id) is None:
            _rebuild(repository, tree, runner, remembered)
    return len(foreign)


def count_heads(repository: Repository) -> int:
    """Return the number of entries of the largest tree of a branch."""
    return max(sum(each.count for each in tree.records()) for tree in _heads(repository))


def _heads(repository: Repository) -> list[Metarange]:
    with repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        heads = [refs.get_commit(branch.commit_id) for branch in refs.iter_branches()]
    ids = sorted({commit.metarange_id for commit in heads})
    return [repository.trees.metarange(each) for each in ids]


def _rebuild(
    repository: Repository, tree: Metarange, runner: Runner, remembered: RebuiltTrees
) -> None:
    task = partial(cut_ranges, location=StoreLocation.of(repository))
    cuts: dict[int, Cut] = {}
    entries = sum(record.count for record in tree.records())
    with remembered.show(entries) as progress:
        for part, cut in runner.run(task, _parts(tree)):
            cuts[part.first] = cut
            positions = range(part.first, part.last)
            progress.advance(items=sum(tree.record(each).count for each in positions))
        ordered = (cuts[first] for first in sorted(cuts))
        made = join_parts(repository.trees, tree, ordered, low=b"", high=None)
    remembered.put(tree.id, made)


def _parts(tree: Metarange) -> Iterator[RangesPart]:
    first = entries = 0
    for position, record in enumerate(tree.records()):
        entries += record.count
        if entries >= PART_ENTRIES:
            yield RangesPart(tree.id, first, position + 1)
            first, entries = position + 1, 0
    if first < len(tree):
        yield RangesPart(tree.id, first, len(tree))


def cut_ranges(part: RangesPart, *, location: StoreLocation) -> Cut:
    """Write the ranges of a part as lakecli cuts them."""
    trees = location.trees()
    tree = trees.metarange(part.tree)
    sink = PartWriter(trees, tree)
    for position in range(part.first, part.last):
        record = tree.record(position)
        for run in iter_runs(trees.table(record), record):
            sink.add(run.keys, run.values)
    return sink.finish()

"""The best common ancestors of two refs, needed by a merge and by a diff of two refs."""

from itertools import combinations
from typing import Final, NamedTuple

from lakecli.base.model import EMPTY_TREE, Commit, CommitId
from lakecli.committed.merge_base import Ancestors, MergeBase
from lakecli.errors import Refused
from lakecli.kv.local_store import ReadTransaction
from lakecli.refs.graph import iter_merge_bases
from lakecli.refs.ref_store import CommitReader, DamagedHistory
from lakecli.repository.readable import Refs
from lakecli.repository.reading.view import commit_at

MAX_BASES: Final = 8
"""The largest number of best common ancestors; with more, every path is left undecided."""

MAX_PAIRS: Final = 32
"""The largest number of pairs of ancestors that are merged, the nearest first.

A crafted history can have any number of pairs. A path that depends on a pair beyond the limit is
undecided.
"""


class MergePoints(NamedTuple):
    """The commits of a merge.

    Attributes:
        bases: the best common ancestors: highest generation first, then newest, then smallest ID.
        base: the trees of `bases`, and how they are merged.
    """

    bases: tuple[Commit, ...]
    base: MergeBase
    source: Commit
    destination: Commit


def find_merge_base(repository: Refs, source: str, destination: str) -> MergePoints:
    """Return the commits that two ref expressions name, and their best common ancestors.

    Raises:
        NotFound: an expression names nothing.
        Refused: the commits have no common ancestor.
    """
    with repository.lake.kv.read() as txn:
        return find_merge_points(repository, txn, source=source, destination=destination)


def find_merge_points(
    repository: Refs, txn: ReadTransaction, *, source: str, destination: str
) -> MergePoints:
    """Return the result of `find_merge_base`, read in an open transaction."""
    from_commit = commit_at(repository, txn, source)
    into_commit = commit_at(repository, txn, destination)
    refs = repository.refs(txn)
    bases = tuple(iter_merge_bases(refs, from_commit.id, into_commit.id))
    if not bases:
        raise Refused(f"{source} and {destination} have no common ancestor")
    return MergePoints(bases, merge_base_of(refs, bases), from_commit, into_commit)


def merge_base_of(reader: CommitReader, bases: tuple[Commit, ...]) -> MergeBase:
    """Return the merge base for best common ancestors, with the trees needed to merge them.

    If an older commit is missing, the part of the merge base that needs it is left undecided.
    """
    pairs: list[tuple[CommitId, CommitId]] = []
    ancestors = [_ancestors(bases, pairs)]
    for left, right in pairs:  # `_ancestors` appends further pairs
        try:
            below = tuple(iter_merge_bases(reader, left, right))
        except DamagedHistory:
            ancestors.append(Ancestors((), {}))
        else:
            ancestors.append(_ancestors(below, pairs))
    return MergeBase(tuple(ancestors))


def _ancestors(commits: tuple[Commit, ...], pairs: list[tuple[CommitId, CommitId]]) -> Ancestors:
    """Return the trees of best common ancestors; append the pairs to be merged to `pairs`."""
    trees = tuple(commit.metarange_id for commit in commits)
    if not trees:
        return Ancestors((EMPTY_TREE,), {})
    if len(set(trees)) == 1:
        return Ancestors(trees[:1], {})
    if len(trees) > MAX_BASES:
        return Ancestors((), {})
    below = {}
    for one, other in combinations(range(len(trees)), 2):
        pair = commits[one].id, commits[other].id
        if trees[one] == trees[other]:
            continue
        if pair not in pairs and len(pairs) < MAX_PAIRS:
            pairs.append(pair)
        if pair in pairs:
            below[one, other] = 1 + pairs.index(pair)
    return Ancestors(trees, below)

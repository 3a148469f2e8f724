"""Ancestry: merge bases, ancestor tests, and the distance between two commits.

Everything in this module relies on one invariant: a commit's generation is above that of each of
its parents. In descending order of generation, a commit is visited after all of its descendants.
So when a walk visits a commit, it has found every path to the commit, whatever the dates say, and
it can stop at a generation below which nothing changes the result. Each step to a parent checks the
invariant, and raises `DamagedHistory` if the invariant is violated or the parent is missing.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from heapq import heappop, heappush

from lakecli.base.model import Commit, CommitId
from lakecli.refs.ref_store import CommitReader, DamagedHistory, get_commit, get_parent

# How a commit was reached. Ancestors of a common ancestor are common too, but not the best ones.
_LEFT = 1
_RIGHT = 2
_COMMON = _LEFT | _RIGHT
_BELOW = 4


def iter_merge_bases(
    reader: CommitReader, left: CommitId, right: CommitId, *others: CommitId
) -> Iterator[Commit]:
    """Yield the best common ancestors: highest generation first, then newest, then smallest ID.

    As in ``git merge-base --all``, no other common ancestor descends from a yielded commit. With
    `others`, the result is the same as for `left` and an imaginary merge of all other commits.

    A commit is visited after all of its descendants. If both sides reached it, but not through
    another common ancestor, no common ancestor descends from it. The walk ends once one side has no
    more commits that only that side reaches. Then every remaining commit is reached by the other
    side alone, or is an ancestor of a base.
    """
    frontier = _Frontier(reader, left, right, *others)
    count = frontier.count
    while count[_COMMON] or (count[_LEFT] and count[_RIGHT]):
        commit, reached = frontier.pop()
        if reached == _COMMON:
            yield commit
            reached |= _BELOW
            if not (count[_COMMON] or (count[_LEFT] and count[_RIGHT])):
                return  # this was the last base, so its parents need not be read
        frontier.add_parents(commit, reached)


def is_ancestor(reader: CommitReader, ancestor: CommitId, descendant: CommitId) -> bool:
    """Return whether `descendant` reaches `ancestor` through parents; a commit reaches itself.

    Visits only commits whose generation is above the ancestor's.
    """
    if ancestor == descendant:
        return True
    floor = get_commit(reader, ancestor).generation
    frontier = _Frontier(reader, descendant)
    while frontier.count[_LEFT]:
        commit, reached = frontier.pop()
        if commit.generation <= floor:
            return False  # no commit left can reach the ancestor
        if ancestor in commit.parents:
            return True
        frontier.add_parents(commit, reached)
    return False


def count_ahead_behind(reader: CommitReader, left: CommitId, right: CommitId) -> tuple[int, int]:
    """Return how many commits only `left` reaches, and how many only `right` reaches."""
    frontier = _Frontier(reader, left, right)
    ahead = behind = 0
    while frontier.count[_LEFT] or frontier.count[_RIGHT]:
        commit, reached = frontier.pop()
        ahead += reached == _LEFT
        behind += reached == _RIGHT
        frontier.add_parents(commit, reached)
    return ahead, behind


def iter_unreached(
    reader: CommitReader, start: CommitId, excluded: Iterable[CommitId]
) -> Iterator[Commit]:
    """Yield the commits that `start` reaches and no `excluded` commit reaches, children first.

    Excluded commits that this clone does not have are ignored.
    """
    frontier = _Frontier(reader, start)
    for known in filter(None, map(reader.find_commit, excluded)):
        frontier.add(known, _RIGHT)
    while frontier.count[_LEFT]:
        commit, reached = frontier.pop()
        if reached == _LEFT:
            yield commit
        frontier.add_parents(commit, reached)


def iter_known_unreached(
    reader: CommitReader, start: CommitId, excluded: Iterable[CommitId]
) -> Iterator[Commit]:
    """Yield the commits of `iter_unreached`; stop at the first missing or damaged commit."""
    with suppress(DamagedHistory):
        yield from iter_unreached(reader, start, excluded)


def iter_reached(
    reader: CommitReader, starts: Iterable[CommitId]
) -> Iterator[tuple[CommitId, Commit | None]]:
    """Yield the commits `starts` and all commits that they reach, each once, in any order.

    The history may be broken: a missing commit is yielded as ``None``.
    """
    waiting = list(starts)
    seen: set[CommitId] = set()
    while waiting:
        commit_id = waiting.pop()
        if commit_id in seen:
            continue
        seen.add(commit_id)
        commit = reader.find_commit(commit_id)
        yield commit_id, commit
        if commit is not None:
            waiting += commit.parents


class _Frontier:
    """The commits that a walk has found but not visited yet, and how they were reached.

    A visited commit cannot be found again, because all of its children have higher generations and
    were visited before it. So visited commits need not be kept.
    """

    def __init__(self, reader: CommitReader, left: CommitId, *rights: CommitId) -> None:
        self._reader = reader
        self._heap: list[tuple[int, float, CommitId]] = []
        self._found: dict[CommitId, tuple[Commit, int]] = {}
        self.count = [0] * ((_COMMON | _BELOW) + 1)
        """Number of commits in the frontier, by how they were reached."""
        self.add(get_commit(reader, left), _LEFT)
        for each in rights:
            self.add(get_commit(reader, each), _RIGHT)

    def add(self, commit: Commit, reached: int) -> None:
        """Add a commit, or record another way to reach a commit that is already in the frontier."""
        known = self._found.get(commit.id)
        if known is None:
            heappush(self._heap, (-commit.generation, -commit.created_at.timestamp(), commit.id))
        else:
            self.count[known[1]] -= 1
            reached |= known[1]
        self.count[reached] += 1
        self._found[commit.id] = (commit, reached)

    def add_parents(self, commit: Commit, reached: int) -> None:
        """Add the parents of a visited commit; read the parents that were not found before."""
        for parent_id in commit.parents:
            known = self._found.get(parent_id)
            parent = known[0] if known else get_parent(self._reader, commit, parent_id)
            self.add(parent, reached)

    def pop(self) -> tuple[Commit, int]:
        """Remove and return the commit of the highest generation, and how it was reached.

        Among equal generations the newest commit comes first, then the smallest ID.
        """
        commit, reached = self._found.pop(heappop(self._heap)[2])
        self.count[reached] -= 1
        return commit, reached

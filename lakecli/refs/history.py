"""The log: the commits that one commit reaches, newest first.

There are two orders, both streamed: by date, as in lakeFS, and topological (every commit before its
parents), as a drawing needs it. They differ only where dates contradict ancestry.
"""

from __future__ import annotations

from heapq import heappop, heappush

from lakecli.errors import NotFound
from lakecli.named_tuple import NamedTuple
from lakecli.refs.parents import get_commit, get_parent
from lakecli.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from lakecli.model import Commit, CommitId
    from lakecli.refs.reader import CommitReader


def iter_log(
    reader: CommitReader,
    start: CommitId,
    *,
    first_parent: bool = False,
    since: datetime | None = None,
    stop_at: CommitId | None = None,
    after: CommitId | None = None,
    no_merges: bool = False,
    topological: bool = False,
    hidden: CommitId | None = None,
) -> Iterator[Commit]:
    """Yield `start` and its ancestors, newest first; of the same second, the larger ID first.

    Commits are read lazily. In the order by date, a commit comes after the child through which it
    was found, whatever its date: a start dated 1970 still comes first.

    Args:
        reader: gives the commits.
        start: the first commit of the log.
        first_parent: follow first parents only.
        since: leave out older commits and everything reached only through them.
        stop_at: end with this commit.
        after: leave out everything up to and including this commit.
        no_merges: leave out commits with several parents, but follow their parents.
        topological: every commit before its parents, otherwise the newest first.
        hidden: leave out this commit and all its ancestors.

    Raises:
        NotFound: `after` is not in the log.
        DamagedHistory: a commit of the history is missing or contradicts its parents.
    """
    source = _Source(
        reader, first_parent, since, None if hidden is None else _Ancestors(reader, hidden)
    )
    awaited = after
    for commit in _iter_topological(source, start) if topological else _iter_dated(source, start):
        if awaited is None:
            if not (no_merges and len(commit.parents) > 1):
                yield commit
        elif commit.id == awaited:
            awaited = None
        if commit.id == stop_at:
            break
    if awaited is not None:
        raise NotFound(
            f"commit {awaited} is not in the log of {start}",
            hint="--after takes the full ID of a commit that the same command lists without it",
        )


class _Ancestors:
    """A commit and its ancestors, looked up no further down than needed."""

    def __init__(self, reader: CommitReader, start: CommitId) -> None:
        self._reader = reader
        first = get_commit(reader, start)
        self._found = {first.id}
        self._ahead = [(-first.generation, first.id)]

    def __contains__(self, commit: Commit) -> bool:
        # All of a higher generation are explored: a commit is found from one of these, or never.
        while self._ahead and -self._ahead[0][0] > commit.generation:
            explored = get_commit(self._reader, heappop(self._ahead)[1])
            for parent_id in explored.parents:
                if parent_id not in self._found:
                    parent = get_parent(self._reader, explored, parent_id)
                    self._found.add(parent_id)
                    heappush(self._ahead, (-parent.generation, parent_id))
        return commit.id in self._found


class _Source(NamedTuple):
    """The part of the history to walk."""

    reader: CommitReader
    first_parent: bool
    since: datetime | None
    hidden: _Ancestors | None

    def starts(self, start: CommitId) -> list[Commit]:
        """Return the first commit of the walk, unless it is too old or hidden."""
        commit = get_commit(self.reader, start)
        return [commit] if self._is_wanted(commit) else []

    def parent_ids(self, commit: Commit) -> list[CommitId]:
        """Return the parents to follow, each once."""
        return list(dict.fromkeys(commit.parents[:1] if self.first_parent else commit.parents))

    def find_parent(self, child: Commit, parent_id: CommitId) -> Commit | None:
        """Return a parent, or ``None`` if it is too old or hidden."""
        parent = get_parent(self.reader, child, parent_id)
        return parent if self._is_wanted(parent) else None

    def _is_wanted(self, commit: Commit) -> bool:
        if self.hidden is not None and commit in self.hidden:
            return False
        return self.since is None or commit.created_at >= self.since


class _Newest:
    """A heap entry that orders commits newest first, then by descending ID."""

    __slots__ = ("commit", "time")

    def __init__(self, commit: Commit) -> None:
        self.commit = commit
        self.time = (commit.created_at, commit.nanoseconds)

    def __lt__(self, other: _Newest) -> bool:
        if self.time != other.time:
            return self.time > other.time
        return self.commit.id > other.commit.id


def _iter_dated(source: _Source, start: CommitId) -> Iterator[Commit]:
    """Yield commits by date, from a heap of commits found but not yielded yet.

    A yielded commit must be remembered only while it can be found again, that is, while the heap
    holds a commit of a higher generation. On a linear history nothing is remembered.
    """
    heap = [_Newest(commit) for commit in source.starts(start)]
    waiting = {entry.commit.id for entry in heap}
    # A heap for the highest waiting generation; entries may outlive their commit's turn.
    heights = [(-entry.commit.generation, entry.commit.id) for entry in heap]
    yielded: set[CommitId] = set()
    yielded_heights: list[tuple[int, CommitId]] = []
    while heap:
        commit = heappop(heap).commit
        yield commit
        waiting.remove(commit.id)
        yielded.add(commit.id)
        heappush(yielded_heights, (-commit.generation, commit.id))
        for parent_id in source.parent_ids(commit):
            if parent_id in waiting or parent_id in yielded:
                continue
            parent = source.find_parent(commit, parent_id)
            if parent is not None:
                heappush(heap, _Newest(parent))
                waiting.add(parent_id)
                heappush(heights, (-parent.generation, parent_id))
        while heights and heights[0][1] not in waiting:
            heappop(heights)
        while yielded_heights and heights and yielded_heights[0][0] <= heights[0][0]:
            yielded.remove(heappop(yielded_heights)[1])


def _iter_topological(source: _Source, start: CommitId) -> Iterator[Commit]:
    """Yield commits before their parents, otherwise by date.

    Two walks go over the history. The first proceeds by generation and counts children. The second
    yields, by date, the commits whose children were all yielded; that is certain once the first
    walk has passed their generation.
    """
    ready = [_Newest(commit) for commit in source.starts(start)]
    found = {entry.commit.id: entry.commit for entry in ready}
    children = dict.fromkeys(found, 0)
    ahead = [(-commit.generation, commit.id) for commit in found.values()]
    while ready:
        commit = ready[0].commit
        while ahead and -ahead[0][0] >= commit.generation:
            explored = found[heappop(ahead)[1]]
            for parent_id in source.parent_ids(explored):
                if parent_id not in found:
                    parent = source.find_parent(explored, parent_id)
                    if parent is None:
                        continue
                    found[parent_id] = parent
                    children[parent_id] = 0
                    heappush(ahead, (-parent.generation, parent_id))
                children[parent_id] += 1
        heappop(ready)
        if children.get(commit.id) != 0:
            continue  # yielded already, or ready again after its last child
        yield commit
        del found[commit.id], children[commit.id]
        for parent_id in source.parent_ids(commit):
            if parent_id in found:
                children[parent_id] -= 1
                if children[parent_id] == 0:
                    heappush(ready, _Newest(found[parent_id]))

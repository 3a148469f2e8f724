r"""The log: a commit and its ancestors, every commit before its parents, otherwise newest first.

lakeFS orders by date alone. So if a parent and its child have the same second, lakeFS may list the
parent before the child: it lists the larger ID first. If dates agree with ancestry, both orders are
the same.

`iter_graph_lines` draws the history beside a log, in plain ASCII.

Every column leads to a commit further down::

    *      a merge: its first parent stays in the column, other parents branch off to the right
    |\
    | *    a commit; the column continues to its parent
    * |
    |/     two columns that lead to the same commit become one
    *

Each connecting line makes one change, so that a drawing is unambiguous:

- ``|\`` opens a column for another parent; columns to its right shift with ``\``
- ``|\|`` and ``|/|`` lead to an existing column; a distant column takes several lines, which cross
  the columns between
- ``|/`` ends a column that joins another column; columns to its right shift with ``/``
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final, NamedTuple, TypeAlias

from lakecli.base.model import Commit, CommitId
from lakecli.errors import NotFound
from lakecli.refs.ref_store import CommitReader, get_commit, get_parent

MOST_AHEAD: Final = 10_000
"""Maximum number of commits that a log reads ahead, to find all children of the next commit."""


def iter_log(
    reader: CommitReader,
    start: CommitId,
    *,
    first_parent: bool = False,
    since: datetime | None = None,
    stop_at: CommitId | None = None,
    after: CommitId | None = None,
    hidden: CommitId | None = None,
) -> Iterator[Commit]:
    """Yield `start` and its ancestors, each commit before its parents, otherwise newest first.

    If dates are equal, the larger ID comes first. Commits are read lazily.

    Args:
        since: leave out older commits and commits that are reached only through them.
        stop_at: end the log after this commit.
        after: leave out the commits that the log lists up to and including this one.
        hidden: leave out this commit and all its ancestors.

    Raises:
        NotFound: `after` is not in the log.
    """
    unwanted = None if hidden is None else _Ancestors(reader, hidden)
    part = _HistoryPart(reader, first_parent, since, unwanted)
    awaited = after
    for commit in _iter_children_first(part, start):
        if awaited is None:
            yield commit
        elif commit.id == awaited:
            awaited = None
        if commit.id == stop_at:
            break
    if awaited is not None:
        hint = "begin after a commit that the same log lists, by its full ID: `after=ID`"
        raise NotFound(f"commit {awaited} is not in the log of {start}", hint=hint)


class _Ancestors:
    """A commit and its ancestors; each query reads no more ancestors than it needs."""

    def __init__(self, reader: CommitReader, start: CommitId) -> None:
        self._reader = reader
        first = get_commit(reader, start)
        self._found = {first.id}
        self._ahead = [(-first.generation, first.id)]

    def __contains__(self, commit: Commit) -> bool:
        # Explore all commits of a higher generation: only they can lead to this commit.
        while self._ahead and -self._ahead[0][0] > commit.generation:
            explored = get_commit(self._reader, heappop(self._ahead)[1])
            for parent_id in explored.parents:
                if parent_id not in self._found:
                    parent = get_parent(self._reader, explored, parent_id)
                    self._found.add(parent_id)
                    heappush(self._ahead, (-parent.generation, parent_id))
        return commit.id in self._found


class _HistoryPart(NamedTuple):
    """The part of the history that a log walks, as its options limit it."""

    reader: CommitReader
    first_parent: bool
    since: datetime | None
    hidden: _Ancestors | None

    def parent_ids(self, commit: Commit) -> list[CommitId]:
        """Return the IDs of the parents to follow, each once."""
        return list(dict.fromkeys(commit.parents[:1] if self.first_parent else commit.parents))

    def is_wanted(self, commit: Commit) -> bool:
        """Return whether a commit is neither too old nor hidden."""
        if self.hidden is not None and commit in self.hidden:
            return False
        return self.since is None or commit.created_at >= self.since


_Ranked: TypeAlias = tuple[float, int, int, Commit]
"""A heap entry; the smallest one has the newest commit and, at the same time, the largest ID."""


def _ranked(commit: Commit) -> _Ranked:
    return -commit.created_at.timestamp(), -commit.nanoseconds, -int(commit.id, 16), commit


class _CountingWalk:
    """The commits found but not yet yielded, each with the number of its unyielded children.

    The walk goes by generation, ahead of the yielded commits. All children of a commit are known
    once the walk has passed the commit's generation.
    """

    def __init__(self, part: _HistoryPart, first: Commit) -> None:
        self._part = part
        self._found = {first.id: first}
        self._children = {first.id: 0}
        self._ahead = [(-first.generation, first.id)]

    def explore(self, generation: int, *, most: float = inf) -> bool:
        """Explore all commits down to a generation; return false if more than `most` are found."""
        ahead, found, children = self._ahead, self._found, self._children
        while ahead and -ahead[0][0] >= generation:
            if len(found) > most:
                return False
            explored = found[heappop(ahead)[1]]
            for parent_id in self._part.parent_ids(explored):
                if parent_id not in found:
                    parent = get_parent(self._part.reader, explored, parent_id)
                    if not self._part.is_wanted(parent):
                        continue
                    found[parent_id] = parent
                    children[parent_id] = 0
                    heappush(ahead, (-parent.generation, parent_id))
                children[parent_id] += 1
        return True

    def is_ready(self, commit: Commit) -> bool:
        """Return whether all children found so far of an unyielded commit have been yielded."""
        return self._children.get(commit.id) == 0

    def remove(self, commit: Commit) -> Iterator[Commit]:
        """Remove a commit that was yielded; yield the parents that become ready."""
        del self._found[commit.id], self._children[commit.id]
        for parent_id in self._part.parent_ids(commit):
            if parent_id in self._found:
                self._children[parent_id] -= 1
                if self._children[parent_id] == 0:
                    yield self._found[parent_id]


def _iter_children_first(part: _HistoryPart, start: CommitId) -> Iterator[Commit]:
    """Yield commits before their parents, otherwise by date.

    The newest ready commit comes next, once the walk has passed its generation. For a branch that
    began long ago and was merged recently, the walk may have to read the whole history. If that is
    more than `MOST_AHEAD` commits, the commits of the branch are postponed. Instead, the ready
    commit of the highest generation comes next: no commit that is still to be found descends from
    this commit.
    """
    first = get_commit(part.reader, start)
    walk = _CountingWalk(part, first)
    ready = [_ranked(first)] if part.is_wanted(first) else []
    while ready:
        if walk.explore(ready[0][-1].generation, most=MOST_AHEAD):
            *_, commit = heappop(ready)
        else:
            waiting = (entry for entry in ready if walk.is_ready(entry[-1]))
            highest = min(waiting, key=lambda entry: (-entry[-1].generation, entry))
            ready.remove(highest)
            heapify(ready)
            *_, commit = highest
            walk.explore(commit.generation)
        if walk.is_ready(commit):  # otherwise yielded already, or ready again after its last child
            yield commit
            for parent in walk.remove(commit):
                heappush(ready, _ranked(parent))


class GraphLine(NamedTuple):
    """One line of the graph beside a log.

    Attributes:
        drawing: the line without trailing white space.
        commit: the commit whose asterisk is on this line; ``None`` on connecting lines.
    """

    drawing: str
    commit: Commit | None


def iter_graph_lines(
    commits: Iterable[Commit], *, is_shown: Callable[[Commit], bool] | None = None
) -> Iterator[GraphLine]:
    """Yield the drawing of a history, line by line.

    Columns that lead to a commit which is not among `commits` continue to the last line.

    Args:
        commits: the commits, each before its parents, as `iter_log` yields them.
        is_shown: a function that returns whether a commit gets an asterisk. Lines pass through
            hidden commits, so that a commit is connected to its nearest shown ancestors.
    """
    columns: list[CommitId] = []
    # The last column, if it ended on the last line: the next commit there is not a parent.
    ended_at: int | None = None
    for commit in commits:
        if commit.id not in columns:
            if ended_at == len(columns):
                yield GraphLine(_row(len(columns)), None)
                ended_at = None
            columns.append(commit.id)
        column = columns.index(commit.id)
        straight = _row(len(columns))
        asterisk = _row(len(columns), {2 * column: "*"})
        rows = list(_connect(columns, column, list(dict.fromkeys(commit.parents))))
        if is_shown is None or is_shown(commit):
            yield GraphLine(asterisk, commit)
            ended_at = None
        elif rows:
            # Without this line, the slashes below would look connected to the slashes above.
            yield GraphLine(straight, None)
        for row in rows:
            yield GraphLine(row, None)
            ended_at = None
        if not commit.parents and column == len(columns):
            ended_at = column


def _connect(columns: list[CommitId], column: int, parents: list[CommitId]) -> Iterator[str]:
    """Connect a column to a commit's parents: update `columns` and yield the connecting lines."""
    if not parents:
        del columns[column]
        if column < len(columns):
            yield _row(column, _moving_left(column + 1, len(columns) + 1))
        return
    first, *others = parents
    for parent in others:
        if parent in columns:
            yield from _cross(len(columns), column, columns.index(parent))
    for parent in reversed([parent for parent in others if parent not in columns]):
        slashes = {2 * place + 1: "\\" for place in range(column, len(columns))}
        yield _row(column + 1, slashes)
        columns.insert(column + 1, parent)
    if first in columns:
        keep, end = sorted((column, columns.index(first)))
        columns[keep] = first
        width = len(columns)
        del columns[end]
        yield _row(end, {2 * end - 1: "/"} | _moving_left(end + 1, width))
        yield from _cross(width - 1, end - 1, keep)
    else:
        columns[column] = first


def _cross(width: int, start: int, end: int) -> Iterator[str]:
    """Draw the lines that connect one column to another; no column shifts."""
    for column in range(start, end):
        yield _row(width, {2 * column + 1: "\\"})
    for column in range(start, end, -1):
        yield _row(width, {2 * column - 1: "/"})


def _moving_left(start: int, end: int) -> dict[int, str]:
    return {2 * place - 1: "/" for place in range(start, end)}


def _row(width: int, marks: dict[int, str] | None = None) -> str:
    """Draw one line of `width` straight columns; `marks` replaces characters, by position."""
    line = ["|", " "] * width
    for position, mark in (marks or {}).items():
        line.extend(" " * (position + 1 - len(line)))
        line[position] = mark
    return "".join(line).rstrip()

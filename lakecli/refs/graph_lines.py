r"""Drawing history beside a log, in plain ASCII.

Every column is one line of descent on its way to a commit further down::

    *      a merge: its first parent stays in the column, others branch off to the right
    |\
    | *    a commit; the column goes on to its parent
    * |
    |/     two columns on their way to the same commit become one
    *

Each connecting line makes one change, so that a drawing can be read back without guessing:

- ``|\`` opens a column for a further parent; columns right of it move along with ``\``
- ``|\|`` and ``|/|`` lead to a column that is already there; one that is further off is reached
  in several lines, crossing the columns between
- ``|/`` ends a column that meets another; columns right of it move along with ``/``
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lakecli.model import Commit, CommitId


@dataclass(frozen=True, slots=True)
class GraphLine:
    """One line of a drawing.

    Attributes:
        drawing: no white space at the end.
        commit: whose asterisk it holds and whose text goes beside it; ``None`` on lines between.
    """

    drawing: str
    commit: Commit | None


def iter_graph_lines(
    commits: Iterable[Commit], *, is_shown: Callable[[Commit], bool] | None = None
) -> Iterator[GraphLine]:
    """Yield the drawing of a history, line by line, as the commits come.

    Columns that lead to a commit which never comes run on to the last line.

    Args:
        commits: each before its parents, as `history.iter_log` yields them with ``topological``.
        is_shown: which of them get an asterisk. Lines pass through the others, so that a commit
            is joined to the nearest ancestors that are shown.
    """
    columns: list[CommitId] = []
    # The last column, if it ended on the last line: what comes there next is no parent of it.
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
            # Parts the slashes below from those above, which must not look like one line.
            yield GraphLine(straight, None)
        for row in rows:
            yield GraphLine(row, None)
            ended_at = None
        if not commit.parents and column == len(columns):
            ended_at = column


def _connect(columns: list[CommitId], column: int, parents: list[CommitId]) -> Iterator[str]:
    """Lead a column on to the commit's parents: change `columns`, yield the lines that show it."""
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
        yield from _join(columns, keep, end)
    else:
        columns[column] = first


def _join(columns: list[CommitId], keep: int, end: int) -> Iterator[str]:
    """End the column `end`, which leads into `keep` on its left."""
    width = len(columns)
    del columns[end]
    yield _row(end, {2 * end - 1: "/"} | _moving_left(end + 1, width))
    yield from _cross(width - 1, end - 1, keep) if end - 1 > keep else ()


def _cross(width: int, start: int, end: int) -> Iterator[str]:
    """Lead from one column to another, all of them staying where they are."""
    while start < end:
        yield _row(width, {2 * start + 1: "\\"})
        start += 1
    while start > end:
        yield _row(width, {2 * start - 1: "/"})
        start -= 1


def _moving_left(start: int, end: int) -> dict[int, str]:
    return {2 * place - 1: "/" for place in range(start, end)}


def _row(width: int, marks: dict[int, str] | None = None) -> str:
    """Draw so many columns that go straight down, and over them what is at other positions."""
    line = ["|", " "] * width
    for position, mark in (marks or {}).items():
        line.extend(" " * (position + 1 - len(line)))
        line[position] = mark
    return "".join(line).rstrip()

r"""Drawing history beside a log, in plain ASCII.

Every column leads to a commit further down::

    *      a merge: its first parent stays in the column, others branch off to the right
    |\
    | *    a commit; the column continues to its parent
    * |
    |/     two columns that lead to the same commit become one
    *

Each connecting line makes one change, so that a drawing is unambiguous:

- ``|\`` opens a column for another parent; columns to its right shift with ``\``
- ``|\|`` and ``|/|`` lead to an existing column; a distant one takes several lines, which cross the
  columns between
- ``|/`` ends a column that joins another; columns to its right shift with ``/``
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from lakecli.base.model import Commit, CommitId


@dataclass(frozen=True, slots=True)
class GraphLine:
    """One line of a drawing.

    Attributes:
        drawing: without trailing white space.
        commit: the commit whose asterisk the line holds; ``None`` on connecting lines.
    """

    drawing: str
    commit: Commit | None


def iter_graph_lines(
    commits: Iterable[Commit], *, is_shown: Callable[[Commit], bool] | None = None
) -> Iterator[GraphLine]:
    """Yield the drawing of a history, line by line.

    Columns that lead to a commit which is not among `commits` continue to the last line.

    Args:
        commits: each before its parents, as `history.iter_log` yields them.
        is_shown: whether a commit gets an asterisk. Lines pass through the others, so that a commit
            is connected to its nearest shown ancestors.
    """
    columns: list[CommitId] = []
    # The last column, if it ended on the last line: the next commit there is not its parent.
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
            # Separates the slashes below from those above, which would look connected.
            yield GraphLine(straight, None)
        for row in rows:
            yield GraphLine(row, None)
            ended_at = None
        if not commit.parents and column == len(columns):
            ended_at = column


def _connect(columns: list[CommitId], column: int, parents: list[CommitId]) -> Iterator[str]:
    """Continue a column to the commit's parents: update `columns`, yield the connecting lines."""
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
    """End the column `end`, which joins `keep` on its left."""
    width = len(columns)
    del columns[end]
    yield _row(end, {2 * end - 1: "/"} | _moving_left(end + 1, width))
    yield from _cross(width - 1, end - 1, keep) if end - 1 > keep else ()


def _cross(width: int, start: int, end: int) -> Iterator[str]:
    """Connect one column to another; no column shifts."""
    while start < end:
        yield _row(width, {2 * start + 1: "\\"})
        start += 1
    while start > end:
        yield _row(width, {2 * start - 1: "/"})
        start -= 1


def _moving_left(start: int, end: int) -> dict[int, str]:
    return {2 * place - 1: "/" for place in range(start, end)}


def _row(width: int, marks: dict[int, str] | None = None) -> str:
    """Draw `width` straight columns, with `marks` over them by position."""
    line = ["|", " "] * width
    for position, mark in (marks or {}).items():
        line.extend(" " * (position + 1 - len(line)))
        line[position] = mark
    return "".join(line).rstrip()

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.refs.history import iter_graph_lines, iter_log
from tests.refs.strategies import histories
from tests.support.graphs import FakeRefs, graph, id_of, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lakecli.base.model import Commit
    from lakecli.refs.history import GraphLine

# A graph, the commit whose log is drawn, and the drawing.
GOLDENS = {
    "linear": (
        "a-b-c",
        "c",
        """
        * c
        * b
        * a
        """,
    ),
    "merge": (
        "a-b-c, b-d, c+d-e-f",
        "f",
        """
        * f
        * e
        |\\
        | * d
        * | c
        |/
        * b
        * a
        """,
    ),
    "merge of the parent itself": (
        "a-b, a+b-c",
        "c",
        """
        * c
        |\\
        | * b
        |/
        * a
        """,
    ),
    "criss-cross": (
        "a-b, a-c, b+c-d, c+b-e, d+e-f",
        "f",
        """
        * f
        |\\
        | * e
        | |\\
        * | | d
        |\\| |
        | |/
        |/|
        | * c
        * | b
        |/
        * a
        """,
    ),
    "repeated merges into a branch": (
        "a-b-c-d, a-x, x+b-y, y+d-z, d+z-e",
        "e",
        """
        * e
        |\\
        | * z
        |/|
        | * y
        | |\\
        | * | x
        * | | d
        * | | c
        | |/
        |/|
        * | b
        |/
        * a
        """,
    ),
    "three parents": (
        "a-b, a-c, a-d, b+c+d-e",
        "e",
        """
        * e
        |\\
        |\\ \\
        | | * d
        | * | c
        | |/
        * | b
        |/
        * a
        """,
    ),
    "several roots": (
        "a, b, c, a+b+c-d",
        "d",
        """
        * d
        |\\
        |\\ \\
        | | * c
        | * b
        * a
        """,
    ),
    "a root between others": (
        "a, c, b-b1, a+c+b1-d",
        "d",
        """
        * d
        |\\
        |\\ \\
        | | * b1
        | | * b
        | * c
        * a
        """,
    ),
    "a root left of others": (
        "c, b, a, a+b+c-d",
        "d",
        """
        * d
        |\\
        |\\ \\
        * | | a
         / /
        * | b
         /
        * c
        """,
    ),
}


@pytest.mark.parametrize("name", GOLDENS)
def test_golden(name: str) -> None:
    text, start, drawing = GOLDENS[name]
    assert _draw(_log(graph(text), start)) == _dedent(drawing)


def test_columns_run_on_to_commits_that_do_not_come() -> None:
    commits = list(_log(graph("a-b-c, b-d, c+d-e"), "e"))
    drawing = """
        * e
        |\\
        | * d
        """
    assert _draw(commits[:2]) == _dedent(drawing)


def test_lines_pass_through_commits_that_are_not_shown() -> None:
    refs = graph("a-b-c, b-d, c+d-e-f")
    drawing = """
        * f
        |
        |\\
        | * d
        * | c
        |/
        * b
        * a
        """
    shown = _draw(_log(refs, "f"), is_shown=lambda commit: len(commit.parents) < 2)
    assert shown == _dedent(drawing)


def test_commits_that_nothing_shown_leads_to_start_columns_of_their_own() -> None:
    """As on the second page of a log."""
    refs = graph("a-b-c, b-d, c+d-e")
    drawing = """
        * d
        | * c
        |/
        * b
        * a
        """
    assert _draw(list(_log(refs, "e"))[1:]) == _dedent(drawing)


def test_a_line_separates_a_root_from_the_next_commit() -> None:
    refs = graph("a, b-c", minutes={"a": 9})
    commits = [refs.commits[id_of(name)] for name in "acb"]
    assert _draw(commits) == _dedent("""
        * a

        * c
        * b
        """)


@given(st.data())
def test_a_drawing_can_be_read_back(data: st.DataObject) -> None:
    """No edge is lost and none is invented, whatever is cut off or hidden."""
    refs = data.draw(histories())
    tip = name_of(max(refs.commits))
    commits = list(_log(refs, tip))
    first = data.draw(st.integers(0, len(commits) - 1))
    commits = commits[first : data.draw(st.integers(first, len(commits)))]
    hidden = data.draw(st.sets(st.sampled_from(sorted(refs.commits))))
    lines = list(iter_graph_lines(commits, is_shown=lambda commit: commit.id not in hidden))
    shown = [commit.id for commit in commits if commit.id not in hidden]
    assert [line.commit.id for line in lines if line.commit] == shown
    assert all(line.drawing == line.drawing.rstrip() for line in lines)

    expected = set()
    for child in commits:
        ancestors = list(child.parents)
        while ancestors and child.id not in hidden:
            parent = ancestors.pop()
            if parent in shown:
                expected.add((name_of(child.id), name_of(parent)))
            elif parent in {commit.id for commit in commits}:
                ancestors.extend(refs.commits[parent].parents)
    assert _read(lines) == expected


def _read(lines: Iterable[GraphLine]) -> set[tuple[str, str]]:
    """Read the edges, child to parent, off a drawing as somebody would who looks at it.

    A slash goes on in the same direction where a column crosses it; otherwise it ends in the
    column it reaches, or moves with it if that column bends away. A column that goes straight on
    beside a slash has branched.
    """
    edges: set[tuple[str, str]] = set()
    columns: dict[int, set[str]] = {}  # on which commits' ways down we are
    slashes: dict[tuple[str, int], set[str]] = {}  # of the line before: whose, by its target
    for line in lines:
        marks = dict(enumerate(line.drawing))
        assert all(mark in "|* " for place, mark in marks.items() if place % 2 == 0)
        assert all(mark in "/\\ " for place, mark in marks.items() if place % 2 == 1)
        straight = {place // 2 for place, mark in marks.items() if mark in "|*"}
        begun: dict[tuple[str, int], int] = {}  # of this line: where from, by direction and target
        for place, mark in marks.items():
            if mark in "/\\":
                step = 1 if mark == "\\" else -1
                begun[mark, (place + step) // 2] = (place - step) // 2
        crossing = {
            (mark, target): slashes.pop((mark, source))
            for (mark, target), source in begun.items()
            if source in straight and (mark, source) in slashes
        }
        for (_, target), children in slashes.items():
            columns[target] = columns.get(target, set()) | children
        slashes = {
            key: crossing[key] if key in crossing else columns[source]
            for key, source in begun.items()
        }
        columns = {place: columns.get(place, set()) for place in straight}
        for place, mark in marks.items():
            if mark == "*":
                assert line.commit is not None
                name = name_of(line.commit.id)
                edges |= {(child, name) for child in columns[place // 2]}
                columns[place // 2] = {name}
    return edges


def test_the_reader_of_drawings_reads() -> None:
    """A property that believed any drawing would prove nothing."""
    text, start, _ = GOLDENS["criss-cross"]
    lines = list(iter_graph_lines(_log(graph(text), start)))
    assert ("e", "b") in _read(lines)
    assert ("e", "b") not in _read([line for line in lines if line.drawing != "|/|"])


def test_commits_are_drawn_as_they_come() -> None:
    commits = iter(list(_log(graph("a-b-c-d"), "d")))
    lines = iter_graph_lines(commits)
    assert [line.drawing for line in islice(lines, 2)] == ["*", "*"]
    assert [name_of(commit.id) for commit in commits] == ["b", "a"]


def _log(refs: FakeRefs, start: str) -> Iterable[Commit]:
    return iter_log(refs, id_of(start))


def _draw(
    commits: Iterable[Commit], *, is_shown: Callable[[Commit], bool] | None = None
) -> list[str]:
    return [
        f"{line.drawing} {line.commit.message}" if line.commit else line.drawing
        for line in iter_graph_lines(commits, is_shown=is_shown)
    ]


def _dedent(drawing: str) -> list[str]:
    return [line[8:] for line in drawing.splitlines()[1:-1]]

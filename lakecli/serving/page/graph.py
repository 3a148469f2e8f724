r"""The history as a drawing: the lines of `lakecli.refs.history.iter_graph_lines`, to scale.

A column of the text becomes a lane. ``|`` and ``*`` are vertical lines, ``\`` and ``/`` lead from
one lane to the next. The line of a commit is as high as its text, so its lines end at ``100%``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from lakecli.base.model import Commit
from lakecli.refs.history import GraphLine

LANE: Final = 16
"""The width of a lane; the style sheet has a class for each possible width of the drawing."""

STEP: Final = 12
"""The height of a line between two commits."""

MOST_LANES: Final = 16
"""Lanes further to the right are not drawn."""

DOT: Final = 14
"""The distance of a commit's dot from the top of its line."""


class Stroke(NamedTuple):
    """A straight line: its ends, and its colour by the number of the lane."""

    x1: int
    y1: int
    x2: int
    y2: int | str
    lane: int


class Row(NamedTuple):
    """A commit in the drawing.

    Attributes:
        above: the lines between the previous commit and this one, `height` high.
        beside: the lines beside the text of the commit.
        lane: the lane of its dot.
    """

    commit: Commit
    above: list[Stroke]
    height: int
    beside: list[Stroke]
    lane: int


def rows(lines: Iterable[GraphLine]) -> Iterator[Row]:
    """Yield each commit with its drawing; lines after the last commit are dropped."""
    above: list[Stroke] = []
    height, before = 0, ""
    for drawing, commit in lines:
        if commit is None:
            above += _strokes(drawing, height, height + STEP)
            height += STEP
        else:
            lane = drawing.index("*") // 2
            beside = [each for each in _strokes(drawing, 0, "100%") if each.lane != lane]
            x = lane * LANE + LANE // 2
            if _touches(before, 2 * lane):
                beside.append(Stroke(x, 0, x, DOT, lane))
            if commit.parents:
                beside.append(Stroke(x, DOT, x, "100%", lane))
            yield Row(commit, above, height, beside, lane)
            above, height = [], 0
        before = drawing if commit is None or commit.parents else drawing.replace("*", " ")


def width(found: Iterable[Row]) -> int:
    """Return the number of lanes that a drawing needs, at most `MOST_LANES`."""
    ends = [x for row in found for each in (*row.above, *row.beside) for x in (each.x1, each.x2)]
    return min(max(ends, default=0) // LANE + 1, MOST_LANES)


def _strokes(drawing: str, top: int, bottom: int | str) -> Iterator[Stroke]:
    for place, mark in enumerate(drawing):
        lane, centre = place // 2, place // 2 * LANE + LANE // 2
        if mark in "|*":
            yield Stroke(centre, top, centre, bottom, lane)
        elif mark == "\\":
            yield Stroke(centre, top, centre + LANE, bottom, lane + 1)
        elif mark == "/":
            yield Stroke(centre + LANE, top, centre, bottom, lane + 1)


def _touches(line: str, place: int) -> bool:
    """Return whether a line of the drawing leads to a place in the line below it."""
    around = line.ljust(place + 2)
    from_left = place > 0 and around[place - 1] == "\\"
    return from_left or around[place] in "|*" or around[place + 1] == "/"

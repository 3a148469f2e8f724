r"""The commit graph of a page, made from the text lines of `lakecli.refs.history.iter_graph_lines`.

Every second column of the text becomes a lane. ``|`` is a vertical line, ``\`` and ``/`` lead from
one lane to the next.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from lakecli.base.model import Commit
from lakecli.refs.history import GraphLine

MOST_LANES: Final = 16
"""The maximum number of lanes that are drawn; the style sheet has a class for each width."""


class Row(NamedTuple):
    """A commit in the drawing.

    Attributes:
        above: the lines of text between the previous commit and this one.
        beside: the line of text of this commit, without the asterisk.
        lane: the lane of the commit's dot.
        is_joined: whether a line leads to the dot from above.
    """

    commit: Commit
    above: list[str]
    beside: str
    lane: int
    is_joined: bool


def rows(lines: Iterable[GraphLine]) -> Iterator[Row]:
    """Yield each commit with its drawing; lines after the last commit are dropped."""
    above: list[str] = []
    before = ""
    for drawing, commit in lines:
        if commit is None:
            above.append(drawing)
        else:
            place, beside = drawing.index("*"), drawing.replace("*", " ")
            yield Row(commit, above, beside, place // 2, _touches(before, place))
            above = []
        before = drawing if commit is None or commit.parents else drawing.replace("*", " ")


def width(found: Iterable[Row]) -> int:
    """Return the number of lanes that a drawing needs, at most `MOST_LANES`."""
    lanes = (len(line) // 2 + 1 for row in found for line in (*row.above, row.beside))
    return min(max(lanes, default=1), MOST_LANES)


def _touches(line: str, place: int) -> bool:
    """Return whether a line of the drawing leads to a column of the line below it."""
    around = f" {line}".ljust(place + 3)
    return around[place] == "\\" or around[place + 1] in "|*" or around[place + 2] == "/"

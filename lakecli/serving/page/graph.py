r"""The commit graph of a page, made from the text lines of `lakecli.refs.history.iter_graph_lines`.

Every second column of the text becomes a lane. ``|`` is a vertical line, ``\`` and ``/`` lead from
one lane to the next.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from lakecli.base.model import Commit, CommitId
from lakecli.refs.history import GraphLine

MOST_LANES: Final = 16
"""The maximum number of lanes that are drawn; the style sheet has a class for each width."""


class Row(NamedTuple):
    """A commit in the drawing.

    Attributes:
        above: the lines of text between the previous commit and this one.
        beside: the line of text of this commit, without the asterisk.
        lane: the lane of the commit's dot.
        is_joined: whether a line leads to the dot from above, from a child of the commit.
    """

    commit: Commit
    above: list[str]
    beside: str
    lane: int
    is_joined: bool


def rows(lines: Iterable[GraphLine]) -> Iterator[Row]:
    """Yield each commit with its drawing; lines after the last commit are dropped."""
    above: list[str] = []
    awaited: set[CommitId] = set()
    for drawing, commit in lines:
        if commit is None:
            above.append(drawing)
        else:
            beside, lane = drawing.replace("*", " "), drawing.index("*") // 2
            yield Row(commit, above, beside, lane, commit.id in awaited)
            awaited.update(commit.parents)
            above = []


def width(found: Iterable[Row]) -> int:
    """Return the number of lanes that a drawing needs, at most `MOST_LANES`."""
    lanes = (len(line) // 2 + 1 for row in found for line in (*row.above, row.beside))
    return min(max(lanes, default=1), MOST_LANES)

"""Tables for a terminal, drawn by Rich: at most as wide as the terminal, numbers right-aligned."""

import re
from collections.abc import Collection, Sequence
from io import StringIO
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

_WHOLE_WIDTH: Final = 1 << 20
_GAP: Final = 2
_READABLE: Final = 16
_NARROW: Final = 6
"""Columns are cut to `_READABLE` characters, or to `_NARROW` if only then a line can fit."""

_LONG_ID: Final = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
_NUMBER: Final = re.compile(r"-?[0-9][0-9,.]*( ?([kMGTPE]?i?B|bytes?))?")


def aligned_lines(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int,
    whole: bool,
    kept: Collection[int] = (0,),
) -> list[str]:
    """Return a line for the headers and a line for each row, without color.

    Args:
        columns: the headers.
        rows: the cells of each row, without line breaks.
        width: the width of the terminal.
        whole: whether cells and IDs are never shortened, even if lines become too long.
        kept: the numbers of the columns that are never cut, even if lines become too long; a cell
            that is cut in another column ends in ``…``.
    """
    if not whole:
        rows = [[_LONG_ID.sub(r"\1", cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(columns, *rows, strict=True)]
    if not whole:
        cut = [number for number in range(len(widths)) if number not in kept]
        room = width - _GAP * (len(widths) - 1) - sum(widths[number] for number in kept)
        narrowed = [widths[number] for number in cut]
        _narrow(narrowed, room, _READABLE)
        if room >= _NARROW * len(cut):
            _narrow(narrowed, room, _NARROW)
        for number, narrow in zip(cut, narrowed, strict=True):
            widths[number] = narrow
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for number, column in enumerate(columns):
        cells = [row[number] for row in rows if row[number]]
        is_number = bool(cells) and all(map(_NUMBER.fullmatch, cells))
        table.add_column(
            Text(column.upper()),
            justify="right" if is_number else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=widths[number],
        )
    for row in rows:
        table.add_row(*map(Text, row))
    drawn = StringIO()
    console = Console(file=drawn, width=_WHOLE_WIDTH, color_system=None, legacy_windows=False)
    console.print(table)
    return [line.rstrip() for line in drawn.getvalue().splitlines()]


def _narrow(widths: list[int], room: int, least: int) -> None:
    """Narrow the widest columns until all fit into `room`, or none is wider than `least`."""
    while sum(widths) > room and max(widths, default=0) > least:
        widest = widths.index(max(widths))
        others = [least, *(each for each in widths if each < widths[widest])]
        widths[widest] = max(*others, widths[widest] - (sum(widths) - room))

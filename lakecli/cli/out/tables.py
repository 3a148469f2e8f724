"""Tables for a terminal: at most as wide as the terminal, with numbers aligned to the right."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size

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
    lines = []
    is_number = [_are_numbers(filter(None, column)) for column in zip(*rows, strict=True)]
    is_number = is_number or [False] * len(columns)
    for row in ([column.upper() for column in columns], *rows):
        cells = map(_fitted, row, widths, is_number)
        lines.append((" " * _GAP).join(cells).rstrip())
    return lines


def _are_numbers(cells: Iterable[str]) -> bool:
    found = [_NUMBER.fullmatch(cell) is not None for cell in cells]
    return bool(found) and all(found)


def _fitted(cell: str, width: int, is_number: bool) -> str:  # noqa: FBT001 - for `map`
    """Return a cell cut or padded to a width; numbers are aligned to the right."""
    if cell_len(cell) > width:
        cell = set_cell_size(cell, width - 1) + "…"
    blanks = " " * (width - cell_len(cell))
    return blanks + cell if is_number else cell + blanks


def _narrow(widths: list[int], room: int, least: int) -> None:
    """Narrow the widest columns until all fit into `room`, or none is wider than `least`."""
    while sum(widths) > room and max(widths, default=0) > least:
        widest = widths.index(max(widths))
        others = [least, *(each for each in widths if each < widths[widest])]
        widths[widest] = max(*others, widths[widest] - (sum(widths) - room))

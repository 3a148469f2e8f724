"""Differences as text and JSON: one line or object for each path, or counts by prefix."""

import os
from collections.abc import Iterable, Iterator
from itertools import groupby
from math import ceil
from operator import attrgetter
from typing import Final, NotRequired, TypedDict

from lakecli.base.model import ChangeType, Difference
from lakecli.cli.out.output import Output
from lakecli.cli.out.text import human_size, quote_path, quote_paths
from lakecli.committed.change_counts import ChangeCounts, count_changes
from lakecli.committed.values import decode_entry

LOOKS: Final = {
    ChangeType.ADDED: ("+ added", "green"),
    ChangeType.REMOVED: ("- removed", "red"),
    ChangeType.CHANGED: ("~ modified", "yellow"),
    ChangeType.CONFLICT: ("* conflict", "bright yellow"),
}
"""The sign, the word and the colour of each type of difference."""

_BAR_WIDTH: Final = 20


class DifferenceJson(TypedDict):
    """A path that differs.

    Attributes:
        type: added, removed, changed or conflict.
        path: the path.
        unlike_checksums: true if the objects in conflict may be equal: they have the same size, but
            one has an MD5 checksum (from lakeFS) and the other a BLAKE3 checksum.
        left_size: size of the object on the left side in bytes; null if that side has no object.
        left_checksum: checksum of the object on the left side; null if that side has no object.
        right_size: size of the object on the right side in bytes; null if that side has no object.
        right_checksum: checksum of the object on the right side; null if that side has no object.
    """

    type: str
    path: bytes | str
    left_size: int | None
    left_checksum: str | None
    right_size: int | None
    right_checksum: str | None
    unlike_checksums: NotRequired[bool]


def stream_differences(out: Output, differences: Iterable[Difference]) -> int:
    """Write the differences one by one, as text or JSON, and return their number."""

    def texts(found: list[Difference]) -> Iterator[str]:
        for kind, alike in groupby(found, attrgetter("type")):
            mark, colour = LOOKS[kind]
            paths = quote_paths([each.path for each in alike])
            yield out.style(f"{mark} " + f"\n{mark} ".join(paths), colour)

    def record(difference: Difference) -> DifferenceJson:
        left, right = _size_and_checksum(difference.left), _size_and_checksum(difference.right)
        answer: DifferenceJson = {
            "type": difference.type,
            "path": difference.path,
            "left_size": left[0],
            "left_checksum": left[1],
            "right_size": right[0],
            "right_checksum": right[1],
        }
        if difference.unlike_checksums:
            answer["unlike_checksums"] = True
        return answer

    return out.stream(differences, record=record, texts=texts)


def _size_and_checksum(value: bytes | None) -> tuple[int | None, str | None]:
    if value is None:
        return None, None

    entry = decode_entry(value)
    return entry.size, entry.checksum


def stream_paths(out: Output, differences: Iterable[Difference], *, null: bool) -> int:
    """Write only the paths that differ, as text or JSON, and return their number.

    Args:
        null: end each path with a NUL byte instead of quoting it, for ``xargs -0``.
    """
    count = 0
    for difference in differences:
        path = difference.path
        out.plain(os.fsdecode(path) + "\0" if null else quote_path(path) + "\n")
        count += 1
    return count


def show_counts(out: Output, differences: Iterable[Difference], *, depth: int) -> int:
    """Write the number of differences below each prefix, and return the number of all paths.

    Args:
        differences: the differences; the iterable is consumed.
        depth: the maximum number of directories in a prefix.
    """
    rows = count_changes(differences, depth=depth)
    total = 0

    def counted() -> Iterator[ChangeCounts]:
        nonlocal total
        for row in rows:
            if row.prefix is None:
                total = row.paths
            yield row

    if not out.terminal:
        out.stream(counted(), text=_plain_counts)
        return total
    known = list(counted())
    most = max((row.paths for row in known if row.prefix is not None), default=0)
    out.table(
        ("Prefix", "Added", "Changed", "Removed", "Conflicts", "Bytes", ""),
        known,
        row=lambda row: _cells(row, most),
    )
    return total


def _plain_counts(row: ChangeCounts) -> str:
    numbers = (row.added, row.changed, row.removed, row.conflicts, *_bytes(row))
    return "\t".join((_shown_prefix(row), *map(str, numbers)))


def _cells(row: ChangeCounts, most: int) -> list[str]:
    numbers = (row.added, row.changed, row.removed, row.conflicts)
    more, less = map(human_size, _bytes(row))
    bar = "" if row.prefix is None else _bar(row, most)
    return [_shown_prefix(row), *map(str, numbers), f"+{more} -{less}", bar]


def _bytes(row: ChangeCounts) -> tuple[int, int]:
    """Return the bytes added and the bytes removed.

    The old size of a changed object counts as removed, its new size as added.
    """
    return row.bytes_added + row.bytes_after, row.bytes_removed + row.bytes_before


def _shown_prefix(row: ChangeCounts) -> str:
    return "total" if row.prefix is None else quote_path(row.prefix or b"./")


def _bar(row: ChangeCounts, most: int) -> str:
    """Return a bar with one character for each path, scaled down if there are many paths."""
    kinds = ((row.added, "+"), (row.changed, "~"), (row.removed, "-"), (row.conflicts, "*"))
    scale = min(1.0, _BAR_WIDTH / most) if most else 1.0
    return "".join(mark * ceil(count * scale) for count, mark in kinds)

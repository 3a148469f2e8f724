"""A sorted view of several layers of records, the newest on top."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Record = tuple[bytes, bytes]


def merge_newest(streams: Sequence[Iterator[Record]]) -> Iterator[Record]:
    """Merge staged records of several tokens, newest token first; the newest record of a path wins.

    Every stream ascends strictly by path, and so does the result, which includes tombstones.
    """
    if not streams:
        return iter(())
    return reduce(lambda older, newer: _over(newer, older), reversed(streams))


def overlay(staged: Iterator[Record], committed: Iterator[Record]) -> Iterator[Record]:
    """Apply `staged` changes to `committed` records: tombstones hide paths, other records replace.

    Both ascend strictly by path, and so does the result. Once `staged` has ended, the rest of
    `committed` is passed on unchanged; if `staged` is empty, `committed` itself is returned.
    """
    first = next(staged, None)
    if first is None:
        return committed
    return _visible(chain((first,), staged), committed)


def _over(newer: Iterator[Record], older: Iterator[Record]) -> Iterator[Record]:
    below = next(older, None)
    for record in newer:
        path = record[0]
        while below is not None and below[0] < path:
            yield below
            below = next(older, None)
        if below is not None and below[0] == path:
            below = next(older, None)
        yield record
    if below is not None:
        yield below
        yield from older


def _visible(staged: Iterator[Record], committed: Iterator[Record]) -> Iterator[Record]:
    change = next(staged)
    for record in committed:
        path = record[0]
        replaced = False
        while change[0] <= path:
            replaced = change[0] == path
            if change[1]:
                yield change
            following = next(staged, None)
            if following is None:
                if not replaced:
                    yield record
                yield from committed
                return
            change = following
        if not replaced:
            yield record
    if change[1]:
        yield change
    for change in staged:
        if change[1]:
            yield change

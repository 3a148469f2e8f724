"""Large diffs in parts: a runner compares intervals of keys, the driver joins them in order."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from struct import Struct
from typing import Final, NamedTuple

from lakecli.base.model import ChangeType, Difference, RangeId
from lakecli.committed.diff import compare, diff
from lakecli.committed.listing import prefix_end
from lakecli.committed.metaranges import range_id_of
from lakecli.committed.tree_store import TreeStore
from lakecli.engine.in_order import InOrder
from lakecli.engine.intervals import intervals
from lakecli.engine.runner import Runner
from lakecli.engine.store_location import StoreLocation
from lakecli.repository.contract import Repository
from lakecli.repository.diff import Compared

PART_ENTRIES: Final = 50_000
"""Entries that one part compares, about."""

_TYPES: Final = tuple(ChangeType)
_HEADER: Final = Struct("<BIII")
_UNLIKE: Final = 0x80
"""Set in the type of a conflict with unlike checksums."""


class Part(NamedTuple):
    """An interval of keys.

    Attributes:
        number: the position among all parts in key order, from 0.
        start: the first key.
        stop: the first key after the interval; ``None``: the interval has no end.
    """

    number: int
    start: bytes
    stop: bytes | None


def compare_by(
    repository: Repository, compared: Compared, *, runner: Runner, entries: int = PART_ENTRIES
) -> Iterator[Difference]:
    """Yield the differences of trees in path order, as `repository.diff.compare_here` does.

    Args:
        repository: the repository of the trees.
        compared: the trees.
        runner: compares the parts.
        entries: approximate number of entries in one part.

    Raises:
        IntegrityError: a table that had to be read is missing or damaged.
    """
    task = partial(compare_part, location=StoreLocation.of(repository), compared=compared)
    parts = _plan(repository.trees, compared, entries)
    with InOrder() as waiting:
        for part, packed in runner.run(task, parts):
            for ready in waiting.ready(part.number, packed):
                yield from _unpacked(ready)


def changed_ranges(trees: TreeStore, compared: Compared) -> set[RangeId]:
    """Return the IDs of the ranges that only one of two trees has."""
    left, right = trees.metarange(compared.left), trees.metarange(compared.right)
    return {*map(range_id_of, left.values)} ^ {*map(range_id_of, right.values)}


def compare_part(part: Part, *, location: StoreLocation, compared: Compared) -> bytes:
    """Return the differences in an interval, as `_packed` encodes them."""
    trees = location.trees()
    base, left, right, _ = compared
    if base is None:
        found = diff(trees, left, right, start=part.start, stop=part.stop)
    else:
        found = compare(trees, base=base, left=left, right=right, start=part.start, stop=part.stop)
    return _packed(found)


def _plan(trees: TreeStore, compared: Compared, entries: int) -> Iterator[Part]:
    left, right = trees.metarange(compared.left), trees.metarange(compared.right)
    base = left if compared.base is None else trees.metarange(compared.base)
    start, stop = compared.prefix, prefix_end(compared.prefix)
    found = intervals(base, right, left, entries=entries, start=start, stop=stop)
    for number, interval in enumerate(found):
        yield Part(number, interval.start, interval.stop)


def _packed(differences: Iterable[Difference]) -> bytes:
    """Return differences compressed.

    Each is a header (type, size of the path, and one more than the size of each value, 0 for none),
    the path, and the values of both sides.
    """
    pieces = []
    for difference in differences:
        kind = _TYPES.index(difference.type)
        values = difference.left, difference.right
        sizes = (0 if value is None else len(value) + 1 for value in values)
        header = kind | _UNLIKE if difference.unlike_checksums else kind
        pieces.append(_HEADER.pack(header, len(difference.path), *sizes))
        pieces += (difference.path, *(value or b"" for value in values))
    return zlib.compress(b"".join(pieces), 1)


def _unpacked(packed: bytes) -> Iterator[Difference]:
    data = zlib.decompress(packed)
    at = 0
    while at < len(data):
        kind, size, *sizes = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        path, at = data[at : at + size], at + size
        values: list[bytes | None] = []
        for each in sizes:
            values.append(data[at : at + each - 1] if each else None)
            at += max(each - 1, 0)
        left, right = values
        yield Difference(_TYPES[kind & ~_UNLIKE], path, left, right, bool(kind & _UNLIKE))

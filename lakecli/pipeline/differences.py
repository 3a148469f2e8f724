"""Large differences by parts: intervals of keys that a runner compares, joined in order again.

Parts finish in any order. What comes early waits, in memory or, beyond a limit, in a file.
"""

from __future__ import annotations

import tempfile
import zlib
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, Self, cast

from lakecli.committed.diff import compare_between, diff_between
from lakecli.committed.keys import prefix_end
from lakecli.committed.metaranges import range_id_of
from lakecli.model import ChangeType, Difference
from lakecli.pipeline.intervals import intervals
from lakecli.pipeline.store_location import StoreLocation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lakecli.committed.tree_store import TreeStore
    from lakecli.model import RangeId
    from lakecli.pipeline.runner import Runner
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.diff import Compared

PART_ENTRIES: Final = 50_000
"""Entries that one part compares, about."""

WAITING_SIZE: Final = 64 << 20
"""Bytes of parts that wait in memory for those before them; more wait in a file."""

_TYPES: Final = tuple(ChangeType)
_HEADER: Final = 4


class Part(NamedTuple):
    """An interval of keys.

    Attributes:
        number: counts the parts from 0, in key order.
        start: the first key.
        stop: the first key behind it; ``None``: to the end.
    """

    number: int
    start: bytes
    stop: bytes | None


def compare_by(
    repository: Repository, compared: Compared, *, runner: Runner, entries: int = PART_ENTRIES
) -> Iterator[Difference]:
    """Yield how trees differ, in path order, as `repository.diff.compare_here` does.

    The values of either side are left out: both are ``None``.

    Args:
        repository: whose trees.
        compared: the trees.
        runner: compares the parts.
        entries: of one part, about.

    Raises:
        IntegrityError: a table that had to be read is missing or damaged.
    """
    task = partial(compare_part, location=StoreLocation.of(repository), compared=compared)
    parts = _plan(repository.trees, compared, entries)
    with _InOrder() as waiting:
        for part, packed in runner.run(task, parts):
            waiting.add(part.number, packed)
            for ready in waiting.ready():
                yield from _unpacked(ready)


def changed_ranges(trees: TreeStore, compared: Compared) -> set[RangeId]:
    """Return the IDs of the ranges that only one of two trees has."""
    left, right = trees.metarange(compared.left), trees.metarange(compared.right)
    return {*map(range_id_of, left.values)} ^ {*map(range_id_of, right.values)}


def compare_part(part: Part, *, location: StoreLocation, compared: Compared) -> bytes:
    """Return the differences in an interval, packed; see `_packed`."""
    trees = location.trees()
    base, left, right, _ = compared
    if base is None:
        found = diff_between(trees, left, right, start=part.start, stop=part.stop)
    else:
        found = compare_between(
            trees, base=base, left=left, right=right, start=part.start, stop=part.stop
        )
    return _packed(found)


def _plan(trees: TreeStore, compared: Compared, entries: int) -> Iterator[Part]:
    left, right = trees.metarange(compared.left), trees.metarange(compared.right)
    base = left if compared.base is None else trees.metarange(compared.base)
    start, stop = compared.prefix, prefix_end(compared.prefix)
    found = intervals(base, right, left, entries=entries, start=start, stop=stop)
    for number, interval in enumerate(found):
        yield Part(number, interval.start, interval.stop)


def _packed(differences: Iterable[Difference]) -> bytes:
    """Return types and paths, compressed: a byte, the size in 3 bytes, and the path of each."""
    pieces = []
    for difference in differences:
        pieces.append(bytes((_TYPES.index(difference.type),)))
        pieces.append(len(difference.path).to_bytes(_HEADER - 1) + difference.path)
    return zlib.compress(b"".join(pieces), 1)


def _unpacked(packed: bytes) -> Iterator[Difference]:
    data = zlib.decompress(packed)
    at = 0
    while at < len(data):
        end = at + _HEADER + int.from_bytes(data[at + 1 : at + _HEADER])
        yield Difference(_TYPES[data[at]], data[at + _HEADER : end], None, None)
        at = end


class _InOrder:
    """Numbered results that leave in order, whatever order they come in."""

    def __init__(self) -> None:
        self._next = 0
        self._held: dict[int, bytes] = {}
        self._size = 0
        self._filed: dict[int, tuple[int, int]] = {}
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, number: int, data: bytes) -> None:
        if number == self._next or self._size + len(data) <= WAITING_SIZE:
            self._held[number] = data
            self._size += len(data)
            return
        if self._file is None:
            self._file = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - see __exit__
        self._filed[number] = self._file.seek(0, 2), len(data)
        self._file.write(data)

    def ready(self) -> Iterator[bytes]:
        """Yield what comes next, as far as it is there."""
        while True:
            if self._next in self._held:
                data = self._held.pop(self._next)
                self._size -= len(data)
            elif self._next in self._filed and self._file is not None:
                start, size = self._filed.pop(self._next)
                self._file.seek(start)
                data = self._file.read(size)
            else:
                return
            self._next += 1
            yield data

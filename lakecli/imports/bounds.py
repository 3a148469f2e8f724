"""Divide a manifest into intervals of keys that hold about the same number of rows.

Every piece of the manifest gives a sample in proportion to its rows: one key at random of each so
many rows, so that no order of the rows matters. With `SAMPLES` keys for each interval, not one of
the intervals of a billion rows is expected to have twice its share.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import repeat
from typing import Any, Final, NamedTuple, Protocol

from lakecli.imports.journal import digest_of

ROWS_PER_INTERVAL: Final = 131_072
MOST_INTERVALS: Final = 20_000
SAMPLES: Final = 64
"""Sampled keys for each interval, at least."""

ROWS_PER_MAP: Final = 1_048_576
"""Rows of the manifest that one task reads, at most, unless one piece has more."""


LEAST_TASKS: Final = 8
"""Tasks that read a small manifest, and intervals of it, where it has so many pieces or rows."""


class Keys(Protocol):
    """What a sample is taken of: a piece of a manifest."""

    def iter_keys(self) -> Iterator[Sequence[bytes]]:
        """Yield the keys of all rows."""

    def identity(self) -> list[Any]:
        """Return JSON values that change whenever the rows do."""


class Wish(NamedTuple):
    """The sample that is wanted of a piece.

    Attributes:
        piece: of the manifest.
        step: take one of so many keys.
        most: keys to return, or one more; the step is doubled as often as that takes.
    """

    piece: Keys
    step: int
    most: int


class Sample(NamedTuple):
    """The sample of a piece.

    Attributes:
        rows: number of rows of the piece.
        step: the number of rows that each key stands for.
        keys: of the sample, in the order of the piece.
    """

    rows: int
    step: int
    keys: list[bytes]


def wish_for(sizes: Sequence[tuple[Keys, int]], wanted: int, *, is_exact: bool) -> list[Wish]:
    """Return what to ask of each piece for a number of intervals.

    Args:
        sizes: the pieces, and for each its rows, or another size.
        wanted: number of intervals.
        is_exact: whether the sizes are rows. If not, the step is found while a piece is read.
    """
    total = sum(size for _, size in sizes)
    samples = max(1, wanted) * SAMPLES
    if is_exact:
        step = max(1, total // samples)
        return [Wish(piece, step, 2 * size // step + 2) for piece, size in sizes]
    # Doubling leaves between half of the keys and all.
    share = 2 * samples / max(1, total)
    return [Wish(piece, 1, max(2, int(share * size))) for piece, size in sizes]


def sample(wish: Wish) -> Sample:
    """Read the keys of a piece, and return a sample: one at random of each `step` rows."""
    step = wish.step
    # The same after a restart, and another one for each piece.
    chance = random.Random(digest_of(wish.piece.identity()))  # noqa: S311 - no secret
    found: list[bytes] = []
    seen = 0
    wanted = chance.randrange(step)
    for keys in wish.piece.iter_keys():
        while wanted < seen + len(keys):
            found.append(keys[wanted - seen])
            if len(found) > wish.most and len(found) % 2 == 0:
                found = [found[at + chance.getrandbits(1)] for at in range(0, len(found), 2)]
                step *= 2
            wanted = len(found) * step + chance.randrange(step)
        seen += len(keys)
    return Sample(seen, step, found)


def bounds_of(samples: Iterable[Sample], *, least: int) -> list[bytes]:
    """Return the keys at which intervals begin, except for the first one.

    Args:
        samples: of all pieces.
        least: number of intervals that a small manifest is divided into.
    """
    by_step: dict[int, list[bytes]] = {}
    rows = weight = 0
    for each in samples:
        rows += each.rows
        weight += each.step * len(each.keys)
        by_step.setdefault(each.step, []).extend(each.keys)
    wanted = intervals_for(rows, least)
    ordered = merge(*(zip(sorted(keys), repeat(step)) for step, keys in by_step.items()))
    bounds: list[bytes] = []
    passed, last, limit = 0, b"", 1
    for key, step in ordered:
        if passed * wanted >= limit * weight and key > last:
            bounds.append(key)
            last, limit = key, passed * wanted // weight + 1
        passed += step
    return bounds


def intervals_for(rows: int, least: int) -> int:
    """Return the number of intervals for a number of rows."""
    return min(MOST_INTERVALS, max(-(-rows // ROWS_PER_INTERVAL), least))


def tasks_for(sizes: Sequence[int], *, most: int) -> list[range]:
    """Return consecutive pieces that are read by one task each, as ranges of their numbers.

    Each task writes one block for each interval, so few tasks are better than many. Small manifests
    make about `LEAST_TASKS`.

    Args:
        sizes: of the pieces, in rows or any other unit.
        most: size of a task, at most, unless one piece is larger.
    """
    limit = min(most, max(1, sum(sizes) // LEAST_TASKS))
    tasks = []
    start = total = 0
    for number, size in enumerate(sizes):
        if number > start and total + size > limit:
            tasks.append(range(start, number))
            start, total = number, 0
        total += size
    if start < len(sizes):
        tasks.append(range(start, len(sizes)))
    return tasks

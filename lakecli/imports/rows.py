"""Objects of a source, column by column, and their failures."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from lakecli.base.model import MAX_PATH_SIZE

ROWS_AT_ONCE: Final = 16_384
"""Rows that sources yield at a time."""

SHOWN_FAILURES: Final = 1_000
"""Failures that one part, and the report, have at most; all are counted."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Some objects, sorted by key unless documented otherwise.

    Attributes:
        keys: paths relative to the destination.
        addresses: full URIs in UTF-8; other bytes are kept as they are.
        sizes: sizes in bytes.
        checksums: checksums in UTF-8.
        seconds: times of modification in unix seconds.
        content_types: content types in UTF-8; ``None``: there are none.
    """

    keys: list[bytes]
    addresses: list[bytes]
    sizes: list[int]
    checksums: list[bytes]
    seconds: list[int]
    content_types: list[bytes] | None = None

    def __len__(self) -> int:
        return len(self.keys)

    def columns(self) -> tuple[Sequence[Any], ...]:
        """Return all columns; a missing one has ``None`` for each object."""
        types: Sequence[bytes | None] = self.content_types or [None] * len(self)
        return self.keys, self.addresses, self.sizes, self.checksums, self.seconds, types

    def take(self, positions: Sequence[int]) -> Rows:
        """Return the rows at some positions, in that order."""
        columns: list[Any] = [[column[at] for at in positions] for column in self.columns()]
        keys, addresses, sizes, checksums, seconds, types = columns
        types = None if self.content_types is None else types
        return Rows(keys, addresses, sizes, checksums, seconds, types)


class Failure(NamedTuple):
    """An object that cannot be imported, by its path on the branch, and why."""

    path: bytes
    why: str


class Failures:
    """The failures of one part.

    Attributes:
        count: number of all failures.
        shown: the first failures, by path.
        on_failure: called with each path and why.
    """

    def __init__(self) -> None:
        self.count = 0
        self.shown: list[Failure] = []
        self.on_failure: Callable[[bytes, str], None] | None = None

    def add(self, path: bytes, why: str) -> None:
        """Record a failure."""
        self.count += 1
        insort(self.shown, Failure(path, why))
        del self.shown[SHOWN_FAILURES:]
        if self.on_failure is not None:
            self.on_failure(path, why)


def check_paths(rows: Rows, prefix: bytes, failures: Failures) -> Rows:
    """Leave out rows that cannot be recorded below `prefix`, and record why."""
    longest = MAX_PATH_SIZE - len(prefix)
    shortest = 0 if prefix else 1
    sizes = list(map(len, rows.keys))
    if max(sizes) <= longest and min(sizes) >= shortest and min(rows.sizes) >= 0:
        if min(rows.seconds) >= 0:
            return rows
        return replace(rows, seconds=[max(0, second) for second in rows.seconds])
    kept = []
    for at, key in enumerate(rows.keys):
        if len(key) > longest:
            failures.add(prefix + key, f"the path has more than {MAX_PATH_SIZE} bytes")
        elif len(key) < shortest:
            failures.add(prefix + key, "the path is empty")
        elif rows.sizes[at] < 0:
            failures.add(prefix + key, "the size is negative")
        else:
            kept.append(at)
    rows = rows.take(kept)
    return replace(rows, seconds=[max(0, second) for second in rows.seconds])

"""The data types of an import: the task, its parts, the rows of a part, and its result.

Tasks and parts are sent to the processes that run parts, so they consist of plain values.
"""

import json
from bisect import insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, NamedTuple, Protocol, Self
from zlib import crc32

from blake3 import blake3

from lakecli.base.model import MAX_PATH_SIZE, MetarangeId
from lakecli.engine.runner import StoreLocation
from lakecli.engine.scratch import Scratch
from lakecli.errors import LakeError, NotFound
from lakecli.imports.tree_parts import Cut

ROWS_AT_ONCE: Final = 16_384
"""Number of rows that a source yields at a time."""

SHOWN_FAILURES: Final = 1_000
"""Maximum number of failures that one part, and the report, list; all failures are counted."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Some objects, sorted by key unless documented otherwise.

    Attributes:
        keys: paths relative to the destination.
        addresses: full URIs in UTF-8; other bytes are kept as they are.
        seconds: modification times in unix seconds.
        content_types: content types in UTF-8; ``None``: no object has one.
        archived: number of objects in an archive tier; set only in rows that a source yields.
    """

    keys: list[bytes]
    addresses: list[bytes]
    sizes: list[int]
    checksums: list[bytes]
    seconds: list[int]
    content_types: list[bytes] | None = None
    archived: int = 0

    def __len__(self) -> int:
        return len(self.keys)

    def columns(self) -> tuple[Sequence[Any], ...]:
        """Return all columns; a missing column has ``None`` for each object."""
        types: Sequence[bytes | None] = self.content_types or [None] * len(self)
        return self.keys, self.addresses, self.sizes, self.checksums, self.seconds, types

    def take(self, positions: Sequence[int]) -> "Rows":
        """Return the rows at some positions, in that order."""
        columns: list[Any] = [[column[at] for at in positions] for column in self.columns()]
        keys, addresses, sizes, checksums, seconds, types = columns
        given = types if self.content_types else None
        return Rows(keys, addresses, sizes, checksums, seconds, given)


class ImportFailure(NamedTuple):
    """An object that cannot be imported: its path on the branch, and the reason."""

    path: bytes
    why: str


class Failures:
    """The failures of one part.

    Attributes:
        shown: the first failures, by path.
    """

    def __init__(self) -> None:
        self.count = 0
        self.shown: list[ImportFailure] = []
        self.on_failure: Callable[[bytes, str], None] | None = None

    def add(self, path: bytes, why: str) -> None:
        """Record a failure."""
        self.count += 1
        insort(self.shown, ImportFailure(path, why))
        del self.shown[SHOWN_FAILURES:]
        if self.on_failure is not None:
            self.on_failure(path, why)

    def leave_out(self, rows: Rows, prefix: bytes, bad: Mapping[int, str]) -> Rows:
        """Record why the rows at some positions cannot be imported, and return the other rows."""
        for at, why in sorted(bad.items()):
            self.add(prefix + rows.keys[at], why)
        return rows.take([at for at in range(len(rows)) if at not in bad]) if bad else rows


_LAST_SECOND: Final = 253_402_300_799
"""The last second of the year 9999, in unix seconds; no entry can have a later time."""


def check_paths(rows: Rows, prefix: bytes, failures: Failures) -> Rows:
    """Return the rows with valid paths and sizes; report the other rows to `failures`."""
    longest = MAX_PATH_SIZE - len(prefix)
    shortest = 0 if prefix else 1
    sizes = list(map(len, rows.keys))
    is_sound = max(sizes) <= longest and min(sizes) >= shortest and min(rows.sizes) >= 0
    if is_sound and min(rows.seconds) >= 0 and max(rows.seconds) <= _LAST_SECOND:
        return rows
    bad = {}
    for at, key in enumerate(rows.keys):
        if len(key) > longest:
            bad[at] = f"the path has more than {MAX_PATH_SIZE} bytes"
        elif len(key) < shortest:
            bad[at] = "the path is empty"
        elif rows.sizes[at] < 0:
            bad[at] = "the size is negative"
    rows = failures.leave_out(rows, prefix, bad)
    return replace(rows, seconds=[min(max(0, second), _LAST_SECOND) for second in rows.seconds])


class Choice(NamedTuple):
    """The choice of objects to verify: one of every `one_in`; no object if `one_in` is 0."""

    one_in: int = 0
    seed: bytes = b""

    def positions(self, rows: Rows) -> range:
        """Return the positions of the rows that are chosen."""
        if not self.one_in:
            return range(0)
        return range(crc32(rows.keys[0], crc32(self.seed)) % self.one_in, len(rows), self.one_in)


class DryRunOutput(NamedTuple):
    """Where the parts of a dry run list their paths.

    Attributes:
        directory: a directory on the driver's disk for parts that can write there; else ``""``.
        scratch: where executors may write large pieces of the list.
    """

    directory: str
    scratch: Scratch | None = None


class Task(NamedTuple):
    """The values that all parts of an import share.

    Attributes:
        prefix: prefix of all paths on the branch; empty, or ending in a slash.
        replaces: whether paths below the prefix that the source lacks are removed.
        copies: whether bytes are copied into the namespace.
        seconds: the time of the import, in unix seconds.
        roots: the directories of this machine that contain the source.
        walks: whether the source is a directory. Its files need no further permission, because the
            user named the directory.
        pins: whether addresses name the current versions of objects.
        choice: which objects are verified at their addresses.
        listing: where the parts of a dry run list their paths; ``None``: paths are not listed.
    """

    location: StoreLocation
    base: MetarangeId
    prefix: bytes
    replaces: bool
    copies: bool
    writes: bool
    seconds: int
    roots: tuple[str, ...] = ()
    walks: bool = False
    pins: bool = False
    choice: Choice = Choice()
    listing: DryRunOutput | None = None


class PartSource(Protocol):
    """The source of one part's objects; implemented by NamedTuples of plain values."""

    def rows(self, task: Task, failures: Failures) -> Iterator[Rows]:
        """Yield the part's objects in ascending order of their keys."""

    def identity(self) -> list[Any]:
        """Return JSON values that change whenever the objects change; this sends no request."""


class ImportPart(NamedTuple):
    """An interval of paths, and the source of its objects.

    Attributes:
        high: the first path after the interval; ``None``: the interval has no end.
        is_live: whether the source's objects may change although its identity stays the same.
            This is true for buckets. The identity of files and manifests changes with their
            contents.
    """

    low: bytes
    high: bytes | None
    source: PartSource
    is_live: bool = False


Parts = Iterator[ImportPart]
"""The parts of an import, in the order of their paths."""


class NumberedPart(NamedTuple):
    """A part for a runner, with its number.

    Attributes:
        known: `ImportedPart.listed` of an earlier run that finished the part, or ``""``.
    """

    number: int
    part: ImportPart
    known: str = ""


@dataclass(slots=True)
class ImportTally:
    """Counts of the source's objects and bytes, and of the branch's changed paths.

    Attributes:
        archived: number of objects found in an archive tier.
        unpinned: number of changed paths whose old entry names a version and whose new entry names
            none.
    """

    objects: int = 0
    size: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    archived: int = 0
    unpinned: int = 0

    def __iadd__(self, other: "ImportTally") -> Self:
        """Add the counts of another part."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
        return self


@dataclass(frozen=True, slots=True)
class ImportedPart:
    """The result of a part.

    Attributes:
        base: the tree of the branch that the objects were merged with.
        failed: number of objects that cannot be imported.
        failures: the first failures.
        duplicates: the first paths that the source has more than once.
        ranges_written: number of written ranges that are not in the base.
        listed: a digest of the objects that a live source listed.
        places: buckets and directories outside the namespace that contain the objects.
        verified: number of objects that were verified at their addresses.
        steps: in a dry run on other machines, the listed paths in pieces.
    """

    base: MetarangeId
    cut: Cut
    tally: ImportTally
    failed: int = 0
    failures: tuple[ImportFailure, ...] = ()
    duplicates: tuple[bytes, ...] = ()
    ranges_written: int = 0
    listed: str = ""
    places: tuple[str, ...] = ()
    verified: int = 0
    steps: tuple[Any, ...] = ()


class NotSorted(LakeError):
    """The objects of the source are not sorted by key."""


class EmptySource(NotFound):
    """The source has no object, so importing it would remove everything from its destination."""


def digest_of(fields: Sequence[object]) -> str:
    """Return a digest of JSON values."""
    return blake3(json.dumps(fields, sort_keys=True).encode()).hexdigest()

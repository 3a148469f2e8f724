"""Import one part: merge the source's objects with the records of the branch, in any process."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from operator import lt
from typing import Any, NamedTuple, Protocol, runtime_checkable

from blake3 import blake3

from lakecli.base.model import MetarangeId
from lakecli.committed.encode import Columns, encode_external
from lakecli.committed.metaranges import NO_RANGES, Metarange
from lakecli.committed.tree_store import TreeStore
from lakecli.engine.store_location import StoreLocation
from lakecli.errors import LakeError
from lakecli.imports.addresses import Addresses, Choice, Verifier
from lakecli.imports.base import BaseSlice
from lakecli.imports.copying import Copier
from lakecli.imports.listed import Lister, Listing
from lakecli.imports.merging import Merging, Tally
from lakecli.imports.rows import Failure, Failures, Rows, check_paths
from lakecli.imports.sink import EMPTY, Cut, Sink

SHOWN_DUPLICATES = 100


class Task(NamedTuple):
    """What all parts of an import share.

    Attributes:
        location: the repository's namespace.
        base: the tree of the branch.
        prefix: prefix of all paths on the branch; empty, or ending in a slash.
        replaces: whether paths below the prefix that the source lacks are removed.
        copies: whether bytes are copied into the namespace.
        writes: whether anything is written; not in a dry run.
        seconds: the present, in unix seconds.
        roots: directories of this machine that the source is or lies in.
        walks: whether the source is a directory, so that the user has named its files.
        pins: whether addresses name the current versions of objects.
        choice: the objects that are verified where they are.
        listing: where the parts of a dry run list their paths; ``None``: they do not.
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
    listing: Listing | None = None


class PartSource(Protocol):
    """The source of one part's objects: a NamedTuple of plain values."""

    def rows(self, task: Task, failures: Failures) -> Iterator[Rows]:
        """Yield the part's objects in ascending order of their keys."""

    def identity(self) -> list[Any]:
        """Return JSON values that change whenever the objects do, without asking a store."""


@runtime_checkable
class Walked(Protocol):
    """A source of files of this machine, which are opened as they were walked."""

    def opener(self) -> Callable[[bytes, int], int]:
        """Return what opens a file by its path and flags."""


class Part(NamedTuple):
    """An interval of paths, and the source of its objects.

    Attributes:
        low: the first path.
        high: the first path after the interval; ``None``: the interval has no end.
        source: of the interval's objects.
        is_live: whether the source may have other objects the next time, under the same identity:
            a bucket may. Files and manifests that change have another identity.
    """

    low: bytes
    high: bytes | None
    source: PartSource
    is_live: bool = False


@dataclass(frozen=True, slots=True)
class PartResult:
    """The result of a part.

    Attributes:
        cut: the part of the tree.
        tally: counts of objects and paths.
        failed: number of objects that cannot be imported.
        failures: the first of these.
        duplicates: the first paths that the source has more than once.
        ranges_written: number of ranges written that the base does not have.
        listed: a digest of the objects that a live source listed.
        places: buckets and directories outside the namespace with the objects.
        verified: number of objects that were verified where they are.
        steps: in a dry run on other machines, the listed paths; see `listed`.
    """

    cut: Cut
    tally: Tally
    failed: int = 0
    failures: tuple[Failure, ...] = ()
    duplicates: tuple[bytes, ...] = ()
    ranges_written: int = 0
    listed: str = ""
    places: tuple[str, ...] = ()
    verified: int = 0
    steps: tuple[Any, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether the part can become part of a tree."""
        return not self.failed and not self.duplicates


class NotSorted(LakeError):
    """A source is not sorted by key."""


_open = threading.local()


def open_base(task: Task) -> tuple[TreeStore, Metarange]:
    """Return the trees of the repository, and the base, opened once per thread."""
    key = task.location, task.base
    if getattr(_open, "key", None) != key:
        trees = task.location.trees()
        _open.found = trees, trees.metarange(task.base) if task.base else NO_RANGES
        _open.key = key
    found: tuple[TreeStore, Metarange] = _open.found
    return found


class Item(NamedTuple):
    """A part on its way to a runner.

    Attributes:
        number: the position among all parts.
        known: `PartResult.listed` of an earlier run that finished the part; else ``""``.
    """

    number: int
    part: Part
    known: str = ""


def tell_nobody(_items: int, _size: int) -> None:
    """Keep to oneself what a part has done so far."""


def import_item(
    task: Task, item: Item, *, tell: Callable[[int, int], None] = tell_nobody
) -> PartResult | None:
    """Import one part; return ``None`` if the result of an earlier run still holds.

    Args:
        task: shared by all parts.
        item: the part.
        tell: called with numbers of objects that are done, and of their bytes that were copied.

    Raises:
        NotSorted: the source is not sorted by key.
        LakeError: the source or the namespace cannot be read or written.
    """
    part = item.part
    if item.known:
        said = Said()
        for _ in said.noted(part.source.rows(task, Failures())):
            pass
        if said.digest() == item.known:
            return None
    failures = Failures()
    rows = part.source.rows(task, failures)
    if task.listing is not None:
        lister = Lister(failures, task.listing, item.number)
        return import_rows(task, part, rows, failures, lister=lister, tell=tell)
    if not part.is_live:
        return import_rows(task, part, rows, failures, tell=tell)
    said = Said()
    result = import_rows(task, part, said.noted(rows), failures, tell=tell)
    return replace(result, listed=said.digest())


class Said:
    """A digest of a source's objects, computed while they pass."""

    def __init__(self) -> None:
        self._hasher = blake3()

    def noted(self, rows: Iterator[Rows]) -> Iterator[Rows]:
        """Yield rows unchanged, and add them to the digest."""
        for piece in rows:
            fields = [piece.sizes, piece.seconds, list(map(len, piece.keys))]
            self._hasher.update(json.dumps(fields).encode())
            self._hasher.update(b"".join(piece.keys))
            self._hasher.update(b" ".join(piece.checksums))
            self._hasher.update(b" ".join(piece.addresses))
            yield piece

    def digest(self) -> str:
        """Return the digest of all rows so far."""
        return self._hasher.hexdigest()


def import_rows(
    task: Task,
    part: Part,
    rows: Iterator[Rows],
    failures: Failures,
    *,
    lister: Lister | None = None,
    tell: Callable[[int, int], None] = tell_nobody,
) -> PartResult:
    """Import the objects of an interval of paths.

    Args:
        task: shared by all parts.
        part: the interval.
        rows: the objects, sorted by key; keys are relative to the prefix.
        failures: failures that `rows` has recorded; the import adds its own.
        lister: lists what would be done with each path; made for `failures`.
        tell: see `import_item`.
    """
    trees, base = open_base(task)
    written_before = trees.counts.ranges_written
    sink = Sink(trees, base) if task.writes else None
    merging = Merging(
        BaseSlice(trees, base, low=part.low, high=part.high),
        replaces=task.replaces,
        sink=sink,
        lister=lister,
    )
    encode = _encoder(task, part.source, failures, tell)
    duplicates: list[bytes] = []
    last: bytes | None = None
    prefix = task.prefix
    for piece in rows:
        if piece.keys:
            merging.list_before(prefix + piece.keys[0])
        chunk = check_paths(piece, prefix, failures) if piece.keys else piece
        if not chunk.keys:
            continue
        chunk = _without_duplicates(chunk, last, prefix, duplicates)
        if not chunk.keys:
            continue
        last = chunk.keys[-1]
        chunk, values = encode(chunk)
        if not chunk.keys:
            continue
        if not task.copies:
            tell(len(chunk), 0)
        merging.tally.objects += len(chunk)
        merging.tally.size += sum(chunk.sizes)
        keys = [prefix + key for key in chunk.keys] if prefix else chunk.keys
        merging.add(keys, values)
    merging.finish()
    return PartResult(
        EMPTY if sink is None else sink.finish(),
        merging.tally,
        failures.count,
        tuple(failures.shown),
        tuple(duplicates),
        trees.counts.ranges_written - written_before,
        places=tuple(sorted(encode.places)),
        verified=encode.verified,
        steps=() if lister is None else lister.finish(),
    )


def _without_duplicates(
    rows: Rows, last: bytes | None, prefix: bytes, duplicates: list[bytes]
) -> Rows:
    """Leave out keys that came before, and record the first of these.

    Raises:
        NotSorted: the keys are not in ascending order.
    """
    keys = rows.keys
    if (last is None or last < keys[0]) and all(map(lt, keys, islice(keys, 1, None))):
        return rows
    kept = []
    for at, key in enumerate(keys):
        if last is None or key > last:
            kept.append(at)
            last = key
        elif key < last:
            raise NotSorted("the listing is not sorted by key")
        elif len(duplicates) < SHOWN_DUPLICATES and prefix + key not in duplicates[-1:]:
            duplicates.append(prefix + key)
    return rows.take(kept)


class _Encoder:
    """Encodes entries of objects that stay where they are."""

    def __init__(self, task: Task, failures: Failures) -> None:
        self._addresses = Addresses(task, failures)
        self._verifier = Verifier(task.choice, task.prefix, failures, task.location.account)

    @property
    def verified(self) -> int:
        """Number of objects that were verified where they are."""
        return self._verifier.count

    @property
    def places(self) -> set[str]:
        """Buckets and directories outside the namespace with the objects."""
        return self._addresses.places

    def __call__(self, rows: Rows) -> tuple[Rows, list[bytes]]:
        rows = self._verifier.checked(self._addresses.checked(rows))
        columns = Columns(
            rows.addresses, rows.sizes, rows.checksums, rows.seconds, rows.content_types
        )
        return rows, encode_external(columns)


def _encoder(
    task: Task, source: PartSource, failures: Failures, tell: Callable[[int, int], None]
) -> Any:  # noqa: ANN401
    if task.copies:
        opener = source.opener() if isinstance(source, Walked) else os.open
        return Copier(task, failures, tell, opener)
    return _Encoder(task, failures)

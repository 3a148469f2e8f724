"""Options, progress and report of an import; its finished parts, and their results on disk.

The results on disk (`Journal`) let an import continue after it was killed. Each import has a
directory. The directory is named by a digest of everything that the import depends on, except its
parts and the tree that it started from. Each part has a file, named by a digest of its interval and
its source. The file is written atomically, once the part's ranges are durable. It contains a line
of JSON, followed by all records, concatenated.

A result is valid for every tree that has the same records in the part's interval as the tree that
the part was merged with. So if the branch changes only outside the interval, the part is not
imported again.
"""

from __future__ import annotations

import json
import shutil
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import accumulate, pairwise
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from blake3 import blake3

from lakecli.base.directories import make_private
from lakecli.base.model import Commit, MetarangeId
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.base.temporary_files import replacing
from lakecli.committed.diff import diff
from lakecli.errors import IntegrityError, LostRace
from lakecli.imports import model
from lakecli.imports.address_checks import Verify
from lakecli.imports.dry_run import take_pieces
from lakecli.imports.tree_parts import Cut, join_parts
from lakecli.repository.contract import Repository


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How to import.

    Attributes:
        replaces: remove paths below the destination that the source does not have.
        copies: copy the bytes into the namespace instead of referencing the objects.
        pins: record the current version ID of each object; ``None``: only if existing entries below
            the destination have version IDs.
        verify: which objects of a manifest to request at their addresses, unless they are copied.
        allow_empty: commit even if nothing changes.
        progress: counts the objects of each finished part, and their bytes if they are copied.
    """

    replaces: bool = True
    copies: bool = False
    pins: bool | None = None
    verify: Verify = Verify.SAMPLE
    message: str = "Import objects"
    metadata: Mapping[str, str] = field(default_factory=dict)
    allow_empty: bool = False
    progress: Progress = NO_PROGRESS


@dataclass(slots=True)
class ImportReport:
    """What an import did, or in a dry run would do.

    Attributes:
        tally: counts of objects, bytes and changed paths.
        commit: the commit; ``None`` if nothing was committed.
        failed: number of objects that cannot be imported.
        failures: the first failures.
        resumed: number of parts that an earlier run had finished.
        ranges_written: number of new ranges that the parts of this run wrote.
        places: buckets and directories outside the namespace that contain the objects.
        verified: number of objects of a manifest that were found at their addresses.
    """

    tally: model.ImportTally = field(default_factory=model.ImportTally)
    commit: Commit | None = None
    failed: int = 0
    failures: list[model.ImportFailure] = field(default_factory=list)
    parts: int = 0
    resumed: int = 0
    ranges_written: int = 0
    places: set[str] = field(default_factory=set)
    verified: int = 0


class ShownProgress:
    """Shows the progress; each object counts once, even if both its part and its result report it.

    Parts in this process report objects as they are done. Parts on Spark, and parts of an earlier
    run, are reported by their results only. Safe to share between threads.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = Lock()
        self._items = self._size = self._parts = 0

    def tell(self, items: int, size: int) -> None:
        """Count objects of an unfinished part, and their copied bytes."""
        with self._lock:
            self._items += items
            self._size += size
        self._progress.advance(items=items, size=size)

    def reach(self, *, items: int, size: int, parts: int) -> None:
        """Raise the shown totals of finished objects, bytes and parts to the given numbers."""
        with self._lock:
            more, larger = max(items - self._items, 0), max(size - self._size, 0)
            parts, self._parts = parts - self._parts, parts
            self._items += more
            self._size += larger
        self._progress.advance(items=more, size=larger, parts=parts)

    def take_back(self) -> None:
        """Reset the shown progress, since all work has to be done again."""
        with self._lock:
            items, size, parts = self._items, self._size, self._parts
            self._items = self._size = self._parts = 0
        self._progress.advance(items=-items, size=-size, parts=-parts)


@dataclass
class FinishedParts:
    """The finished parts of one import.

    Attributes:
        task: the task that all parts share; `rebase` replaces its tree.
        duplicates: paths that the source has more than once.
        skipped: number of parts that an earlier run finished, since the caller last set it to 0.
    """

    _repository: Repository
    task: model.Task
    _high: bytes | None
    journal: Journal
    _lists_to: str = ""
    skipped: int = 0

    def __post_init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all parts, for example when the source turns out not to be sorted."""
        task = self.task
        named = task.roots if task.walks and not task.copies else ()
        self.report = ImportReport(places=set(named))
        self.duplicates: list[bytes] = []
        self._stored: dict[int, StoredPart] = {}
        for listed in Path(self._lists_to).iterdir() if self._lists_to else ():
            listed.unlink()

    def items(self, parts: model.Parts) -> Iterator[model.NumberedPart]:
        """Yield the parts that a runner has to import; reuse finished results of an earlier run."""
        for number, part in enumerate(parts):
            self.report.parts += 1
            stored = self.journal.stored(part)
            found = self._find(stored) if self.task.writes else None
            if found is None:
                yield model.NumberedPart(number, part)
            elif part.is_live:
                yield model.NumberedPart(number, part, found.listed)
            else:
                self._resume(number, stored, found)
                self.skipped += 1

    def take(self, item: model.NumberedPart, result: model.ImportedPart | None) -> None:
        """Record the result of a part; ``None``: the result of an earlier run is still valid."""
        if result is None:
            stored = self.journal.stored(item.part)
            self._resume(item.number, stored, self._get(stored))
            return
        report = self.report
        self._count(result)
        report.ranges_written += result.ranges_written
        report.failed += result.failed
        report.failures = sorted((*report.failures, *result.failures))[: model.SHOWN_FAILURES]
        self.duplicates += result.duplicates
        if result.steps and self.task.listing is not None:
            scratch = self.task.listing.scratch
            take_pieces(result.steps, self._lists_to, item.number, scratch)
        if self.task.writes and not (result.failed or result.duplicates):
            self._stored[item.number] = self.journal.put(item.part, result)

    def rebase(self, base: MetarangeId) -> list[int]:
        """Continue on another tree of the branch, after `take` has recorded all parts.

        Returns:
            The numbers of the parts to import again: those in whose intervals the trees differ.
        """
        taken, before = self._stored, self.report
        self.task = self.task._replace(base=base)
        self.reset()
        self.report.parts, self.report.resumed = before.parts, before.resumed
        self.report.ranges_written = before.ranges_written
        differing = []
        for number, stored in sorted(taken.items()):
            found = self._find(stored)
            if found is None:
                differing.append(number)
            else:
                self._count(found)
                self._stored[number] = stored
        return differing

    def _find(self, stored: StoredPart) -> model.ImportedPart | None:
        """Return the result of a part from the journal, if it is valid for the present tree."""
        found, base = self.journal.read(stored.path), self.task.base
        if found is None or found.base == base:
            return found
        try:
            trees, low, high = self._repository.trees, stored.low, stored.high
            differences = diff(trees, found.base, base, start=low, stop=high)
            return found if next(differences, None) is None else None
        except IntegrityError:  # the old tree is gone, since its branch was deleted meanwhile
            return None

    def _get(self, stored: StoredPart) -> model.ImportedPart:
        """Return the result of a part from the journal.

        Raises:
            JournalGone: the journal no longer has the result.
        """
        found = self._find(stored)
        if found is None:
            raise JournalGone
        return found

    def _resume(self, number: int, stored: StoredPart, found: model.ImportedPart) -> None:
        self.report.resumed += 1
        self._count(found)
        self._stored[number] = stored

    def _count(self, result: model.ImportedPart) -> None:
        self.report.tally += result.tally
        self.report.places.update(result.places)
        self.report.verified += result.verified

    def join(self) -> MetarangeId:
        """Write the tree that has all parts, and the base before and after them; return its ID."""
        trees = self._repository.trees
        base = trees.metarange(self.task.base)
        cuts = (self._get(self._stored[number]).cut for number in sorted(self._stored))
        return join_parts(trees, base, cuts, low=self.task.prefix, high=self._high)


KEPT_FOR: Final = 12 * 3_600
"""Number of seconds after which a finished part is imported again.

Nothing refers to the ranges of the part until the import is committed. So garbage collection may
delete the ranges after its grace period, which is at least a day.
"""

_FORMAT: Final = 5
_CHECK_SIZE: Final = 32


class JournalGone(LostRace):
    """Another process ran the same import at the same time, and has finished."""

    def __init__(self) -> None:
        super().__init__(
            "another process runs the same import, or has just finished it; this one committed "
            "nothing",
            hint="run the command again to see what is left to import",
        )


class StoredPart(NamedTuple):
    """The location of a part's result in the journal.

    Attributes:
        path: the file of the result, which may not exist.
    """

    low: bytes
    high: bytes | None
    path: Path


class Journal:
    """The results of the finished parts of one import, on disk.

    Opening a journal deletes the directories of abandoned imports.

    Args:
        identity: everything that the import depends on, as JSON values.
    """

    def __init__(self, directory: Path, identity: Sequence[object], now: datetime) -> None:
        self.directory = directory / model.digest_of([_FORMAT, *identity])
        self._oldest = now.timestamp() - KEPT_FOR
        make_private(directory)
        for other in directory.iterdir():
            if other != self.directory and not self._is_fresh(other):
                shutil.rmtree(other, ignore_errors=True)
        make_private(self.directory)

    def _is_fresh(self, path: Path) -> bool:
        try:
            return path.stat().st_mtime >= self._oldest
        except OSError:
            return False

    def put(self, part: model.ImportPart, result: model.ImportedPart) -> StoredPart:
        """Store the result of a part, and return its location.

        Raises:
            JournalGone: another process finished the same import meanwhile.
        """
        stored, data = self.stored(part), pack_result(result)
        try:
            with replacing(stored.path, is_durable=False) as file:
                file.write(blake3(data).digest() + data)
        except FileNotFoundError:
            raise JournalGone from None
        return stored

    def stored(self, part: model.ImportPart) -> StoredPart:
        """Return the location of a part's result, which may not exist."""
        ends = None if part.high is None else part.high.hex()
        name = model.digest_of([part.low.hex(), ends, part.source.identity()])
        return StoredPart(part.low, part.high, self.directory / name)

    def read(self, path: Path) -> model.ImportedPart | None:
        """Return the result in a file; ``None`` if the result is missing, too old or damaged."""
        if not self._is_fresh(path):
            return None
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        check, body = data[:_CHECK_SIZE], data[_CHECK_SIZE:]
        return unpack_result(body) if blake3(body).digest() == check else None

    def close(self) -> None:
        """Delete the journal of the import."""
        shutil.rmtree(self.directory, ignore_errors=True)


_AS_THEY_ARE: Final = ("base", "listed", "verified")
"""Fields of a result that are stored in JSON unchanged."""


def pack_result(result: model.ImportedPart) -> bytes:
    """Encode the fields of a result that a continued import needs.

    Only complete results are stored, not those of a dry run. So the fields about failures,
    duplicates and steps are empty.
    """
    pieces: list[bytes] = []
    sizes = []
    for column in result.cut:
        lengths = array("Q", map(len, column)).tobytes()
        pieces += (lengths, *column)
        sizes.append([len(column), len(lengths) + sum(map(len, column))])
    header = {name: getattr(result, name) for name in _AS_THEY_ARE} | {
        "columns": sizes,
        "tally": asdict(result.tally),
        "places": result.places,
    }
    return b"".join([json.dumps(header).encode(), b"\n", *pieces])


def unpack_result(data: bytes) -> model.ImportedPart:
    """Return the result that `pack_result` encoded."""
    line, _, body = data.partition(b"\n")
    header = json.loads(line)
    columns = []
    at = 0
    for count, size in header["columns"]:
        start = at + 8 * count
        ends = accumulate(array("Q", body[at:start]), initial=start)
        columns.append([body[begin:end] for begin, end in pairwise(ends)])
        at += size
    return model.ImportedPart(
        cut=Cut(*columns),
        tally=model.ImportTally(**header["tally"]),
        places=tuple(header["places"]),
        **{name: header[name] for name in _AS_THEY_ARE},
    )

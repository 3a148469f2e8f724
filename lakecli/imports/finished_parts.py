"""The finished parts of an import: on disk until all are there, then joined into one tree.

Join the parts of an import, and the records of the branch around them, into one tree.

The results of finished parts on disk, so that a killed import continues.

Each import has a directory, named by a digest of everything that it depends on except its parts.
Each part has a file, named by a digest of its interval and its source. The file is written
atomically, once the part's ranges are durable; see `packed` for its format.

The finished parts of an import: their totals, and the files that hold their results.
"""

from __future__ import annotations

import json
import os
import shutil
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from blake3 import blake3

from lakecli.base.directories import make_private
from lakecli.base.model import MetarangeId
from lakecli.committed.metaranges import Metarange, is_ours, iter_runs
from lakecli.committed.tree_store import TreeStore
from lakecli.committed.writer import TreeWriter
from lakecli.errors import LostRace
from lakecli.imports.listed import take_pieces
from lakecli.imports.packed import pack_result, unpack_result
from lakecli.imports.part import Item, Part, PartResult, Task
from lakecli.imports.report import ImportReport
from lakecli.imports.rows import SHOWN_FAILURES
from lakecli.imports.sink import Cut
from lakecli.repository.contract import Repository


def join_parts(
    trees: TreeStore, base: Metarange, cuts: Iterable[Cut], *, low: bytes, high: bytes | None
) -> MetarangeId:
    """Write the tree that has `cuts` from `low` up to `high`, and `base` elsewhere.

    Args:
        trees: reads and writes trees.
        base: the tree of the branch.
        cuts: results of the parts, in order of their paths.
        low: the first path of the parts.
        high: the first path after the parts; ``None``: they have no end.

    Returns:
        The ID of the tree, which is durable.
    """
    writer = TreeWriter(trees, bases=(base,))
    _copy_before(trees, writer, base, low)
    for cut in cuts:
        writer.add_many(cut.head_keys, cut.head_values)
        writer.take_ranges(cut.range_keys, cut.range_values)
        writer.add_many(cut.tail_keys, cut.tail_values)
    if high is not None:
        _copy_from(trees, writer, base, high)
    return writer.finish()


def _copy_before(trees: TreeStore, writer: TreeWriter, base: Metarange, low: bytes) -> None:
    """Copy the records of the base before a path."""
    position = base.find(low)
    if position:
        writer.copy_ranges(base, 0, position, more=True)
    if position == len(base):
        return
    record = base.record(position)
    if record.min_key >= low:
        return
    table = trees.table(record)
    verbatim = is_ours(table)
    for run in iter_runs(table, record):
        end = bisect_left(run.keys, low)
        writer.add_run(run, 0, end, verbatim=verbatim)
        if end < len(run.keys):
            return


def _copy_from(trees: TreeStore, writer: TreeWriter, base: Metarange, high: bytes) -> None:
    """Copy the records of the base from a path on."""
    position = base.find(high)
    if position == len(base):
        return
    record = base.record(position)
    if record.min_key < high:
        table = trees.table(record)
        verbatim = is_ours(table)
        for run in iter_runs(table, record):
            writer.add_run(run, bisect_left(run.keys, high), verbatim=verbatim)
        position += 1
    writer.copy_ranges(base, position, len(base), more=False)


KEPT_FOR: Final = 12 * 3_600
"""Seconds after which a finished part is imported again.

Nothing refers to its ranges until the import is committed, so garbage collection may delete them
after its grace period, which is at least a day.
"""

_FORMAT: Final = 3
_CHECK_SIZE: Final = 32


class JournalGone(LostRace):
    """Another process ran the same import at the same time, and has finished."""

    def __init__(self) -> None:
        super().__init__(
            "another process has just finished the same import; this one committed nothing",
            hint="run the command again to see what is left to import",
        )


class Journal:
    """The finished parts of one import.

    Args:
        directory: directory of all imports.
        identity: everything that the import depends on, as JSON values.
    """

    def __init__(self, directory: Path, identity: Sequence[object]) -> None:
        self._all = directory
        self.directory = directory / digest_of([_FORMAT, *identity])
        self._oldest = 0.0

    def open(self, now: datetime) -> None:
        """Create the directory, and delete those of abandoned imports."""
        self._oldest = now.timestamp() - KEPT_FOR
        make_private(self._all)
        for other in self._all.iterdir():
            if other != self.directory and not self._is_fresh(other):
                shutil.rmtree(other, ignore_errors=True)
        make_private(self.directory)

    def _is_fresh(self, path: Path) -> bool:
        try:
            return path.stat().st_mtime >= self._oldest
        except OSError:
            return False

    def put(self, part: Part, result: PartResult) -> Path:
        """Record the result of a part, and return its file.

        Raises:
            JournalGone: another process finished the same import meanwhile.
        """
        path = self.path(part)
        data = pack_result(result)
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            fresh.write_bytes(blake3(data).digest() + data)
            fresh.replace(path)
        except FileNotFoundError:
            raise JournalGone from None
        return path

    def path(self, part: Part) -> Path:
        """Return the path of a part's file, which may not exist."""
        ends = None if part.high is None else part.high.hex()
        return self.directory / digest_of([part.low.hex(), ends, part.source.identity()])

    def read(self, path: Path) -> PartResult | None:
        """Return the result in a file; ``None`` if it is missing, old or damaged."""
        if not self._is_fresh(path):
            return None
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        check, body = data[:_CHECK_SIZE], data[_CHECK_SIZE:]
        if blake3(body).digest() != check:
            return None
        return unpack_result(body)

    def get(self, path: Path) -> PartResult:
        """Return the result in the file of a finished part.

        Raises:
            JournalGone: another process finished the same import meanwhile.
        """
        found = self.read(path)
        if found is None:
            raise JournalGone
        return found

    def close(self) -> None:
        """Delete the journal of the import."""
        shutil.rmtree(self.directory, ignore_errors=True)


def digest_of(fields: Sequence[object]) -> str:
    """Return a digest of JSON values."""
    return blake3(json.dumps(fields, sort_keys=True).encode()).hexdigest()


class FinishedParts:
    """The finished parts of one import.

    Attributes:
        task: shared by all parts.
        journal: stores the results of the parts.
        report: totals of the finished parts.
        duplicates: paths that the source has more than once.
        skipped: parts that an earlier run finished, since the caller set it to 0.

    Args:
        repository: of the branch.
        task: see above.
        high: the first path after those below the prefix; ``None``: there is none.
        journal: see above.
        lists_to: directory for the paths that the parts of a dry run list.
    """

    def __init__(
        self,
        repository: Repository,
        task: Task,
        high: bytes | None,
        journal: Journal,
        *,
        lists_to: str = "",
    ) -> None:
        self.task = task
        self.journal = journal
        self._named: tuple[str, ...] = task.roots if task.walks and not task.copies else ()
        self.report = ImportReport(places=set(self._named))
        self.duplicates: list[bytes] = []
        self.skipped = 0
        self._repository = repository
        self._high = high
        self._files: dict[int, Path] = {}
        self._lists_to = lists_to

    def reset(self) -> None:
        """Forget all parts: the source turned out not to be sorted."""
        self.report = ImportReport(places=set(self._named))
        self.duplicates = []
        self._files = {}
        for listed in Path(self._lists_to).iterdir() if self._lists_to else ():
            listed.unlink()

    def items(self, parts: Iterator[Part]) -> Iterator[Item]:
        """Yield the parts that a runner has to import; take those that an earlier run finished."""
        for number, part in enumerate(parts):
            self.report.parts += 1
            found = self.journal.read(self.journal.path(part)) if self.task.writes else None
            if found is None:
                yield Item(number, part)
            elif part.is_live:
                yield Item(number, part, found.listed)
            else:
                self._resume(number, part, found)
                self.skipped += 1

    def take(self, item: Item, result: PartResult | None) -> None:
        """Add the result of a part; ``None`` means that the result of an earlier run holds."""
        if result is None:
            found = self.journal.get(self.journal.path(item.part))
            self._resume(item.number, item.part, found)
            return
        report = self.report
        report.tally += result.tally
        report.ranges_written += result.ranges_written
        report.failed += result.failed
        report.failures = sorted((*report.failures, *result.failures))[:SHOWN_FAILURES]
        report.places.update(result.places)
        report.verified += result.verified
        self.duplicates += result.duplicates
        if result.steps and self.task.listing is not None:
            scratch = self.task.listing.scratch
            take_pieces(result.steps, self._lists_to, item.number, scratch)
        if self.task.writes and result.is_sound:
            self._files[item.number] = self.journal.put(item.part, result)

    def _resume(self, number: int, part: Part, found: PartResult) -> None:
        self.report.resumed += 1
        self.report.tally += found.tally
        self.report.places.update(found.places)
        self.report.verified += found.verified
        self._files[number] = self.journal.path(part)

    def join(self) -> MetarangeId:
        """Return the tree made of all parts and of the base around them."""
        trees = self._repository.trees
        base = trees.metarange(self.task.base)

        def cuts() -> Iterator[Cut]:
            for number in sorted(self._files):
                yield self.journal.get(self._files[number]).cut

        return join_parts(trees, base, cuts(), low=self.task.prefix, high=self._high)

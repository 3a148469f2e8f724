"""Options and report of an import, its progress, and the totals of its finished parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from lakecli.base.model import Commit, MetarangeId
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.imports.addresses import Verify
from lakecli.imports.dry_run import take_pieces
from lakecli.imports.journal import Journal
from lakecli.imports.task import (
    SHOWN_FAILURES,
    ImportedPart,
    ImportFailure,
    ImportPart,
    ImportTally,
    NumberedPart,
    Task,
)
from lakecli.imports.tree_parts import Cut, join_parts
from lakecli.repository.contract import Repository


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How to import.

    Attributes:
        replaces: remove paths below the destination that the source does not have.
        copies: copy the bytes into the namespace instead of referencing the objects.
        pins: record the current version ID of each object.
        verify: which objects of a manifest to ask for where they are, if they are not copied.
        message: commit message.
        metadata: commit metadata.
        allow_empty: commit even if nothing changes.
        progress: counts the objects of each finished part, and their bytes if they are copied.
    """

    replaces: bool = True
    copies: bool = False
    pins: bool = False
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
        commit: ``None`` if nothing was committed.
        failed: number of objects that cannot be imported.
        failures: the first of these.
        parts: number of parts.
        resumed: number of parts that an earlier run had finished.
        ranges_written: new ranges that the parts of this run wrote.
        places: buckets and directories outside the namespace where the objects stay.
        verified: number of objects of a manifest that were found where it says.
    """

    tally: ImportTally = field(default_factory=ImportTally)
    commit: Commit | None = None
    failed: int = 0
    failures: list[ImportFailure] = field(default_factory=list)
    parts: int = 0
    resumed: int = 0
    ranges_written: int = 0
    places: set[str] = field(default_factory=set)
    verified: int = 0


class ShownProgress:
    """Shows each object once, whether its part tells of it or only its result does.

    Parts in this process tell; those of Spark and of an earlier run do not. Safe to share between
    threads.

    Args:
        progress: what shows it.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = Lock()
        self._items = self._size = self._parts = 0

    def tell(self, items: int, size: int) -> None:
        """Count objects, and the bytes copied of them, of a part that is not finished."""
        with self._lock:
            self._items += items
            self._size += size
        self._progress.advance(items=items, size=size)

    def reach(self, *, items: int, size: int, parts: int) -> None:
        """Show that so many objects, bytes and parts are finished in all, if that is more."""
        with self._lock:
            more, larger = max(items - self._items, 0), max(size - self._size, 0)
            parts, self._parts = parts - self._parts, parts
            self._items += more
            self._size += larger
        self._progress.advance(items=more, size=larger, parts=parts)

    def take_back(self) -> None:
        """Show that all of it has to be done again."""
        with self._lock:
            items, size, parts = self._items, self._size, self._parts
            self._items = self._size = self._parts = 0
        self._progress.advance(items=-items, size=-size, parts=-parts)


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

    def items(self, parts: Iterator[ImportPart]) -> Iterator[NumberedPart]:
        """Yield the parts that a runner has to import; take those that an earlier run finished."""
        for number, part in enumerate(parts):
            self.report.parts += 1
            found = self.journal.read(self.journal.path(part)) if self.task.writes else None
            if found is None:
                yield NumberedPart(number, part)
            elif part.is_live:
                yield NumberedPart(number, part, found.listed)
            else:
                self._resume(number, part, found)
                self.skipped += 1

    def take(self, item: NumberedPart, result: ImportedPart | None) -> None:
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

    def _resume(self, number: int, part: ImportPart, found: ImportedPart) -> None:
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

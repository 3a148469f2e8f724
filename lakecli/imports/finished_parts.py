"""The finished parts of an import: their totals, and the files that hold their results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lakecli.base.model import MetarangeId
from lakecli.imports.join_parts import join_parts
from lakecli.imports.journal import Journal
from lakecli.imports.listed import take_pieces
from lakecli.imports.part import Item, Part, PartResult, Task
from lakecli.imports.report import ImportReport
from lakecli.imports.rows import SHOWN_FAILURES
from lakecli.imports.sink import Cut
from lakecli.repository.contract import Repository


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

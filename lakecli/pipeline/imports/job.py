"""Importing into a branch: plan, parts on a runner, one tree, one commit."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeGuard

from lakecli.errors import (
    ConflictError,
    NothingToDo,
    PartialFailure,
    Refused,
    UsageError,
)
from lakecli.objectstore.uri import is_local
from lakecli.pipeline.imports.join_parts import stitch
from lakecli.pipeline.imports.journal import Journal
from lakecli.pipeline.imports.part import Item, NotSorted, PartResult, Tally, Task, import_item
from lakecli.pipeline.imports.sources import Directory, Manifest, check_pinnable, roots_of
from lakecli.pipeline.spark_runner import SparkRunner
from lakecli.pipeline.store_location import StoreLocation
from lakecli.progress import NO_PROGRESS, Progress
from lakecli.repository.core.clean import check_clean
from lakecli.repository.core.gate import claim_head
from lakecli.repository.core.places import remember
from lakecli.repository.core.transaction import Draft, commit_clean
from lakecli.repository.core.view import view_of_branch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from lakecli.model import Commit, MetarangeId
    from lakecli.pipeline.imports.part import Part
    from lakecli.pipeline.imports.rows import Failure
    from lakecli.pipeline.imports.sink import Cut
    from lakecli.pipeline.runner import Runner
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.core.view import View

MESSAGE: Final = "Import objects"
_SHOWN: Final = 10


class _Failed(PartialFailure):
    """Nothing can be committed; the report says why."""


class Source(Protocol):
    """What is imported."""

    def estimate(self) -> int | None:
        """Return about how many objects there are, if that is known without reading them."""

    def plan(
        self, task: Task, runner: Runner, high: bytes | None, *, spill: Path | None
    ) -> Iterator[Part]:
        """Yield the parts that cover everything from the prefix up to `high`, in order.

        Args:
            task: of all parts.
            runner: for what has to be looked at first.
            high: the first path that is not below the prefix any more.
            spill: where to put the source in order, once a part found out that it is not.
        """


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How to import.

    Attributes:
        replaces: remove what the source lacks below the prefix.
        copies: copy the bytes into the namespace.
        pins: record the current version of each object, where the source keeps versions.
        message: of the commit.
        metadata: of the commit.
        allow_empty: commit even if nothing changes.
        progress: counts the objects and bytes of each part.
    """

    replaces: bool = True
    copies: bool = False
    pins: bool = False
    message: str = MESSAGE
    metadata: Mapping[str, str] = field(default_factory=dict)
    allow_empty: bool = False
    progress: Progress = NO_PROGRESS


@dataclass(slots=True)
class ImportReport:
    """What an import did, or would do.

    Attributes:
        commit: ``None`` where nothing was committed.
        failed: objects that cannot be imported.
        failures: the first of them.
        parts: how many there were.
        resumed: how many of them an earlier run had done.
        ranges_written: by this run's parts.
        places: outside the namespace in which the objects stay.
    """

    tally: Tally = field(default_factory=Tally)
    commit: Commit | None = None
    failed: int = 0
    failures: list[Failure] = field(default_factory=list)
    parts: int = 0
    resumed: int = 0
    ranges_written: int = 0
    places: set[str] = field(default_factory=set)


def destination(path: bytes | None) -> tuple[bytes, bytes | None]:
    """Return the prefix that a path on a branch stands for, and the first path after it.

    Whole components only: ``data`` and ``data/`` are the same, and not ``database/``.
    """
    prefix = (path or b"").rstrip(b"/")
    if not prefix:
        if path:
            raise UsageError("a destination of slashes only", hint="leave them out")
        return b"", None
    return prefix + b"/", prefix + b"0"  # the byte after the slash


def import_objects(
    repository: Repository,
    branch: str,
    path: bytes | None,
    *,
    source: Source,
    runner: Runner,
    committer: str,
    options: ImportOptions,
) -> ImportReport:
    """Import a source below a path of a branch, in one commit or not at all.

    Where objects fail, nothing is committed and the report names them.

    The places outside the namespace that objects stay in are remembered as allowed for this
    repository on this machine.

    Raises:
        NotFound: no such branch, or no such source.
        DirtyBranch: the branch has uncommitted changes.
        ConflictError: the source has two objects for one path.
        NothingToDo: the branch has all of it already.
        LostRace: another process finished the same import meanwhile, or the branch kept moving.
        Refused: the source lies in the repository's own namespace.
    """
    base = _check_branch(repository, branch)
    run = _Run(repository, path, source, runner, options)
    done = run.all_parts(base)
    if done.report.failed:
        return done.report

    def build(view: View) -> Draft:
        nonlocal base, done
        head = claim_head(view)
        if view.commit.metarange_id != base:
            base = view.commit.metarange_id
            done = run.all_parts(base)
        tally = done.report.tally
        changes = tally.added or tally.changed or tally.removed
        if done.report.failed:
            raise _Failed("objects failed")
        if not (changes or options.allow_empty):
            raise NothingToDo(
                f"nothing to import: {repository.uri}/{branch} has all {tally.objects} objects",
                hint="--allow-empty-commit commits all the same",
            )
        return Draft(
            metarange_id=done.stitched() if changes else base,
            parents=[head],
            message=options.message,
            committer=committer,
            created_at=repository.lake.now(),
            metadata=options.metadata,
        )

    # Before the commit: what is committed can be read, whatever comes between.
    remember(repository, sorted(done.report.places))
    try:
        commit = commit_clean(repository, branch, build, kind="import")
    except NothingToDo:
        done.journal.close()
        raise
    except _Failed:  # on the head of a branch that moved, when they had not before
        return done.report
    done.journal.close()
    done.report.commit = commit
    return done.report


def preview(
    repository: Repository,
    branch: str,
    path: bytes | None,
    *,
    source: Source,
    runner: Runner,
    options: ImportOptions,
) -> ImportReport:
    """Tell what `import_objects` would do; nothing is written.

    Raises:
        LakeError: what `import_objects` would raise.
    """
    base = _check_branch(repository, branch)
    return _Run(repository, path, source, runner, options).all_parts(base, writes=False).report


def _check_branch(repository: Repository, branch: str) -> MetarangeId:
    """Return the tree of a branch without uncommitted changes.

    Raises:
        NotFound: no such branch.
        DirtyBranch: it has some.
    """
    with repository.lake.kv.read() as txn:
        view = view_of_branch(repository, txn, branch)
        check_clean(view)
        return view.commit.metarange_id


class _Run:
    """One import, which may have to be done again on a branch that moved."""

    def __init__(
        self,
        repository: Repository,
        path: bytes | None,
        source: Source,
        runner: Runner,
        options: ImportOptions,
    ) -> None:
        self._repository = repository
        self._source = source
        self._runner = runner
        self._options = options
        self._prefix, self._high = destination(path)
        namespace = repository.record.storage_namespace
        if options.pins:
            check_pinnable(source)
        if isinstance(source, Directory) and not options.copies and not is_local(namespace):
            raise Refused(
                f"files of this machine cannot be part of a namespace in a bucket: {namespace}",
                hint="take their bytes into the repository: --copy",
            )

    def all_parts(self, base: MetarangeId, *, writes: bool = True) -> _Done:
        """Import all parts on top of a tree."""
        options = self._options
        now = self._repository.lake.now()
        task = Task(
            location=StoreLocation.of(self._repository),
            base=base,
            prefix=self._prefix,
            replaces=options.replaces,
            copies=options.copies,
            writes=writes,
            seconds=int(now.timestamp()),
            roots=roots_of(self._source),
            walks=isinstance(self._source, Directory),
            pins=options.pins,
        )
        # What is counted depends on the base, so a part that was done for another does not do.
        identity: list[object] = [*task.location[:3], base, self._prefix.hex()]
        identity += [options.replaces, options.copies, options.pins, writes]
        journal = Journal(self._repository.lake.home.cache / "imports", identity)
        journal.open(now)
        done = _Done(self._repository, task, self._high, journal)
        spill = journal.directory / "sorted"
        try:
            self._run(done, spill=None)
        except NotSorted:
            done.reset()
            runner, source = self._runner, self._source
            if isinstance(source, Manifest) and _is_cluster(runner):
                self._shuffle(done, source, runner)
            else:
                self._run(done, spill=spill)
        finally:
            shutil.rmtree(spill, ignore_errors=True)
            if not writes:
                journal.close()
        if done.duplicates:
            shown = done.duplicates[:_SHOWN]
            count = len(done.duplicates)
            which = "one path" if count == 1 else f"each of {count} paths"
            raise ConflictError(
                f"two sources for {which}",
                hint="each path needs exactly one; nothing was imported",
                paths=shown,
            )
        return done

    def _run(self, done: _Done, *, spill: Path | None) -> None:
        """Have the runner import parts that are in order."""
        runner = self._runner
        parts = self._source.plan(done.task, runner, self._high, spill=spill)
        task = partial(import_item, done.task)
        self._take(done, runner.run(task, done.items(parts)))

    def _shuffle(self, done: _Done, source: Manifest, runner: SparkRunner) -> None:
        """Have Spark sort a listing and import it."""
        from lakecli.pipeline.imports import shuffle

        task = done.task
        pieces = source.pieces()
        bounds = shuffle.choose_bounds(
            runner, pieces, size=source.estimate() or 0, directory=done.journal.directory
        )
        parts = shuffle.plan_intervals(bounds, task.prefix, self._high, origin=source.origin())
        items = list(done.items(iter(parts)))
        self._take(done, shuffle.import_shuffled(runner, task, pieces, parts, items))

    def _take(self, done: _Done, results: Iterator[tuple[Item, PartResult | None]]) -> None:
        on_step = self._repository.lake.runtime.on_step
        for item, result in results:
            done.take(item, result)
            on_step("part")
            tally = done.last_tally
            self._options.progress.advance(items=tally.objects, size=tally.size)


def _is_cluster(runner: Runner) -> TypeGuard[SparkRunner]:
    """Tell whether parts run where the files of this process are not."""
    return isinstance(runner, SparkRunner) and not runner.shares_disk


class _Done:
    """Parts that are done, and where what became of them lies."""

    def __init__(
        self, repository: Repository, task: Task, high: bytes | None, journal: Journal
    ) -> None:
        self.task = task
        self.journal = journal
        self._named: tuple[str, ...] = task.roots if task.walks and not task.copies else ()
        self.report = ImportReport(places=set(self._named))
        self.duplicates: list[bytes] = []
        self.last_tally = Tally()
        self._repository = repository
        self._high = high
        self._files: dict[int, Path] = {}

    def reset(self) -> None:
        """Forget everything: the parts were not parts."""
        self.report = ImportReport(places=set(self._named))
        self.duplicates = []
        self._files = {}

    def items(self, parts: Iterator[Part]) -> Iterator[Item]:
        """Yield what a runner has to do; parts that an earlier run did are taken from it."""
        for number, part in enumerate(parts):
            self.report.parts += 1
            found = self.journal.read(self.journal.path(part)) if self.task.writes else None
            if found is None:
                yield Item(number, part)
            elif part.is_live:
                yield Item(number, part, found.listed)
            else:
                self._resume(number, part, found)

    def take(self, item: Item, result: PartResult | None) -> None:
        """Take what became of a part."""
        if result is None:
            found = self.journal.get(self.journal.path(item.part))
            self._resume(item.number, item.part, found)
            return
        report = self.report
        report.tally += result.tally
        self.last_tally = result.tally
        report.ranges_written += result.ranges_written
        report.failed += result.failed
        report.failures += result.failures
        report.places.update(result.places)
        self.duplicates += result.duplicates
        if self.task.writes and result.is_sound:
            self._files[item.number] = self.journal.put(item.part, result)

    def _resume(self, number: int, part: Part, found: PartResult) -> None:
        self.report.resumed += 1
        self.report.tally += found.tally
        self.report.places.update(found.places)
        self.last_tally = found.tally
        self._files[number] = self.journal.path(part)

    def stitched(self) -> MetarangeId:
        """Return the tree of all parts and what lies around them."""
        trees = self._repository.trees
        base = trees.metarange(self.task.base)

        def cuts() -> Iterator[Cut]:
            for number in sorted(self._files):
                yield self.journal.get(self._files[number]).cut

        return stitch(trees, base, cuts(), low=self.task.prefix, high=self._high)

"""Import into a branch: plan parts, have a runner import them, join them, commit once."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, TypeGuard

from lakecli.base.directories import make_private
from lakecli.base.model import MetarangeId
from lakecli.base.own_directory import OwnDirectory
from lakecli.committed.scan import scan
from lakecli.engine.runner import LocalRunner, Runner, StoreLocation, account_of
from lakecli.engine.spark_runner import SparkRunner
from lakecli.errors import ConflictError, NothingToDo, Refused, UsageError
from lakecli.imports import model, report, sorting
from lakecli.imports.address_checks import choose, names_version
from lakecli.imports.bucket import BucketSource
from lakecli.imports.dry_run import iter_steps
from lakecli.imports.import_part import import_item
from lakecli.imports.manifest import Manifest
from lakecli.imports.sources import DirectorySource, ImportSource, check_pinnable, roots_of
from lakecli.repository.commit_attempts import MAX_ATTEMPTS, Draft, clean_attempt, kept_moving
from lakecli.repository.contract import Repository
from lakecli.repository.guard import claim_head
from lakecli.repository.policy.early import check_early
from lakecli.repository.reading.addresses import remember
from lakecli.repository.reading.view import view_of_branch
from lakecli.repository.staged.changes import check_clean
from lakecli.repository.transfer.plan import PathStep
from lakecli.stores.contract import is_much_less
from lakecli.stores.uri import is_local

IMPORTS: Final = "imports"
"""The directory in the cache for unfinished imports."""
_SHOWN: Final = 10
"""Maximum number of repeated paths that an error lists."""

_LOOKED_AT: Final = 1_000
"""Number of entries below a destination that are searched for versions."""

Results = Iterator[tuple[model.NumberedPart, model.ImportedPart | None]]
"""Parts with their results; ``None``: the result of an earlier run is still valid."""


class NothingToImport(NothingToDo):
    """The branch has all objects of the source already."""


class ListedLess(Refused):
    """Two listings of a source differ, so it is unknown which objects were removed from it."""


class Unpins(Refused):
    """Entries that name versions would be replaced by entries that name no version."""


class NotReachable(Refused):
    """Entries would refer to files of this machine, which other machines cannot read."""


def destination(path: bytes | None) -> tuple[bytes, bytes | None]:
    """Return the prefix of all paths below a destination, and the first path after these paths.

    ``data`` and ``data/`` both mean ``data/``, which does not contain ``database/``.

    Raises:
        UsageError: the path consists of slashes only.
    """
    prefix = (path or b"").rstrip(b"/")
    if not prefix:
        if path:
            hint = "leave the path out"
            raise UsageError("the destination path consists of slashes only", hint=hint)
        return b"", None
    return prefix + b"/", prefix + b"0"  # the byte after the slash


def import_objects(
    repository: Repository,
    branch: str,
    path: bytes | None,
    *,
    source: ImportSource,
    runner: Runner,
    committer: str,
    options: report.ImportOptions,
) -> report.ImportReport:
    """Import a source below a path of a branch, in one commit or not at all.

    If an object fails, nothing is committed and the report lists the failures.

    The buckets and directories outside the namespace that contain the objects are recorded as
    allowed for this repository on this machine.

    Raises:
        NotFound: the branch or the source does not exist.
        DirtyBranch: the branch has uncommitted changes.
        ConflictError: the source has two objects for one path.
        NothingToDo: the branch has all objects already.
        LostRace: another process finished the same import meanwhile, or the branch kept moving.
        Refused: the source is in the repository's own namespace; or the source has far fewer
            objects than the branch, and a second listing differs from the first.
    """
    check_early(repository, branch, who=committer)
    base = _check_branch(repository, branch)
    with ExitStack() as stack:
        run = _Run(repository, branch, path, source, runner, options, stack)
        done = run.all_parts(base)
        if done.report.failed:
            return done.report

        # Before the commit, so that committed objects are readable even after an interruption.
        remember(repository, sorted(done.report.places))
        for _ in range(MAX_ATTEMPTS):
            attempt = clean_attempt(repository, branch, kind="import", who=committer)
            with attempt.view() as view:
                head = claim_head(view)
                if view.commit.metarange_id != done.task.base:
                    done = run.rebase(done, view.commit.metarange_id)
                    if done.report.failed:
                        return done.report
                tally = done.report.tally
                changes = tally.added or tally.changed or tally.removed
                if not (changes or options.allow_empty):
                    done.journal.close()
                    raise NothingToImport(
                        f"nothing to import: {repository.uri}/{branch} has all {tally.objects} "
                        "objects",
                        hint="commit anyway: `allow_empty=True`",
                    )
                tree = done.join() if changes else done.task.base
            draft = Draft(tree, [head], options.message, committer, options.metadata)
            done.report.commit = attempt.move(draft)
            if done.report.commit is not None:
                done.journal.close()
                return done.report
    raise kept_moving(branch)


@contextmanager
def preview(
    repository: Repository,
    branch: str,
    path: bytes | None,
    *,
    source: ImportSource,
    runner: Runner,
    options: report.ImportOptions,
) -> Iterator[tuple[report.ImportReport, Iterator[PathStep]]]:
    """Yield the report that `import_objects` would return, and what it would do with each path.

    Only temporary files are written. The paths are in order, whichever runner ran the parts.

    Raises:
        LakeError: the same errors as `import_objects`.
    """
    base = _check_branch(repository, branch)
    make_private(parent := Path(repository.lake.home.cache) / IMPORTS)
    with ExitStack() as stack, OwnDirectory("listed-", parent) as directory:
        run = _Run(repository, branch, path, source, runner, options, stack)
        done = run.all_parts(base, lists_to=directory)
        yield done.report, iter_steps(Path(directory))


def _check_branch(repository: Repository, branch: str) -> MetarangeId:
    """Return the tree of a branch that has no uncommitted changes.

    Raises:
        NotFound: the branch does not exist.
        DirtyBranch: the branch has uncommitted changes.
    """
    with repository.lake.kv.read() as txn:
        view = view_of_branch(repository, txn, branch)
        check_clean(view)
        return view.commit.metarange_id


@dataclass
class _Run:
    """One import; some of its parts run again if the branch moves before the commit.

    Args:
        stack: when closed, deletes the sorted rows of a manifest.
    """

    _repository: Repository
    _branch: str
    _path: bytes | None
    _source: ImportSource
    _runner: Runner
    _options: report.ImportOptions
    _stack: ExitStack

    def __post_init__(self) -> None:
        self._prefix, self._high = destination(self._path)
        self._planned: list[model.ImportPart] = []
        self._import: Callable[[model.Task, list[model.NumberedPart]], Results] = (
            lambda task, items: self._runner.run(partial(import_item, task), iter(items))
        )
        source, options = self._source, self._options
        namespace = self._repository.record.storage_namespace
        if isinstance(source, DirectorySource) and not options.copies and not is_local(namespace):
            raise NotReachable(
                f"files on this machine cannot be referenced from a bucket: {namespace}",
                hint="copy the files into the repository: `copies=True`",
            )

    def all_parts(self, base: MetarangeId, *, lists_to: str = "") -> report.FinishedParts:
        """Import all parts on top of the tree `base`.

        Args:
            lists_to: the directory in which a dry run lists its paths; ``""``: not a dry run.
        """
        source, runner = self._source, self._runner
        options, writes = self._options, not lists_to
        pins = options.pins or (options.pins is None and self._has_pins(base))
        if pins:
            check_pinnable(source, account_of(self._repository))
        runtime, choice = self._repository.lake.runtime, model.Choice()
        if isinstance(source, Manifest):
            if rows := source.known_rows():
                options.progress.expect(items=rows)
            if not options.copies:
                choice = choose(options.verify, source.size, runtime.new_id())
        now = runtime.now()
        task = model.Task(
            location=StoreLocation.of(self._repository),
            base=base,
            prefix=self._prefix,
            replaces=options.replaces,
            copies=options.copies,
            writes=writes,
            seconds=int(now.timestamp()),
            roots=roots_of(source),
            walks=isinstance(source, DirectorySource),
            pins=pins,
            choice=choice,
            listing=self._listing(lists_to) if lists_to else None,
        )
        identity: list[object] = [*task.location[:3], self._branch, self._prefix.hex()]
        identity += [options.replaces, options.copies, pins, writes, options.verify]
        journal = report.Journal(Path(self._repository.lake.home.cache) / IMPORTS, identity, now)
        done = report.FinishedParts(self._repository, task, self._high, journal, lists_to)
        try:
            self._run(done, source.plan(task, runner, self._high))
        except model.NotSorted:
            if not isinstance(source, Manifest):
                raise
            done.reset()
            if _is_cluster(runner):
                self._shuffle(done, source, runner)
            else:
                self._sort(done, source)
        finally:
            if not writes:
                journal.close()
        self._check(done)
        return done

    def _has_pins(self, base: MetarangeId) -> bool:
        """Return whether one of the first entries below the destination names a version."""
        if self._options.copies or not isinstance(self._source, BucketSource):
            return False
        found = islice(scan(self._repository.trees, base, prefix=self._prefix), _LOOKED_AT)
        if not any(names_version(value) for _, value in found):
            return False
        self._repository.notify(
            "the destination names versions of objects, so this import pins versions, too",
            hint="to end that: `pins=False`",
        )
        return True

    def rebase(self, done: report.FinishedParts, base: MetarangeId) -> report.FinishedParts:
        """Adapt a finished import to another tree of the branch.

        Only parts in whose intervals the trees differ are imported again.
        """
        numbers = done.rebase(base)
        if numbers and isinstance(self._source, DirectorySource):  # its parts are not in memory
            resumed = done.report.resumed
            done = self.all_parts(base)
            done.report.resumed = resumed
            return done
        items = [model.NumberedPart(number, self._planned[number]) for number in numbers]
        for item, result in self._import(done.task, items):
            done.take(item, result)
            self._repository.lake.runtime.on_step("part")
        self._check(done)
        return done

    def _check(self, done: report.FinishedParts) -> None:
        """Check conditions that depend on the results of all parts.

        Raises:
            ListedLess: the source has far fewer objects than the branch, and a second listing
                differs.
            ConflictError: the source has two objects for one path.
            Unpins: entries named versions, and the user has not said that the versions may be
                dropped.
        """
        unpinned = done.report.tally.unpinned
        if unpinned and self._options.pins is None and not self._options.copies:
            raise Unpins(
                f"paths that would no longer name a version of their object: {unpinned:,}",
                hint="nothing was imported; name the present versions: `pins=True`; or none: "
                "`pins=False`",
            )
        self._list_again(done)
        if done.duplicates:
            count = len(done.duplicates)
            which = "one path" if count == 1 else f"each of {count} paths"
            raise ConflictError(
                f"two sources for {which}",
                hint="nothing was imported; list each path exactly once",
                paths=done.duplicates[:_SHOWN],
            )

    def _list_again(self, done: report.FinishedParts) -> None:
        """List a source again if it lacks much of the branch.

        Raises:
            ListedLess: the two listings differ.
        """
        tally = done.report.tally
        before = tally.removed + tally.changed + tally.unchanged
        is_less = is_much_less(before - tally.removed, before)
        if not is_less or not self._options.replaces or done.report.failed:
            return
        if isinstance(self._source, Manifest):  # reading it again would give the same objects
            return
        again = self._source.recount(done.task)
        if again != tally.objects:
            raise ListedLess(
                f"the source lacks {tally.removed:,} of {before:,} objects of the branch, and a "
                f"second listing found {again:,} objects, the first {tally.objects:,}",
                hint="nothing was imported; repeat it when the source does not change",
            )
        self._repository.notify(
            f"the source lacks {tally.removed:,} of {before:,} objects of the branch; a second "
            "listing found the same",
            hint="if that is not meant, check the source and undo the import",
        )

    def _listing(self, directory: str) -> model.DryRunOutput:
        """Return the place where each part of a dry run writes the list of its paths."""
        if _is_cluster(self._runner):
            return model.DryRunOutput("", self._runner.scratch)
        return model.DryRunOutput(directory)

    def _run(self, done: report.FinishedParts, parts: model.Parts) -> None:
        """Have the runner import the parts of a sorted source."""
        runner = self._runner
        total = 0
        # The files of a directory are listed while earlier files are imported.
        if not isinstance(self._source, DirectorySource):
            self._planned = list(parts)
            total, parts = len(self._planned), iter(self._planned)
        shown = report.ShownProgress(self._options.progress)
        task = partial(import_item, done.task)
        if isinstance(runner, LocalRunner):
            task = partial(import_item, done.task, tell=shown.tell)
        self._take(done, runner.run(task, done.items(parts)), total, shown)

    def _sort(self, done: report.FinishedParts, source: Manifest) -> None:
        """Sort a manifest on this machine, and have the runner import its parts."""
        journal = done.journal.directory
        place = OwnDirectory("sorted-", journal)
        path = Path(self._stack.enter_context(place), "rows")
        self._run(done, sorting.sort_here(source, path, done.task, self._high))

    def _shuffle(self, done: report.FinishedParts, source: Manifest, runner: SparkRunner) -> None:
        """Have Spark sort a manifest and import its objects."""
        task = done.task
        portions = sorting.portions_of(source)
        kept = done.journal.directory / sorting.INTERVALS
        bounds = sorting.find_bounds(runner, source, portions, kept=kept)
        parts = list(sorting.intervals_of(source, bounds, task.prefix, self._high))
        self._planned = parts
        items = list(done.items(iter(parts)))
        self._import = partial(sorting.import_shuffled, runner, portions, parts)
        results = self._import(task, items)
        self._take(done, results, len(parts), report.ShownProgress(self._options.progress))

    def _take(
        self, done: report.FinishedParts, results: Results, total: int, shown: report.ShownProgress
    ) -> None:
        """Record results of parts, and show the progress.

        Args:
            total: number of all parts; 0: unknown.
        """
        on_step, progress = self._repository.lake.runtime.on_step, self._options.progress
        size = parts = 0
        progress.expect(parts=total)
        try:
            for item, result in results:
                done.take(item, result)
                on_step("part")
                # These counts include the objects and the parts that an earlier run finished.
                parts += 1 + done.skipped
                done.skipped = 0
                if self._options.copies and result is not None:  # otherwise no bytes are copied
                    size += result.tally.size
                shown.reach(items=done.report.tally.objects, size=size, parts=parts)
        except model.NotSorted:
            progress.expect(parts=-total)
            shown.take_back()
            raise


def _is_cluster(runner: Runner) -> TypeGuard[SparkRunner]:
    """Return whether parts run on machines that do not share this machine's disk."""
    return isinstance(runner, SparkRunner) and not runner.shares_disk

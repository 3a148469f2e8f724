"""Export the objects of a ref: plan the parts, run the rounds, write the report.

1. Delete the ``_SUCCESS`` of an earlier export: from now on the destination is incomplete.
2. Copy and delete the objects of all parts, except those named ``_SUCCESS``.
3. Retry once what failed and may succeed.
4. If nothing failed, copy the objects named ``_SUCCESS``.
5. Write the status report; if still nothing failed, write lakecli's own ``_SUCCESS``.

A run that is killed leaves no ``_SUCCESS``; the same command skips what the destination has.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Final

from lakecli.base.model import EMPTY_TREE, MetarangeId
from lakecli.base.uri import as_directory
from lakecli.committed.check import count_entries
from lakecli.committed.listing import prefix_end
from lakecli.committed.scan import find, scan
from lakecli.engine.differences import KeyInterval, intervals
from lakecli.engine.runner import InOrder, Runner
from lakecli.engine.store_location import StoreLocation
from lakecli.errors import PartialFailure, Refused
from lakecli.exports.part import export_part
from lakecli.exports.records import (
    PART_ENTRIES,
    SUCCESS,
    ExportOptions,
    ExportReport,
    Hands,
    Job,
    Outcome,
    Part,
)
from lakecli.exports.status import Run, clear_success, put_success, was_exported, write_status
from lakecli.refs.ref_store import RefStore
from lakecli.repository.contract import Repository
from lakecli.repository.reading.view import commit_at, no_such_path, open_view
from lakecli.repository.staged.changes import uncommitted
from lakecli.repository.transfer.destination import Destination
from lakecli.repository.transfer.plan import PathStep
from lakecli.stores.uri import is_local, normalise, parse

PATHS: Final = 500
"""Number of paths in one part of the later rounds."""


def export(
    repository: Repository,
    ref: str,
    prefix: bytes,
    destination: str,
    *,
    runner: Runner,
    options: ExportOptions = ExportOptions(),  # noqa: B008 - immutable
) -> ExportReport:
    """Copy the objects of a ref below a directory to another place; report what fails.

    Only committed objects are exported; those of a branch are its head's.

    Args:
        repository: to export from.
        ref: a ref expression.
        prefix: a directory of the ref, or ``b""``.
        destination: a URI in any spelling, or an absolute path.
        runner: runs the parts, each of which copies `options.threads` objects at a time.
        options: how to export.

    Raises:
        NotFound: the ref or the bucket does not exist, or nothing is below the prefix.
        UsageError: the destination cannot be written to.
        Refused: the destination lies in the repository's own namespace.
        Unreachable: a store does not answer; no ``_SUCCESS`` is written then.
    """
    uri = checked_destination(repository, destination)
    with repository.lake.kv.read() as txn:
        commit = commit_at(repository, txn, ref)
        since = commit_at(repository, txn, options.since) if options.since else None
        branch = RefStore(txn, repository.key).find_branch(ref)
    uncommitted = branch is not None and has_changes(repository, ref)
    region = (
        "" if options.dry_run and is_local(uri) else repository.lake.runtime.prepare_namespace(uri)
    )
    job = Job(
        location=StoreLocation.of(repository),
        repository=repository.uri,
        tree=commit.metarange_id,
        since_tree=EMPTY_TREE if since is None else since.metarange_id,
        prefix=as_directory(prefix),
        destination=uri,
        region=region,
        threads=options.threads,
        verify=options.verify,
        dry_run=options.dry_run,
        lists=options.dry_run and options.on_steps is not None,
    )
    since_id = None if since is None else since.id
    run = Run(repository, job, ref, commit.id, since_id, repository.lake.now())
    was_there = None if since_id is None else was_exported(job, since_id)
    outcome = _Rounds(repository, job, runner, options).run(ref)
    status = ""
    if not options.dry_run:
        status = write_status(run, outcome)
        if options.success and not outcome.failed and not holds_success(repository, job):
            put_success(job)
    return ExportReport(commit.id, since_id, was_there, uri, outcome, status, uncommitted)


def count_exported(
    repository: Repository, ref: str, prefix: bytes, *, since: str = "", check_from: int
) -> int:
    """Return how many entries an export has to compare, at most; only metaranges are read.

    From `check_from` entries on, their counts are checked against the objects in the namespace; see
    `lakecli.committed.check`.

    Raises:
        NotFound: the ref does not exist.
    """
    with repository.lake.kv.read() as txn:
        tree = commit_at(repository, txn, ref).metarange_id
        since_tree = commit_at(repository, txn, since).metarange_id if since else EMPTY_TREE
    below = as_directory(prefix)
    claimed = sum(part.entries for part in _intervals(repository, since_tree, tree, below))
    if claimed < check_from:
        return claimed
    trees = map(repository.trees.metarange, (since_tree, tree))
    ranges = chain.from_iterable(each.records() for each in trees)
    return min(claimed, count_entries(repository.store, ranges, check_from=check_from))


def _intervals(
    repository: Repository, since_tree: MetarangeId, tree: MetarangeId, prefix: bytes
) -> Iterator[KeyInterval]:
    old, new = map(repository.trees.metarange, (since_tree, tree))
    return intervals(old, new, old, entries=PART_ENTRIES, start=prefix, stop=prefix_end(prefix))


def summarise(report: ExportReport) -> PartialFailure | None:
    """Return the error of an export in which objects failed; ``None`` if none did."""
    outcome = report.outcome
    if not outcome.failed:
        return None
    what = "object" if outcome.failed == 1 else "objects"
    return PartialFailure(
        f"{outcome.failed} {what} failed to export, so there is no {SUCCESS.decode()}",
        hint="run the same command again; it skips what the destination has",
        paths=[each.path for each in outcome.failures],
    )


def checked_destination(repository: Repository, destination: str) -> str:
    """Return the normalised URI of a destination.

    Raises:
        UsageError: it is not a URI or a path.
        Refused: it lies in the repository's namespace.
    """
    uri = normalise(destination)
    own = repository.record.storage_namespace
    places = {uri}
    if is_local(uri) and is_local(own):
        places.add("local://" + os.path.realpath(parse(uri).path))
        own_places = {own, "local://" + os.path.realpath(parse(own).path)}
    else:
        own_places = {own}
    if any(f"{place}/".startswith(f"{mine}/") for place in places for mine in own_places):
        raise Refused(
            f"the destination lies in the repository's own storage namespace: {uri}",
            hint="export to another prefix, bucket or directory",
        )
    if is_local(uri):
        Destination(os.fsencode(parse(uri).path)).close()
    return uri


def has_changes(repository: Repository, branch: str) -> bool:
    """Return whether a branch has uncommitted changes."""
    with open_view(repository, branch) as view:
        return next(uncommitted(view), None) is not None


class _Rounds:
    def __init__(
        self, repository: Repository, job: Job, runner: Runner, options: ExportOptions
    ) -> None:
        self._repository = repository
        self._job = job
        self._runner = runner
        self._options = options
        self._is_local = runner.name == "local"
        hands = Hands(
            repository.store,
            repository.trees,
            options.progress,
            repository.addresses,
        )
        # Open stores cannot be pickled, and several threads cannot share a tree.
        shared = hands if self._is_local and runner.parallelism == 1 else None
        self._task = partial(export_part, job=job, hands=shared)
        self._tells = shared is not None

    def run(self, ref: str) -> Outcome:
        """Run all rounds; return their common outcome."""
        job = self._job
        parts = list(self._plan())
        if not job.since_tree and not self._has_any():
            raise no_such_path(self._repository, ref, job.prefix)
        if not job.dry_run and self._options.success and not self._holds_success():
            clear_success(job)
        outcome = self._round(parts)
        markers, outcome.markers = outcome.markers, []
        again = [] if job.dry_run else outcome.take_retried()
        if again:
            outcome.join(self._round(_parts_of(again)))
        if not outcome.failed or job.dry_run:
            outcome.join(self._round(_parts_of(sorted(markers))))
        outcome.failures.sort()
        outcome.left_out.sort()
        return outcome

    def _plan(self) -> Iterator[Part]:
        job = self._job
        for each in _intervals(self._repository, job.since_tree, job.tree, job.prefix):
            self._options.progress.expect(items=each.entries)
            yield Part(each.start, each.stop)

    def _round(self, parts: Iterable[Part]) -> Outcome:
        outcome = Outcome()
        planned = list(parts)
        numbers = {part: number for number, part in enumerate(planned)}
        on_steps = self._options.on_steps
        with InOrder[list[PathStep]]() as waiting:
            for part, done in self._runner.run(self._task, planned):
                outcome.join(done)
                if on_steps is not None:
                    for steps in waiting.ready(numbers[part], done.steps):
                        on_steps(iter(steps))
                if not self._tells:
                    self._tell(done)
        return outcome

    def _tell(self, done: Outcome) -> None:
        """Report the progress of a part that an executor ran."""
        written = (done.new, done.changed, done.unchanged)
        self._options.progress.advance(
            items=sum(each.count for each in written) + done.deleted.count,
            size=sum(each.size for each in written),
        )

    def _has_any(self) -> bool:

        found = scan(self._repository.trees, self._job.tree, prefix=self._job.prefix)
        return next(found, None) is not None

    def _holds_success(self) -> bool:
        return holds_success(self._repository, self._job)


def holds_success(repository: Repository, job: Job) -> bool:
    """Return whether the exported tree has an object in the place of lakecli's marker."""
    return find(repository.trees, job.tree, job.prefix + SUCCESS) is not None


def _parts_of(paths: list[bytes]) -> Iterator[Part]:
    for start in range(0, len(paths), PATHS):
        yield Part(b"", None, tuple(paths[start : start + PATHS]))

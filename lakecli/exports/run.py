"""Export the objects of a ref: plan the parts, run the rounds, write the report.

1. Delete the ``_SUCCESS`` of an earlier export: from now on the destination is incomplete.
2. Copy and delete the objects of all parts, except those named ``_SUCCESS``.
3. Retry once the objects that failed and may succeed.
4. If a bucket got new objects, list it: objects that are missing in the listing count as failed.
5. If no object failed, copy the objects named ``_SUCCESS``, and check these by a listing, too.
6. Write the status report; if still no object failed, write lakecli's own ``_SUCCESS``.

A run that is killed leaves no ``_SUCCESS``. The same command then skips the objects that the
destination already has. The names of the report and of the marker begin with an underscore, so that
Spark, Hive and Trino ignore them.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple

from lakecli import __version__
from lakecli.base.model import EMPTY_TREE, Commit, CommitId
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.base.uri import as_directory
from lakecli.committed.check import count_entries
from lakecli.committed.point_reads import find
from lakecli.committed.scan import scan
from lakecli.engine.differences import intervals
from lakecli.engine.runner import Runner, StoreLocation
from lakecli.engine.scratch import in_order
from lakecli.errors import PartialFailure, Refused
from lakecli.exports.export_part import ExportOutcome, ExportPart, Hands, Job, export_part
from lakecli.exports.target import OwnFiles
from lakecli.repository.contract import Repository
from lakecli.repository.diff import TreesToCompare
from lakecli.repository.reading.addresses import real_uri
from lakecli.repository.reading.view import commit_at, no_such_path, open_view
from lakecli.repository.staged.changes import uncommitted
from lakecli.repository.transfer.destination import Destination
from lakecli.repository.transfer.plan import PathStep
from lakecli.stores.contract import JSON, PLAIN
from lakecli.stores.streams import batches
from lakecli.stores.uri import is_local, normalise, parse

PART_ENTRIES: Final = 20_000
"""Approximate number of entries in one part; ranges are not divided."""

SUCCESS: Final = "_SUCCESS"
"""The name of lakecli's own marker at the root of the destination."""

FORMAT: Final = 1
"""The version of the format of the status report."""

PATHS: Final = 500
"""Number of paths in one part of the later rounds."""


class ExportOptions(NamedTuple):
    """How to export.

    Attributes:
        since: a ref; only changes since that ref are exported. Paths that `since` has and the
            exported ref does not have are deleted.
        dry_run: count objects, and write nothing.
        success: write ``_SUCCESS`` at the end.
        verify: compare every object with its checksum; otherwise objects that the store copies on
            its side are not read.
        threads: number of objects to copy at a time.
        progress: shows the expected objects of each planned part, and the finished objects and
            bytes.
        on_steps: called in a dry run for each part, in the order of the parts, with the action for
            each of its paths. ``None``: the actions are not recorded.
    """

    since: str = ""
    dry_run: bool = False
    success: bool = True
    verify: bool = True
    threads: int = 10
    progress: Progress = NO_PROGRESS
    on_steps: Callable[[Iterator[PathStep]], object] | None = None


@dataclass(frozen=True, slots=True)
class ExportReport:
    """The result of an export.

    Attributes:
        since_commit_id: the commit of `ExportOptions.since`, if given.
        since_was_exported: whether the destination has the report of a successful export of
            `since_commit_id`; ``None`` if `since_commit_id` is ``None``.
        destination: the normalised URI of the destination.
        outcome: counts, and the failures in path order.
        status: key of the status report below the destination; ``""`` in a dry run.
        uncommitted: whether the branch has uncommitted changes, which are not exported.
    """

    commit_id: CommitId
    since_commit_id: CommitId | None
    since_was_exported: bool | None
    destination: str
    outcome: ExportOutcome
    status: str
    uncommitted: bool


def export(
    repository: Repository,
    ref: str,
    prefix: bytes,
    destination: str,
    *,
    runner: Runner,
    options: ExportOptions = ExportOptions(),  # noqa: B008 - immutable
) -> ExportReport:
    """Copy the objects of a ref below a directory to another place; report the objects that fail.

    Only committed objects are exported. For a branch, these are the objects of its head.

    Args:
        prefix: a directory of the ref, or ``b""``.
        destination: a URI in any spelling, or an absolute path.
        runner: runs the parts, each of which copies `options.threads` objects at a time.

    Raises:
        NotFound: the ref or the bucket does not exist, or nothing is below the prefix.
        UsageError: the destination cannot be written to.
        Refused: the destination is in the repository's own namespace.
        Unreachable: a store does not answer; no ``_SUCCESS`` is written then.
    """
    uri = checked_destination(repository, destination)
    commit, has_changes = committed_at(repository, ref)
    since = committed_at(repository, options.since)[0] if options.since else None
    prepare = repository.lake.runtime.prepare_namespace
    region = "" if options.dry_run and is_local(uri) else prepare(uri)
    job = Job(
        location=StoreLocation.of(repository),
        uri=repository.uri,
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
    started_at = repository.lake.runtime.now()
    was_there = None if since_id is None else was_exported(job, since_id)
    outcome = _Rounds(repository, job, runner, options).run(ref)
    report = ExportReport(commit.id, since_id, was_there, uri, outcome, "", has_changes)
    if options.dry_run:
        return report
    status = write_status(repository, job, ref, report, started_at)
    if options.success and not outcome.failed and not holds_success(repository, job):
        own_files(job).put(SUCCESS, b"", PLAIN)
    return replace(report, status=status)


def write_status(
    repository: Repository, job: Job, ref: str, report: ExportReport, started_at: datetime
) -> str:
    """Write the report, and return its key.

    The key is ``_lakecli_export_<commit>_<time>_{SUCCESS|FAILURE}.json``.
    """
    finished_at, outcome = repository.lake.runtime.now(), report.outcome
    result = "FAILURE" if outcome.failed else "SUCCESS"
    counted = "new", "changed", "unchanged", "deleted"
    fields = {
        "format": FORMAT,
        "result": result.lower(),
        "repository": repository.record.uuid,
        "ref": ref,
        "commit_id": report.commit_id,
        "since_commit_id": report.since_commit_id,
        "prefix": os.fsdecode(job.prefix),
        "destination": report.destination,
        "started_at": f"{started_at:%Y-%m-%dT%H:%M:%SZ}",
        "finished_at": f"{finished_at:%Y-%m-%dT%H:%M:%SZ}",
        **{name: getattr(outcome, name).count for name in counted},
        "size": outcome.new.size + outcome.changed.size,
        "failed": outcome.failed,
        "failures": [
            {"path": os.fsdecode(each.path), "error": each.why} for each in outcome.failures
        ],
        "lakecli": __version__,
    }
    name = f"_lakecli_export_{report.commit_id}_{finished_at:%Y%m%dT%H%M%SZ}_{result}.json"
    own_files(job).put(name, json.dumps(fields, indent=2).encode() + b"\n", JSON)
    return name


def was_exported(job: Job, commit_id: CommitId) -> bool:
    """Return whether the destination has the report of a successful export of a commit."""
    start = f"_lakecli_export_{commit_id}_"
    return any(name.endswith("_SUCCESS.json") for name in own_files(job).names(start))


def own_files(job: Job) -> OwnFiles:
    """Return the object that writes lakecli's own files at the destination of an export."""
    return OwnFiles(job.destination, region=job.region, account=job.location.account)


def count_exported(
    repository: Repository, ref: str, prefix: bytes, *, since: str = "", check_from: int
) -> int:
    """Return an upper bound on the number of entries that an export has to compare.

    The bound is computed from metaranges. If they claim at least `check_from` entries, their counts
    are checked against the objects in the namespace; see `lakecli.committed.check`.

    Raises:
        NotFound: the ref does not exist.
    """
    with repository.lake.kv.read() as txn:
        tree = commit_at(repository, txn, ref).metarange_id
        since_tree = commit_at(repository, txn, since).metarange_id if since else EMPTY_TREE
    below = as_directory(prefix)
    compared = TreesToCompare(None, since_tree, tree, below)
    parts = intervals(repository.trees, compared, entries=PART_ENTRIES)
    claimed = sum(part.entries for part in parts)
    if claimed < check_from:
        return claimed
    return min(claimed, count_entries(repository.trees, since_tree, tree, check_from=check_from))


def summarise(report: ExportReport) -> PartialFailure | None:
    """Return the error of an export in which objects failed; ``None`` if no object failed."""
    outcome = report.outcome
    if not outcome.failed:
        return None
    what = "object" if outcome.failed == 1 else "objects"
    hint = "run the same command again; it skips what the destination has"
    if all(each.is_of_name for each in outcome.failures):
        hint = "rename the objects, or export to a destination that can have these names"
    return PartialFailure(
        f"{outcome.failed} {what} failed to export, so there is no {SUCCESS}",
        hint=hint,
        paths=[each.path for each in outcome.failures],
    )


def checked_destination(repository: Repository, destination: str) -> str:
    """Return the normalised URI of a destination.

    Raises:
        UsageError: the destination is not a URI or a path.
        Refused: the destination is in the repository's namespace.
    """
    uri = normalise(destination)
    own = repository.record.storage_namespace
    if f"{uri}/".startswith(f"{own}/") or f"{real_uri(uri)}/".startswith(f"{real_uri(own)}/"):
        raise Refused(
            f"the destination lies in the repository's own storage namespace: {uri}",
            hint="export to another prefix, bucket or directory",
        )
    if is_local(uri):
        Destination(os.fsencode(parse(uri).path)).close()
    return uri


def committed_at(repository: Repository, ref: str) -> tuple[Commit, bool]:
    """Return the commit of a ref, and whether the ref is a branch with uncommitted changes."""
    with repository.lake.kv.read() as txn:
        commit = commit_at(repository, txn, ref)
        branch = repository.refs(txn).find_branch(ref)
    if branch is None:
        return commit, False
    with open_view(repository, ref) as view:
        return commit, next(uncommitted(view), None) is not None


@dataclass
class _Rounds:
    _repository: Repository
    _job: Job
    _runner: Runner
    _options: ExportOptions

    def __post_init__(self) -> None:
        # Open stores cannot be pickled, and several threads cannot share a tree.
        self._hands: Hands | None = None
        if self._runner.name == "local" and self._runner.parallelism == 1:
            own = self._repository
            self._hands = Hands(own.store, own.trees, self._options.progress, own.addresses)

    def run(self, ref: str) -> ExportOutcome:
        """Run all rounds; return their outcomes as one."""
        job = self._job
        parts = list(self._plan(job))
        objects = scan(self._repository.trees, job.tree, prefix=job.prefix)
        if not job.since_tree and next(objects, None) is None:
            raise no_such_path(self._repository, ref, job.prefix)
        if not job.dry_run:
            own_files(job).delete([SUCCESS])
        outcome = self._round(parts)
        markers, outcome.markers = set(outcome.markers), []
        if not job.dry_run and holds_success(self._repository, job):
            markers.add(job.prefix + SUCCESS.encode())  # deleted above, even if it is unchanged
        again = [] if job.dry_run else outcome.take_retried()
        if again:
            outcome.join(self._round(_parts_of(again)))
        self._check(parts, outcome)
        if not outcome.failed or job.dry_run:
            last = _parts_of(sorted(markers))
            outcome.join(self._round(last))
            self._check(last, outcome)
        outcome.failures.sort()
        outcome.left_out.sort()
        return outcome

    def _check(self, parts: list[ExportPart], outcome: ExportOutcome) -> None:
        """Count an object as failed if the bucket's listing does not show it as it was exported.

        Some servers treat two names as one object, or hide objects below the name of another
        object.
        """
        job = self._job
        is_needed = outcome.new.count or outcome.changed.count or outcome.has_twins
        if is_local(job.destination) or job.dry_run or not is_needed:
            return
        checked = self._round(parts, job._replace(checks=True))
        if checked.versions:
            # An object with such a version may have been overwritten through another name.
            suspects = frozenset(checked.versions)
            job = job._replace(since_tree=EMPTY_TREE, checks=True, suspects=suspects)
            checked.join(self._round(self._plan(job), job))
        outcome.take_back(checked)

    def _plan(self, job: Job) -> Iterator[ExportPart]:
        compared = TreesToCompare(None, job.since_tree, job.tree, job.prefix)
        for each in intervals(self._repository.trees, compared, entries=PART_ENTRIES):
            if not job.checks:
                self._options.progress.expect(items=each.entries)
            yield ExportPart(each.start, each.stop)

    def _round(self, parts: Iterable[ExportPart], job: Job | None = None) -> ExportOutcome:
        outcome = ExportOutcome()
        planned = list(parts)
        numbers = {part: number for number, part in enumerate(planned)}
        task = partial(export_part, job=job or self._job, hands=self._hands)

        def steps() -> Iterator[tuple[int, list[PathStep]]]:
            for part, done in self._runner.run(task, planned):
                outcome.join(done)
                yield numbers[part], done.steps
                if self._hands is None:  # an executor ran the part
                    written = (done.new, done.changed, done.unchanged)
                    items = sum(each.count for each in written) + done.deleted.count
                    size = sum(each.size for each in written)
                    self._options.progress.advance(items=items, size=size)

        for ready in in_order(steps()):
            if self._options.on_steps is not None:
                self._options.on_steps(iter(ready))
        return outcome


def holds_success(repository: Repository, job: Job) -> bool:
    """Return whether the exported tree has an object at the path of lakecli's ``_SUCCESS``."""
    return find(repository.trees, job.tree, job.prefix + SUCCESS.encode()) is not None


def _parts_of(paths: list[bytes]) -> list[ExportPart]:
    return [ExportPart(b"", None, tuple(some)) for some in batches(paths, PATHS)]

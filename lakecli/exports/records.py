"""Export options and report, and the records of its parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.base.model import CommitId, MetarangeId
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.committed.tree_store import TreeStore
from lakecli.engine.store_location import StoreLocation
from lakecli.repository.contract import AddressResolver
from lakecli.repository.transfer.plan import ObjectTally, PathStep

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore

PART_ENTRIES: Final = 20_000
"""Approximate number of entries in one part; ranges are not divided."""

MAX_FAILURES: Final = 10_000
"""Failures that the report lists, at most; all are counted."""

MARKER: Final = re.compile(rb"(.*/|^)_SUCCESS", re.DOTALL)
"""Objects that mark a directory as complete, as lakeFS's exporter does; written last."""

SUCCESS: Final = b"_SUCCESS"
"""The marker of lakecli itself at the root of the destination."""


class Job(NamedTuple):
    """What all parts of an export share; sent to executors.

    Attributes:
        location: the repository's namespace.
        repository: the repository's URI, for errors.
        tree: the tree to export.
        since_tree: the tree of an earlier export; the empty tree without one.
        prefix: prefix of the paths to export; the rest of a path is its name at the destination.
        destination: a normalised URI.
        region: region of the destination's bucket, or ``""``.
        threads: objects that one part copies at a time.
        verify: read every object and compare it with its checksum, even if the store copies it.
        dry_run: write nothing.
        lists: record in the outcome what would be done with each path.
    """

    location: StoreLocation
    repository: str
    tree: MetarangeId
    since_tree: MetarangeId
    prefix: bytes
    destination: str
    region: str
    threads: int
    verify: bool = True
    dry_run: bool = False
    lists: bool = False

    @property
    def uri(self) -> str:
        """The repository's URI."""
        return self.repository


class Part(NamedTuple):
    """Some of the paths of an export.

    Attributes:
        start: the first key.
        stop: the first key after the part; ``None``: the part has no end.
        paths: if not empty, the part consists of exactly these paths, markers included.
    """

    start: bytes
    stop: bytes | None
    paths: tuple[bytes, ...] = ()


class Failure(NamedTuple):
    """An object that was not exported.

    Attributes:
        may_pass: whether another attempt may succeed.
    """

    path: bytes
    why: str
    may_pass: bool = False


@dataclass(slots=True)
class Outcome:
    """What a part, or the whole export, did; in a dry run, what it would do.

    Attributes:
        new: objects that the destination did not have.
        changed: objects that replaced something else.
        by_store: those of both that the store copied on its side.
        unchanged: objects that the destination had already.
        deleted: objects that the earlier ref had and this one does not have.
        bare: number of objects written without their metadata, which the destination cannot hold.
        failed: number of objects that failed.
        failures: `MAX_FAILURES` of these at most.
        markers: paths left for a later round.
        left_out: paths whose names are Git's, lakecli's or the system's own, which a directory does
            not get.
        steps: what would be done with each path; of one part only.
    """

    new: ObjectTally = field(default_factory=ObjectTally)
    changed: ObjectTally = field(default_factory=ObjectTally)
    by_store: ObjectTally = field(default_factory=ObjectTally)
    unchanged: ObjectTally = field(default_factory=ObjectTally)
    deleted: ObjectTally = field(default_factory=ObjectTally)
    bare: int = 0
    failed: int = 0
    failures: list[Failure] = field(default_factory=list)
    markers: list[bytes] = field(default_factory=list)
    left_out: list[bytes] = field(default_factory=list)
    steps: list[PathStep] = field(default_factory=list)

    def fail(self, failure: Failure) -> None:
        """Record an object that failed."""
        self.failed += 1
        if len(self.failures) < MAX_FAILURES:
            self.failures.append(failure)

    def join(self, other: Outcome) -> None:
        """Add the outcome of another part."""
        for mine, theirs in (
            (self.new, other.new),
            (self.changed, other.changed),
            (self.by_store, other.by_store),
            (self.unchanged, other.unchanged),
            (self.deleted, other.deleted),
        ):
            mine.join(theirs)
        self.bare += other.bare
        self.failed += other.failed
        self.failures += other.failures[: MAX_FAILURES - len(self.failures)]
        self.markers += other.markers
        self.left_out += other.left_out

    def take_retried(self) -> list[bytes]:
        """Remove the failures that may pass, and return their paths."""
        again = [each.path for each in self.failures if each.may_pass]
        self.failures = [each for each in self.failures if not each.may_pass]
        self.failed -= len(again)
        return again


class Hands(NamedTuple):
    """What a part uses of this process; executors open their own and report no progress.

    Attributes:
        store: the repository's namespace.
        trees: the repository's trees, for the thread that runs the part.
        progress: counts objects and bytes.
        addresses: resolves entries' addresses.
    """

    store: ObjectStore
    trees: TreeStore
    progress: Progress = NO_PROGRESS
    addresses: AddressResolver | None = None


class ExportOptions(NamedTuple):
    """How to export.

    Attributes:
        since: a ref; only changes since that ref are exported, and paths that it has and the
            exported ref does not have are deleted.
        dry_run: count objects, and write nothing.
        success: write ``_SUCCESS`` at the end.
        verify: compare every object with its checksum; otherwise objects that the store copies on
            its side are not read.
        threads: objects to copy at a time.
        progress: expects the objects of each part before it is planned, and counts objects and
            bytes.
        on_steps: called in a dry run with what would be done with the paths of each part, in the
            order of the parts. Without it the paths are not recorded.
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
    """What an export did.

    Attributes:
        commit_id: the exported commit.
        since_commit_id: the commit of `ExportOptions.since`, if given.
        since_was_exported: whether the destination has a report that `since_commit_id` was
            exported; ``None`` without that.
        destination: a normalised URI.
        outcome: counts, and the failures in path order.
        status: key of the status report below the destination; ``""`` in a dry run.
        uncommitted: whether the branch has uncommitted changes, which are not exported.
    """

    commit_id: CommitId
    since_commit_id: CommitId | None
    since_was_exported: bool | None
    destination: str
    outcome: Outcome
    status: str
    uncommitted: bool

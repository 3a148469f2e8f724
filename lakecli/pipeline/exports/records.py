"""What an export is told, and what it tells."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.progress import NO_PROGRESS, Progress
from lakecli.repository.transfer.selection import Tally

if TYPE_CHECKING:
    from lakecli.committed.tree_store import TreeStore
    from lakecli.model import CommitId, MetarangeId
    from lakecli.objectstore.base import ObjectStore
    from lakecli.pipeline.store_location import StoreLocation
    from lakecli.repository.core.address import Resolver

PART_ENTRIES: Final = 20_000
"""Entries of one part, about; a range is not cut."""

MAX_FAILURES: Final = 10_000
"""Failures that are remembered by path; all are counted."""

MARKER: Final = re.compile(rb"(.*/|^)_SUCCESS", re.DOTALL)
"""Keys that say of others that they are complete, as lakeFS's exporter has them."""

SUCCESS: Final = b"_SUCCESS"
"""The marker at the root of the destination."""


class Job(NamedTuple):
    """What all parts of an export have in common; it travels to executors.

    Attributes:
        location: the repository's namespace.
        repository: its URI, for what is said of errors.
        tree: what is exported.
        since_tree: what an earlier export has brought there; the empty tree for none.
        prefix: of the paths that are meant; what follows it is the name at the destination.
        destination: a normalised URI.
        region: of the destination's bucket, or ``""``.
        threads: objects at a time, of one part.
        verify: read every object and compare it with its checksum, also where the store copies.
        dry_run: look, and write nothing.
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

    @property
    def uri(self) -> str:
        """The repository's URI."""
        return self.repository


class Part(NamedTuple):
    """Some of the paths of an export.

    Attributes:
        start: the first key.
        stop: the first key behind them; ``None``: to the end.
        paths: if there are any, these and no others, markers included.
    """

    start: bytes
    stop: bytes | None
    paths: tuple[bytes, ...] = ()


class Failure(NamedTuple):
    """An object that was not exported.

    Attributes:
        may_pass: another try may succeed.
    """

    path: bytes
    why: str
    may_pass: bool = False


@dataclass(slots=True)
class Outcome:
    """What became of a part, or of all; in a dry run, what would.

    Attributes:
        new: objects that were not there.
        changed: objects that replaced something else.
        by_store: how many of these the store copied by itself.
        unchanged: objects that were there already.
        deleted: objects that the earlier ref had and this one has not.
        bare: written without their metadata, which the destination cannot hold.
        failed: how many failed.
        failures: of them, `MAX_FAILURES` at most.
        markers: paths left to the second round.
    """

    new: Tally = field(default_factory=Tally)
    changed: Tally = field(default_factory=Tally)
    by_store: Tally = field(default_factory=Tally)
    unchanged: Tally = field(default_factory=Tally)
    deleted: Tally = field(default_factory=Tally)
    bare: int = 0
    failed: int = 0
    failures: list[Failure] = field(default_factory=list)
    markers: list[bytes] = field(default_factory=list)

    def fail(self, failure: Failure) -> None:
        """Note an object that failed."""
        self.failed += 1
        if len(self.failures) < MAX_FAILURES:
            self.failures.append(failure)

    def join(self, other: Outcome) -> None:
        """Add what became of another part."""
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

    def take_retried(self) -> list[bytes]:
        """Forget the failures that may pass, and return their paths."""
        again = [each.path for each in self.failures if each.may_pass]
        self.failures = [each for each in self.failures if not each.may_pass]
        self.failed -= len(again)
        return again


class Hands(NamedTuple):
    """What a part uses in this process; an executor has its own, and tells nobody.

    Attributes:
        store: the repository's namespace.
        trees: its trees, for the thread that runs the part.
        progress: counts objects and bytes.
        addresses: the way from an entry's address to its bytes.
    """

    store: ObjectStore
    trees: TreeStore
    progress: Progress = NO_PROGRESS
    addresses: Resolver | None = None


class ExportOptions(NamedTuple):
    """How to export.

    Attributes:
        since: a ref; only what has changed since it is exported, and what it had and `ref` has
            not is deleted.
        dry_run: count, and write nothing.
        success: write ``_SUCCESS`` in the end.
        verify: compare every object with its checksum; without it, objects that the store copies
            by itself are not read.
        threads: objects at a time.
        progress: expects the objects of each part before it is planned, and counts objects and
            bytes.
    """

    since: str = ""
    dry_run: bool = False
    success: bool = True
    verify: bool = True
    threads: int = 10
    progress: Progress = NO_PROGRESS


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export did.

    Attributes:
        commit_id: what was exported.
        since_commit_id: what the earlier export had brought, if one was named.
        since_was_exported: whether the destination has a report of that; ``None`` without it.
        destination: a normalised URI.
        outcome: the numbers, and the failures in path order.
        status: the key of the status report below the destination; ``""`` in a dry run.
        uncommitted: the branch has uncommitted changes, which are not among it.
    """

    commit_id: CommitId
    since_commit_id: CommitId | None
    since_was_exported: bool | None
    destination: str
    outcome: Outcome
    status: str
    uncommitted: bool

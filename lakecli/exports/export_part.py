"""Export one part: copy the objects of its interval to the destination, and verify them.

A part, and the `Job` that all parts share, are sent to executors, so they consist of plain values.
"""

import os
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from posixpath import normpath
from threading import Lock
from typing import Final, NamedTuple

from lakecli import errors
from lakecli.base.model import ChangeType, Difference, Entry, MetarangeId
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.committed.diff import diff
from lakecli.committed.point_reads import find
from lakecli.committed.scan import scan, type_of
from lakecli.committed.tree_store import TreeStore
from lakecli.committed.values import decode_entry, identity_of, is_same
from lakecli.engine.runner import StoreLocation
from lakecli.exports.target import WHOLE, BucketTarget, ExportItem, open_target
from lakecli.repository.contract import AddressResolver
from lakecli.repository.reading.addresses import real_uri
from lakecli.repository.reading.contents import read_located, with_attributes
from lakecli.repository.reading.recorded import AsRecorded, Recorded, locate_recorded
from lakecli.repository.transfer.destination import ENDS_ALL, ObstructedFile, UnsafeName
from lakecli.repository.transfer.ignore_patterns import is_own
from lakecli.repository.transfer.parallel import MAX_FAILURES, Memory, Workers
from lakecli.repository.transfer.plan import ObjectTally, PathAction, PathStep
from lakecli.stores.capabilities import can_copy
from lakecli.stores.contract import ObjectInfo, ObjectStore, Version
from lakecli.stores.uri import is_local
from lakecli.worktree.obstacles import parents_of

REPORTED_FAILURES: Final = 10_000
"""Maximum number of failures that the report lists; all failures are counted."""

MARKER: Final = re.compile(rb"(.*/|^)_SUCCESS", re.DOTALL)
"""Paths of objects that mark a directory as complete, as in lakeFS's exporter; written last."""


class Job(NamedTuple):
    """The values that all parts of an export share; sent to executors.

    Attributes:
        since_tree: the tree of an earlier export; the empty tree if there is none.
        prefix: prefix of the paths to export; the rest of a path is its name at the destination.
        threads: number of objects that one part copies at a time.
        verify: read every object and compare it with its checksum, even if the store copies it.
        lists: record in the outcome what would be done with each path.
        checks: write nothing; find the objects that a listing of the bucket does not show.
        suspects: if not empty, check only the objects with these versions, to find out whether each
            is the exported object.
    """

    location: StoreLocation
    uri: str
    tree: MetarangeId
    since_tree: MetarangeId
    prefix: bytes
    destination: str
    region: str
    threads: int
    verify: bool = True
    dry_run: bool = False
    lists: bool = False
    checks: bool = False
    suspects: frozenset[Version] = frozenset()


class ExportPart(NamedTuple):
    """Some of the paths of an export: an interval, or single paths.

    Attributes:
        paths: if not empty, the part consists of exactly these paths, even if they are named
            ``_SUCCESS``.
    """

    start: bytes
    stop: bytes | None
    paths: tuple[bytes, ...] = ()


class ExportFailure(NamedTuple):
    """An object that was not exported.

    Attributes:
        may_pass: whether another attempt may succeed.
        is_of_name: whether the destination cannot have an object of this name.
        lost: the object's size, if a later check found the object missing or replaced by another;
            ``None`` for other failures.
    """

    path: bytes
    why: str
    may_pass: bool = False
    is_of_name: bool = False
    lost: int | None = None


@dataclass(slots=True)
class ExportOutcome:
    """The outcome of a part or of the entire export; in a dry run, what would be done.

    Attributes:
        new: objects that the destination did not have.
        changed: objects that differed from the destination's.
        by_store: the new or changed objects that the store copied on its side.
        unchanged: objects that the destination had already.
        deleted: objects that the earlier ref had and this one does not have.
        bare: number of objects written without their metadata, which the destination cannot hold.
        failures: the failures, at most `REPORTED_FAILURES`.
        markers: paths of ``_SUCCESS`` objects, which a later round exports.
        left_out: paths that are not written to a directory, since Git, lakecli or the system uses
            such names.
        steps: what would be done with each path; only in the outcome of one part.
        lost: objects that a later check found to be missing or replaced by other objects.
        versions: for names that the bucket does not list, the versions of the objects that it
            returns for these names.
        has_twins: whether some names are different spellings of one path, such as ``a//b`` and
            ``a/b``.
    """

    new: ObjectTally = field(default_factory=ObjectTally)
    changed: ObjectTally = field(default_factory=ObjectTally)
    by_store: ObjectTally = field(default_factory=ObjectTally)
    unchanged: ObjectTally = field(default_factory=ObjectTally)
    deleted: ObjectTally = field(default_factory=ObjectTally)
    bare: int = 0
    failed: int = 0
    failures: list[ExportFailure] = field(default_factory=list)
    markers: list[bytes] = field(default_factory=list)
    left_out: list[bytes] = field(default_factory=list)
    steps: list[PathStep] = field(default_factory=list)
    lost: ObjectTally = field(default_factory=ObjectTally)
    versions: set[Version] = field(default_factory=set)
    has_twins: bool = False

    def fail(self, failure: ExportFailure) -> None:
        """Record an object that failed."""
        self.failed += 1
        if len(self.failures) < REPORTED_FAILURES:
            self.failures.append(failure)

    def join(self, other: "ExportOutcome") -> None:
        """Add the outcome of another part."""
        for name in ("new", "changed", "by_store", "unchanged", "deleted", "lost"):
            getattr(self, name).join(getattr(other, name))
        self.bare += other.bare
        self.has_twins |= other.has_twins
        self.failed += other.failed
        self.failures += other.failures[: REPORTED_FAILURES - len(self.failures)]
        self.markers += other.markers
        self.left_out += other.left_out
        if len(self.versions) < REPORTED_FAILURES:
            self.versions |= other.versions

    def take_back(self, checked: "ExportOutcome") -> None:
        """Count the objects that a check did not find as failed instead of as exported."""
        lost, known = checked.lost, {each.path for each in self.failures}
        self.failed += checked.failed - len(checked.failures)
        for failure in checked.failures:
            if failure.path not in known:
                known.add(failure.path)
                self.fail(failure)
            elif failure.lost is not None:
                lost.join(ObjectTally(-1, -failure.lost))
        for tally in (self.new, self.changed, self.unchanged):
            taken = ObjectTally(-min(tally.count, lost.count), -min(tally.size, lost.size))
            tally.join(taken)
            lost.join(taken)

    def take_retried(self) -> list[bytes]:
        """Remove the failed objects for which another attempt may succeed; return their paths."""
        again = [each.path for each in self.failures if each.may_pass]
        self.failures = [each for each in self.failures if not each.may_pass]
        self.failed -= len(again)
        return again


class Hands(NamedTuple):
    """The open stores, trees and progress of this process; executors open their own stores."""

    store: ObjectStore
    trees: TreeStore
    progress: Progress = NO_PROGRESS
    addresses: AddressResolver | None = None


MAX_DENIED: Final = 200
"""The export ends after this many refused objects in a row: probably all would be refused."""

UNLISTED: Final = "it was written, but a listing of the destination does not show it"
REPLACED: Final = (
    "it was written, but another object is there, whose name may be the same for the store"
)

SUSPECTS: Final = 1_000
"""Maximum number of unlisted objects of a part whose versions are requested."""

STREAM_MEMORY: Final = 40 << 20
"""Maximum bytes of memory for uploading a large object: five parts of the upload at a time."""


def export_part(part: ExportPart, *, job: Job, hands: Hands | None = None) -> ExportOutcome:
    """Export the objects of a part; safe to repeat.

    Args:
        hands: the open stores of this process; ``None``: open them in this function.

    Raises:
        Unreachable: the destination or the repository does not answer.
        NoRoom: the disk is full.
        ReadOnlyDisk: the disk is read-only.
        IntegrityError: a range that had to be read is missing or damaged.
    """
    if hands is None:
        hands = Hands(job.location.store(), job.location.trees())
    worker = _Export(job, hands)
    with closing(worker.target):
        worker.run(part)
    return worker.outcome


class _Export:
    def __init__(self, job: Job, hands: Hands) -> None:
        self.outcome = ExportOutcome()
        self._job = job
        self._hands = hands
        self._workers = Workers(job.threads)
        account, check = job.location.account, self._workers.check
        place = job.destination, job.region, account, check
        self.target = open_target(*place, dry_run=job.dry_run)
        self._is_local = is_local(job.destination)
        own = real_uri(job.location.uri).removeprefix(real_uri(job.destination) + "/")
        self._own = os.fsencode(own) + b"/"
        self._in_a_row = 0
        self._memory = Memory()
        self._lock = Lock()
        self._can_copy = True
        self._steps: list[PathStep] = []
        self._spelled: dict[bytes, bytes] = {}
        self._twins: set[bytes] = set()
        self._addresses = hands.addresses or job.location.addresses()

    def run(self, part: ExportPart) -> None:
        """Export the differences of a part, several objects at a time."""
        self._workers.for_each(self._items(part), lambda item: self._one(*item))
        self.outcome.failures.sort()
        self.outcome.steps = sorted(self._steps, key=lambda step: step.path)

    def _items(self, part: ExportPart) -> Iterator[tuple[ExportItem, ObjectInfo | None]]:
        """Yield the objects in path order, each with its description in the target's listing."""
        for difference in self._differences(part):
            path = difference.path
            if self._is_local and is_own(path[len(self._job.prefix) :]):
                self.outcome.left_out.append(path)
                continue
            if difference.right is not None and not part.paths and MARKER.fullmatch(path):
                self.outcome.markers.append(path)
                continue
            try:
                item = self._item(difference)
                found = self._find(item)
            except (errors.IntegrityError, errors.UsageError) as error:
                self._fail(path, error)
                continue
            yield item, found

    def _find(self, item: ExportItem) -> ObjectInfo | None:
        if not isinstance(self.target, BucketTarget):
            return None
        try:
            return self.target.find(item.name)
        except errors.UsageError:
            if item.entry is None:
                return None  # there is nothing to delete by a name that the bucket refuses
            raise

    def _differences(self, part: ExportPart) -> Iterator[Difference]:
        job, trees = self._job, self._hands.trees
        if not part.paths:
            found = diff(trees, job.since_tree, job.tree, start=part.start, stop=part.stop)
            for difference in found:
                twin = None if difference.right is None else self._twin_of(difference.path)
                yield difference
                if job.checks and difference.left is None:
                    yield from self._unchanged_below(difference.path)
                if job.checks and twin is not None:
                    value = find(trees, job.tree, twin)
                    yield Difference(ChangeType.CHANGED, twin, value, value)
            return

        for path in part.paths:
            old, new = find(trees, job.since_tree, path), find(trees, job.tree, path)
            yield Difference(type_of(old, new), path, old, new)

    def _unchanged_below(self, path: bytes) -> Iterator[Difference]:
        """Yield the unchanged objects below `path`: a new object at `path` may hide them."""
        job, trees = self._job, self._hands.trees
        if job.since_tree:
            for each, value in scan(trees, job.tree, prefix=path + b"/"):
                old = find(trees, job.since_tree, each)
                if old is not None and is_same(old, value):
                    yield Difference(ChangeType.CHANGED, each, old, value)

    def _twin_of(self, path: bytes) -> bytes | None:
        """Return another exported path that is the same path in a different spelling, or ``None``.

        A server may list both spellings but store only one object. So a check has to read both
        objects.
        """
        job = self._job
        name = path[len(job.prefix) :]
        plain = normpath(name.replace(b"\\", b"/")).lstrip(b"/")
        if self._is_local or plain == name:
            return None
        twin = self._spelled.setdefault(plain, path)
        if twin == path:
            twin = job.prefix + plain
            if find(self._hands.trees, job.tree, twin) is None:
                return None
        self._twins |= {path, twin}
        self.outcome.has_twins = True
        return twin

    def _item(self, difference: Difference) -> ExportItem:
        path, old, new = difference.path, difference.left, difference.right
        name = path[len(self._job.prefix) :]
        if not name or name.startswith(self._own):
            what = "is the destination itself" if not name else "lies in the repository's namespace"
            raise errors.UsageError(f"its path at the destination {what}")
        return ExportItem(path, name, *_decoded(new), *_decoded(old))

    def _one(self, item: ExportItem, found: ObjectInfo | None) -> None:
        try:
            if self._job.checks:
                self._check(item, found)
                return
            if item.entry is None:
                self._delete(item, found)
            else:
                self._export(item, item.entry, found)
        except ENDS_ALL:
            raise
        except (errors.NotFound, errors.IntegrityError, errors.UsageError, errors.Refused) as error:
            self._fail(item.path, error)
            return
        except (errors.PermissionDenied, errors.Unreachable) as error:
            self._fail(item.path, error)
            self._count_failure(error)
            return
        self._in_a_row = 0
        self._hands.progress.advance(items=1)

    def _delete(self, item: ExportItem, found: ObjectInfo | None) -> None:
        assert item.old is not None
        if not self.target.is_there(item, found):
            return
        if not self._job.dry_run:
            self.target.delete(item)
        with self._lock:
            self.outcome.deleted.add(item.old.size)
        self._list(PathAction.DELETED, item.path, item.old.size)

    def _export(self, item: ExportItem, entry: Entry, found: ObjectInfo | None) -> None:
        outcome = self.outcome
        try:
            state = self.target.state_of(item, found)
        except UnsafeName:
            if not (self._job.dry_run and self._makes_room(item)):
                raise
            state = PathAction.NEW
        if state is PathAction.UNCHANGED:
            self._hands.progress.advance(size=entry.size)
            with self._lock:
                outcome.unchanged.add(entry.size)
            self._list(PathAction.UNCHANGED, item.path, entry.size)
            return
        by_store, is_whole = False, True
        if not self._job.dry_run:
            by_store, is_whole = self._write(item, entry)
        with self._lock:
            (outcome.new if state is PathAction.NEW else outcome.changed).add(entry.size)
            outcome.bare += not is_whole
            if by_store:
                outcome.by_store.add(entry.size)
        self._list(state, item.path, entry.size)

    def _check(self, item: ExportItem, found: ObjectInfo | None) -> None:
        """Check by a listing that the bucket has the exported object; if not, record a failure."""
        entry, suspects, target = item.entry, self._job.suspects, self.target
        assert isinstance(target, BucketTarget)
        if entry is None:
            return
        if suspects:
            is_suspect = found is not None and found.version in suspects
            if not is_suspect or target.state_of(item, found) is PathAction.UNCHANGED:
                return
        elif found is not None and found.size == entry.size:
            if item.path not in self._twins or self._has_bytes(target, found.key, entry):
                return
        elif self.outcome.lost.count < SUSPECTS:
            versions = target.versions_of(item.name)
            with self._lock:
                self.outcome.versions |= versions
        why = UNLISTED if found is None else REPLACED
        with self._lock:
            self.outcome.lost.add(entry.size)
            self.outcome.fail(ExportFailure(item.path, why, is_of_name=True, lost=entry.size))

    def _has_bytes(self, target: BucketTarget, key: str, entry: Entry) -> bool:
        """Read an object of the destination; return whether its bytes are those of the entry."""
        try:
            for _ in read_located(self._job.uri, target.store, key, entry):
                self._workers.check()
        except (errors.NotFound, errors.IntegrityError):
            return False
        return True

    def _makes_room(self, item: ExportItem) -> bool:
        """Return whether this export deletes an older file where the item needs a directory."""
        job, trees = self._job, self._hands.trees
        above = (job.prefix + each for each in parents_of(item.name))
        return any(
            find(trees, job.since_tree, each) is not None and find(trees, job.tree, each) is None
            for each in above
        )

    def _list(self, action: PathAction, path: bytes, size: int = 0, error: str = "") -> None:
        """Record what would be done with a path, if `Job.lists` is set."""
        if self._job.lists:
            self._steps.append(PathStep(action, path, size, error))

    def _write(self, item: ExportItem, entry: Entry) -> tuple[bool, bool]:
        """Copy an object; return whether the store copied it, and whether metadata was written."""
        store, key = locate_recorded(self._addresses, Recorded.of(entry), self._job.uri)
        if not self._is_local:
            item = item._replace(entry=with_attributes(entry, store, key))
        verify, target = self._job.verify, self.target
        may_copy = self._can_copy and (not verify or entry.size > WHOLE)
        origin = store.unverified if isinstance(store, AsRecorded) else store
        if may_copy and isinstance(target, BucketTarget) and can_copy(origin, target.store):
            if verify:
                for _ in self._pieces(store, key, entry):
                    pass
            elif isinstance(store, AsRecorded):
                store.check(key)
            try:
                if target.copy(item, origin, key):
                    if isinstance(store, AsRecorded):
                        _check_copied(store, key, item, target)
                    return True, True
            except (errors.PermissionDenied, errors.Unsupported):
                pass  # copy through this process, which reads with the repository's credentials
            self._can_copy = False
        with self._memory.held(min(entry.size, STREAM_MEMORY)):
            return False, self.target.write(item, self._pieces(store, key, entry))

    def _pieces(self, store: ObjectStore, key: str, entry: Entry) -> Iterator[bytes]:
        for piece in read_located(self._job.uri, store, key, entry):
            self._workers.check()
            yield piece
            self._hands.progress.advance(size=len(piece))

    def _count_failure(self, error: errors.LakeError) -> None:
        """Count a failure; after too many failures in a row, raise the error to end the export."""
        with self._lock:
            self._in_a_row += 1
            limit = MAX_FAILURES if isinstance(error, errors.Unreachable) else MAX_DENIED
            if self._in_a_row >= limit:
                raise error

    def _fail(self, path: bytes, error: errors.LakeError) -> None:
        may_pass = isinstance(error, UnsafeName) and bool(self._job.since_tree)
        may_pass |= isinstance(error, errors.Unreachable)
        is_of_name = isinstance(error, errors.UsageError) and not isinstance(error, ObstructedFile)
        with self._lock:
            self.outcome.fail(ExportFailure(path, error.message, may_pass, is_of_name))
        self._list(PathAction.FAILED, path, error=error.message)


def _decoded(value: bytes | None) -> tuple[Entry | None, str]:
    """Decode a value into its entry and its identity in hex; ``None`` gives ``None`` and ``""``."""
    return (None, "") if value is None else (decode_entry(value), identity_of(value).hex())


def _check_copied(store: AsRecorded, key: str, item: ExportItem, target: BucketTarget) -> None:
    """After copying from outside the namespace, delete the copy and fail if the source changed."""
    try:
        store.check(key)
    except errors.LakeError:
        target.delete(item)
        raise

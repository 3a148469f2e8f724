"""Export one part: copy the objects of its interval to the destination, verified."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import TYPE_CHECKING, Final

from lakecli.base.model import Difference, Entry
from lakecli.committed.diff import diff
from lakecli.committed.scan import find, type_of
from lakecli.committed.values import decode_entry, identity_of
from lakecli.errors import (
    IntegrityError,
    LakeError,
    NotFound,
    PermissionDenied,
    Refused,
    Unreachable,
    Unsupported,
    UsageError,
)
from lakecli.exports.records import MARKER, Failure, Hands, Job, Outcome, Part
from lakecli.exports.target import WHOLE, Item, open_target
from lakecli.repository.reading.contents import read_located
from lakecli.repository.reading.recorded import Recorded, change_of
from lakecli.repository.transfer.destination import FileComparison, NoRoom, UnsafeName
from lakecli.repository.transfer.parallel import MAX_FAILURES, Memory, Workers
from lakecli.repository.transfer.plan import PathAction, PathStep
from lakecli.repository.transfer.selection import is_own
from lakecli.stores.contract import ObjectInfo
from lakecli.stores.uri import is_local

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore

MAX_DENIED: Final = 200
"""Refused objects in a row after which the export ends, as all seem to be refused."""

STREAM_MEMORY: Final = 40 << 20
"""Bytes of memory that sending a large object takes, at most: five parts in flight."""


def export_part(part: Part, *, job: Job, hands: Hands | None = None) -> Outcome:
    """Export the objects of a part; safe to repeat.

    Args:
        part: the part.
        job: shared by all parts.
        hands: what this process has open; ``None``: open the stores here.

    Raises:
        Unreachable: the destination or the repository does not answer.
        NoRoom: the disk is full.
        IntegrityError: a range that had to be read is missing or damaged.
    """
    if hands is None:
        hands = Hands(job.location.store(), job.location.trees())
    worker = _Export(job, hands)
    try:
        worker.run(part)
    finally:
        worker.target.close()
    return worker.outcome


class _Export:
    def __init__(self, job: Job, hands: Hands) -> None:
        self.outcome = Outcome()
        self._job = job
        self._hands = hands
        self._workers = Workers(job.threads)
        self.target = open_target(job, check=self._workers.check)
        self._own = job.location.uri.removeprefix(job.destination + "/").encode() + b"/"
        self._is_local = is_local(job.destination)
        self._in_a_row = 0
        self._memory = Memory()
        self._lock = Lock()
        self._can_copy = True
        self._steps: list[PathStep] = []
        self._addresses = hands.addresses or job.location.addresses()

    def run(self, part: Part) -> None:
        """Export the differences of a part, several objects at a time."""
        self._workers.for_each(self._items(part), lambda item: self._one(*item))
        self.outcome.failures.sort()
        self.outcome.steps = sorted(self._steps, key=lambda step: step.path)

    def _items(self, part: Part) -> Iterator[tuple[Item, ObjectInfo | None]]:
        """Yield objects in path order, each with its entry in a listing of the destination."""
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
                found = self.target.find(item.name)
            except (IntegrityError, UsageError) as error:
                self._fail(path, error)
                continue
            yield item, found

    def _differences(self, part: Part) -> Iterator[Difference]:
        job, trees = self._job, self._hands.trees
        if not part.paths:
            yield from diff(trees, job.since_tree, job.tree, start=part.start, stop=part.stop)
            return

        for path in part.paths:
            old, new = find(trees, job.since_tree, path), find(trees, job.tree, path)
            yield Difference(type_of(old, new), path, old, new)

    def _item(self, difference: Difference) -> Item:
        path, old, new = difference.path, difference.left, difference.right
        name = path[len(self._job.prefix) :]
        if not name or name.startswith(self._own):
            what = "is the destination itself" if not name else "lies in the repository's namespace"
            raise UsageError(f"its path at the destination {what}")
        return Item(
            path,
            name,
            None if new is None else decode_entry(new),
            "" if new is None else identity_of(new).hex(),
            None if old is None else decode_entry(old),
            "" if old is None else identity_of(old).hex(),
        )

    def _one(self, item: Item, found: ObjectInfo | None) -> None:
        try:
            if item.entry is None:
                self._delete(item, found)
            else:
                self._export(item, item.entry, found)
        except NoRoom:
            raise
        except (NotFound, IntegrityError, UsageError, Refused) as error:
            self._fail(item.path, error)
            return
        except (PermissionDenied, Unreachable) as error:
            self._fail(item.path, error)
            self._count_failure(error)
            return
        self._in_a_row = 0
        self._hands.progress.advance(items=1)

    def _delete(self, item: Item, found: ObjectInfo | None) -> None:
        assert item.old is not None
        if not self.target.is_there(item, found):
            return
        if not self._job.dry_run:
            self.target.delete(item)
        with self._lock:
            self.outcome.deleted.add(item.old.size)
        self._list(PathAction.DELETED, item.path, item.old.size)

    def _export(self, item: Item, entry: Entry, found: ObjectInfo | None) -> None:
        outcome = self.outcome
        state = self.target.state_of(item, found)
        if state is FileComparison.SAME:
            self._hands.progress.advance(size=entry.size)
            with self._lock:
                outcome.unchanged.add(entry.size)
            self._list(PathAction.UNCHANGED, item.path, entry.size)
            return
        by_store, is_whole = False, True
        if not self._job.dry_run:
            by_store, is_whole = self._write(item, entry)
        with self._lock:
            (outcome.new if state is FileComparison.MISSING else outcome.changed).add(entry.size)
            outcome.bare += not is_whole
            if by_store:
                outcome.by_store.add(entry.size)
        action = PathAction.NEW if state is FileComparison.MISSING else PathAction.CHANGED
        self._list(action, item.path, entry.size)

    def _list(self, action: PathAction, path: bytes, size: int = 0, error: str = "") -> None:
        """Record what would be done with a path, if that is asked for."""
        if self._job.lists:
            self._steps.append(PathStep(action, path, size, error))

    def _write(self, item: Item, entry: Entry) -> tuple[bool, bool]:
        """Copy an object; return whether the store did so, and whether its metadata was written."""
        store, key = self._addresses.locate(entry.physical_address)
        _check_external(store, key, entry)
        verify = self._job.verify
        if self._can_copy and self.target.may_copy(store) and (not verify or entry.size > WHOLE):
            if verify:
                for _ in self._pieces(store, key, entry):
                    pass
            try:
                if self.target.copy(item, store, key):
                    return True, True
            except (PermissionDenied, Unsupported):
                pass  # the destination's credentials may not read the source, the repository's may
            self._can_copy = False
        with self._memory.held(min(entry.size, STREAM_MEMORY)):
            return False, self.target.write(item, self._pieces(store, key, entry))

    def _pieces(self, store: ObjectStore, key: str, entry: Entry) -> Iterator[bytes]:
        for piece in read_located(self._job.uri, store, key, entry):
            self._workers.check()
            yield piece
            self._hands.progress.advance(size=len(piece))

    def _count_failure(self, error: LakeError) -> None:
        """Count a failure; end the export after too many in a row.

        Raises:
            LakeError: `error` itself, after too many.
        """
        with self._lock:
            self._in_a_row += 1
            limit = MAX_FAILURES if isinstance(error, Unreachable) else MAX_DENIED
            if self._in_a_row >= limit:
                raise error

    def _fail(self, path: bytes, error: LakeError) -> None:
        may_pass = isinstance(error, Unreachable) or (
            bool(self._job.since_tree) and isinstance(error, UnsafeName)
        )
        with self._lock:
            self.outcome.fail(Failure(path, error.message, may_pass))
        self._list(PathAction.FAILED, path, error=error.message)


def _check_external(store: ObjectStore, key: str, entry: Entry) -> None:
    """Compare an object outside the namespace with what was recorded at its import.

    Raises:
        IntegrityError: it changed.
    """
    if "://" not in entry.physical_address:
        return
    recorded = Recorded(entry.physical_address, entry.size, entry.checksum, entry.modified_at)
    if change_of(store, key, recorded) is not None:
        raise IntegrityError(
            f"changed since it was imported: {entry.physical_address}",
            hint="import it again, or restore the version that was imported",
        )

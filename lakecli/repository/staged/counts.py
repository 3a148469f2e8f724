"""Count the uncommitted changes of a branch, and keep the counts in the row of its staging token.

Counting reads all staged records, and the committed tree under them. So the row keeps the counts,
and the staging areas, the tree and the last log operation for which they are valid. The log has
every write to the areas of a branch, with images: the records of the paths before the write. So a
later count looks only at the paths that newer operations wrote to. All changes are counted again if
the log does not suffice: the head has another tree, areas were sealed, the operation has expired,
or later writes were added to the operation (`Operation.parts`).

If the operation has expired, or if a version of lakecli without part counts wrote it, later writes
may be added to it unnoticed. So before a count for such an operation is kept, the log is closed: it
skips a sequence number, so that later writes form a new operation.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from lakecli.base.model import Branch, ChangeType
from lakecli.committed.point_reads import PointReader
from lakecli.errors import Unreachable
from lakecli.kv import operations as log
from lakecli.kv.local_store import ReadTransaction
from lakecli.repository.contract import Repository
from lakecli.repository.journal import operation_log
from lakecli.repository.reading.view import View, view_of_branch
from lakecli.repository.staged.changes import BLOCKS_SIZE, compare_staged
from lakecli.staging import area

KEPT_FROM: Final = 1_000
"""Counts are kept if at least this many records and operations had to be read for them."""

_KINDS: Final = (ChangeType.ADDED, ChangeType.CHANGED, ChangeType.REMOVED)
_FIELD: Final = "counted"

_Facts = dict[str, Any]
"""The staging areas, the tree and the last log operation for which counts are valid."""


class ChangesByKind(NamedTuple):
    """The number of uncommitted changes of each kind."""

    added: int
    changed: int
    removed: int


class _Counter:
    """Counts the uncommitted changes of a view; the paths must be added in ascending order.

    Attributes:
        read: the number of paths and operations that were read.
    """

    def __init__(self, view: View, counts: Sequence[int] = (0, 0, 0)) -> None:
        # Paths ascend, so few blocks are needed at a time.
        self._points = PointReader(view.repository.trees, blocks_limit=BLOCKS_SIZE)
        self._view = view
        self._counts = dict(zip(_KINDS, counts, strict=True))
        self.read = 0

    @property
    def counts(self) -> ChangesByKind:
        """The number of changes of each kind that were counted so far."""
        return ChangesByKind(*self._counts.values())

    def add_all(self) -> None:
        """Count all staged changes."""
        for path, staged in self._view.staged():
            self.add(path, staged)

    def add(self, path: bytes, staged: bytes | None, *, step: int = 1) -> None:
        """Count the change that a staged record makes; with a `step` of -1, subtract it."""
        self.read += 1
        if staged is not None:
            committed = self._points.find(self._view.commit.metarange_id, path)
            change = compare_staged(path, committed, staged)
            if change is not None:
                self._counts[change.type] += step


def count_uncommitted(
    repository: Repository, txn: ReadTransaction, branch: Branch
) -> ChangesByKind:
    """Count the uncommitted changes of a branch; keep the counts if many paths were read."""
    view = view_of_branch(repository, txn, branch.name)
    found = _Counter(view)
    if txn.is_past:  # the rows of tokens have present counts, not those of the past
        found.add_all()
        return found.counts
    made_of = _made_of(view)
    kept = operation_log.token_fields(txn, view.tokens[0]).get(_FIELD, {})
    newer = _newer(view, kept, made_of)
    if newer is None:
        found.add_all()
    else:
        found = _Counter(view, kept["counts"])
        _catch_up(view, found, newer)
    if found.read >= KEPT_FROM and not repository.lake.kv.read_only:
        with suppress(Unreachable):  # the disk is full
            _keep(repository, branch, made_of, found.counts)
    return found.counts


def _made_of(view: View) -> _Facts:
    """Return the facts that the present counts depend on: staging areas, tree, last operation."""
    last = log.last_sequence(view.txn, view.repository.key)
    newest = next(log.iter_operations(view.txn, view.repository.key), None)
    return {
        "tokens": [token.hex() for token in view.tokens],
        "tree": view.commit.metarange_id,
        "sequence": last,
        "parts": newest.parts if newest is not None and newest.sequence == last else None,
    }


def _newer(view: View, kept: Mapping[str, Any], made_of: _Facts) -> list[log.Operation] | None:
    """Return the operations since a count was kept; ``None`` if the log lacks some changes."""
    if any(kept.get(name) != made_of[name] for name in ("tokens", "tree")):
        return None
    newer: list[log.Operation] = []
    for operation in log.iter_operations(view.txn, view.repository.key):
        if operation.sequence < kept["sequence"]:
            return newer
        if operation.sequence == kept["sequence"]:
            return newer if operation.parts == kept["parts"] else None
        newer.append(operation)
    # The operation of the kept count has expired. No write can have gone unnoticed if the log was
    # closed then, and has given out no sequence number since.
    is_present = kept["parts"] is None and kept["sequence"] == made_of["sequence"]
    return newer if is_present else None


def _catch_up(view: View, found: _Counter, newer: Sequence[log.Operation]) -> None:
    """Update a kept count for the paths that newer operations wrote to."""
    found.read += len(newer)
    images = [
        _images(view.txn, operation, change.token)
        for operation in newer
        for change in operation.staging
        if change.token in view.tokens
    ]
    for path, group in groupby(merge(*images, key=itemgetter(0, 1)), itemgetter(0)):
        before: dict[bytes, bytes | None] = {}
        for _, _, token, image in group:  # the oldest operation first
            before.setdefault(token, image)
        found.add(path, _newest(view, path, before), step=-1)
        found.add(path, view.staged_at(path))


def _images(
    txn: ReadTransaction, operation: log.Operation, token: bytes
) -> Iterator[tuple[bytes, int, bytes, bytes | None]]:
    for path, image in log.iter_images(txn, operation.id, token):
        yield path, operation.sequence, token, image


def _newest(view: View, path: bytes, before: Mapping[bytes, bytes | None]) -> bytes | None:
    """Return the record that was staged at a path before it was changed.

    Args:
        before: the former record of each changed area, by token; ``None`` if the area had none.
    """
    found = (
        before[token] if token in before else area.get(view.txn, token, path)
        for token in view.tokens
    )
    return next((value for value in found if value is not None), None)


def _keep(repository: Repository, branch: Branch, made_of: _Facts, counts: ChangesByKind) -> None:
    """Keep counts, unless the branch, its changes or the log have changed meanwhile."""
    with repository.lake.kv.write() as txn:
        if repository.refs(txn).find_branch(branch.name) != branch:
            return
        fields = operation_log.token_fields(txn, branch.staging_token)
        if not fields or _made_of(view_of_branch(repository, txn, branch.name)) != made_of:
            return
        if not made_of["parts"]:
            made_of |= {"sequence": log.close(txn, repository.key), "parts": None}
        fields[_FIELD] = made_of | {"counts": counts}
        operation_log.put_token_fields(txn, branch.staging_token, fields)

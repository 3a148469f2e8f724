"""Automatic steps that undo passes over, and what they mean for what it stages again.

Before a branch follows the bucket, staged records that equal its head are removed
(`lakecli.repository.core.clean`), together with those of older staging areas below them. The user
did not do this, so undo passes over it. But an operation that had covered an older record with one
that equals the head is undone only if the older record is staged again. And what is staged again
has not seen the head that the branch has followed to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lakecli.kv import operations as log
from lakecli.kv.env import ReadTransaction
from lakecli.kv.operations import Operation, StagingChange
from lakecli.repository.core import ref_changes
from lakecli.repository.core.lake import Repository
from lakecli.repository.undo.log import REDOES, UNDOES, iter_logged


class PassedOver(NamedTuple):
    """An automatic step that moved a branch, or unstaged records.

    Attributes:
        operation: the operation of the step.
        turned: older operations that were undone or redone after the step; for the paths that they
            wrote, the step was taken back with them.
    """

    operation: Operation
    turned: tuple[Operation, ...]


def find_passed_over(
    txn: ReadTransaction, repository: Repository, operation: Operation
) -> list[PassedOver]:
    """Return the automatic steps after an operation, newest first."""
    found = []
    turned: set[str] = set()
    for newer, _ in iter_logged(txn, repository):
        if newer.id == operation.id:
            break
        concerned = newer.metadata.get(UNDOES) or newer.metadata.get(REDOES)
        if concerned is not None:
            turned ^= {concerned}
            continue
        turned.discard(newer.id.hex())
        if newer.kind == ref_changes.FOLLOWED:
            older = (log.find(txn, repository.key, bytes.fromhex(each)) for each in turned)
            found.append(PassedOver(newer, tuple(each for each in older if each is not None)))
    return found


def iter_unstaged(
    txn: ReadTransaction, step: PassedOver, operation: Operation, change: StagingChange
) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield (path, record) of what a step removed from a staging area, of an operation's paths.

    Args:
        txn: the transaction to read in.
        step: the step.
        operation: the operation that is to be undone or redone; it is older than the step.
        change: one of `step.operation.staging`.
    """
    for path, image in log.iter_images(txn, step.operation.id, change.token):
        if _wrote(txn, operation, change.branch, path) and not any(
            _wrote(txn, each, change.branch, path) for each in step.turned
        ):
            yield path, image


def _wrote(txn: ReadTransaction, operation: Operation, branch: str, path: bytes) -> bool:
    return any(
        staged.branch == branch
        and log.find_image(txn, operation.id, staged.token, path) is not None
        for staged in operation.staging
    )

"""Put back here what the bucket has refused: a branch or tag that was deleted, or renamed.

Where sharing is automatic, a ref is deleted here first, and then in the bucket. If somebody has
moved it there meanwhile, the bucket keeps it, and the operation that deleted it is undone here:
nothing was deleted, and what was never pushed is still on the branch.

Every command with automatic sharing imports this module, and few use it: so it imports on use.
"""

from __future__ import annotations

from lakecli.errors import LakeError
from lakecli.kv.env import ReadTransaction
from lakecli.kv.operations import Operation
from lakecli.repository.core.lake import Repository
from lakecli.repository.core.ref_changes import commit_of, is_local, moves_commit
from lakecli.repository.core.under_way import when_none_under_way
from lakecli.repository.core.unsent import Unsent
from lakecli.repository.undo import back_in_bucket, pushed
from lakecli.repository.undo import log as op_log
from lakecli.repository.undo.apply import TakeBack
from lakecli.repository.undo.claims import claim_operations


def put_back(repository: Repository, refused: Unsent, *, committer: str) -> bool:
    """Undo the operation that deleted or renamed a ref, after the bucket refused a move of it.

    Args:
        repository: the repository of the ref.
        refused: the move; its note is deleted.
        committer: who moves refs in the bucket: of a renaming, one of two moves may be made there.

    Returns:
        Whether it is undone here; not if the ref was moved again since, or made again.
    """
    with repository.lake.kv.read() as txn:
        operation = _find(txn, repository, refused)
    if operation is None:
        return False
    try:
        planned = pushed.find_to_move_back(repository, [operation], remote=True)
        claims = claim_operations(repository, [operation])

        def act(*, has_asked: bool) -> Operation:
            with repository.lake.kv.write() as txn:
                taking = TakeBack(txn, repository, claims, has_asked=has_asked)
                taking.take_back(operation)
                undone = operation.metadata.get(op_log.REDOES, operation.id.hex())
                appended = taking.append(kind=op_log.UNDO, metadata={op_log.UNDOES: undone})
                back_in_bucket.note(txn, repository, appended, planned)
            return appended

        appended = when_none_under_way(repository, act)
    except LakeError:
        return False  # what was done here stays here
    back_in_bucket.send(repository, appended, planned, committer=committer, put_back=lambda: False)
    return True


def _find(txn: ReadTransaction, repository: Repository, refused: Unsent) -> Operation | None:
    """Return the newest operation on a ref, if it made the refused move and deleted a ref by it."""
    for operation, _ in op_log.iter_logged(txn, repository):
        changes = [each for each in operation.refs if moves_commit(each)]
        for change in changes:
            if (change.kind, change.name) != (refused.kind, refused.name):
                continue
            takes_back = op_log.UNDOES in operation.metadata or operation.kind == op_log.RESTORE
            is_deletion = any(each.after is None for each in changes)
            is_refused = commit_of(change.after) == refused.after and not is_local(
                operation, change
            )
            return operation if is_refused and is_deletion and not takes_back else None
    return None

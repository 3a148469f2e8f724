"""Claim what undoing operations brings into use again, before it is brought back.

Other clones do not know this clone's operation log, so what only the log refers to is garbage to
them. What an undo, redo or restore puts back is claimed first, as far as it is still in the bucket.
What is missing does not stop the rest; the operation says how much it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from lakecli.base.model import CommitId, RefKind, StagingToken
from lakecli.kv import operations as log
from lakecli.kv.env import ReadTransaction
from lakecli.kv.operations import Operation, RefChange
from lakecli.refs.ref_store import RefStore
from lakecli.repository.core.commit_gate import unless_away
from lakecli.repository.core.gate import Reclaimed
from lakecli.repository.core.lake import Repository
from lakecli.staging import area

GONE: Final = "gone"
"""Key of an operation's metadata: how many of the objects and trees it put back are missing."""


def claim_operations(repository: Repository, operations: Sequence[Operation]) -> Reclaimed:
    """Claim what a repository would have again if operations were undone, newest first.

    If nothing of that is in the bucket, the bucket is not asked. If it cannot be asked, nothing is
    claimed.

    Raises:
        Swept: some of it was deleted just now.
        SweepRunning: garbage collection is deleting, and does not end.
    """
    claims = Reclaimed(repository)
    with unless_away(), repository.lake.kv.read() as txn:
        put_back: dict[tuple[RefKind, str], RefChange] = {}
        for operation in operations:
            put_back |= {(change.kind, change.name): change for change in operation.refs}
        refs = RefStore(txn, repository.key)
        for change in put_back.values():
            fields = change.before
            if fields is None or "commit_id" not in fields:
                continue
            commit = refs.find_commit(CommitId(fields["commit_id"]))
            if commit is not None and fields["commit_id"] != (change.after or {}).get("commit_id"):
                claims.add_commit(txn, commit)
        claims.add_values(_staged(txn, operations, put_back.values(), _in_use(refs)))
    return claims


def _in_use(refs: RefStore) -> set[bytes]:
    """Return the staging tokens that branches have now; restoring these changes nothing."""
    branches = refs.iter_branches()
    return {token for each in branches for token in (each.staging_token, *each.sealed_tokens)}


def _staged(
    txn: ReadTransaction,
    operations: Iterable[Operation],
    changes: Iterable[RefChange],
    in_use: set[bytes],
) -> Iterator[tuple[bytes, bytes]]:
    """Yield (path, value) of the records that would be staged again."""
    for operation in operations:
        for staged in operation.staging:
            for path, image in log.iter_images(txn, operation.id, staged.token):
                if image is not None:
                    yield path, image
    for change in changes:
        if change.kind is not RefKind.BRANCH or change.before is None:
            continue
        tokens = [change.before["staging_token"], *change.before["sealed_tokens"]]
        for token in map(bytes.fromhex, tokens):
            if token not in in_use:
                yield from area.scan(txn, StagingToken(token))

"""The roots of this clone: its refs, staged changes, and what undo could restore.

An operation is expired by the rule of `housekeeping.expired_through`, as for undo: one command at a
wrong time ends the protection of no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import takewhile
from typing import Final, NamedTuple

from lakecli.base.model import CommitId, RefKind, StagingToken
from lakecli.gc.joined import JoinedSet
from lakecli.gc.live import DigestSet
from lakecli.gc.tasks import addresses_in, digests_of
from lakecli.kv import operations as log
from lakecli.kv.env import ReadTransaction
from lakecli.kv.operations import Operation
from lakecli.refs.ref_store import RefStore
from lakecli.repository.contract import Repository
from lakecli.repository.moving.housekeeping import KEPT_FOR, expired_through
from lakecli.repository.pending import intents
from lakecli.staging import area

_BATCH: Final = 50_000


class OwnPosition(NamedTuple):
    """A commit that a ref of this clone points or pointed to; `branch` is ``""`` for a tag."""

    commit_id: CommitId
    branch: str


def iter_operations(
    txn: ReadTransaction, repository: Repository, now: datetime
) -> Iterator[Operation]:
    """Yield the operations that can be undone, newest first: those that are not expired.

    Args:
        txn: of the local store.
        repository: the repository of the log.
        now: time by the store's clock. Of it and this machine's, the one that expires less counts.
    """
    here = repository.lake.now()
    expired = expired_through(txn, repository, now=max(here, now), cutoff=min(here, now) - KEPT_FOR)
    return takewhile(
        lambda operation: operation.sequence > expired, log.iter_operations(txn, repository.key)
    )


def own_positions(
    txn: ReadTransaction, repository: Repository, now: datetime
) -> Iterator[OwnPosition]:
    """Yield where this clone's refs stand, and where undo could move them."""
    refs = RefStore(txn, repository.key)
    for branch in refs.iter_branches():
        yield OwnPosition(branch.commit_id, branch.name)
    for tag in refs.iter_tags():
        yield OwnPosition(tag.commit_id, "")
    for operation in iter_operations(txn, repository, now):
        for change in operation.refs:
            for fields in (change.before, change.after):
                if fields is not None and "commit_id" in fields:
                    name = change.name if change.kind is RefKind.BRANCH else ""
                    yield OwnPosition(CommitId(fields["commit_id"]), name)
    for begun in intents.iter_begun(txn, repository):
        for commit_id in (begun.intent.before, begun.intent.after):
            if commit_id is not None:
                yield OwnPosition(commit_id, "")


def add_staged(
    txn: ReadTransaction, repository: Repository, live: DigestSet | JoinedSet, now: datetime
) -> None:
    """Add data objects of staged changes, and of those that undo could restore."""
    tokens: set[bytes] = set()
    for branch in RefStore(txn, repository.key).iter_branches():
        tokens.update((branch.staging_token, *branch.sealed_tokens))
    found: set[bytes] = set()
    for operation in iter_operations(txn, repository, now):
        tokens.update(operation.sealed)
        for ref in operation.refs:
            tokens.update(_tokens_of(ref.before), _tokens_of(ref.after))
        for change in operation.staging:
            tokens.add(change.token)
            for _, image in log.iter_images(txn, operation.id, change.token):
                if image is not None:
                    _collect(found, image, live)
    for token in sorted(tokens):
        for _, value in area.scan(txn, StagingToken(token)):
            _collect(found, value, live)
    live.add(digests_of(found))


def _collect(found: set[bytes], value: bytes, live: DigestSet | JoinedSet) -> None:
    found.update(addresses_in(value))
    if len(found) >= _BATCH:
        live.add(digests_of(found))
        found.clear()


def _tokens_of(fields: Mapping[str, object] | None) -> Iterator[bytes]:
    if fields is None or "staging_token" not in fields:
        return
    yield bytes.fromhex(str(fields["staging_token"]))
    sealed = fields.get("sealed_tokens")
    for token in sealed if isinstance(sealed, list) else ():
        yield bytes.fromhex(str(token))

"""What counts of this clone: its refs, its operation log with what that could bring back, staging.

The log is read to its end. An operation is too old only if the log proves it: none before it, and
not itself, has a date since the cutoff. One command at a wrong time ends nobody's protection then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.kv import operations as log
from lakecli.model import CommitId, StagingToken
from lakecli.pipeline.gc.tasks import addresses_in, digests_of
from lakecli.refs.ref_store import RefStore
from lakecli.repository.core.housekeeping import KEPT_FOR
from lakecli.staging import area

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from lakecli.kv.env import ReadTransaction
    from lakecli.kv.operations import Operation
    from lakecli.pipeline.gc.live import DigestSet
    from lakecli.repository.core.lake import Repository

_BATCH: Final = 50_000


class OwnPosition(NamedTuple):
    """A commit that a ref stands or stood on here; `branch` is ``""`` for a tag."""

    commit_id: CommitId
    branch: str


def iter_operations(
    txn: ReadTransaction, repository: Repository, now: datetime
) -> Iterator[Operation]:
    """Yield the operations that can be taken back, newest first.

    Operations are numbered in the order they were made, whatever the clock said. So each was made
    later than all with lower numbers.

    Args:
        txn: of the local store.
        repository: whose.
        now: by the store's clock, which a wrong clock of this machine is held against.
    """
    here = repository.lake.now()
    cutoff, latest = min(here, now) - KEPT_FOR, max(here, now)
    first = None
    for operation in log.iter_operations(txn, repository.key):
        if cutoff <= operation.at <= latest:
            first = operation.sequence
    for operation in log.iter_operations(txn, repository.key):
        if operation.at > latest or (first is not None and operation.sequence >= first):
            yield operation


def own_positions(
    txn: ReadTransaction, repository: Repository, now: datetime
) -> Iterator[OwnPosition]:
    """Yield where this clone's refs stand, and where its operation log could put them."""
    from lakecli.repository.core import intents

    refs = RefStore(txn, repository.key)
    for branch in refs.iter_branches():
        yield OwnPosition(branch.commit_id, branch.name)
    for tag in refs.iter_tags():
        yield OwnPosition(tag.commit_id, "")
    for operation in iter_operations(txn, repository, now):
        for change in operation.refs:
            for fields in (change.before, change.after):
                if fields is not None and "commit_id" in fields:
                    name = change.name if change.kind == "branch" else ""
                    yield OwnPosition(CommitId(fields["commit_id"]), name)
    for begun in intents.iter_begun(txn, repository):
        for commit_id in (begun.intent.before, begun.intent.after):
            if commit_id is not None:
                yield OwnPosition(commit_id, "")


def add_staged(
    txn: ReadTransaction, repository: Repository, live: DigestSet, now: datetime
) -> None:
    """Add what is staged here, and what was and could come back."""
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


def _collect(found: set[bytes], value: bytes, live: DigestSet) -> None:
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

"""Staging tokens: which branch one belongs to, and the commit it was started on.

A commit of a part of what is staged copies the rest to tokens that belong to no branch until it
lands. A row for each of them outlives a killed process, and housekeeping finds it::

    META  copy/REPOSITORY TOKEN -> when it was made, unix seconds
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from lakecli.base.model import Branch, CommitId, StagingToken
from lakecli.kv.local_store import ReadTransaction, Table, WriteTransaction
from lakecli.repository.contract import Repository
from lakecli.staging import area

_COPY: Final = b"copy/"


def start(
    txn: WriteTransaction, repository: Repository, branch: str, head: CommitId
) -> StagingToken:
    """Make a fresh token for a branch whose head is `head`."""
    token = StagingToken(repository.lake.runtime.new_id())
    fields = {"repository": repository.record.uuid, "branch": branch, "started_on": head}
    txn.put(Table.TOKENS, token, json.dumps(fields, separators=(",", ":")).encode())
    return token


def started_on(txn: ReadTransaction, token: StagingToken) -> CommitId | None:
    """Return the commit that a token was started on, or ``None`` for an unknown token."""
    data = txn.get(Table.TOKENS, token)
    return None if data is None else CommitId(json.loads(data)["started_on"])


def move_on(
    txn: WriteTransaction, token: StagingToken, head: CommitId, *, since: CommitId | None = None
) -> None:
    """Record a token as started on `head`, because what is staged there has seen `head`.

    Args:
        txn: the transaction that moves the branch.
        token: the token; if it is unknown, nothing happens.
        head: the new head of the branch.
        since: do it only if the token was started on this commit; ``None``: always.
    """
    data = txn.get(Table.TOKENS, token)
    if data is None:
        return
    fields = json.loads(data)
    if since is not None and fields["started_on"] != since:
        return
    fields["started_on"] = head
    txn.put(Table.TOKENS, token, json.dumps(fields, separators=(",", ":")).encode())


def outdate(txn: WriteTransaction, repository: Repository, branch: Branch) -> Branch:
    """Return a branch with an empty area below its sealed ones, for the caller to write.

    Every write to a sealed area needs this: a commit under way that was built from the sealed areas
    finds that they are no longer the oldest, and builds again.
    """
    beneath = start(txn, repository, branch.name, branch.commit_id)
    return branch._replace(sealed_tokens=(*branch.sealed_tokens, beneath))


def forget(txn: WriteTransaction, token: StagingToken) -> None:
    """Drop a token's row; its staged records go with `lakecli.staging.area.drop`."""
    txn.delete(Table.TOKENS, token)


def note_copies(
    txn: WriteTransaction, repository: Repository, tokens: Sequence[StagingToken]
) -> None:
    """Record that tokens belong to a commit that has not landed yet, as of now."""
    now = int(repository.lake.now().timestamp())
    for token in tokens:
        txn.put(Table.META, _COPY + repository.key + token, b"%d" % now)


def are_noted(txn: ReadTransaction, repository: Repository, tokens: Sequence[StagingToken]) -> bool:
    """Return whether no copy was taken for abandoned meanwhile."""
    return all(txn.get(Table.META, _COPY + repository.key + token) for token in tokens)


def settle_copy(txn: WriteTransaction, repository: Repository, token: StagingToken) -> None:
    """Record that a copy belongs to a branch, or is gone."""
    txn.delete(Table.META, _COPY + repository.key + token)


def iter_copies(txn: ReadTransaction, repository: Repository) -> Iterator[tuple[StagingToken, int]]:
    """Yield the copies that belong to no branch, and when they were made, in unix seconds."""
    lead = _COPY + repository.key
    for key, made in txn.scan(Table.META, prefix=lead):
        yield StagingToken(key[len(lead) :]), int(made)


def is_built_from(present: Branch, head: CommitId, sealed: Sequence[StagingToken]) -> bool:
    """Return whether a branch still is what a commit was built from: its head, and these tokens.

    Tokens that were sealed since are newer, so those of the commit must still be the oldest.
    """
    newer = newer_than(present, sealed)
    return present.commit_id == head and (*newer, *sealed) == present.sealed_tokens


def newer_than(branch: Branch, sealed: Sequence[StagingToken]) -> tuple[StagingToken, ...]:
    """Return the sealed tokens of a branch above its oldest ones, `sealed`."""
    return branch.sealed_tokens[: len(branch.sealed_tokens) - len(sealed)]


def follow_head(
    txn: WriteTransaction, before: Branch, after: Branch, *, has_seen: bool = True
) -> None:
    """Record that the staging areas of a branch have seen its new head, where they have.

    Areas without changes have, and so have those that were started on the old head, if the new
    one holds only what staged changes could be written on top of. Other areas keep the commit
    they were started on, and committing them checks what happened since. Changes that are staged
    while a merge or an import runs have not seen its result.

    Args:
        txn: the transaction that moves the branch.
        before: the branch before.
        after: the branch now.
        has_seen: whether areas that were started on the old head have seen the new one.
    """
    for token in (after.staging_token, *after.sealed_tokens):
        if area.is_empty(txn, token):
            move_on(txn, token, after.commit_id)
        elif has_seen:
            move_on(txn, token, after.commit_id, since=before.commit_id)

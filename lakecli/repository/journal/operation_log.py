"""Appending operations to the log of a repository, and this machine's clock, which dates them.

Commits, moves and operations are dated by this machine. Each response of a store has the store's
time, so comparing the clocks takes no request; a directory has this machine's clock.

An operation owns the staging tokens that it sealed, until it expires. The functions on tokens say
which branch one belongs to, the commit it was started on, and what a move of the branch makes of
them. A commit of a part of what is staged copies the rest to tokens that belong to no branch until
it lands, and so do the changes of a workspace (`lakecli.repository.journal.workspaces`). A row for
each of them outlives a killed process, and housekeeping finds it::

    TOKENS  token                 -> repository, branch, and the commit it was started on, in JSON;
                                     a kept count (`lakecli.repository.staged.counts`)
    META    copy/REPOSITORY TOKEN -> when the copy was made, unix seconds
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeVar

from lakecli.base.model import Branch, CommitId, RefKind, StagingToken, Tag
from lakecli.kv import operations as log
from lakecli.kv.local_store import ReadTransaction, Table, WriteTransaction
from lakecli.kv.operations import Operation, RefChange, StagingChange
from lakecli.refs.ref_store import branch_fields, tag_fields
from lakecli.repository.contract import Notice, Repository
from lakecli.repository.readable import Refs
from lakecli.staging import area
from lakecli.stores.capabilities import store_time
from lakecli.stores.uri import is_local

SKIPPED: Final = "no_verify"
"""The key in the metadata of an operation that was done without its hooks."""

_COPY: Final = b"copy/"

ABANDONED_AFTER: Final = timedelta(days=1)
"""How long after a copy was made its commit is taken for killed."""

CLOCK_LIMIT: Final = timedelta(hours=1)
"""The largest accepted difference between the clocks of this machine and of the store."""

CLOCK_FIX: Final = "set the clock of this machine, for example with `timedatectl set-ntp true`"


def append(
    txn: WriteTransaction,
    repository: Repository,
    *,
    kind: str,
    refs: Sequence[RefChange] = (),
    staging: Sequence[StagingChange] = (),
    sealed: Sequence[StagingToken] = (),
    metadata: Mapping[str, str] | None = None,
    id: bytes | None = None,
) -> Operation:
    """Append an operation to the log, in the transaction that makes its changes.

    It is dated by this machine's clock, and has the command line of `Runtime.command`. A command
    that moves refs calls `lakecli.repository.journal.unsent_moves.append_moves` instead; where the
    bucket has a move already, `drop_notes` of that module follows.

    Args:
        sealed: tokens that belong to the operation from now on, until it expires.
        id: the ID under which images were saved already; ``None``: a fresh one.
    """
    lake = repository.lake
    operation = log.Operation(
        id=lake.runtime.new_id() if id is None else id,
        repository=repository.key,
        at=lake.runtime.now(),
        command=lake.runtime.command,
        kind=kind,
        refs=tuple(refs),
        staging=tuple(staging),
        sealed=tuple(sealed),
        metadata=dict(metadata or {}) | ({SKIPPED: "true"} if repository.skips_hooks else {}),
    )
    notify_clock(repository)
    tidy_after(txn, repository)
    return log.append(txn, operation)


def tidy_after(txn: WriteTransaction, repository: Repository) -> None:
    """Let expired operations be deleted once a transaction is durable that adds to the log."""
    txn.afterwards = partial(repository.lake.tidy, repository)


Ref = TypeVar("Ref", Branch, Tag)


def branch_change(before: Branch | None, after: Branch | None) -> RefChange:
    """Describe how a branch changed; ``None`` for its absence."""
    return _change(RefKind.BRANCH, before, after, branch_fields)


def tag_change(before: Tag | None, after: Tag | None) -> RefChange:
    """Describe how a tag changed; ``None`` for its absence."""
    return _change(RefKind.TAG, before, after, tag_fields)


def _change(
    kind: RefKind, before: Ref | None, after: Ref | None, fields_of: Callable[[Ref], dict[str, Any]]
) -> RefChange:
    name = before.name if before is not None else after.name if after is not None else ""
    return RefChange(kind, name, before and fields_of(before), after and fields_of(after))


def start_token(
    txn: WriteTransaction, repository: Repository, branch: str, head: CommitId, **more: object
) -> StagingToken:
    """Make a fresh token for a branch whose head is `head`; its row has further fields."""
    token = StagingToken(repository.lake.runtime.new_id())
    fields = {"repository": repository.record.uuid, "branch": branch, "started_on": head, **more}
    put_token_fields(txn, token, fields)
    return token


def new_branch(txn: WriteTransaction, repository: Repository, name: str, head: CommitId) -> Branch:
    """Return a branch at a commit, with a fresh token, for the caller to write."""
    return Branch(name, head, start_token(txn, repository, name, head))


def token_fields(txn: ReadTransaction, token: StagingToken) -> dict[str, Any]:
    """Return the fields of a token's row; none for an unknown token."""
    data = txn.get(Table.TOKENS, token)
    return {} if data is None else json.loads(data)


def put_token_fields(txn: WriteTransaction, token: StagingToken, fields: dict[str, Any]) -> None:
    """Write the row of a token."""
    txn.put(Table.TOKENS, token, json.dumps(fields, separators=(",", ":")).encode())


def started_on(txn: ReadTransaction, token: StagingToken) -> CommitId | None:
    """Return the commit that a token was started on, or ``None`` for an unknown token."""
    started = token_fields(txn, token).get("started_on")
    return None if started is None else CommitId(started)


def move_token_on(
    txn: WriteTransaction, token: StagingToken, head: CommitId, *, since: CommitId | None = None
) -> None:
    """Record a token as started on `head`, because what is staged there has seen `head`.

    Args:
        since: do it only if the token was started on this commit; ``None``: always.
    """
    fields = token_fields(txn, token)
    if fields and since in {None, fields["started_on"]}:
        put_token_fields(txn, token, fields | {"started_on": head})


def outdate(txn: WriteTransaction, repository: Repository, branch: Branch) -> Branch:
    """Return a branch with an empty area below its sealed ones, for the caller to write.

    Every write to a sealed area needs this: a commit under way that was built from the sealed areas
    finds that they are no longer the oldest, and builds again.
    """
    beneath = start_token(txn, repository, branch.name, branch.commit_id)
    return branch._replace(sealed_tokens=(*branch.sealed_tokens, beneath))


def forget_token(txn: WriteTransaction, token: StagingToken) -> None:
    """Drop a token's row; its staged records go with `lakecli.staging.area.drop`."""
    txn.delete(Table.TOKENS, token)


def note_copies(
    txn: WriteTransaction,
    repository: Repository,
    tokens: Sequence[StagingToken],
    *,
    kept_for: timedelta = ABANDONED_AFTER,
) -> None:
    """Record that tokens belong to a commit that has not landed yet, as of now."""
    made = repository.lake.runtime.now() + kept_for - ABANDONED_AFTER
    for token in tokens:
        txn.put(Table.META, _COPY + repository.key + token, b"%d" % made.timestamp())


def are_noted(txn: ReadTransaction, repository: Refs, tokens: Sequence[StagingToken]) -> bool:
    """Return whether every copy is still there; housekeeping deletes those that look abandoned."""
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


def follow_head(txn: WriteTransaction, branch: Branch, *, since: CommitId | None = None) -> None:
    """Record that the staging areas of a branch have seen its new head, where they have.

    Areas without changes have. Others keep the commit they were started on, and committing them
    checks what happened since. Changes that are staged while a merge or an import runs have not
    seen its result.

    Args:
        since: the old head, if the new one holds only what staged changes could be written on top
            of: then areas that were started on the old head have seen the new one, too.
    """
    for token in (branch.staging_token, *branch.sealed_tokens):
        if area.is_empty(txn, token):
            move_token_on(txn, token, branch.commit_id)
        elif since is not None:
            move_token_on(txn, token, branch.commit_id, since=since)


def notify_clock(repository: Repository) -> None:
    """Add a notice if this machine's clock is wrong, compared with a store that has answered."""
    store = repository.store_in_use
    if store is None or is_local(store.uri) or (there := store_time(store)) is None:
        return
    ahead = there - repository.lake.runtime.clock()
    if abs(ahead) > CLOCK_LIMIT:
        message = f"{wrong_by(ahead)}; the dates that this command writes are wrong for everybody"
        if not any(notice.hint == CLOCK_FIX for notice in repository.notices):
            repository.notify(Notice(message, CLOCK_FIX))


def wrong_by(ahead: timedelta) -> str:
    """Describe how far the store's clock is ahead of this machine's."""
    side = "behind" if ahead > timedelta(0) else "ahead of"
    return f"this machine's clock is {_shown(abs(ahead))} {side} that of the store"


def _shown(difference: timedelta) -> str:
    if difference >= timedelta(days=2):
        return f"{difference / timedelta(days=1):.0f} days"
    return f"{difference / timedelta(hours=1):.0f} hours"

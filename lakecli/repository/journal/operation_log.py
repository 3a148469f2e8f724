"""Append operations to the log of a repository; check the clock that dates them.

Commits, moves and operations are dated by this machine. Each response of a store has the store's
time, so comparing the clocks takes no request; a local directory has the clock of this machine.

An operation owns the staging tokens that it sealed, until the operation expires. A token's row has
its branch, and the commit on which its staging area was started; functions of this module update
the row when the branch moves. A commit of some of the staged paths copies the other changes to new
tokens.
These copies belong to no branch until the commit lands. The changes of a workspace belong to no
branch, either (`lakecli.repository.journal.workspaces`). Each copy has a row in META that outlives
a killed process, so that housekeeping finds the copy::

    TOKENS  token                 -> repository, branch, and the commit it was started on, in JSON;
                                     a kept count (`lakecli.repository.staged.counts`)
    META    copy/REPOSITORY TOKEN -> when the copy was made, unix seconds
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final

from lakecli.base.model import Branch, CommitId, RefKind, StagingToken, Tag
from lakecli.kv import operations as log
from lakecli.kv.local_store import ReadTransaction, Table, WriteTransaction
from lakecli.kv.operations import Operation, RefChange, StagingChange
from lakecli.refs.ref_store import ref_fields
from lakecli.repository.contract import Repository
from lakecli.repository.readable import Refs
from lakecli.staging import area
from lakecli.stores.capabilities import store_time
from lakecli.stores.uri import is_local

Ref = Branch | Tag

SKIPPED: Final = "no_verify"
"""The metadata key that marks an operation whose hooks were skipped."""

_COPY: Final = b"copy/"

ABANDONED_AFTER: Final = timedelta(days=1)
"""The age at which a copy counts as abandoned: the command that made it was probably killed."""

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

    The operation has the date of this machine's clock and the command line of `Runtime.command`. A
    command that moves refs calls `lakecli.repository.journal.unsent_moves.note` afterwards or, if
    the move was already made in the bucket, `drop_notes`.

    Args:
        sealed: staging tokens that the operation owns until it expires.
        id: the ID under which images of the operation were saved already; ``None``: a new ID.
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
    """Delete expired operations as soon as `txn`, which appends to the log, is durable."""
    txn.afterwards = partial(repository.lake.tidy, repository)


def ref_change(before: Ref | None, after: Ref | None) -> RefChange:
    """Return the change of a ref; `before` is ``None`` for a new ref, `after` for a deleted ref."""
    ref = before or after
    assert ref is not None
    kind = RefKind.BRANCH if isinstance(ref, Branch) else RefKind.TAG
    return RefChange(kind, ref.name, before and ref_fields(before), after and ref_fields(after))


def change_ref(
    txn: WriteTransaction, repository: Repository, before: Ref | None, after: Ref | None
) -> RefChange:
    """Create, move or delete a branch or tag here; return the change, to be logged.

    Args:
        before: the ref as it is; ``None``: a new ref.
        after: the ref to write; ``None``: delete the ref.
    """
    refs = repository.refs(txn)
    if isinstance(after, Branch):
        refs.put_branch(after)
    elif after is not None:
        refs.put_tag(after)
    elif isinstance(before, Branch):
        refs.delete_branch(before.name)
    elif before is not None:
        refs.delete_tag(before.name)
    return ref_change(before, after)


def start_token(
    txn: WriteTransaction, repository: Repository, branch: str, head: CommitId, **more: object
) -> StagingToken:
    """Make a new token for a branch whose head is `head`; `more` are further fields of its row."""
    token = StagingToken(repository.lake.runtime.new_id())
    fields = {"repository": repository.record.uuid, "branch": branch, "started_on": head, **more}
    put_token_fields(txn, token, fields)
    return token


def new_branch(txn: WriteTransaction, repository: Repository, name: str, head: CommitId) -> Branch:
    """Return a branch at a commit, with a new token; the caller writes the branch."""
    return Branch(name, head, start_token(txn, repository, name, head))


def token_fields(txn: ReadTransaction, token: StagingToken) -> dict[str, Any]:
    """Return the fields of a token's row; empty for an unknown token."""
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
    """Record that the changes staged under a token are based on the commit `head`.

    Args:
        since: record it only if the token was started on this commit; ``None``: always.
    """
    fields = token_fields(txn, token)
    if fields and since in {None, fields["started_on"]}:
        put_token_fields(txn, token, fields | {"started_on": head})


def outdate(txn: WriteTransaction, repository: Repository, branch: Branch) -> Branch:
    """Return a branch with an empty area below its sealed areas; the caller writes the branch.

    Every write to a sealed area needs this: a commit under way that was built from the sealed areas
    then finds that they are no longer the oldest areas, and is built again.
    """
    beneath = start_token(txn, repository, branch.name, branch.commit_id)
    return branch._replace(sealed_tokens=(*branch.sealed_tokens, beneath))


def forget_token(txn: WriteTransaction, token: StagingToken) -> None:
    """Delete a token's row; `lakecli.staging.area.drop` deletes its staged records."""
    txn.delete(Table.TOKENS, token)


def note_copies(
    txn: WriteTransaction,
    repository: Repository,
    tokens: Sequence[StagingToken],
    *,
    kept_for: timedelta = ABANDONED_AFTER,
) -> None:
    """Record that copies of staged changes were made now, for an unfinished commit.

    Args:
        kept_for: how long housekeeping keeps the copies.
    """
    made = repository.lake.runtime.now() + kept_for - ABANDONED_AFTER
    for token in tokens:
        txn.put(Table.META, _COPY + repository.key + token, b"%d" % made.timestamp())


def are_noted(txn: ReadTransaction, repository: Refs, tokens: Sequence[StagingToken]) -> bool:
    """Return whether all copies of staged changes still exist.

    Housekeeping deletes copies that look abandoned.
    """
    return all(txn.get(Table.META, _COPY + repository.key + token) for token in tokens)


def settle_copy(txn: WriteTransaction, repository: Repository, token: StagingToken) -> None:
    """Delete the note of a copy, which now belongs to a branch, or was deleted."""
    txn.delete(Table.META, _COPY + repository.key + token)


def iter_copies(txn: ReadTransaction, repository: Repository) -> Iterator[tuple[StagingToken, int]]:
    """Yield the token of each copy that belongs to no branch, and its time in unix seconds."""
    lead = _COPY + repository.key
    for key, made in txn.scan(Table.META, prefix=lead):
        yield StagingToken(key[len(lead) :]), int(made)


def is_built_from(present: Branch, head: CommitId, sealed: Sequence[StagingToken]) -> bool:
    """Return whether a branch still has the head and sealed tokens that a commit was built from.

    Tokens that were sealed later are newer, so the commit's tokens must still be the oldest.
    """
    newer = present.sealed_tokens[: len(present.sealed_tokens) - len(sealed)]
    return present.commit_id == head and (*newer, *sealed) == present.sealed_tokens


def follow_head(txn: WriteTransaction, branch: Branch, *, since: CommitId | None = None) -> None:
    """Update the base commits of a branch's staging areas after the head of the branch has moved.

    Areas without changes get the new head as their base. Areas with changes keep the commit that
    they were started on: changes that are staged while a merge or an import runs are not based on
    its result. When they are committed, conflicts with the commits in between are detected.

    Args:
        since: the old head, if the new head differs from it only by committed staged changes. Then
            areas that were started on the old head are based on the new head, too.
    """
    for token in branch.tokens:
        if area.is_empty(txn, token):
            move_token_on(txn, token, branch.commit_id)
        elif since is not None:
            move_token_on(txn, token, branch.commit_id, since=since)


def notify_clock(repository: Repository) -> None:
    """Add a notice if this machine's clock differs by more than `CLOCK_LIMIT` from the store's."""
    store = repository.store_in_use
    if store is None or is_local(store.uri) or (there := store_time(store)) is None:
        return
    ahead = there - repository.lake.runtime.clock()
    if abs(ahead) > CLOCK_LIMIT:
        message = f"{wrong_by(ahead)}; the dates that this command writes are wrong for everybody"
        if not any(notice.hint == CLOCK_FIX for notice in repository.notices):
            repository.notify(message, CLOCK_FIX)


def wrong_by(ahead: timedelta) -> str:
    """Describe how far the store's clock is ahead of this machine's."""
    side = "behind" if ahead > timedelta(0) else "ahead of"
    return f"this machine's clock is {_shown(abs(ahead))} {side} that of the store"


def _shown(difference: timedelta) -> str:
    if difference >= timedelta(days=2):
        return f"{difference / timedelta(days=1):.0f} days"
    return f"{difference / timedelta(hours=1):.0f} hours"

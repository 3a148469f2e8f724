"""Commits and pushes on their way to the bucket, and local commands that would take them back.

A shared commit is recorded as an intent, then sent, then landed here. Between the first request
and the outcome, its branch must keep the head and the sealed areas that it was built from. A reset
or undo of those would report success, and the commit would still arrive with the discarded changes.

- Right before each request `mark_sent` compares the branch with what the commit was built from, in
  one transaction that marks the row as sent. If a command has changed the branch before, the commit
  is outdated: it is built again.
- A command that would change the branch later finds the mark (`check_none_sent`), asks the bucket
  what became of the commit, and is refused if the outcome is still open.
- An explicit push is marked in the same way, if the ref here reaches what is pushed. An undo that
  would put the ref below that is refused while the outcome is open (`check_none_taken_back`).
- A mark older than `STALE_AFTER` is that of a process that was killed. Its row is deleted; should
  the process still run, it finds no row before its next request and gives up.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from lakecli.base.model import CommitId, RefKind
from lakecli.errors import LostRace, Unreachable
from lakecli.kv.env import Table, WriteTransaction
from lakecli.refs.graph import is_ancestor
from lakecli.refs.ref_store import RefStore
from lakecli.remote.move import Intent
from lakecli.repository.pending import intents
from lakecli.repository.pending.branch_moves import is_built_from
from lakecli.repository.pending.intents import Begun, finish_pending

if TYPE_CHECKING:
    from lakecli.repository.contract import Repository

R_co = TypeVar("R_co", covariant=True)

STALE_AFTER: Final = timedelta(minutes=5)
"""Longer than any single request takes; every repetition of a request renews the mark."""


class CommitUnderWay(LostRace):
    """Another process is sending a commit, or pushing a ref, to the bucket."""


def mark_sent(txn: WriteTransaction, repository: Repository, begun: Begun) -> bool:
    """Mark a move as sent if the ref here still stands for it; return whether it does.

    The branch of a commit must be what the commit was built from. A ref that is pushed must stand
    on what is pushed, or be a branch that has moved on from there.

    Args:
        txn: the transaction right before the request.
        repository: the repository of the ref.
        begun: the move, to a commit.
    """
    intent = begun.intent
    if intent.after is None:
        return False
    refs = RefStore(txn, repository.key)
    if begun.landing is None:
        here = refs.position(intent.kind, intent.name)
        if not _stands_for(txn, repository, intent, here):
            return False
    else:
        branch = refs.find_branch(intent.name)
        built_on = refs.get_commit(intent.after).parents[0]
        if branch is None or not is_built_from(branch, built_on, begun.landing.sealed):
            return False
    return intents.mark_sent(txn, repository, begun, repository.lake.now())


def check_none_sent(
    txn: WriteTransaction,
    repository: Repository,
    branch: str,
    *,
    has_asked: bool = False,
    ignores_stale: bool = False,
) -> None:
    """Refuse to change a branch while a commit of it is on its way to the bucket.

    Args:
        txn: the transaction that is to change the branch.
        repository: the repository of the branch.
        branch: its name.
        has_asked: whether the bucket was asked what became of the commit; a stale one is dropped
            then.
        ignores_stale: let a stale one pass, and leave it to a later command.

    Raises:
        CommitUnderWay: naming the commit.
    """
    for begun in _iter_open(
        txn, repository, RefKind.BRANCH, branch, has_asked=has_asked, ignores_stale=ignores_stale
    ):
        if begun.landing is not None:
            raise _under_way(begun, begun.landing.operation)


def check_none_taken_back(
    txn: WriteTransaction,
    repository: Repository,
    kind: RefKind,
    name: str,
    *,
    to: CommitId | None,
    has_asked: bool = False,
) -> None:
    """Refuse to move a ref back here while a push of what it stands on is on its way to the bucket.

    Args:
        txn: the transaction that is to move the ref.
        repository: the repository of the ref.
        kind: ``branch`` or ``tag``.
        name: the name of the ref.
        to: its new position; ``None``: it is deleted.
        has_asked: whether the bucket was asked what became of the push; a stale one is dropped
            then.

    Raises:
        CommitUnderWay: naming the commit that is pushed.
    """
    for begun in _iter_open(txn, repository, kind, name, has_asked=has_asked):
        if begun.landing is None and not _stands_for(txn, repository, begun.intent, to):
            raise _under_way(begun, "push")


def _iter_open(
    txn: WriteTransaction,
    repository: Repository,
    kind: RefKind,
    name: str,
    *,
    has_asked: bool,
    ignores_stale: bool = False,
) -> Iterator[Begun]:
    """Yield the moves of a ref that were sent and whose outcome is open; drop stale ones."""
    if not txn.has_owned(Table.INTENTS, repository.key):
        return  # a command that shares nothing imports nothing of sharing

    now = repository.lake.now()
    for begun in list(intents.iter_begun(txn, repository)):
        if begun.sent is None or (begun.intent.kind, begun.intent.name) != (kind, name):
            continue
        if abs(now - begun.sent) > STALE_AFTER:
            if ignores_stale:
                continue
            if has_asked:
                intents.drop(txn, repository, begun)
                continue
        yield begun


def _stands_for(
    txn: WriteTransaction, repository: Repository, intent: Intent, position: CommitId | None
) -> bool:
    """Return whether a ref at a position still is what a push sends, or a branch ahead of it.

    A deletion is sent whatever stands here. Where a branch is moved back, the commits that it is
    moved away from are ahead too; yet a ref that stands on one of them again was put back.
    """
    before, after = intent.before, intent.after
    if after is None or position == after:
        return True
    refs = RefStore(txn, repository.key)
    is_branch = intent.kind is RefKind.BRANCH
    if position is None or not is_branch or not is_ancestor(refs, after, position):
        return False
    if before is None or is_ancestor(refs, before, after):
        return True
    return not (is_ancestor(refs, before, position) or is_ancestor(refs, position, before))


def _under_way(begun: Begun, what: str) -> CommitUnderWay:
    minutes = STALE_AFTER // timedelta(minutes=1)
    return CommitUnderWay(
        f"a {what} of {begun.intent.kind} {begun.intent.name} is on its way to the bucket: "
        f"{begun.intent.after}",
        hint="nothing was changed here; try again when it has ended, or after "
        f"{minutes} minutes if it was interrupted",
    )


class Act(Protocol[R_co]):
    """A change of refs that must not meet a commit or a push under way."""

    def __call__(self, *, has_asked: bool) -> R_co:
        """Make it; `has_asked`: the bucket was asked what became of those."""


def when_none_under_way(repository: Repository, act: Act[R_co]) -> R_co:
    """Change refs; if a commit or push of one is under way, ask the bucket what became of it.

    Args:
        repository: the repository of the refs.
        act: makes the change, in one transaction.

    Raises:
        CommitUnderWay: it still is, or the bucket cannot be asked; nothing was changed.
    """
    try:
        return act(has_asked=False)
    except CommitUnderWay as under_way:
        try:
            finish_pending(repository)
        except Unreachable:
            raise under_way from None
    return act(has_asked=True)

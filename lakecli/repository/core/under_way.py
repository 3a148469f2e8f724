"""Commits on their way to the bucket, and local commands that change what they were built from.

A shared commit is recorded as an intent, then sent, then landed here. Between the first request
and the outcome, its branch must keep the head and the sealed areas that it was built from. A reset
or undo of those would report success, and the commit would still arrive with the discarded changes.

- Right before each request `mark_sent` compares the branch with what the commit was built from, in
  one transaction that marks the row as sent. If a command has changed the branch before, the commit
  is outdated: it is built again.
- A command that would change the branch later finds the mark (`check_none_sent`), asks the bucket
  what became of the commit, and is refused if the outcome is still open.
- A mark older than `STALE_AFTER` is that of a process that was killed. Its row is deleted; should
  the process still run, it finds no row before its next request and gives up.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from lakecli.errors import LostRace, Unreachable
from lakecli.kv.intents import IntentStore
from lakecli.model import RefKind

if TYPE_CHECKING:
    from lakecli.kv.env import WriteTransaction
    from lakecli.repository.core.intents import Begun
    from lakecli.repository.core.lake import Repository

R_co = TypeVar("R_co", covariant=True)

STALE_AFTER: Final = timedelta(minutes=5)
"""Longer than any single request takes; every repetition of a request renews the mark."""


class CommitUnderWay(LostRace):
    """Another process is sending a commit of the branch to the bucket."""


def mark_sent(txn: WriteTransaction, repository: Repository, begun: Begun) -> bool:
    """Mark a commit as sent if its branch still is what it was built from; return whether it is.

    Args:
        txn: the transaction right before the request.
        repository: the repository of the branch.
        begun: the move, with its landing.
    """
    from lakecli.refs.ref_store import RefStore
    from lakecli.repository.core import intents
    from lakecli.repository.core.landing import is_built_from

    if begun.landing is None or begun.intent.after is None:
        return False
    refs = RefStore(txn, repository.key)
    branch = refs.find_branch(begun.intent.name)
    built_on = refs.get_commit(begun.intent.after).parents[0]
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
    if IntentStore(txn, repository.key).is_empty():
        return  # a command that shares nothing imports nothing of sharing
    from lakecli.repository.core import intents

    now = repository.lake.now()
    for begun in list(intents.iter_begun(txn, repository)):
        is_of_branch = (begun.intent.kind, begun.intent.name) == (RefKind.BRANCH, branch)
        if begun.landing is None or begun.sent is None or not is_of_branch:
            continue
        if abs(now - begun.sent) > STALE_AFTER:
            if ignores_stale:
                continue
            if has_asked:
                intents.drop(txn, repository, begun)
                continue
        minutes = STALE_AFTER // timedelta(minutes=1)
        raise CommitUnderWay(
            f"a {begun.landing.operation} of branch {branch} is on its way to the bucket: "
            f"{begun.intent.after}",
            hint="nothing was changed here; try again when it has ended, or after "
            f"{minutes} minutes if it was interrupted",
        )


class Act(Protocol[R_co]):
    """A change of a branch that must not meet a commit under way."""

    def __call__(self, *, has_asked: bool) -> R_co:
        """Make it; `has_asked`: the bucket was asked what became of such commits."""


def when_none_under_way(repository: Repository, act: Act[R_co]) -> R_co:
    """Change a branch; if a commit of it is under way, ask the bucket first what became of it.

    Args:
        repository: the repository of the branch.
        act: makes the change, in one transaction.

    Raises:
        CommitUnderWay: it still is, or the bucket cannot be asked; nothing was changed.
    """
    try:
        return act(has_asked=False)
    except CommitUnderWay as under_way:
        from lakecli.repository.core.pending import finish_pending

        try:
            finish_pending(repository)
        except Unreachable:
            raise under_way from None
    return act(has_asked=True)

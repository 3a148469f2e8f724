"""Commits on their way to the bucket, and local commands that change what they were built from.

A shared commit is written down, then sent, then landed here. Between the first request and the
outcome, its branch must keep the head and the sealed areas that it was built from: whoever reset
or undid them would report success, and the commit would arrive with what was thrown away.

- Right before each request `mark_sent` compares the branch with what the commit was built from, in
  one transaction that marks the row as sent. A command that changed the branch earlier has made the
  commit outdated: it is built again.
- A command that would change the branch later finds the mark (`check_none_sent`), asks the bucket
  what became of the commit, and is refused if that cannot be told yet.
- A mark older than `STALE_AFTER` is that of a process that was killed. Its row is deleted; should
  the process still be there, it finds no row before its next request and gives up.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from lakecli.errors import LostRace, Unreachable
from lakecli.kv.intents import IntentStore
from lakecli.model import StagingToken
from lakecli.refs.store import RefStore

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
    """Mark a commit as sent if its branch still is what it was built from; tell whether it is.

    Args:
        txn: the transaction right before the request.
        repository: whose branch.
        begun: the move, with what is to happen here.
    """
    from lakecli.repository.core.transaction import is_built_from

    rows = IntentStore(txn, repository.key)
    fields = rows.find(begun.id)
    if fields is None or begun.local is None or begun.intent.after is None:
        return False
    refs = RefStore(txn, repository.key)
    branch = refs.find_branch(begun.intent.name)
    built_on = refs.get_commit(begun.intent.after).parents[0]
    sealed = [StagingToken(bytes.fromhex(token)) for token in begun.local["sealed"]]
    if branch is None or not is_built_from(branch, built_on, sealed):
        return False
    rows.put(begun.id, {**fields, "sent": int(repository.lake.now().timestamp())})
    return True


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
        repository: whose branch.
        branch: its name.
        has_asked: the bucket was asked what became of it; a stale one is given up then.
        ignores_stale: let a stale one pass, and leave it to a later command.

    Raises:
        CommitUnderWay: naming the commit.
    """
    rows = IntentStore(txn, repository.key)
    now = int(repository.lake.now().timestamp())
    for id_, fields in list(rows.iter()):
        # Notes of refs that are still to be sent have neither; older versions did not say "sent".
        local, sent = fields.get("local"), fields.get("sent", fields.get("at"))
        if not local or sent is None or (fields["kind"], fields["name"]) != ("branch", branch):
            continue
        if abs(now - sent) > STALE_AFTER.total_seconds():
            if ignores_stale:
                continue
            if has_asked:
                rows.delete(id_)
                continue
        minutes = STALE_AFTER // timedelta(minutes=1)
        raise CommitUnderWay(
            f"a {local['operation']} of branch {branch} is on its way to the bucket: "
            f"{fields['after']}",
            hint="nothing was changed here; try again when it has ended, or, if it was "
            f"interrupted, after {minutes} minutes",
        )


class Act(Protocol[R_co]):
    """What needs a branch without a commit under way."""

    def __call__(self, *, has_asked: bool) -> R_co:
        """Do it; `has_asked` tells whether the bucket was asked what became of such commits."""


def once_settled(repository: Repository, act: Act[R_co]) -> R_co:
    """Do what needs a branch without a commit under way; where there is one, ask what became of it.

    Args:
        repository: whose branch.
        act: does it, in a transaction of its own.

    Raises:
        CommitUnderWay: it still is, or the bucket cannot be asked; nothing was done.
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

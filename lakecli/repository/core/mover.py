"""Moving a branch to a commit that was built: the protocol, and its form for this machine alone.

A commit takes one way, in two forms:

1. `lakecli.repository.core.transaction` seals, builds the tree (its ranges are durable in the
   storage namespace) and makes the commit. It hands branch, commit and `Landing` to the mover of
   the `Repository` that it was given.
2. `LocalMover` compares the branch with what the commit was built from and lands the commit in one
   transaction of the local store. That makes it durable. A crash before leaves sealed changes.
3. `lakecli.repository.sharing.mover.SharedMover` writes the commit and an intent, which holds the
   `Landing`, to the local store; moves the branch in the bucket by compare-and-set, which makes
   the commit durable for everybody; and lands it in the transaction that deletes the intent.
   A crash before the bucket's reply leaves the intent. The next command asks the bucket what became
   of the move, and lands it or gives it up (`lakecli.repository.core.pending`).

Both forms land by `lakecli.repository.core.landing.land`, the only code that does. A `Repository`
gets its mover when it is made and keeps it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from lakecli.errors import LakeError
from lakecli.kv.env import Table, WriteTransaction

if TYPE_CHECKING:
    from lakecli.base.model import Branch, Commit
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.core.landing import Landing
    from lakecli.repository.core.pending import Finished
    from lakecli.repository.core.unsent import Unsent


class Resumed(NamedTuple):
    """A note that an earlier command left, and that was sent or refused.

    Attributes:
        note: the move.
        error: why the bucket refused it; ``None``: it has it.
    """

    note: Unsent
    error: LakeError | None


class CaughtUp(NamedTuple):
    """What became of what earlier commands left.

    Attributes:
        finished: moves whose outcome was not recorded.
        unsent: why refs that were moved here are not in the bucket.
    """

    finished: tuple[Finished, ...] = ()
    unsent: tuple[LakeError, ...] = ()


class BranchMover(Protocol):
    """Moves branches to the commits that were built for them."""

    @property
    def command_id(self) -> bytes | None:
        """Random bytes that identify the command whose moves go to the bucket.

        ``None``: they stay on this machine.
        """

    def catch_up(self, repository: Repository) -> CaughtUp:
        """Finish what earlier commands left, fetch, and let local refs follow the bucket.

        Moves that earlier commands made and could not send are sent. Where one cannot be, its
        error is in the result, and the others are tried.

        Raises:
            Unreachable: the store does not answer; everything here is as it was.
            PermissionDenied: reading or listing is not allowed; everything here is as it was.
        """

    def move(
        self, repository: Repository, branch: Branch, commit: Commit, landing: Landing
    ) -> bool:
        """Move a branch to a commit, and return whether it moved.

        If not, another process or another machine moved it first, and the commit has to be built
        again; this machine's branch has followed the bucket by then, as far as it could.

        Args:
            repository: the repository of the branch.
            branch: as the commit was built from it.
            commit: not in the local store yet.
            landing: what the move changes on this machine besides the head.

        Raises:
            NotFound: the branch was deleted meanwhile.
            CommitUnderWay: another process is sending a commit of the branch to the bucket.
            LostRace: the branch has commits that were never pushed, so it cannot follow.
            OutcomeUnknown: the next command finds out whether it moved.
            Unreachable: nothing moved.
        """

    def take_resumed(self) -> tuple[Resumed, ...]:
        """Return what `catch_up` has resumed, the first time; then nothing."""

    def finish(self, repository: Repository) -> None:
        """Send the moves that were made here and noted; called when the command has succeeded.

        Raises:
            LostRace, AlreadyExists: a move would undo others' moves; it was not sent.
            OutcomeUnknown: the next command finds out.
            Unreachable, PermissionDenied, …: a move was not sent; the next command tries again.
        """


class LocalMover:
    """Moves branches in the local store only."""

    @property
    def command_id(self) -> None:
        """``None``: nothing goes to the bucket."""
        return

    def catch_up(self, repository: Repository) -> CaughtUp:
        """Do nothing: nothing is fetched."""
        del repository
        return CaughtUp()

    def move(
        self, repository: Repository, branch: Branch, commit: Commit, landing: Landing
    ) -> bool:
        """Compare the branch with what the commit was built from, and land the commit."""
        repository.lake.runtime.on_step("move")
        with repository.lake.kv.write() as txn:
            # A command that shares nothing imports nothing of sharing.
            if not txn.has_owned(Table.INTENTS, repository.key):
                return _compare_and_land(txn, repository, branch, commit, landing)
        from lakecli.repository.core.under_way import check_none_sent, when_none_under_way

        def act(*, has_asked: bool) -> bool:
            del has_asked
            with repository.lake.kv.write() as txn:
                check_none_sent(txn, repository, branch.name, ignores_stale=True)
                return _compare_and_land(txn, repository, branch, commit, landing)

        return when_none_under_way(repository, act)

    def take_resumed(self) -> tuple[Resumed, ...]:
        """Return nothing: nothing was to be sent."""
        return ()

    def finish(self, repository: Repository) -> None:
        """Do nothing: nothing is to be sent."""


def _compare_and_land(
    txn: WriteTransaction, repository: Repository, branch: Branch, commit: Commit, landing: Landing
) -> bool:
    """Land a commit if the branch still is what it was built from; return whether it is."""
    from lakecli.repository.core import staging_tokens
    from lakecli.repository.core.landing import is_built_from, land
    from lakecli.repository.core.view import branch_at

    present = branch_at(repository, txn, branch.name)
    is_current = is_built_from(
        present, branch.commit_id, landing.sealed
    ) and staging_tokens.are_noted(txn, repository, landing.left)
    if is_current:
        land(txn, repository, branch.name, commit, landing)
    return is_current


LOCAL_MOVER: Final = LocalMover()

"""Moving a branch to a commit that was built: the protocol, and its form for this machine alone.

A commit takes one way, in two forms:

1. `lakecli.repository.moving.transaction` seals, builds the tree (its ranges are durable in the
   storage namespace) and makes the commit. It hands branch, commit and `LocalMove` to the mover of
   the `Repository` that it was given.
2. `LocalMover` compares the branch with what the commit was built from and lands the commit in one
   transaction of the local store. That makes it durable. A crash before leaves sealed changes.
3. `lakecli.repository.sharing.automatic.SharedMover` writes the commit and an intent, which holds
   the `LocalMove`, to the local store; moves the branch in the bucket by compare-and-set, which
   makes the commit durable for everybody; and lands it in the transaction that deletes the intent.
   A crash before the bucket's reply leaves the intent. The next command asks the bucket what became
   of the move, and lands it or gives it up (`lakecli.repository.journal.intents`).

Both forms land by `lakecli.repository.journal.intents.land`, the only code that does. A
`Repository` gets its mover when it is made and keeps it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakecli.base.model import Branch, Commit
from lakecli.errors import LakeError
from lakecli.repository.contract import Repository

if TYPE_CHECKING:
    from lakecli.repository.contract import CaughtUp, LocalMove, UnsentMove


class LocalMover:
    """Moves branches in the local store only."""

    command_id = b""
    """Nothing goes to the bucket."""

    def __init__(self) -> None:
        self.resumed: list[tuple[UnsentMove, LakeError | None]] = []

    def catch_up(self, repository: Repository) -> CaughtUp:
        """Do nothing: nothing is fetched."""
        from lakecli.repository.contract import CaughtUp

        del repository
        return CaughtUp()

    def move(
        self, repository: Repository, branch: Branch, commit: Commit, landing: LocalMove
    ) -> bool:
        """Compare the branch with what the commit was built from, and land the commit."""
        # Most commands move no branch, and all of them import this module.
        from lakecli.repository.journal import intents, staging_tokens
        from lakecli.repository.reading.view import branch_at

        repository.lake.runtime.on_step("move")

        def act() -> bool:
            with repository.lake.kv.write() as txn:
                intents.check_none_sent(txn, repository, branch.name, ignores_stale=True)
                present = branch_at(repository, txn, branch.name)
                is_current = staging_tokens.is_built_from(present, branch.commit_id, landing.sealed)
                if not is_current or not staging_tokens.are_noted(txn, repository, landing.left):
                    return False
                intents.land(txn, repository, branch.name, commit, landing)
            return True

        return intents.when_none_under_way(repository, act)

    def finish(self, repository: Repository) -> None:
        """Do nothing: nothing is to be sent."""


LOCAL_MOVER: Final = LocalMover()

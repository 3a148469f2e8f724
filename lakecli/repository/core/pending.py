"""Finishing what an interrupted command left: moves whose outcome was never recorded."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from lakecli.kv.env import Table

if TYPE_CHECKING:
    from lakecli.remote.move import Intent
    from lakecli.repository.core.lake import Repository


class State(StrEnum):
    """What became of a move."""

    APPLIED = "applied"
    LOST = "lost"
    OPEN = "open"


class Finished(NamedTuple):
    """A move that an earlier command began, and what became of it.

    Attributes:
        intent: the move.
        state: ``applied``: it was made, and is recorded now; ``lost``: somebody else moved the ref
            first, and it will never be made; ``open``: it is made when the command is repeated.
    """

    intent: Intent
    state: State

    def text(self) -> str:
        """Return what became of the move, in words."""
        what = f"an interrupted push of {self.intent.kind} {self.intent.name}"
        if self.state is State.APPLIED:
            return f"{what} reached the bucket"
        if self.state is State.LOST:
            return f"{what} failed: somebody else moved it first"
        return f"{what} did not reach the bucket"


def finish_pending(repository: Repository) -> list[Finished]:
    """Find out what became of the moves that interrupted commands began, and record it.

    The bucket is asked only if there are any. Nothing is sent: an open move is made by the command
    that began it, when it is repeated.

    Raises:
        Unreachable: the store does not answer; nothing changed.
    """
    with repository.lake.kv.read() as txn:
        if not txn.has_owned(Table.INTENTS, repository.key):
            return []
        from lakecli.repository.core import intents

        begun = list(intents.iter_begun(txn, repository))
    if not begun:
        return []
    from lakecli.remote.move import Outcome, look_up

    finished = []
    for each in begun:
        result = look_up(repository.store, each.intent)
        if result is None:
            finished.append(Finished(each.intent, State.OPEN))
            continue
        repository.lake.runtime.on_step("track")
        with repository.lake.kv.write() as txn:
            intents.record_outcome(txn, repository, each, result)
        applied = result.outcome == Outcome.APPLIED
        finished.append(Finished(each.intent, State.APPLIED if applied else State.LOST))
    return finished

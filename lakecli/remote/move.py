"""Moving a ref in the bucket: one protocol, and the only code that writes ref objects."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from lakecli.errors import OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from lakecli.model import CommitId
    from lakecli.objectstore.base import ObjectStore
    from lakecli.remote.records import RemoteRef

__all__ = ["Intent", "Outcome", "OutcomeUnknown", "Result", "Retries", "apply", "look_up"]


class Intent(NamedTuple):
    """One move that shall be made, once; written down before `apply` sends anything.

    Attributes:
        kind: ``branch`` or ``tag``.
        name: of the ref.
        write_id: random, 32 hex digits; kept by every repetition of this very move.
        before: where the ref has to stand; ``None``: nowhere, it is not there or deleted.
        after: where it shall go; ``None``: it is deleted.
        who: ``Name <email>``.
        at: when, whole seconds.
        why: what was done: ``push``, ``undo``, …
        pack: the commit pack that was written for it; ``""`` if none was.
        since: the ref's sequence number when this was decided, or any lower one: the move cannot
            be among those up to it, so nobody needs to look there.
    """

    kind: str
    name: str
    write_id: str
    before: CommitId | None
    after: CommitId | None
    who: str
    at: datetime
    why: str
    pack: str = ""
    since: int = 0


class Outcome(StrEnum):
    """What became of a move."""

    APPLIED = "applied"
    LOST = "lost"


class Result(NamedTuple):
    """What became of a move, and the ref as it stands now (``None``: there never was one)."""

    outcome: Outcome
    ref: RemoteRef | None


class Retries(NamedTuple):
    """How long to go on: full jitter, so that many writers spread out.

    Attributes:
        random: gives numbers from 0 to below 1.
        sleep: waits for some seconds.
        attempts: conditional PUTs, at most.
        base: seconds; the longest pause before the first repetition, doubled for each further one.
        cap: seconds; the longest pause of all.
        reads: reads in a row that fail after a PUT was sent, until its outcome is unknown.
    """

    random: Callable[[], float]
    sleep: Callable[[float], None]
    attempts: int = 64
    base: float = 0.2
    cap: float = 20.0
    reads: int = 8

    def pause(self, number: int) -> None:
        """Wait before repetition `number`, counted from 0."""
        longest = min(self.cap, self.base * 2 ** min(number, 32))
        self.sleep(self.random() * longest)


def _no_step(name: str) -> None:
    del name


def apply(
    store: ObjectStore,
    intent: Intent,
    *,
    retries: Retries,
    on_step: Callable[[str], None] = _no_step,
) -> Result:
    """Move a ref by compare-and-set; safe to repeat, with the same intent, after any failure.

    Args:
        store: of the namespace.
        intent: the move.
        retries: how long to go on.
        on_step: told the name of each step before it is taken: ``read``, ``spill``, ``put``,
            ``pause``.

    Returns:
        ``APPLIED`` if the move is among the ref's, by this call or an earlier one, whatever moved
        the ref since; ``LOST`` if the ref does not stand on `Intent.before` and this move can
        never come to be.

    Raises:
        OutcomeUnknown: something was sent, and it cannot be found out what became of it.
        Unreachable: the store does not answer; the move is not made and will not come to be.
        NotOurs: the object in the ref's place is no ref object of ours.
    """
    raise NotImplementedError


def look_up(store: ObjectStore, intent: Intent) -> Result | None:
    """Find out what became of a move that an interrupted command had begun.

    Returns:
        ``APPLIED`` or ``LOST`` as `apply` does; ``None`` if the ref still stands where the move
        was to start: `apply` would go on with it.

    Raises:
        Unreachable: the store does not answer.
        NotOurs: the object in the ref's place is no ref object of ours.
    """
    raise NotImplementedError

"""Moves of refs as tests make and check them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakecli.base.ids import WriteId
from lakecli.base.model import CommitId, RefKind
from lakecli.base.progress import ignore_step
from lakecli.base.retry import REF_MOVES, Retries
from lakecli.errors import LakeError
from lakecli.remote.refs import Intent, MoveOutcome, MoveResult, RefMove, find_ref, iter_moves

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.remote.ref_records import RecordedMove
    from lakecli.stores.contract import ObjectStore

AT = datetime(2026, 11, 20, 15, tzinfo=UTC)
PATIENT = Retries(REF_MOVES, random=lambda: 0.5, sleep=lambda _: None)


def commit(number: int) -> CommitId:
    """Return a commit ID."""
    return CommitId(f"{number:064x}")


def write_id(name: str) -> WriteId:
    """Return the write ID that tests call by this name."""
    return WriteId.of_bytes(name.encode().ljust(16, b"\0"))


def intent(name: str, before: CommitId | None, after: CommitId | None, *, since: int = 0) -> Intent:
    """Return a move of branch main."""
    return Intent(
        kind=RefKind.BRANCH,
        name="main",
        write_id=write_id(name),
        before=before,
        after=after,
        who="Ada <ada@example.com>",
        at=AT,
        why="push",
        since=since,
    )


def move_ref(
    store: ObjectStore,
    wanted: Intent,
    *,
    retries: Retries,
    may_send: Callable[[], bool] = lambda: True,
    on_step: Callable[[str], None] = ignore_step,
) -> MoveResult:
    """Make a move, unless it is given up before a request."""
    on_step("read")
    ref = find_ref(store, wanted.kind, wanted.name)
    move = RefMove(store, wanted, ref, retries=retries, on_step=on_step)
    while (result := move.outcome()) is None:
        if may_send():
            move.send()
        else:
            move.give_up()
    if isinstance(result, LakeError):
        raise result
    return result


def advance(store: ObjectStore, count: int) -> None:
    """Move main to commits 1, 2, … from where there is nothing yet."""
    for number in range(1, count + 1):
        before = commit(number - 1) if number > 1 else None
        wanted = intent(f"old-{number}", before, commit(number), since=number - 1)
        wanted = wanted._replace(at=AT + timedelta(minutes=number))
        assert move_ref(store, wanted, retries=PATIENT).outcome is MoveOutcome.APPLIED


def checked_moves(store: ObjectStore, name: str = "main") -> list[RecordedMove]:
    """Return all moves of a branch, oldest first, once they were seen to be one unbroken chain."""
    ref = find_ref(store, RefKind.BRANCH, name)
    if ref is None:
        return []
    moves = list(iter_moves(store, ref))[::-1]
    assert [move.sequence for move in moves] == list(range(1, len(moves) + 1))
    assert moves[-1].after == ref.commit_id
    position = None
    for move in moves:
        assert move.before == position
        position = move.after
    write_ids = [move.write_id for move in moves]
    assert len(set(write_ids)) == len(write_ids), "a move was made twice"
    return moves

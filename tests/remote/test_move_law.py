"""Any writers, faults and order: each applied move is there once, and its outcome is correct."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakecli.base.model import RefKind
from lakecli.base.retry import Retries, RetryPolicy
from lakecli.errors import LakeError, OutcomeUnknown
from lakecli.remote.ref_records import MAX_MOVES
from lakecli.remote.refs import MoveOutcome, find_ref, look_up_move
from tests.remote.chains import PATIENT, advance, checked_moves, commit, intent, move_ref
from tests.remote.trouble import AMBIGUOUS, Fault, TroubledStore, Turns, Wire
from tests.support.memory_store import MemoryBucket, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakecli.base.model import CommitId
    from lakecli.remote.refs import Intent

_MOVES = 4

put_faults = st.one_of(
    st.none(),
    st.builds(Fault, st.sampled_from(AMBIGUOUS), st.sampled_from(("no", "done"))),
    st.builds(Fault, st.sampled_from(("500", "timeout")), st.just("later")),
    st.just(Fault("403")),
)
get_faults = st.one_of(st.none(), st.none(), st.just(Fault("timeout")), st.just(Fault("500")))
positions = st.sampled_from([None, commit(101), commit(102)])


@pytest.fixture(autouse=True, scope="module")
def _few_reads() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakecli.remote.refs.MOST_READS", 2)
        yield


class _KilledError(BaseException):
    """A process was killed."""


class Plan(NamedTuple):
    """What one writer does.

    Attributes:
        moves: where it wants the ref to go, one move after the other.
        puts: what goes wrong with its PUTs.
        gets: likewise.
        killed: the step at which it is killed; the next command goes on with the same move.
        forgets: it does not know how far the ref was when it decided.
    """

    moves: list[CommitId | None]
    puts: list[Fault | None]
    gets: list[Fault | None]
    killed: int | None
    forgets: bool


class World:
    """A bucket, and the outcomes that its writers got."""

    def __init__(self) -> None:
        self.bucket = MemoryBucket()
        self.wire = Wire()
        self.good = MemoryStore(self.bucket, "ns/")
        self.told: dict[Intent, MoveOutcome | None] = {}  # None: the outcome is unknown

    def writer(self, me: int, plan: Plan) -> Callable[[Callable[[], None]], None]:
        """Return a writer, for `Turns`."""
        faults = {"put": iter(plan.puts), "get": iter(plan.gets)}
        store = TroubledStore(
            self.bucket, self.wire, lambda kind: next(faults.get(kind, iter(())), None)
        )

        def act(switch: Callable[[], None]) -> None:
            left = count(1)

            def on_step(step: str) -> None:
                del step
                if next(left) == plan.killed:
                    raise _KilledError
                switch()

            for number, after in enumerate(plan.moves):
                ref = find_ref(self.good, RefKind.BRANCH, "main")
                before = None if ref is None else ref.commit_id
                since = 0 if ref is None or plan.forgets else ref.sequence
                move = intent(f"{me}-{number}", before, after, since=since)
                self.told[move] = None
                try:
                    self.told[move] = _outcome(store, move, on_step)
                except _KilledError:
                    # What the first command sent may be under way, so "not sent" says nothing.
                    self.told[move] = _outcome(store, move, on_step, is_new=False)

        return act

    def made(self) -> set[str]:
        """Return the write IDs of all moves that were made."""
        return {move.write_id for move in checked_moves(self.good)}


def _outcome(
    store: TroubledStore, move: Intent, on_step: Callable[[str], None], *, is_new: bool = True
) -> MoveOutcome | None:
    retries = Retries(RetryPolicy(2), random=lambda: 0.5, sleep=lambda _: None)
    try:
        return move_ref(store, move, retries=retries, on_step=on_step).outcome
    except OutcomeUnknown:
        return None
    except LakeError:
        return MoveOutcome.LOST if is_new else None


plans = st.builds(
    Plan,
    st.lists(positions, min_size=1, max_size=_MOVES),
    st.lists(put_faults, max_size=8),
    st.lists(get_faults, max_size=8),
    st.sampled_from([None, None, None, 3, 5, 8]),
    st.booleans(),
)


@settings(max_examples=100, deadline=None)
@given(
    earlier=st.sampled_from([0, 1, 30, 31, 32, 47]),
    writers=st.lists(plans, min_size=1, max_size=3),
    order=st.lists(st.integers(0, 2), max_size=60),
)
def test_each_applied_move_is_made_once_and_reported_as_applied(
    earlier: int, writers: list[Plan], order: list[int]
) -> None:
    world = World()
    advance(world.good, earlier)
    Turns(order).run([world.writer(me, plan) for me, plan in enumerate(writers)])
    world.wire.deliver()
    made = world.made()
    for move, outcome in world.told.items():
        if outcome is not None:
            assert (outcome is MoveOutcome.APPLIED) == (move.write_id in made)
        found = look_up_move(world.good, move)
        is_applied = found is not None and found.outcome is MoveOutcome.APPLIED
        assert is_applied == (move.write_id in made)
    # Whoever does not know repeats the move, and then it is made once or never.
    for move, outcome in world.told.items():
        if outcome is None:
            result = move_ref(world.good, move, retries=PATIENT)
            assert (result.outcome is MoveOutcome.APPLIED) == (move.write_id in world.made())
    # However many others follow.
    made = world.made()
    bury(world.good)
    for move in world.told:
        result = move_ref(world.good, move, retries=PATIENT)
        assert (result.outcome is MoveOutcome.APPLIED) == (move.write_id in made)


def bury(store: MemoryStore) -> None:
    """Move the ref, to a commit of its own, until its object holds none of the earlier moves."""
    for number in range(MAX_MOVES + 1):
        ref = find_ref(store, RefKind.BRANCH, "main")
        before, since = (None, 0) if ref is None else (ref.commit_id, ref.sequence)
        move = intent(f"later-{number}", before, commit(1000 + number), since=since)
        move_ref(store, move, retries=PATIENT)

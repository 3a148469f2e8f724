"""Which moves of a ref count, when every machine's clock may say anything.

Histories of one ref are made up: moves at true times, each dated by some clock; objects of the
reflog written when the ref object is full; collections that look from time to time. What counts is
compared with the true times, which only the test knows.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.ids import CommitId, WriteId
from lakecli.gc.known_refs import ObservedMove, counted
from lakecli.remote.ref_records import RecordedMove

START = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = 31
FULL, LEFT = 8, 4
"""Moves in a ref object before the oldest leave it, and after; few, so that histories are short."""

GAPS = st.integers(0, 20)
OFFSETS = st.sampled_from([0, 0, 0, -60, -20_000, 60, 5_000])


class History(NamedTuple):
    """A ref as the bucket has it on a day, and when its moves were really made.

    Attributes:
        made_on: the true day of each move, by its number.
        groups: moves by object, with the day of the object.
        seen: the last move that the newest look before the window saw.
    """

    made_on: dict[int, int]
    groups: list[tuple[int, list[RecordedMove]]]
    seen: ObservedMove | None


def live(gaps: list[int], offsets: list[int], looks: list[int], today: int) -> History:
    """Live through the days; a gap of days before each move."""
    inside: list[RecordedMove] = []
    groups: list[tuple[int, list[RecordedMove]]] = []
    made_on: dict[int, int] = {}
    last_write: dict[int, ObservedMove] = {}
    day = 0
    for number, (gap, offset) in enumerate(zip(gaps, offsets, strict=False), 1):
        day += gap
        if day > today:
            break
        at = START + timedelta(days=day + offset)
        move = RecordedMove(
            number, WriteId(f"{number:032x}"), None, CommitId(f"{number:064x}"), "who", at, "push"
        )
        inside.insert(0, move)
        if len(inside) > FULL:
            groups.append((day, inside[LEFT:]))
            inside = inside[:LEFT]
        made_on[number] = day
        last_write[day] = ObservedMove(number, move.write_id)
    seen = None
    for look in sorted(looks):
        if look < today - WINDOW:
            before = [at for at in last_write if at <= look]
            seen = last_write[max(before)] if before else None
    if made_on:
        groups.append((max(made_on.values()), inside))
    return History(made_on, groups, seen)


@given(
    gaps=st.lists(GAPS, min_size=1, max_size=40),
    offsets=st.lists(OFFSETS, min_size=40, max_size=40),
    looks=st.lists(st.integers(0, 300), max_size=8),
    today=st.integers(0, 400),
)
def test_what_was_made_lately_counts_whatever_the_clocks_said(
    gaps: list[int], offsets: list[int], looks: list[int], today: int
) -> None:
    history = live(gaps, offsets, looks, today)
    cutoff = START + timedelta(days=today - WINDOW)
    groups = [moves for day, moves in history.groups if day >= today - WINDOW]
    found = {move.sequence for move in counted(groups, history.seen, cutoff)}
    lately = {number for number, day in history.made_on.items() if day > today - WINDOW}
    assert lately <= found


@given(gaps=st.lists(GAPS, min_size=1, max_size=40), today=st.integers(0, 400))
def test_where_clocks_are_right_and_somebody_looks_each_day_nothing_else_counts(
    gaps: list[int], today: int
) -> None:
    history = live(gaps, [0] * 40, list(range(400)), today)
    cutoff = START + timedelta(days=today - WINDOW)
    groups = [moves for day, moves in history.groups if day >= today - WINDOW]
    found = {move.sequence for move in counted(groups, history.seen, cutoff)}
    assert found <= {number for number, day in history.made_on.items() if day >= today - WINDOW}

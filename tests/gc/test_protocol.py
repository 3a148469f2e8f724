"""The protocol of garbage collection keeps its promises in every order of its steps."""

from __future__ import annotations

import pytest

from tests.gc.protocol import (
    CONDEMNED,
    GONE,
    OLD,
    PUSHES_OLD_WORK,
    UPLOADS,
    Gc,
    Model,
    Rules,
    Violation,
    World,
    X,
    explore,
    world,
)

LEFT_OVER = world(x=OLD, old_ref=OLD, writers=(UPLOADS,))
"""X is garbage until a writer uploads it again."""

ABSENT = world(x=GONE, old_ref=OLD, writers=(UPLOADS,))
REFERRED_TO = world(x=OLD, old_ref=GONE, writers=(UPLOADS,))
OLD_WORK = world(x=OLD, old_ref=OLD, tables=OLD, writers=(PUSHES_OLD_WORK,))
TWO_COLLECTORS = world(x=OLD, old_ref=OLD, tables=OLD, writers=(UPLOADS,), collectors=2)
DUE = TWO_COLLECTORS._replace(gc=Gc(CONDEMNED, 1, OLD, mark=frozenset({X})))
TWO_PUSHERS = world(
    x=OLD, old_ref=OLD, tables=OLD, writers=(PUSHES_OLD_WORK, PUSHES_OLD_WORK), collectors=2
)
TWO_WRITERS = world(x=OLD, old_ref=OLD, tables=OLD, writers=(UPLOADS, PUSHES_OLD_WORK))

FIRST = 100_000
"""Worlds that CI explores, shortest orders first; a rule that is left out takes 86,646 at most."""

BY_WORLDS = pytest.mark.parametrize(
    "most", [FIRST, pytest.param(None, marks=pytest.mark.nightly)], ids=["first", "all"]
)


@BY_WORLDS
@pytest.mark.parametrize(
    "start", [LEFT_OVER, ABSENT, OLD_WORK], ids=["left-over", "absent", "old-work"]
)
def test_every_order_of_steps_keeps_the_promises(start: World, most: int | None) -> None:
    assert explore(Model(Rules()), start, most=most) > 1_000


@BY_WORLDS
def test_a_ref_that_is_deleted_meanwhile(most: int | None) -> None:
    assert explore(Model(Rules(), kills=False), REFERRED_TO, most=most) > 10_000


@BY_WORLDS
def test_a_ref_that_vanishes_and_comes_back(most: int | None) -> None:
    model = Model(Rules(), kills=False, undoes=False, vanishes=True)
    assert explore(model, REFERRED_TO, most=most) > 10_000


def test_a_ref_that_vanishes_is_missed() -> None:
    model = Model(Rules(knows_refs=False), kills=False, undoes=False, vanishes=True)
    with pytest.raises(Violation, match="a ref has lost an object"):
        explore(model, REFERRED_TO, most=FIRST)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("start", "epochs"),
    [(LEFT_OVER, 2), (REFERRED_TO, 2), (OLD_WORK, 3), (TWO_COLLECTORS, 1)],
    ids=["left-over", "referred-to", "old-work", "two-collectors"],
)
def test_larger_worlds(start: World, epochs: int) -> None:
    """All orders to their end, each in at most 2,000,000 worlds, 1.2 GB and two minutes.

    One writer over two or three epochs with condemnations taken back; two collectors, one writer.
    Two writers at once have more worlds than that: `test_two_writers_as_far_as_it_goes`.
    """
    assert explore(Model(Rules(), epochs=epochs, undoes=epochs > 1), start) > 1_000


@pytest.mark.nightly
@pytest.mark.parametrize("start", [TWO_PUSHERS, TWO_WRITERS], ids=["two-pushers", "two-writers"])
def test_two_writers_as_far_as_it_goes(start: World) -> None:
    """Every order of the first steps, shortest first, until 3,000,000 worlds were seen."""
    assert explore(Model(Rules(), undoes=False), start, most=3_000_000) > 1_000_000


def test_comparing_versions_is_not_enough_by_itself() -> None:
    """A commit takes into use what was staged before, and gives it no new version."""
    rules = Rules(compares_versions=True, bounds_requests=False)
    with pytest.raises(Violation):
        explore(Model(rules, undoes=False), LEFT_OVER, most=FIRST)


@pytest.mark.parametrize(
    ("rule", "start"),
    [
        ("keeps", LEFT_OVER),
        ("rereads", LEFT_OVER),
        ("writers_wait", LEFT_OVER),
        ("remarks_refs", LEFT_OVER),
        ("young_tables_are_roots", LEFT_OVER),
        ("keeps_reflog", REFERRED_TO),
        ("waits_out_stale_readings", LEFT_OVER),
        ("push_verifies", LEFT_OVER),
        ("push_keeps", LEFT_OVER),
        ("compares_phases", LEFT_OVER),
        ("sweep_has_owner", DUE),
        ("takeover_waits", DUE),
        ("checks_lease", DUE),
        ("bounds_requests", DUE),
        ("awaits_replies", DUE),
    ],
)
def test_each_rule_is_needed(rule: str, start: World) -> None:
    model = Model(Rules()._replace(**{rule: False}), undoes=False)
    with pytest.raises(Violation):
        explore(model, start, most=FIRST)

"""``gc run`` killed at any step: the same command again leads to the same result."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakecli.engine.runner import LocalRunner
from lakecli.fsck.check import fsck
from lakecli.gc.run import Action, GcOptions
from lakecli.remote import gc_protocol
from lakecli.remote.gc_protocol import Phase, read_state
from lakecli.repository import branch
from lakecli.repository.push import PushOptions, push_deletion
from tests.gc.shared import advance, make_commit, push, read_all, upload
from tests.support import crashes
from tests.support.clones import Clones, machine
from tests.support.lakes import START, Ticking

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.remote.gc_protocol import GcState, ObservedState
    from lakecli.repository.handle.lake import Lake
    from lakecli.stores.contract import ObjectStore
    from tests.support.crashes import Killer, Outcome

CONDEMNING = ["gc:mark 1", "gc:write-marks 1", "gc:condemned 1", "moved:condemned 1"]
SWEEPING = [
    "gc:prepare 1",
    "gc:sweeping 1",
    "moved:sweeping 1",
    "gc:delete 1",
    "gc:delete 2",
    "gc:delete 3",
    "gc:idle 1",
    "moved:idle 1",
    "gc:clean-up 1",
]
LONG_AGO = 1_700_000_000


def do(lake: Lake, killer: Killer) -> Action:
    """Run one turn of a collection; each move of its state is a step."""
    move = gc_protocol.move

    def move_and_note(store: ObjectStore, seen: ObservedState, after: GcState) -> None:
        move(store, seen, after)
        killer(f"moved:{after.phase}")

    gc_protocol.move = move_and_note
    with LocalRunner() as runner:
        return advance(lake.repository("demo"), runner, GcOptions()).action


def run(directory: Path, step: str) -> Outcome:
    return crashes.run(do, directory / "ada", step=step, seed="first")


def prepare(directory: Path) -> Path:
    """Create unreachable data, ranges and a metarange, in addition to some in use."""
    with Clones.make(directory, "ada", "ben") as clones:
        ada, ben = clones.repositories
        make_commit(ada, {b"used": b"used"})
        push(ada)
        branch.create(ben, "side", source="main")
        make_commit(ben, {b"side": b"side"}, "side")
        push(ben, "side")
        push_deletion(ben, "side", options=PushOptions(who="me"))
        for number in range(3):
            upload(ben, b"left", b"left %d" % number)
    grow_old(directory)
    return directory


def grow_old(directory: Path) -> None:
    for path in (directory / "namespace").rglob("*"):
        if path.is_file():
            os.utime(path, (LONG_AGO, LONG_AGO))


def advance_here(directory: Path) -> Action:
    with machine(directory, "ada", clock=Ticking(START + timedelta(days=1))) as lake:
        lake.runtime = lake.runtime._replace(new_id=lambda: os.urandom(16))
        return advance(lake.repository("demo"), LocalRunner(), GcOptions()).action


def finish(directory: Path) -> set[str]:
    """Run until nothing is left to do; return the objects in the namespace."""
    for _ in range(5):
        action = advance_here(directory)
        grow_old(directory)
        if action is Action.FOUND_NOTHING:
            break
    else:
        pytest.fail("it never ended")
    with machine(directory, "ada", clock=Ticking(START + timedelta(days=1))) as lake:
        ada = lake.repository("demo")
        assert read_state(ada.store).phase is Phase.IDLE
        assert not list(fsck(ada))
        assert read_all(ada, "main") == {b"used": b"used"}
        passing = ("_lakecli/gc/clock", "_lakecli/gc/seen/")
        return {info.key for info in ada.store.list() if not info.key.startswith(passing)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The objects left without an interruption."""
    directory = prepare(tmp_path_factory.mktemp("whole"))
    before = {path.name for path in (directory / "namespace" / "data").rglob("*/*")}
    for steps, action in ((CONDEMNING, Action.CONDEMNED), (SWEEPING, Action.SWEPT)):
        outcome = run(directory, "never")
        assert outcome.answer == action
        assert list(outcome.steps) == steps, "a step without a test"
        grow_old(directory)
    left = {path.name for path in (directory / "namespace" / "data").rglob("*/*")}
    assert len(before - left) == 4
    return finish(directory)


@pytest.mark.parametrize("step", [*CONDEMNING, *SWEEPING])
def test_the_same_command_after_a_kill(tmp_path: Path, step: str, whole: set[str]) -> None:
    directory = prepare(tmp_path)
    if step in SWEEPING:
        assert advance_here(directory) is Action.CONDEMNED
        grow_old(directory)
    assert run(directory, step).killed
    if step.startswith(("gc:delete", "moved:sweeping", "gc:idle")):
        # Until its lease is over, for all that the others know, it goes on.
        assert advance_here(directory) is Action.WAITS
        grow_old(directory)
        assert advance_here(directory) is Action.SWEPT
    grow_old(directory)
    # The report of a sweep is written before it ends, that of a condemnation after it began.
    reports = {f"_lakecli/gc/reports/1-{each}.json" for each in ("condemned", "swept")}
    assert finish(directory) - reports == whole - reports

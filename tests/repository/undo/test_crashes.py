"""``undo --remote``, killed at any step: repeating it gives the same end state."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import pytest

from lakecli.repository import branch
from lakecli.repository.push import PushOptions, push
from lakecli.repository.sharing.fetch import fetch
from lakecli.repository.undo.log import iter_log, logged_repository
from lakecli.repository.undo.undo import undo
from tests.support import crashes
from tests.support.clones import Clones, machine, make_commit, position
from tests.support.lakes import START, Ticking, read, stage

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.repository.handle.lake import Lake
    from tests.support.crashes import Killer, Outcome

STEPS = ("undo here", "undo there", "pack", "intent", "move", "read", "put", "track", "undo done")


class End(NamedTuple):
    """The state of one machine, and of the bucket as another machine sees it."""

    head: str
    tracked: str | None
    there: str | None
    contents: dict[bytes, str]
    committed: dict[bytes, str]
    undone: list[str]


def do(lake: Lake, _killer: Killer) -> None:
    undo(logged_repository(lake, "demo", wanted="undo"), remote=True, committer="me")


def run(directory: Path, step: str, seed: str) -> Outcome:
    clock = Ticking(START + timedelta(hours=1))
    return crashes.run(do, directory / "one", step=step, seed=seed, clock=clock)


def prepare(directory: Path) -> Path:
    """Push two commits."""
    with Clones.make(directory, "one", "two") as clones:
        one = clones.repositories[0]
        make_commit(one, b"a")
        push(one, "main", options=PushOptions(who="me"))
        make_commit(one, b"b")
        push(one, "main", options=PushOptions(who="me"))
    return directory


def end_of(directory: Path) -> End:
    with machine(directory, "one") as one, machine(directory, "two") as two:
        here, there = one.repository("demo"), two.repository("demo")
        fetch(there)
        return End(
            branch.show(here, "main").commit_id,
            position(here),
            position(there),
            read(here, "main"),
            read(here, "main@"),
            [each.operation.kind for each in iter_log(here) if each.undone],
        )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> End:
    """The end state without a kill."""
    directory = prepare(tmp_path_factory.mktemp("whole"))
    steps = run(directory, "never", "first").steps
    assert set(STEPS) >= {step.rpartition(" ")[0] for step in steps}, "a step without a test"
    end = end_of(directory)
    assert end.undone == ["commit"]
    assert end.head == end.tracked == end.there
    assert set(end.contents) == {b"a", b"b"}
    assert set(end.committed) == {b"a"}
    return end


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.replace(" ", "-"))
def test_a_killed_undo_succeeds_when_repeated(tmp_path: Path, step: str, whole: End) -> None:
    directory = prepare(tmp_path)
    assert run(directory, step, "first").killed
    assert run(directory, "never", "second").answer == ""
    assert end_of(directory) == whole


def test_an_undo_killed_between_machine_and_bucket_keeps_what_is_staged_since(
    tmp_path: Path,
) -> None:
    """The branch has moved here, and not yet in the bucket."""
    directory = prepare(tmp_path)
    assert run(directory, "undo there", "first").killed
    with machine(directory, "one") as lake:
        here = lake.repository("demo")
        assert branch.show(here, "main").commit_id != position(here)
        stage(here, "main", {b"later": b"1"})
    for seed in ("second", "third"):
        assert run(directory, "never", seed).answer == ""
    assert end_of(directory).head == end_of(directory).there

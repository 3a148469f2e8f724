"""The long team: random commands of three people, with every verb that moves anything."""

from __future__ import annotations

from contextlib import closing
from random import SystemRandom
from typing import TYPE_CHECKING

import pytest

from tests.meetings.arguments import REPOSITORY, words_of
from tests.meetings.life import (
    OTHERS,
    RULED,
    LongTeam,
    check_lives,
    check_some_lives,
    find_failing_lives,
)
from tests.meetings.side import TeamWithSides
from tests.meetings.team import Team, checksum_of, days, operations
from tests.meetings.world import Machines

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.timeout(300)
def test_a_short_life_of_a_team() -> None:
    check_lives(examples=25, steps=30)


def test_every_command_that_has_a_rule_is_in_the_life_of_a_team() -> None:
    life = LongTeam()
    ada, main = {"person": "ada", "sync": False}, {"branch": "main"}
    with closing(life.stack):
        life.upload(**ada, **main, path="p/1", text="x")
        life.copy(**ada, ref="main", path="p/1")
        life.move(**ada, path="p/1", to="q/3")
        life.remove(**ada, **main, path="q/2")
        life.update_metadata(**ada, **main, path="q/3", text="x")
        life.stage(**ada, **main, path="p/1")
        life.commit(**ada, **main)
        life.commit_directory(**ada, path="q/3", text="y")
        life.check_out_directory(**ada, path="q/3", text="z")
        life.import_directory(**ada, text="x")
        life.change(**ada, branch="dev", path="q/2", text="z")
        life.cherry_pick(**ada)
        life.revert(**ada)
        life.merge(**ada, back=True)
        life.rename_branch(**ada)
        life.delete_branch(**ada)
        life.create_branch(**ada, ref="main")
        life.delete_branch(**ada)
        life.create_tag(**ada)
        life.delete_tag(**ada)
        life.push(**ada, **main)
        life.fetch(person="bob", sync=False)
        life.pull(person="bob", **main, sync=False)
        life.reset_to(**ada, ref="main~1")
        life.undo(**ada, times=2)
        life.redo(**ada, times=2)
        life.restore(**ada, back=3)
        life.restore_dump(**ada)
        life.delete_repository(**ada)
        life.clone(**ada)
        assert words_of(life.team.done) >= RULED
        for line in OTHERS:
            life.run_other(**ada, line=line)


def test_an_operation_dated_in_the_future_may_expire_with_older_ones(tmp_path: Path) -> None:
    with Machines(tmp_path) as world:
        team = Team(world)
        world.ahead["bob"] = days(60)
        team.upload("bob", "main", "p/1", "early", sync=False)
        world.ahead.clear()
        for passed in (16, 33):
            world.pass_time(days(passed))
            team.upload("bob", "main", "p/1", f"after {passed} days", sync=False)
        assert len([*operations(team, "bob")]) == 1


def test_each_repository_takes_back_its_part_of_a_move(tmp_path: Path) -> None:
    with Machines(tmp_path) as world:
        team = TeamWithSides(world)
        text = checksum_of("first")
        team.carry_out("ada", "main", "p/0", "x", moves=True, sync=False)
        assert (team.contents_of("ada", "main"), team.sides["ada"]) == ({}, {"x": text})
        team.run("ada", "undo", REPOSITORY, sync=False)
        assert (team.contents_of("ada", "main"), team.sides["ada"]) == ({"p/0": text}, {"x": text})
        team.carry_in("ada", "x", "main", "q/2", moves=True, sync=True)
        both = {"p/0": text, "q/2": text}
        assert (team.contents_of("ada", "main"), team.sides["ada"]) == (both, {})
        for verb, there in (("undo", {"x": text}), ("undo", {}), ("redo", {"x": text})):
            team.take_back_side("ada", verb, sync=False)
            assert team.sides["ada"] == there
        assert team.contents_of("ada", "main") == both
        team.check_from_scratch()


@pytest.mark.nightly
@pytest.mark.timeout(0)
def test_a_long_life_of_a_team(request: pytest.FixtureRequest) -> None:
    first = request.config.getoption("--meetings-seed")
    first = SystemRandom().randrange(1_000_000) if first is None else first
    seconds = 3 * 60 * request.config.getoption("--meetings-minutes")
    number = find_failing_lives(seconds, first=first)
    if number is not None:
        print(f"these are lives number {number}")
        check_some_lives(number)
    assert number is None

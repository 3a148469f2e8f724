"""Runs that are killed at any step: all that the job has written is published, or nothing of it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from lakecli.repository.check import CheckedCommit, TreeCheck
from lakecli.repository.clone import clone
from lakecli.repository.log import LogOptions, log
from lakecli.repository.pull import PullOptions, pull
from lakecli.repository.push import PushOptions, push
from tests.repository.test_run import NEW, NIGHTLY, WHO, branches_of, run
from tests.support import crashes
from tests.support.clones import auto, machine, make_commit
from tests.support.lakes import Numbered, checksums, make_repository, open_lake, read

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from lakecli.repository.contract import Repository
    from lakecli.repository.handle.lake import Lake
    from tests.support.crashes import Killer

SOME = ("run: ", "check", "send", "track")


def kept(repository: Repository) -> AbstractContextManager[tuple[Repository, object]]:
    return nullcontext((repository, None))


def job_of_the_night(lake: Lake, killer: Killer, sync: str) -> None:
    repository = lake.repository("demo")
    killer.watch(repository)

    def check(candidate: CheckedCommit) -> None:
        killer("check")
        assert read(candidate.repository, candidate.commit.id).keys() > NEW.keys()

    with (auto if sync == "auto" else kept)(repository) as (used, _):
        run(used, NIGHTLY, TreeCheck(check, "schema"))


def look(directory: Path) -> tuple[dict[bytes, str], dict[bytes, str], list[str]]:
    """Return what main holds here and for another clone, and the messages of its history."""
    with (
        open_lake(directory, new_id=Numbered("look")) as lake,
        machine(directory, "other") as other,
    ):
        repository = lake.repository("demo")
        if not list(other.repositories()):
            clone(other, repository.record.storage_namespace, "demo")
        theirs = other.repository("demo")
        pull(theirs, "main", PullOptions(WHO))
        with log(theirs, "main", LogOptions(first_parent=True)) as commits:
            messages = [each.message for each in commits]
        return read(repository, "main"), read(theirs, "main"), messages


def prepare(directory: Path) -> None:
    directory.mkdir()
    with open_lake(directory, new_id=Numbered("prepare")) as lake:
        repository = make_repository(lake, directory)
        make_commit(repository, b"a")
        push(repository, "main", options=PushOptions(WHO))


@pytest.mark.parametrize("sync", ["manual", "auto"])
@pytest.mark.parametrize("only", [SOME, pytest.param("", marks=pytest.mark.nightly)])
def test_a_run_that_is_killed_at_any_step_publishes_all_or_nothing(
    tmp_path: Path, sync: str, only: str | tuple[str, ...]
) -> None:
    prepare(tmp_path / "whole")
    whole = crashes.run(job_of_the_night, tmp_path / "whole", sync)
    assert whole.answer == ""
    old, new = checksums({b"a": b"a"}), checksums({b"a": b"a"} | NEW)
    assert look(tmp_path / "whole")[:2] == (new, new)
    steps = [each for each in whole.steps if not each.startswith(("before", "after"))]
    for number, step in enumerate(each for each in steps if each.startswith(only)):
        where = tmp_path / f"killed {number}"
        prepare(where)
        assert crashes.run(job_of_the_night, where, sync, step=step, seed="first").killed
        _, theirs, _ = look(where)
        assert theirs in (old, new), step
        again = crashes.run(job_of_the_night, where, sync, seed="second")
        assert again.answer == "", step
        ours, theirs, messages = look(where)
        assert ours == theirs == new, step
        assert len(messages) == 3, step
        with open_lake(where, new_id=Numbered("end")) as lake:
            assert branches_of(lake.repository("demo")) == ["main"], step

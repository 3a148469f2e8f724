"""Several processes on one local store."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lakecli.errors import LostRace, NothingToDo
from lakecli.repository.commit import commit
from lakecli.repository.log import LogOptions, log
from tests.support import crashes
from tests.support.lakes import checksums, make_repository, open_lake, read, stage

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.repository.handle.lake import Lake
    from tests.support.crashes import Killer

PROCESSES = 4
ROUNDS = 5


def do(lake: Lake, _killer: Killer, me: int) -> None:
    repository = lake.repository("demo")
    for number in range(ROUNDS):
        path = b"%d/%d" % (me, number)
        stage(repository, "main", {path: path})
        with suppress(LostRace, NothingToDo):  # the commit of another process has it
            commit(repository, "main", message=f"{me} {number}", committer=str(me))


def test_racing_processes_lose_no_commit(tmp_path: Path) -> None:
    with open_lake(tmp_path) as lake:
        make_repository(lake, tmp_path)
    running = [crashes.start(do, tmp_path, me, seed=str(me)) for me in range(PROCESSES)]
    assert {each.wait().answer for each in running} == {""}

    written = [b"%d/%d" % (me, number) for me in range(PROCESSES) for number in range(ROUNDS)]
    with open_lake(tmp_path) as lake:
        repository = lake.repository("demo")
        assert read(repository, "main") == checksums({path: path for path in written})
        assert read(repository, "main@") == read(repository, "main")
        with log(repository, "main", LogOptions()) as commits:
            generations = [each.generation for each in commits]
        # The history is linear: no commit was built beside another.
        assert generations == list(range(len(generations), 0, -1))

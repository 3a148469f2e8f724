"""Several processes on one local store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from lakecli.repository.log import LogOptions, log
from tests.support.lakes import checksums, make_repository, open_lake, read

PROJECT = Path(__file__).parents[2]
PROCESSES = 4
ROUNDS = 5

WORKER = """
import sys
from pathlib import Path
from lakecli.errors import LostRace, NothingToDo
from lakecli.repository.commit import commit
from tests.support.lakes import Numbered, open_lake, stage

directory, me, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with open_lake(directory, new_id=Numbered(me)) as lake:
    repository = lake.repository("demo")
    for number in range(rounds):
        path = f"{me}/{number}".encode()
        stage(repository, "main", {path: path})
        try:
            commit(repository, "main", message=f"{me} {number}", committer=me)
        except (LostRace, NothingToDo):
            pass  # another process's commit has it: nothing is lost, as the test checks
"""


def test_racing_committers_lose_nothing(tmp_path: Path) -> None:
    with open_lake(tmp_path) as lake:
        make_repository(lake, tmp_path)
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, tmp_path, str(number), str(ROUNDS)], cwd=PROJECT
        )
        for number in range(PROCESSES)
    ]
    assert [worker.wait(timeout=120) for worker in workers] == [0] * PROCESSES

    written = [b"%d/%d" % (me, number) for me in range(PROCESSES) for number in range(ROUNDS)]
    with open_lake(tmp_path) as lake:
        repository = lake.repository("demo")
        assert read(repository, "main") == checksums({path: path for path in written})
        assert read(repository, "main@") == read(repository, "main")
        with log(repository, "main", LogOptions()) as commits:
            generations = [each.generation for each in commits]
        # One straight line: nobody's commit was built beside another's.
        assert generations == list(range(len(generations), 0, -1))

"""A machine that commits to a shared branch again and again, in a process of its own.

python -m tests.repository.sync_worker DIRECTORY NAME ROUNDS
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import sleep

from lakecli.cli.context import system_now
from lakecli.identity import h
from lakecli.layout import data_key
from lakecli.repository.commit import commit
from lakecli.repository.sync import Synchroniser
from tests.support.clones import machine
from tests.support.lakes import stage


def main(directory: Path, name: str, rounds: int) -> None:
    """Stage and commit one file a round."""
    attempts = 0

    def count(step: str) -> None:
        nonlocal attempts
        attempts += step == "build"

    with machine(directory, name, clock=system_now, on_step=count) as lake:
        for number in range(rounds):
            repository = lake.repository("demo")
            synchroniser = Synchroniser(repository, who=lambda: name, sleep=sleep)
            synchroniser.begin()
            path = f"{name}/{number}".encode()
            repository.store.put_new(data_key(h(path).hex()), path)
            stage(repository, "main", {path: path})
            commit(repository, "main", message=f"{name} {number}", committer=name)
            synchroniser.end()
    print(attempts)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))

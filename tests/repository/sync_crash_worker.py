"""One command that shares by itself, in a process of its own, killed at a named step.

python -m tests.repository.sync_crash_worker DIRECTORY COMMAND STEP SEED
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lakecli.errors import LakeError
from lakecli.repository import branch, tag
from lakecli.repository.commit import commit
from tests.repository.crash_worker import Killer, Wrapped
from tests.support.clones import synchronise
from tests.support.lakes import Numbered, Ticking, open_lake

if TYPE_CHECKING:
    from lakecli.repository.core.lake import Lake


def run(lake: Lake, command: str, killer: Killer) -> None:
    repository = lake.repository("demo")
    repository.__dict__["store"] = Wrapped(repository.store, killer)
    synchroniser = synchronise(repository, "me")
    synchroniser.begin()
    killer("begun")
    if command == "commit":
        commit(repository, "main", message="mine", committer="me")
    elif command == "branch create":
        branch.create(repository, "dev", source="main")
    elif command == "tag create":
        tag.create(repository, "v1", "main")
    else:
        raise ValueError(command)
    killer("done")
    synchroniser.end()


def main() -> None:
    directory, command, step, seed = sys.argv[1:]
    killer = Killer(step)
    home = Path(directory) / "one"
    with open_lake(home, clock=Ticking(), new_id=Numbered(seed), on_step=killer) as lake:
        try:
            run(lake, command, killer)
        except LakeError as error:
            print(f"{error.kind}: {error}")


if __name__ == "__main__":
    main()

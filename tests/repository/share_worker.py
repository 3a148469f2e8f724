"""One sharing command in a process of its own, killed at a named step or a call to the store.

python -m tests.repository.share_worker DIRECTORY MACHINE COMMAND STEP SEED
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lakecli.errors import LakeError
from lakecli.repository.clone import clone
from lakecli.repository.fetch import fetch
from lakecli.repository.pull import PullOptions, pull
from lakecli.repository.push import PushOptions, push, push_deletion
from tests.repository.crash_worker import Killer, Wrapped
from tests.support.lakes import Numbered, Ticking, open_lake

if TYPE_CHECKING:
    from lakecli.repository.core.lake import Lake

ME = PushOptions(who="Me <me@example.com>")


def run(lake: Lake, directory: Path, command: str, killer: Killer) -> None:
    if command == "clone":
        clone(lake, str(directory / "namespace"), "demo")
        return
    repository = lake.repository("demo")
    repository.__dict__["store"] = Wrapped(repository.store, killer)
    if command in ("push", "first-push"):
        push(repository, "main", options=ME)
    elif command == "delete":
        push_deletion(repository, "side", options=ME)
    elif command == "fetch":
        fetch(repository)
    elif command in ("pull", "merge"):
        pull(repository, "main", PullOptions(committer="me"))
    else:
        raise ValueError(command)


def main() -> None:
    directory, machine, command, step, seed = sys.argv[1:]
    killer = Killer(step)
    home = Path(directory) / machine
    with open_lake(home, clock=Ticking(), new_id=Numbered(seed), on_step=killer) as lake:
        try:
            run(lake, Path(directory), command, killer)
        except LakeError as error:
            print(f"{error.kind}: {error}")


if __name__ == "__main__":
    main()

"""``undo --remote`` on one machine of several, in a process of its own, killed at a named step.

python -m tests.repository.undo_worker DIRECTORY MACHINE STEP SEED

With the step ``list`` it prints the steps that it takes, and lives on.
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

from lakecli.repository.undo.log import logged_repository
from lakecli.repository.undo.undo import undo
from tests.support.lakes import START, Numbered, Ticking, open_lake


def main() -> None:
    directory, name, wanted, seed = sys.argv[1:]

    def on_step(step: str) -> None:
        if wanted == "list":
            print(step)
        elif step == wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    lake = open_lake(
        Path(directory) / name,
        clock=Ticking(START + timedelta(hours=1)),
        new_id=Numbered(seed),
        on_step=on_step,
    )
    with lake:
        undo(logged_repository(lake, "demo", wanted="undo"), remote=True, committer="me")


if __name__ == "__main__":
    main()

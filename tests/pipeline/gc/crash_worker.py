"""``gc run`` on one machine, in a process of its own, killed at a named step.

python -m tests.pipeline.gc.crash_worker DIRECTORY MACHINE STEP SEED

A step is named with how often it came: ``gc:delete 2``. With the step ``list`` all that come are
printed, and the process lives on.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from lakecli.pipeline.gc.run import GcOptions, advance
from lakecli.pipeline.runner import LocalRunner
from lakecli.remote import collection
from tests.support.lakes import Numbered, Ticking, open_lake

if TYPE_CHECKING:
    from lakecli.objectstore.base import ObjectStore
    from lakecli.remote.collection import GcState, Seen


def main() -> None:
    directory, name, wanted, seed = sys.argv[1:]
    counts: Counter[str] = Counter()

    def on_step(step: str) -> None:
        counts[step] += 1
        if wanted == "list":
            print(f"{step} {counts[step]}")
        elif wanted == f"{step} {counts[step]}":
            os.kill(os.getpid(), signal.SIGKILL)

    move = collection.move

    def move_and_tell(store: ObjectStore, seen: Seen, after: GcState) -> None:
        move(store, seen, after)
        on_step(f"moved:{after.phase}")

    collection.move = move_and_tell
    lake = open_lake(
        Path(directory) / name, clock=Ticking(), new_id=Numbered(seed), on_step=on_step
    )
    with lake, LocalRunner() as runner:
        print(advance(lake.repository("demo"), runner, GcOptions()).action, file=sys.stderr)


if __name__ == "__main__":
    main()

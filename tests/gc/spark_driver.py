"""Run by `test_spark_live_set`: one step of a collection on its own Spark, killed where told.

It prints what it did, if it lives so long.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from lakecli.engine import spark_runner
from lakecli.engine.runner import StoreLocation
from lakecli.engine.scratch import Scratch
from lakecli.engine.spark_runner import SparkRunner
from lakecli.gc.lease import SweepLease
from lakecli.gc.run import GcOptions
from tests.gc.shared import advance
from tests.support.crashes import Killer
from tests.support.lakes import open_lake
from tests.support.spark import CONF


def main(directory: Path, step: str) -> None:
    """Take one step of the collection."""
    killer = Killer(step)
    renew_if_due = SweepLease.renew_if_due

    def note_and_renew(held: SweepLease) -> None:
        killer("lease")
        renew_if_due(held)

    SweepLease.renew_if_due = note_and_renew  # type: ignore[assignment, method-assign]
    spark_runner.BEAT = 0.05  # type: ignore[misc]
    location = StoreLocation(f"local://{directory / 'namespace'}", "", 16)
    with (
        open_lake(directory, new_id=lambda: os.urandom(16), on_step=killer) as lake,
        SparkRunner(
            master="local[2]",
            conf=CONF,
            environ=os.environ,
            cache=directory / "spark",
            quick_start=True,
            scratch=Scratch(location, os.urandom(16)),
        ) as runner,
    ):
        print(advance(lake.repository("demo"), runner, GcOptions()).action)
        print(killer.steps, file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

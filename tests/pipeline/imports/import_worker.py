"""A process that imports, and is killed at the step that it is told.

Arguments: directory, manifest, name of the step, how often it is passed first. Prints as JSON how
many parts and ranges it made.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from lakecli.pipeline.imports import manifest, sorting, sources
from lakecli.pipeline.imports.job import ImportOptions, import_objects
from lakecli.pipeline.imports.sources import open_source
from lakecli.pipeline.runner import LocalRunner
from lakecli.repository.core.walk import LinkPolicy
from tests.support.lakes import open_lake


def main() -> None:
    directory, source, step, passed = sys.argv[1:]
    left = int(passed)

    def on_step(name: str) -> None:
        nonlocal left
        if name == step:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    manifest.ROWS_PER_PART = 500  # type: ignore[misc]
    sources.RUN_ROWS = 700  # type: ignore[attr-defined]
    sorting.PART_ROWS = 1_024  # type: ignore[misc]
    with open_lake(Path(directory), on_step=on_step) as lake:
        repository = lake.repository("demo")
        report = import_objects(
            repository,
            "main",
            b"p",
            source=open_source(repository, source, links=LinkPolicy.FAIL),
            runner=LocalRunner(),
            committer="c",
            options=ImportOptions(),
        )
    assert report.commit is not None
    print(
        json.dumps(
            {
                "parts": report.parts,
                "resumed": report.resumed,
                "ranges": report.ranges_written,
                "tree": report.commit.metarange_id,
                "objects": report.tally.objects,
            }
        )
    )


if __name__ == "__main__":
    main()

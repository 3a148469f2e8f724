"""Try a sample of the mutants of one suite of `cosmic-ray.toml`, and print those that survive.

cosmic-ray changes the files that it is given, so it works in a copy of the project.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from random import Random

from cosmic_ray.config import load_config, serialize_config
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkResult

PROJECT = Path(__file__).parents[2]
CONFIG = Path(__file__).with_name("cosmic-ray.toml")
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis")


def suites() -> dict[str, dict[str, list[str]]]:
    """Return the modules and tests of each suite."""
    found: dict[str, dict[str, list[str]]] = tomllib.loads(CONFIG.read_text())["suites"]
    return found


def try_sample(directory: Path, title: str, count: int, seed: int) -> int:
    """Try mutants of a suite, print those that survive, and return how many do."""
    project, session = directory / "project", directory / "session.sqlite"
    shutil.copytree(PROJECT, project, ignore=LEFT_OUT)
    # Compiled modules of one mutant would be taken for those of the next.
    environment = {**os.environ, "PYTHONPATH": str(project), "PYTHONDONTWRITEBYTECODE": "1"}
    # The programs of this environment, whether or not it is activated.
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"

    def run(*command: str | Path) -> None:
        subprocess.run(command, cwd=project, env=environment, check=True)

    suite = suites()[title]
    tests = [f"tests/{test}" for test in suite["tests"]]
    options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not nightly"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    begun = time.monotonic()
    run(*command)
    config = load_config(CONFIG)
    config["module-path"] = [f"lakecli/{module}" for module in suite["modules"]]
    config["test-command"] = subprocess.list2cmdline(command)
    config["timeout"] = max(30.0, 5 * (time.monotonic() - begun))
    written = directory / "cosmic-ray.toml"
    written.write_text(serialize_config(config))

    run("cosmic-ray", "init", written, session)
    run("cr-filter-operators", session, written)
    with use_db(session, WorkDB.Mode.open) as work:
        pending = sorted(work.pending_work_items, key=lambda item: str(item.mutations))
        chosen = {item.job_id for item in Random(seed).sample(pending, min(count, len(pending)))}
        left = [item.job_id for item in pending if item.job_id not in chosen]
        work.set_multiple_results(left, WorkResult(WorkerOutcome.SKIPPED))
    run("cosmic-ray", "exec", written, session)
    with use_db(session, WorkDB.Mode.open) as work:
        results = [result for job, result in work.results if job in chosen]
    survived = [each for each in results if each.test_outcome is TestOutcome.SURVIVED]
    for result in survived:
        print(result.diff)
    print(f"{title}: {len(survived)} of {len(results)} survived; {len(pending)} mutants in all")
    return len(survived)


def main() -> None:
    """Read the command line, and fail if a mutant survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", choices=suites())
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        sys.exit(try_sample(Path(directory), options.suite, options.count, options.seed) > 0)


if __name__ == "__main__":
    main()

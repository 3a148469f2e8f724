"""The scripts of the topic `recipes`, day after day, after a failure, and several at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from lakecli.cli.context import system_now
from lakecli.doctor.conditions import RACES
from lakecli.doctor.evidence import read_evidence, record
from lakecli.stores.registry import open_store
from tests.cli.manual.test_examples import blocks
from tests.support.servers import new_bucket
from tests.support.tools import require_tool

if TYPE_CHECKING:
    from tests.support.golden import Cli

LAKECLI: Final = Path(sys.executable).with_name("lakecli")

WRAPPER: Final = f"""#!/bin/sh
echo >> calls
[ "$(wc -l < calls)" != "$FAIL_AT" ] || {{ eval "$FAILURE"; exit; }}
exec {LAKECLI} "$@"
"""
"""A program `lakecli` of which one call fails."""


class Job:
    """A script, in a directory with the data that it loads, and the bucket.

    Attributes:
        data: the directory that is loaded.
        last: the number of its last command, before `main` moves or when it does.
    """

    def __init__(self, cli: Cli, namespace: str, script: str) -> None:
        self._cli = cli
        self._directory = directory = cli.directory
        self._namespace = namespace
        self.data = directory / "orders"
        self._script = script.replace("s3://my-bucket/sales", namespace)
        self.last = script.count("lakecli ")
        self.data.mkdir()
        (directory / "lakecli").write_text(WRAPPER)
        (directory / "lakecli").chmod(0o700)

    def start(self, home: str, *, fail_at: int = 0, failure: str = "") -> subprocess.Popen[str]:
        """Start the script, one of whose commands may fail."""
        (self._directory / "calls").write_text("")
        environ = {
            **os.environ,
            "PATH": f"{self._directory}:{os.environ['PATH']}",
            "LAKECLI_HOME": str(self._directory / home),
            "LAKECLI_USER_NAME": "Ada",
            "FAIL_AT": str(fail_at or "never"),  # two scripts count in one file
            "FAILURE": failure,
        }
        return subprocess.Popen(
            [require_tool("sh"), "-c", self._script],
            cwd=self._directory,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, home: str) -> None:
        """Run the script to its end."""
        job = self.start(home)
        said, _ = job.communicate()
        assert job.returncode == 0, said

    def names(self) -> list[str]:
        """Return the names of the objects of `main` in the bucket."""
        found = self._cli.ok("fs", "find", f"{self._namespace}@main/").stdout.split()
        return [uri.rpartition("/")[2] for uri in found]

    def head(self) -> str:
        """Return the commit of `main`, the only branch in the bucket."""
        branch, head = self._cli.ok("branch", "list", self._namespace).stdout.split()
        assert branch == "main"
        return head

    def head_in(self, home: str) -> str:
        """Return the commit of `main` in a home."""
        environ = {"LAKECLI_HOME": str(self._directory / home)}
        return self._cli("rev-parse", "lakefs://sales/main", env=environ).stdout.strip()


@pytest.fixture(params=["load", "import"])
def job(
    request: pytest.FixtureRequest,
    cli: Cli,
    moto_endpoint: str,
    aws_environment: pytest.MonkeyPatch,
) -> Job:
    """A script, and a repository without objects."""
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    namespace = f"s3://{new_bucket(moto_endpoint)}/sales"
    load, import_ = (block for block in blocks("recipes") if block.startswith("set -e"))
    job = Job(cli, namespace, load if request.param == "load" else import_)
    cli.now = system_now()
    cli.ok("repo", "create", "lakefs://sales", namespace)
    cli.ok("push", "lakefs://sales")
    store = open_store(namespace)
    [seen] = read_evidence(store).results
    record(store, seen._replace(races=RACES))  # so that no process of the script runs them
    (job.data / "january.csv").write_text("id,amount\n")
    return job


def test_each_script_runs_day_after_day(job: Job) -> None:
    """On a machine that keeps its home and on an empty one, also if a command was killed."""
    job.run("kept")
    before = job.head()
    (job.data / "february.csv").write_text("id\n")
    killed = job.start("kept", fail_at=job.last, failure="kill -9 $PPID")
    said, _ = killed.communicate()
    assert killed.returncode in {-9, 137}, said  # the shell, or the run that it waits for
    assert job.head() == before
    job.run("kept")
    assert sorted(job.names()) == ["february.csv", "january.csv"]
    for home in ("kept", "empty"):
        after = job.head()
        job.run(home)
        assert job.head() == job.head_in(home) == after, "there was nothing new"


@pytest.mark.nightly
def test_each_script_runs_after_each_failure(job: Job) -> None:
    before = job.head()
    for at in range(1, job.last + 1):
        failed = job.start("kept", fail_at=at, failure="exit 10")
        said, _ = failed.communicate()
        # Of the command, of a check of its code, or what `run` says of its job and its check.
        assert failed.returncode in {1, 10, 14, 15}, said
        assert job.head() == before
    job.run("kept")
    assert job.names() == ["january.csv"]


@pytest.mark.nightly
@pytest.mark.parametrize("homes", [("one", "one"), ("one", "another")])
def test_each_script_runs_beside_itself(job: Job, homes: tuple[str, str]) -> None:
    for each in [job.start(home) for home in homes]:
        said, _ = each.communicate()
        assert each.returncode == 0, said
    assert job.names() == ["january.csv"]

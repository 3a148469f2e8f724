"""A command imports only what it uses."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.golden import Cli

HEAVY = {
    "azure",
    "boto3",
    "botocore",
    "google",
    "numpy",
    "pandas",
    "pyarrow",
    "pyspark",
    "requests",
    "rich",
    "tomlkit",
    "typer",
    "urllib3",
    "yaml",
}
"""Top-level modules that no local command needs: each takes longer to import than the command."""

LINES = [
    "branch create lakefs://demo/dev -s lakefs://demo/main",
    "branch list lakefs://demo",
    "branch list lakefs://demo --json",
    "commit lakefs://demo/main -m staged",
    "config list",
    "diff lakefs://demo/main",
    "fs cat lakefs://demo/main/a",
    "fs ls lakefs://demo/main/",
    "fs stat lakefs://demo/main/a",
    "fs upload -s SOURCE lakefs://demo/main/b",
    "log lakefs://demo/main",
    "repo list",
    "rev-parse lakefs://demo/main@",
    "show commit lakefs://demo/main",
    "status lakefs://demo",
    "tag list lakefs://demo",
    "version",
]

MEMORY = 64 << 20

PROGRAM = """
import json, sys
from lakecli.cli import app
sys.argv = ["lakecli", *sys.argv[1:]]
code = None
try:
    app.main()
except SystemExit as error:
    code = error.code
peak = 0
with open("/proc/self/status") as status:
    for line in status:
        if line.startswith("VmHWM:"):
            peak = int(line.split()[1]) * 1024
sys.stderr.write(json.dumps([code, peak, sorted(sys.modules)]))
"""


def run(*argv: str) -> tuple[int, set[str]]:
    """Run a command as a process; return its peak memory in bytes, and the modules it loaded."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *argv], capture_output=True, text=True, check=True
    )
    code, peak, modules = json.loads(done.stderr.splitlines()[-1])  # after hints
    assert not code, done
    return peak, set(modules)


def modules_after(*argv: str) -> set[str]:
    """The modules that a process has loaded when its command is done."""
    return run(*argv)[1]


@pytest.mark.parametrize("line", LINES)
def test_local_commands_load_nothing_heavy(cli: Cli, line: str) -> None:
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    source = cli.directory / "a"
    source.write_text("a")
    cli.ok("fs", "upload", "-s", source, "lakefs://demo/main/a")
    peak, modules = run(*line.replace("SOURCE", str(source)).split())
    assert {name.partition(".")[0] for name in modules} & HEAVY == set()
    assert 0 < peak < MEMORY


@pytest.mark.parametrize(
    "line",
    [
        "branch list lakefs://demo",
        "fs ls lakefs://demo/main/",
        "fs stat lakefs://demo/main/a",
        "log lakefs://demo/main",
        "rev-parse lakefs://demo/main",
        "status lakefs://demo/main",
    ],
)
def test_reading_one_thing_makes_no_dataclass(cli: Cli, line: str) -> None:
    """`dataclasses` imports `inspect`, and with it a tenth of what the start takes."""
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    (cli.directory / "a").write_text("a")
    cli.ok("fs", "upload", "-s", cli.directory / "a", "lakefs://demo/main/a")
    cli.ok("commit", "lakefs://demo/main", "-m", "a")
    modules = modules_after(*line.split())
    assert not modules & {"dataclasses", "inspect", "subprocess", "difflib"}


def test_only_the_named_command_is_loaded() -> None:
    modules = modules_after("config", "list")
    loaded = {name for name in modules if name.startswith("lakecli.cli.commands.")}
    assert loaded == {"lakecli.cli.commands.config"}


def test_completion_builds_no_command() -> None:
    modules = modules_after("__complete", "branch", "")
    assert {name.partition(".")[0] for name in modules} & HEAVY == set()

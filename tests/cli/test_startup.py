"""What a command imports: nothing that it does not use."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {
    "azure",
    "boto3",
    "botocore",
    "cramjam",
    "csv",
    "google",
    "logging",
    "numpy",
    "pandas",
    "pyarrow",
    "pydantic",
    "pyspark",
    "requests",
    "rich",
    "sqlite3",
    "ssl",
    "tomlkit",
    "tomllib",
    "urllib3",
}
"""Top-level modules that no local command needs at its start."""

PROGRAM = """
import json, sys
from lakecli.cli import app
sys.argv = ["lakecli", *sys.argv[1:]]
code = None
try:
    app.main()
except SystemExit as error:
    code = error.code
sys.stderr.write(json.dumps([code, sorted(sys.modules)]))
"""


def modules_after(*argv: str) -> set[str]:
    """The modules that a process has loaded when its command is done."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *argv], capture_output=True, text=True, check=True
    )
    code, modules = json.loads(done.stderr)
    assert not code, done
    return set(modules)


@pytest.mark.parametrize("line", ["config list", "config list --json", "version"])
def test_local_commands_load_nothing_heavy(line: str) -> None:
    modules = modules_after(*line.split())
    assert {name.partition(".")[0] for name in modules} & HEAVY == set()


def test_only_the_named_command_is_loaded() -> None:
    modules = modules_after("config", "list")
    loaded = {name for name in modules if name.startswith("lakecli.cli.commands.")}
    assert loaded == {"lakecli.cli.commands.config_list"}


def test_completion_builds_no_command() -> None:
    modules = modules_after("__complete", "branch", "")
    assert "typer" not in modules
    assert {name.partition(".")[0] for name in modules} & HEAVY == set()

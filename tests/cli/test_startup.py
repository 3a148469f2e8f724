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
    "yaml",
}
"""Top-level modules that no local command needs at its start."""

SLOW = {"dataclasses", "inspect", "pathlib", "shlex", "signal", "threading", "typer", "typing"}
"""What commands that only read do without, too.

Defining a frozen dataclass takes five times as long as a named tuple, and imports `inspect`.
Importing `typing` takes a fifth of Python's own start; `lakecli.typed` has what is needed of it. Of
the others, importing each takes 0.4 to 0.8 ms.
"""

SHARING = {
    *("lakecli.kv." + name for name in ("intents", "packed", "past", "reflog", "tracking")),
    *("lakecli.repository." + name for name in ("fetch", "push", "reflog", "status", "sync")),
    *("lakecli.repository.core." + name for name in ("gc_guard", "intents", "pending", "tracking")),
    *("lakecli.repository.core." + name for name in ("staged_conflicts",)),
    "lakecli.repository.sharing",
    "lakecli.remote",
}
"""Modules that only commands about sharing need."""

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
    code, peak, modules = json.loads(done.stderr.splitlines()[-1])  # hints come before it
    assert not code, done
    return peak, set(modules)


def modules_after(*argv: str) -> set[str]:
    """The modules that a process has loaded when its command is done."""
    return run(*argv)[1]


@pytest.mark.parametrize(
    "line",
    [
        "branch list lakefs://demo",
        "branch list lakefs://demo --json",
        "branch show lakefs://demo/main",
        "config list",
        "config list --json",
        "diff lakefs://demo/main",
        "log lakefs://demo/main",
        "repo list",
        "rev-parse lakefs://demo/main@",
        "show commit lakefs://demo/main",
        "tag list lakefs://demo",
        "version",
    ],
)
def test_local_commands_load_nothing_heavy(cli: Cli, line: str) -> None:
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    modules = modules_after(*line.split())
    assert {name.partition(".")[0] for name in modules} & HEAVY == set()


@pytest.mark.parametrize(
    "line",
    [
        "branch list lakefs://demo",
        "diff lakefs://demo/main",
        "fs cat lakefs://demo/main/a",
        "fs ls lakefs://demo/main/",
        "log lakefs://demo/main",
        "tag list lakefs://demo",
    ],
)
def test_local_commands_load_nothing_for_sharing(cli: Cli, line: str) -> None:
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    (cli.directory / "a").write_text("a")
    cli.ok("fs", "upload", "-s", cli.directory / "a", "lakefs://demo/main/a")
    assert modules_after(*line.split()) & SHARING == set()


def test_branch_create_loads_only_the_check_of_collection(cli: Cli) -> None:
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    modules = modules_after("branch", "create", "lakefs://demo/dev", "-s", "lakefs://demo/main")
    asked = {"lakecli.remote", "lakecli.repository.core.gc_guard"}
    noted = {"lakecli.kv.intents", "lakecli.kv.tracking", "lakecli.repository.sharing"}
    assert asked <= modules & SHARING <= asked | noted
    assert {name.partition(".")[0] for name in modules} & HEAVY == set()


def test_a_diff_in_this_process_loads_no_pipeline(cli: Cli) -> None:
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    cli.ok("branch", "create", "lakefs://demo/dev", "-s", "lakefs://demo/main")
    modules = modules_after("diff", "lakefs://demo/main", "lakefs://demo/dev")
    assert "lakecli.repository.diff" in modules
    assert not any(name.startswith("lakecli.pipeline") for name in modules)
    assert {name.partition(".")[0] for name in modules} & HEAVY == set()


@pytest.mark.parametrize("line", ["branch list lakefs://demo", "log lakefs://demo/main"])
def test_local_commands_need_little_memory(cli: Cli, line: str) -> None:
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    peak, _ = run(*line.split())
    assert 0 < peak < 64 << 20


@pytest.mark.parametrize(
    ("line", "most"),
    [
        ("version", 20),
        ("branch list lakefs://demo", 47),
        ("log lakefs://demo/main", 52),
        ("rev-parse lakefs://demo/main", 49),
        ("status lakefs://demo", 61),
        ("fs stat lakefs://demo/main/a", 94),
        ("fs ls lakefs://demo/main/", 84),
        ("fs ls lakefs://demo/main/ --amount 1", 84),
        ("diff lakefs://demo/main~1 lakefs://demo/main", 88),
    ],
)
def test_a_start_imports_few_modules(cli: Cli, line: str, most: int) -> None:
    """Each module costs 0.2 ms: raise a number only for what the command cannot do without."""
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    for name in "ab":
        (cli.directory / name).write_text(name)
        cli.ok("fs", "upload", "-s", cli.directory / name, f"lakefs://demo/main/{name}")
        cli.ok("commit", "lakefs://demo/main", "-m", name)
    modules = modules_after(*line.split())
    ours = {name for name in modules if name.partition(".")[0] == "lakecli"}
    assert len(ours) <= most, sorted(ours)
    tops = {name.partition(".")[0] for name in modules}
    assert not tops & HEAVY


@pytest.mark.parametrize(("head", "most"), [("empty", 87), ("committed", 104)])
def test_an_upload_of_a_file_imports_few_modules(cli: Cli, head: str, most: int) -> None:
    """No threads, no batch, no record of a collection; of an empty tree, nothing that reads one."""
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    (cli.directory / "a").write_text("a")
    cli.ok("fs", "upload", "-s", cli.directory / "a", "lakefs://demo/main/a")
    if head == "committed":
        cli.ok("commit", "lakefs://demo/main", "-m", "a")
    (cli.directory / "b").write_text("b")
    modules = modules_after("fs", "upload", "-s", str(cli.directory / "b"), "lakefs://demo/main/b")
    ours = {name for name in modules if name.partition(".")[0] == "lakecli"}
    assert len(ours) <= most, sorted(ours)
    tops = {name.partition(".")[0] for name in modules}
    unwanted = HEAVY | SLOW | {"concurrent", "hashlib", "pathlib", "tempfile", "urllib"}
    assert tops & unwanted == set()


def test_an_upload_of_a_directory_imports_no_thread_pool(cli: Cli) -> None:
    """`concurrent.futures` imports `logging`, and 40 modules in all."""
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    source = cli.directory / "source"
    source.mkdir()
    (source / "a").write_text("a")
    modules = modules_after("-q", "fs", "upload", "-r", str(source), "lakefs://demo/main/")
    unwanted = {"concurrent", "dataclasses", "inspect", "logging", "typing"}
    assert {name.partition(".")[0] for name in modules} & unwanted == set()


def test_a_commit_imports_few_modules(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as for commands that only read; OpenSSL, behind `hashlib`, takes 2 ms."""
    monkeypatch.setenv("LAKECLI_USER_NAME", "Ada")  # else Git is asked
    monkeypatch.setenv("LAKECLI_USER_EMAIL", "ada@example.org")
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    (cli.directory / "a").write_text("a")
    cli.ok("fs", "upload", "-s", cli.directory / "a", "lakefs://demo/main/a")
    modules = modules_after("commit", "lakefs://demo/main", "-m", "a")
    ours = {name for name in modules if name.partition(".")[0] == "lakecli"}
    assert len(ours) <= 97, sorted(ours)
    unwanted = HEAVY | SLOW | {"hashlib", "pathlib", "subprocess"}
    assert {name.partition(".")[0] for name in modules} & unwanted == set()


@pytest.mark.parametrize(
    "line",
    [
        "branch list lakefs://demo",
        "log lakefs://demo/main",
        "rev-parse lakefs://demo/main",
        "status lakefs://demo",
        "fs stat lakefs://demo/main/a",
        "fs ls lakefs://demo/main/",
    ],
)
def test_short_commands_load_no_pathlib(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """It takes 3 ms, a tenth of the command; with the default home, too."""
    monkeypatch.delenv("LAKECLI_HOME")
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "namespace")
    (cli.directory / "a").write_text("a")
    cli.ok("fs", "upload", "-s", cli.directory / "a", "lakefs://demo/main/a")
    cli.ok("commit", "lakefs://demo/main", "-m", "a")
    assert not modules_after(*line.split()) & {"pathlib", "shutil", "tempfile"}


def test_only_the_named_command_is_loaded() -> None:
    modules = modules_after("config", "list")
    loaded = {name for name in modules if name.startswith("lakecli.cli.commands.")}
    assert loaded == {"lakecli.cli.commands.config_list"}


def test_completion_builds_no_command() -> None:
    modules = modules_after("__complete", "branch", "")
    assert {name.partition(".")[0] for name in modules} & HEAVY == set()

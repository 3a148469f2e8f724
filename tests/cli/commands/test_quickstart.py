"""``quickstart``."""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakecli.cli.commands import quickstart as command
from lakecli.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from tests.support.golden import Cli, Golden


@pytest.fixture
def files(cli: Cli) -> Path:
    """A small directory of somebody's."""
    root = cli.directory / "mine"
    contents = {"notes.md": "# Notes\n", "data/1.csv": "1,2\n", "data/2 %.csv": "3,4\n"}
    for name, text in {**contents, ".git/config": "left out"}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        os.utime(root / name, (1_700_000_000, 1_700_000_000))
    return root


def test_quickstart_runs_all_commands(cli: Cli, files: Path, golden: Golden) -> None:
    shown = cli("quickstart", files)
    golden("quickstart", shown)
    assert sorted(path.name for path in files.rglob("*") if path.is_file()) == sorted(
        ["notes.md", "1.csv", "2 %.csv", "config"]
    )


def test_every_printed_command_works(cli: Cli, files: Path) -> None:
    shown = cli.ok("quickstart", files)
    lines = shown.stdout.partition("Try next:")[2].splitlines()
    suggested = [shlex.split(line) for line in lines if line.strip()]
    assert len(suggested) >= 5
    for words in suggested:
        assert words[0] == "lakecli"
        arguments = [str(cli.directory / "got") if word == "./files" else word for word in words]
        cli.ok(*arguments[1:], *(["-y"] if "delete" in words else []))
    assert (cli.directory / "got" / "notes.md").exists()


def test_another_run_uses_another_name(cli: Cli, files: Path) -> None:
    names = [cli.ok("quickstart", files, "--json").json["repository"] for _ in range(3)]
    assert names == ["lakefs://quickstart", "lakefs://quickstart-2", "lakefs://quickstart-3"]
    cli.ok("repo", "delete", names[1], "-y")
    # Its directory is still there, so the name is not free.
    assert cli.ok("quickstart", files, "--json").json["repository"] == "lakefs://quickstart-4"


def test_json_lists_the_commands(cli: Cli, files: Path) -> None:
    answer = cli.ok("quickstart", files, "--json").json
    home = os.environ["LAKECLI_HOME"]
    assert answer["storage_namespace"] == f"local://{home}/quickstart/quickstart/namespace"
    assert answer["directory"] == f"{home}/quickstart/quickstart/files"
    verbs = [line.split()[1] for line in answer["commands"]]
    assert verbs[:3] == ["repo", "fs", "commit"]
    assert {"branch", "diff", "merge", "tag", "log"} <= set(verbs)


def test_files_of_python_are_used_without_a_directory(cli: Cli) -> None:
    start = time.monotonic()
    answer = cli.ok("quickstart", "--json").json
    assert time.monotonic() - start < 5
    found = [path for path in Path(answer["directory"]).rglob("*") if path.is_file()]
    assert 50 < len(found) <= command.MAX_FILES
    assert {path.suffix for path in found} <= {".py", ".txt"}
    cli.ok("fsck", answer["repository"], "--data")


def test_one_file_is_enough(cli: Cli) -> None:
    (cli.directory / "one").mkdir()
    (cli.directory / "one" / "file").write_text("x")
    answer = cli.ok("quickstart", cli.directory / "one", "--json").json
    assert "file" in cli.ok("fs", "ls", "-r", f"{answer['repository']}/main/").stdout


def test_large_files_are_skipped(cli: Cli, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "MAX_SIZE", 9)
    monkeypatch.setattr(command, "MAX_FILES", 2)
    answer = cli.ok("quickstart", files, "--json").json
    found = sorted(path.name for path in Path(answer["directory"]).rglob("*.*"))
    assert found == ["1.csv", "2 %.csv"]


def test_an_empty_directory_is_refused(cli: Cli, golden: Golden) -> None:
    (cli.directory / "empty").mkdir()
    golden(
        "quickstart_refuses",
        cli("quickstart", cli.directory / "empty"),
        cli("quickstart", cli.directory / "nope", "--json"),
    )
    assert not (Path(os.environ["LAKECLI_HOME"]) / "quickstart").exists()


def test_a_failing_command_ends_the_quickstart(cli: Cli, files: Path) -> None:
    home = Path(os.environ["LAKECLI_HOME"])
    home.mkdir(parents=True)
    (home / "config.toml").write_text("[transfer]\nparallelism = 'many'\n")
    failed = cli("quickstart", files)
    assert failed.exit_code == ExitCode.USAGE
    assert failed.stderr.startswith("error: transfer.parallelism in ")
    assert failed.lines[-1].startswith("$ lakecli fs upload")
    assert cli("quickstart", files, "--json").error["kind"] == "usage"

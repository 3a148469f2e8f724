"""Commands load nothing from the directory where they run, though objects may have any name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.canaries import plant

if TYPE_CHECKING:
    import pytest

    from tests.support.demo import Demo
    from tests.support.golden import Cli

LAKECLI = Path(sys.executable).with_name("lakecli")

DEMO = "lakefs://demo"
MAIN = f"{DEMO}/main"
COMMANDS = (
    ("fs", "upload", "-r", "../source", f"{MAIN}/in/"),
    ("commit", MAIN, "-m", "m"),
    ("log", MAIN, "--graph"),
    ("diff", f"{MAIN}~1", MAIN),
    ("fs", "ls", f"{MAIN}/in/"),
    ("fs", "download", f"{MAIN}/in/a.csv", "a.csv"),
    ("local", "clone", f"{MAIN}/in/", "linked"),
    ("local", "status", "linked"),
    ("export", f"{MAIN}/", "../exported"),
    ("import", "--from", "../source", "--to", f"{MAIN}/more/"),
    ("fsck", DEMO),
    ("gc", "run", DEMO, "-y"),
    ("plugin", "list"),
    ("help", "security"),
    ("config", "list"),
    ("doctor", DEMO),
    ("version", "--verbose"),
    ("__complete", "path", f"{MAIN}/"),
)


def test_no_command_loads_what_was_downloaded(tmp_path: Path) -> None:
    directory = tmp_path / "downloads"
    for each in (directory, tmp_path / "source"):
        each.mkdir()
    (tmp_path / "source/a.csv").write_text("a")
    plant(directory, tmp_path / "marker")
    (tmp_path / "gitconfig").write_text("[user]\nname = me\nemail = me@example.com\n")
    environ = {
        **os.environ,
        "LAKECLI_HOME": "../home",
        "GIT_CONFIG_GLOBAL": str(tmp_path / "gitconfig"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for variable in ("LAKECLI_USER_NAME", "LAKECLI_USER_EMAIL"):
        environ.pop(variable, None)

    def run(*argv: str) -> str:
        done = subprocess.run(
            [LAKECLI, *argv],
            cwd=directory,
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, (argv, done.stderr)
        return done.stdout

    run("repo", "create", DEMO, str(tmp_path / "namespace"))
    for command in COMMANDS:
        run(*command)
        assert not (tmp_path / "marker").exists(), (command, (tmp_path / "marker").read_text())
    # Nor is the bare repository of Git there believed.
    assert run("log", MAIN, "--amount", "1", "--format", "%an %ae") == "me me@example.com\n"


def test_a_commit_succeeds_in_a_directory_that_was_deleted(
    cli: Cli, demo: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo.stage({"a": "1"})
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    (tmp_path / "config.toml").touch()
    cli.ok("commit", MAIN, "-m", "first", "--config", tmp_path / "config.toml")

"""``run``, and its ``list``, ``show``, ``resume`` and ``abort``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

DEMO = "lakefs://demo"
MAIN = f"{DEMO}/main"
NIGHT = f"{DEMO}/night"
LAKECLI = f"{sys.executable} -m lakecli"


def wait_for(is_so: Callable[[], bool]) -> None:
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.05)
    raise AssertionError


@pytest.fixture
def loaded(demo: Demo) -> Demo:
    demo.commit("first", {"a": "1"})
    (demo.cli.directory / "new").write_text("new")
    return demo


def load(cli: Cli, then: str = "true") -> list[str]:
    """Return a job that uploads a file to its branch."""
    new = cli.directory / "new"
    return ["--", "sh", "-c", f"{LAKECLI} -q fs upload {new} raw/new > /dev/null && {then}"]


def test_runs(cli: Cli, loaded: Demo, golden: Golden) -> None:
    run = ["run", MAIN, "--branch", "night"]
    golden(
        "run",
        cli(*run, "--", "true"),
        cli(*run, "--json", "--", "true"),
        cli(*run, "--", "sh", "-c", "exit 3"),
        cli(*run, "--json", "--", "sh", "-c", "kill -9 $$"),
        cli(*run, "--", "no-such-program"),
        cli("run", "list", DEMO),
        cli("run", "show", NIGHT),
        cli("run", "resume", NIGHT),
        cli("run", "abort", NIGHT),
        cli("run", "list", DEMO, "--json"),
        cli("run", "abort", NIGHT),
        cli("run", MAIN),
        cli("run", f"{DEMO}/nope", "--", "true"),
    )
    assert loaded.messages() == ["first", "Repository created"]


def test_a_run_publishes(cli: Cli, loaded: Demo) -> None:
    cli.ok("config", "set", "checks.new", f"{LAKECLI} fs stat raw/new")
    seen = cli.directory / "seen"
    shown = "$LAKECLI_REF $LAKECLI_BASE_URI $LAKECLI_RUN_ID"
    done = cli(
        *("run", MAIN, "--check", "new", "-m", "Load", "--json"),
        *load(cli, f"echo {shown} > {seen}"),
    )
    assert done.exit_code == 0, done
    ref, base, run_id = seen.read_text().split()
    assert done.json["commit_id"] == loaded.head()
    assert (done.json["id"], ref, base) == (run_id, f"{DEMO}/{done.json['branch']}", f"{ref}/")
    assert set(loaded.contents()) == {"a", "raw/new"}
    assert loaded.messages()[:2] == ["Load", "Load"]
    assert cli.ok("branch", "list", DEMO).stdout.startswith("main\t")
    assert "check\tnew" in cli.ok("check", "list", MAIN).stdout
    assert "main: up to date" in cli.ok("status", DEMO).stdout


def test_a_failed_check_or_hook_keeps_the_branch(cli: Cli, loaded: Demo) -> None:
    cli.ok("config", "set", "checks.new", "false")
    before = loaded.head()
    run = ["run", MAIN, "--branch", "night", "--check", "new"]
    failed = cli(*run, *load(cli))
    assert failed.exit_code == 15
    assert loaded.head() == before
    cli.ok("config", "set", "checks.new", "true")
    cli.ok("config", "set", "hooks.pre-merge", "false")
    assert cli("run", "resume", NIGHT).exit_code == 16
    assert "the hook pre-merge" in cli.ok("run", "show", NIGHT).stdout
    done = cli.ok("run", "resume", NIGHT, "--no-verify", "--json")
    assert done.json["commit_id"] == loaded.head()
    assert cli.ok("run", "list", DEMO).stdout == ""


@pytest.mark.parametrize(("keep", "left"), [("never", False), ("always", True)])
def test_a_branch_is_kept_on_request(cli: Cli, loaded: Demo, keep: str, left: bool) -> None:  # noqa: FBT001 - a parameter
    run = ["run", MAIN, "--branch", "night", "--keep", keep]
    for job in (["--", "false"], load(cli)):
        cli(*run, *job)
        assert ("night" in cli.ok("branch", "list", DEMO).stdout) is left
    assert "raw/new" in loaded.contents()


def test_a_killed_run_leaves_nothing_and_its_job_hinders_the_next_while_it_lives(
    cli: Cli, loaded: Demo
) -> None:
    before = loaded.head()
    started = cli.directory / "started"
    line = ["run", MAIN, "--branch", "night"]
    job = load(cli, f"echo $$ > {started}; exec sleep 60")
    process = subprocess.Popen([sys.executable, "-m", "lakecli", *line, *job])
    wait_for(lambda: started.exists() and started.read_text() != "")
    process.kill()
    process.wait()
    assert "running" in cli.ok("run", "list", DEMO).stdout
    refused = cli(*line, *load(cli))
    assert refused.exit_code == 5
    assert "under way" in refused.stderr
    os.kill(int(started.read_text()), signal.SIGKILL)
    wait_for(lambda: "killed" in cli.ok("run", "list", DEMO).stdout)
    assert cli("run", "resume", NIGHT).exit_code == 7
    assert loaded.head() == before
    assert cli(*line, *load(cli)).exit_code == 0
    assert set(loaded.contents()) == {"a", "raw/new"}
    assert cli.ok("run", "list", DEMO).stdout == ""


def test_the_message_of_the_commit_leaves_passwords_out(
    cli: Cli, loaded: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def job(_words: list[str], environ: dict[str, str], *_: object, **_options: object) -> int:
        cli.ok("fs", "upload", loaded.cli.directory / "new", f"{environ['LAKECLI_REF']}/new")
        return 0

    monkeypatch.setattr("lakecli.cli.commands.run.run_program", job)
    cli.ok("run", MAIN, "--", "load", "postgres://ada:secret@host/db")
    logged = cli.ok("log", MAIN).stdout
    assert "Run load postgres://host/db" in logged
    assert "secret" not in logged

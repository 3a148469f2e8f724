"""``undo``, ``redo`` and ``op restore`` that are killed before they have answered."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakecli.cli.context import system_now
from lakecli.cli.exit_codes import ExitCode
from tests.support.demo import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.demo import Demo
    from tests.support.golden import Cli

COMPLETED = "the {} before was interrupted; it is complete now\n"
COMMANDS = ("undo", "redo", "op restore")


@pytest.fixture(autouse=True)
def _present(cli: Cli) -> None:
    """Let commands of this process and of others have the same time: old operations expire."""
    cli.now = system_now()


def log(cli: Cli) -> list[str]:
    """The kinds of the operations, newest first, those that are undone in parentheses."""
    lines = cli.ok("op", "log", REPOSITORY, "--json", "--amount", "0").json_lines
    return [f"({each['kind']})" if each["undone"] else each["kind"] for each in lines]


def answers(cli: Cli) -> list[Path]:
    """The files of the answers that were not given."""
    return list(Path(os.environ["LAKECLI_HOME"], "store", "answers").glob("*"))


def prepare(cli: Cli, demo: Demo, command: str) -> tuple[str, ...]:
    """Do something that can be undone, and undo it for a redo; return the command line."""
    demo.commit("first", {"a": "1"})
    after = cli.ok("op", "log", REPOSITORY, "--json").json_lines[0]["id"]
    for branch in ("one", "two", "three"):
        demo.branch(branch)
    if command == "redo":
        for _ in range(3):
            cli.ok("undo", REPOSITORY)
    return ("op", "restore", REPOSITORY, after, "-y") if command == "op restore" else (command,)


@contextmanager
def blocked(cli: Cli, *argv: str, is_repeated: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command as a process that has done everything, and waits to write its answer."""
    count = len(log(cli))
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writing, bytes(4096))
    os.set_blocking(writing, True)
    line = [sys.executable, "-m", "lakecli", *argv]
    process = subprocess.Popen(line, stdout=writing, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        if is_repeated:
            assert process.stderr.readline().decode() == COMPLETED.format(argv[0])
        deadline = time.monotonic() + 60
        while not is_repeated and (len(log(cli)) == count or not answers(cli)):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.communicate()
        os.close(reading)
        os.close(writing)


def kill(cli: Cli, *argv: str, is_repeated: bool = False) -> None:
    """Run a command that is killed while it writes its answer."""
    with blocked(cli, *argv, is_repeated=is_repeated):
        pass


def refs(cli: Cli) -> list[str]:
    """The names of the branches."""
    return [line.split("\t")[0] for line in cli.ok("branch", "list", REPOSITORY).lines if line]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_killed_before_its_answer_answers_once(
    cli: Cli, demo: Demo, command: str
) -> None:
    argv = prepare(cli, demo, command)
    argv = argv if len(argv) > 1 else (*argv, REPOSITORY)
    kill(cli, *argv)
    done = log(cli)
    assert len(answers(cli)) == 1
    again = cli.ok(*argv)
    assert log(cli) == done
    assert not answers(cli)
    if command == "op restore":
        assert again.stdout.startswith(f"Restored {REPOSITORY} to its state after operation")
        assert refs(cli) == ["main"]
        assert cli(*argv).exit_code == ExitCode.NOTHING_TO_DO
    else:
        word = "Undone" if command == "undo" else "Redone"
        assert again.stdout.startswith(f"{word} operation ")
        assert again.stderr == COMPLETED.format(command)
        left = ["main", "one", "two"] if command == "undo" else ["main", "one"]
        assert refs(cli) == left
        following = cli.ok(*argv)
        assert following.stderr == ""
        assert refs(cli) == (left[:-1] if command == "undo" else [*left, "two"])


def test_the_repeated_answer_is_the_one_that_was_lost(cli: Cli, demo: Demo) -> None:
    prepare(cli, demo, "undo")
    kill(cli, "undo", REPOSITORY, "--json")
    kill(cli, "undo", REPOSITORY, "--json", is_repeated=True)
    appended = cli.ok("op", "log", REPOSITORY, "--json").json_lines[0]
    again = cli.ok("undo", REPOSITORY, "--json").json
    assert again["appended"] == appended["id"]
    assert [each["name"] for each in again["refs"]] == ["three"]
    assert log(cli).count("undo") == 1


def test_a_command_that_still_runs_is_not_completed_by_another(cli: Cli, demo: Demo) -> None:
    prepare(cli, demo, "undo")
    with blocked(cli, "undo", REPOSITORY):
        assert cli.ok("undo", REPOSITORY).stderr == ""
        assert refs(cli) == ["main", "one"]
    assert cli.ok("undo", REPOSITORY).stderr == ""  # another command came after the killed one
    assert refs(cli) == ["main"]
    assert not answers(cli)


@pytest.mark.parametrize("other", [("redo", REPOSITORY), ("branch", "create")])
def test_another_command_ends_the_wait_for_an_answer(
    cli: Cli, demo: Demo, other: tuple[str, ...]
) -> None:
    prepare(cli, demo, "undo")
    kill(cli, "undo", REPOSITORY)
    if other[0] == "redo":
        cli.ok(*other)
    else:
        demo.branch("four")
    assert cli.ok("undo", REPOSITORY).stderr == ""
    assert not answers(cli)
    assert refs(cli) == ["main", "one", "two"]


@pytest.mark.parametrize("content", [b"", b'{"moved": [{"kind": "repository"}]}'])
def test_a_damaged_record_of_an_answer_lacks_only_what_moved_in_the_bucket(
    cli: Cli, demo: Demo, content: bytes
) -> None:
    prepare(cli, demo, "undo")
    kill(cli, "undo", REPOSITORY)
    (file,) = answers(cli)
    file.write_bytes(content)
    file.with_name(file.name[:-8]).touch()
    file.with_name(file.name[:-8] + "notadigit").touch()
    assert cli.ok("undo", REPOSITORY, "--json").json["remote"] == []
    assert refs(cli) == ["main", "one", "two"]


def test_a_command_of_a_deleted_repository_is_completed_before_one_of_another(
    cli: Cli, demo: Demo
) -> None:
    demo.branch("dev")
    cli.ok("repo", "delete", REPOSITORY, "-y")
    cli.ok("repo", "create", REPOSITORY, cli.directory / "second")
    kill(cli, "undo", REPOSITORY)
    assert cli.ok("undo", REPOSITORY).stdout.splitlines()[0].endswith("repo create")
    assert cli.ok("repo", "list").stdout.strip() == ""
    assert cli.ok("undo", REPOSITORY).stdout.splitlines()[0].endswith("repo delete")


def test_an_answer_that_cannot_be_written_is_given_by_the_next_command(
    cli: Cli, demo: Demo
) -> None:
    prepare(cli, demo, "undo")
    with Path("/dev/full").open("wb") as full:
        code = subprocess.run(
            [sys.executable, "-m", "lakecli", "undo", REPOSITORY],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        ).returncode
    assert code != 0
    assert cli.ok("undo", REPOSITORY).stderr == COMPLETED.format("undo")
    assert refs(cli) == ["main", "one", "two"]

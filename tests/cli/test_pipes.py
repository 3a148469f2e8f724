"""Commands read and write pipes, and what the shell opened, under a path as under ``-``."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from lakecli.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.golden import Cli

MAIN = "lakefs://demo/main"
OBJECT = b"id,1\n"


@pytest.fixture(autouse=True)
def demo(cli: Cli, tmp_path: Path) -> None:
    cli.ok("repo", "create", "lakefs://demo", tmp_path / "namespace")
    cli.ok("fs", "upload", "-", f"{MAIN}/a.csv", stdin=OBJECT)
    cli.ok("commit", MAIN, "-m", "first")


@contextmanager
def appended(file: Path) -> Iterator[str]:
    """Open a file as ``>> FILE`` does; yield the path of the descriptor."""
    file.write_bytes(b"before\n")
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND)
    os.set_inheritable(descriptor, True)  # noqa: FBT003 - as what a shell opens
    try:
        yield f"/dev/fd/{descriptor}"
        os.write(descriptor, b"after\n")
    finally:
        os.close(descriptor)


@contextmanager
def piped(data: bytes) -> Iterator[str]:
    """Yield the path of a pipe with some bytes, as ``<(…)`` is one."""
    reader, writer = os.pipe()
    os.set_inheritable(reader, True)  # noqa: FBT003 - as what a shell opens
    try:
        os.write(writer, data)
        os.close(writer)
        yield f"/dev/fd/{reader}"
    finally:
        os.close(reader)


def test_downloads_append(cli: Cli, tmp_path: Path) -> None:
    with appended(tmp_path / "file") as path:
        cli.ok("fs", "download", f"{MAIN}/a.csv", path)
    assert (tmp_path / "file").read_bytes() == b"before\n" + OBJECT + b"after\n"


@pytest.mark.parametrize(
    "command", [("refs-dump", "lakefs://demo", "-o"), ("export", "--to-lakefs-import", f"{MAIN}/")]
)
def test_files_of_commands_append(cli: Cli, tmp_path: Path, command: tuple[str, ...]) -> None:
    cli.ok("push", "--all", "lakefs://demo")
    with appended(tmp_path / "file") as path:
        cli.ok(*command, path)
    written = (tmp_path / "file").read_bytes()
    assert written.startswith(b"before\n")
    assert written.endswith(b"after\n")
    assert len(written) > len(b"before\nafter\n")
    assert sorted(found.name for found in tmp_path.glob("f*")) == ["file"]


def test_logs_append(cli: Cli, tmp_path: Path) -> None:
    with appended(tmp_path / "file") as path:
        cli.ok("fs", "stat", f"{MAIN}/a.csv", "--log-level", "info", "--log-output", path)
    lines = (tmp_path / "file").read_text().splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert "msg=begin" in lines[1]


def test_pipes_are_uploaded(cli: Cli) -> None:
    with piped(b"of a pipe") as path:
        cli.ok("fs", "upload", path, f"{MAIN}/b.csv")
    assert cli.ok("fs", "cat", f"{MAIN}/b.csv").stdout == "of a pipe"


@pytest.mark.parametrize("options", [("-r",), ("--dry-run",)])
def test_a_pipe_is_no_directory_and_is_not_planned(cli: Cli, options: tuple[str, ...]) -> None:
    with piped(b"") as path:
        assert cli("fs", "upload", path, f"{MAIN}/b/", *options).exit_code == ExitCode.USAGE
        several = cli("fs", "upload", path, path, f"{MAIN}/b/")
    assert f"{path} has no name" in several.stderr


def test_lists_come_from_pipes(cli: Cli) -> None:
    with piped(b"a.csv\n") as path:
        listed = cli.ok("fs", "stat", f"{MAIN}/", "--files-from", path, "--json")
    assert "a.csv" in listed.stdout
    with piped(b'{"default_retention_days": 21, "branches": []}') as path:
        cli.ok("gc", "set-config", "lakefs://demo", "-f", path)


def test_what_needs_a_file_says_so(cli: Cli, tmp_path: Path) -> None:
    with piped(b"path") as path:
        imported = cli("import", "--from", path, "--to", f"{MAIN}/x/", "--manifest")
    assert f"{path} is a pipe" in imported.stderr
    with piped(b"") as path:
        edited = cli("--config", path, "config", "set", "gc.grace", "30d")
    with appended(tmp_path / "file") as path:
        tree = cli("fs", "download", "-r", f"{MAIN}/", path)
        planned = cli("fs", "download", f"{MAIN}/a.csv", path, "--dry-run")
    assert "is not a file that can be changed" in edited.stderr
    assert "not a directory" in tree.stderr
    assert "not a regular file" in planned.stderr
    assert (tmp_path / "file").read_bytes() == b"before\nafter\n"


def test_a_closed_descriptor_is_named(cli: Cli) -> None:
    for command in (
        ("fs", "download", f"{MAIN}/a.csv", "/dev/fd/9999"),
        ("fs", "upload", "/dev/fd/9999", f"{MAIN}/b.csv"),
        ("fs", "stat", f"{MAIN}/", "--files-from", "/dev/fd/9999"),
    ):
        failed = cli(*command)
        assert "/dev/fd/9999" in failed.stderr, command
        assert failed.exit_code == ExitCode.NOT_FOUND

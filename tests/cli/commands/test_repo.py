"""``repo create``, ``repo list`` and ``repo delete``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.cli.commands.repo import repo_create
from lakecli.cli.line import Declaration
from lakecli.repository.repo import DEFAULT_BRANCH, DEFAULT_RANGE_ENTRIES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.golden import Cli, Golden


def test_create_makes_a_repository(cli: Cli, golden: Golden) -> None:
    golden(
        "repo_create",
        cli("repo", "create", "lakefs://demo", cli.directory / "a"),
        cli("repo", "create", "lakefs://trunk/", f"file://{cli.directory}/b", "-d", "trunk"),
        cli("repo", "create", "lakefs://third", f"local://{cli.directory}/c", "--json"),
        cli("log", "lakefs://trunk/trunk"),
    )


def test_create_refuses_bad_input(cli: Cli, golden: Golden) -> None:
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "a")
    lakefs = cli.directory / "lakefs" / "_lakefs"
    lakefs.mkdir(parents=True)
    (lakefs / "dummy").touch()
    fresh = cli.directory / "fresh"
    golden(
        "repo_create_refuses",
        cli("repo", "create", "lakefs://demo", fresh),
        cli("repo", "create", "lakefs://demo2", cli.directory / "a"),
        cli("repo", "create", "lakefs://demo2", lakefs.parent),
        cli("repo", "create", "lakefs://demo2", "relative/path"),
        cli("repo", "create", "lakefs://demo2", "ftp://host/path"),
        cli("repo", "create", "lakefs://demo2", fresh, "--range-entries", "100"),
        cli("repo", "create", "lakefs://demo2", fresh, "-d", "no/slash"),
        cli("repo", "create", "lakefs://De", fresh),
        cli("repo", "create", "demo2", fresh),
        cli("repo", "create", "lakefs://demo2/main", fresh),
        cli("repo", "create", "lakefs://demo2"),
        cli("repo", "create", "lakefs://demo", fresh, "--json"),
    )
    assert not fresh.exists()
    assert [each["name"] for each in cli.ok("repo", "list", "--json").json_lines] == ["demo"]


def test_create_tells_what_else_is_there(cli: Cli, golden: Golden, tmp_path: Path) -> None:
    for name in ("data/2025/a.csv", "raw/b.csv"):
        file = tmp_path / "used" / name
        file.parent.mkdir(parents=True)
        file.write_text("1")
    golden(
        "repo_create_beside_objects",
        cli("repo", "create", "lakefs://demo", f"local://{tmp_path}/used"),
        cli("repo", "create", "lakefs://outer", f"local://{tmp_path}"),
    )


def test_create_refuses_an_unwritable_directory(cli: Cli) -> None:
    (cli.directory / "file").touch()
    result = cli("repo", "create", "lakefs://demo", cli.directory / "file" / "below")
    assert result.exit_code != 0
    assert result.lines == ["Repository: lakefs://demo"]
    assert str(cli.directory / "file") in result.stderr.splitlines()[0]
    assert cli.ok("repo", "list", "--json").stdout == ""


def test_the_help_names_the_defaults() -> None:
    declared = Declaration(repo_create).parameters
    assert declared["default_branch"].default == DEFAULT_BRANCH
    assert declared["range_entries"].default == DEFAULT_RANGE_ENTRIES


def test_list_pages_repositories(cli: Cli, golden: Golden) -> None:
    empty = cli("repo", "list")
    for name in ("two", "one", "three"):
        cli.ok("repo", "create", f"lakefs://{name}", cli.directory / name)
    golden(
        "repo_list",
        empty,
        cli("repo", "list"),
        cli("repo", "list", "--json"),
        cli("repo", "list", "--amount", "1"),
        cli("repo", "list", "--amount", "1", "--after", "one"),
        cli("repo", "list", "--prefix", "t", "--amount=0"),
        cli("repo", "list", "--amount", "-1"),
    )


def test_list_is_aligned_on_a_terminal(cli: Cli) -> None:
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "a")
    lines = cli("repo", "list", terminal=True).lines
    assert lines[0].startswith("\033[1mREPOSITORY  CREATION DATE")
    assert lines[1].startswith("demo        2026-03-01 ")


def test_delete_removes_a_repository(cli: Cli, golden: Golden) -> None:
    for name in ("one", "two", "three"):
        cli.ok("repo", "create", f"lakefs://{name}", cli.directory / name)
    golden(
        "repo_delete",
        cli("repo", "delete", "lakefs://one"),
        cli("repo", "delete", "lakefs://one", "-y"),
        cli("repo", "delete", "lakefs://one", "-y"),
        cli("repo", "delete", "lakefs://two", "--yes", "--json", "--quiet"),
        cli("repo", "delete", "three"),
        cli("repo", "list"),
    )
    assert (cli.directory / "one" / "_lakecli" / "repository.json").exists()


@pytest.mark.parametrize(("answer", "code", "left"), [("n\n", 7, 1), ("yes\n", 0, 0)])
def test_delete_asks_first(cli: Cli, answer: str, code: int, left: int) -> None:
    cli.ok("repo", "create", "lakefs://demo", cli.directory / "a")
    result = cli("repo", "delete", "lakefs://demo", stdin=answer, terminal=True)
    assert result.exit_code == code
    asked = (
        "Are you sure you want to delete repository 'demo' and all its branches, tags and "
        "commits [y/N]? "
    )
    assert result.stderr.startswith(asked)
    assert len(cli.ok("repo", "list", "--json").lines) == left


def test_delete_of_a_missing_repository_does_not_ask(cli: Cli) -> None:
    result = cli("repo", "delete", "lakefs://demo", stdin="y\n", terminal=True)
    assert result.exit_code == 6
    assert "sure" not in result.stderr


def test_create_says_which_directory_it_makes(cli: Cli) -> None:
    place = cli.directory / "disk" / "lake"
    made = cli.ok("repo", "create", "lakefs://demo", place)
    assert made.stderr == f"the directory {place.parent} was not there and was made\n"
    assert cli.ok("repo", "create", "lakefs://demo2", place.parent / "lake2").stderr == ""

"""Several arguments, ``--files-from`` and ``--must-exist``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.golden import Cli

DEMO = "lakefs://demo"
MAIN = "lakefs://demo/main"


@pytest.fixture
def filled(demo: Demo) -> Demo:
    demo.commit("first", {"a": "1\n", "b": "2\n", "data/x": "3\n", "data/y z": "4\n", "d": "5\n"})
    return demo


def changes(cli: Cli, branch: str = MAIN) -> list[str]:
    return cli.ok("diff", branch).lines[1:]


def operations(cli: Cli) -> int:
    return len(cli.ok("op", "log", DEMO, "--json", "--amount", "0").lines)


def test_several_objects_are_removed_in_one_operation(cli: Cli, filled: Demo) -> None:
    before = operations(cli)
    removed = cli.ok("fs", "rm", f"{MAIN}/d", f"{MAIN}/a", f"{MAIN}/none", f"{MAIN}/a", "--json")
    assert removed.json == {"removed": 2}
    assert "no object at lakefs://demo/main/none" in removed.stderr
    assert changes(cli) == ["- removed a", "- removed d"]
    assert operations(cli) == before + 1
    cli.ok("undo", DEMO)
    assert changes(cli) == []
    assert set(filled.contents()) == {"a", "b", "d", "data/x", "data/y z"}


def test_several_trees_are_removed_in_one_operation(cli: Cli, filled: Demo) -> None:
    before = operations(cli)
    planned = cli.ok("fs", "rm", "-r", f"{MAIN}/data", f"{MAIN}/a", "--dry-run", "--json")
    assert planned.json["objects"] == 3
    assert cli.ok("fs", "rm", "-r", f"{MAIN}/data", f"{MAIN}/a", "--json").json == {"removed": 3}
    assert operations(cli) == before + 1
    cli.ok("undo", DEMO)
    assert len(filled.contents()) == 5


@pytest.mark.usefixtures("filled")
def test_must_exist_removes_all_or_nothing(cli: Cli) -> None:
    assert cli("fs", "rm", f"{MAIN}/none").exit_code == ExitCode.OK
    one = cli("fs", "rm", "--must-exist", f"{MAIN}/none")
    assert one.exit_code == ExitCode.NOT_FOUND
    assert "no object at lakefs://demo/main/none" in one.stderr
    several = cli("fs", "rm", "--must-exist", f"{MAIN}/a", f"{MAIN}/n1", f"{MAIN}/n2", "--json")
    assert several.exit_code == ExitCode.NOT_FOUND
    assert several.error["paths"] == ["n1", "n2"]
    trees = cli("fs", "rm", "-r", "--must-exist", f"{MAIN}/data", f"{MAIN}/none")
    assert trees.exit_code == ExitCode.NOT_FOUND
    assert changes(cli) == []
    cli.ok("fs", "rm", "--must-exist", f"{MAIN}/a", f"{MAIN}/b")
    assert changes(cli) == ["- removed a", "- removed b"]


@pytest.mark.usefixtures("filled")
def test_names_come_from_a_file(cli: Cli) -> None:
    names = cli.directory / "names"
    names.write_bytes(b"x\n\ny z\nx\nnone\n")
    removed = cli.ok("fs", "rm", "--files-from", names, f"{MAIN}/data", "--json")
    assert removed.json == {"removed": 2}
    assert "no object at lakefs://demo/main/data/none" in removed.stderr
    assert changes(cli) == ["- removed data/x", "- removed data/y z"]
    cli.ok("undo", DEMO)
    cli.ok("fs", "rm", "--files-from=-", "-z", f"{MAIN}/", stdin=b"data/y z\0d\0")
    assert changes(cli) == ["- removed d", "- removed data/y z"]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("-z", f"{MAIN}/a"), "-z needs --files-from"),
        (("--files-from", "-", f"{MAIN}/a"), "there is no name in -"),
        (("--files-from", "-", "-r", f"{MAIN}/a"), "takes one PATH and no -r"),
        (("--files-from", "-", f"{MAIN}/a", f"{MAIN}/b"), "takes one PATH and no -r"),
        ((f"{MAIN}/a", f"{DEMO}/dev/b"), "not of the same branch"),
        ((f"{MAIN}/a", "lakefs://other/main/b"), "not of the same repository"),
    ],
)
@pytest.mark.usefixtures("filled")
def test_what_says_nothing_is_refused(cli: Cli, argv: tuple[str, ...], said: str) -> None:
    stdin = b"x\n" if "takes one" in said else b"\n\n"
    refused = cli("fs", "rm", *argv, stdin=stdin)
    assert refused.exit_code == ExitCode.USAGE
    assert said in refused.stderr
    assert changes(cli) == []


@pytest.mark.usefixtures("filled")
def test_a_missing_list_is_reported(cli: Cli) -> None:
    missing = cli("fs", "rm", "--files-from", cli.directory / "none", f"{MAIN}/")
    assert missing.exit_code == ExitCode.NOT_FOUND
    directory = cli("fs", "rm", "--files-from", cli.directory, f"{MAIN}/")
    assert directory.exit_code == ExitCode.PERMISSION


@pytest.mark.usefixtures("filled")
def test_several_objects_are_written_in_order(cli: Cli) -> None:
    assert cli.ok("fs", "cat", f"{MAIN}/b", f"{MAIN}/a", f"{MAIN}/b").stdout == "2\n1\n2\n"
    missing = cli("fs", "cat", f"{MAIN}/a", f"{MAIN}/none")
    assert (missing.exit_code, missing.stdout) == (ExitCode.NOT_FOUND, "")


def test_several_branches_are_deleted(cli: Cli, filled: Demo) -> None:
    for name in ("x", "y", "z"):
        filled.branch(name)
    failed = cli("branch", "delete", f"{DEMO}/x", f"{DEMO}/none", "-y")
    assert failed.exit_code == ExitCode.NOT_FOUND
    assert len(cli.ok("branch", "list", DEMO, "--json").lines) == 4
    deleted = cli.ok("branch", "delete", f"{DEMO}/x", f"{DEMO}/y", f"{DEMO}/x", "-y")
    assert deleted.stdout == "Branch: lakefs://demo/x\nBranch: lakefs://demo/y\n"
    assert [each["name"] for each in cli.ok("branch", "list", DEMO, "--json").json_lines] == [
        "main",
        "z",
    ]
    asked = cli("branch", "delete", f"{DEMO}/z", f"{DEMO}/main", stdin="n\n", terminal=True)
    assert asked.exit_code == ExitCode.REFUSED  # main is the default branch


def test_several_tags_are_deleted(cli: Cli, filled: Demo) -> None:
    assert filled.head()
    for name in ("v1", "v2", "v3"):
        cli.ok("tag", "create", f"{DEMO}/{name}", MAIN)
    failed = cli("tag", "delete", f"{DEMO}/v1", f"{DEMO}/none", "-y")
    assert failed.exit_code == ExitCode.NOT_FOUND
    asked = cli("tag", "delete", f"{DEMO}/v1", f"{DEMO}/v2", stdin="y\n", terminal=True)
    assert "delete tags 'v1', 'v2' [y/N]?" in asked.stderr
    assert [each["name"] for each in cli.ok("tag", "list", DEMO, "--json").json_lines] == ["v3"]
    records = cli.ok("tag", "delete", f"{DEMO}/v3", "-y", "--json").json_lines
    assert [each["name"] for each in records] == ["v3"]


@pytest.mark.usefixtures("filled")
def test_the_source_option_takes_the_path_as_it_is_typed(cli: Cli) -> None:
    file = cli.directory / "file.txt"
    file.write_text("text")
    cli.ok("fs", "upload", "-s", file, f"{MAIN}/marker/")
    cli.ok("fs", "upload", "-s", "/dev/null", f"{MAIN}/empty/")
    cli.ok("fs", "upload", file, f"{MAIN}/kept/")
    assert changes(cli) == ["+ added empty/", "+ added kept/file.txt", "+ added marker/"]
    assert cli.ok("fs", "stat", f"{MAIN}/empty/", "--json").json["size"] == 0
    whole = cli("fs", "upload", "-s", file, MAIN)
    assert whole.exit_code == ExitCode.USAGE
    assert "no path in 'lakefs://demo/main" in whole.stderr

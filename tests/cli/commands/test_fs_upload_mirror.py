"""``fs upload -r --delete``: the objects below a path become the files of a directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.demo import Demo
    from tests.support.golden import Cli

DEMO = "lakefs://demo"
MAIN = "lakefs://demo/main"
OLD = {"in/a": "1", "in/gone": "2", "in/sub/gone": "3", "in/sub.txt": "4", "inside": "5", "z": "6"}


@pytest.fixture
def source(cli: Cli, demo: Demo) -> Path:
    """A directory, and a branch with other objects at its path."""
    demo.commit("first", OLD)
    root = cli.directory / "source"
    for name, text in {"a": "new", "sub/b": "b", "sub.txt": "4"}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def paths(cli: Cli, below: str = "in/") -> list[str]:
    return [
        each["path"] for each in cli.ok("fs", "ls", "-r", f"{MAIN}/{below}", "--json").json_lines
    ]


def test_a_mirror_is_one_operation(cli: Cli, demo: Demo, source: Path) -> None:
    operations = len(cli.ok("op", "log", DEMO, "--json", "--amount", "0").lines)
    done = cli.ok("fs", "upload", "-r", source, f"{MAIN}/in", "--delete", "--max-delete", "2")
    assert done.stdout.endswith("\nUpload Summary:\n\nDownloaded: 0\nUploaded: 2\nRemoved: 2\n\n")
    assert paths(cli, "") == ["in/a", "in/sub.txt", "in/sub/b", "inside", "z"]
    assert len(cli.ok("op", "log", DEMO, "--json", "--amount", "0").lines) == operations + 1
    again = cli.ok("fs", "upload", "-r", source, f"{MAIN}/in/", "--delete", "--json").json
    assert (again["uploaded"], again["deleted"], again["unchanged"]) == (0, 0, 3)
    cli.ok("undo", DEMO)
    assert set(demo.contents()) == set(OLD)


def test_a_dry_run_names_what_would_be_removed(cli: Cli, source: Path) -> None:
    argv = ("fs", "upload", "-r", source, f"{MAIN}/in", "--delete", "--dry-run")
    planned = cli.ok(*argv)
    assert planned.lines[:6] == [
        *("changed in/a", "unchanged in/sub.txt", "new in/sub/b"),
        *("deleted in/gone", "deleted in/sub/gone", ""),
    ]
    assert "Deleted: 2 (2 B)" in planned.lines
    *steps, record = cli.ok(*argv, "--json").json_lines
    assert [each["action"] for each in steps] == [line.split()[0] for line in planned.lines[:5]]
    assert (record["action"], record["path"]) == ("total", None)
    assert (record["new"], record["changed"], record["unchanged"]) == (1, 1, 1)
    assert (record["deleted"], record["deleted_size"]) == (2, 2)
    assert cli.ok("diff", MAIN).lines[1:] == []


def test_too_many_removals_are_refused(cli: Cli, source: Path) -> None:
    refused = cli("fs", "upload", "-r", source, f"{MAIN}/in/", "--delete", "--max-delete", "1")
    assert refused.exit_code == ExitCode.REFUSED
    assert "2 objects would be deleted, more than 1" in refused.stderr
    assert cli.ok("diff", MAIN).lines[1:] == []


def test_an_empty_directory_is_refused(cli: Cli, source: Path) -> None:
    empty = source.with_name("empty")
    (empty / "sub").mkdir(parents=True)
    refused = cli("fs", "upload", "-r", empty, f"{MAIN}/in/", "--delete")
    assert refused.exit_code == ExitCode.REFUSED
    assert "there is no file in" in refused.stderr
    cli.ok("fs", "upload", "-r", empty, f"{MAIN}/nothing/", "--delete")
    assert cli.ok("diff", MAIN).lines[1:] == []


def test_nothing_is_removed_if_a_file_fails(cli: Cli, source: Path) -> None:
    (source / "link").symlink_to("a")
    failed = cli("fs", "upload", "-r", source, f"{MAIN}/in/", "--delete", "--json")
    assert failed.exit_code == ExitCode.PARTIAL
    assert failed.json["deleted"] == 0
    assert {"in/gone", "in/sub/gone", "in/sub/b"} <= set(paths(cli))


def test_what_is_left_out_and_markers_stay(cli: Cli, source: Path) -> None:
    for marker in ("in/", "in/sub/", "in/old/"):
        cli.ok("fs", "upload", "-s", "/dev/null", f"{MAIN}/{marker}")
    options = ("--delete", "--exclude", "sub/")
    cli.ok("fs", "upload", "-r", source, f"{MAIN}/in/", *options)
    assert paths(cli) == ["in/", "in/a", "in/sub.txt", "in/sub/", "in/sub/gone"]
    cli.ok("fs", "upload", "-r", source, f"{MAIN}/in/", "--delete")
    assert paths(cli) == ["in/", "in/a", "in/sub.txt", "in/sub/", "in/sub/b"]


def test_an_object_with_bytes_is_no_marker(cli: Cli, source: Path) -> None:
    cli.ok("fs", "upload", "-s", "-", f"{MAIN}/in/sub/", stdin="data")
    cli.ok("fs", "upload", "-r", source, f"{MAIN}/in/", "--delete")
    assert "in/sub/" not in paths(cli)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--delete",), "--delete needs -r"),
        (("-r", "--max-delete", "1"), "--max-delete needs --delete"),
        (("--max-delete", "1"), "--max-delete needs --delete"),
        (("-r", "--delete", "--files-from", "-"), "--delete needs -r, and no --files-from"),
        (("-r", "--delete", "--max-delete", "-1"), "--max-delete"),
    ],
)
def test_what_says_nothing_is_refused(
    cli: Cli, source: Path, argv: tuple[str, ...], said: str
) -> None:
    refused = cli("fs", "upload", source, f"{MAIN}/in/", *argv, stdin=b"a\n")
    assert refused.exit_code == ExitCode.USAGE
    assert said in refused.stderr
    assert cli.ok("diff", MAIN).lines[1:] == []


def test_what_somebody_changes_meanwhile_stays(
    cli: Cli, demo: Demo, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_much_less(*_: object) -> bool:
        demo.stage({"in/gone": "theirs"})
        return False

    monkeypatch.setattr("lakecli.repository.upload_tree.is_much_less", is_much_less)
    done = cli.ok("fs", "upload", "-r", source, f"{MAIN}/in/", "--delete", "--json").json
    assert done["deleted"] == 1
    assert cli.ok("fs", "cat", f"{MAIN}/in/gone").stdout == "theirs"


def test_a_file_that_the_walk_misses_stays(
    cli: Cli, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakecli.repository.upload_tree import files_of

    cli.ok("fs", "upload", "-r", source, f"{MAIN}/in/", "--delete")
    before = paths(cli)
    walks = iter([lambda found: found.relative != b"sub/b"])

    def walk(*args: object) -> object:
        return filter(next(walks, None), files_of(*args))  # type: ignore[arg-type]

    monkeypatch.setattr("lakecli.repository.upload_tree.files_of", walk)
    done = cli.ok("fs", "upload", "-r", source, f"{MAIN}/in/", "--delete", "--json").json
    assert done["deleted"] == 0
    assert paths(cli) == before

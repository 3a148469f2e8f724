"""``fs download -r --delete``: the files of a directory become the objects below a path."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.demo import Demo
    from tests.support.golden import Cli

MAIN = "lakefs://demo/main"


@pytest.fixture
def target(cli: Cli, demo: Demo) -> Path:
    """A directory with other files than the branch."""
    demo.commit("first", {"out/a": "1", "out/sub/b": "2", "out/sub.txt": "3", "other": "4"})
    root = cli.directory / "target"
    make(root, {"a": "old", "gone": "x", "sub/gone": "y", "sub.txt": "3", "deep/er/gone": "z"})
    return root


def make(root: Path, contents: dict[str, str]) -> None:
    for name, text in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def files(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()
    }


def mirror(*options: str) -> tuple[str, ...]:
    return ("fs", "download", "-r", f"{MAIN}/out", *options, "--delete")


def test_the_directory_becomes_what_the_ref_has(cli: Cli, target: Path) -> None:
    done = cli.ok(*mirror(str(target), "--max-delete", "3"))
    assert done.stdout == "\nDownload Summary:\n\nDownloaded: 2\nUploaded: 0\nRemoved: 3\n\n"
    assert files(target) == {"a": "1", "sub/b": "2", "sub.txt": "3"}
    assert not (target / "deep").exists()
    again = cli.ok(*mirror(str(target)), "--json").json
    assert (again["downloaded"], again["unchanged"], again["deleted"]) == (0, 3, 0)


def test_a_dry_run_lists_all_and_changes_nothing(cli: Cli, target: Path) -> None:
    before = files(target)
    planned = cli.ok(*mirror(str(target)), "--dry-run")
    assert planned.lines[:7] == [
        *("changed out/a", "unchanged out/sub.txt", "new out/sub/b"),
        *(f"deleted {target}/{name}" for name in ("deep/er/gone", "gone", "sub/gone")),
        "",
    ]
    *steps, total = cli.ok(*mirror(str(target)), "--dry-run", "--json").json_lines
    assert [each["action"] for each in steps] == [line.split()[0] for line in planned.lines[:6]]
    assert (total["new"], total["deleted"], total["deleted_size"]) == (1, 3, 3)
    assert files(target) == before


def test_too_many_deletions_are_refused(cli: Cli, target: Path) -> None:
    before = files(target)
    refused = cli(*mirror(str(target)), "--max-delete", "2")
    assert refused.exit_code == ExitCode.REFUSED
    assert "3 files would be deleted, more than 2" in refused.stderr
    assert files(target) == before


def test_a_path_without_objects_is_refused(cli: Cli, demo: Demo, target: Path) -> None:
    before = files(target)
    cli.ok("fs", "upload", "-s", "/dev/null", f"{MAIN}/none/")  # a marker is no object
    for path in ("none/", "nowhere/"):
        refused = cli("fs", "download", "-r", f"{MAIN}/{path}", target, "--delete")
        assert refused.exit_code == ExitCode.REFUSED
        assert f"there is no object below {MAIN}/{path}, so everything would" in refused.stderr
    assert files(target) == before
    fresh = target.with_name("fresh")
    assert cli("fs", "download", "-r", f"{MAIN}/nowhere/", fresh, "--delete").exit_code == 6
    cli.ok(*mirror(str(fresh)))
    assert files(fresh) == {"a": "1", "sub/b": "2", "sub.txt": "3"}


def test_nothing_is_deleted_if_an_object_fails(cli: Cli, demo: Demo, target: Path) -> None:
    demo.stage({"out/..": "bad"})
    failed = cli(*mirror(str(target)), "--json")
    assert failed.exit_code == ExitCode.PARTIAL
    assert (failed.json["deleted"], failed.json["failed"]) == (0, 1)
    assert {"gone", "sub/gone", "deep/er/gone"} <= set(files(target))
    planned = cli(*mirror(str(target)), "--dry-run", "--json")
    assert planned.exit_code == ExitCode.PARTIAL
    assert "deleted" not in [each["action"] for each in planned.json_lines]


def test_nothing_outside_is_touched(cli: Cli, target: Path) -> None:
    outside = target.with_name("outside")
    make(outside, {"kept": "k", "sub/kept": "k"})
    (target / "link").symlink_to(outside / "kept")
    (target / "directory").symlink_to(outside)
    (target / "sub" / "b").symlink_to(outside / "kept")
    os.mkfifo(target / "pipe")
    cli.ok(*mirror(str(target)))
    assert files(outside) == {"kept": "k", "sub/kept": "k"}
    assert {path.name for path in target.iterdir()} == {"a", "pipe", "sub", "sub.txt"}
    assert (target / "sub/b").read_text() == "2"


def test_what_is_left_out_stays(cli: Cli, target: Path) -> None:
    own = {".lakefsignore": "*.log\n", ".git/config": "g", "sub/.lakefs_ref.yaml": "r"}
    make(target, {**own, "x.log": "l", "sub/y.log": "l", "keep/z": "z"})
    cli.ok(*mirror(str(target)), "--exclude", "/keep/")
    expected = {"a": "1", "sub/b": "2", "sub.txt": "3", "x.log": "l", "sub/y.log": "l"}
    assert files(target) == {**expected, **own, "keep/z": "z"}


def test_files_and_directories_in_the_way_are_replaced(cli: Cli, demo: Demo, target: Path) -> None:
    (target / "a").unlink()
    make(target, {"a/1": "in the way", "a/x/2": "in the way"})
    (target / "sub" / "gone").unlink()
    (target / "sub").rmdir()
    (target / "sub").symlink_to(target.parent)
    planned = cli.ok(*mirror(str(target)), "--dry-run")
    assert {"changed out/a", "new out/sub/b"} <= set(planned.lines)
    cli.ok(*mirror(str(target)))
    assert files(target) == {"a": "1", "sub/b": "2", "sub.txt": "3"}


def test_directories_with_a_marker_stay(cli: Cli, target: Path) -> None:
    cli.ok("fs", "upload", "-s", "/dev/null", f"{MAIN}/out/deep/er/")
    cli.ok(*mirror(str(target)))
    assert (target / "deep/er").is_dir()
    assert set(files(target)) == {"a", "sub/b", "sub.txt"}


@pytest.mark.parametrize("place", ["", "namespace", "namespace/data"])
def test_what_repositories_need_is_refused(cli: Cli, target: Path, place: str) -> None:
    refused = cli("fs", "download", "-r", f"{MAIN}/out", cli.directory / place, "--delete")
    assert refused.exit_code == ExitCode.REFUSED
    assert "from which nothing may be deleted" in refused.stderr
    assert "other" in cli.ok("fs", "ls", f"{MAIN}/").stdout


def test_the_source_of_an_import_is_refused(cli: Cli, target: Path) -> None:
    cli.ok("import", "--from", target, "--to", f"{MAIN}/out/")
    refused = cli(*mirror(str(target)))
    assert refused.exit_code == ExitCode.REFUSED
    assert "a source of demo, imported in place" in refused.stderr


def test_an_unreadable_directory_prevents_the_deletions(
    cli: Cli, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.scandir

    deep = (target / "deep").stat().st_ino

    def scandir(place: int | Path) -> object:
        if isinstance(place, int) and os.fstat(place).st_ino == deep:
            raise PermissionError(13, "Permission denied")
        return real(place)

    monkeypatch.setattr("lakecli.repository.transfer.walk.os.scandir", scandir)
    failed = cli(*mirror(str(target)), "--json")
    assert failed.exit_code == ExitCode.PARTIAL
    assert (failed.json["deleted"], failed.json["failed"]) == (0, 1)
    assert "gone" in files(target)


def test_what_changes_meanwhile_stays(
    cli: Cli, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakecli.repository.download import Downloader

    real = Downloader.fetch

    def fetch(self: Downloader, *args: Any) -> None:
        (target / "gone").write_text("changed meanwhile")
        (target / "fresh").write_text("new")
        real(self, *args)

    monkeypatch.setattr(Downloader, "fetch", fetch)
    assert cli.ok(*mirror(str(target)), "--json").json["deleted"] == 2
    assert {"gone", "fresh"} <= set(files(target))


@pytest.mark.parametrize(
    "argv", [("--delete",), ("-r", "--max-delete", "1"), ("-r", "--delete", "--files-from", "-")]
)
def test_what_says_nothing_is_refused(cli: Cli, target: Path, argv: tuple[str, ...]) -> None:
    refused = cli("fs", "download", f"{MAIN}/out/a", target, *argv, stdin=b"a\n")
    assert refused.exit_code == ExitCode.USAGE
    assert "gone" in files(target)

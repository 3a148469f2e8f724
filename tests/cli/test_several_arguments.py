"""Several arguments, ``--files-from`` and ``--must-exist``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from lakecli.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

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
    assert planned.json_lines[-1]["objects"] == 3
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


@pytest.mark.parametrize("command", ["rm", "stat", "cat", "presign", "upload", "download"])
@pytest.mark.usefixtures("filled")
def test_a_missing_list_is_reported(cli: Cli, command: str) -> None:
    missing = cli("fs", command, "--files-from", cli.directory / "none", f"{MAIN}/")
    assert missing.exit_code == ExitCode.NOT_FOUND
    assert f"no such file: {cli.directory}/none" in missing.stderr
    directory = cli("fs", command, "--files-from", cli.directory, f"{MAIN}/")
    assert directory.exit_code == ExitCode.USAGE


@pytest.mark.parametrize(
    "argv",
    [
        ("rm",),
        ("rm", "--must-exist"),
        ("rm", "--dry-run"),
        ("rm", "--json"),
        ("stat",),
        ("stat", "--json"),
        ("cat",),
        ("presign",),
        ("presign", "--json"),
        ("presign", "--format", "json"),
        ("upload",),
        ("upload", "--dry-run"),
        ("upload", "--json"),
        ("download",),
        ("download", "--dry-run"),
        ("download", "--json"),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("filled")
def test_an_empty_list_is_nothing_to_do(
    cli: Cli, argv: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = cli.directory / "empty"
    empty.write_bytes(b"\n\r\n")
    (cli.directory / "here").mkdir()
    monkeypatch.chdir(cli.directory / "here")
    before = operations(cli)
    for source, shown in ((str(empty), str(empty)), ("-", "standard input")):
        for stdin, null in ((b"", ()), (b"\0", ("-z",))):
            if null and source != "-":
                continue
            done = cli.ok("fs", *argv, "--files-from", source, *null, f"{MAIN}/data", stdin=stdin)
            assert f"there is no name in {shown}: nothing to do" in done.stderr
    assert changes(cli) == []
    assert operations(cli) == before
    assert list((cli.directory / "here").iterdir()) == []


def test_an_empty_list_of_a_missing_branch_is_an_error(cli: Cli, demo: Demo) -> None:
    del demo
    for command in ("rm", "stat", "upload", "download"):
        done = cli("fs", command, "--files-from=-", f"{DEMO}/none/", stdin=b"")
        assert done.exit_code == ExitCode.NOT_FOUND, command


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


@pytest.fixture
def files(cli: Cli) -> Path:
    """A directory with files of some names."""
    root = cli.directory / "files"
    for name in ("a.csv", "b.csv", "sub/c d.csv", "sub/e"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / "link").symlink_to("a.csv")
    (root / "sublink").symlink_to("sub")
    return root


@pytest.mark.usefixtures("demo")
def test_several_files_are_uploaded_in_one_operation(cli: Cli, files: Path) -> None:
    before = operations(cli)
    some = (files / "b.csv", files / "a.csv", files / "sub/e")
    planned = cli.ok("fs", "upload", *some, f"{MAIN}/in/", "--dry-run", "--json").json_lines[-1]
    assert (planned["new"], planned["failed"]) == (3, 0)
    done = cli.ok("fs", "upload", *some, f"{MAIN}/in", "--json").json
    assert (done["uploaded"], done["size"], done["failed"]) == (3, 15, 0)
    assert operations(cli) == before + 1
    assert changes(cli) == ["+ added in/a.csv", "+ added in/b.csv", "+ added in/e"]
    again = cli.ok("fs", "upload", *some, f"{MAIN}/in/")
    assert again.stdout == "\nUpload Summary:\n\nNo changes\n"


@pytest.mark.usefixtures("demo")
def test_files_that_fail_are_listed_and_the_others_are_uploaded(cli: Cli, files: Path) -> None:
    some = (files / "a.csv", files / "none", files / "sub", files / "link")
    failed = cli("fs", "upload", *some, f"{MAIN}/in/", "--json")
    assert failed.exit_code == ExitCode.PARTIAL
    assert [each["error"] for each in failed.json["failures"]] == [
        "no such file or directory",
        "is a directory; upload it by itself with -r",
    ]
    assert changes(cli) == ["+ added in/a.csv", "+ added in/link"]
    assert cli.ok("fs", "cat", f"{MAIN}/in/link").stdout == "a.csv"


@pytest.mark.usefixtures("demo")
def test_files_of_one_name_are_refused(cli: Cli, files: Path) -> None:
    (files / "sub/a.csv").write_text("other")
    refused = cli("fs", "upload", files / "a.csv", files / "sub/a.csv", f"{MAIN}/in/")
    assert refused.exit_code == ExitCode.USAGE
    assert "two files have the name 'a.csv'" in refused.stderr
    for argv in (("-r", files, files), ("-", files / "a.csv"), ("--files-from=-", files, files)):
        assert cli("fs", "upload", *argv, MAIN, stdin=b"x").exit_code == ExitCode.USAGE
    assert cli("fs", "upload", "-r", files, "lakefs://demo").exit_code == ExitCode.USAGE
    assert changes(cli) == []


@pytest.mark.usefixtures("demo")
def test_named_files_are_uploaded(cli: Cli, files: Path) -> None:
    names = b"./sub/c d.csv\0a.csv\0"
    done = cli.ok("fs", "upload", "--files-from=-", "-z", files, f"{MAIN}/up", stdin=names)
    assert done.stdout.startswith(f"\ndiff 'local://{files}/' <--> 'lakefs://demo/main/up'...\n")
    assert changes(cli) == ["+ added up/a.csv", "+ added up/sub/c d.csv"]
    planned = cli.ok(
        *("fs", "upload", "--files-from=-", files, f"{MAIN}/up", "--dry-run", "--json"),
        stdin=b"a.csv\nb.csv\n",
    ).json_lines[-1]
    assert (planned["new"], planned["unchanged"]) == (1, 1)


@pytest.mark.usefixtures("demo")
def test_names_outside_and_links_are_not_followed(cli: Cli, files: Path) -> None:
    wrong = "../demo\n/etc/hosts\nsub/../a.csv\nsub\nsub//e\nlink\nsublink/e\nnone\nb.csv\n"
    argv = ("fs", "upload", "--files-from=-", files, f"{MAIN}/up/", "--json")
    failed = cli(*argv, stdin=wrong)
    assert failed.exit_code == ExitCode.PARTIAL
    shown = {
        each["path"].removeprefix(f"{files}/"): each["error"] for each in failed.json["failures"]
    }
    leaves = "not a relative name without '.', '..' and NUL"
    assert shown == {
        "../demo": leaves,
        "/etc/hosts": leaves,
        "sub/../a.csv": leaves,
        "sub//e": leaves,
        "sub": "is a directory",
        "link": "a symbolic link",
        "sublink/e": "a symbolic link",
        "none": "no such file or directory",
    }
    assert changes(cli) == ["+ added up/b.csv"]
    skipped = cli.ok(*argv, "--skip", stdin="link\nsublink/e\n").json
    assert skipped["uploaded"] == 0
    followed = cli.ok(*argv, "--follow", stdin="link\nsublink/e\n").json
    assert followed["uploaded"] == 2


@pytest.mark.usefixtures("filled")
def test_named_objects_are_downloaded(cli: Cli) -> None:
    target = cli.directory / "got"
    argv = ("fs", "download", "--files-from=-", f"{MAIN}/data", target, "--json")
    planned = cli.ok(*argv, "--dry-run", stdin="x\n").json_lines[-1]
    assert (planned["new"], target.exists()) == (1, False)
    done = cli(*argv, stdin="y z\nnone\n")
    assert done.exit_code == ExitCode.PARTIAL
    assert done.json["downloaded"] == 1
    assert [each["path"] for each in done.json["failures"]] == ["data/none"]
    assert {each.name for each in target.iterdir()} == {"y z"}
    assert (target / "y z").read_text() == "4\n"
    unsafe = cli(*argv, stdin="../a\n")
    assert unsafe.exit_code == ExitCode.PARTIAL
    assert {each.name for each in target.iterdir()} == {"y z"}


def test_a_dry_run_of_single_objects(cli: Cli, filled: Demo) -> None:
    removed = cli.ok("fs", "rm", f"{MAIN}/d", f"{MAIN}/none", f"{MAIN}/a", "--dry-run")
    assert removed.lines[:3] == ["deleted a", "deleted d", ""]
    argv = ("fs", "rm", "--files-from=-", f"{MAIN}/data", "--dry-run", "--json")
    *steps, total = cli.ok(*argv, stdin=b"x\r\nno\r\n").json_lines
    assert [each["path"] for each in steps] == ["data/x"]
    assert total["objects"] == 1
    assert set(filled.contents()) == {"a", "b", "d", "data/x", "data/y z"}


@pytest.mark.usefixtures("filled")
def test_a_dry_run_of_one_download(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    here = cli.directory / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    argv = ("fs", "download", f"{MAIN}/data/x")
    planned = cli.ok(*argv, "--dry-run")
    assert planned.lines[0] == "new data/x"
    assert f"the file is {here}/x" in planned.stderr
    assert list(here.iterdir()) == []
    data = "3\n"
    for text, action in ((data, "unchanged"), (data + "more", "changed"), ("4\n", "changed")):
        (here / "x").write_text(text)
        step, total = cli.ok(*argv, "--dry-run", "--json").json_lines
        expected = {"action": action, "path": "data/x", "size": len(data)}
        assert step == expected | {"destination": f"{here}/x"}
        assert (total["action"], total[action], total["failed"]) == ("total", 1, 0)
        assert (here / "x").read_text() == text
    (here / "link").symlink_to("x")
    (here / "x").write_text(data)
    assert cli.ok(*argv, "link", "--dry-run").lines[0] == "unchanged data/x"
    assert cli.ok(*argv, "sub/dir/", "--dry-run").lines[0] == "new data/x"
    assert not (here / "sub").exists()
    assert cli("fs", "download", f"{MAIN}/none", "--dry-run").exit_code == ExitCode.NOT_FOUND
    os.mkfifo(here / "pipe")
    assert cli(*argv, "pipe", "--dry-run").exit_code == ExitCode.USAGE


@pytest.mark.usefixtures("demo")
def test_a_dry_run_of_one_file(cli: Cli, files: Path) -> None:
    for option in ((), ("-r",)):
        planned = cli.ok("fs", "upload", *option, files / "a.csv", f"{MAIN}/in/", "--dry-run")
        assert planned.lines[0] == "new in/a.csv"
    whole = cli.ok("fs", "upload", "-s", files / "a.csv", f"{MAIN}/in/", "--dry-run", "--json")
    assert whole.json_lines[0]["path"] == "in/"
    assert cli("fs", "upload", "-", f"{MAIN}/x", "--dry-run").exit_code == ExitCode.USAGE
    assert cli("fs", "upload", files / "no", f"{MAIN}/x", "--dry-run").exit_code == 6
    refused = cli("fs", "upload", "-r", files / "a.csv", f"{MAIN}/x", "--delete")
    assert refused.exit_code == ExitCode.USAGE
    assert changes(cli) == []


@pytest.mark.usefixtures("demo")
def test_names_are_below_the_current_directory(
    cli: Cli, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    cli.ok("fs", "upload", "--files-from=-", f"{MAIN}/up", stdin=b"a.csv\r\n./sub/e\r\n")
    assert changes(cli) == ["+ added up/a.csv", "+ added up/sub/e"]
    cli.ok("fs", "upload", "--files-from=-", "-z", f"{MAIN}/", stdin=b"b.csv\0")
    assert "+ added b.csv" in changes(cli)
    read = cli.ok("fs", "cat", "--files-from=-", f"{MAIN}/up", stdin=b"a.csv\r\nsub/e\r\n")
    assert [line.split()[-1] for line in read.lines if "up/" in line] == ["up/a.csv", "up/sub/e"]

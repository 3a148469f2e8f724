"""A namespace as people have it, ``wild-1``, from the command line; every hint is run."""

from __future__ import annotations

import os
import shlex
import shutil
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.cli.exit_codes import ExitCode
from tests.support.lakefs_files import wild_expected, write_wild

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.golden import Cli, Result


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return wild_expected()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wild")
    write_wild(directory)
    return directory


@pytest.fixture
def wild(tmp_path: Path, template: Path) -> Path:
    """Return a directory with the namespace and the dumps; its files are links."""
    shutil.copytree(template, tmp_path / "place", copy_function=os.link)
    return tmp_path / "place"


def take_over(cli: Cli, wild: Path, number: int, *more: str) -> Result:
    """Clone the namespace with one of the four dumps, as ``lakefs://wild``."""
    refs = wild / f"refs-dump-{number}.json"
    place = ("--from-lakefs", wild / "wild", "lakefs://wild", "--refs", refs)
    return cli.ok("clone", *place, *more, "--take-over")


def hints(result: Result) -> list[list[str]]:
    """Return the arguments of the commands that the hints of a result name."""
    lines = (line for line in result.stderr.splitlines() if line.startswith("hint: "))
    return [shlex.split(line.partition("lakecli ")[2]) for line in lines if "lakecli " in line]


def test_objects_uploaded_in_parts_are_read_by_every_command(
    cli: Cli, wild: Path, tmp_path: Path, expected: dict[str, Any]
) -> None:
    take_over(cli, wild, 3)
    head = expected["dumps"]["3"]["branches"]["main"]
    digests = {
        each["path"]: each["sha256"]
        for each in expected["entries"][head]
        if each["path"].startswith("parts/")
    }
    assert len(digests) == 2
    for path, digest in digests.items():
        assert (
            sha256(cli.ok("fs", "cat", f"lakefs://wild/main/{path}").stdout_bytes).hexdigest()
            == digest
        )
        cli.ok("fs", "download", f"lakefs://wild/main/{path}", tmp_path / "one")
        assert sha256((tmp_path / "one").read_bytes()).hexdigest() == digest
    for name, command in {
        "tree": ("fs", "download", "-r", "lakefs://wild/main/parts/"),
        "clone": ("local", "clone", "lakefs://wild/main/parts/"),
        "export": ("export", "lakefs://wild/main/parts/"),
    }.items():
        cli.ok(*command, tmp_path / name)
        for path, digest in digests.items():
            found = tmp_path / name / path.removeprefix("parts/")
            assert sha256(found.read_bytes()).hexdigest() == digest, name
    os.utime(tmp_path / "clone" / "log.csv", (1, 1))
    status = cli.ok("local", "status", tmp_path / "clone")
    assert "No diff found" in status.stdout + status.stderr
    answer = cli.ok("fsck", "lakefs://wild", "--data", "--json").json_lines[-1]
    assert (answer["findings"], answer["unverified"]) == (0, 0)


def test_a_namespace_after_the_collection_of_lakefs_is_published(
    cli: Cli, wild: Path, tmp_path: Path, expected: dict[str, Any]
) -> None:
    take_over(cli, wild, 1)
    pushed = cli.ok("push", "--all", "lakefs://wild")
    assert "objects that only earlier commits need are not in" in pushed.stderr
    for each in hints(pushed):
        cli.ok(*each)
    cli.ok("refs-dump", "lakefs://wild", "--push-first", "-o", tmp_path / "back")
    gone = len(expected["states"]["gone_addresses"])
    checked = cli.ok("fsck", "lakefs://wild", "--repair")
    assert f"Missing objects that only earlier commits need: {gone}\n" in checked.stdout
    assert "Problems: 0" in checked.stdout
    cli.ok("gc", "run", "lakefs://wild", "--lakefs-stopped", "-y")


def test_a_broken_branch_is_named_and_hooks_are(cli: Cli, wild: Path) -> None:
    made = take_over(cli, wild, 4)
    assert "left out: branch 'hot' at 4af74575" in made.stderr
    assert "the dump has no such commit" in made.stderr
    assert "hooks of lakeFS are not run by lakecli" in made.stderr
    assert "_lakefs_actions/gate.yaml on main (pre-merge)" in made.stderr
    cli.ok("log", "lakefs://wild/main", "--amount", "1")
    merged = cli.ok("merge", "lakefs://wild/waiting", "lakefs://wild/main")
    assert "lakeFS ran hooks here, which lakecli does not run: _lakefs_actions/" in merged.stderr
    page = cli.ok("help", "lakefs").stdout
    assert "lakecli runs no hooks" in page
    cli.ok("fs", "rm", "-r", "lakefs://wild/main/_lakefs_actions/")  # as that page says


def test_a_broken_branch_in_json(cli: Cli, wild: Path) -> None:
    (left,) = take_over(cli, wild, 4, "--json").json["left_out"]
    assert (left["name"], left["change"]) == ("hot", "missing commit")


@pytest.mark.parametrize("is_pushed", [False, True])
def test_the_hint_after_a_move_back_follows_lakefs(
    cli: Cli, wild: Path, expected: dict[str, Any], *, is_pushed: bool
) -> None:
    take_over(cli, wild, 1)
    if is_pushed:
        cli.ok("push", "--all", "lakefs://wild")
    update = ("refs-restore", "--update", "lakefs://wild", "-m")
    back = cli.ok(*update, wild / "refs-dump-2.json")
    assert "branch dev: lakeFS has moved it back or elsewhere, to ae28977050b5" in back.stderr
    (hint,) = hints(back)
    assert hint[:3] == ["branch", "reset", "lakefs://wild/dev"]
    cli.ok(*hint, "-y")
    again = cli.ok(*update, wild / "refs-dump-3.json", "--json").json
    assert [(each["name"], each["change"]) for each in again["updated"]] == [("dev", "moved")]
    cli.ok("push", "--all", "lakefs://wild")


def test_commits_on_what_lakefs_took_back_are_carried_over_by_the_hint(
    cli: Cli, wild: Path
) -> None:
    take_over(cli, wild, 1)
    cli.ok("commit", "lakefs://wild/dev", "-m", "nothing", "--allow-empty-commit")
    (wild / "mine").write_bytes(b"mine")
    cli.ok("fs", "upload", "-s", wild / "mine", "lakefs://wild/dev/mine")
    mine = cli.ok("commit", "lakefs://wild/dev", "-m", "mine", "--json").json["id"]
    update = ("refs-restore", "--update", "lakefs://wild", "-m", wild / "refs-dump-2.json")
    back = cli.ok(*update)
    assert "made on commits that lakeFS has taken back; that of lakeFS is lakefs:dev" in back.stderr
    (hint,) = hints(back)
    assert hint[0] == "cherry-pick"
    assert cli(*hint).exit_code == ExitCode.NOTHING_TO_DO  # the first one changes nothing
    cli.ok("cherry-pick", f"lakefs://wild/{mine}", "lakefs://wild/lakefs:dev")
    assert cli.ok("fs", "cat", "lakefs://wild/lakefs:dev/mine").stdout == "mine"
    changes = [each["change"] for each in cli.ok(*update, "--json").json["updated"]]
    assert changes == []

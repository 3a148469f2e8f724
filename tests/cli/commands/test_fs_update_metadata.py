"""``fs update-metadata``, and ``--meta`` and ``--content-type`` of ``fs cp``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.model import CLIENT_MTIME
from lakecli.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.demo import Demo
    from tests.support.golden import Cli

DEMO = "lakefs://demo"
MAIN = "lakefs://demo/main"


@pytest.fixture
def file(cli: Cli, demo: Demo) -> Path:
    """A file that was uploaded and committed at ``a`` and ``b``."""
    assert demo.head()
    path = cli.directory / "file.csv"
    path.write_text("1,2\n")
    for name in ("a", "b"):
        cli.ok("fs", "upload", path, f"{MAIN}/{name}", "--meta", "old=1,both=2")
    cli.ok("commit", MAIN, "-m", "first")
    return path


def stat(cli: Cli, name: str) -> dict[str, Any]:
    found: dict[str, Any] = cli.ok("fs", "stat", f"{MAIN}/{name}", "--json").json
    return found


def user_metadata(cli: Cli, name: str) -> dict[str, str]:
    found = dict(stat(cli, name)["metadata"])
    assert found.pop(CLIENT_MTIME)  # what the client recorded is kept
    return found


@pytest.mark.usefixtures("file")
def test_metadata_is_replaced_and_restored_by_undo(cli: Cli) -> None:
    before = stat(cli, "a")
    done = cli.ok("fs", "update-metadata", f"{MAIN}/a", "--metadata", "new=3,both=4")
    assert (done.stdout, done.stderr) == ("", "")
    assert user_metadata(cli, "a") == {"new": "3", "both": "4"}
    after = stat(cli, "a")
    for field in ("checksum", "physical_address", "size", "content_type", "modified_at"):
        assert after[field] == before[field]
    assert cli.ok("diff", MAIN).lines[1:] == ["~ modified a"]
    cli.ok("undo", DEMO)
    assert stat(cli, "a") == before
    cli.ok("redo", DEMO)
    cli.ok("commit", MAIN, "-m", "second")
    assert cli.ok("fs", "cat", f"{MAIN}/a").stdout == "1,2\n"


@pytest.mark.usefixtures("file")
def test_the_same_attributes_change_nothing(cli: Cli) -> None:
    cli.ok("fs", "update-metadata", f"{MAIN}/a", "--meta", "old=1", "--meta", "both=2")
    assert cli.ok("diff", MAIN).lines[1:] == []


@pytest.mark.usefixtures("file")
def test_the_content_type_and_no_metadata(cli: Cli) -> None:
    cli.ok("fs", "update-metadata", f"{MAIN}/a", "--content-type", "text/csv")
    assert stat(cli, "a")["content_type"] == "text/csv"
    assert user_metadata(cli, "a") == {"old": "1", "both": "2"}
    cli.ok("fs", "update-metadata", f"{MAIN}/a", "--metadata", "")
    assert user_metadata(cli, "a") == {}
    assert stat(cli, "a")["content_type"] == "text/csv"


@pytest.mark.usefixtures("file")
def test_several_objects_change_together_or_not_at_all(cli: Cli) -> None:
    failed = cli("fs", "update-metadata", f"{MAIN}/a", f"{MAIN}/none", "--meta", "x=1")
    assert failed.exit_code == ExitCode.NOT_FOUND
    assert cli.ok("diff", MAIN).lines[1:] == []
    answers = cli.ok("fs", "update-metadata", f"{MAIN}/b", f"{MAIN}/a", "--meta", "x=1", "--json")
    assert [each["path"] for each in answers.json_lines] == ["b", "a"]
    assert user_metadata(cli, "b") == {"x": "1"}
    cli.ok("undo", DEMO)
    assert cli.ok("diff", MAIN).lines[1:] == []


@pytest.mark.parametrize(
    ("argv", "said", "code"),
    [
        ((f"{MAIN}/a",), "there is nothing to change", ExitCode.USAGE),
        ((f"{MAIN}/a", "--metadata", "x"), "invalid key/value pair", ExitCode.USAGE),
        ((f"{MAIN}/", "--metadata", "x=1"), "no path in", ExitCode.USAGE),
        ((f"{MAIN}~1/a", "--metadata", "x=1"), "expected a branch", ExitCode.USAGE),
        ((f"{MAIN}/a", f"{DEMO}/dev/a", "--meta", "x=1"), "not of the same branch", ExitCode.USAGE),
        ((f"{DEMO}/none/a", "--metadata", "x=1"), "no branch 'none'", ExitCode.NOT_FOUND),
    ],
)
@pytest.mark.usefixtures("file")
def test_what_cannot_be_done_is_refused(
    cli: Cli, argv: tuple[str, ...], said: str, code: ExitCode
) -> None:
    refused = cli("fs", "update-metadata", *argv)
    assert refused.exit_code == code
    assert said in refused.stderr


@pytest.mark.usefixtures("file")
def test_copies_have_the_attributes_that_are_given(cli: Cli) -> None:
    cli.ok("fs", "cp", f"{MAIN}/a", f"{MAIN}/plain")
    assert user_metadata(cli, "plain") == {"old": "1", "both": "2"}
    cli.ok("fs", "cp", f"{MAIN}/a", f"{MAIN}/typed", "--meta", "x=1", "--content-type", "text/csv")
    assert user_metadata(cli, "typed") == {"x": "1"}
    assert stat(cli, "typed")["content_type"] == "text/csv"
    cli.ok("fs", "cp", "-r", f"{MAIN}/", f"{DEMO}/main/all/", "--meta", "y=2")
    assert user_metadata(cli, "all/b") == {"y": "2"}
    assert stat(cli, "all/typed")["content_type"] == "text/csv"
    same = cli("fs", "cp", f"{MAIN}/a", f"{MAIN}/a", "--meta", "x=1")
    assert same.exit_code == ExitCode.USAGE
    assert "lakecli fs update-metadata" in same.stderr

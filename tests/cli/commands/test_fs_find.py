"""``fs find``, ``fs du``, and the totals of ``fs ls --summarize``."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakecli.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

MAIN = "lakefs://demo/main"


@pytest.fixture
def filled(cli: Cli, demo: Demo) -> Demo:
    """Objects of several sizes, uploaded on two days, the last one not committed."""
    for path, text in {
        "a.csv": "",
        "t/b.csv": "12345",
        "t/b.CSV": "1",
        "t/csv": "1" * 2000,
    }.items():
        cli.ok("fs", "upload", "-", f"{MAIN}/{path}", stdin=text)
    cli.ok("commit", MAIN, "-m", "first")
    cli.now += timedelta(days=2)
    cli.ok("fs", "upload", "-", f"{MAIN}/t/new\nline.csv", stdin="123456")
    return demo


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", "a.csv|t/b.CSV|t/b.csv|t/csv|t/new\nline.csv"),
        ("--name *.csv", "a.csv|t/b.csv|t/new\nline.csv"),
        ("--name *.CSV --name csv", "t/b.CSV|t/csv"),
        ("--name ?.[cC]*", "a.csv|t/b.CSV|t/b.csv"),
        ("--min-size 5", "t/b.csv|t/csv|t/new\nline.csv"),
        ("--min-size 1 --max-size 5", "t/b.CSV|t/b.csv"),
        ("--max-size 0", "a.csv"),
        ("--min-size 2kB", "t/csv"),
        ("--since yesterday", "t/new\nline.csv"),
        ("--until yesterday --name *.csv", "a.csv|t/b.csv"),
        ("--since 2999-01-01", ""),
    ],
)
@pytest.mark.usefixtures("filled")
def test_find_meets_all_conditions(cli: Cli, options: str, expected: str) -> None:
    found = cli.ok("fs", "find", f"{MAIN}/", *options.split(), "--json").json_lines
    wanted = expected.split("|") if expected else []
    assert [each["path"] for each in found] == wanted
    unquoted = cli.ok("fs", "find", f"{MAIN}/", *options.split(), "-z").stdout
    assert unquoted == "".join(f"{MAIN}/{path}\0" for path in wanted)


@pytest.mark.usefixtures("filled")
def test_find_prints_uris(cli: Cli, golden: Golden) -> None:
    golden(
        "fs_find",
        cli("fs", "find", f"{MAIN}/t/"),
        cli("fs", "find", f"{MAIN}@/t/", "--min-size", "2", "--json"),
        cli("fs", "find", f"{MAIN}/nope"),
        cli("fs", "find", "lakefs://demo/nope/"),
        cli("fs", "find", f"{MAIN}/", "--min-size", "big"),
        cli("fs", "find", f"{MAIN}/", "--since", "big"),
        cli("fs", "find", "lakefs://demo"),
    )


@pytest.mark.usefixtures("filled")
@pytest.mark.usefixtures("either_core")
def test_a_listing_is_summarized(cli: Cli, golden: Golden) -> None:
    golden(
        "fs_ls_summarize",
        cli("fs", "ls", "--summarize", f"{MAIN}/"),
        cli("fs", "ls", "-r", "--summarize", f"{MAIN}/t/b"),
        cli("fs", "ls", "-r", "--summarize", f"{MAIN}/nope"),
    )
    *objects, total = cli.ok("fs", "ls", "-r", "--summarize", f"{MAIN}/", "--json").json_lines
    assert total == {
        "type": "total",
        "path": "",
        "objects": len(objects),
        "size": sum(each["size"] for each in objects),
    }
    assert cli("fs", "ls", "--summarize").exit_code == ExitCode.USAGE


@pytest.mark.usefixtures("filled")
def test_du(cli: Cli, golden: Golden) -> None:
    cli.ok("fs", "cp", f"{MAIN}/t/csv", f"{MAIN}/u/copy")
    cli.ok("tag", "create", "lakefs://demo/v1", MAIN)
    golden(
        "fs_du",
        cli("fs", "du", f"{MAIN}/"),
        cli("fs", "du", f"{MAIN}/t/", "--shared"),
        cli("fs", "du", f"{MAIN}/", "--depth=0", "--json"),
        cli("fs", "du", f"{MAIN}/", "--shared", "--json"),
        cli("fs", "du", "lakefs://demo/nope/"),
    )
    lines = cli("fs", "du", f"{MAIN}/", "--shared", terminal=True).lines
    header, total = lines[0], lines[-1]
    assert header == "\033[1mDIRECTORY  OBJECTS    SIZE  STORED  SHARED\033[0m"
    assert total.split() == ["total", "6", "4.0", "kB", "2.0", "kB", "2.0", "kB"]

"""``--stat`` of diff, show commit and merge; ``diff --name-only`` and ``-z``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

MAIN = "lakefs://demo/main"
DEV = "lakefs://demo/dev"


@pytest.fixture
def changed(demo: Demo) -> Demo:
    demo.commit("first", {"raw/2026/a": "12345", "raw/b": "123", "top": "1", "both": "1"})
    demo.branch("dev")
    demo.commit(
        "on dev",
        {
            **{f"models/{n:02}": "x" * n for n in range(40)},
            "raw/2026/a": "1",
            "raw/b": None,
            "raw/new\nline": "1",
            "both": "dev",
        },
        "dev",
    )
    demo.commit("on main", {"both": "main"})
    return demo


@pytest.mark.usefixtures("changed")
def test_stat(cli: Cli, golden: Golden) -> None:
    golden(
        "stat",
        cli("diff", "--stat", MAIN, DEV),
        cli("diff", "--stat", "--depth", "2", "--two-way", f"{MAIN}~1", DEV),
        cli("diff", "--stat", "--depth=0", MAIN, DEV, "--exit-code"),
        cli("diff", "--stat", MAIN, DEV, "--json"),
        cli("diff", "--stat", MAIN),
        cli("merge", DEV, MAIN, "--dry-run", "--stat"),
        cli("show", "commit", "--stat", f"{DEV}"),
        cli("show", "commit", "--stat", f"{MAIN}~1", "--json"),
        cli("show", "commit", "--stat", f"{MAIN}~2"),
        cli("merge", DEV, MAIN, "--stat"),
        cli("diff", "--stat", "--name-only", MAIN, DEV),
    )


@pytest.mark.usefixtures("changed")
def test_stat_on_a_terminal_has_bars(cli: Cli) -> None:
    lines = cli("diff", "--stat", MAIN, DEV, terminal=True).lines
    rows = [line.split() for line in lines if line]
    bars = {row[0]: row[-1] if set(row[-1]) <= set("+~-*") else "" for row in rows}
    assert bars["models/"] == "+" * 20
    assert bars["raw/"] == "+~-"
    assert bars["./"] == "*"
    assert bars["total"] == ""


def test_names_only(cli: Cli, changed: Demo) -> None:
    names = cli.ok("diff", "--name-only", MAIN, DEV, "--prefix", "raw/").stdout
    assert names == 'raw/2026/a\nraw/b\n"raw/new\\nline"\n'
    for flags in (["-z"], ["-z", "--name-only"]):
        result = cli("diff", *flags, MAIN, DEV, "--prefix", "raw/", "--exit-code")
        assert result.stdout == "raw/2026/a\0raw/b\0raw/new\nline\0"
        assert result.exit_code == ExitCode.DIFFERENCES
    changed.stage({"staged": "1"})
    assert cli.ok("diff", "--name-only", MAIN).stdout == "staged\n"
    assert cli("diff", "-z", MAIN, "--json").exit_code == ExitCode.USAGE


def test_json_has_both_sides(cli: Cli, changed: Demo) -> None:
    found = {each["path"]: each for each in cli.ok("diff", MAIN, DEV, "--json").json_lines}
    old = cli.ok("fs", "stat", f"{MAIN}/raw/2026/a", "--json").json
    new = cli.ok("fs", "stat", f"{DEV}/raw/2026/a", "--json").json
    assert found["raw/2026/a"] == {
        "type": "changed",
        "path": "raw/2026/a",
        "left_size": old["size"],
        "left_checksum": old["checksum"],
        "right_size": new["size"],
        "right_checksum": new["checksum"],
    }
    assert (found["raw/b"]["right_size"], found["raw/b"]["left_size"]) == (None, 3)
    assert (found["models/07"]["left_checksum"], found["models/07"]["right_size"]) == (None, 7)
    assert found["both"]["type"] == "conflict"
    assert (found["both"]["left_size"], found["both"]["right_size"]) == (4, 3)
    assert changed.head()

"""``merge``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.lakefs_entries import stage_lakefs

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

MAIN = "lakefs://demo/main"
DEV = "lakefs://demo/dev"


def test_merge_makes_a_commit(cli: Cli, demo: Demo, golden: Golden) -> None:
    demo.commit("first", {"a": "1"})
    demo.branch("dev")
    demo.commit("on dev", {"a": "2", "b": "3"}, "dev")
    demo.stage({"staged": "1"}, "dev")
    cli.ok("tag", "create", "lakefs://demo/v1", DEV)
    golden(
        "merge",
        cli("merge", DEV, MAIN, "--dry-run"),
        cli("merge", DEV, MAIN, "--dry-run", "--json"),
        cli("merge", DEV, MAIN),
        cli("show", "commit", MAIN),
        cli("merge", DEV, MAIN),
        cli("merge", DEV, MAIN, "--dry-run", "--json"),
        cli("merge", "lakefs://demo/v1~1", MAIN, "--force", "-m", "none", "--meta", "k=v"),
        cli("show", "commit", MAIN),
        cli("merge", "lakefs://demo/v1", MAIN, "--allow-empty", "--squash", "--json", "-m", "one"),
    )
    assert set(demo.contents()) == {"a", "b"}


def test_conflicts_are_listed(cli: Cli, forked: Demo, golden: Golden) -> None:
    head = forked.head()
    golden(
        "merge_conflicts",
        cli("merge", DEV, MAIN),
        cli("merge", DEV, MAIN, "--dry-run"),
        cli("merge", DEV, MAIN, "--dry-run", "--json"),
        cli("merge", DEV, MAIN, "--dry-run", "--strategy", "source-wins"),
        cli("merge", DEV, MAIN, "--dry-run", "--strategy", "dest-wins"),
        cli("merge", DEV, MAIN, "--json"),
    )
    assert forked.head() == head


def test_conflicts_of_an_md5_and_a_blake3_are_named(cli: Cli, demo: Demo, golden: Golden) -> None:
    demo.commit("base", {"other": "1"})
    demo.branch("dev")
    with demo.lake() as lake:
        stage_lakefs(lake.repository("demo"), "dev", {b"a": b"same", b"b": b"dev!"})
    demo.commit("from lakeFS", {"c": "on dev"}, "dev")
    demo.commit("here", {"a": "same", "b": "main", "c": "on main"})
    golden(
        "merge_unlike_checksums",
        cli("merge", DEV, MAIN),
        cli("merge", DEV, MAIN, "--json"),
        cli("merge", DEV, MAIN, "--dry-run", "--json"),
        cli("cherry-pick", DEV, MAIN),
        cli("diff", MAIN, DEV),
    )


@pytest.mark.parametrize("side", ["source", "dest"])
def test_strategies_choose_a_side(forked: Demo, side: str) -> None:
    wanted = forked.contents("dev" if side == "source" else "main")["a"]
    listed = forked.cli.ok("merge", DEV, MAIN, "--dry-run", f"--strategy={side}-wins", "--json")
    before = forked.head()
    forked.merge("dev", "main", "--strategy", f"{side}-wins", "--squash")
    contents = forked.contents()
    assert contents["a"] == wanted
    assert set(contents) == {"a", "b", "c", "d"}
    # The dry run listed what the merge then did.
    made = forked.cli.ok("diff", "--two-way", f"lakefs://demo/{before}", MAIN, "--json")
    assert listed.json_lines == made.json_lines


def test_many_conflicts_are_listed_in_order(cli: Cli, demo: Demo) -> None:
    paths = [f"p/{number:03}" for number in range(40)]
    demo.commit("first", dict.fromkeys(paths, "0"))
    demo.branch("dev")
    demo.commit("dev", dict.fromkeys(paths, "1"), "dev")
    demo.commit("main", dict.fromkeys(paths, None))
    result = cli("merge", DEV, MAIN, "--json")
    assert result.exit_code == 4
    assert result.error["paths"] == paths
    assert "40 paths" in result.error["message"]


def test_conflicts_are_decided_path_by_path(
    cli: Cli, demo: Demo, golden: Golden, tmp_path: Path
) -> None:
    demo.commit("base", {"raw/a": "0", "orders.csv": "0", "gone": "0"})
    demo.branch("dev")
    demo.commit("on dev", {"raw/a": "dev", "orders.csv": "dev", "gone": None}, "dev")
    demo.commit("on main", {"raw/a": "main", "orders.csv": "main", "gone": "main"})
    plan = tmp_path / "plan.jsonl"
    golden(
        "merge_decisions",
        cli("merge", DEV, MAIN, "--take", "source:raw/**"),
        cli("merge", DEV, MAIN, "--take", "raw/**"),
        cli("merge", DEV, MAIN, "--conflicts", "-", "--take", "source:raw/**"),
        cli("merge", DEV, MAIN, "--conflicts", "-", "--json"),
        cli("merge", DEV, MAIN, "--conflicts", "-", "--dry-run"),
        cli("merge", DEV, MAIN, "--conflicts", str(plan)),
        cli("merge", DEV, MAIN, "--plan", str(plan)),
        cli("merge", DEV, MAIN, "--plan", str(tmp_path / "none")),
        cli("merge", DEV, MAIN, "--take", "source:*", "--take", "dest:*.csv", "--dry-run"),
    )
    plan.write_text(plan.read_text().replace('"take": ""', '"take": "source"'))
    demo.commit("later", {"orders.csv": "later"})
    new = tmp_path / "new.jsonl"
    golden(
        "merge_outdated_plan",
        cli("merge", DEV, MAIN, "--plan", str(plan)),
        cli("merge", DEV, MAIN, "--plan", str(plan), "--json"),
        cli("merge", DEV, MAIN, "--plan", str(plan), "--conflicts", str(new)),
    )
    assert [json.loads(line)["take"] for line in new.read_text().splitlines()] == [
        "source",
        "",
        "source",
    ]
    new.write_text(new.read_text().replace('"take": ""', '"take": "dest"'))
    cli.ok("merge", DEV, MAIN, "--plan", str(new))
    dev = demo.contents("dev")
    assert demo.contents() == dev | {"orders.csv": demo.contents()["orders.csv"]}
    assert demo.contents()["orders.csv"] != dev["orders.csv"]


def test_logs_of_tables_are_decided_only_on_demand(cli: Cli, demo: Demo, golden: Golden) -> None:
    log = "t/_delta_log/00000000000000000001.json"
    demo.commit("base", {"a": "0"})
    demo.branch("dev")
    demo.commit("on dev", {log: "dev", "a": "dev"}, "dev")
    demo.commit("on main", {log: "main", "a": "main"})
    golden(
        "merge_table_logs",
        cli("merge", DEV, MAIN),
        cli("merge", DEV, MAIN, "--strategy", "source-wins"),
        cli("merge", DEV, MAIN, "--strategy", "source-wins", "--dry-run"),
        cli("cherry-pick", DEV, MAIN, "--take", "source:*"),
        cli("cherry-pick", DEV, MAIN, "--take", "source:a", "--take", "dest:t/", "--table-logs"),
        cli("branch", "revert", MAIN, "main~1", "-y"),
        cli("branch", "revert", MAIN, "main~1", "-y", "--take", "dest:a"),
        cli("merge", DEV, MAIN, "--strategy", "source-wins", "--table-logs"),
    )
    assert demo.contents() == demo.contents("dev")


def test_merge_refuses(cli: Cli, forked: Demo, golden: Golden) -> None:
    golden(
        "merge_refuses",
        cli("merge", "lakefs://demo/nope", MAIN),
        cli("merge", DEV, "lakefs://demo/nope"),
        cli("merge", DEV, "lakefs://demo/nope", "--dry-run"),
        cli("merge", DEV, f"lakefs://demo/{forked.head()}"),
        cli("merge", DEV, "lakefs://other/main"),
        cli("merge", DEV, MAIN, "--strategy", "best"),
        cli("merge", f"{DEV}$", MAIN),
        cli("merge", DEV),
        cli("merge", DEV, MAIN, "--allow-empty-message=false"),
        cli("merge", MAIN, MAIN),
    )
    forked.stage({"x": "1"})
    golden(
        "merge_dirty",
        cli("merge", DEV, MAIN, "--strategy=source-wins"),
        cli("merge", DEV, MAIN, "--dry-run", "--json"),
    )


def test_a_dirty_branch_names_every_path_up_to_a_limit(forked: Demo) -> None:
    forked.stage({f"staged/{number:03}": "1" for number in range(120)})
    for words in (["merge", DEV, MAIN], ["merge", DEV, MAIN, "--dry-run"]):
        told = forked.cli(*words)
        assert told.exit_code == 7
        assert "branch main has 120 uncommitted changes\n  staged/000\n" in told.stderr
        assert "  staged/099\n  and 20 more; --json lists all\n" in told.stderr
        record = json.loads(forked.cli(*words, "--json").stderr)["error"]
        assert record["paths"] == [f"staged/{number:03}" for number in range(120)]

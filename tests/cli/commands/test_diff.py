"""``diff`` and ``find-merge-base``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

MAIN = "lakefs://demo/main"
DEV = "lakefs://demo/dev"


def test_diff_lists_uncommitted_changes(cli: Cli, demo: Demo, golden: Golden) -> None:
    demo.commit("first", {"a": "1", "b": "2", "same": "3"})
    demo.stage({"a": "changed", "b": None, "c d?#%41": "4", "same": "3", "never": None})
    demo.stage({"new\nline": "5"})
    golden(
        "diff_uncommitted",
        cli("diff", MAIN),
        cli("diff", f"{MAIN}$", "--json"),
        cli("diff", MAIN, "--prefix", "c d?"),
        cli("diff", MAIN, "--prefix", "nope", "--exit-code"),
        cli("diff", MAIN, "--exit-code"),
        cli("diff", MAIN, "--exit-code=false"),
    )


def test_diff_compares_with_the_merge_base_or_directly(
    cli: Cli, forked: Demo, golden: Golden
) -> None:
    forked.stage({"staged": "1"}, "dev")
    golden(
        "diff_refs",
        cli("diff", MAIN, DEV),
        cli("diff", DEV, MAIN, "--json"),
        cli("diff", MAIN, DEV, "--prefix", "d", "--exit-code"),
        cli("diff", "--two-way", MAIN, DEV),
        cli("diff", "--two-way", MAIN, f"{DEV}$"),
        cli("diff", "--two-way", DEV, f"{DEV}$", "--json", "--exit-code"),
        cli("diff", "--two-way", MAIN, DEV, "--prefix=c"),
        cli("diff", MAIN, f"{MAIN}~1", "--exit-code"),
        cli("diff", "--two-way", MAIN, f"{MAIN}~1", "--exit-code", "--json"),
        cli("diff", MAIN, MAIN, "--exit-code"),
    )


def test_a_range_stands_for_two_refs(cli: Cli, forked: Demo) -> None:
    """As in Git: two dots compare directly, three with the merge base."""
    forked.stage({"staged": "1"}, "dev")
    left, right = MAIN, DEV.rpartition("/")[2]
    assert (
        cli.ok("diff", f"{left}..{right}").stdout == cli.ok("diff", "--two-way", MAIN, DEV).stdout
    )
    assert cli.ok("diff", f"{left}...{right}").stdout == cli.ok("diff", MAIN, DEV).stdout
    assert cli.ok("diff", f"{left}..{right}", "-z").stdout.count("\0") == 3
    assert cli("diff", f"{left}..").exit_code == 2
    assert cli("diff", f"{left}..nothing").exit_code == 6


def test_two_uris_can_be_joined_as_refs_can(cli: Cli, forked: Demo) -> None:
    del forked
    for dots in ("..", "..."):
        joined = cli.ok("diff", f"{MAIN}{dots}{DEV}").stdout
        assert joined == cli.ok("diff", f"{MAIN}{dots}dev").stdout
    refused = cli("diff", f"{MAIN}..lakefs://other/dev")
    assert refused.exit_code == 2
    assert "not of the same repository" in refused.stderr


def test_diff_is_coloured_on_a_terminal(cli: Cli, forked: Demo) -> None:
    forked.stage({"a": "changed", "b": None, "new": "1"})
    assert cli("diff", MAIN, terminal=True).lines[1:] == [
        "\x1b[33m~ modified a\x1b[0m",
        "\x1b[31m- removed b\x1b[0m",
        "\x1b[32m+ added new\x1b[0m",
    ]
    conflict = "\x1b[93m* conflict a\x1b[0m"
    assert conflict in cli("diff", MAIN, DEV, terminal=True).lines
    assert "* conflict a" in cli("diff", MAIN, DEV, "--no-color", terminal=True).lines


def test_paths_that_are_not_utf8_are_printed(cli: Cli, demo: Demo) -> None:
    demo.stage({"\udcff\udcfe/x": "1"})
    assert cli.ok("diff", MAIN).lines[1:] == ['+ added "\\377\\376/x"']
    assert cli.ok("diff", MAIN, "--json").json["path"] == "\udcff\udcfe/x"
    assert cli.ok("diff", MAIN, "--json", "--prefix", "\udcff").json_lines


@pytest.mark.usefixtures("forked")
def test_diff_refuses(cli: Cli, golden: Golden) -> None:
    golden(
        "diff_refuses",
        cli("diff", "lakefs://demo/nope"),
        cli("diff", f"{MAIN}~1"),
        cli("diff", f"{MAIN}@"),
        cli("diff", MAIN, "--two-way"),
        cli("diff", MAIN, "lakefs://demo/nope", "--exit-code"),
        cli("diff", f"{MAIN}$", DEV),
        cli("diff", "--two-way", f"{MAIN}$", DEV),
        cli("diff", MAIN, f"{DEV}$"),
        cli("diff", MAIN, "lakefs://other/dev"),
        cli("diff", MAIN, DEV, MAIN),
        cli("diff"),
        cli("diff", MAIN, "lakefs://demo/nope", "--json"),
    )


def test_find_merge_base_prints_the_ancestor(cli: Cli, forked: Demo, golden: Golden) -> None:
    assert forked.head("main~1") == forked.head("dev~1")
    golden(
        "find_merge_base",
        cli("find-merge-base", DEV, MAIN),
        cli("find-merge-base", DEV, f"{MAIN}~1", "--json"),
        cli("find-merge-base", DEV, "lakefs://demo/nope"),
        cli("find-merge-base", DEV, "lakefs://other/main"),
        cli("find-merge-base", DEV),
    )


def test_find_merge_base_prints_all_ancestors_of_branches_that_crossed(
    cli: Cli, demo: Demo, golden: Golden
) -> None:
    demo.commit("first", {"a": "1", "customers": "secret"})
    demo.branch("dev")
    demo.commit("on dev", {"d": "4"}, "dev")
    before = demo.commit("on main", {"a": "main"})
    cli.ok("merge", DEV, MAIN)
    cli.ok("merge", f"lakefs://demo/{before}", DEV)
    demo.commit("delete", {"a": "main", "customers": None})
    demo.commit("more", {"d": "5"}, "dev")
    golden(
        "find_merge_base_crossed",
        cli("find-merge-base", DEV, MAIN),
        cli("find-merge-base", DEV, MAIN, "--json"),
        cli("diff", MAIN, DEV),
        cli("diff", DEV, MAIN),
        cli("merge", DEV, MAIN, "--dry-run"),
    )


@pytest.mark.xdist_group("spark")
def test_spark_merges_the_bases_of_branches_that_crossed(
    cli: Cli, demo: Demo, spark: object
) -> None:
    demo.commit("first", {f"p/{number:03}": "1" for number in range(100)})
    demo.branch("dev")
    demo.commit("on dev", {f"p/{number:03}": "2" for number in range(0, 100, 3)}, "dev")
    before = demo.commit("on main", {f"p/{number:03}": "3" for number in range(1, 100, 3)})
    cli.ok("merge", DEV, MAIN)
    cli.ok("merge", f"lakefs://demo/{before}", DEV)
    demo.commit("delete", {f"p/{number:03}": None for number in range(0, 100, 4)})
    demo.commit("more", {f"p/{number:03}": "5" for number in range(0, 100, 7)}, "dev")
    expected = cli("diff", MAIN, DEV, "--json")
    assert expected.stdout.count('"type"') > 10
    assert cli("diff", MAIN, DEV, "--json", "--engine", "spark").stdout == expected.stdout


def test_engine_options_are_checked(cli: Cli, forked: Demo, golden: Golden) -> None:
    refs = (MAIN, DEV)
    assert cli.ok("diff", *refs, "--engine", "local").stdout == cli.ok("diff", *refs).stdout
    golden(
        "diff_engine_refused",
        cli("diff", *refs, "--engine", "local", "--master", "local[2]"),
        cli("diff", MAIN, "--engine", "spark"),
        cli("diff", *refs, "--engine", "flink"),
    )


@pytest.mark.xdist_group("spark")
def test_spark_finds_the_same_differences(cli: Cli, forked: Demo, spark: object) -> None:
    refs = (MAIN, DEV)
    for options in ((), ("--two-way",), ("--json",)):
        expected = cli("diff", *refs, *options, "--exit-code")
        assert cli("diff", *refs, *options, "--exit-code", "--engine", "spark") == replace(
            expected, argv=(*expected.argv, "--engine", "spark")
        )

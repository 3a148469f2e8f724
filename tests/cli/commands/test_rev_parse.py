"""``rev-parse``, and errors for refs that name nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden


def test_rev_parse_prints_commit_ids(cli: Cli, forked: Demo, golden: Golden) -> None:
    forked.merge("dev", "main", "--strategy", "source-wins")
    cli.ok("tag", "create", "lakefs://demo/v1.0", "lakefs://demo/main")
    prefix = forked.head("dev")[:10].upper()
    assert cli.ok("rev-parse", f"lakefs://demo/{prefix}").stdout.strip() == forked.head("dev")
    golden(
        "rev_parse",
        cli("log", "lakefs://demo/main", "--graph"),
        cli("rev-parse", "lakefs://demo/main"),
        cli("rev-parse", "lakefs://demo/main~1", "lakefs://demo/main^2", "lakefs://demo/v1.0~^1~0"),
        cli("rev-parse", "--json", "lakefs://demo/v1.0^2~1"),
        cli("rev-parse", "--json", "lakefs://demo/main", "lakefs://demo/main@"),
        cli("rev-parse", "--json", "lakefs://demo/dev$", f"lakefs://demo/{forked.head()}"),
    )


def test_refs_that_name_nothing_are_errors(cli: Cli, forked: Demo, golden: Golden) -> None:
    good = "lakefs://demo/main"
    golden(
        "rev_parse_nothing",
        cli("rev-parse", "lakefs://demo/nope"),
        cli("rev-parse", good, "lakefs://demo/main~9"),
        cli("rev-parse", "lakefs://demo/main^2"),
        cli("rev-parse", "lakefs://demo/main~x"),
        cli("rev-parse", "lakefs://demo/main@~"),
        cli("rev-parse", f"lakefs://demo/{'0' * 64}"),
        cli("rev-parse", "lakefs://demo/main/path"),
        cli("rev-parse", "lakefs://demo"),
        cli("rev-parse", "lakefs://none/main"),
        cli("rev-parse", "main"),
        cli("rev-parse"),
        cli("rev-parse", "lakefs://demo/nope", "--json"),
    )
    assert forked.head()


def test_an_ambiguous_prefix_lists_the_candidates(cli: Cli, demo: Demo) -> None:
    ids: dict[str, str] = {}
    for number in range(17):
        commit_id = demo.commit(f"number {number}", {"a": str(number)})
        if commit_id[0] in ids:
            break
        ids[commit_id[0]] = commit_id
    same = commit_id[0]
    result = cli("rev-parse", f"lakefs://demo/{same}")
    assert result.exit_code == 6
    lines = result.stderr.splitlines()
    assert lines[0].startswith(f"error: ambiguous commit ID '{same}': ")
    assert lines[1] == "hint: type more of one of them:"
    assert {line.split()[0] for line in lines[2:]} >= {ids[same], commit_id}
    assert cli("rev-parse", f"lakefs://demo/{same}", "--json").error["kind"] == "not_found"

"""``branch create``, ``list``, ``show``, ``delete``, ``reset`` and ``revert``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden


def test_create_makes_a_branch_at_a_ref(cli: Cli, demo: Demo, golden: Golden) -> None:
    demo.commit("first", {"a": "1"})
    demo.stage({"b": "2"})
    golden(
        "branch_create",
        cli("branch", "create", "lakefs://demo/dev", "--source", "lakefs://demo/main"),
        cli("branch", "create", "lakefs://demo/dev:joe-1/", "-s", "lakefs://demo/main~1", "--json"),
        cli("branch", "list", "lakefs://demo"),
        cli("diff", "lakefs://demo/dev"),
    )


def test_create_takes_a_ref_of_the_same_repository(cli: Cli, demo: Demo) -> None:
    demo.commit("first", {"a": "1"})
    create = ("branch", "create", "lakefs://demo/dev")
    made = cli.ok(*create, "-s", "main~1")
    assert made.lines[0] == "Source ref: lakefs://demo/main~1"
    assert demo.head("dev") == demo.head("main~1")
    cli.ok("branch", "delete", "lakefs://demo/dev", "-y")
    refused = cli(*create, "-s", "demo/main")
    assert refused.exit_code == ExitCode.USAGE
    assert "lakefs://demo/main" in refused.stderr
    cli.ok(*create, "-s", "demo/main", "--base-uri", "lakefs://")
    assert demo.head("dev") == demo.head()
    assert cli("branch", "create", "lakefs://demo/x", "-s", "a$").exit_code == ExitCode.USAGE


def test_create_refuses_bad_names_and_refs(cli: Cli, demo: Demo, golden: Golden) -> None:
    cli.ok("tag", "create", "lakefs://demo/v1", "lakefs://demo/main")
    source = ("-s", "lakefs://demo/main")
    golden(
        "branch_create_refuses",
        cli("branch", "create", "lakefs://demo/main", *source),
        cli("branch", "create", "lakefs://demo/v1", *source),
        cli("branch", "create", f"lakefs://demo/{demo.head()}", *source),
        cli("branch", "create", "lakefs://demo/v1.0", *source),
        cli("branch", "create", "lakefs://demo/dev", "-s", "lakefs://demo/nope"),
        cli("branch", "create", "lakefs://demo/dev", "-s", "lakefs://demo/main$"),
        cli("branch", "create", "lakefs://demo/dev", "-s", "lakefs://demo/main~7"),
        cli("branch", "create", "lakefs://demo/dev", "-s", "lakefs://demo/main~x"),
        cli("branch", "create", "lakefs://demo/dev", "-s", "lakefs://other/main"),
        cli("branch", "create", "lakefs://demo/dev"),
        cli("branch", "create", "lakefs://demo/dev/path", *source),
        cli("branch", "create", "lakefs://none/dev", "-s", "lakefs://none/main"),
    )
    assert [
        line.split("\t")[0] for line in cli.ok("branch", "list", "lakefs://demo").lines[:-1]
    ] == ["main"]


def test_list_pages_branches(cli: Cli, demo: Demo, golden: Golden) -> None:
    for name in ("dev-2", "dev-1", "x"):
        demo.branch(name)
    golden(
        "branch_list",
        cli("branch", "list", "lakefs://demo"),
        cli("branch", "list", "lakefs://demo", "--json"),
        cli("branch", "list", "lakefs://demo", "--amount", "2"),
        cli("branch", "list", "lakefs://demo", "--amount", "2", "--after", "dev-2"),
        cli("branch", "list", "lakefs://demo", "--prefix=dev-", "--json", "--amount=1"),
        cli("branch", "list", "lakefs://demo", "--prefix", "nope"),
        cli("branch", "list", "lakefs://none"),
        cli("branch", "list", "lakefs://demo/main"),
        cli("branch", "list", "lakefs://demo", terminal=True),
    )


@pytest.mark.usefixtures("demo")
def test_show_prints_the_head(cli: Cli, golden: Golden) -> None:
    golden(
        "branch_show",
        cli("branch", "show", "lakefs://demo/main"),
        cli("branch", "show", "lakefs://demo/main", "--json"),
        cli("branch", "show", "main", "--base-uri", "lakefs://demo/"),
        cli("branch", "show", "lakefs://demo/nope"),
        cli("branch", "show", "lakefs://demo/main~1"),
        cli("branch", "show", "lakefs://demo"),
        cli("branch", "show", "lakefs://demo/nope", "--json"),
    )


def test_delete_removes_a_branch(cli: Cli, demo: Demo, golden: Golden) -> None:
    demo.branch("dev")
    demo.branch("dev2")
    demo.stage({"a": "1"}, "dev")
    golden(
        "branch_delete",
        cli("branch", "delete", "lakefs://demo/dev"),
        cli("branch", "delete", "lakefs://demo/dev", "-y"),
        cli("branch", "delete", "lakefs://demo/dev", "-y"),
        cli("branch", "delete", "lakefs://demo/dev2", "--yes=true", "--json"),
        cli("branch", "delete", "lakefs://demo/main"),
        cli("branch", "list", "lakefs://demo"),
    )


def test_reset_discards_uncommitted_changes(cli: Cli, demo: Demo, golden: Golden) -> None:
    demo.commit("first", {"a": "1", "raw/x": "2", "raw/y": "3"})
    demo.stage({"a": "changed", "raw/x": None, "raw/z": "4", "new": "5"})
    uri = "lakefs://demo/main"
    golden(
        "branch_reset",
        cli("diff", uri),
        cli("branch", "reset", uri),
        cli("branch", "reset", uri, "--object", "new", "-y"),
        cli("branch", "reset", uri, "--object", "new", "-y"),
        cli("diff", uri),
        cli("branch", "reset", uri, "--prefix", "raw/"),
        cli("branch", "reset", uri, "--prefix", "raw/", "-y", "--json"),
        cli("diff", uri),
        cli("branch", "reset", uri, "-y"),
        cli("diff", uri),
        cli("branch", "reset", uri, "--prefix", "a", "--object", "a", "-y"),
        cli("branch", "reset", uri, "--object", "", "-y"),
        cli("branch", "reset", "lakefs://demo/nope", "-y"),
    )


def test_reset_asks_before_discarding(cli: Cli, demo: Demo) -> None:
    demo.stage({"a\nb": "1"})
    asked = [
        cli("branch", "reset", "lakefs://demo/main", *options, stdin="n\n", terminal=True).stderr
        for options in ([], ["--prefix", "raw/"], ["--object", "a\nb"])
    ]
    question = "Are you sure you want to discard all uncommitted changes of branch 'main'"
    assert asked[0].startswith(f"{question} [y/N]? ")
    assert asked[1].startswith(f"{question} from path: raw/ [y/N]? ")
    assert asked[2].startswith(f'{question} for object: "a\\nb" [y/N]? ')
    assert cli.ok("diff", "lakefs://demo/main").lines[1:] == ['+ added "a\\nb"']


def test_revert_makes_a_commit(cli: Cli, demo: Demo, golden: Golden) -> None:
    demo.commit("first", {"a": "1"})
    demo.commit("second", {"b": "2"})
    third = demo.commit("third", {"a": None})
    golden(
        "branch_revert",
        cli("branch", "revert", "lakefs://demo/main", "main"),
        cli("branch", "revert", "lakefs://demo/main", "main", "main~2", "-y"),
        cli("log", "lakefs://demo/main", "--amount=2"),
        cli("branch", "revert", "lakefs://demo/main", f"lakefs://demo/{third}", "-y"),
        cli("branch", "revert", "lakefs://demo/main", third, "-y", "--allow-empty-commit"),
        cli("branch", "revert", "lakefs://demo/main", "main~5", "-y", "--json"),
    )


def test_each_revert_resolves_refs_after_the_one_before(cli: Cli, demo: Demo) -> None:
    demo.commit("first", {"a": "1"})
    second = demo.commit("second\n\nlong", {"b": "2"})
    before = demo.contents()
    # The second "main" is the revert of the first.
    cli.ok("branch", "revert", "lakefs://demo/main", "main", "main", "-y")
    assert demo.contents() == before
    first = f'Revert "second" ({second[:12]})'
    assert demo.messages()[:2] == [f'Revert "{first}" ({demo.head("main~1")[:12]})', first]


def test_revert_refuses_bad_refs(cli: Cli, forked: Demo, golden: Golden) -> None:
    forked.commit("third", {"a": "3"})
    forked.merge("dev", "main", "--strategy", "dest-wins")
    main = "lakefs://demo/main"
    head = forked.head()
    golden(
        "branch_revert_refuses",
        cli("branch", "revert", main, "main", "-y"),
        cli("branch", "revert", main, "main", "-m", "3", "-y"),
        cli("branch", "revert", main, "main", "-m", "0", "-y"),
        cli("branch", "revert", main, "main~2", "-y"),
        cli("branch", "revert", main, "nope", "-y"),
        cli("branch", "revert", main, "main~", "nope", "-y"),
        cli("branch", "revert", main, "main~~~x", "-y"),
        cli("branch", "revert", main, "lakefs://other/main", "-y"),
        cli("branch", "revert", main, "-y"),
        cli("branch", "revert", "lakefs://demo/nope", "main", "-y"),
    )
    assert forked.head() == head
    forked.stage({"x": "1"})
    dirty = cli("branch", "revert", main, "main~1", "-y")
    assert (dirty.exit_code, dirty.lines) == (7, [f"Branch: {main}"])
    assert "branch main has an uncommitted change\n  x\n" in dirty.stderr


def test_reverts_before_a_failure_are_kept(cli: Cli, demo: Demo) -> None:
    demo.commit("first", {"a": "1"})
    demo.commit("second", {"b": "2"})
    # Reverted again, it changes nothing.
    second = demo.head()
    words = ("branch", "revert", "lakefs://demo/main", second, second, "-y")
    result = cli(*words)
    assert result.exit_code == 11
    assert result.lines == ["Branch: lakefs://demo/main", f"commit {second} successfully reverted"]
    assert demo.messages()[:2] == [f'Revert "second" ({second[:12]})', "second"]
    demo.commit("again", {"b": "2"})
    told = cli(*words, "--json")
    assert told.error["kind"] == "nothing_to_do"
    assert [commit["id"] for commit in told.json["commits"]] == [demo.head()]


def test_a_revert_without_effect_needs_allow_empty(cli: Cli, demo: Demo) -> None:
    main = "lakefs://demo/main"
    demo.commit("first", {"a": "1"})
    first = demo.head()
    demo.branch("dev")
    demo.commit("second", {"a": "2"})
    cli.ok("branch", "revert", main, "main", "-y")
    contents = demo.contents()
    for words in (
        ["branch", "revert", main, "main~1", "-y"],
        ["cherry-pick", f"lakefs://demo/{first}", main],
    ):
        before = demo.head()
        refused = cli(*words)
        assert (refused.exit_code, refused.lines) == (11, [f"Branch: {main}"])
        assert cli(*words, "--json").error["kind"] == "nothing_to_do"
        assert demo.head() == before
        cli.ok(*words, "--allow-empty")
        assert demo.head() != before
        assert demo.contents() == contents

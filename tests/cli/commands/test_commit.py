"""``commit``, ``show commit`` and ``cherry-pick``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

MAIN = "lakefs://demo/main"


def test_commit_makes_a_commit(cli: Cli, demo: Demo, golden: Golden) -> None:
    demo.stage({"a": "1"})
    first = cli("commit", MAIN, "-m", "first")
    demo.stage({"a": "2"})
    second = cli("commit", MAIN, "-m", "two\nlines", "--meta", 'k=v,"list=a,b"', "--meta=e=x=y")
    demo.stage({"a": "3"})
    golden(
        "commit",
        first,
        second,
        cli("commit", MAIN, "-m", "third", "--json"),
        cli("commit", MAIN, "-m", " ", "--allow-empty-message", "--allow-empty-commit"),
        cli("commit", MAIN, "-m=old", "--allow-empty-commit", "--epoch-time-seconds", "0"),
        cli("log", MAIN),
    )


def test_commit_refuses_bad_input(cli: Cli, demo: Demo, golden: Golden) -> None:
    nothing = cli("commit", MAIN, "-m", "nothing")
    demo.stage({"a": "1"})
    golden(
        "commit_refuses",
        nothing,
        cli("commit", MAIN),
        cli("commit", MAIN, "-m", " \n"),
        cli("commit", MAIN, "-m", "x", "--meta", "k"),
        cli("commit", MAIN, "-m", "x", "--meta", '"k=v'),
        cli("commit", MAIN, "-m", "x", "--epoch-time-seconds", "99999999999999"),
        cli("commit", "lakefs://demo/nope", "-m", "x"),
        cli("commit", "lakefs://demo/main~1", "-m", "x"),
        cli("commit", "lakefs://demo/nope", "-m", "x", "--json"),
    )
    assert demo.messages() == ["Repository created"]


def test_unchanged_contents_are_nothing_to_commit(cli: Cli, demo: Demo) -> None:
    demo.commit("first", {"a": "1"})
    demo.stage({"a": "1", "gone": None})
    result = cli("commit", MAIN, "-m", "again", "--json")
    assert (result.exit_code, result.stdout) == (11, "")
    assert result.error["kind"] == "nothing_to_do"
    # As lakectl has it, an explicit false is as good as leaving it out.
    assert cli("commit", MAIN, "-m", "again", "--allow-empty-commit=false").exit_code == 11


def test_a_message_is_printed_without_control_characters(cli: Cli, demo: Demo) -> None:
    message = "red \x1b[31m\r\nsecond\tline \u202e"
    demo.commit(message, {"a": "1"})
    shown = cli.ok("show", "commit", MAIN)
    assert "\x1b" not in shown.stdout
    assert shown.lines[-2:] == ["\tred \\033[31m\\r", "\tsecond  line \\342\\200\\256"]
    assert cli.ok("show", "commit", MAIN, "--json").json["message"] == message


def test_show_commit_prints_a_commit(cli: Cli, forked: Demo, golden: Golden) -> None:
    forked.merge("dev", "main", "--strategy=source-wins", "--meta", "k=v")
    golden(
        "show_commit",
        cli("show", "commit", MAIN),
        cli("show", "commit", f"{MAIN}~1", "--show-meta-range-id"),
        cli("show", "commit", f"{MAIN}^2", "--json"),
        cli("show", "commit", f"{MAIN}~3"),
        cli("show", "commit", "lakefs://demo/nope"),
        cli("show", "commit", f"{MAIN}$"),
        cli("show", "commit", "lakefs://demo"),
        cli("show"),
    )


def test_cherry_pick_applies_a_commit(cli: Cli, forked: Demo, golden: Golden) -> None:
    forked.commit("worth having", {"e": "5"}, "dev")
    golden(
        "cherry_pick",
        cli("cherry-pick", "lakefs://demo/dev", MAIN),
        cli("show", "commit", MAIN),
        cli("cherry-pick", "lakefs://demo/dev~1", MAIN),
        cli("cherry-pick", "lakefs://demo/dev", MAIN),
        cli("cherry-pick", "lakefs://demo/dev", MAIN, "--allow-empty-commit", "--json"),
    )
    assert set(forked.contents()) == {"a", "b", "c", "e"}


def test_cherry_pick_of_a_merge_takes_a_parent(cli: Cli, forked: Demo) -> None:
    forked.merge("dev", "main", "--strategy", "source-wins")
    forked.branch("other", "main~1")
    cli.ok("cherry-pick", MAIN, "lakefs://demo/other")
    assert forked.contents("other") == forked.contents()
    forked.branch("second", "dev")
    cli.ok("cherry-pick", MAIN, "lakefs://demo/second", "-m", "2")
    assert forked.contents("second") == forked.contents()
    assert forked.contents("dev") != forked.contents()


def test_cherry_pick_refuses_bad_input(cli: Cli, forked: Demo, golden: Golden) -> None:
    head = forked.head()
    golden(
        "cherry_pick_refuses",
        cli("cherry-pick", f"{MAIN}~2", MAIN),
        cli("cherry-pick", "lakefs://demo/dev", MAIN, "-m", "2"),
        cli("cherry-pick", "lakefs://demo/dev", MAIN, "--parent-number", "zero"),
        cli("cherry-pick", "lakefs://demo/nope", MAIN),
        cli("cherry-pick", "lakefs://demo/dev", "lakefs://demo/nope"),
        cli("cherry-pick", "lakefs://demo/dev", "lakefs://other/main"),
        cli("cherry-pick", "lakefs://demo/dev"),
    )
    forked.stage({"x": "1"})
    assert cli("cherry-pick", "lakefs://demo/dev", MAIN).exit_code == 7
    assert forked.head() == head


@pytest.mark.parametrize("option", ["-m", "--message"])
def test_an_option_without_its_value_is_a_usage_error(cli: Cli, option: str) -> None:
    result = cli("commit", MAIN, option)
    assert result.exit_code == 2
    assert f"'{option}'" in result.stderr


def test_a_part_is_committed(cli: Cli, demo: Demo, golden: Golden) -> None:
    demo.stage({"raw/a": "1", "raw/b": "1", "top": "1", "rawest": "1"})
    golden(
        "commit_part",
        cli("commit", MAIN, "-m", "nothing", "--path", "nope"),
        cli("commit", MAIN, "-m", "empty", "--prefix", ""),
        cli("commit", MAIN, "-m", "raw", "--path", "raw", "--path", "nope"),
        cli("diff", MAIN),
        cli("commit", MAIN, "-m", "prefix", "--prefix", "raw"),
        cli("diff", MAIN),
        cli("undo", "lakefs://demo"),
        cli("undo", "lakefs://demo"),
        cli("diff", MAIN),
    )

"""``branch reset --to``, ``branch rename``, and what ``branch show`` adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.cli.exit_codes import ExitCode
from tests.cli.commands.test_sharing import Colleague

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

DEMO = "lakefs://demo"
MAIN = f"{DEMO}/main"
DEV = f"{DEMO}/dev"


@pytest.fixture
def colleague(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> Colleague:
    demo.commit("first", {"a": "1", "b": "1"})
    demo.commit("second", {"a": "2"})
    demo.cli.ok("push", DEMO)
    return Colleague(demo, monkeypatch)


def test_reset_moves_a_branch_back_and_undo_forward(cli: Cli, forked: Demo, golden: Golden) -> None:
    head, contents = forked.head(), forked.contents()
    forked.stage({"staged": "1", "a": None})
    dirty = forked.contents()
    golden(
        "branch_reset_to",
        cli("branch", "reset", MAIN, "--to", "main~1"),
        cli("branch", "reset", MAIN, "--to", "main~1", "-y"),
        cli("diff", MAIN),
        cli("undo", DEMO),
        cli("branch", "reset", MAIN, "--to", DEV, "-y", "--json"),
        cli("reflog", MAIN),
        cli("branch", "reset", MAIN, "--to", "nope", "-y"),
        cli("branch", "reset", MAIN, "--to", "lakefs://other/main", "-y"),
        cli("branch", "reset", MAIN, "--to", "dev", "--prefix", "a", "-y"),
        cli("branch", "reset", MAIN, "--force-with-lease", "-y"),
        cli("branch", "reset", f"{DEMO}/nope", "--to", "dev", "-y"),
    )
    assert forked.head() == forked.head("dev")
    cli.ok("undo", DEMO)
    assert (forked.head(), forked.contents()) == (head, dirty)
    cli.ok("redo", DEMO)
    assert forked.head() == forked.head("dev")
    assert forked.contents() == forked.contents("dev")
    cli.ok("branch", "reset", MAIN, "--to", "main@{1}", "-y")
    assert (forked.head(), forked.contents()) == (head, contents)


def test_what_was_staged_before_a_reset_never_acts_after_it(cli: Cli, forked: Demo) -> None:
    forked.stage({"staged": "1"})
    cli.ok("branch", "reset", MAIN, "--to", "dev", "-y")
    assert cli("commit", MAIN, "-m", "nothing").exit_code == ExitCode.NOTHING_TO_DO
    forked.commit("new", {"new": "1"})
    assert "staged" not in forked.contents()


def test_reset_leaves_the_bucket_alone_without_a_lease(
    cli: Cli, demo: Demo, colleague: Colleague
) -> None:
    first, second = demo.head("main~1"), demo.head()
    moved = cli("branch", "reset", MAIN, "--to", "main~1", "-y")
    assert f"lakecli push --force-with-lease {MAIN}" in moved.stderr
    assert colleague.run("pull", MAIN).exit_code == ExitCode.OK
    cli.ok("undo", DEMO)
    assert demo.head() == second
    # Pulling after a reset is a fast-forward, as in Git.
    cli.ok("branch", "reset", MAIN, "--to", first, "-y")
    cli.ok("pull", MAIN)
    assert demo.head() == second


def test_reset_moves_the_bucket_with_a_lease(cli: Cli, demo: Demo, colleague: Colleague) -> None:
    first, second = demo.head("main~1"), demo.head()
    cli.ok("branch", "reset", MAIN, "--to", first, "--force-with-lease", "-y")
    colleague.run("fetch", DEMO)
    assert colleague.run("branch", "show", MAIN, "--json").json["upstream"] == first
    assert cli.ok("branch", "show", MAIN, "--json").json["upstream"] == first
    cli.ok("branch", "reset", MAIN, "--to", second, f"--force-with-lease={first}", "-y")
    # Somebody else has moved it since: neither moves, however often this is repeated.
    colleague.run("pull", MAIN)
    colleague.share("theirs", {"c": "1"})
    demo.stage({"mine": "staged"})
    logged = cli.ok("op", "log", DEMO, "--json").stdout
    for _ in range(2):
        lost = cli("branch", "reset", MAIN, "--to", first, "--force-with-lease", "-y")
        assert (lost.exit_code, lost.stdout) == (ExitCode.LOST_RACE, f"Branch: {MAIN}\n")
        assert demo.head() == second
        assert cli.ok("diff", MAIN, "--json").json["path"] == "mine"
        assert cli.ok("op", "log", DEMO, "--json").stdout == logged
    cli.ok("branch", "reset", MAIN, "-y")
    cli.ok("pull", MAIN)
    assert demo.messages()[0] == "theirs"


def test_automatic_sync_moves_a_branch_back_with_a_lease_only(
    cli: Cli, demo: Demo, colleague: Colleague
) -> None:
    cli.ok("config", "set", "repo.demo.sync", "auto")
    first, second = demo.head("main~1"), demo.head()
    refused = cli("branch", "reset", MAIN, "--to", first, "-y")
    assert refused.exit_code == ExitCode.REFUSED
    assert "--force-with-lease" in refused.stderr
    assert demo.head() == second
    cli.ok("branch", "reset", MAIN, "--to", first, "--force-with-lease", "-y")
    colleague.run("fetch", DEMO)
    assert colleague.run("branch", "show", MAIN, "--json").json["upstream"] == first
    cli.ok("status", DEMO)
    assert demo.head() == first
    cli.ok("undo", DEMO)
    colleague.run("fetch", DEMO)
    assert colleague.run("branch", "show", MAIN, "--json").json["upstream"] == second


def test_rename(cli: Cli, forked: Demo, golden: Golden) -> None:
    head = forked.head("dev")
    golden(
        "branch_rename",
        cli("branch", "rename", DEV, "trial"),
        cli("branch", "list", DEMO),
        cli("branch", "rename", DEV, "other"),
        cli("branch", "rename", f"{DEMO}/trial", f"{DEMO}/main"),
        cli("branch", "rename", MAIN, "other"),
        cli("branch", "rename", f"{DEMO}/trial", "a/b"),
        cli("branch", "rename", f"{DEMO}/trial", f"{DEMO}/again", "--json"),
    )
    forked.stage({"staged": "1"}, "again")
    refused = cli("branch", "rename", f"{DEMO}/again", "dev")
    assert refused.exit_code == ExitCode.REFUSED
    assert "uncommitted changes" in refused.stderr
    cli.ok("undo", DEMO)
    cli.ok("undo", DEMO)
    cli.ok("undo", DEMO)
    assert forked.head("dev") == head
    assert [each["name"] for each in cli.ok("branch", "list", DEMO, "--json").json_lines] == [
        "dev",
        "main",
    ]
    forked.commit("goes on", {"e": "1"}, "dev")


def test_rename_reaches_the_bucket(cli: Cli, demo: Demo, colleague: Colleague) -> None:
    demo.branch("dev")
    cli.ok("push", DEV)
    assert "lakecli push --delete lakefs://demo/dev" in cli("branch", "rename", DEV, "new").stderr
    cli.ok("undo", DEMO)
    cli.ok("config", "set", "repo.demo.sync", "auto")
    cli.ok("branch", "rename", DEV, "new")
    colleague.run("fetch", DEMO)
    there = colleague.run("status", DEMO, "--json").json["only_in_bucket"]
    assert [each["name"] for each in there] == ["new"]


def test_show_tells_more_on_a_terminal_and_in_json(
    cli: Cli, demo: Demo, colleague: Colleague, golden: Golden
) -> None:
    demo.stage({"c": "1", "a": None})
    assert colleague.run("branch", "list", DEMO).exit_code == ExitCode.OK
    golden("branch_show_more", cli("branch", "show", MAIN), cli("branch", "show", MAIN, "--json"))
    shown = [line.partition(": ") for line in cli("branch", "show", MAIN, terminal=True).lines]
    assert [label for label, _, _ in shown] == [
        "Branch",
        "Commit ID",
        "Date",
        "Message",
        "Bucket",
        "Uncommitted",
    ]
    assert shown[3][2] == "second"
    assert shown[5][2] == "1 added, 1 removed"

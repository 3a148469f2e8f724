"""``reflog``, and refs with braces in every place."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakecli.base.ids import WriteId
from lakecli.base.model import RefKind
from lakecli.repository.journal.tracking import track
from tests.support.demo import REPOSITORY

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

MAIN = f"{REPOSITORY}/main"


@pytest.fixture
def moved(demo: Demo) -> Demo:
    """A commit a day, three times; the tag v1 at the first."""
    demo.commit("one", {"a": "1"})
    demo.cli.ok("tag", "create", f"{REPOSITORY}/v1", MAIN)
    for number in (2, 3):
        demo.cli.now += timedelta(days=1)
        demo.commit(f"day {number}", {"a": str(number), f"only-{number}": "x"})
    return demo


def share(demo: Demo, ref: str) -> None:
    """Bring main to a commit in the bucket, as a push does."""
    from lakecli.base.retry import REF_MOVES, Retries
    from lakecli.remote.refs import Intent
    from tests.remote.chains import move_ref

    with demo.lake() as lake:
        repository = lake.repository("demo")
        intent = Intent(
            kind=RefKind.BRANCH,
            name="main",
            write_id=WriteId("ab" * 16),
            before=None,
            after=demo.head(ref),  # type: ignore[arg-type]
            who="Grace Hopper <grace@example.com>",
            at=lake.runtime.now(),
            why="push",
        )
        retries = Retries(REF_MOVES, random=lambda: 0.0, sleep=lambda _: None)
        result = move_ref(repository.store, intent, retries=retries)
        assert result.ref is not None
        with lake.kv.write() as txn:
            track(txn, repository, result.ref)


def test_reflog_lists_moves(cli: Cli, moved: Demo, golden: Golden) -> None:
    golden(
        "reflog",
        cli("reflog", MAIN),
        cli("reflog", MAIN, "--amount", "2"),
        cli("reflog", MAIN, "--amount", "1", "--after", "1", "--json"),
        cli("reflog", f"{REPOSITORY}/v1", "--json"),
        cli("reflog", f"{REPOSITORY}/nope"),
        cli("reflog", f"{MAIN}~1"),
        cli("reflog", MAIN, "--after", "x"),
        cli("reflog", REPOSITORY),
    )
    cli.now += timedelta(hours=1)
    share(moved, "main~1")
    cli.now += timedelta(hours=1)
    moved.commit("not pushed", {"b": "1"})
    golden("reflog_shared", cli("reflog", MAIN), cli("reflog", MAIN, "--json"))


def test_every_command_takes_dated_refs(cli: Cli, moved: Demo) -> None:
    first, second = moved.head("v1"), moved.head("main~1")
    assert moved.head("main@{1}") == second
    assert moved.head("main@{yesterday}") == second
    assert moved.head("main@{1 day ago}~1") == first
    dated = f"{cli.now - timedelta(days=1):%Y-%m-%d %H:%M:%S}"
    assert moved.head(f"main@{{{dated}}}") == second
    past = f"{MAIN}@{{1 day ago}}"
    assert cli.ok("fs", "ls", f"{past}/", "--json").json_lines[-1]["path"] == "only-2"
    assert cli("fs", "stat", f"{past}/only-3").exit_code == 6
    assert cli.ok("fs", "stat", f"{past}/only-2", "--json").json["path"] == "only-2"
    diff = cli.ok("diff", past, MAIN, "--json").json_lines
    assert [item["path"] for item in diff] == ["a", "only-3"]
    assert cli.ok("log", past, "--json").json_lines[0]["id"] == second
    assert cli.ok("show", "commit", past, "--json").json["id"] == second
    cli.ok("branch", "create", f"{REPOSITORY}/old", "--source", past)
    assert moved.head("old") == second
    cli.ok("tag", "create", f"{REPOSITORY}/then", past)
    assert moved.head("then") == second
    cli.ok("branch", "revert", MAIN, "main@{0}", "-y")
    assert cli.ok("find-merge-base", past, MAIN, "--json").json["base_commit_id"] == second
    cli.ok("cherry-pick", f"{MAIN}@{{1}}", MAIN)
    cli.ok("merge", f"{MAIN}@{{1}}", f"{REPOSITORY}/old", "--allow-empty")


def test_refs_that_name_no_move_are_errors(cli: Cli, moved: Demo, golden: Golden) -> None:
    del moved
    golden(
        "reflog_nothing",
        cli("rev-parse", f"{MAIN}@{{2020-01-01}}"),
        cli("rev-parse", f"{MAIN}@{{soon}}"),
        cli("rev-parse", f"{MAIN}@{{2026/11/01}}"),
        cli("fs", "ls", f"{MAIN}@{{2026/11/01}}/a"),
        cli("rev-parse", f"{MAIN}@{{99}}"),
        cli("rev-parse", f"{MAIN}@{{u}}"),
        cli("rev-parse", f"{MAIN}~1@{{1}}"),
        cli("rev-parse", f"{MAIN}@{{1"),
        cli("rev-parse", f"{REPOSITORY}/{'0' * 64}@{{now}}"),
        cli("branch", "create", f"{REPOSITORY}/old", "--source", f"{MAIN}@{{10 years ago}}"),
        cli("fs", "upload", "-", f"{MAIN}@{{1}}/a"),
        cli("rev-parse", "--json", f"{MAIN}@{{1}}~1"),
    )

"""``op log``, ``op show``, ``op restore``, ``undo``, ``redo``, and reading with ``--at-op``."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakecli.cli.context import Context, Environment
from lakecli.cli.exit_codes import ExitCode
from lakecli.cli.line import Globals
from lakecli.cli.manual import complete
from tests.support.demo import REPOSITORY

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden, Result

MAIN = f"{REPOSITORY}/main"
DEV = f"{REPOSITORY}/dev"


def operations(cli: Cli) -> list[str]:
    """The IDs of all operations, oldest first."""
    logged = cli.ok("op", "log", REPOSITORY, "--json", "--amount", "0").json_lines
    return [str(each["id"]) for each in reversed(logged)]


def numbered(cli: Cli, *results: Result) -> list[Result]:
    """Put numbers in the place of operations' IDs, which are random."""
    names = {}
    for number, found in enumerate(operations(cli), 1):
        names[found] = f"<OPERATION {number}>"
        names[found[:12]] = f"<OP {number}>"

    def named(text: str) -> str:
        for id_ in sorted(names, key=len, reverse=True):
            text = text.replace(id_, names[id_])
        return text

    return [
        replace(
            each,
            argv=tuple(map(named, each.argv)),
            stdout_bytes=named(each.stdout).encode(),
            stderr=named(each.stderr),
        )
        for each in results
    ]


def kinds(cli: Cli) -> list[str]:
    return [each["kind"] for each in cli.ok("op", "log", REPOSITORY, "--json").json_lines]


def test_log_and_show_print_operations(cli: Cli, demo: Demo, golden: Golden) -> None:
    demo.commit("first", {"a": "1", "b/c": "2"})
    demo.branch("dev")
    demo.stage({"a": None, "new": "3"})
    cli.ok("tag", "create", f"{REPOSITORY}/v1", MAIN)
    cli.ok("undo", REPOSITORY)
    ids = operations(cli)
    golden(
        "op_log",
        *numbered(
            cli,
            cli("op", "log", REPOSITORY),
            cli("op", "log", REPOSITORY, "--amount", "2", "--json"),
            cli("op", "show", REPOSITORY, ids[2][:12]),
            cli("op", "show", REPOSITORY, ids[4]),
            cli("op", "show", REPOSITORY, ids[4], "--amount", "1"),
            cli("op", "show", REPOSITORY, ids[4], "--json"),
            cli("op", "show", REPOSITORY, ids[-1]),
        ),
    )


def test_op_log_is_one_line_each_on_a_terminal(cli: Cli, demo: Demo, golden: Golden) -> None:
    demo.branch("dev")
    golden(
        "op_log_terminal", *numbered(cli, cli("op", "log", REPOSITORY, "--amount=1", terminal=True))
    )


def test_undo_and_redo_change_refs(cli: Cli, demo: Demo, golden: Golden) -> None:
    demo.commit("first", {"a": "1"})
    demo.branch("dev")
    golden(
        "undo",
        *numbered(
            cli,
            cli("undo", REPOSITORY),
            cli("op", "undo", REPOSITORY),
            cli("diff", MAIN),
            cli("redo", REPOSITORY, "--json"),
            cli("op", "redo", REPOSITORY),
            cli("redo", REPOSITORY),
            cli("branch", "list", REPOSITORY),
        ),
    )


def test_another_command_ends_redo(cli: Cli, demo: Demo) -> None:
    demo.branch("dev")
    cli.ok("undo", REPOSITORY)
    demo.branch("other")
    assert cli("redo", REPOSITORY, "--json").error["kind"] == "nothing_to_do"


def test_undo_restores_a_deleted_repository(cli: Cli, demo: Demo, golden: Golden) -> None:
    demo.commit("first", {"a": "1"})
    demo.branch("dev")
    demo.stage({"uncommitted": "2"}, "dev")
    cli.ok("repo", "delete", REPOSITORY, "-y")
    assert cli("branch", "list", REPOSITORY).exit_code == ExitCode.NOT_FOUND
    assert kinds(cli)[0] == "repo delete"
    golden(
        "undo_repo_delete",
        *numbered(
            cli,
            cli("undo", REPOSITORY),
            cli("diff", DEV),
            cli("redo", REPOSITORY),
            cli("repo", "list"),
            cli("redo", REPOSITORY),
            cli("undo", REPOSITORY),
            cli("branch", "list", REPOSITORY),
        ),
    )


def test_undo_removes_a_created_repository(cli: Cli, demo: Demo, golden: Golden) -> None:
    golden(
        "undo_repo_create",
        *numbered(
            cli,
            cli("undo", REPOSITORY),
            cli("repo", "list"),
            cli("repo", "create", REPOSITORY, demo.namespace),
            cli("undo", REPOSITORY),
            cli("redo", REPOSITORY),
            cli("branch", "list", REPOSITORY),
        ),
    )


def test_undo_and_redo_cross_two_repositories_of_one_name(cli: Cli, demo: Demo) -> None:
    demo.branch("dev")
    first = cli.ok("repo", "list", "--json").json["uuid"]
    cli.ok("repo", "delete", REPOSITORY, "-y")
    cli.ok("repo", "create", REPOSITORY, cli.directory / "second")
    second = cli.ok("repo", "list", "--json").json["uuid"]

    def present() -> list[str]:
        return [each["uuid"] for each in cli.ok("repo", "list", "--json").json_lines]

    seen = []
    for command in ("undo", "undo", "undo", "redo", "redo", "redo"):
        cli.ok(command, REPOSITORY)
        seen.append(present())
    assert seen == [[], [first], [first], [first], [], [second]]


def test_an_operation_id_selects_a_deleted_repository(cli: Cli, demo: Demo) -> None:
    demo.branch("dev")
    created = operations(cli)[-1]
    cli.ok("repo", "delete", REPOSITORY, "-y")
    cli.ok("repo", "create", REPOSITORY, cli.directory / "second")
    assert cli("branch", "show", DEV).exit_code == ExitCode.NOT_FOUND
    assert cli.ok("branch", "show", DEV, "--at-op", created[:12]).exit_code == 0
    assert cli.ok("op", "show", REPOSITORY, created, "--json").json["kind"] == "branch create"
    refused = cli("op", "restore", REPOSITORY, created, "-y", "--json")
    assert refused.error["kind"] == "refused"
    assert "repo delete" in refused.error["hint"]


def test_undo_restores_a_branch_with_uncommitted_changes(cli: Cli, demo: Demo) -> None:
    demo.branch("dev")
    demo.stage({"x": "1"}, "dev")
    cli.ok("branch", "delete", DEV, "-y")
    cli.ok("undo", REPOSITORY)
    assert cli.ok("fs", "ls", DEV + "/", "--json").json["path"] == "x"


def test_restore_resets_everything(cli: Cli, demo: Demo, golden: Golden) -> None:
    demo.commit("first", {"a": "1"})
    demo.commit("second", {"a": "2"})
    demo.branch("dev")
    ids = operations(cli)
    golden(
        "op_restore",
        *numbered(
            cli,
            cli("op", "restore", REPOSITORY, ids[2], "-y"),
            cli("log", MAIN, "--json"),
            cli("op", "restore", REPOSITORY, ids[2], "-y"),
            cli("undo", REPOSITORY),
            cli("branch", "list", REPOSITORY),
            cli("op", "restore", REPOSITORY, ids[1], "-y", "--json"),
            cli("op", "restore", REPOSITORY, ids[1]),
        ),
    )


def test_at_op_reads_an_earlier_state(cli: Cli, demo: Demo) -> None:
    demo.stage({"a": "1"})
    staged = operations(cli)[-1]
    cli.ok("commit", MAIN, "-m", "first")
    cli.ok("tag", "create", f"{REPOSITORY}/v1", MAIN)
    first = demo.head()
    demo.commit("second", {"a": None, "b": "2"})
    cli.ok("tag", "delete", f"{REPOSITORY}/v1", "-y")
    demo.branch("dev")
    tagged = operations(cli)[3]
    now = demo.head()
    cli.ok("repo", "delete", REPOSITORY, "-y")

    def at(operation: str, *argv: str) -> Result:
        return cli.ok(*argv, "--at-op", operation[:12])

    shown = at(staged, "diff", MAIN, "--json").json
    assert (shown["type"], shown["path"]) == ("added", "a")
    assert at(staged, "fs", "stat", f"{MAIN}/a", "--json").json["size"] == 1
    assert len(at(staged, "log", MAIN, "--json").json_lines) == 1
    assert at(staged, "tag", "list", REPOSITORY, "--json").stdout == ""
    assert at(tagged, "tag", "show", f"{REPOSITORY}/v1", "--json").json["commit_id"] == first
    assert at(tagged, "tag", "list", REPOSITORY, "--json").json["commit_id"] == first
    assert at(tagged, "branch", "show", MAIN, "--json").json["commit_id"] == first
    assert at(tagged, "rev-parse", f"{REPOSITORY}/v1").stdout.strip() == first
    assert at(tagged, "show", "commit", MAIN, "--json").json["message"] == "first"
    assert at(tagged, "fs", "ls", f"{MAIN}/", "--json").json["path"] == "a"
    assert at(tagged, "diff", MAIN).lines == [f"Ref: {MAIN}"]
    newest = operations(cli)[-2]
    listed = at(newest, "branch", "list", REPOSITORY, "--json").json_lines
    assert [(each["name"], each["commit_id"]) for each in listed] == [("dev", now), ("main", now)]
    assert cli("log", MAIN).exit_code == ExitCode.NOT_FOUND


def test_at_op_reads_objects(cli: Cli, demo: Demo) -> None:
    file = cli.directory / "file"
    file.write_text("before")
    cli.ok("fs", "upload", file, f"{MAIN}/x")
    uploaded = operations(cli)[-1]
    file.write_text("after")
    cli.ok("fs", "upload", file, f"{MAIN}/x")
    assert cli.ok("fs", "cat", f"{MAIN}/x").stdout == "after"
    assert cli.ok("fs", "cat", f"{MAIN}/x", "--at-op", uploaded).stdout == "before"
    cli.ok("fs", "download", f"{MAIN}/x", cli.directory / "copy", "--at-op", uploaded)
    assert (cli.directory / "copy").read_text() == "before"
    cli.ok("fs", "download", "-r", f"{MAIN}/", cli.directory / "tree", "--at-op", uploaded)
    assert (cli.directory / "tree" / "x").read_text() == "before"
    assert demo.head()


@pytest.mark.usefixtures("demo")
def test_op_refuses_bad_input(cli: Cli, golden: Golden) -> None:
    first = operations(cli)[0]
    cli.ok("repo", "delete", REPOSITORY, "-y")
    deleted = operations(cli)[-1]
    cli.ok("undo", REPOSITORY)
    golden(
        "op_refused",
        *numbered(
            cli,
            cli("op", "log", "lakefs://other"),
            cli("undo", "lakefs://other"),
            cli("op", "show", REPOSITORY, "nonsense"),
            cli("op", "show", REPOSITORY, "0" * 32),
            cli("op", "show", REPOSITORY, ""),
            cli("op", "restore", REPOSITORY, "12", "--json"),
            cli("log", MAIN, "--at-op", "nonsense"),
            cli("log", MAIN, "--at-op", deleted),
            cli("log", MAIN, "--at-op", first[:3]),
            cli("redo", REPOSITORY),
            cli("redo", REPOSITORY),
            cli("undo", REPOSITORY),
            cli("undo", REPOSITORY),
            cli("undo", REPOSITORY),
        ),
    )


def test_compact_deletes_what_has_expired_and_returns_its_space(
    cli: Cli, demo: Demo, golden: Golden
) -> None:
    demo.stage({f"{number:05}": "" for number in range(9_000)})
    demo.commit("large", {"a": "1"})
    large = data_size()
    with demo.lake():
        refused = cli("op", "compact")
    for _ in range(3):  # a reading of the clock counts once another one confirms it
        cli.now += timedelta(days=16)
        demo.stage({"a": "2"})
    compacted = cli.ok("op", "compact", "--json").json
    assert compacted["before"] == pytest.approx(large, rel=0.02)
    assert compacted["after"] == data_size() < large / 4
    assert demo.messages()[0] == "large"
    assert kinds(cli) == ["test", "test"]
    cli.ok("repo", "delete", REPOSITORY, "-y")
    for _ in range(3):
        cli.now += timedelta(days=16)
        cli.ok("op", "compact")
    assert cli("op", "log", REPOSITORY).exit_code == ExitCode.NOT_FOUND
    golden("op_compact", refused)


def data_size() -> int:
    return Path(os.environ["LAKECLI_HOME"], "store", "data.mdb").stat().st_size


def test_operation_ids_are_completed(cli: Cli, demo: Demo) -> None:
    demo.branch("dev")
    ids = operations(cli)
    context = Context(
        Environment(os.environ, sys.stdin, sys.stdout, sys.stderr, lambda: cli.now), Globals()
    )
    try:
        found = list(complete.candidates(context, "operation", ids[-1][:4]))
        everything = list(complete.candidates(context, "operation", ""))
    finally:
        context.close()
    assert found == [ids[-1][:12]]
    assert everything == [each[:12] for each in reversed(ids)]


def test_undo_of_a_pushed_branch_needs_remote(cli: Cli, demo: Demo, golden: Golden) -> None:
    demo.commit("first", {"a": "1"})
    cli.ok("push", MAIN)
    demo.branch("dev")
    demo.commit("second", {"a": "2"})
    cli.ok("push", MAIN)
    golden(
        "undo_pushed",
        *numbered(
            cli,
            cli("undo", REPOSITORY),
            cli("undo", REPOSITORY, "--remote"),
            cli("status", MAIN),
            cli("redo", REPOSITORY),
            cli("push", MAIN, "--json"),
            cli("op", "log", REPOSITORY, "--amount", "3"),
            cli("op", "show", REPOSITORY, operations(cli)[-1]),
        ),
    )


def test_undo_with_sync_moves_the_bucket_too(
    cli: Cli, demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKECLI_SYNC", "auto")
    first = demo.commit("first", {"a": "1"})
    second = demo.commit("second", {"a": "2"})
    done = cli.ok("undo", REPOSITORY, "--json").json
    assert done["remote"] == ["main"]

    def positions() -> tuple[str, str]:
        return demo.head(), demo.head("main@{u}")

    assert positions() == (first, first)
    cli.ok("redo", REPOSITORY)
    assert positions() == (second, second)
    kept = cli.ok("op", "log", REPOSITORY, "--json").json_lines[-1]["id"]
    cli.ok("op", "restore", REPOSITORY, kept, "-y")
    assert demo.head() == cli.ok("log", MAIN, "--json").json["id"]


def test_a_deleted_repository_is_restored_with_sync_as_any_other(
    cli: Cli, demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = demo.commit("first", {"a": "1"})
    kept = operations(cli)[-1]
    second = demo.commit("second", {"a": "2"})
    cli.ok("push", MAIN)
    cli.ok("repo", "delete", REPOSITORY, "-y")
    assert cli("op", "restore", REPOSITORY, kept, "-y", "--json").error["kind"] == "refused"
    monkeypatch.setenv("LAKECLI_SYNC", "auto")
    cli.ok("op", "restore", REPOSITORY, kept, "-y")
    for _ in range(2):
        assert (demo.head(), demo.head("main@{u}")) == (first, first)
        cli.ok("status", REPOSITORY)
    cli.ok("undo", REPOSITORY)  # the repository is deleted again
    cli.ok("undo", REPOSITORY)
    assert (demo.head(), demo.head("main@{u}")) == (second, second)


def test_redo_of_restoring_a_deleted_repository_with_sync_moves_the_bucket_too(
    cli: Cli, demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = demo.commit("first", {"a": "1"})
    kept = operations(cli)[-1]
    demo.commit("second", {"a": "2"})
    cli.ok("push", MAIN)
    cli.ok("repo", "delete", REPOSITORY, "-y")
    monkeypatch.setenv("LAKECLI_SYNC", "auto")
    cli.ok("op", "restore", REPOSITORY, kept, "-y")
    cli.ok("undo", REPOSITORY)  # the repository is deleted again
    cli.ok("redo", REPOSITORY)
    for _ in range(2):
        assert (demo.head(), demo.head("main@{u}")) == (first, first)
        cli.ok("status", REPOSITORY)

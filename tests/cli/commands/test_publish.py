"""``publish``, and the hooks of this machine."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from lakecli.kv.operations import iter_operations

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

MAIN = "lakefs://demo/main"
DEV = "lakefs://demo/dev"


@pytest.fixture
def forked_dev(demo: Demo) -> Demo:
    demo.commit("first", {"a": "1"})
    demo.branch("dev")
    demo.commit("on dev", {"b": "1"}, "dev")
    return demo


def test_publish(cli: Cli, forked_dev: Demo, golden: Golden) -> None:
    cli.ok("config", "set", "checks.schema", "true")
    before = forked_dev.head()
    golden(
        "publish",
        cli("publish", DEV, MAIN, "--check", "schema", "--check", "sh -c 'exit 3'"),
        cli("publish", DEV, MAIN, "--check", "false", "--json"),
        cli("publish", DEV, MAIN, "--check", "no-such-program"),
        cli("publish", DEV, MAIN, "--check", "'"),
        cli("publish", DEV, MAIN, "--check", "schema", "--check", "true", "-m", "load"),
        cli("check", "list", MAIN),
        cli("status", "lakefs://demo"),
        cli("publish", DEV, MAIN, "--check", "schema"),
        cli("publish", "lakefs://demo/nope", MAIN),
    )
    assert forked_dev.head("main~1") == before


def test_conflicts_are_decided_by_patterns(cli: Cli, forked_dev: Demo) -> None:
    forked_dev.commit("theirs", {"b": "2"})
    assert cli("publish", DEV, MAIN).exit_code == 4
    cli.ok("publish", DEV, MAIN, "--take", "source:b", "--check", "true")
    assert cli.ok("fs", "cat", f"{MAIN}/b").stdout == "1"


def test_a_check_reads_the_merge_that_no_branch_has(cli: Cli, forked_dev: Demo) -> None:
    seen = cli.directory / "seen"
    here = f"{sys.executable} -m lakecli"
    check = f"sh -c '{here} fs ls $LAKECLI_REF/ > {seen}; echo $LAKECLI_DESTINATION >> {seen}'"
    forked_dev.commit("on main", {"c": "1"})
    cli.ok("publish", DEV, MAIN, "--check", check)
    assert [line.split()[-1] for line in seen.read_text().splitlines()] == ["a", "b", "c", "main"]


def hook(cli: Cli, name: str, code: str) -> Path:
    """Set a hook that adds its document to a file, and then runs some code."""
    script = cli.directory / f"{name}.py"
    seen = cli.directory / "seen"
    script.write_text(
        "import os, subprocess, sys\n"
        f"with open({str(seen)!r}, 'a') as file: file.write(sys.stdin.read())\n{code}\n"
    )
    cli.ok("config", "set", f"hooks.{name}", f"{sys.executable} {script}")
    return seen


def test_hooks_get_a_document(cli: Cli, forked_dev: Demo) -> None:
    for name in ("pre-commit", "post-commit", "pre-merge", "pre-push", "post-push"):
        seen = hook(cli, name, "")
    forked_dev.commit("more", {"c": "1"}, "dev")
    cli.ok("merge", DEV, MAIN)
    cli.ok("push", MAIN)
    events = [json.loads(line) for line in seen.read_text().splitlines()]
    names = ["pre-commit", "post-commit", "pre-merge", "pre-push", "post-push"]
    assert [event["hook"] for event in events] == names
    assert events[0]["branch"] == "dev"
    assert events[0]["commit"]["message"] == "more"
    assert events[2]["commit"]["id"] == events[3]["after"] == forked_dev.head()
    assert all(event["repository"] == "lakefs://demo" for event in events)


def test_a_hook_refuses_until_it_is_left_out(cli: Cli, forked_dev: Demo, golden: Golden) -> None:
    hook(cli, "pre-merge", "sys.exit(4)")
    hook(cli, "post-merge", "sys.exit(5)")
    cli.ok("config", "set", "hooks.pre-push", "no-such-program")
    golden(
        "hooks",
        cli("merge", DEV, MAIN),
        cli("publish", DEV, MAIN, "--json"),
        cli("push", MAIN),
        cli("merge", DEV, MAIN, "--no-verify"),
    )
    with forked_dev.lake() as lake, lake.kv.read() as txn:
        newest = next(iter_operations(txn, lake.repository("demo").key))
    assert newest.metadata == {"no_verify": "true"}
    cli.ok("config", "set", "hooks.pre-merge", "true")
    forked_dev.commit("again", {"c": "1"}, "dev")
    assert "the hook post-merge failed" in cli.ok("merge", DEV, MAIN).stderr


def test_a_hook_that_calls_lakecli_ends(cli: Cli, forked_dev: Demo) -> None:
    here = [sys.executable, "-m", "lakecli"]
    code = f"sys.exit(subprocess.run([*{here!r}, 'merge', {DEV!r}, {MAIN!r}]).returncode)"
    seen = hook(cli, "pre-merge", code)
    lost = cli("merge", DEV, MAIN)  # the hook has merged
    assert lost.exit_code == 11
    assert len(seen.read_text().splitlines()) == 1
    code = f"sys.exit(subprocess.run([*{here!r}, 'commit', {MAIN!r}, '-m', 'hook']).returncode)"
    hook(cli, "pre-commit", code)
    forked_dev.stage({"x": "1"})
    lost = cli("commit", MAIN, "-m", "outer")
    assert lost.exit_code == 5
    assert "another commit took the staged changes" in lost.stderr
    assert forked_dev.messages()[0] == "hook"


def test_a_hook_that_never_ends_is_ended(cli: Cli, forked_dev: Demo) -> None:
    hook(cli, "pre-commit", "import time; time.sleep(60)")
    cli.ok("config", "set", "timeouts.hook", "1s")
    forked_dev.stage({"x": "1"})
    ended = cli("commit", MAIN, "-m", "m")
    assert ended.exit_code == 16
    assert "took longer than 1s" in ended.stderr
    assert "x" in forked_dev.contents()

"""``log``: forms, filters, and bounded reads."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lakecli.base.model import EMPTY_TREE
from lakecli.cli.context import Environment
from lakecli.cli.run import run
from lakecli.refs.ref_store import RefStore
from lakecli.repository.commit_attempts import describe_commit
from lakecli.repository.reading.view import branch_at
from tests.support.tools import require_tool

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.base.model import Commit, CommitId
    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

MAIN = "lakefs://demo/main"


@pytest.fixture
def history(forked: Demo) -> Demo:
    """``forked`` merged, with a commit before and one after it."""
    forked.merge("dev", "main", "--strategy", "dest-wins")
    forked.commit("last", {"raw/x": "1", "b": None})
    return forked


def test_log_prints_all_forms(cli: Cli, history: Demo, golden: Golden) -> None:
    cli.ok("tag", "create", "lakefs://demo/v1", f"{MAIN}~1")
    cli.ok("branch", "create", "lakefs://demo/also", "-s", MAIN)
    assert history.head("also") == history.head()
    golden("log", cli("log", MAIN))
    golden("log_metarange", cli("log", MAIN, "--show-meta-range-id", "--amount", "1", "--limit"))
    golden("log_json", cli("log", MAIN, "--json"))
    golden("log_graph", cli("log", MAIN, "--graph"))
    golden("log_dot", cli("log", MAIN, "--dot"))


def test_log_is_coloured_on_a_terminal(cli: Cli, history: Demo) -> None:
    (line, *_) = cli("log", MAIN, "--graph", terminal=True).lines
    assert line.startswith(f"\x1b[31m*\x1b[0m \x1b[33m{history.head()[:12]}\x1b[0m ")
    assert "\x1b[32m(main)\x1b[0m last" in line


FILTERS = (
    ("", "last|Merge 'dev' into 'main'|on main|on dev|first|Repository created"),
    ("--amount 0", "last|Merge 'dev' into 'main'|on main|on dev|first|Repository created"),
    ("--amount 2", "last|Merge 'dev' into 'main'"),
    ("--amount 2 --limit", "last|Merge 'dev' into 'main'"),
    ("--amount 9 --limit=false --no-merges", "last|on main|on dev|first|Repository created"),
    ("--first-parent", "last|Merge 'dev' into 'main'|on main|first|Repository created"),
    ("--no-merges --amount 2", "last|on main"),
    ("--stop-at main~1", "last|Merge 'dev' into 'main'"),
    ("--stop-at dev", "last|Merge 'dev' into 'main'|on main|on dev"),
    ("--after main~1", "on main|on dev|first|Repository created"),
    ("--after main~1 --stop-at dev", "on main|on dev"),
    ("--objects a", "on main|on dev|first"),
    ("--objects d,b", "last|on dev|first"),
    ("--objects d --objects raw/x", "last|on dev"),
    ("--objects nope", ""),
    ("--prefixes raw/", "last"),
    ("--prefixes raw/,c", "last|on main"),
    ("--objects d --prefixes raw --first-parent", "last"),
    ("--since 2026-03-01T12:00:00Z --amount 1", "last"),
    ("--since 2999-01-01T00:00:00+01:00", ""),
    ("--since 2999-01-01", ""),
    ("--until 2999-01-01", "last|Merge 'dev' into 'main'|on main|on dev|first|Repository created"),
    ("--until yesterday", ""),
    ("--grep ^on", "on main|on dev"),
    ("--grep ^last$ --grep irs", "last|first"),
    ("--author Lovelace --grep dev --no-merges", "on dev"),
    ("--author ^nobody", ""),
)


@pytest.mark.usefixtures("history")
def test_log_filters_commits(cli: Cli) -> None:
    for options, messages in FILTERS:
        words = ("log", MAIN, *options.split())
        expected = messages.split("|") if messages else []
        shown = [each["message"] for each in cli.ok(*words, "--json").json_lines]
        assert shown == expected, options
        # The drawing shows the same commits, each before its parents.
        drawn = [line for line in cli.ok(*words, "--graph").lines if "*" in line]
        found = sorted(re.sub(r"^[*|/ \\]+\S+ \S+ \S+ (\(.*?\) )?", "", line) for line in drawn)
        assert found == sorted(expected), options


def test_a_range_leaves_out_what_the_first_ref_has(cli: Cli, forked: Demo) -> None:
    def messages(ref: str, *options: str) -> list[str]:
        found = cli.ok("log", f"lakefs://demo/{ref}", "--json", *options).json_lines
        return [each["message"] for each in found]

    assert messages("main..dev") == ["on dev"]
    assert messages("dev..main", "--first-parent") == ["on main"]
    assert messages("dev..main/c") == ["on main"]
    assert messages("main..main~1") == []
    forked.merge("dev", "main", "--strategy", "dest-wins")
    assert messages("main~1..main") == ["Merge 'dev' into 'main'", "on dev"]
    assert cli("log", "lakefs://demo/main...dev").exit_code == 2
    assert cli("log", "lakefs://demo/nothing..dev").exit_code == 6


def test_since_takes_a_time(cli: Cli, history: Demo) -> None:
    commits = cli.ok("log", MAIN, "--json").json_lines
    since = commits[2]["created_at"]
    found = cli.ok("log", MAIN, "--json", "--since", since).json_lines
    assert found == commits[:3]
    with_offset = since.replace("Z", "+00:00")
    assert cli.ok("log", MAIN, "--json", "--since", with_offset).json_lines == found
    assert history.head() == found[0]["id"]


def test_pages_continue_without_a_gap(cli: Cli, history: Demo) -> None:
    ids: list[str] = []
    after: list[str] = []
    while True:
        page = cli.ok("log", MAIN, "--json", "--amount", "2", *after)
        ids += [commit["id"] for commit in page.json_lines]
        if not page.stderr:
            break
        after = ["--after", page.stderr.rpartition("--after ")[2].strip().strip('"')]
    assert ids == [commit["id"] for commit in cli.ok("log", MAIN, "--json").json_lines]
    assert len(ids) == len(history.messages())


def test_since_and_until_take_the_times_that_refs_take(cli: Cli, history: Demo) -> None:
    before = history.head()
    cli.now += timedelta(days=3)
    history.commit("late", {"late": "1"})
    for options in ("--since yesterday", "--since '2 days ago'", "--since 2026-03-02"):
        words = shlex.split(options)
        assert [each["message"] for each in cli.ok("log", MAIN, "--json", *words).json_lines] == [
            "late"
        ], options
        words[0] = "--until"
        shown = cli.ok("log", MAIN, "--json", "--amount", "1", *words).json
        assert shown["id"] == before, options


def test_a_path_in_the_uri_limits_the_log(cli: Cli, history: Demo) -> None:
    def messages(uri: str) -> list[str]:
        return [each["message"] for each in cli.ok("log", uri, "--json").json_lines]

    assert messages(f"{MAIN}/d") == ["on dev"]
    assert messages(f"{MAIN}/raw") == messages(f"{MAIN}/raw/") == messages(f"{MAIN}/raw/x")
    assert messages(f"{MAIN}/raw") == ["last"]
    assert messages(f"{MAIN}~1/raw") == []
    assert messages(f"{MAIN}/") == history.messages()


def test_log_formats_commits(cli: Cli, history: Demo, golden: Golden) -> None:
    cli.ok("tag", "create", "lakefs://demo/v1", f"{MAIN}~1")
    cli.now += timedelta(hours=5)
    history.commit("subject\nstill\n\nbody\n\nmore", {"t/x": "1"})
    person = "%H|%T|%P|%an|%ae|%cn|%s|%b|%B|%d|%D|%%|%n|%x41%x09|%C(yellow)|%Cred|%ar"
    golden(
        "log_format",
        cli("log", MAIN, "--oneline", "--amount", "2"),
        cli("log", MAIN, "--amount", "1", "--format", person),
        cli("log", f"{MAIN}~1", "--amount", "2", "--format=tformat:%D %s (%ar) %as"),
        cli("log", MAIN, "--format=reference", "--stop-at", "main~1"),
        cli("log", MAIN, "--format=%z"),
        cli("log", MAIN, "--format=%C(mauve)"),
        cli("log", MAIN, "--format=%s", "--json"),
        cli("log", MAIN, "--oneline", "--dot"),
        cli("log", MAIN, "--grep", "("),
    )
    coloured = cli("log", MAIN, "--oneline", "--amount", "1", terminal=True).stdout
    assert coloured == f"\x1b[33m{history.head()[:12]}\x1b[m subject still\n"
    assert cli.ok("log", MAIN, "--graph", "--oneline").stdout == cli("log", MAIN, "--graph").stdout


def test_formats_are_those_of_git(cli: Cli, demo: Demo, tmp_path: Path) -> None:
    require_tool("git")
    placeholders = (
        "%s|%b|%B|%an|%ae|%cn|%ce|%at|%aI|%ai|%aD|%as|%cs|%n|%%|%x09|%x00|%Cred|%C(reset)"
    )
    message = "subject line\ngoes on\n\nbody\n\nlast\n"
    demo.commit(message, {"a": "1"})
    environ = {
        "PATH": os.environ["PATH"],
        "TZ": os.environ.get("TZ", ""),
        "HOME": str(tmp_path),
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C",
        **{f"GIT_{who}_NAME": "Ada Lovelace" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "ada@example.com" for who in ("AUTHOR", "COMMITTER")},
    }
    created = datetime.fromisoformat(cli.ok("log", MAIN, "--json", "--amount=1").json["created_at"])
    when = f"{int(created.timestamp())} {created.astimezone():%z}"
    environ |= {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(tmp_path / "git"), *words],
            env=environ,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    (tmp_path / "git").mkdir()
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "--cleanup=verbatim", "-m", message)
    shown = cli.ok("log", MAIN, "--amount=1", f"--format={placeholders}").stdout
    assert shown == git("log", f"--format={placeholders}")


@pytest.mark.usefixtures("history")
def test_log_refuses(cli: Cli, golden: Golden) -> None:
    golden(
        "log_refuses",
        cli("log", "lakefs://demo/nope"),
        cli("log", "lakefs://none/main"),
        cli("log", "lakefs://demo"),
        cli("log", MAIN, "--after", "nope"),
        cli("log", MAIN, "--stop-at", "main~x"),
        cli("log", f"{MAIN}~1", "--after", "main"),
        cli("log", MAIN, "--since", "tomorrow"),
        cli("log", MAIN, "--objects", "a,,b"),
        cli("log", MAIN, "--prefixes="),
        cli("log", MAIN, "--amount", "-1"),
        cli("log", MAIN, "--graph", "--dot"),
        cli("log", MAIN, "--dot", "--json"),
        cli("log", MAIN, "--graph", "--show-meta-range-id"),
        cli("log", MAIN, "--until", "2026-03-32"),
    )


def test_dot_escapes_special_characters(cli: Cli, demo: Demo) -> None:
    demo.commit('<b>"1 & 2"\n\x1b', {"a": "1"})
    shown = cli.ok("log", MAIN, "--dot", "--amount", "1").stdout
    assert "&lt;b&gt;&quot;1 &amp; 2&quot;<br/>\\033 >]" in shown


class _Full(io.RawIOBase):
    """A pipe whose reader goes away after some bytes."""

    def __init__(self, size: int) -> None:
        self._left = size

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        size = len(memoryview(data))  # type: ignore[arg-type]
        before, self._left = self._left, self._left - size
        if self._left < 0 <= before:  # once, or closing it would fail too
            raise BrokenPipeError
        return size


def _long_history(demo: Demo, count: int) -> None:
    with demo.lake() as lake:
        repository = lake.repository("demo")
        with lake.kv.write() as txn:
            refs = RefStore(txn, repository.key)
            branch = branch_at(repository, txn, "main")
            commit = refs.get_commit(branch.commit_id)
            for number in range(count):
                commit = describe_commit(
                    parents=[commit],
                    metarange_id=EMPTY_TREE,
                    message=f"number {number}",
                    committer="Ada",
                    created_at=commit.created_at + timedelta(seconds=1),
                    metadata={},
                )
                refs.put_commit(commit)
            refs.put_branch(
                type(branch)(branch.name, commit.id, branch.staging_token, branch.sealed_tokens)
            )


@pytest.mark.parametrize("form", ["--amount=0", "--json", "--graph", "--dot"])
def test_log_reads_only_the_commits_shown(
    demo: Demo, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    _long_history(demo, 1_000)
    read: list[CommitId] = []
    find = RefStore.find_commit

    def counting(self: RefStore, id: CommitId) -> Commit | None:
        read.append(id)
        return find(self, id)

    monkeypatch.setattr(RefStore, "find_commit", counting)
    stdout = io.TextIOWrapper(io.BufferedWriter(_Full(4_000), 1_000), encoding="utf-8")
    world = Environment(os.environ, io.StringIO(), stdout, io.StringIO(), now=lambda: demo.cli.now)
    assert run(["log", MAIN, form], world) == 141
    stdout.close()
    assert 5 < len(read) < 200


HEAVY = ("boto3", "botocore", "google", "azure", "pyarrow", "pyspark", "rich", "pydantic")


@pytest.mark.parametrize(
    "words", ["branch list lakefs://demo", "log lakefs://demo/main", "tag list lakefs://demo"]
)
def test_commands_that_read_refs_import_nothing_heavy(forked: Demo, words: str) -> None:
    forked.cli.ok("tag", "create", "lakefs://demo/v1", MAIN)
    script = (
        "import sys\n"
        "from lakecli.cli.app import main\n"
        f"sys.argv[1:] = {words.split()!r}\n"
        "try:\n    main()\n"
        "finally:\n    print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True
    )
    assert done.stdout
    loaded = set(done.stderr.split())
    assert "lakecli.repository.handle.lake" in loaded
    assert {name for name in loaded if name.split(".")[0] in HEAVY} == set()
    assert not {"lakecli.proto", "lakecli.committed", "lakecli.sstable"} & loaded

"""``bisect``: sessions, their answers, and the program that tests commits."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from lakecli.cli.exit_codes import ExitCode
from tests.support.histories import grow

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden

DEMO = "lakefs://demo"
MAIN = f"{DEMO}/main"


@pytest.fixture
def history(demo: Demo) -> Demo:
    """Eight commits on main; the fifth one brings the problem."""
    for number in range(1, 9):
        demo.commit(f"commit {number}", {"data": str(number), "bad": "1" if number >= 5 else None})
    return demo


@pytest.mark.usefixtures("history")
def test_a_session_by_hand(cli: Cli, golden: Golden) -> None:
    golden(
        "bisect",
        cli("bisect", "good"),
        cli("bisect", "start", DEMO),
        cli("bisect", "good"),
        cli("bisect", "bad", "main"),
        cli("bisect", "good", f"{MAIN}~8"),
        cli("bisect", "skip"),
        cli("bisect", "view"),
        cli("bisect", "bad", "--json"),
        cli("bisect", "good"),
        cli("bisect", "bad"),
        cli("bisect", "log"),
        cli("bisect", "log", DEMO, "--json"),
        cli("bisect", "good", "nope"),
        cli("bisect", "good", "main"),
        cli("bisect", "reset"),
        cli("bisect", "reset"),
        cli("bisect", "view", DEMO),
    )


def test_old_and_new_are_words_for_good_and_bad(cli: Cli, history: Demo, golden: Golden) -> None:
    golden(
        "bisect_old_new",
        cli("bisect", "start", DEMO),
        cli("bisect", "new", "main"),
        cli("bisect", "bad"),
        cli("bisect", "old", f"{MAIN}~8"),
        cli("bisect", "good", f"{MAIN}~7"),
        cli("bisect", "log"),
    )
    cli.ok("bisect", "start", MAIN, "main~8")
    assert "-- OLD" not in cli.ok("bisect", "run", "true").stdout
    cli.ok("bisect", "start", MAIN, "main~8")
    cli.ok("bisect", "new")
    found = cli.ok("bisect", "run", "false")
    assert "-- NEW" in found.stdout
    assert found.lines[-1].endswith("commit 1")
    assert history.head("main~7") in found.lines[-1]


def test_only_skipped_commits_left(cli: Cli, history: Demo) -> None:
    cli.ok("bisect", "start", MAIN, "main~3")
    answer = cli.ok("bisect", "skip", "main~1", "main~2", "--json").json
    assert (answer["current"], answer["found"]) == (None, None)
    assert answer["untested"] == [
        history.head("main"),
        history.head("main~1"),
        history.head("main~2"),
    ]
    lines = cli.ok("bisect", "skip", "main~2").lines
    assert lines[1] == "Only skipped commits are left; the first bad commit is one of:"
    assert len(lines) == 5


def test_sessions_are_one_for_each_repository(cli: Cli, history: Demo, tmp_path: Path) -> None:
    cli.ok("repo", "create", "lakefs://other", tmp_path / "other")
    cli.ok("bisect", "start", MAIN, "main~8")
    assert "Current commit" in cli.ok("bisect", "skip", DEMO).stdout
    cli.ok("bisect", "start", "lakefs://other/main")
    refused = cli("bisect", "good")
    assert refused.exit_code == ExitCode.USAGE
    assert "several repositories have a bisect session: demo, other" in refused.stderr
    cli.ok("bisect", "reset", DEMO)
    assert cli.ok("bisect", "log").lines[0] == "lakecli bisect start lakefs://other"
    assert history.head() not in cli.ok("bisect", "log").stdout
    # A session belongs to its repository: it goes with it, and comes back with it.
    cli.ok("repo", "delete", "lakefs://other", "-y")
    assert cli("bisect", "log").exit_code == ExitCode.NOT_FOUND
    cli.ok("undo", "lakefs://other")
    assert cli.ok("bisect", "log").lines[0] == "lakecli bisect start lakefs://other"


def test_good_and_bad_the_wrong_way_round(cli: Cli, history: Demo) -> None:
    refused = cli("bisect", "start", f"{MAIN}~5", "main")
    assert refused.exit_code == ExitCode.REFUSED
    assert "bisect finds the first bad commit" in refused.stderr
    assert cli("bisect", "log").exit_code == ExitCode.NOT_FOUND
    assert history.head()


TEST = """
import os, sys
sys.stderr.write(" ".join(sys.argv[1:]))
assert os.environ["BISECT_URI"].endswith("/" + os.environ["BISECT_ID"])
assert os.environ["BISECT_COMMITTER"] == "Ada Lovelace <ada@example.com>"
assert len(bytes.fromhex(os.environ["BISECT_METARANGE_ID"])) == 32
number = int(os.environ["BISECT_MESSAGE"].split()[1])
with open(sys.argv[1], "a") as tested:
    tested.write(f"{number} {sys.argv[2]}\\n")
sys.exit(int(sys.argv[3]) if number == int(sys.argv[4]) else number >= 5)
"""


def run_line(tmp_path: Path, *, code: int = 0, at: int = 0) -> list[str]:
    script = tmp_path / "test.py"
    script.write_text(TEST)
    tested = str(tmp_path / "tested")
    return [sys.executable, str(script), tested, "--id=:BISECT_ID:", str(code), str(at)]


def test_run(cli: Cli, history: Demo, tmp_path: Path) -> None:
    cli.ok("bisect", "start", MAIN, "main~7")
    shown = cli.ok("bisect", "run", *run_line(tmp_path)).lines
    assert shown[-1] == f"Found commit {DEMO}/{history.head('main~3')} commit 5"
    tested = dict(line.split() for line in (tmp_path / "tested").read_text().splitlines())
    assert len(tested) == 3
    assert tested["4"] == f"--id={history.head('main~4')}"
    assert f"== Commit [{history.head('main~4')}] commit 4" in shown
    assert f"-- GOOD [{history.head('main~4')}] commit 4" in shown
    assert f"-- BAD [{history.head('main~3')}] commit 5" in shown


def test_run_skips_and_stops(cli: Cli, history: Demo, tmp_path: Path) -> None:
    cli.ok("bisect", "start", MAIN, "main~7")
    for code in (126, 127, 128, 255):
        stopped = cli("bisect", "run", DEMO, *run_line(tmp_path, code=code, at=4))
        assert stopped.exit_code == ExitCode.REFUSED
        assert f"exited with {code} on commit {history.head('main~4')}" in stopped.stderr
    assert cli("bisect", "run", str(tmp_path / "nope")).exit_code == ExitCode.REFUSED
    killed = cli("bisect", "run", "sh", "-c", "kill -9 $$")
    assert "was ended by signal 9" in killed.stderr
    shown = cli.ok("bisect", "run", "--", *run_line(tmp_path, code=125, at=4), "-c", "--x").stdout
    assert "Only skipped commits are left" in shown
    answer = cli.ok("--json", "bisect", "good", "main~4").json
    assert answer["found"]["message"] == "commit 5"


@pytest.mark.usefixtures("demo")
def test_run_executes_no_text_of_a_commit(cli: Cli, tmp_path: Path) -> None:
    message = "$(touch CANARY) `touch CANARY` ';touch CANARY;' :BISECT_ID:"
    for _ in range(3):
        cli.ok("commit", MAIN, "--allow-empty", "-m", message)
    cli.ok("bisect", "start", MAIN, "main~2")
    for words in (
        ("sh", "-c", "echo :BISECT_MESSAGE:; exit 1"),
        ("sh", "-c", "echo ':BISECT_COMMITTER:'; exit 1"),
        ("sh", "-ec", ":BISECT_MESSAGE:"),
        ("sh", "-c", "--", ":BISECT_MESSAGE:"),
        ("sh", "-c", "-x", ":BISECT_MESSAGE:"),
        ("/usr/bin/ssh", "host", "./check.sh", ":BISECT_MESSAGE:"),
        ("sh", "-c", 'eval "$1"', "sh", "x:BISECT_MESSAGE:"),
        ("python3", "--eval=:BISECT_MESSAGE:"),
        (":BISECT_MESSAGE:",),
    ):
        refused = cli("bisect", "run", *words)
        assert refused.exit_code == ExitCode.USAGE, words
        assert "use the variable instead: sh -c '... \"$BISECT_" in refused.stderr
    seen = tmp_path / "seen"
    script = f'printf "%s\\n" "$1" "$BISECT_MESSAGE" >>{seen}; exit 1'
    cli.ok("bisect", "run", "sh", "-c", script, "sh", ":BISECT_MESSAGE:")
    assert set(seen.read_text().splitlines()) == {message}
    assert not list(tmp_path.rglob("CANARY"))


def test_run_needs_a_session_and_a_program(cli: Cli, history: Demo) -> None:
    assert cli("bisect", "run", "true").exit_code == ExitCode.NOT_FOUND
    cli.ok("bisect", "start", MAIN)
    assert "a good and a bad commit must be known" in cli("bisect", "run", "true").stderr
    assert "no program to run" in cli("bisect", "run", DEMO).stderr
    assert history.head()


def test_250_commits_take_eight_steps(cli: Cli, demo: Demo) -> None:
    with demo.lake() as lake:
        repository = lake.repository("demo")
        made = grow(repository, ({b"n": b"%d" % number} for number in range(250)))
    cli.ok("bisect", "start", MAIN, "main~250")
    first = made[118]
    script = f'test "$(echo "$BISECT_MESSAGE" | cut -d" " -f2)" -lt {first.message.split()[1]}'
    shown = cli.ok("bisect", "run", "sh", "-c", script).lines
    assert shown[-1] == f"Found commit {DEMO}/{first.id} {first.message}"
    assert sum(line.startswith("== Commit") for line in shown) <= 8


def test_a_damaged_session_is_named(cli: Cli, history: Demo) -> None:
    from lakecli.kv.local_store import Table

    cli.ok("bisect", "start", MAIN, "main~8")
    with history.lake() as lake:
        repository = lake.repository("demo")
        for data in (b"", b"[]", b'{"said": [["good", "x"]]}', b'{"said": [["fine", "0"]]}'):
            with lake.kv.write() as txn:
                txn.put(Table.META, b"bisect/" + repository.key, data)
            assert cli("bisect", "good").exit_code == ExitCode.INTEGRITY
    cli.ok("bisect", "reset")

"""Commands that move the branch of a linked directory, run in the directory or elsewhere.

Run in the directory, they update it as `pull` does; run elsewhere, they leave it, and `status` says
that it is behind.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

from lakecli.cli.exit_codes import ExitCode
from lakecli.worktree.worktree import lock
from tests.support.demo import REPOSITORY
from tests.support.worktrees import files, write

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.demo import Demo
    from tests.support.golden import Cli, Result

MAIN: Final = f"{REPOSITORY}/main"
TOPIC: Final = f"{REPOSITORY}/topic"

BASE: Final = {"a": "1", "b": "1"}
"""What the directory has at first."""

ON_TOPIC: Final = {"a": "2", "b": "1", "c": "new"}


@pytest.fixture
def root(cli: Cli, demo: Demo, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory linked with main; topic changes one file and adds another."""
    demo.commit("first", {"a": "0", "b": "1"})
    demo.commit("base", {"a": "1"})
    demo.branch("topic")
    demo.commit("topic", {"a": "2", "c": "new"}, "topic")
    root = cli.directory / "wd"
    cli.ok("local", "clone", f"{MAIN}/", root)
    monkeypatch.chdir(root)
    return root


MOVES: Final = {
    "merge": (("merge", TOPIC, MAIN), ON_TOPIC),
    "merge without a branch": (("merge", "topic"), ON_TOPIC),
    "merge by names": (("merge", "topic", "main"), ON_TOPIC),
    "cherry-pick": (("cherry-pick", TOPIC, MAIN), ON_TOPIC),
    "cherry-pick without a branch": (("cherry-pick", "topic"), ON_TOPIC),
    "branch revert": (("branch", "revert", MAIN, "main", "-y"), {"a": "0", "b": "1"}),
    "commit by URI": (("commit", MAIN, "-m", "staged"), {**BASE, "staged": "s"}),
    "import": (("import", "--copy", "--from", "{files}", "--to", f"{MAIN}/in/"), BASE),
}
"""Command lines that move main forward, and the files that it has then."""


@pytest.mark.parametrize("name", MOVES)
def test_a_directory_follows_its_branch_there_and_back_again(
    cli: Cli, demo: Demo, root: Path, name: str
) -> None:
    line, expected = prepare(cli, demo, name)
    cli.ok(*line)
    assert files(root) == expected
    assert is_in_sync(cli)
    cli.ok("undo")
    assert files(root) == BASE
    assert is_in_sync(cli)
    cli.ok("redo")
    assert files(root) == expected
    assert is_in_sync(cli)
    assert cli("local", "commit", "-m", "nothing").exit_code == ExitCode.NOTHING_TO_DO


@pytest.mark.parametrize(
    "name", [each for each in MOVES if "without" not in each and "names" not in each]
)
def test_a_directory_stays_where_its_branch_moves_elsewhere(
    cli: Cli, demo: Demo, root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    line, expected = prepare(cli, demo, name)
    monkeypatch.chdir(cli.directory)
    cli.ok(*line)
    assert files(root) == BASE
    monkeypatch.chdir(root)
    changes = cli.ok("status", "--json").json["changes"]
    assert {each["path"] for each in changes} == {
        path for path in {*expected, *BASE} if expected.get(path) != BASE.get(path)
    }
    assert {each["source"] for each in changes} == {"remote"}
    cli.ok("local", "pull")
    assert files(root) == expected


def prepare(cli: Cli, demo: Demo, name: str) -> tuple[list[str], dict[str, str]]:
    """Return a command line that moves main, and the files that the directory has then."""
    line, expected = MOVES[name]
    source = cli.directory / "in"
    source.mkdir()
    (source / "i").write_text("imported")
    if name == "commit by URI":
        demo.stage({"staged": "s"})
    if name == "import":
        expected = {**expected, "in/i": "imported"}
    return [word.replace("{files}", str(source)) for word in line], expected


def is_in_sync(cli: Cli) -> bool:
    return sources(cli) == {}


def test_changes_of_the_directory_stay_and_are_told(cli: Cli, root: Path) -> None:
    write(root, {"a": "mine", "b": "mine"})
    merged = cli.ok("merge", "topic")
    assert "a file was changed both in" in merged.stderr
    assert "lakecli restore FILE" in merged.stderr
    assert merged.stderr.splitlines()[-1] == "a"
    assert files(root) == {"a": "mine", "b": "mine", "c": "new"}
    cli.ok("restore", "a")
    assert files(root) == {"a": "2", "b": "mine", "c": "new"}


def test_a_directory_in_use_does_not_undo_what_was_done(cli: Cli, root: Path) -> None:
    with lock(root):
        merged = cli.ok("merge", "topic")
    assert "has not followed: another command is working" in merged.stderr
    assert "go on: lakecli local pull" in merged.stderr
    assert files(root) == BASE
    cli.ok("local", "pull")
    assert files(root) == ON_TOPIC


def test_a_reset_leaves_the_files_as_changes(cli: Cli, root: Path) -> None:
    """As `git reset` does."""
    moved = cli.ok("branch", "reset", MAIN, "--to", "main~1", "-y")
    assert f"the files of {root} stay" in moved.stderr
    assert files(root) == BASE
    assert sources(cli) == {"a": "local"}
    cli.ok("undo")
    assert files(root) == BASE
    assert is_in_sync(cli)
    cli.ok("branch", "reset", MAIN, "--to", "topic", "-y")
    assert files(root) == BASE
    assert sources(cli) == {"a": "remote", "c": "remote"}


def test_the_commit_of_a_directory_is_its_changes_again(cli: Cli, root: Path) -> None:
    write(root, {"b": "mine"})
    cli.ok("commit", "-m", "mine")
    undone = cli.ok("undo")
    assert f"the files of {root} stay" in undone.stderr
    assert files(root) == {**BASE, "b": "mine"}
    assert sources(cli) == {"b": "local"}
    cli.ok("redo")
    assert is_in_sync(cli)


def test_restoring_an_operation_leaves_the_files(cli: Cli, root: Path) -> None:
    before = cli.ok("op", "log", "--json").json_lines[0]["id"]
    cli.ok("merge", "topic")
    restored = cli.ok("op", "restore", REPOSITORY, before, "-y")
    assert f"the files of {root} stay" in restored.stderr
    assert sources(cli) == {"a": "local", "c": "local"}
    cli.ok("local", "checkout", "-y")
    assert files(root) == BASE


def test_other_branches_and_repositories_leave_the_directory(
    cli: Cli, demo: Demo, root: Path
) -> None:
    demo.branch("other")
    cli.ok("merge", TOPIC, f"{REPOSITORY}/other")
    assert files(root) == BASE
    cli.ok("repo", "create", "lakefs://second", cli.directory / "second")
    cli.ok("fs", "upload", root / "a", "lakefs://second/main/a")
    cli.ok("commit", "lakefs://second/main", "-m", "second")
    assert files(root) == BASE


def test_a_link_that_does_not_count_stops_nothing(cli: Cli, root: Path) -> None:
    (root / ".lakefs_ref.yaml").write_text("no link")
    cli.ok("merge", TOPIC, MAIN)
    assert files(root) == BASE


def test_a_pull_by_uri_leaves_the_files_and_says_so(cli: Cli, demo: Demo, root: Path) -> None:
    cli.ok("push", REPOSITORY, "--all")
    cli.ok("merge", TOPIC, MAIN)
    cli.ok("push", MAIN)
    cli.ok("branch", "reset", MAIN, "--to", "main~1", "-y")
    cli.ok("local", "checkout", "-y")
    assert files(root) == BASE
    assert f"the files of {root} stay" in cli.ok("pull", MAIN).stderr
    assert files(root) == BASE
    assert sources(cli) == {"a": "remote", "c": "remote"}
    assert demo.messages()[0].startswith("Merge")
    cli.ok("pull")
    assert files(root) == ON_TOPIC


def sources(cli: Cli) -> dict[str, str]:
    """Return where each path has changed, as `status` says."""
    changes = cli.ok("status", "--json").json["changes"]
    return {each["path"]: each["source"] for each in changes}


class TestUndoRemote:
    """`--remote` is for what this clone has pushed."""

    @pytest.fixture
    def clone(self, cli: Cli, demo: Demo, monkeypatch: pytest.MonkeyPatch) -> Demo:
        """Return the repository of another machine, which the clone that follows belongs to."""
        demo.commit("pushed", {"a": "1"})
        cli.ok("push", MAIN)
        monkeypatch.setenv("FIRST_HOME", os.environ["LAKECLI_HOME"])
        monkeypatch.setenv("LAKECLI_HOME", str(cli.directory / "colleague"))
        cli.ok("clone", demo.namespace, REPOSITORY)
        return demo

    @pytest.mark.parametrize("sync", ["manual", "auto"])
    def test_a_fresh_clone_stays(
        self, cli: Cli, clone: Demo, monkeypatch: pytest.MonkeyPatch, sync: str
    ) -> None:
        monkeypatch.setenv("LAKECLI_SYNC", sync)
        refused = is_refused(cli("undo", REPOSITORY, "--remote"), "clone")
        assert f"lakecli branch revert {MAIN.rpartition('/')[0]}/BRANCH COMMIT" in refused.stderr
        assert clone.messages()[0] == "pushed"
        cli.ok("undo", REPOSITORY)
        assert cli("status", REPOSITORY).exit_code == ExitCode.NOT_FOUND
        cli.ok("redo", REPOSITORY)

    def test_what_was_pulled_stays(
        self, cli: Cli, clone: Demo, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setenv("LAKECLI_HOME", os.environ["FIRST_HOME"])
            clone.commit("wrong", {"a": "2"})
            cli.ok("push", MAIN)
        cli.ok("pull", MAIN)
        is_refused(cli("op", "undo", REPOSITORY, "--remote"), "pull")
        assert clone.messages()[0] == "wrong"

    def test_a_created_repository_stays(self, cli: Cli, demo: Demo) -> None:
        is_refused(cli("undo", REPOSITORY, "--remote"), "repo create")
        assert demo.messages() == ["Repository created"]


def is_refused(answer: Result, kind: str) -> Result:
    assert answer.exit_code == ExitCode.REFUSED, answer
    said = "nothing of yours to undo in the bucket: the last operation here is "
    assert f"{said}{kind}" in answer.stderr
    return answer


def test_the_hint_about_a_pushed_merge_works_when_pasted(cli: Cli, demo: Demo) -> None:
    demo.branch("topic")
    demo.commit("topic", {"a": "1"}, "topic")
    demo.merge("topic", "main")
    cli.ok("push", MAIN)
    refused = cli("undo", REPOSITORY)
    assert refused.exit_code == ExitCode.REFUSED
    _, _, command = refused.stderr.strip().rpartition("undo it by another commit: lakecli ")
    cli.ok(*command.split(), "-y")
    assert demo.contents() == {}

"""A data scientist's walk: two machines, one bucket, and a kill in the middle of each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.base.uri import parse_path
from lakecli.worktree import create
from lakecli.worktree.checkout import OwnChanges, bring
from tests.support import crashes
from tests.support.golden import Cli
from tests.support.servers import new_bucket
from tests.support.worktrees import DOWNLOADS, commit_worktree, files, pull, real_now, reopen, write

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from lakecli.repository.handle.lake import Lake
    from tests.support.crashes import Killer
    from tests.support.golden import Result

DATA = "lakefs://demo/main/data/"


def do(lake: Lake, killer: Killer, command: str, root: Path) -> None:
    del killer
    repository = lake.repository("demo")
    if command == "clone":
        create.clone(repository, parse_path(DATA, allow_empty=True), root, options=DOWNLOADS)
    elif command == "commit":
        commit_worktree(reopen(repository, root), "killed")
    elif command == "pull":
        pull(reopen(repository, root))
    else:
        worktree = reopen(repository, root)
        src, target = create.link_target(repository, parse_path(f"lakefs://demo/{command}/data/"))
        with worktree.locked():
            bring(
                worktree,
                target,
                operation="checkout",
                policy=OwnChanges.REFUSE,
                options=DOWNLOADS,
                src=src,
            )


class Person:
    """Somebody with a machine and a working directory."""

    def __init__(self, directory: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = directory / name
        self.root = directory / f"{name}-data"
        self._cli = Cli(directory)
        self._cli.now = real_now()
        self._name = name
        self._monkeypatch = monkeypatch

    def __call__(self, *argv: str, code: int = 0) -> Result:
        """Run a command in the working directory."""
        if self.root.exists():
            self._monkeypatch.chdir(self.root)
        environ = {"LAKECLI_HOME": str(self.home), "LAKECLI_USER_NAME": self._name}
        result = self._cli(*argv, env=environ)
        assert result.exit_code == code, result
        return result

    def is_killed(self, command: str, step: str) -> None:
        """Let a command be killed before one of its steps."""
        outcome = crashes.run(
            do, self.home, command, self.root, step=step, seed=self._name, clock=real_now
        )
        assert outcome.killed, outcome

    def changes(self) -> dict[str, str]:
        shown = self("local", "status", "--json").json_lines
        return {each["path"]: f"{each['source']} {each['change']}" for each in shown}


def test_two_people_work_on_one_path(  # noqa: PLR0915 - one walk, from beginning to end
    tmp_path: Path,
    moto_endpoint: str,
    aws_environment: pytest.MonkeyPatch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    namespace = f"s3://{new_bucket(moto_endpoint)}/lake"
    ada, bob = (Person(tmp_path, name, monkeypatch) for name in ("ada", "bob"))
    source = tmp_path / "source"
    write(source, {"a.csv": "a", "b.csv": "b", "raw/c.csv": "c", "raw/d.csv": "d"})
    ada("repo", "create", "lakefs://demo", namespace)
    ada("fs", "upload", "-r", str(source), DATA)
    ada("fs", "upload", str(source / "a.csv"), "lakefs://demo/main/other")
    ada("commit", "lakefs://demo/main", "-m", "first")
    ada("push", "lakefs://demo/main")

    ada.is_killed("clone", "publish")
    ada("local", "clone", DATA, str(ada.root))
    bob("clone", namespace, "lakefs://demo")
    bob("local", "clone", DATA, str(bob.root))
    assert files(ada.root) == files(bob.root) == files(source)

    # Change, add, delete and move.
    write(ada.root, {"a.csv": "a2", "new/e.csv": "e", "b.csv": None})
    (ada.root / "raw/c.csv").rename(ada.root / "raw/moved.csv")
    expected = {
        "a.csv": "local changed",
        "b.csv": "local removed",
        "new/e.csv": "local added",
        "raw/c.csv": "local removed",
        "raw/moved.csv": "local added",
    }
    assert ada.changes() == expected
    ada.is_killed("commit", "upload")
    assert ada.changes() == expected
    ada.is_killed("commit", "move")
    ada("commit", "-m", "second")
    assert ada.changes() == {}
    ada("push")

    bob("fetch")
    assert bob.changes() == {}
    bob("pull", "lakefs://demo/main")
    assert set(bob.changes().values()) == {"remote changed", "remote added", "remote removed"}
    bob.is_killed("pull", "publish")
    assert "a pull was interrupted" in bob("status").stderr
    bob("local", "pull")
    assert files(bob.root) == files(ada.root)

    # Both change one file, and each another one.
    write(ada.root, {"a.csv": "by ada", "raw/d.csv": "d, by ada"})
    ada("commit", "-m", "third")
    ada("push")
    write(bob.root, {"a.csv": "by bob", "mine.csv": "m"})
    assert "a.csv" in bob("pull", code=4).stderr
    assert files(bob.root)["raw/d.csv"] == "d, by ada"
    assert bob.changes() == {"a.csv": "both conflict", "mine.csv": "local added"}
    bob("commit", "-m", "too early", code=4)
    bob("restore", "a.csv")
    write(bob.root, {"a.csv": "by ada and bob"})
    bob("commit", "-m", "fourth")
    bob("push")
    ada("pull")
    assert files(ada.root) == files(bob.root)

    # An older commit, and back again.
    bob.is_killed("main~2", "publish")
    bob("checkout", "main~2")
    assert files(bob.root)["a.csv"] == "a2"
    assert bob.changes() == {}
    bob.is_killed("main", "settle")
    bob("checkout", "main")
    assert files(ada.root) == files(bob.root)
    assert [each["message"] for each in bob("log", "--json").json_lines][:3] == [
        "fourth",
        "third",
        "second",
    ]
    ada("fsck", "lakefs://demo")

    # Taking back a commit leaves its changes in the directory.
    write(ada.root, {"a.csv": "wrong"})
    ada("commit", "-m", "fifth")
    ada("undo")
    assert ada.changes() == {"a.csv": "local changed"}
    ada("restore", "a.csv")
    assert ada.changes() == {}
    assert files(ada.root) == files(bob.root)

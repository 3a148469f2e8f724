"""``clone``, ``fetch``, ``push``, ``pull``, ``status``, and distances in ``branch list``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.base import layout
from lakecli.cli.exit_codes import ExitCode
from lakecli.remote.refs import RefMove
from tests.support.demo import Demo

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.golden import Cli, Golden, Result

DEMO = "lakefs://demo"
MAIN = "lakefs://demo/main"


class Colleague(Demo):
    """Another machine with the same repository: a home of its own."""

    def __init__(self, demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cli = demo.cli
        self.namespace = demo.namespace
        self._monkeypatch = monkeypatch
        self._home = demo.cli.directory / "their-home"
        self.run("clone", str(demo.namespace), DEMO)

    def run(self, *argv: str) -> Result:
        """Run a command there."""
        with self._monkeypatch.context() as patch:
            patch.setenv("LAKECLI_HOME", str(self._home))
            return self.cli(*argv)

    def share(self, message: str, contents: dict[str, str | None], branch: str = "main") -> None:
        """Commit there and push."""
        with self._monkeypatch.context() as patch:
            patch.setenv("LAKECLI_HOME", str(self._home))
            self.commit(message, contents, branch)
            self.cli.ok("push", f"{DEMO}/{branch}")


@pytest.fixture
def colleague(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> Colleague:
    demo.commit("first", {"a": "1", "b": "1"})
    demo.cli.ok("push", DEMO)
    return Colleague(demo, monkeypatch)


def test_push_moves_refs(cli: Cli, demo: Demo, golden: Golden) -> None:
    demo.commit("first", {"a": "1"})
    demo.branch("dev")
    cli.ok("tag", "create", "lakefs://demo/v1", MAIN)
    golden(
        "push",
        cli("status", DEMO),
        cli("push", MAIN, "--dry-run"),
        cli("push", DEMO),
        cli("push", DEMO),
        cli("push", "lakefs://demo/v1", "--json"),
        cli("push", "--all", DEMO),
        cli("push", "--all", DEMO, "--json"),
        cli("push", "--delete", "lakefs://demo/dev", "--dry-run"),
        cli("push", "--delete", "lakefs://demo/dev"),
        cli("push", "--delete", "lakefs://demo/dev"),
        cli("push", "--delete", MAIN),
        cli("branch", "list", DEMO),
        cli("branch", "list", DEMO, "-v"),
        cli("branch", "list", DEMO, "--json"),
        cli("status", DEMO, "--json"),
    )


def test_clone_creates_refs(cli: Cli, colleague: Colleague, golden: Golden, tmp_path: Path) -> None:
    namespace = str(colleague.namespace)
    golden(
        "clone",
        cli("clone", namespace, DEMO),
        cli("clone", namespace, "lakefs://other"),
        cli("clone", tmp_path / "nothing", "lakefs://other"),
        cli("clone", "ftp://nothing", "lakefs://other"),
        cli("clone", namespace),
        cli("clone", namespace, "lakefs://other/main"),
        cli("repo", "delete", DEMO, "-y"),
        cli("clone", namespace, "lakefs://again"),
        cli("repo", "delete", "lakefs://again", "-y"),
        cli("clone", namespace, "lakefs://again", "--json"),
        cli("branch", "list", "lakefs://again"),
    )
    assert not (tmp_path / "nothing").exists()


def test_fetch_and_pull_update_refs(
    cli: Cli, demo: Demo, colleague: Colleague, golden: Golden
) -> None:
    colleague.share("theirs", {"c": "1"})
    demo.stage({"d": "1"})
    golden(
        "pull",
        cli("fetch", DEMO),
        cli("fetch", DEMO),
        cli("status", DEMO),
        cli("branch", "list", DEMO),
        cli("pull", MAIN, "--dry-run"),
        cli("pull", MAIN),
        cli("pull", MAIN, "--json"),
        cli("status", MAIN),
        cli("diff", MAIN),
    )
    demo.commit("mine", {"e": "1"})
    colleague.share("theirs again", {"f": "1"})
    golden(
        "pull_merge",
        cli("push", MAIN),
        cli("status", MAIN),
        cli("pull", MAIN, "--ff-only"),
        cli("pull", MAIN, "--dry-run", "--json"),
        cli("pull", MAIN),
        cli("push", MAIN),
        cli("log", MAIN, "--graph"),
    )
    assert colleague.run("pull", DEMO).exit_code == 0
    assert set(demo.contents()) == {"a", "b", "c", "d", "e", "f"}


def test_pull_lists_conflicts(cli: Cli, demo: Demo, colleague: Colleague, golden: Golden) -> None:
    colleague.share("theirs", {"a": "theirs"})
    demo.stage({"a": "mine"})
    results = [cli("pull", MAIN)]
    demo.commit("mine", {"a": "mine"})
    results += [
        cli("pull", MAIN, "--dry-run"),
        cli("pull", MAIN, "--json"),
        cli("pull", MAIN, "--strategy=dest-wins", "-m", "Ours, on purpose"),
    ]
    golden("pull_conflicts", *results)
    assert demo.messages()[0] == "Ours, on purpose"


def test_force_with_lease_moves_a_branch_back(
    cli: Cli, demo: Demo, colleague: Colleague, golden: Golden
) -> None:
    colleague.share("theirs", {"c": "1"})
    demo.commit("mine", {"d": "1"})
    head = demo.head("main")
    golden(
        "push_force",
        cli("push", MAIN, "--force-with-lease"),
        cli("push", MAIN, "--force-with-lease=" + head),
        cli("push", MAIN, "--force-with-lease=main"),
        cli("push", MAIN, "--force-with-lease=nope"),
        cli("fetch", DEMO),
        cli("push", MAIN, "--force-with-lease", "--dry-run"),
        cli("push", MAIN, "--force-with-lease"),
    )


def test_contradicting_options_are_refused(cli: Cli, demo: Demo, golden: Golden) -> None:
    assert demo.namespace.is_dir()
    golden(
        "push_refuses",
        cli("push", MAIN, "--all"),
        cli("push", DEMO, "--all", "--force-with-lease"),
        cli("push", DEMO, "--delete"),
        cli("push", "lakefs://demo/main~1"),
        cli("push", "lakefs://demo/main/path"),
        cli("push", "lakefs://demo/nope"),
        cli("pull", "lakefs://demo/nope"),
        cli("status", "lakefs://demo/nope"),
        cli("fetch", "lakefs://nope"),
    )


def test_push_all_reports_refused_refs(
    cli: Cli, demo: Demo, colleague: Colleague, golden: Golden
) -> None:
    colleague.share("theirs", {"c": "1"})
    demo.commit("mine", {"d": "1"})
    demo.branch("dev")
    golden("push_some", cli("push", DEMO, "--all"), cli("push", DEMO, "--all", "--json"))


def test_an_interrupted_push_is_reported(
    cli: Cli, demo: Demo, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo.commit("first", {"a": "1"})

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(RefMove, "outcome", killed)
            assert cli("push", MAIN).exit_code == ExitCode.INTERRUPTED
    golden(
        "push_interrupted",
        cli("status", DEMO, "--json"),
        cli("push", MAIN),
        cli("status", DEMO, "--json"),
    )


def test_a_foreign_ref_object_is_reported(cli: Cli, demo: Demo) -> None:
    demo.commit("first", {"a": "1"})
    cli.ok("push", MAIN)
    demo.commit("second", {"a": "2"})
    refs = demo.namespace / layout.REFS / "branches"
    (refs / "main").write_text("{}")
    result = cli("push", MAIN, "--json")
    assert result.exit_code == ExitCode.INTEGRITY
    assert "refs/branches/main" in result.error["message"]


def test_automatic_sync_works_without_the_bucket(
    cli: Cli, colleague: Colleague, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setenv("LAKECLI_SYNC", "auto")
    place, elsewhere = colleague.namespace, colleague.namespace.with_name("unmounted")
    place.rename(elsewhere)
    without = [
        cli("status", DEMO),
        cli("tag", "create", "lakefs://demo/v1", MAIN),
        cli("tag", "list", DEMO),
        cli("commit", MAIN, "-m", "nothing", "--allow-empty-commit"),
    ]
    elsewhere.rename(place)
    golden("sync_unreachable", *without, cli("tag", "list", DEMO))
    assert colleague.run("tag", "list", DEMO).stdout == cli("tag", "list", DEMO).stdout != ""

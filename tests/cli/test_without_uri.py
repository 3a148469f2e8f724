"""Commands without a URI: in a linked directory, and with the default of `use`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.worktrees import files, write

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.demo import Demo
    from tests.support.golden import Cli, Golden


@pytest.fixture
def root(cli: Cli, demo: Demo, monkeypatch: pytest.MonkeyPatch) -> Path:
    demo.commit("first", {"data/a": "1", "data/d/b": "2", "other": "o"})
    root = cli.directory / "wd"
    cli.ok("local", "clone", "lakefs://demo/main/data/", root)
    monkeypatch.chdir(root / "d")
    return root


def test_everyday_commands_take_no_uri(
    cli: Cli, demo: Demo, root: Path, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, {"a": "mine", "d/new": "n"})
    demo.branch("dev")
    golden(
        "here",
        cli("status"),
        cli("status", "--json"),
        cli("diff"),
        cli("diff", "../a"),
        cli("diff", "main", "dev"),
        cli("diff", "main", "../a"),
        cli("commit", "-m", "mine"),
        cli("log", "--oneline"),
        cli("log", "../a", "--oneline"),
        cli("log", "main~1", "--amount", "1"),
        cli("blame", "b"),
        cli("annotate", ".", "-r"),
        cli("push"),
        cli("fetch"),
        cli("pull"),
        cli("undo"),
        cli("redo"),
    )
    monkeypatch.chdir(root)
    write(root, {"a": "again"})
    assert cli("restore", "a").exit_code == 0
    assert files(root)["a"] == "mine"


def test_status_shows_what_the_branch_has_changed(
    cli: Cli, demo: Demo, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, {"d/b": "mine"})
    with monkeypatch.context() as elsewhere:  # in the directory, commit would update its files
        elsewhere.chdir(cli.directory)
        demo.commit("second", {"data/a": "2"})
    shown = cli.ok("status", "--json").json["changes"]
    assert [(each["path"], each["here"], each["there"]) for each in shown] == [
        ("a", None, "changed"),
        ("d/b", "changed", None),
    ]


def test_a_checkout_goes_to_another_ref(cli: Cli, demo: Demo, root: Path, golden: Golden) -> None:
    demo.branch("dev")
    demo.commit("second", {"data/a": "2"})
    cli.ok("local", "pull")
    write(root, {"d/b": "mine"})
    golden(
        "checkout",
        cli("checkout", "dev"),
        cli("status"),
        cli("checkout", "main~1"),
        cli("commit", "-m", "nowhere"),
        cli("checkout", "lakefs://demo/main", "--json"),
        cli("checkout", "lakefs://other/main"),
        cli("checkout", "nope"),
    )
    assert files(root) == {"a": "2", "d/b": "mine"}
    write(root, {"a": "mine"})
    refused = cli("checkout", "dev", "--json")
    assert (refused.exit_code, refused.error["paths"]) == (4, ["a"])
    assert cli("checkout", "dev", "--force").exit_code == 0
    assert files(root) == {"a": "1", "d/b": "mine"}


def test_a_pull_brings_the_directory_along(cli: Cli, demo: Demo, root: Path) -> None:
    write(root, {"d/b": "mine"})
    demo.commit("theirs", {"data/a": "theirs", "data/d/b": "theirs", "data/t": "t"})
    cli.ok("push", "lakefs://demo/main")
    pulled = cli("pull")
    assert pulled.exit_code == 4
    assert "conflict: a file was changed both" in pulled.stderr
    assert files(root) == {"a": "theirs", "d/b": "mine", "t": "t"}
    assert cli("commit", "-m", "m").exit_code == 4
    assert cli("restore", "b").exit_code == 0
    assert cli("pull").exit_code == 0


@pytest.mark.usefixtures("root")
def test_a_path_is_a_uri_and_the_branch_of_a_word_is_suggested(cli: Cli, demo: Demo) -> None:
    demo.branch("dev")
    for word, uri in (("dev", "dev"), ("dev/data/", "dev/data/"), ("data/", "main/data/")):
        refused = cli("fs", "ls", word)
        assert refused.exit_code == 2
        assert f"hint: did you mean lakefs://demo/{uri}?" in refused.stderr


def test_uris_and_the_base_uri_work_as_ever(cli: Cli, demo: Demo, root: Path) -> None:
    demo.stage({"staged": "s"})
    assert "staged" in cli.ok("diff", "lakefs://demo/main").stdout
    assert "staged" in cli.ok("diff", "main", "--base-uri", "lakefs://demo/").stdout
    assert cli("diff", "--base-uri", "lakefs://demo/main").exit_code == 2
    assert cli("log", "s3://bucket/x").exit_code == 2
    assert cli("log", "/etc/passwd").exit_code == 2
    assert cli.ok("log", "lakefs://demo/main/data/a").stdout
    # A file has a ref's name: the ref is meant, unless it is written as a file.
    write(root, {"d/main": "m"})
    assert cli.ok("diff", "main").stdout.startswith("Ref: lakefs://demo/main\n")
    assert "+ added d/main" in cli.ok("diff", "./main").stdout


def test_use_sets_a_default(
    cli: Cli, demo: Demo, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(cli.directory)
    demo.stage({"a": "1"})
    golden(
        "use",
        cli("use"),
        cli("status"),
        cli("use", "lakefs://demo"),
        cli("use"),
        cli("use", "--json"),
        cli("status"),
        cli("commit", "-m", "first"),
        cli("log", "--oneline"),
        cli("log", "main@", "--oneline"),
        cli("diff"),
        cli("branch", "list"),
        cli("op", "log", "--amount", "1"),
        cli("bisect", "start", "main", "main~1"),
        cli("tag", "list", "--json"),
        cli("use", "lakefs://demo/nope"),
        cli("use", "lakefs://absent"),
        cli("use", "demo"),
        cli("use", "lakefs://demo", "--unset"),
        cli("use", "--unset"),
        cli("use"),
    )
    monkeypatch.setenv("LAKECLI_USE", "lakefs://demo/main")
    assert "LAKECLI_USE still overrides" in cli("use", "lakefs://demo").stderr
    assert cli.ok("log", "--oneline").stdout


def test_a_linked_directory_comes_before_the_default(cli: Cli, demo: Demo, root: Path) -> None:
    del demo
    cli.ok("use", "lakefs://demo/main")
    write(root, {"a": "mine"})
    assert "modified a" in cli.ok("diff").stdout


def test_a_mistyped_ref_is_no_file(cli: Cli, demo: Demo, root: Path) -> None:
    del demo
    for line in (["log", "mian"], ["log", "main~99"], ["diff", "mian"], ["diff", "main", "mian"]):
        refused = cli(*line)
        assert (refused.exit_code, refused.stdout) == (6, ""), line
        assert f"neither a ref of lakefs://demo nor a file: '{line[-1]}'" in refused.stderr
    write(root, {"d/b": None})
    assert cli("log", "b").exit_code == 6
    assert "first" in cli.ok("log", "./b").stdout
    assert "first" in cli.ok("log", "../d/b").stdout
    assert "removed d/b" in cli.ok("diff", "./b").stdout


def test_a_diff_of_files_is_counted_and_narrowed(
    cli: Cli, demo: Demo, root: Path, golden: Golden
) -> None:
    del demo
    write(root, {"a": "mine", "d/b": None, "d/new": "new"})
    golden(
        "here_diff",
        cli("diff", "--stat"),
        cli("diff", "--stat", "--depth", "0", "--json", "."),
        cli("diff", "--prefix", "d/n"),
        cli("diff", "--two-way"),
        cli("diff", "--at-op", "0" * 32),
    )


def test_a_path_without_scheme_is_completed_from_the_default(cli: Cli, demo: Demo) -> None:
    demo.commit("first", {"raw/a": "1"})
    cli.ok("use", "lakefs://demo/main")
    assert (
        cli.ok("fs", "ls", "main/raw/").lines == cli.ok("fs", "ls", "lakefs://demo/main/raw/").lines
    )
    assert cli.ok("fs", "cat", "main/raw/a").stdout == "1"
    refused = cli("fs", "ls", "raw/")
    assert refused.stderr == (
        "error: not a lakefs:// URI: 'raw/'\nhint: did you mean lakefs://demo/main/raw/?\n"
    )
    cli.ok("use", "lakefs://demo")
    assert "lakefs://demo/main/raw/?" in cli("fs", "rm", "main/raw/").stderr
    cli.ok("use", "--unset")
    assert "lakefs://demo" not in cli("fs", "ls", "raw/").stderr

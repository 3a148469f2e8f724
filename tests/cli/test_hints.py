"""Hints can be followed: those of the library become commands, and what they advise works."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

import pytest

import lakecli
from lakecli.cli.hints import as_commands
from tests.support.golden import Result
from tests.support.hints import HintRunner, advised

if TYPE_CHECKING:
    from tests.support.demo import Demo
    from tests.support.golden import Cli

BELOW = ("base", "committed", "doctor", "kv", "refs", "remote", "settings", "sstable", "staging")
"""Packages that know no command line, and not which repository they serve."""


@pytest.mark.parametrize(
    ("hint", "command"),
    [
        ("look: `fsck REPOSITORY --data`", "look: lakecli fsck lakefs://demo --data"),
        ("see `help clouds`; or `aws s3 ls`", "see lakecli help clouds; or `aws s3 ls`"),
        ("`fs rm -r '`x`;'`, or wait", "lakecli fs rm -r '`x`;', or wait"),
        ("write `REPOSITORY/main`", "write `REPOSITORY/main`"),
        ("a'`fsck`'", "a'`fsck`'"),
        (
            "`import --from s3://b/REPOSITORY/x --to REPOSITORY/main/`",
            "lakecli import --from s3://b/REPOSITORY/x --to lakefs://demo/main/",
        ),
    ],
)
def test_a_call_of_a_verb_becomes_a_command(hint: str, command: str) -> None:
    assert as_commands(hint, "lakefs://demo") == command
    assert as_commands(command, "lakefs://demo") == command


def test_without_one_repository_its_place_is_named() -> None:
    assert as_commands("`gc status REPOSITORY`", None) == "lakecli gc status lakefs://REPOSITORY"


@pytest.mark.parametrize(
    ("hint", "command", "option"),
    [
        ("say `parent_number=1`", "branch revert", "say --parent-number 1"),
        ("`remote=True`; or wait", "undo", "--remote; or wait"),
        ("`pins=True`, or `pins=False`", "import", "--pin-versions, or --no-pin-versions"),
        ("anyway: `allow_empty=True`", "merge", "anyway: --allow-empty"),
        ("anyway: `allow_empty=True`", "cherry-pick", "anyway: --allow-empty-commit"),
    ],
)  # fmt: skip
def test_a_parameter_becomes_an_option(hint: str, command: str, option: str) -> None:
    assert as_commands(hint, None, command) == option


def test_the_library_names_no_options() -> None:
    """Options of other programs stand between backquotes, as calls of verbs do."""
    assert lakecli.__file__ is not None
    root = Path(lakecli.__file__).parent
    files = [each for each in root.rglob("*.py") if each.relative_to(root).parts[0] != "cli"]
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if _is_hint(node):
                texts = (each for each in ast.walk(node.value) if isinstance(each, ast.Constant))
                text = re.sub(r"`[^`]*`?", "", "".join(str(each.value) for each in texts))
                assert not re.search(r"(?<![\w-])--[a-z]", text), (file, text)


def _is_hint(node: ast.AST) -> TypeGuard[ast.keyword | ast.Assign]:
    """Return whether a node passes a hint, or gives it a name."""
    if isinstance(node, ast.Assign):
        return any(isinstance(each, ast.Name) and each.id == "hint" for each in node.targets)
    return isinstance(node, ast.keyword) and node.arg == "hint"


@pytest.mark.parametrize("package", [*BELOW, "stores"])
def test_lower_layers_name_verbs_and_no_commands(package: str) -> None:
    assert lakecli.__file__ is not None
    for file in Path(lakecli.__file__).with_name(package).rglob("*.py"):
        tree = ast.parse(file.read_text())
        docs = {ast.get_docstring(node, clean=False) for node in ast.walk(tree)
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)}  # fmt: skip
        texts = [each.value for each in ast.walk(tree) if isinstance(each, ast.Constant)]
        named = [each for each in texts if isinstance(each, str) and each not in docs]
        command = r"\blakecli (config|doctor|fsck|gc|help|clone|fs|import|push|log) "
        assert not [text for text in named if re.search(command, text)], file


def test_a_missing_import_is_found_by_the_command_of_the_hint(cli: Cli, demo: Demo) -> None:
    del demo
    raw = cli.directory / "raw"
    raw.mkdir()
    (raw / "a").write_text("1")
    cli.ok("import", "--from", raw, "--to", "lakefs://demo/main/raw/")
    (raw / "a").unlink()
    failed = cli("fs", "cat", "lakefs://demo/main/raw/a")
    assert failed.exit_code == 6
    (command,) = advised(failed)
    assert command == ("fsck", "lakefs://demo", "--external")
    assert "Problems: 1" in cli(*command).stdout


def test_advice_that_leads_nowhere_is_found(cli: Cli, demo: Demo, home: Path) -> None:
    demo.commit("first", {"a": "1"})
    runner = HintRunner(cli.as_a_person, cli.directory, home)
    before = sorted(cli.directory.iterdir())

    def printed(hint: str) -> list[str]:
        runner.failures.clear()
        runner(Result(("log", "lakefs://demo/none"), 6, b"", f"error: no\nhint: {hint}\n"))
        return runner.failures

    assert not printed("look: lakecli log REF; or lakecli fs rm -r lakefs://demo/main/")
    assert list(demo.contents()) == ["a"]
    assert printed("look: lakecli log REF --nonsense")
    assert printed("drop it: lakecli branch delete")[0].count("$ lakecli") == 2
    assert printed("cut: lakecli fs upload lakefs://demo/main/b")
    assert sorted(cli.directory.iterdir()) == before

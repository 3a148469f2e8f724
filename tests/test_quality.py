"""The architecture, the types and the style, as tests."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROJECT = Path(__file__).parents[1]


@cache
def trees(folder: str) -> dict[str, ast.Module]:
    """Return the syntax tree of every module below a folder of the project, by path."""
    return {
        path.relative_to(PROJECT).as_posix(): ast.parse(path.read_text())
        for path in sorted((PROJECT / folder).rglob("*.py"))
    }


@cache
def nodes(folder: str, *kinds: type[ast.AST]) -> list[tuple[str, ast.AST]]:
    """Return all nodes of some kinds below a folder, each with the path of its module."""
    return [
        (path, node)
        for path, tree in trees(folder).items()
        for node in ast.walk(tree)
        if isinstance(node, kinds)
    ]


@pytest.fixture(scope="module", autouse=True)
def _forget_trees() -> Iterator[None]:
    yield
    trees.cache_clear()
    nodes.cache_clear()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def tracked(*patterns: str) -> list[str]:
    """Return the files that git tracks; a virtual environment of any name is not among them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *patterns],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [name for name in listed.split("\0") if name and (PROJECT / name).exists()]


SOURCES = tracked("*.py", "*.pyi")


@pytest.mark.parametrize(
    "arguments",
    [
        ["-m", "ruff", "check", *SOURCES],
        ["-m", "ruff", "format", "--check", *SOURCES],
        ["-m", "mypy"],
        # With a cache of its own: two runs at a time spoil one that they share.
        ["-m", "mypy", "--platform", "darwin", "--cache-dir", ".mypy_cache/darwin", "lakecli"],
        ["-c", "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"],
    ],
    ids=["lint", "format", "types", "types-macos", "import-contracts"],
)
def test_the_tree_is_clean(arguments: list[str]) -> None:
    finished = run(*arguments)
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_every_package_has_its_place_in_the_layers() -> None:
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    placed = {name for layer in layers for name in layer.split(" | ")}
    present = {
        path.stem
        for path in (PROJECT / "lakecli").iterdir()
        if (path / "__init__.py").exists() or path.suffix == ".py"
    }
    assert present - {"__init__", "__main__"} == placed


PHRASES = {
    r"\bit is (looked|told|said)\b": "name who does it",
    r"\b(is|are|was|were) told\b": "reported, listed",
    r"\b(is|are|was|were) looked (at|for|whether)\b": "checked, searched for",
    r"\bto be told\b": "to report",
    r"\btells? nobody\b": "report nothing",
    r"\bwhat is not well\b": "problems",
    r"\bis found out\b": "is detected, is determined",
    r"\bis no matter\b": "is ignored",
    r"\bfor good\b": "permanently",
    r"\ball the same\b": "anyway",
    r"\bthat (is|are|was|were) not there\b(?! yet)": "missing",
    r"\bbehind (the others'|their) backs?\b": "unnoticed",
    r"\b(it|that|which|this|text`) is no (?!longer|more|other)": "is not a",
    r"\bshall\b": "must, or the present tense",
    r"\bheal(s|ed|ing)?\b": "repair",
    r"^\s+\w+: (whose|likewise|which|what for|as above)\.$": "a description, or no entry",
    r"\blikewise\.$": "the description itself",
}
"""Phrases that must not return, with what to write instead."""


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_phrase_does_not_return(phrase: str) -> None:
    found = []
    for name in tracked("lakecli", "README.md", "man"):
        text = (PROJECT / name).read_text(encoding="utf-8")
        for match in re.finditer(phrase, text, re.MULTILINE | re.IGNORECASE):
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"{name}:{line}: {match[0].strip()!r}; write: {PHRASES[phrase]}")
    assert found == []


PACKAGES = [
    *sorted(
        path.parent.relative_to(PROJECT / "lakecli").as_posix()
        for path in (PROJECT / "lakecli").rglob("__init__.py")
    ),
    "../tests/support",
]

LISTED_ELSEWHERE = {
    "cli/commands": "most files are commands; `test_documented` compares them with its map"
}
"""Packages without a map, and why."""


@pytest.mark.parametrize("package", [name for name in PACKAGES if name not in LISTED_ELSEWHERE])
def test_the_map_of_a_package_names_its_modules(package: str) -> None:
    folder = PROJECT / "lakecli" / package
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    named = set(re.findall(r"\w+", docstring))
    modules = {path.stem for path in folder.iterdir() if path.suffix == ".py"} - {"__init__"}
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    assert (modules | packages) - named - {"__main__"} == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_the_map_of_a_package_names_nothing_else(package: str) -> None:
    folder = PROJECT / "lakecli" / package
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    table = docstring.partition("::\n\n")[2].partition("\n\n")[0]
    first = re.findall(r"^    (\w+(?:, \w+)*)   +\S", table, re.MULTILINE)
    named = {name for names in first for name in names.split(", ")}
    present = {path.stem for path in folder.iterdir()}
    if package not in (".", "repository", "repository/sharing", "repository/transfer"):
        assert named <= present  # there the first column are subjects


def test_a_package_says_what_it_may_import() -> None:
    """Each names the layer below its own, as the contracts have it."""
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    wrong = {}
    for contract in settings["tool"]["importlinter"]["contracts"]:
        if contract["type"] != "layers":
            continue
        layers = [re.findall(r"\w+", layer) for layer in contract["layers"]]
        for layer, below in zip(layers, [*layers[1:], []], strict=True):
            names = "".join(f"`{name}`, " for name in below).removesuffix(", ")
            sentence = f"This package may import {names} and the layers below."
            if not below:
                sentence = "This package imports nothing from lakecli."
            for name in layer:
                path = PROJECT / contract["containers"][0].replace(".", "/") / name / "__init__.py"
                if path.exists():  # a layer may be a module, which says nothing of this
                    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
                    if sentence not in " ".join(docstring.split()):
                        wrong[name] = sentence
    assert wrong == {}


def test_no_two_classes_have_one_name() -> None:
    """A reader who searches for a class finds one."""
    places: dict[str, list[str]] = {}
    for path in (PROJECT / "lakecli").rglob("*.py"):
        for each in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(each, ast.ClassDef):
                places.setdefault(each.name, []).append(path.relative_to(PROJECT).as_posix())
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_the_architecture_names_what_there_is() -> None:
    from lakecli.base import layout
    from lakecli.kv.local_store import Table

    text = (PROJECT / ".github" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert {table.name for table in Table} == set(
        re.findall(r"^\| `([A-Z_]+)` `", text, re.MULTILINE)
    )
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    table = text.partition("\n## Layers\n")[2].partition("\n\nThe docstring")[0]
    rows = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.splitlines() if "| `" in row]
    assert [set(row) for row in rows] == [set(layer.split(" | ")) for layer in layers]
    keys = {value for name, value in vars(layout).items() if name.isupper() and "/" in str(value)}
    assert [key for key in keys if isinstance(key, str) and key not in text] == []
    files = [path.as_posix() for path in (PROJECT / "lakecli").rglob("*.py")]
    files += [path.as_posix() for path in (PROJECT / "tests").rglob("*.py")]
    for name in re.findall(r"[\w/]+\.py\b", text):
        assert any(file.endswith(f"/{name}") for file in files), name


ACROSS = {"benchmarks", "data", "meetings", "mutants", "protocol", "servers", "support"}
"""Directories of tests that belong to no single package. Those named golden or data hold files."""


def test_tests_stand_where_their_package_does() -> None:
    packages = {PurePath(name).parent.relative_to("lakecli") for name in tracked("lakecli")}
    places = {PurePath(name).parent.relative_to("tests") for name in tracked("tests")}
    strangers = [
        place.as_posix()
        for place in places
        if place.parts[:1] not in {(name,) for name in ACROSS}
        and place.name not in {"golden", "data"}
        and place not in packages
    ]
    assert strangers == []


def test_the_top_level_is_fixed() -> None:
    top = {name.partition("/")[0] for name in tracked()}
    allowed = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"}
    folders = {"lakecli", "tests", "completions", "man", "findings"}
    assert {name for name in top if not name.startswith(".")} <= allowed | folders


def test_nothing_is_unpickled_and_no_text_becomes_code() -> None:
    """Results of executors are: Spark pickles them itself, and their digests come through it."""
    found = []
    risky = {"pickle", "cloudpickle", "marshal", "shelve", "dill", "eval", "exec"}
    for path, node in nodes("lakecli", ast.Import, ast.ImportFrom, ast.Call):
        names: list[str | None] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names = [node.func.id]
        found += [f"{path}: {name}" for name in names if name in risky]
    # The second one unpacks what the driver itself packed, in a function that Spark ships.
    assert found == ["lakecli/engine/scratch.py: pickle", "lakecli/spark/sessions.py: pickle"]


@pytest.mark.parametrize(
    ("name", "makers"),
    [
        ("ClaimedValue|Change", ("repository/guard.py", "staging/area.py")),
        ("ClaimedCommit", ("repository/guard.py",)),
    ],
)
def test_only_the_guard_says_that_something_is_claimed(name: str, makers: Sequence[str]) -> None:
    """mypy refuses everything else, unless it is converted or cast."""
    found = set()
    for path, node in nodes("lakecli", ast.Call):
        assert isinstance(node, ast.Call)
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        called = node.func.attr if isinstance(node.func, ast.Attribute) else called
        target = ast.unparse(node.args[0]) if called == "cast" and node.args else called
        if re.search(rf"\b({name})\b", target):
            found.add(path.removeprefix("lakecli/"))
    assert makers[0] in found
    assert found <= set(makers)


CHECKING = {"fail", "ok", "raises", "run_machine_as_test", "run_state_machine_as_test", "warns"}
"""Functions whose call is a check: `ok` is of the command line that must succeed."""

CHECKING_BEGINNINGS = ("assert_", "check", "expect", "golden", "wait_for")

WITHOUT_ASSERTION: set[str] = set()
"""Tests that check without any of these, each with its reason in its docstring."""


def _checks(function: ast.AST, known: dict[str, list[ast.AST]], seen: frozenset[str]) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        if name in CHECKING or name.startswith(CHECKING_BEGINNINGS):
            return True
        if any(each.arg == "check" and ast.unparse(each.value) == "True" for each in node.keywords):
            return True  # subprocess.run(…, check=True)
        if name not in seen and any(
            _checks(found, known, seen | {name}) for found in known.get(name, ())
        ):
            return True
    return False


def _functions(tree: ast.AST) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def test_every_test_can_fail() -> None:
    """A test that asserts nothing, itself or in a helper beside it, cannot fail."""
    idle = []
    for path, tree in trees("tests").items():
        known: dict[str, list[ast.AST]] = {}
        for function in _functions(tree):
            known.setdefault(function.name, []).append(function)
        idle += [
            f"{path}::{function.name}"
            for function in _functions(tree)
            if function.name.startswith("test_")
            and not _checks(function, known, frozenset({function.name}))
        ]
    assert set(idle) == WITHOUT_ASSERTION


def test_no_assertion_is_suppressed() -> None:
    """What is asserted in ``with suppress(NotFound)`` passes where nothing was found."""
    allowed = {
        "tests/refs/test_expression_dates.py"  # "a moment, or a usage error" is what it asserts
    }
    found = []
    for path, node in nodes("tests", ast.With):
        assert isinstance(node, ast.With)
        suppresses = any("suppress(" in ast.unparse(item) for item in node.items)
        if suppresses and any(isinstance(each, ast.Assert) for each in ast.walk(node)):
            found.append(path)
    assert set(found) <= allowed


SKIPPING = {"skip", "skipif", "importorskip"}


def test_no_test_is_skipped_for_a_variable_of_the_environment() -> None:
    """CI must not go on in silence where something is missing."""
    for path, node in nodes("tests", ast.Call):
        assert isinstance(node, ast.Call)
        skips = isinstance(node.func, ast.Attribute) and node.func.attr in SKIPPING
        assert not (skips and "environ" in ast.unparse(node)), f"{path}:{node.lineno}"

"""Imports at run time, those inside functions included: import-linter's contracts see the rest."""

from __future__ import annotations

import ast
import sys
import tomllib
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).parents[1]


@cache
def modules() -> dict[str, Path]:
    """Return the modules of the package by name."""
    found = {}
    for path in (PROJECT / "lakecli").rglob("*.py"):
        parts = path.relative_to(PROJECT).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imports_of(path: Path, *, types: bool = False) -> Iterator[str]:
    """Yield the modules of the package that a module imports at run time, anywhere in its code.

    With `types` also those that it imports for types only.
    """
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not types:
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules())
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, f"{path}: a relative import"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if name in modules():
                    yield name
                elif node.module in modules():
                    yield node.module
        waiting += ast.iter_child_nodes(node)


@cache
def graph(*, types: bool = False) -> dict[str, set[str]]:
    return {name: set(imports_of(path, types=types)) - {name} for name, path in modules().items()}


def test_no_module_imports_itself_through_others() -> None:
    """Not even for types: a reader who goes down never comes back to where he was."""
    try:
        TopologicalSorter(graph(types=True)).prepare()
    except CycleError as error:
        raise AssertionError(" <- ".join(error.args[1])) from None


def contracts() -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the packages that have layers, and the depth of each of their members."""
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    for contract in settings["tool"]["importlinter"]["contracts"]:
        if contract["type"] == "layers":
            depths = {
                name: depth
                for depth, layer in enumerate(contract["layers"])
                for name in layer.replace("|", " ").replace(":", " ").split()
            }
            for container in contract["containers"]:
                yield container, depths


def test_imports_inside_functions_point_down_too() -> None:
    upwards = []
    for container, depths in contracts():
        size = container.count(".") + 1
        for name, imported in graph().items():
            for other in imported:
                here, there = (each.split(".")[size : size + 1] for each in (name, other))
                inside = all(each.startswith(f"{container}.") for each in (name, other))
                if inside and depths.get(here[0], -1) > depths.get(there[0], sys.maxsize):
                    upwards.append(f"{name} -> {other}")
    assert upwards == []


def test_an_import_inside_a_function_counts(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from lakecli.repository import repo\n"
        "else:\n    from lakecli.repository import tag\n"
        "def late():\n    if True:\n        from lakecli.base.model import Branch\n"
        "import lakecli.errors\n"
    )
    expected = {"lakecli.errors", "lakecli.base.model", "lakecli.repository.tag"}
    assert set(imports_of(file)) == expected
    assert set(imports_of(file, types=True)) == expected | {"lakecli.repository.repo"}


ALONE = {"log": 60, "reflog": 40, "rm": 71}
"""How many modules a verb may reach: who learns it has to know of no others.

Those imported inside functions count, those imported for types only do not.
"""


def reached(start: str) -> set[str]:
    """Return the modules that one imports, at first or at second hand.

    The package itself is left out: its functions open a lake, which needs most modules.
    """
    edges, found, waiting = graph(), {start}, [start]
    while waiting:
        more = edges[waiting.pop()] - found - {"lakecli"}
        found |= more
        waiting += more
    return found


@pytest.mark.parametrize("verb", ALONE)
def test_a_verb_that_reads_is_understood_alone(verb: str) -> None:
    """`rev_parse` and `show_commit` stand beside `log`."""
    found = reached(f"lakecli.repository.{verb}")
    assert len(found) <= ALONE[verb], sorted(found)


def test_opening_a_lake_reaches_the_stores() -> None:
    assert "lakecli.stores.registry" in reached("lakecli.opening")

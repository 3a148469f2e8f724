"""Errors of the library for Spark tell what to do in Python, not at the command line."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import lakecli.spark

COMMAND = re.compile(r"\blakecli [a-z]+|(?<![\w-])--?[a-z]")


def test_no_hint_names_a_command_or_a_flag() -> None:
    hints = []
    for path in sorted(Path(lakecli.spark.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "hint":
                hints += [(path.name, text) for text in texts(node.value)]
    assert len(hints) > 20
    assert [each for each in hints if COMMAND.search(each[1])] == []


def texts(node: ast.expr) -> list[str]:
    found = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
    return [each for each in found if isinstance(each, str)]

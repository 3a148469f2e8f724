"""Errors of bulk work tell what to do without the flags of the command line, which adds them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import lakecli.pipeline

FLAG = re.compile(r"(?<![\w-])--?[a-z]+")


def test_no_text_but_a_docstring_names_a_flag() -> None:
    found = []
    for path in sorted(Path(lakecli.pipeline.__file__).parent.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        statements = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
        texts = [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in statements
        ]
        found += [f"{path.name}: {text}" for text in texts if FLAG.search(text)]
    assert [each for each in found if not each.startswith("java.py")] == []

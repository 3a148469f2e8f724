"""Hints of the library name actions; the command line names the flags."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lakecli
from lakecli.cli.flags import PHRASES, with_flags

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(lakecli.__file__).parent
FLAG = re.compile(r"(?<!\S)--?[a-z]")


def text_of(node: ast.expr) -> str:
    """Return the text of an expression, with ``…`` in the place of what is inserted."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    if isinstance(node, ast.BinOp):
        return text_of(node.left) + text_of(node.right)
    if isinstance(node, ast.IfExp):
        return f"{text_of(node.body)}\n{text_of(node.orelse)}"
    return "…"


def texts() -> Iterator[tuple[str, str]]:
    """Yield each text of the library, and where it is."""
    for package in ("repository", "objectstore"):
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_bytes())):
                if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp):
                    yield text_of(node), f"{file.relative_to(ROOT)}:{node.lineno}"


def hints() -> Iterator[tuple[str, str]]:
    """Yield each hint of the library that is written where it is given, and where it is."""
    for package in ("repository", "objectstore"):
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_bytes())):
                if isinstance(node, ast.keyword) and node.arg == "hint":
                    yield text_of(node.value), f"{file.relative_to(ROOT)}:{node.value.lineno}"


def test_every_phrase_is_one_of_the_library() -> None:
    found = [text for text, _ in texts()]
    assert [phrase for phrase in PHRASES if not any(phrase in text for text in found)] == []


def test_hints_of_the_library_name_no_flags_except_in_a_command() -> None:
    found = list(hints())
    assert len(found) > 100
    named = [
        f"{where}: {text}"
        for text, where in found
        if FLAG.search(re.sub(r"\b(lakecli|rm|az|gcloud) .*", "", text))
    ]
    assert named == []


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_phrase_becomes_that_of_the_command_line(phrase: str) -> None:
    assert with_flags(f"see: {phrase} it") == f"see: {PHRASES[phrase]} it"

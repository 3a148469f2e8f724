"""Hints are made to be pasted into a shell, and name paths and tags that others chose."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.demo import Demo

DEMO = "lakefs://demo"
PATH = "orders/$(touch CANARY) `touch CANARY`; x"
TAG = "v1;`touch`&'touch'"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("branch", "show", f"{DEMO}/{TAG}"), f"{DEMO}/{TAG}"),
        (("fs", "stat", f"{DEMO}/main/{PATH}y"), f"{DEMO}/main/{PATH}"),
        (("fs", "stat", f"{DEMO}/main/$(touch CANARY);/y"), f"{DEMO}/main/$(touch CANARY);/"),
        (("fs", "stat", f"{DEMO}/v1;`touch`&'touc'/a"), f"{DEMO}/{TAG}"),
        (("pull", f"{DEMO}/{TAG}"), f"{DEMO}/{TAG}"),
    ],
    ids=lambda given: given[0] if isinstance(given, tuple) else "",
)
def test_a_hint_names_others_texts_as_one_word(
    demo: Demo, tmp_path: Path, words: tuple[str, ...], named: str
) -> None:
    demo.commit("first", {PATH: "data"})
    demo.cli.ok("tag", "create", f"{DEMO}/{TAG}", f"{DEMO}/main")
    failed = demo.cli(*words, "--json")
    hint = json.loads(failed.stderr.splitlines()[-1])["error"]["hint"]
    pasted = hint.removeprefix("did you mean ").removesuffix("?").rpartition(": ")[2]
    shown = subprocess.run(
        ["sh", "-c", f"printf '%s\\n' {pasted}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert named in shown.stdout.splitlines()
    assert not (tmp_path / "CANARY").exists()

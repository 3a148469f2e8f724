from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from lakecli.base.own_directory import OwnDirectory

_FORKED = """
import os, sys
from lakecli.base.own_directory import OwnDirectory

kept = OwnDirectory("kept-", sys.argv[1])
child = os.fork()
if not child:
    with kept:
        sys.exit()
os.waitpid(child, 0)
print(os.path.exists(kept.name))
"""


def test_an_own_directory_is_removed_at_the_end_of_its_block(tmp_path: Path) -> None:
    with OwnDirectory("kept-", tmp_path) as name:
        Path(name, "file").touch()
    assert not list(tmp_path.iterdir())


def test_a_forked_child_keeps_the_directory_and_the_parent_removes_it(tmp_path: Path) -> None:
    words = [sys.executable, "-c", _FORKED, str(tmp_path)]
    assert subprocess.run(words, capture_output=True, check=True, text=True).stdout == "True\n"
    assert not list(tmp_path.iterdir())


def test_no_module_has_a_directory_that_a_forked_child_removes() -> None:
    sources = Path(sys.modules[OwnDirectory.__module__].__file__ or "").parents[1].rglob("*.py")
    named = ("TemporaryDirectory(", "weakref.finalize(", "atexit.register(shutil")
    found = [path.name for path in sources if any(each in path.read_text() for each in named)]
    assert found == []

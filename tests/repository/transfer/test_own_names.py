"""Names that no transfer writes or reads."""

from __future__ import annotations

import time

import pytest

from lakecli.repository.transfer.ignore_patterns import is_own

OWN = (
    b".git",
    b".GIT",
    b".git/config",
    b"a/b/.Git/hooks/pre-commit",
    b".git.",
    b".git ",
    b".git. . /config",
    b"git~1",
    b"GIT~1/config",
    b".git::$INDEX_ALLOCATION/config",
    b".git:stream",
    b".git\\config",
    b"x\\.git\\config",
    ".g\u200cit/config".encode(),
    ".\u202egit".encode(),
    "\ufeff.git/config".encode(),
    ".git\u00ad".encode(),
    ".gi\ufe0ft/config".encode(),
    b".lakefs_ref.yaml",
    b"data/.LAKEFS_REF.YAML",
    ".la\u212aefs_ref.yaml".encode(),
    ".lakef\u017f_ref.yaml".encode(),
    b"LAKEFS~1.YAM",
    b".lakecli-incoming/x",
    b".lakecli-4-0.tmp",
    b".lakecli",
    b".DS_Store",
)
DATA = (
    b"git",
    b".gitignore",
    b".gitattributes",
    b".github/workflows/ci.yml",
    b"a.git",
    b"repository.git/config",
    b"git~",
    b"git~10",
    b"git~1x",
    b"..git",
    b". .git",
    b".lakefsignore",
    b".lakefs_ref.yaml.bak",
    b"lakecli",
    b"lakefs~1.txt",
    ".g\u0131t".encode(),
    b".git\xff",
    b"",
)


@pytest.mark.parametrize("name", OWN)
def test_names_that_a_file_system_takes_for_own_ones_are_own(name: bytes) -> None:
    assert is_own(name)
    assert is_own(b"above/" + name + b"/below")


@pytest.mark.parametrize("name", DATA)
def test_other_names_are_data(name: bytes) -> None:
    assert not is_own(name)
    assert not is_own(b"above/" + name + b"/below")


def test_long_paths_take_linear_time() -> None:
    begin = time.process_time()
    for text in (b".git" + b" ." * 500_000 + b"x", b"/.lakecli" * 100_000, b"\\" * 1_000_000):
        is_own(text)
    is_own((".git" + "\u200c" * 300_000 + "x").encode())
    assert time.process_time() - begin < 2

"""Directories of lakecli's own are private, whatever the umask says."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from lakecli.base.directories import make_private

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("umask")
def test_all_that_are_made_are_private(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_private(tmp_path / "a" / "b" / "c")
    make_private(tmp_path / "a" / "d")
    assert [mode(tmp_path / each) for each in ("a", "a/b", "a/b/c", "a/d")] == [0o700] * 4
    assert mode(tmp_path) == 0o755


def test_one_that_others_may_enter_is_closed(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for path in (tmp_path / "a", tmp_path / "a" / "b"):
        path.chmod(0o755)
    make_private(tmp_path / "a" / "b")
    assert mode(tmp_path / "a") == 0o755
    assert mode(tmp_path / "a" / "b") == 0o700


def test_something_else_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_private(tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        make_private(tmp_path / "file" / "below")

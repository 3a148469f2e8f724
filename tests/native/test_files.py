"""Reading and writing many small files: what one by one gives, or nothing."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.stores.local.files import closing
from lakecli.worktree.index import state_of
from tests.support.disk import open_below

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.native import Core


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    with closing(os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)) as descriptor:
        yield descriptor


def test_files_are_read_as_they_are(core: Core, directory: int, tmp_path: Path) -> None:
    contents = {b"empty": b"", b"one": b"\0", b"below/full": b"x" * 100, b"\xff": b"name"}
    (tmp_path / "below").mkdir()
    for name, data in contents.items():
        (tmp_path / os.fsdecode(name)).write_bytes(data)
        os.utime(tmp_path / os.fsdecode(name), ns=(0, len(data) * 10**9 - 1))
    found = core.read_files(directory, [*contents], 100)
    assert found == [(data, len(data) - 1) for data in contents.values()]
    assert core.read_files(directory, [], 100) == []


def test_what_is_no_small_regular_file_is_left(core: Core, directory: int, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 101)
    (tmp_path / "link").symlink_to("small")
    (tmp_path / "small").write_bytes(b"x")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    names: list[Any] = [
        b"large",
        b"link",
        b"directory",
        b"pipe",
        b"absent",
        b"",
        b"small\0",
        "small",
    ]
    assert core.read_files(directory, names, 100) == [None] * len(names)
    assert core.read_files(-1, [b"small"], 100) == [None]
    assert open_below(tmp_path) == [str(tmp_path)]


def test_new_files_are_written(core: Core, directory: int, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    contents = {b"empty": b"", b"below/full": b"x" * 100, b"\xff": b"name"}
    before = os.umask(0o027)
    try:
        states = core.write_files(directory, [*contents], [*contents.values()], [0, -5, 1 << 33])
    finally:
        os.umask(before)
    for at, (name, data) in enumerate(contents.items()):
        file = tmp_path / os.fsdecode(name)
        assert (file.read_bytes(), state_of(file.stat())) == (data, states[at])
        assert stat.S_IMODE(file.stat().st_mode) == 0o640
        assert file.stat().st_mtime == (0, -5, 1 << 33)[at]
    assert core.write_files(directory, [b"now"], [b"x"], None) == [True]
    assert (tmp_path / "now").read_bytes() == b"x"


def test_a_name_that_is_taken_stays(core: Core, directory: int, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    (tmp_path / "link").symlink_to("new")
    (tmp_path / "directory").mkdir()
    names: list[Any] = [b"file", b"link", b"directory", b"absent/x", b"", b"y\0", "z"]
    assert core.write_files(directory, names, [b"x"] * 7, None) == [None] * 7
    assert core.write_files(directory, [b"a", b"b"], [b"only"], None)[1] is None
    for seconds in ([1 << 63], [-1 << 90], [], ["1"], [None]):
        assert core.write_files(directory, [b"n"], [b"x"], seconds) == [None]  # type: ignore[arg-type]
    assert core.write_files(directory, [b"n"], ["text"], None) == [None]  # type: ignore[list-item]
    assert core.write_files(-1, [b"n"], [b"x"], None) == [None]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "directory", "file", "link"]
    assert (tmp_path / "file").read_bytes() == b"mine"
    assert open_below(tmp_path) == [str(tmp_path)]


def test_other_arguments_are_refused(core: Core, directory: int) -> None:
    with pytest.raises(TypeError):
        core.read_files(directory, (b"a",), 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        core.write_files(directory, [b"a"], (b"a",), None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        core.write_files(directory, [b"a"], [b"a"], (1,))  # type: ignore[arg-type]
    with pytest.raises((MemoryError, ValueError)):
        core.read_files(directory, [b"a"], -1)


def test_half_a_file_is_removed(core: Core, directory: int, tmp_path: Path) -> None:
    """As on a full disk: a limit on the size of a file ends the writing early."""
    resource = pytest.importorskip("resource")
    signal = pytest.importorskip("signal")
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        states = core.write_files(directory, [b"a", b"b"], [b"x" * 11, b"x" * 10], None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert [state is None for state in states] == [True, False]
    assert list(tmp_path.iterdir()) == [tmp_path / "b"]

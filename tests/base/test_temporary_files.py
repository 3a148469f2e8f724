from __future__ import annotations

import errno
import fcntl
import os
import re
import sqlite3
from pathlib import Path
from tempfile import gettempdir
from threading import Thread
from typing import TYPE_CHECKING

import pytest

import lakecli
from lakecli.base.temporary_files import (
    SqliteErrors,
    create_temporary,
    remove_leftovers,
    replacing,
    temporary_space,
)
from lakecli.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCES = sorted(Path(lakecli.__file__).parent.rglob("*.py"))


def test_a_file_is_replaced_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    with replacing(file) as opened:
        opened.write(b"new")
        assert file.read_text() == "old"
    assert file.read_text() == "new"
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    with pytest.raises(ZeroDivisionError), replacing(file) as opened:
        opened.write(b"new" * (1 // 0))
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left") as raised, replacing(tmp_path / "file"):
        pass
    assert raised.value.filename == str(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_nothing_that_exists_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.urandom", bytes)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    temporary = tmp_path / f".lakecli-{'0' * 16}.tmp"
    temporary.symlink_to(victim)
    with pytest.raises(FileExistsError), replacing(tmp_path / "file"):
        pass
    temporary.unlink()
    temporary.hardlink_to(victim)
    with pytest.raises(FileExistsError):
        create_temporary(tmp_path)
    assert victim.read_text() == "mine"
    assert temporary.exists()


LEFT = ".lakecli-0123456789abcdef.tmp"


@pytest.mark.parametrize("by_descriptor", [False, True])
def test_what_nobody_holds_is_removed(tmp_path: Path, *, by_descriptor: bool) -> None:
    held, descriptor = create_temporary(tmp_path)
    os.close(create_temporary(tmp_path)[1])  # as a killed process does
    kept = ["file", ".lakecli-0123.partial", ".lakecli-1-0.tmp", f"{LEFT}x"]
    for name in kept:
        (tmp_path / name).touch()
    directory = os.open(tmp_path, os.O_RDONLY)
    remove_leftovers(directory if by_descriptor else tmp_path)
    os.close(directory)
    assert {path.name for path in tmp_path.iterdir()} == {*kept, Path(held).name}
    os.close(descriptor)
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*kept}


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("file")])
def test_what_is_no_file_is_not_removed(tmp_path: Path, make: Callable[[Path], object]) -> None:
    (tmp_path / "file").touch()
    make(tmp_path / LEFT)
    remove_leftovers(tmp_path)
    assert os.path.lexists(tmp_path / LEFT)
    assert (tmp_path / "file").exists()


def test_a_missing_directory_has_no_leftovers(tmp_path: Path) -> None:
    remove_leftovers(tmp_path / "missing")
    assert not (tmp_path / "missing").exists()


def test_the_next_process_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    os.close(create_temporary(tmp_path)[1])
    with replacing(tmp_path / "file") as opened:
        opened.write(b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_whoever_removes_leftovers_meets_whoever_writes(tmp_path: Path) -> None:
    is_over: list[None] = []

    def remove() -> None:
        while not is_over:
            remove_leftovers(tmp_path)

    remover = Thread(target=remove)
    remover.start()
    try:
        for number in range(300):
            with replacing(tmp_path / "file", is_durable=False) as opened:
                opened.write(b"%d" % number)
            assert (tmp_path / "file").read_bytes() == b"%d" % number
    finally:
        is_over.append(None)
        remover.join()


def test_a_file_that_is_taken_for_a_leftover_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock
    taken: list[Path] = []

    def meet(descriptor: int, operation: int) -> None:
        """Remove the first file between its making and its locking."""
        if not taken:
            taken.extend(tmp_path.iterdir())
            taken[0].unlink()
        lock(descriptor, operation)

    monkeypatch.setattr("lakecli.base.temporary_files.fcntl.flock", meet)
    path, descriptor = create_temporary(tmp_path)
    os.close(descriptor)
    assert [*tmp_path.iterdir()] == [Path(path)]
    assert taken[0].name != Path(path).name


def test_files_are_written_where_nothing_can_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr("lakecli.base.temporary_files.fcntl.flock", refuse)
    with replacing(tmp_path / "file") as opened:
        remove_leftovers(tmp_path)
        opened.write(b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


def test_names_are_random(tmp_path: Path) -> None:
    directory = os.open(tmp_path, os.O_RDONLY)
    for _ in range(100):
        os.close(create_temporary(dir_fd=directory)[1])
    os.close(directory)
    names = [path.name for path in tmp_path.iterdir()]
    assert len(names) == 100
    assert all(re.fullmatch(r"\.lakecli-[0-9a-f]{16}\.tmp", name) for name in names)


def test_no_other_module_names_a_temporary_file() -> None:
    """A name with the ID of the process can be foretold, and O_TRUNC opens what is there."""
    named = re.compile(r"O_TRUNC|\.tmp\b|getpid\(\)\}|%d[^\n]*getpid")
    allowed = {"temporary_files.py", "executors.py", "spark_runner.py", "store_errors.py"}
    found = {path.name for path in SOURCES if named.search(path.read_text())}
    assert found <= allowed


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_of_temporary_files_is_named(number: int) -> None:
    with pytest.raises(Unreachable, match=re.escape(gettempdir())) as raised, temporary_space():
        raise OSError(number, "full")
    assert "TMPDIR" in str(raised.value.hint)


def test_other_errors_of_temporary_files_stay() -> None:
    with pytest.raises(OSError, match="of another kind"), temporary_space():
        raise OSError(errno.EIO, "of another kind")


def test_errors_of_sqlite_name_the_database_and_the_variable() -> None:
    named = "cannot use /d/rows or its temporary files: full"
    with pytest.raises(Unreachable, match=named) as raised, SqliteErrors("/d/rows"):
        raise sqlite3.OperationalError("full")
    assert "TMPDIR" in str(raised.value.hint)
    with pytest.raises(sqlite3.ProgrammingError), SqliteErrors():
        raise sqlite3.ProgrammingError("a fault of the program")

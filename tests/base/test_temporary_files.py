from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from tempfile import gettempdir

import pytest

import lakecli
from lakecli.base.temporary_files import create_temporary, replacing, temporary_space
from lakecli.errors import Unreachable

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

"""Writing files with and without the page cache."""

from __future__ import annotations

import errno
import mmap
import os
from typing import TYPE_CHECKING

import pytest

from lakecli.objectstore import spool as module
from lakecli.objectstore.spool import DIRECT_SIZE, Spool

if TYPE_CHECKING:
    from pathlib import Path


def pages(size: int) -> memoryview:
    """Whole pages of memory, filled."""
    memory = memoryview(mmap.mmap(-1, size))
    memory[:] = (bytes(range(251)) * (size // 251 + 1))[:size]
    return memory


def opened(path: Path) -> Spool:
    return Spool(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))


WRITES = [
    [DIRECT_SIZE, DIRECT_SIZE, 17],
    [DIRECT_SIZE, 17, DIRECT_SIZE, 4096],
    [1, DIRECT_SIZE],
    [0, 5],
    [DIRECT_SIZE + 1, 2 * DIRECT_SIZE],
]


@pytest.mark.parametrize("sizes", WRITES)
@pytest.mark.parametrize("is_aligned", [True, False])
def test_written_bytes_are_in_the_file(
    tmp_path: Path, sizes: list[int], *, is_aligned: bool
) -> None:
    expected = b""
    with opened(tmp_path / "file") as file:
        for size in sizes:
            data = pages(size + 4096)[:size] if is_aligned else bytes(pages(size + 4096)[:size])
            assert file.write(data) == size
            expected += bytes(data)
    assert (tmp_path / "file").read_bytes() == expected
    assert file.closed


@pytest.mark.parametrize("refuses", ["flag", "write"])
def test_a_disk_without_direct_writes_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: str
) -> None:
    import fcntl

    real, real_write, direct = fcntl.fcntl, os.write, getattr(os, "O_DIRECT", 0)
    attempts: list[str] = []

    def refusing_flag(descriptor: int, command: int, flags: int = 0) -> int:
        if command == fcntl.F_SETFL and flags & direct:
            attempts.append("flag")
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(descriptor, command, flags)

    def refusing_write(descriptor: int, data: memoryview) -> int:
        if real(descriptor, fcntl.F_GETFL) & direct:
            attempts.append("write")
            raise OSError(errno.EINVAL, "Invalid argument")
        return real_write(descriptor, data)

    if refuses == "flag":
        monkeypatch.setattr(fcntl, "fcntl", refusing_flag)
    else:
        monkeypatch.setattr(os, "write", refusing_write)
    with opened(tmp_path / "file") as file:
        for _ in range(3):
            file.write(pages(DIRECT_SIZE))
    assert (tmp_path / "file").read_bytes() == bytes(pages(DIRECT_SIZE)) * 3
    assert attempts == ([refuses] if direct else [])


def test_short_writes_are_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:1_000_000]))
    with opened(tmp_path / "file") as file:
        file.write(pages(DIRECT_SIZE))
        file.write(b"end")
    assert (tmp_path / "file").read_bytes() == bytes(pages(DIRECT_SIZE)) + b"end"


@pytest.mark.parametrize("direct", [module._DIRECT, 0])
def test_a_full_disk_is_reported(monkeypatch: pytest.MonkeyPatch, direct: int) -> None:
    monkeypatch.setattr(module, "_DIRECT", direct)
    with Spool(os.open("/dev/full", os.O_WRONLY)) as file:
        with pytest.raises(OSError, match="No space left on device"):
            file.write(pages(DIRECT_SIZE))
        with pytest.raises(OSError, match="No space left on device"):
            file.write(b"little")

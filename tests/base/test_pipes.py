"""What paths of pipes and of open descriptors are, and that they are used from where they are."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from lakecli.base.pipes import descriptor_of, is_pipe, is_stdout, open_input, open_pipe

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags)
    os.set_inheritable(descriptor, True)  # noqa: FBT003 - as what a shell opens
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("path", "descriptor"),
    [
        ("/dev/stdin", 0),
        ("/dev/stdout", 1),
        ("/dev/fd/63", 63),
        ("/proc/self/fd/7", 7),
        ("/proc/thread-self/fd/7", 7),
        ("/proc/{}/fd/7", 7),  # of this process
        ("/proc/1/fd/7", None),
        ("/dev/null", None),
        ("/dev/fd", None),
        ("/proc/self/fd/x", None),
        ("missing", None),
    ],
)
def test_a_path_of_a_descriptor_is_known(path: str, descriptor: int | None) -> None:
    assert descriptor_of(path.format(os.getpid())) == descriptor


def test_links_to_a_descriptor_are_known(tmp_path: Path) -> None:
    (tmp_path / "first").symlink_to("/dev/stdout")
    (tmp_path / "second").symlink_to("first")
    (tmp_path / "loop").symlink_to("loop")
    assert descriptor_of(tmp_path / "second") == 1
    assert descriptor_of(tmp_path / "loop") is None
    assert not is_pipe(tmp_path / "loop")


def test_a_file_behind_a_descriptor_is_written_at_its_end(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"before ")
    with opened(file, os.O_WRONLY | os.O_APPEND) as descriptor:
        path = f"/dev/fd/{descriptor}"
        assert is_pipe(path)
        assert not is_pipe(file)
        with open_pipe(path) as pipe:
            pipe.write(b"of us ")
        os.write(descriptor, b"after")
    assert file.read_bytes() == b"before of us after"


def test_a_file_behind_a_descriptor_is_read_from_where_it_is(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"read rest")
    with opened(file, os.O_RDONLY) as descriptor:
        os.read(descriptor, 5)
        with open_input(f"/dev/fd/{descriptor}") as source:
            assert source.read() == b"rest"


def test_a_named_pipe_waits_for_who_writes_to_it(tmp_path: Path) -> None:
    os.mkfifo(fifo := tmp_path / "fifo")
    assert is_pipe(fifo)
    writer = Thread(target=lambda: fifo.write_bytes(b"written"))
    writer.start()
    with open_input(fifo) as source:
        assert source.read() == b"written"
    writer.join()


def test_a_closed_descriptor_does_not_exist(tmp_path: Path) -> None:
    """Nor does one that the process opened itself."""
    own = os.open(tmp_path, os.O_RDONLY)
    for path in ("/dev/fd/9999", f"/dev/fd/{10**30}", f"/dev/fd/{own}"):
        assert not is_stdout(path)
        for call in (open_input, open_pipe):
            with pytest.raises(FileNotFoundError, match="/dev/fd/"):
                call(path)
    os.close(own)


def test_a_pipe_that_does_not_wait_is_read_to_its_end() -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_inheritable(reader, True)  # noqa: FBT003 - as what a shell opens
    os.write(writer, b"one")
    with open_input(f"/dev/fd/{reader}") as file:
        assert file.read(3) == b"one"

        def write() -> None:
            time.sleep(0.1)
            os.write(writer, b"two")
            os.close(writer)

        thread = Thread(target=write)
        thread.start()
        assert file.read() == b"two"
    thread.join()
    os.close(reader)

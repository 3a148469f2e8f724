"""Writing files below a directory, and never outside."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.identity import blake3_of
from lakecli.base.temporary_files import create_temporary
from lakecli.errors import IntegrityError
from lakecli.repository.transfer import destination as module
from lakecli.repository.transfer.destination import (
    Destination,
    NoRoom,
    ObstructedFile,
    ReadOnlyDisk,
    UnsafeName,
    UnwritableFile,
)
from lakecli.repository.transfer.plan import PathAction

if TYPE_CHECKING:
    from collections.abc import Iterator


def tree(root: Path) -> dict[str, bytes]:
    """Return all files below a directory."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory without write permission."""
    path = tmp_path / "outside"
    path.mkdir()
    (path / "precious").write_bytes(b"mine")
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def write(root: Path, name: bytes, data: bytes = b"data", mtime: int | None = None) -> int:
    with Destination(os.fsencode(root)) as destination:
        return destination.write(name, [data], mtime=mtime)


def collect(destination: Destination, name: bytes, data: bytes) -> None:
    """Write a file as a large one is written."""
    with destination.partial(name, b"tag", size=len(data)) as file:
        file.write(data, 0)
        file.finish(mtime=0)


def test_files_are_written_with_their_times(root: Path) -> None:
    assert write(root, b"a/b/c", b"12345", 1_600_000_000) == 5
    assert write(root, b"a/empty", b"", -1) == 0
    assert write(root, b"\xff\n", b"odd") == 3
    assert (root / "a/b/c").stat().st_mtime == 1_600_000_000
    assert (root / "a/empty").stat().st_mtime == -1
    assert tree(root) == {"a/b/c": b"12345", "a/empty": b"", os.fsdecode(b"\xff\n"): b"odd"}


def test_a_time_that_the_disk_cannot_keep_is_ignored(root: Path) -> None:
    assert write(root, b"a", mtime=10**30) == 4
    assert tree(root) == {"a": b"data"}


@pytest.mark.parametrize(
    "name",
    [b"", b".", b"..", b"/a", b"a/", b"a//b", b"../x", b"a/../../x", b"a/./b", b"a/..", b"a\0b"],
)
def test_a_name_that_cannot_be_a_file_is_refused(root: Path, name: bytes) -> None:
    with pytest.raises(UnsafeName):
        write(root, name)
    assert not root.exists() or not tree(root)


@given(
    st.lists(
        st.sampled_from([b"a", b"b", b".", b"..", b"", b"link", b"up", b"...", b"c d", b"x\0y"]),
        min_size=1,
        max_size=5,
    )
)
def test_nothing_is_ever_written_outside(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes]
) -> None:
    base = tmp_path_factory.mktemp("case")
    root, outside = base / "root", base / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "link").symlink_to(outside)
    (root / "up").symlink_to("..")
    try:
        write(root, b"/".join(parts))
    except UnsafeName:
        pass
    else:
        assert not {b"", b".", b".."} & set(parts)
        assert len(parts) == 1 or parts[0] not in (b"link", b"up")
    assert tree(outside) == {}
    assert {path.name for path in base.iterdir()} == {"root", "outside"}


def test_a_symbolic_link_is_replaced_and_not_followed(root: Path, outside: Path) -> None:
    root.mkdir()
    (root / "file").symlink_to(outside / "precious")
    write(root, b"file")
    assert not (root / "file").is_symlink()
    assert tree(outside) == {"precious": b"mine"}


def test_a_symbolic_link_as_a_directory_is_refused(root: Path, outside: Path) -> None:
    root.mkdir()
    (root / "dir").symlink_to(outside)
    with pytest.raises(UnsafeName, match="'dir' is a file or a symbolic link"):
        write(root, b"dir/x")
    assert tree(outside) == {"precious": b"mine"}


def test_the_root_may_be_a_symbolic_link(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "link").symlink_to(outside)
    write(tmp_path / "link", b"x")
    assert tree(outside) == {"precious": b"mine", "x": b"data"}


def test_a_file_or_directory_in_the_way_is_refused(root: Path) -> None:
    write(root, b"a/b")
    with pytest.raises(UnsafeName):
        write(root, b"a/b/c")
    with pytest.raises(UnsafeName):
        write(root, b"a")
    with pytest.raises(UnsafeName, match="not a directory"):
        Destination(os.fsencode(root / "a" / "b"))
    with pytest.raises(UnsafeName, match="name too long"):
        write(root, b"x" * 256)
    assert tree(root) == {"a/b": b"data"}


def test_an_existing_file_stays_until_the_new_one_is_complete(root: Path) -> None:
    write(root, b"file", b"old")

    def pieces() -> Iterator[bytes]:
        yield b"new, first half"
        assert (root / "file").read_bytes() == b"old"
        raise IntegrityError("damaged")

    with Destination(os.fsencode(root)) as destination, pytest.raises(IntegrityError):
        destination.write(b"file", pieces())
    assert tree(root) == {"file": b"old"}


def _gone(_: bytes) -> bytes:
    raise IntegrityError("gone")


def test_a_source_that_fails_creates_nothing(root: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield from map(_gone, [b""])

    with Destination(os.fsencode(root)) as destination, pytest.raises(IntegrityError):
        destination.write(b"a/b/file", pieces())
    assert not root.exists()


def test_an_abandoned_temporary_file_is_no_obstacle(root: Path) -> None:
    write(root, b"first")
    (root / ".lakecli-0123456789abcdef.tmp").write_bytes(b"of a killed process")
    write(root, b"second")
    assert (root / "second").read_bytes() == b"data"


def test_directories_are_made(root: Path) -> None:
    with Destination(os.fsencode(root)) as destination:
        destination.make_directory(b"a/b")
        destination.make_directory(b"a/b")
        assert (root / "a/b").is_dir()
        with pytest.raises(UnsafeName):
            destination.make_directory(b"../x")


def test_files_are_written_by_many_threads(root: Path) -> None:
    with Destination(os.fsencode(root)) as destination:

        def run(first: int) -> None:
            for number in range(first, 200, 4):
                destination.write(b"%d/%d" % (number % 3, number), [b"%d" % number] * 2)

        threads = [threading.Thread(target=run, args=(first,)) for first in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert tree(root) == {
        f"{number % 3}/{number}": str(number).encode() * 2 for number in range(200)
    }


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("EACCES", UnwritableFile),
        ("EROFS", ReadOnlyDisk),
        *((code, NoRoom) for code in ("ENOSPC", "EDQUOT", "EMFILE", "ENFILE", "EIO")),
    ],
)
def test_a_disk_error_leaves_no_file(
    root: Path, monkeypatch: pytest.MonkeyPatch, code: str, error: type[Exception]
) -> None:
    import errno

    def fail(*_: object) -> None:
        number = getattr(errno, code)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(module.Partial, "write", fail)
    with pytest.raises(error, match="root/file"):
        write(root, b"file")
    assert tree(root) == {}


def test_what_a_killed_download_left_is_removed(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "below", tmp_path / "other"):
        directory.mkdir(exist_ok=True)
        os.close(create_temporary(directory)[1])
    held, descriptor = create_temporary(tmp_path / "below")
    with Destination(os.fsencode(tmp_path)) as destination:
        destination.write(b"below/a", [b"1"])
        assert sorted((tmp_path / "below").iterdir()) == sorted([Path(held), tmp_path / "below/a"])
        os.close(descriptor)
        destination.write(b"below/b", [b"2"])
        assert Path(held).exists()  # it looks into each directory once
        destination.write(b"c", [b"3"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["below", "c", "other"]
    assert len(list((tmp_path / "other").iterdir())) == 1  # nothing was written there


@pytest.fixture
def folding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the disk find a file by its name in any case, and in any form of its letters."""

    def key(name: bytes) -> str:
        return normalize("NFD", os.fsdecode(name)).casefold()

    def found(path: Any, dir_fd: int | None) -> Any:
        if not isinstance(path, bytes):
            return path
        above, slash, name = path.rpartition(b"/")
        above = found(above, dir_fd) if above else above
        with suppress(OSError):
            place: Any = above + slash if above or slash else dir_fd
            with os.scandir(place) as listing:
                names = [os.fsencode(each.name) for each in listing]
            return above + slash + next(each for each in names if key(each) == key(name))
        return above + slash + name

    def patched(call: Any) -> Any:
        def changed(path: Any, *given: Any, dir_fd: int | None = None, **others: Any) -> Any:
            with suppress(StopIteration):
                path = found(path, dir_fd)
            return call(path, *given, dir_fd=dir_fd, **others)

        return changed

    replace = os.replace

    def replaced(source: Any, name: bytes, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        with suppress(StopIteration):
            name = found(name, dst_dir_fd)
        replace(source, name, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    for each in ("open", "stat", "mkdir"):
        monkeypatch.setattr(os, each, patched(getattr(os, each)))
    monkeypatch.setattr(os, "replace", replaced)


NAMES = [
    ("Data/A.csv", "Data/a.csv"),
    ("Data/A.csv", "data/A.csv"),
    ("A", "a"),
    ("é", "e\u0301"),
    ("É", "é"),
    ("d/é/x", "d/e\u0301/x"),
]


@pytest.mark.usefixtures("folding")
@pytest.mark.parametrize(("first", "second"), NAMES)
def test_a_name_that_the_disk_takes_for_another_one_is_refused(
    root: Path, first: str, second: str
) -> None:
    write(root, first.encode(), b"first")
    write(root, first.encode(), b"the first")  # itself is no other
    for data in (b"second", b"the first"):
        with pytest.raises(ObstructedFile, match="but for upper and lower case"):
            write(root, second.encode(), data)
        with Destination(os.fsencode(root)) as destination:
            with pytest.raises(ObstructedFile):
                destination.state_of(second.encode(), size=len(data), digest=blake3_of(data).hex())
            with pytest.raises(ObstructedFile):
                collect(destination, second.encode(), data)
            state = destination.state_of(
                first.encode(), size=9, digest=blake3_of(b"the first").hex()
            )
            assert state is PathAction.UNCHANGED
    assert {name: data for name, data in tree(root).items() if "/.lakecli" not in f"/{name}"} == {
        first: b"the first"
    }


@pytest.mark.parametrize(("first", "second"), NAMES)
def test_other_disks_have_both(root: Path, first: str, second: str) -> None:
    for name in (first, second):
        write(root, name.encode(), b"data")
        write(root, name.encode(), b"again")
    assert tree(root) == dict.fromkeys((first, second), b"again")


def test_an_empty_directory_gives_way_to_a_file(root: Path) -> None:
    (root / "a/b/c").mkdir(parents=True)
    (root / "large/x").mkdir(parents=True)
    (root / "full/x").mkdir(parents=True)
    (root / "full/x/mine").write_bytes(b"mine")
    assert write(root, b"a") == 4
    with Destination(os.fsencode(root)) as destination:
        collect(destination, b"large", b"data")
    with pytest.raises(ObstructedFile):
        write(root, b"full")
    assert tree(root) == {"a": b"data", "large": b"data", "full/x/mine": b"mine"}

"""The ``lakefs://`` file system: reading any ref, writing to a branch, all or nothing."""

from __future__ import annotations

import errno
import io
import multiprocessing
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import fsspec
import pytest
from blake3 import blake3
from fsspec.caching import caches

import lakecli
from lakecli.base.identity import blake3_of
from lakecli.base.layout import data_key
from lakecli.base.model import Entry
from lakecli.cli.context import system_now
from lakecli.committed.values import encode_entry
from lakecli.errors import ErrorKind, LakeWarning
from lakecli.filesystem import LakeFileSystem, lakes
from lakecli.filesystem.files import WHOLE
from lakecli.filesystem.paths import LakeFileError
from lakecli.repository import branch, tag
from lakecli.repository.handle.lake import LocalRepository
from lakecli.repository.reading.addresses import remember
from lakecli.repository.staged.stager import Stager, stage_entry
from lakecli.repository.upload import UploadOptions, upload_stream
from tests.support.lakes import unclaimed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


MAIN = "lakefs://demo/main"


def with_repository(home: str | None = None) -> Any:
    return lakes.repository(lakes.home_of(home), "demo")


@pytest.fixture
def history(fs: LakeFileSystem) -> list[str]:
    """Three commits of ``a``, one of ``dir/b``, and ``c`` that is not committed; their IDs."""
    ids: list[str] = []
    for number in (1, 2, 3):
        fs.pipe_file(f"{MAIN}/a", b"version %d" % number)
        if number == 2:
            fs.pipe_file(f"{MAIN}/dir/b", b"b")
        ids.append(fs.commit(MAIN, f"number {number}").id)
    fs.pipe_file(f"{MAIN}/c", b"not committed")
    return ids


def test_the_protocol_finds_the_file_system(fs: LakeFileSystem) -> None:
    assert isinstance(fsspec.filesystem("lakefs"), LakeFileSystem)
    assert fsspec.filesystem("lakefs") is fsspec.filesystem("lakefs")
    fs.pipe_file(f"{MAIN}/x/y", b"1")
    opened, path = fsspec.url_to_fs(f"{MAIN}/x/y")
    assert isinstance(opened, LakeFileSystem)
    assert path == "demo/main/x/y"
    with fsspec.open(f"{MAIN}/x/y") as file:
        assert file.read() == b"1"
    assert [file.full_name for file in fsspec.open_files(f"{MAIN}/x/*")] == [f"{MAIN}/x/y"]


def test_without_fsspec_the_error_names_the_package() -> None:
    code = "import sys; sys.modules['fsspec'] = None; import lakecli.filesystem"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install '.[fsspec]'" in done.stderr


def test_every_ref_reads(fs: LakeFileSystem, history: list[str]) -> None:
    with with_repository() as repository:
        tag.create(repository, "v1", "main~1")
        branch.create(repository, "old", source="main~2")
    contents = {
        "main": b"version 3",
        "main@": b"version 3",
        "main~1": b"version 2",
        "v1": b"version 2",
        "old": b"version 1",
        history[0]: b"version 1",
        history[0][:12]: b"version 1",
        "main@{1}": b"version 2",
        "main@{now}": b"version 3",
        f"main@{{{system_now():%Y-%m-%d %H:%M:%S}+00:00}}": b"version 3",
        "main@{now}~2": b"version 1",
    }
    for ref, data in contents.items():
        assert fs.cat_file(f"lakefs://demo/{ref}/a") == data, ref
        assert fs.ls(f"lakefs://demo/{ref}", detail=False)[0] == f"demo/{ref}/a"
    assert fs.exists(f"{MAIN}/c")
    assert not fs.exists("lakefs://demo/main@/c")


def test_listing_and_describing(fs: LakeFileSystem, history: list[str]) -> None:
    assert fs.ls("lakefs://", detail=False) == ["demo"]
    assert fs.ls("lakefs://demo/", detail=False) == ["demo/main"]
    assert fs.ls(MAIN, detail=False) == ["demo/main/a", "demo/main/c", "demo/main/dir"]
    assert fs.ls(f"{MAIN}/a", detail=False) == ["demo/main/a"]
    assert fs.find(MAIN) == ["demo/main/a", "demo/main/c", "demo/main/dir/b"]
    assert list(fs.find(MAIN, withdirs=True, detail=True)) == [
        "demo/main",
        "demo/main/a",
        "demo/main/c",
        "demo/main/dir",
        "demo/main/dir/b",
    ]
    assert fs.find(MAIN, maxdepth=1) == ["demo/main/a", "demo/main/c"]
    assert fs.find(f"{MAIN}/dir") == fs.find(f"{MAIN}/dir/b") == ["demo/main/dir/b"]
    assert fs.find(f"{MAIN}/none") == []
    assert fs.glob(f"{MAIN}/[ab]") == ["demo/main/a"]
    assert fs.glob(f"{MAIN}/**/b") == ["demo/main/dir/b"]
    assert fs.glob("lakefs://demo/*/a") == ["demo/main/a"]
    assert next(iter(fs.walk(MAIN))) == ("demo/main", ["dir"], ["a", "c"])
    assert fs.du(MAIN) == 9 + 13 + 1
    info = fs.info(f"{MAIN}/a")
    assert info["type"] == "file"
    assert info["size"] == fs.size(f"{MAIN}/a") == 9
    assert info["checksum"] == fs.ukey(f"{MAIN}/a") == blake3(b"version 3").hexdigest()
    assert info["physical_address"].endswith(info["checksum"][2:])
    assert info["mtime"] == fs.modified(f"{MAIN}/a").timestamp()
    assert fs.created(f"{MAIN}/a").tzinfo is UTC
    assert fs.checksum(f"{MAIN}/a") != fs.checksum("lakefs://demo/main~1/a")
    for directory in ("lakefs://", "lakefs://demo", MAIN, f"{MAIN}/dir", f"{MAIN}/dir/"):
        assert fs.isdir(directory), directory
        assert not fs.isfile(directory), directory
    assert history


@pytest.mark.parametrize(
    "path",
    [
        "lakefs://none",
        "lakefs://none/main/a",
        "lakefs://demo/none/a",
        f"{MAIN}/none",
        f"{MAIN}/a/b",
        "lakefs://demo/main~9/a",
        "lakefs://demo/main@{2001-01-01}/a",
    ],
)
def test_missing_paths(fs: LakeFileSystem, history: list[str], path: str) -> None:
    assert not fs.exists(path)
    for look in (fs.info, fs.ls, fs.cat_file, fs.open, fs.ukey, fs.rm):
        with pytest.raises(FileNotFoundError) as caught:
            look(path)
        assert caught.value.errno == errno.ENOENT
    assert fs.find(path) == fs.glob(path) == []
    assert history


@pytest.mark.parametrize(
    "path", ["lakefs://X/main/a", "lakefs://demo/main~x/a", "lakefs://demo/main@{soon}/a"]
)
def test_malformed_paths(fs: LakeFileSystem, path: str) -> None:
    assert not fs.exists(path)
    with pytest.raises(ValueError, match=r"illegal|malformed|not a time"):
        fs.info(path)


def test_an_object_may_have_paths_below_it(fs: LakeFileSystem) -> None:
    fs.pipe({f"{MAIN}/a": b"1", f"{MAIN}/a/b": b"2", f"{MAIN}/a.b": b"3"})
    assert fs.isfile(f"{MAIN}/a")
    assert fs.ls(f"{MAIN}/a", detail=False) == ["demo/main/a/b"]
    fs.rm(f"{MAIN}/a")
    assert fs.isdir(f"{MAIN}/a")
    with pytest.raises(IsADirectoryError):
        fs.rm(f"{MAIN}/a")
    with pytest.raises(IsADirectoryError):
        fs.cat_file(f"{MAIN}/a")
    assert fs.find(MAIN) == ["demo/main/a.b", "demo/main/a/b"]


def test_paths_of_any_bytes(fs: LakeFileSystem) -> None:
    names = ["ü b?%20#", os.fsdecode(b"not \xff utf-8"), "a//b", "@{x}", "..", " "]
    for name in names:
        fs.pipe_file(f"{MAIN}/{name}", name.encode("utf-8", "surrogateescape"))
    assert {path.removeprefix("demo/main/") for path in fs.find(MAIN)} == set(names)
    for name in names:
        assert fs.cat_file(f"{MAIN}/{name}") == name.encode("utf-8", "surrogateescape")


def test_parts_of_files_are_read(fs: LakeFileSystem) -> None:
    data = bytes(range(256)) * 100
    path = f"{MAIN}/data"
    fs.pipe_file(path, data)
    for start, end in [
        (0, 5),
        (5, None),
        (None, 7),
        (-9, None),
        (-9, -2),
        (3, 3),
        (9, 2),
        (0, 10**9),
    ]:
        assert fs.cat_file(path, start, end) == data[start:end], (start, end)
    starts, ends = list(range(0, 25_000, 997)), list(range(10, 25_010, 997))
    found = fs.cat_ranges([path] * len(starts), starts, ends)
    assert found == [data[start:end] for start, end in zip(starts, ends, strict=True)]
    (error, part) = fs.cat_ranges([f"{MAIN}/none", path], 0, 4)
    assert isinstance(error, FileNotFoundError)
    assert part == data[:4]
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges([f"{MAIN}/none", path], 0, 4, on_error="raise")
    with fs.open(path, block_size=1000) as file:
        file.seek(-10, 2)
        assert file.read() == data[-10:]
        file.seek(300)
        assert file.read(1500) == data[300:1800]
    with fs.open(path, "rb") as file, io.BufferedReader(file) as buffered:
        assert buffered.read() == data


def test_an_open_file_does_not_change_with_its_branch(fs: LakeFileSystem) -> None:
    path = f"{MAIN}/data"
    fs.pipe_file(path, b"before " * 1000)
    with fs.open(path, block_size=10) as file:
        assert file.read(6) == b"before"
        fs.pipe_file(path, b"after")
        copied = pickle.loads(pickle.dumps(file))
        assert file.read(7) == copied.read(7) == b" before"
        fs.rm(path)
        assert file.read(7) == b" before"


@pytest.mark.parametrize("size", [0, 1, WHOLE, WHOLE + 1, 3 * WHOLE + 7])
def test_written_files_can_be_read(fs: LakeFileSystem, size: int, tmp_path: Path) -> None:
    data = os.urandom(size)
    path = f"{MAIN}/data.csv"
    with fs.open(path, "wb", metadata={"k": "v"}) as file:
        for start in range(0, size, 100_000):
            assert file.write(data[start : start + 100_000]) == len(data[start : start + 100_000])
        assert file.tell() == size
        assert not fs.exists(path)
    assert fs.cat_file(path) == data
    info = fs.info(path)
    assert (info["content_type"], info["metadata"]) == ("text/csv", {"k": "v"})
    fs.get_file(path, str(tmp_path / "there" / "data"))
    assert (tmp_path / "there" / "data").read_bytes() == data
    fs.put_file(str(tmp_path / "there" / "data"), f"{MAIN}/again")
    assert fs.ukey(f"{MAIN}/again") == blake3(data).hexdigest()


def test_text(fs: LakeFileSystem) -> None:
    with fs.open(f"{MAIN}/t", "w", encoding="utf-8") as file:
        file.write("zwölf\nBoxkämpfer\n")
    with fs.open(f"{MAIN}/t", "r", encoding="utf-8") as file:
        assert list(file) == ["zwölf\n", "Boxkämpfer\n"]
    with fs.open(f"{MAIN}/t.gz", "wt", compression="infer") as file:
        file.write("packed")
    with fs.open(f"{MAIN}/t.gz", "rt", compression="infer") as file:
        assert file.read() == "packed"


def test_an_error_discards_the_file(fs: LakeFileSystem) -> None:
    def write_half(file: Any, data: bytes | str) -> None:
        with file:
            file.write(data)
            raise KeyError

    for mode, data in (("wb", b"half of it"), ("w", "half of it")):
        for compression in (None, "gzip"):
            file = fs.open(f"{MAIN}/half", mode, compression=compression)
            with pytest.raises(KeyError):
                write_half(file, data)
            assert file.closed
            assert not fs.exists(f"{MAIN}/half")


def test_removing_a_directory_removes_what_only_mkdir_made_below_it(fs: LakeFileSystem) -> None:
    for name in ("d/empty/deep", "de/kept"):
        fs.mkdir(f"{MAIN}/{name}")
    fs.pipe_file(f"{MAIN}/d/file", b"")
    fs.rm(f"{MAIN}/d", recursive=True)
    assert not any(fs.exists(f"{MAIN}/{name}") for name in ("d", "d/empty", "d/empty/deep"))
    assert fs.isdir(f"{MAIN}/de/kept")


@pytest.mark.parametrize(("mode", "compression"), [("wb", None), ("w", None), ("wb", "gzip")])
def test_a_file_is_discarded_if_some_of_its_data_was_not_written(
    fs: LakeFileSystem, monkeypatch: pytest.MonkeyPatch, mode: str, compression: str | None
) -> None:
    fs.pipe_file(f"{MAIN}/x", b"before")
    full = OSError(errno.ENOSPC, "no space")
    monkeypatch.setattr("tempfile.NamedTemporaryFile", Mock(side_effect=full))
    monkeypatch.setattr("lakecli.filesystem.files.WHOLE", 10)  # the header of gzip fits

    def write(file: Any) -> None:
        for data in (b"first", b"second"):
            file.write(data if mode == "wb" else data.decode())

    file = fs.open(f"{MAIN}/x", mode, compression=compression)
    with pytest.raises(OSError, match="no space left") as raised:  # noqa: PT012 - either of the two
        write(file)
        file.close()
    assert raised.value.errno == errno.ENOSPC
    if not file.closed:  # a program that goes on after an error of `write` gets it once more
        with pytest.raises(OSError, match=r"a write failed: .*no space left") as raised:
            file.close()
        assert raised.value.errno == errno.ENOSPC
    with (
        pytest.raises(OSError, match="no space left"),
        fs.open(f"{MAIN}/x", mode, compression=compression) as again,
    ):
        write(again)
    assert fs.cat_file(f"{MAIN}/x") == b"before"


@pytest.mark.parametrize("options", [{"encoding": "none"}, {"newline": "none"}])
def test_a_file_that_cannot_be_opened_as_text_stays_as_it_is(
    fs: LakeFileSystem, options: dict[str, str]
) -> None:
    fs.pipe_file(f"{MAIN}/x", b"before")
    with pytest.raises((LookupError, ValueError)):
        fs.open(f"{MAIN}/x", "w", **options)
    assert fs.cat_file(f"{MAIN}/x") == b"before"


def test_directories_that_other_programs_have_marked_are_removed(fs: LakeFileSystem) -> None:
    markers = (b"d/", b"d/e/", b"f/")
    with with_repository() as repository:
        for path in markers:
            options = UploadOptions()
            upload_stream(repository, "main", path, source=io.BytesIO(), options=options)
    fs.pipe_file(f"{MAIN}/d/x", b"x")
    assert "demo/main/d/e" in fs.find(f"{MAIN}/d", withdirs=True)
    assert fs.ls(f"{MAIN}/f") == []
    with pytest.raises(OSError, match="not empty"):
        fs.rmdir(f"{MAIN}/d")
    fs.rm(f"{MAIN}/d", recursive=True)
    fs.rmdir(f"{MAIN}/f")
    assert fs.ls(MAIN) == []
    assert not fs.exists(f"{MAIN}/f")


def test_unwritable_paths_are_refused(fs: LakeFileSystem, history: list[str]) -> None:
    with with_repository() as repository:
        tag.create(repository, "v1", "main")
    for ref in ("v1", "main@", "main~1", history[0], "main@{1}"):
        with pytest.raises(OSError, match="only branches") as caught:
            fs.open(f"lakefs://demo/{ref}/x", "wb")
        assert caught.value.errno == errno.EROFS
        with pytest.raises(OSError, match="only branches"):
            fs.rm(f"lakefs://demo/{ref}/a")
    for path in ("lakefs://demo/none/x", "lakefs://none/main/x"):
        with pytest.raises(FileNotFoundError):
            fs.open(path, "wb")
    for path in (MAIN, "lakefs://demo", "lakefs://"):
        with pytest.raises(IsADirectoryError):
            fs.open(path, "wb")
    for mode in ("ab", "r+b"):
        with pytest.raises(io.UnsupportedOperation, match="mode must be rb"):
            fs.open(f"{MAIN}/a", mode)
    with pytest.raises(FileExistsError):
        fs.open(f"{MAIN}/a", "xb")
    with pytest.raises(FileExistsError):
        fs.pipe_file(f"{MAIN}/a", b"", mode="create")
    with pytest.raises(ValueError, match="too long"):
        fs.pipe_file(f"{MAIN}/{'x' * 1025}", b"")
    assert fs.cat_file(f"{MAIN}/a") == b"version 3"


def test_copying_moves_no_data(fs: LakeFileSystem, history: list[str], demo: Path) -> None:
    before = sorted(demo.rglob("*"))
    fs.cp("lakefs://demo/main~2/a", f"{MAIN}/first")
    fs.cp(f"{MAIN}/dir", f"{MAIN}/copy", recursive=True)
    fs.mv(f"{MAIN}/a", f"{MAIN}/moved")
    assert sorted(demo.rglob("*")) == before
    assert fs.cat(f"{MAIN}/*", on_error="omit") == {
        "demo/main/c": b"not committed",
        "demo/main/first": b"version 1",
        "demo/main/moved": b"version 3",
    }
    assert fs.cat_file(f"{MAIN}/copy/b") == b"b"
    fs.rm(f"{MAIN}/dir", recursive=True)
    fs.rm([f"{MAIN}/first", f"{MAIN}/c"])
    assert fs.find(MAIN) == ["demo/main/copy/b", "demo/main/moved"]
    assert history


def test_copying_into_another_repository(fs: LakeFileSystem, tmp_path: Path) -> None:
    from lakecli.repository import repo

    with lakes.lake(lakes.home_of(None)) as held:
        repo.create(held.lake, "other", str(tmp_path / "other"))
    with fs.open(f"{MAIN}/a", "wb", metadata={"k": "v"}) as file:
        file.write(b"data")
    fs.cp(f"{MAIN}/a", "lakefs://other/main/b")
    assert fs.cat_file("lakefs://other/main/b") == b"data"
    assert fs.info("lakefs://other/main/b")["metadata"] == {"k": "v"}
    assert fs.ls("lakefs://", detail=False) == ["demo", "other"]


def test_a_transaction_is_all_or_nothing(fs: LakeFileSystem, history: list[str]) -> None:
    before = fs.find(MAIN, detail=True)
    other = LakeFileSystem(skip_instance_cache=True)

    def change(error: Exception | None) -> None:
        with fs.transaction:
            fs.pipe_file(f"{MAIN}/new", b"1")
            fs.rm(f"{MAIN}/a")
            fs.mv(f"{MAIN}/c", f"{MAIN}/d")
            assert other.find(MAIN, detail=True) == before
            if error is not None:
                raise error

    with pytest.raises(KeyError):
        change(KeyError())
    assert fs.find(MAIN, detail=True) == before
    change(None)
    assert fs.find(MAIN) == ["demo/main/d", "demo/main/dir/b", "demo/main/new"]
    fs.pipe_file(f"{MAIN}/later", b"at once")
    assert fs.exists(f"{MAIN}/later")
    assert history


def test_a_file_open_at_the_end_of_its_transaction_is_an_error(fs: LakeFileSystem) -> None:
    left = []

    def leave_open() -> None:
        with fs.transaction:
            fs.pipe_file(f"{MAIN}/one", b"1")
            left.append(fs.open(f"{MAIN}/two", "wb"))

    with pytest.raises(ValueError, match="not closed"):
        leave_open()
    left[0].close()
    assert fs.find(MAIN) == []
    fs.pipe_file(f"{MAIN}/later", b"at once")
    assert fs.exists(f"{MAIN}/later")


def test_committing(fs: LakeFileSystem) -> None:
    with fs.committing(MAIN, "All of it", metadata={"job": "7"}):
        fs.pipe({f"{MAIN}/{number}": b"%d" % number for number in range(5)})
    assert len(fs.find("lakefs://demo/main@")) == 5

    def fail() -> None:
        with fs.committing(MAIN, "never"):
            fs.rm(f"{MAIN}/1")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with with_repository() as repository:
        from lakecli.repository.log import show_commit

        made = show_commit(repository, "main")
    assert (made.message, made.committer) == ("All of it", "Ada <ada@example.com>")
    assert made.metadata == {"job": "7"}
    with pytest.raises(LakeFileError, match="nothing to commit") as caught:
        fs.commit(MAIN, "nothing")
    assert caught.value.kind is ErrorKind.NOTHING_TO_DO
    with pytest.raises(FileNotFoundError):
        fs.commit("lakefs://demo/none", "nothing")


def test_one_call_for_many_files_is_one_operation(fs: LakeFileSystem, tmp_path: Path) -> None:
    from lakecli.kv.operations import iter_operations

    for number in range(20):
        (tmp_path / "files" / str(number % 3)).mkdir(parents=True, exist_ok=True)
        (tmp_path / "files" / str(number % 3) / str(number)).write_text(str(number))
    fs.put(f"{tmp_path}/files/", f"{MAIN}/up/", recursive=True)
    fs.cp(f"{MAIN}/up/", f"{MAIN}/down/", recursive=True)
    fs.rm(f"{MAIN}/up", recursive=True)
    assert len(fs.find(MAIN)) == 20
    with with_repository() as repository, repository.lake.kv.read() as txn:
        kinds = [each.kind for each in iter_operations(txn, repository.key)]
    assert kinds == ["file system"] * 3 + ["repo create"]


def test_objects_outside_the_namespace(fs: LakeFileSystem, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere" / "data.bin"
    place.parent.mkdir()
    place.write_bytes(bytes(range(200)))
    at = datetime(2026, 1, 1, tzinfo=UTC)
    checksum = blake3_of(place.read_bytes()).hex()
    entry = Entry(f"local://{place}", 200, checksum, at, "application/octet-stream")
    with with_repository() as repository:
        stage_entry(repository, "main", b"imported", entry)
        with pytest.raises(LakeFileError, match="not allowed") as caught:
            fs.cat_file(f"{MAIN}/imported")
        assert caught.value.kind is ErrorKind.REFUSED
        remember(repository, [f"local://{place.parent}"])
    assert fs.cat_file(f"{MAIN}/imported") == bytes(range(200))
    assert fs.cat_file(f"{MAIN}/imported", 10, 20) == bytes(range(10, 20))
    assert fs.info(f"{MAIN}/imported")["physical_address"] == f"local://{place}"
    assert fs.ukey(f"{MAIN}/imported") == checksum


def test_damage_is_not_a_missing_file(fs: LakeFileSystem, tmp_path: Path) -> None:
    """Otherwise a reader of many files would silently skip the file."""
    fs.pipe_file(f"{MAIN}/a", b"some data")
    data = tmp_path / fs.info(f"{MAIN}/a")["physical_address"].removeprefix("local://")
    data.chmod(0o600)
    data.write_bytes(b"wrong data")
    with pytest.raises(LakeFileError, match="damaged") as caught:
        fs.cat_file(f"{MAIN}/a")
    assert caught.value.kind is ErrorKind.INTEGRITY
    target = tmp_path / "target"
    with pytest.raises(LakeFileError, match="damaged"):
        fs.get_file(f"{MAIN}/a", str(target))
    assert not target.exists()
    data.unlink()
    for read in (fs.cat_file, lambda path: fs.open(path).read(), lambda p: fs.cat_file(p, 0, 4)):
        with pytest.raises(LakeFileError, match="gone") as caught:
            read(f"{MAIN}/a")
        assert not isinstance(caught.value, FileNotFoundError)
    assert fs.exists(f"{MAIN}/a")


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, LakeFileError])
@pytest.mark.parametrize("before", [[], [b"before"]])
def test_a_download_that_fails_leaves_the_local_file_as_it_was(
    fs: LakeFileSystem,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    before: list[bytes],
) -> None:
    def fail(*_: object) -> Iterator[bytes]:
        yield b"first piece"
        raise error

    fs.pipe_file(f"{MAIN}/a", b"some data")
    monkeypatch.setattr(LakeFileSystem, "_read", fail)
    target = tmp_path / "local" / "a"
    target.parent.mkdir()
    for data in before:
        target.write_bytes(data)
    with pytest.raises(error):
        fs.get_file(f"{MAIN}/a", str(target))
    assert [each.read_bytes() for each in target.parent.iterdir()] == before


def test_a_download_makes_an_ordinary_file(fs: LakeFileSystem, tmp_path: Path) -> None:
    fs.pipe_file(f"{MAIN}/a", b"data")
    target, ordinary = tmp_path / "local" / "a", tmp_path / "ordinary"
    fs.get_file(f"{MAIN}/a", target)
    ordinary.touch()
    assert target.read_bytes() == b"data"
    assert target.stat().st_mode == ordinary.stat().st_mode


def test_a_download_writes_into_links_and_pipes(fs: LakeFileSystem, tmp_path: Path) -> None:
    fs.pipe_file(f"{MAIN}/a", b"data")
    link, file, pipe = (tmp_path / name for name in ("link", "file", "pipe"))
    link.symlink_to(file)
    fs.get_file(f"{MAIN}/a", str(link))
    assert link.is_symlink()
    assert file.read_bytes() == b"data"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        fs.get_file(f"{MAIN}/a", str(pipe))
        assert os.read(reader, 10) == b"data"
    finally:
        os.close(reader)


def test_a_new_directory_exists_for_its_instance_only(fs: LakeFileSystem) -> None:
    fs.makedirs(f"{MAIN}/x/y")
    assert fs.isdir(f"{MAIN}/x")
    assert fs.ls(f"{MAIN}/x/y") == []
    assert not LakeFileSystem().isdir(f"{MAIN}/x")
    with pytest.raises(FileExistsError):
        fs.makedirs(f"{MAIN}/x/y")
    fs.makedirs(f"{MAIN}/x/y", exist_ok=True)
    fs.rmdir(f"{MAIN}/x/y")
    assert not fs.exists(f"{MAIN}/x/y")
    fs.pipe_file(f"{MAIN}/x/z/a", b"1")
    with pytest.raises(OSError, match="not empty"):
        fs.rmdir(f"{MAIN}/x/z")
    fs.rm(f"{MAIN}/x", recursive=True)
    assert not fs.exists(f"{MAIN}/x")


def test_an_object_with_bytes_whose_name_ends_in_a_slash_is_named(
    fs: LakeFileSystem, tmp_path: Path
) -> None:
    with with_repository() as repository:
        for path, data in {b"s/d/": b"data", b"s/empty/": b"", b"s/x": b"1"}.items():
            source = io.BytesIO(data)
            upload_stream(repository, "main", path, source=source, options=UploadOptions())
    with pytest.warns(LakeWarning, match=r"left out: demo/main/s/d/: no file"):
        fs.get(f"{MAIN}/s", str(tmp_path / "s"), recursive=True)
    assert [path.name for path in (tmp_path / "s").rglob("*") if path.is_file()] == ["x"]


def test_a_directory_has_no_urls(fs: LakeFileSystem) -> None:
    fs.pipe_file(f"{MAIN}/a", b"1")
    with pytest.raises(LakeFileError) as caught:
        fs.sign(f"{MAIN}/a")
    assert caught.value.kind is ErrorKind.REFUSED


def test_homes(fs: LakeFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakecli.repository import repo

    other = str(tmp_path / "home-2")
    with lakes.lake(other) as held:
        repo.create(held.lake, "second", str(tmp_path / "second"))
    assert LakeFileSystem(home=other).ls("", detail=False) == ["second"]
    assert LakeFileSystem(home=tmp_path / "home-2").ls("", detail=False) == ["second"]
    assert fs.ls("", detail=False) == ["demo"]
    monkeypatch.setenv("LAKECLI_HOME", other)
    assert fs.ls("", detail=False) == ["second"]
    assert LakeFileSystem(home=other) is LakeFileSystem(home=other)
    assert LakeFileSystem(home=other) != LakeFileSystem()
    monkeypatch.setenv("FSSPEC_LAKEFS_HOME", other)


def test_the_file_system_can_be_pickled(fs: LakeFileSystem) -> None:
    fs.pipe_file(f"{MAIN}/a", b"1")
    again = pickle.loads(pickle.dumps(fs))
    assert again == fs
    assert again.cat_file(f"{MAIN}/a") == b"1"
    assert again.committer == fs.committer
    assert LakeFileSystem.from_json(fs.to_json()).cat_file(f"{MAIN}/a") == b"1"


def test_threads(fs: LakeFileSystem) -> None:
    def work(number: int) -> bytes:
        path = f"{MAIN}/{number % 7}/{number}"
        fs.pipe_file(path, b"%d" % number)
        data: bytes = fs.cat_file(path)
        return data

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(40))) == [b"%d" % number for number in range(40)]
    assert len(fs.find(MAIN)) == 40


def _read_in_child(fs: LakeFileSystem, path: str, answers: Any) -> None:
    answers.put((fs.cat_file(path), fs.pipe_file(f"{path}-child", b"from the child")))


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_processes(fs: LakeFileSystem, method: str) -> None:
    path = f"{MAIN}/a"
    fs.pipe_file(path, b"before the fork")
    context: Any = multiprocessing.get_context(method)
    answers: Any = context.SimpleQueue()
    children = [context.Process(target=_read_in_child, args=(fs, path, answers)) for _ in range(2)]
    for child in children:
        child.start()
    assert fs.cat_file(path) == b"before the fork"
    for child in children:
        child.join(60)
        assert child.exitcode == 0
        assert answers.get() == (b"before the fork", None)
    assert fs.cat_file(f"{path}-child") == b"from the child"


def test_a_fork_during_an_operation_is_an_error_in_the_child(fs: LakeFileSystem) -> None:
    fs.pipe_file(f"{MAIN}/a", b"1")
    with with_repository():
        child = os.fork()
        if not child:
            try:
                fs.cat_file(f"{MAIN}/a")
            except LakeFileError as error:
                os._exit(7 if "forked" in str(error) else 8)
            os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert fs.cat_file(f"{MAIN}/a") == b"1"


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_that_ends_leaves_the_files_of_its_parent(fs: LakeFileSystem) -> None:
    file = fs.open(f"{MAIN}/a", "wb")
    for data in (b"x" * (WHOLE + 1), b"in the buffer"):
        file.write(data)
    child = os.fork()
    if not child:
        file.__del__()
        os._exit(0)
    os.waitpid(child, 0)
    file.close()
    assert fs.cat_file(f"{MAIN}/a") == b"x" * (WHOLE + 1) + b"in the buffer"


def test_changes_of_other_processes_are_visible_at_once(fs: LakeFileSystem) -> None:
    assert not fs.exists(f"{MAIN}/a")
    stage_by(lakecli.open("lakefs://demo", home=lakes.home_of(None)))
    assert fs.exists(f"{MAIN}/a")


def stage_by(repository: LocalRepository) -> None:
    from lakecli.repository.upload import UploadOptions, upload_stream

    with repository:
        source = io.BytesIO(b"x")
        upload_stream(repository, "main", b"a", source=source, options=UploadOptions())


def test_a_deleted_repository_is_missing(fs: LakeFileSystem) -> None:
    from lakecli.repository import repo

    fs.pipe_file(f"{MAIN}/a", b"1")
    with lakes.lake(lakes.home_of(None)) as held:
        repo.delete(held.lake, "demo")
    with pytest.raises(FileNotFoundError, match="no repository 'demo'"):
        fs.info(f"{MAIN}/a")


@pytest.mark.parametrize(
    ("source", "target"), [("d/a", "demo/main/d/a"), ("d/a", f"{MAIN}/d/"), ("d/", f"{MAIN}/d")]
)
def test_what_is_moved_to_where_it_is_stays(fs: LakeFileSystem, source: str, target: str) -> None:
    fs.pipe_file(f"{MAIN}/d/a", b"1")
    fs.mv(f"{MAIN}/{source}", target, recursive=source.endswith("/"))
    assert fs.cat_file(f"{MAIN}/d/a") == b"1"


def test_a_directory_is_moved_over_its_own_parts(fs: LakeFileSystem) -> None:
    fs.pipe({f"{MAIN}/d/x": b"1", f"{MAIN}/d/d/x": b"2", f"{MAIN}/d/d/d/x": b"3"})
    fs.mv(f"{MAIN}/d/", MAIN, recursive=True)
    found = {path: fs.cat_file(path) for path in fs.find(MAIN)}
    assert found == {"demo/main/x": b"1", "demo/main/d/x": b"2", "demo/main/d/d/x": b"3"}


@pytest.mark.parametrize("recursive", [False, True])
def test_objects_written_during_a_move_are_kept(
    fs: LakeFileSystem, monkeypatch: pytest.MonkeyPatch, *, recursive: bool
) -> None:
    """Another process writes to the source between its copy and its removal."""
    other = LakeFileSystem(skip_instance_cache=True)
    fs.pipe_file(f"{MAIN}/dir/a", b"old")
    rm = fs.rm

    def rm_late(*args: Any, **options: Any) -> None:
        other.pipe_file(f"{MAIN}/dir/a", b"new")
        other.pipe_file(f"{MAIN}/dir/added", b"added")
        rm(*args, **options)

    monkeypatch.setattr(fs, "rm", rm_late)
    if recursive:
        fs.mv(f"{MAIN}/dir", f"{MAIN}/to", recursive=True)
    else:
        fs.mv(f"{MAIN}/dir/a", f"{MAIN}/to/a")
    assert fs.cat_file(f"{MAIN}/to/a") == b"old"
    assert fs.cat_file(f"{MAIN}/dir/a") == b"new"
    assert fs.cat_file(f"{MAIN}/dir/added") == b"added"
    monkeypatch.setattr(fs, "rm", rm)
    fs.mv(f"{MAIN}/dir", f"{MAIN}/to", recursive=True)
    assert fs.cat_file(f"{MAIN}/to/dir/a") == b"new"
    assert not fs.exists(f"{MAIN}/dir")


def test_objects_written_during_a_removal_are_kept(fs: LakeFileSystem) -> None:
    other = LakeFileSystem(skip_instance_cache=True)
    fs.pipe({f"{MAIN}/a": b"a", f"{MAIN}/b": b"b"})
    with fs.transaction:
        fs.rm([f"{MAIN}/a", f"{MAIN}/b"])
        other.pipe_file(f"{MAIN}/a", b"new")
    assert fs.find(MAIN) == ["demo/main/a"]
    assert fs.cat_file(f"{MAIN}/a") == b"new"


@pytest.mark.parametrize("name", ["../escaped", "a/../../escaped", "a/../../out-beside/x"])
def test_downloads_never_leave_the_target(
    fs: LakeFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The oldest supported fsspec does not check this."""
    monkeypatch.setattr("fsspec.spec.check_contained", lambda *_: None, raising=False)
    fs.pipe_file(f"{MAIN}/t/good", b"1")
    digest = blake3_of(b"1").hex()
    entry = Entry(data_key(digest), 1, digest, datetime(2026, 1, 1, tzinfo=UTC))
    with with_repository() as repository:
        Stager(repository, "main").write(
            unclaimed([(b"t/" + name.encode(), encode_entry(entry))]), kind="test"
        )
    with pytest.raises(ValueError, match="leads outside"):
        fs.get(f"{MAIN}/t/", str(tmp_path / "place" / "out") + "/", recursive=True)
    assert not list(tmp_path.rglob("*escaped*"))
    assert not (tmp_path / "place" / "out-beside").exists()
    fs.get(f"{MAIN}/t/good", str(tmp_path / "one"))
    assert (tmp_path / "one").read_bytes() == b"1"


def test_downloads_never_enter_the_namespace(
    fs: LakeFileSystem, tmp_path: Path, demo: Path
) -> None:
    fs.pipe_file(f"{MAIN}/namespace/new/x", b"1")
    with pytest.raises(ValueError, match="lies in the repository's namespace"):
        fs.get(f"{MAIN}/", str(tmp_path) + "/", recursive=True)
    with pytest.raises(ValueError, match="lies in the repository's namespace"):
        fs.get_file(f"{MAIN}/namespace/new/x", str(demo / "x"))
    assert not (demo / "new" / "x").exists()


@pytest.mark.parametrize("name", [".git/config", "d/.GIT/hooks/pre-commit", ".lakefs_ref.yaml"])
def test_files_of_git_and_lakecli_are_transferred_in_neither_direction(
    fs: LakeFileSystem, tmp_path: Path, name: str
) -> None:
    fs.pipe_file(f"{MAIN}/x/data", b"1")
    fs.pipe_file(f"{MAIN}/x/{name}", b"enemy")
    with pytest.warns(LakeWarning, match="left out: demo/main/x/.*Git"):
        fs.get(f"{MAIN}/x", str(tmp_path / "down"), recursive=True)
    assert [each.name for each in (tmp_path / "down").rglob("*") if each.is_file()] == ["data"]
    source = tmp_path / "source"
    (source / name).parent.mkdir(parents=True)
    (source / name).write_text("token")
    (source / "data").write_text("2")
    with pytest.warns(LakeWarning, match="left out: demo/main/y/.*Git"):
        fs.put(f"{source}/", f"{MAIN}/y", recursive=True)
    assert fs.find(f"{MAIN}/y") == ["demo/main/y/data"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # mmap's own file
def test_every_cache_of_fsspec_reads_to_the_end(fs: LakeFileSystem) -> None:
    data = bytes(range(256)) * 40  # no multiple of the size of a block
    fs.pipe_file(f"{MAIN}/x", data)
    for name in set(caches) - {"parts"}:
        with fs.open(f"{MAIN}/x", block_size=4096, cache_type=name) as file:
            file.seek(9000)
            assert file.read() == data[9000:], name
            file.seek(0)
            assert file.read(8) == data[:8], name
            file.seek(20_000)
            assert file.read() == b"", name
    assert fs.cat_ranges([f"{MAIN}/x"] * 3, [0, 9000, 20_000], [4, 20_000, 30_000]) == [
        data[:4],
        data[9000:],
        b"",
    ]


def test_reading_ahead_follows_how_a_file_is_read(fs: LakeFileSystem) -> None:
    asked: list[tuple[int, int]] = []
    fs.pipe_file(f"{MAIN}/x", bytes(8 << 20))
    with fs.open(f"{MAIN}/x") as file:
        whole = file.cache.fetcher

        def counted(start: int, end: int) -> Any:
            asked.append((start, end))
            return whole(start, end)

        file.cache.fetcher = counted
        step = 64 << 10
        file.seek(1 << 20)
        file.read(10)
        assert asked == [(1 << 20, (1 << 20) + step)]
        for number in range(20):
            file.seek((2 << 20) + number * step)
            assert file.read(step) == bytes(step)
        ends = [end for _start, end in asked[1:]]
        assert [end - (2 << 20) for end in ends] == [steps * step for steps in (1, 3, 6, 11, 20)]
        asked.clear()
        for place in (6, 5, 7):  # elsewhere, so as much as is asked for
            file.seek(place << 20)
            file.read(step * 2)
        assert {end - start for start, end in asked} == {2 * step}
        asked.clear()
        file.seek(0)
        while file.read(step):
            pass
        assert max(end - start for start, end in asked) <= fs.blocksize + 2 * step
        assert len(asked) <= 9


def test_open_files_are_equal_to_themselves_only(fs: LakeFileSystem) -> None:
    fs.pipe_file(f"{MAIN}/x", b"1")
    with fs.open(f"{MAIN}/x") as one, fs.open(f"{MAIN}/x") as other:
        assert one == one  # noqa: PLR0124
        assert len({one, other, one}) == 2
        fs.rm(f"{MAIN}/x")
        assert hash(one) != hash(other)
    with fs.open(f"{MAIN}/y", "wb") as one, fs.open(f"{MAIN}/y", "wb") as other:
        assert len({one, other, one}) == 2


def test_find_honours_a_prefix(fs: LakeFileSystem) -> None:
    names = ["d/a", "d/ab/c", "d/ab/d/e", "d/b", "dab"]
    fs.pipe({f"{MAIN}/{name}": b"1" for name in names})
    for options, expected in (
        ({}, ["d/ab/c", "d/ab/d/e"]),
        ({"withdirs": True}, ["d/ab", "d/ab/c", "d/ab/d", "d/ab/d/e"]),
        ({"maxdepth": 2}, ["d/ab/c"]),
        ({"maxdepth": 2, "withdirs": True}, ["d/ab", "d/ab/c", "d/ab/d"]),
        ({"detail": True}, ["d/ab/c", "d/ab/d/e"]),
    ):
        found = fs.find(f"{MAIN}/d", prefix="ab", **options)
        assert list(found) == [f"demo/main/{name}" for name in expected], options
    assert fs.find(f"{MAIN}", prefix="d/a") == [f"demo/main/{name}" for name in names[:3]]
    assert fs.find("", prefix="demo/main/da") == ["demo/main/dab"]
    assert fs.find(f"{MAIN}/dab", prefix="x") == []
    assert fs.find(f"{MAIN}/dab") == ["demo/main/dab"]

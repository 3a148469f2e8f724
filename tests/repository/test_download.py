"""Downloading objects and trees."""

from __future__ import annotations

import io
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.layout import data_key
from lakecli.base.model import CLIENT_MTIME, Entry
from lakecli.committed.values import encode_entry
from lakecli.errors import IntegrityError, NotFound, Unreachable, UsageError
from lakecli.repository.download import DownloadOptions, download_object
from lakecli.repository.download_tree import DownloadReport, download_tree
from lakecli.repository.staged.stager import Stager
from lakecli.repository.transfer.destination import NoRoom, ReadOnlyDisk
from lakecli.repository.transfer.plan import PathAction, PathStep
from lakecli.repository.upload import UploadOptions, upload_stream
from lakecli.repository.upload_tree import upload_tree
from lakecli.stores.contract import ANY
from tests.support.lakes import serve, through, unclaimed
from tests.support.memory_store import MemoryStore
from tests.support.recorded_progress import RecordedProgress

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lakecli.repository.contract import Repository

THREADS = DownloadOptions(parallelism=4)


@pytest.fixture(params=["local", "bucket"])
def anywhere(request: pytest.FixtureRequest, repository: Repository) -> Repository:
    if request.param == "bucket":
        serve(repository, MemoryStore())
    return repository


def put(repository: Repository, contents: Mapping[bytes, bytes]) -> None:
    for path, data in contents.items():
        options = UploadOptions()
        upload_stream(repository, "main", path, source=io.BytesIO(data), options=options)


def files(root: Path) -> dict[bytes, bytes]:
    return {
        os.fsencode(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


def damage(repository: Repository, data: bytes, instead: bytes | None) -> None:
    key = data_key(blake3_of(data).hex())
    repository.store.delete([key])
    if instead is not None:
        repository.store.put(key, instead, ANY)


def test_an_uploaded_tree_is_downloaded_with_its_times(
    anywhere: Repository, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    names = [b"100%", b"a?b#c d", b"new\nline", b"\xff\xfe", "ünï".encode(), b"sub/x"]
    for number, name in enumerate(names):
        path = os.fsencode(source) + b"/" + name
        with open(path, "wb") as file:
            file.write(name * 100)
        os.utime(path, (number, 1_000_000 * number))
    upload_tree(anywhere, "main", b"p", source=source, options=UploadOptions())
    target = tmp_path / "target"
    report = download_tree(anywhere, "main", b"p", target=target, options=THREADS)
    assert report.downloaded == len(names)
    assert files(target) == files(source)
    for number, name in enumerate(names):
        assert os.stat(os.fsencode(target) + b"/" + name).st_mtime == 1_000_000 * number


def test_one_object_is_downloaded(anywhere: Repository, tmp_path: Path) -> None:
    put(anywhere, {b"a/b": b"data" * 1_000_000})
    progress = RecordedProgress()
    options = DownloadOptions(progress=progress)
    target = tmp_path / "deep" / "er" / "b"
    entry = download_object(anywhere, "main", b"a/b", target=target, options=options)
    assert target.read_bytes() == b"data" * 1_000_000
    assert progress.size == entry.size == 4_000_000
    # An object without a file time gets the time of its upload.
    assert target.stat().st_mtime == entry.modified_at.timestamp()


@pytest.mark.parametrize("recorded", ["", "soon", "1e9", "²", "--1"])
def test_odd_times_are_ignored(repository: Repository, tmp_path: Path, recorded: str) -> None:
    put(repository, {b"x": b"data"})
    digest = blake3_of(b"data").hex()
    at = datetime(2026, 1, 1, tzinfo=UTC)
    entry = Entry(data_key(digest), 4, digest, at, metadata={CLIENT_MTIME: recorded})
    Stager(repository, "main").write(unclaimed([(b"x", encode_entry(entry))]), kind="test")
    download_object(repository, "main", b"x", target=tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == b"data"


@pytest.mark.parametrize("recorded", ["1" * 40, "1" * 5_000, "9223372037", "-9223372037"])
def test_an_object_with_an_impossible_time_fails_alone(
    repository: Repository, tmp_path: Path, recorded: str
) -> None:
    put(repository, {b"t/a": b"data", b"t/c": b"more"})
    at = datetime(2026, 1, 1, tzinfo=UTC)
    digest = blake3_of(b"data").hex()
    entry = Entry(data_key(digest), 4, digest, at, metadata={CLIENT_MTIME: recorded})
    Stager(repository, "main").write(unclaimed([(b"t/b", encode_entry(entry))]), kind="test")
    report = download_tree(repository, "main", b"t", target=tmp_path / "t")
    assert [path for path, _ in report.failures] == [b"t/b"]
    assert files(tmp_path / "t") == {b"a": b"data", b"c": b"more"}
    with pytest.raises(IntegrityError, match="out of the range of file times"):
        download_object(repository, "main", b"t/b", target=tmp_path / "b")
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    "address",
    [
        "../x",
        "data/../../x",
        "/etc/passwd",
        "data//x",
        "",
        "ftp://host/x",
        "https://169.254.169.254/latest/meta-data",
        "s3://169.254.169.254/latest",
        "s3://no-such-bucket/x",
    ],
)
def test_an_object_with_a_bad_address_fails_alone(
    anywhere: Repository, tmp_path: Path, address: str
) -> None:
    put(anywhere, {b"t/a": b"data", b"t/c": b"more"})
    (tmp_path / "x").write_bytes(b"1234")
    entry = Entry(address, 4, "", datetime(2026, 1, 1, tzinfo=UTC))
    Stager(anywhere, "main").write(unclaimed([(b"t/b", encode_entry(entry))]), kind="test")
    report = download_tree(anywhere, "main", b"t", target=tmp_path / "t")
    assert [path for path, _ in report.failures] == [b"t/b"]
    assert files(tmp_path / "t") == {b"a": b"data", b"c": b"more"}


@pytest.mark.parametrize("instead", [b"WRONG BYTES", b"right", b"right bytes and more", None])
def test_a_damaged_object_leaves_no_file(
    anywhere: Repository, tmp_path: Path, instead: bytes | None
) -> None:
    put(anywhere, {b"x": b"right bytes"})
    damage(anywhere, b"right bytes", instead)
    (tmp_path / "x").write_bytes(b"before")
    error = NotFound if instead is None else IntegrityError
    with pytest.raises(error, match="gone" if instead is None else "damaged"):
        download_object(anywhere, "main", b"x", target=tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == b"before"
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".tmp")]


def test_a_damaged_object_in_a_tree_fails_alone(anywhere: Repository, tmp_path: Path) -> None:
    put(anywhere, {b"t/%d" % number: b"%d" % number for number in range(9)})
    damage(anywhere, b"3", b"X")
    damage(anywhere, b"5", None)
    report = download_tree(anywhere, "main", b"t", target=tmp_path / "t", options=THREADS)
    assert (report.downloaded, report.size) == (7, 7)
    assert [path for path, _ in report.failures] == [b"t/3", b"t/5"]
    assert set(files(tmp_path / "t")) == {b"%d" % n for n in (0, 1, 2, 4, 6, 7, 8)}


def test_paths_never_leave_the_destination(anywhere: Repository, tmp_path: Path) -> None:
    outside, target = tmp_path / "outside", tmp_path / "target"
    outside.mkdir()
    target.mkdir()
    (target / "link").symlink_to(outside)
    wicked = [
        b"../escaped",
        b"/abs",
        b"a/../../up",
        b"link/through",
        b".",
        b"..",
        b"x//y",
        b"n\0ul",
    ]
    put(anywhere, {b"t/" + name: name for name in (*wicked, b"good")})
    report = download_tree(anywhere, "main", b"t", target=target, options=THREADS)
    assert report.downloaded == 1
    assert [path for path, _ in report.failures] == sorted(b"t/" + name for name in wicked)
    assert files(outside) == {}
    assert {path.name for path in target.iterdir()} == {"good", "link"} | (
        {"a"} if (target / "a").exists() else set()
    )
    assert not (tmp_path / "escaped").exists()


def test_directory_markers_count_as_progress(anywhere: Repository, tmp_path: Path) -> None:
    put(anywhere, {b"t/a/": b"", b"t/a/b": b"b"})
    progress = RecordedProgress()
    options = DownloadOptions(progress=progress)
    download_tree(anywhere, "main", b"t", target=tmp_path / "t", options=options)
    assert progress.items == sum(items for items, _ in progress.expected) == 2


def test_directory_markers_become_directories(anywhere: Repository, tmp_path: Path) -> None:
    put(anywhere, {b"t/": b"", b"t/dir/": b"", b"t/both": b"1", b"t/both/below": b"2"})
    report = download_tree(anywhere, "main", b"t", target=tmp_path / "t")
    assert (tmp_path / "t/dir").is_dir()
    assert report.downloaded == 1
    assert [path for path, _ in report.failures] == [b"t/both/below"]


def test_an_object_with_bytes_whose_name_ends_in_a_slash_fails(
    anywhere: Repository, tmp_path: Path
) -> None:
    put(anywhere, {b"t/": b"data", b"t/x": b"1", b"t/dir/": b"more", b"t/empty/": b""})
    report = download_tree(anywhere, "main", b"t", target=tmp_path / "t")
    assert [path for path, _ in report.failures] == [b"t/", b"t/dir/"]
    assert report.failures[0][1] == "no file can have a name that ends in a slash"
    assert report.downloaded == 1
    steps: list[PathStep] = []
    download_tree(anywhere, "main", b"t", target=tmp_path / "t", listed=steps.append)
    assert [each.path for each in steps if each.action is PathAction.FAILED] == [b"t/", b"t/dir/"]


def test_an_empty_directory_gives_way_to_a_file(anywhere: Repository, tmp_path: Path) -> None:
    put(anywhere, {b"a": b"1", b"b": b"2"})
    (tmp_path / "t/a/empty").mkdir(parents=True)
    (tmp_path / "t/b").mkdir()
    (tmp_path / "t/b/mine").touch()
    report = download_tree(anywhere, "main", b"", target=tmp_path / "t")
    assert [path for path, _ in report.failures] == [b"b"]
    assert files(tmp_path / "t") == {b"a": b"1", b"b/mine": b""}


def test_a_whole_ref_is_downloaded(anywhere: Repository, tmp_path: Path) -> None:
    put(anywhere, {b"a": b"1", b"b/c": b"2"})
    report = download_tree(anywhere, "main", b"", target=tmp_path / "all")
    assert report == DownloadReport(downloaded=2, size=2)
    assert files(tmp_path / "all") == {b"a": b"1", b"b/c": b"2"}


def test_a_missing_ref_or_path_is_not_found(anywhere: Repository, tmp_path: Path) -> None:
    put(anywhere, {b"dir/x": b"1"})
    with pytest.raises(NotFound) as raised:
        download_object(anywhere, "main", b"dir", target=tmp_path / "x")
    assert "below it" in (raised.value.hint or "")
    for prefix in (b"nope", b"di", b"dir/x"):
        with pytest.raises(NotFound, match="no object at"):
            download_tree(anywhere, "main", prefix, target=tmp_path / "x")
    with pytest.raises(NotFound):
        download_tree(anywhere, "nope", b"", target=tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_target_that_cannot_be_a_file_is_refused(anywhere: Repository, tmp_path: Path) -> None:
    put(anywhere, {b"x": b"1"})
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError, match="not a regular file"):
        download_object(anywhere, "main", b"x", target=tmp_path / "pipe")
    with pytest.raises(UsageError, match="not a directory"):
        download_object(anywhere, "main", b"x", target=tmp_path / "file" / "x")
    with pytest.raises(UsageError, match="not a directory"):
        download_tree(anywhere, "main", b"", target=tmp_path / "file")


def test_a_symbolic_link_as_target_is_followed(anywhere: Repository, tmp_path: Path) -> None:
    put(anywhere, {b"x": b"1"})
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    download_object(anywhere, "main", b"x", target=tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"1"


def test_an_unreachable_store_ends_the_download(repository: Repository, tmp_path: Path) -> None:
    put(repository, {b"t/%d" % number: b"%d" % number for number in range(9)})

    class Down(MemoryStore):
        def get(
            self, key: str, *, start: int = 0, length: int | None = None, matching: str = ""
        ) -> bytes:
            raise Unreachable("down")

    repository = through(repository, Down())
    with pytest.raises(Unreachable, match="down"):
        download_tree(repository, "main", b"t", target=tmp_path / "t", options=THREADS)
    assert not (tmp_path / "t").exists()


def test_a_missing_namespace_ends_the_download(repository: Repository, tmp_path: Path) -> None:
    put(repository, {b"t/%d" % number: b"%d" % number for number in range(9)})
    repository = through(repository, MemoryStore(missing=True))
    with pytest.raises(NotFound, match="bucket"):
        download_tree(repository, "main", b"t", target=tmp_path / "t")


@pytest.mark.parametrize(("code", "error"), [("ENOSPC", NoRoom), ("EROFS", ReadOnlyDisk)])
def test_a_disk_that_takes_no_file_ends_the_download(
    repository: Repository,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    error: type[Exception],
) -> None:
    import errno

    from lakecli.repository.transfer import destination

    def full(*_: object) -> None:
        raise OSError(getattr(errno, code), "no")

    put(repository, {b"t/%d" % number: b"%d" % number for number in range(9)})
    monkeypatch.setattr(destination.Partial, "write", full)
    with pytest.raises(error):
        download_tree(repository, "main", b"t", target=tmp_path / "t", options=THREADS)


def test_nothing_is_written_into_the_namespace(repository: Repository, tmp_path: Path) -> None:
    namespace, name = tmp_path / "namespace", b"namespace/_lakecli/x"
    (tmp_path / "link").symlink_to(namespace)
    put(repository, {name: b"2", b"namespace/new/y": b"2"})
    report = download_tree(repository, "main", b"", target=tmp_path)
    assert [path for path, _ in report.failures] == [name, b"namespace/new/y"]
    for target in (namespace, tmp_path / "link", namespace / "new" / "deep"):
        with pytest.raises(UsageError, match="lies in the repository's namespace"):
            download_tree(repository, "main", b"", target=target)
        with pytest.raises(UsageError, match="lies in the repository's namespace"):
            download_object(repository, "main", name, target=target / "x")
    assert not (namespace / "_lakecli" / "x").exists()
    assert not (namespace / "new").exists()


def test_a_link_into_the_namespace_is_replaced(repository: Repository, tmp_path: Path) -> None:
    put(repository, {b"a": b"1"})
    target = tmp_path / "target"
    target.mkdir()
    (target / "a").symlink_to(next((tmp_path / "namespace" / "data").rglob("*")))
    assert not download_tree(repository, "main", b"", target=target).failures
    assert files(target) == {b"a": b"1"}
    assert not (target / "a").is_symlink()

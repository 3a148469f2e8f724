"""Reading a repository by its storage namespace, without a clone."""

from __future__ import annotations

import errno
import gzip
import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from lakecli.errors import LakeError
from lakecli.filesystem import LakeFileSystem, lakes
from lakecli.filesystem.paths import LakeFileError
from lakecli.repository import repo
from lakecli.repository.push import PushOptions, push
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from collections.abc import Callable

ME = PushOptions(who="Ada <ada@example.com>")


@pytest.fixture
def pushed(demo: Path, fs: LakeFileSystem) -> Callable[..., None]:
    """Commits files and pushes them; the first ones are there."""

    def pushed(**files: bytes) -> None:
        fs.pipe({f"lakefs://demo/main/{name}": data for name, data in files.items()})
        fs.commit("lakefs://demo/main", "files")
        with lakes.repository(fs.home, "demo") as repository:
            push(repository, "main", options=ME)

    pushed(**{"a.csv": b"1", "d/b@c.csv": b"2", "d/e/f.csv.gz": gzip.compress(b"3")})
    return pushed


@pytest.fixture
def elsewhere(home: Path, pushed: object, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a machine that has never seen the repository."""
    del pushed
    monkeypatch.setenv("LAKECLI_HOME", str(home / "elsewhere"))
    return home / "elsewhere"


@pytest.fixture
def main(demo: Path) -> str:
    return f"lakefs://local://{demo}@main"


def test_a_namespace_is_read_as_a_clone_is(
    fs: LakeFileSystem, demo: Path, main: str, elsewhere: Path
) -> None:
    inside = main.removeprefix("lakefs://")
    assert fs.ls(main, detail=False) == [f"{inside}/a.csv", f"{inside}/d"]
    assert fs.ls(f"lakefs://local://{demo}", detail=False) == [inside]
    assert fs.ls(f"lakefs://local://{demo}@", detail=False) == [inside]
    found = [f"{inside}/{name}" for name in ("a.csv", "d/b@c.csv", "d/e/f.csv.gz")]
    assert fs.find(main) == fs.find(main, maxdepth=9) == fs.glob(f"{main}/**/*.csv*") == found
    assert fs.glob(f"{main}/d/*/*.gz") == found[2:]
    assert fs.isdir(f"{main}/d")
    assert fs.info(f"{main}/a.csv")["name"] == found[0]
    assert fs.info(f"{main}/a.csv")["physical_address"].startswith(f"local://{demo}/")
    assert fs.unstrip_protocol(found[0]) == f"{main}/a.csv"
    with fsspec.open(f"{main}/d/e/f.csv.gz", compression="infer") as file:
        assert file.read() == b"3"
    assert [file.full_name for file in fsspec.open_files(f"{main}/*.csv")] == [f"{main}/a.csv"]
    assert fs.cat(f"{main}@{{2999-01-01}}/d/b@c.csv") == b"2"
    assert fs.cat_ranges([f"{main}~0/a.csv"], [0], [9]) == [b"1"]
    assert fs.ukey(f"{main}/a.csv") == fs.ukey(f"{main}~0/a.csv")
    assert not elsewhere.exists()  # a directory needs no cache, and there is no store


def test_files_are_downloaded(fs: LakeFileSystem, main: str, elsewhere: Path) -> None:
    fs.get(main, f"{elsewhere}-files", recursive=True)
    there = Path(f"{elsewhere}-files")
    assert sorted(str(each.relative_to(there)) for each in there.rglob("*.*")) == [
        "a.csv",
        "d/b@c.csv",
        "d/e/f.csv.gz",
    ]


def test_a_namespace_may_have_an_at_sign(fs: LakeFileSystem, tmp_path: Path) -> None:
    with lakes.lake(fs.home) as held:
        repo.create(held.lake, "odd", f"{tmp_path}/a@b")
    fs.pipe_file("lakefs://odd/main/x", b"odd")
    fs.commit("lakefs://odd/main", "odd")
    with lakes.repository(fs.home, "odd") as repository:
        push(repository, "main", options=ME)
    for start in (f"local://{tmp_path}/a%40b", f"FILE://{tmp_path}/a%40b/"):
        assert fs.cat(f"lakefs://{start}@main/x") == b"odd"
        [name] = fs.find(f"lakefs://{start}@main")
        assert fs.cat(name) == b"odd"


def test_refs_are_read_once_and_again_by_refresh(
    fs: LakeFileSystem, main: str, pushed: Callable[..., None]
) -> None:
    with fs.open(f"{main}/a.csv", block_size=1) as file:
        pushed(**{"a.csv": b"changed"})
        assert fs.cat(f"{main}/a.csv") == b"1"
        fs.refresh(main)
        assert fs.cat(f"{main}/a.csv") == b"changed"
        assert file.read() == b"1"
    with lakes.repository(fs.home, main.removeprefix("lakefs://").partition("@")[0]) as before:
        fs.refresh(main)
        before.lake.kv.usable()  # it is closed once nobody uses it
    with pytest.raises(LakeError):
        before.lake.kv.usable()


def test_nothing_is_written(
    fs: LakeFileSystem, demo: Path, main: str, elsewhere: Path, tmp_path: Path
) -> None:
    before = sorted(demo.rglob("*"))
    (tmp_path / "file").write_bytes(b"x")
    for write in (
        lambda: fs.pipe_file(f"{main}/new", b"1"),
        lambda: fs.rm(f"{main}/a.csv"),
        lambda: fs.mv(f"{main}/a.csv", f"{main}/b"),
        lambda: fs.cp(f"{main}/a.csv", f"{main}/b"),
        lambda: fs.put(str(tmp_path / "file"), f"{main}/b"),
        lambda: fs.open(f"{main}/a.csv", "w"),
    ):
        with pytest.raises(OSError, match="only read") as raised:
            write()
        assert raised.value.errno == errno.EROFS
    with pytest.raises(LakeFileError, match=r"clone local:///.* lakefs://NAME"):
        fs.commit(main, "nothing")
    assert sorted(demo.rglob("*")) == before
    assert not elsewhere.exists()


def test_what_is_not_there(fs: LakeFileSystem, demo: Path, main: str, tmp_path: Path) -> None:
    for path in (f"{main}/absent", f"{main}x/a.csv", f"lakefs://local://{tmp_path}/none@main/a"):
        assert not fs.exists(path)
        with pytest.raises(FileNotFoundError):
            fs.info(path)
    for path in ("lakefs://s3://@main/x", "lakefs://s3://key:secret@main/x"):
        assert not fs.exists(path)
    with pytest.raises(ValueError, match="user name and a password") as raised:
        fs.info("lakefs://s3://key:secret@host/x")
    assert "secret" not in str(raised.value)
    with pytest.raises(FileNotFoundError):  # a directory needs its scheme: this is a repository
        fs.info(f"lakefs://{demo}@main/a.csv")


def _in_child(results: Any, path: str) -> None:
    results.put(LakeFileSystem().cat(path))


def test_threads_forks_and_pickles(fs: LakeFileSystem, main: str, elsewhere: Path) -> None:
    path = f"{main}/a.csv"
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(fs.cat, [path] * 20)) == {b"1"}
    context = multiprocessing.get_context("fork")
    results: Any = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(results, path))
    child.start()
    child.join(60)
    assert results.get() == b"1"
    assert fs.cat(path) == b"1"
    with fs.open(path) as file:
        file.read(1)
        assert pickle.loads(pickle.dumps(fs)).cat(path) == b"1"
        assert pickle.loads(pickle.dumps(file)).read() == b""
    assert not elsewhere.exists()


def test_a_bucket(
    fs: LakeFileSystem, moto_endpoint: str, aws_environment: pytest.MonkeyPatch, home: Path
) -> None:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    namespace = f"s3://{new_bucket(moto_endpoint)}/lake"
    with lakes.lake(fs.home) as held:
        repo.create(held.lake, "cloud", namespace)
    fs.pipe_file("lakefs://cloud/main/d/a.csv", b"1,2\n")
    fs.commit("lakefs://cloud/main", "one")
    with lakes.repository(fs.home, "cloud") as repository:
        push(repository, "main", options=ME)
    aws_environment.setenv("LAKECLI_HOME", str(home / "elsewhere"))
    url = f"lakefs://{namespace}@main/d/a.csv"
    assert fs.cat(url) == b"1,2\n"
    assert fs.glob(f"lakefs://{namespace}@main/*/*.csv") == [url.removeprefix("lakefs://")]
    assert fs.sign(url).startswith(moto_endpoint)
    assert not (home / "elsewhere" / "store").exists()

"""Names that fsspec would take for patterns: ``a[1].csv`` is an object, not a pattern.

Each test runs with names that contain ``-1``, too: there fsspec itself says what is right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.filesystem.test_system import MAIN

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.filesystem import LakeFileSystem

Files = dict[str, bytes]


@pytest.fixture(params=["[1]", "-1", "*"])
def mark(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def named(mark: str) -> Files:
    """The objects of the branch; ``a1.csv`` and ``d1/x`` match patterns of the other names."""
    marked = {f"a{mark}.csv": b"marked", f"d{mark}/x": b"below marked"}
    return {**marked, "a1.csv": b"plain", "d1/x": b"below"}


@pytest.fixture(autouse=True)
def committed(fs: LakeFileSystem, named: Files) -> None:
    for name, data in named.items():
        fs.pipe_file(f"{MAIN}/{name}", data)


@pytest.fixture
def local(tmp_path: Path, named: Files) -> Path:
    """A directory with the same files."""
    for name, data in named.items():
        file = tmp_path / "local" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return tmp_path / "local"


def contents(fs: Any, below: str) -> Files:
    """Return the bytes of all files below a directory, by their paths below it."""
    root = str(fs._strip_protocol(below))
    return {path[len(root) + 1 :]: fs.cat_file(path) for path in fs.find(below)}


def without(named: Files, start: str) -> Files:
    return {path: data for path, data in named.items() if not path.startswith(start)}


@pytest.mark.parametrize("name", ["a{}.csv", "d{}"])
def test_only_the_named_object_is_removed(
    fs: LakeFileSystem, named: Files, mark: str, name: str
) -> None:
    fs.rm(f"{MAIN}/{name.format(mark)}", recursive=True)
    assert contents(fs, MAIN) == without(named, name.format(mark))


def test_several_names_and_a_pattern(fs: LakeFileSystem, mark: str) -> None:
    fs.rm([f"{MAIN}/a{mark}.csv", f"{MAIN}/d1/*", f"{MAIN}/nothing*"])
    assert set(contents(fs, MAIN)) == {"a1.csv", f"d{mark}/x"}
    assert fs.cat([f"{MAIN}/d{mark}/x"]) == {f"demo/main/d{mark}/x": b"below marked"}


def test_reading(fs: LakeFileSystem, mark: str) -> None:
    assert fs.cat(f"{MAIN}/a{mark}.csv") == b"marked"
    found = fs.expand_path(f"{MAIN}/d{mark}", recursive=True)
    assert found == [f"demo/main/d{mark}", f"demo/main/d{mark}/x"]


def test_a_pattern_matches_if_no_path_has_its_name(fs: LakeFileSystem) -> None:
    assert fs.cat(f"{MAIN}/a[0-1].csv") == {"demo/main/a1.csv": b"plain"}
    with pytest.raises(FileNotFoundError):
        fs.rm(f"{MAIN}/a[2].csv")


@pytest.mark.parametrize("verb", ["cp", "mv"])
@pytest.mark.parametrize(
    ("source", "target", "copy"),
    [
        ("a{}.csv", "b.csv", "b.csv"),
        ("a{}.csv", "new/", "new/a{}.csv"),
        ("a{}.csv", "d1", "d1/a{}.csv"),
        ("d{}", "e", "e/x"),
        ("d{}/", "e/", "e/x"),
        ("d{}", "d1", "d1/d{}/x"),
    ],
)
def test_copying_and_moving(
    fs: LakeFileSystem, named: Files, mark: str, *, verb: str, source: str, target: str, copy: str
) -> None:
    source = source.format(mark)
    recursive = source.startswith("d")
    getattr(fs, verb)(f"{MAIN}/{source}", f"{MAIN}/{target}", recursive=recursive)
    kept = without(named, source) if verb == "mv" else named
    data = b"below marked" if recursive else b"marked"
    assert contents(fs, MAIN) == {**kept, copy.format(mark): data}


@pytest.mark.parametrize(
    ("source", "target", "copy"),
    [
        ("a{}.csv", "b.csv", "b.csv"),
        ("a{}.csv", "new/", "new/a{}.csv"),
        ("d{}", "e", "e/x"),
        ("d{}", "e/", "e/d{}/x"),
        ("d{}/", "e/", "e/x"),
    ],
)
def test_transfers_in_both_directions(
    fs: LakeFileSystem, local: Path, mark: str, *, source: str, target: str, copy: str
) -> None:
    source = source.format(mark)
    recursive = source.startswith("d")
    expected = {copy.format(mark): b"below marked" if recursive else b"marked"}
    fs.put(f"{local}/{source}", f"{MAIN}/sent/{target}", recursive=recursive)
    assert contents(fs, f"{MAIN}/sent") == expected
    got = local / "got"
    fs.get(f"{MAIN}/{source}", f"{got}/{target}", recursive=recursive)
    files = [file for file in got.rglob("*") if file.is_file()]
    assert {str(file.relative_to(got)): file.read_bytes() for file in files} == expected


def test_a_directory_is_not_transferred_without_recursion(
    fs: LakeFileSystem, local: Path, named: Files, mark: str
) -> None:
    fs.cp(f"{MAIN}/d{mark}", f"{MAIN}/e")
    fs.put(f"{local}/d{mark}", f"{MAIN}/e")
    fs.get(f"{MAIN}/d{mark}", str(local / "got"))
    assert contents(fs, MAIN) == named
    assert not (local / "got").exists()


def test_a_download_stays_below_its_target(fs: LakeFileSystem, tmp_path: Path, mark: str) -> None:
    fs.pipe_file(f"{MAIN}/d{mark}/../../escaped", b"out")
    with pytest.raises(ValueError, match="outside"):
        fs.get(f"{MAIN}/d{mark}", str(tmp_path / "target" / "got"), recursive=True)
    assert not list(tmp_path.rglob("escaped"))

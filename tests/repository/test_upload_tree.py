"""Uploading a directory as a mirror: what is sent and what is removed come from one walk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.base.progress import NoProgress
from lakecli.errors import Refused
from lakecli.repository.transfer.plan import PathAction, PathStep
from lakecli.repository.transfer.walk import LinkPolicy
from lakecli.repository.upload import UploadOptions
from lakecli.repository.upload_tree import UploadReport, files_of, upload_tree
from tests.support.lakes import read, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository
    from lakecli.repository.transfer.walk import WalkedFile

    Walk = Callable[..., Iterator[WalkedFile]]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    root.mkdir()
    for name in ("a", "b", "c"):
        (root / name).write_text(name)
    return root


def mirror(
    repository: Repository, source: Path, options: UploadOptions | None = None
) -> UploadReport:
    options = options or UploadOptions()
    return upload_tree(repository, "main", b"p", source=source, options=options, delete=True)


def plan(repository: Repository, source: Path) -> list[PathStep]:
    steps: list[PathStep] = []
    options = UploadOptions()
    where = (repository, "main", b"p")
    upload_tree(*where, source=source, options=options, delete=True, listed=steps.append)
    return steps


def first_walk_misses(monkeypatch: pytest.MonkeyPatch, name: bytes) -> list[str]:
    """Let the first walk of a directory miss a file; return a list with an item for each walk."""
    real: Walk = files_of
    walks: list[str] = []

    def walk(*args: object) -> Iterator[WalkedFile]:
        walks.append("")
        is_first = len(walks) == 1
        return (found for found in real(*args) if found.relative != name or not is_first)

    monkeypatch.setattr("lakecli.repository.upload_tree.files_of", walk)
    return walks


def test_a_file_that_the_walk_misses_is_not_removed(
    repository: Repository, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror(repository, source)
    walks = first_walk_misses(monkeypatch, b"b")
    done = mirror(repository, source)
    assert (done.uploaded, done.unchanged, done.deleted) == (0, 2, 0)
    assert read(repository, "main").keys() == {b"p/a", b"p/b", b"p/c"}
    assert len(walks) == 1


def test_a_plan_removes_no_file_that_the_walk_misses(
    repository: Repository, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror(repository, source)
    walks = first_walk_misses(monkeypatch, b"b")
    steps = plan(repository, source)
    assert {each.action for each in steps} == {PathAction.UNCHANGED}
    assert len(walks) == 1


def test_a_file_that_is_made_during_the_upload_is_not_removed(
    repository: Repository, source: Path
) -> None:
    stage(repository, "main", {b"p/late": b"late", b"p/gone": b"gone"})

    class MakesFile(NoProgress):
        def expect(self, *, items: int = 0, size: int = 0, parts: int = 0) -> None:
            (source / "late").write_text("late")

    done = mirror(repository, source, UploadOptions(progress=MakesFile()))
    assert done.deleted == 1
    assert read(repository, "main").keys() == {b"p/a", b"p/b", b"p/c", b"p/late"}


def test_a_directory_or_an_impossible_name_is_no_file_of_the_name(
    repository: Repository, source: Path
) -> None:
    names = [b"p/d", b"p/d/", b"p/a/", b"p/a/x", b"p//a", b"p/d/../a", b"p/" + b"n" * 300]
    # Only an empty object stands for its directory.
    stage(repository, "main", {**dict.fromkeys(names, b"old"), b"p/d/": b""})
    (source / "d").mkdir()
    assert mirror(repository, source).deleted == 6
    assert read(repository, "main").keys() == {b"p/a", b"p/b", b"p/c", b"p/d/"}


def test_a_link_that_is_left_out_keeps_the_object_of_its_name(
    repository: Repository, source: Path
) -> None:
    stage(repository, "main", {b"p/link": b"old"})
    (source / "link").symlink_to("a")
    done = mirror(repository, source, UploadOptions(links=LinkPolicy.SKIP))
    assert (done.uploaded, done.deleted) == (3, 0)


def test_a_file_that_cannot_be_described_is_not_removed(
    repository: Repository, source: Path
) -> None:
    stage(repository, "main", {b"p/loop/x": b"old"})
    (source / "loop").symlink_to("loop")
    done = mirror(repository, source, UploadOptions(links=LinkPolicy.SKIP))
    assert (done.uploaded, done.deleted) == (3, 0)


def test_where_much_is_missing_a_second_walk_must_find_the_same(
    repository: Repository, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage(repository, "main", dict.fromkeys([b"p/c", b"p/gone"], b"old"))
    before = read(repository, "main")
    walks = first_walk_misses(monkeypatch, b"a")
    with pytest.raises(Refused, match="lacks 1 of 2 objects of the branch, and a second walk"):
        plan(repository, source)
    walks.clear()
    with pytest.raises(Refused, match="a second walk found other files"):
        mirror(repository, source)
    assert read(repository, "main") == before
    walks.append("")
    assert mirror(repository, source).deleted == 1
    assert len(walks) == 5


def test_where_little_is_missing_one_walk_is_enough(
    repository: Repository, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10):
        (source / f"f{number}").write_text("f")
    mirror(repository, source)
    (source / "b").unlink()
    walks = first_walk_misses(monkeypatch, b"none")
    assert mirror(repository, source).deleted == 1
    assert len(walks) == 1

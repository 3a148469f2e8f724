"""Include and exclude patterns, and plans of transfers."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import pytest

from lakecli.errors import NotFound, UsageError
from lakecli.repository.commit import commit
from lakecli.repository.diff import diff_uncommitted
from lakecli.repository.download import DownloadOptions
from lakecli.repository.download_tree import download_tree
from lakecli.repository.transfer.ignore_patterns import Selection
from lakecli.repository.transfer.plan import ObjectTally, PathAction, PlanTotals
from lakecli.repository.upload import UploadOptions
from lakecli.repository.upload_tree import upload_tree
from tests.support.lakes import read, stage
from tests.support.recorded_progress import RecordedProgress

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakecli.repository.contract import Repository

PATHS = (
    b"a.csv",
    b"a.txt",
    b"raw/b.csv",
    b"raw/deep/c.csv",
    b"raw/deep/c.parquet",
    b"sub/raw/d.csv",
    b".hidden/e",
    b"caf\xc3\xa9/f.csv",
    b"\xff\xfe.csv",
    b"#note",
    b"!bang",
    b"a[1].csv",
)


def taken(include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> set[bytes]:
    selection = Selection(include, exclude)
    return {path for path in PATHS if selection.takes(path)}


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        ((), (), set(PATHS)),
        (("*.csv",), (), {path for path in PATHS if path.endswith(b".csv")}),
        (("/*.csv",), (), {b"a.csv", b"\xff\xfe.csv", b"a[1].csv"}),
        (("raw/",), (), {path for path in PATHS if b"raw/" in path}),
        (("/raw",), (), {path for path in PATHS if path.startswith(b"raw/")}),
        (("raw/*.csv",), (), {b"raw/b.csv"}),
        (("raw/**/*.csv",), (), {b"raw/b.csv", b"raw/deep/c.csv"}),
        (("**/deep/*",), (), {b"raw/deep/c.csv", b"raw/deep/c.parquet"}),
        (
            ("?.csv",),
            (),
            {b"a.csv", b"raw/b.csv", b"raw/deep/c.csv", b"sub/raw/d.csv"} | {b"caf\xc3\xa9/f.csv"},
        ),
        (("*.txt", "*.parquet"), (), {b"a.txt", b"raw/deep/c.parquet"}),
        ((), ("*.csv", "/raw/", ".*"), {b"a.txt", b"#note", b"!bang"}),
        (("*.csv",), ("raw/",), {b"a.csv", b"caf\xc3\xa9/f.csv", b"\xff\xfe.csv", b"a[1].csv"}),
        (("raw/", "!*.parquet"), (), {b"raw/b.csv", b"raw/deep/c.csv", b"sub/raw/d.csv"}),
        (("\\#note", "\\!bang"), (), {b"#note", b"!bang"}),
        (("a[[]1].csv",), (), {b"a[1].csv"}),
        (("café/",), (), {b"caf\xc3\xa9/f.csv"}),
        (("none",), (), set()),
    ],
)
def test_patterns_select_paths(
    include: tuple[str, ...], exclude: tuple[str, ...], expected: set[bytes]
) -> None:
    assert taken(include, exclude) == expected


@pytest.mark.parametrize("pattern", ["", "#comment", "  ", "a\nb", "/"])
def test_a_pattern_that_matches_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError, match="pattern"):
        Selection([pattern])
    with pytest.raises(UsageError, match="pattern"):
        Selection((), ["*.csv", pattern])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    for name, text in {"a.txt": "one", "b/c.csv": "four", "b/d": "12345", "skip/e": "x"}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def totals(transfer: Callable[..., object]) -> PlanTotals:
    plan = PlanTotals()
    transfer(listed=plan.count)
    return plan


def test_an_upload_takes_the_selected_files(repository: Repository, source: Path) -> None:
    (source / "skip/link").symlink_to("e")  # excluded, so it is no failure
    options = UploadOptions(selection=Selection((), ["skip/"]))
    report = upload_tree(repository, "main", b"p", source=source, options=options)
    assert (report.uploaded, report.excluded, report.failures) == (3, 2, [])
    assert set(read(repository, "main")) == {b"p/a.txt", b"p/b/c.csv", b"p/b/d"}


def test_an_upload_plan_agrees_with_the_upload(repository: Repository, source: Path) -> None:
    upload_tree(repository, "main", b"p", source=source, options=UploadOptions())
    commit(repository, "main", message="m", committer="me")
    (source / "new").write_text("new")
    (source / "b/c.csv").write_text("FOUR")
    (source / "b/d").write_text("longer than before")
    (source / "pipe").symlink_to("nowhere")
    before = list(repository.store.list())
    options = UploadOptions(selection=Selection((), ["skip/"]), parallelism=2)
    plan = totals(partial(upload_tree, repository, "main", b"p", source=source, options=options))
    assert plan.tallies[PathAction.NEW] == ObjectTally(1, 3)
    assert plan.tallies[PathAction.CHANGED] == ObjectTally(2, 4 + 18)
    assert plan.tallies[PathAction.UNCHANGED] == ObjectTally(1, 3)
    assert plan.tallies[PathAction.EXCLUDED] == ObjectTally(1, 1)
    assert plan.failures == [(os.fsencode(source / "pipe"), "a symbolic link")]
    assert list(repository.store.list()) == before
    with diff_uncommitted(repository, "main") as differences:
        assert list(differences) == []
    typed = UploadOptions(content_type="text/x-other")
    retyped = partial(upload_tree, repository, "main", b"p", source=source, options=typed)
    assert totals(retyped).tallies[PathAction.UNCHANGED].count == 0
    with pytest.raises(NotFound):
        upload_tree(repository, "main", b"", source=source / "none", options=options, listed=print)


def test_a_download_takes_the_selected_objects(
    repository: Repository, source: Path, tmp_path: Path
) -> None:
    upload_tree(repository, "main", b"p", source=source, options=UploadOptions())
    progress = RecordedProgress()
    options = DownloadOptions(selection=Selection(["*.csv", "/a.txt"]), progress=progress)
    report = download_tree(repository, "main", b"p", target=tmp_path / "t", options=options)
    assert (report.downloaded, report.excluded) == (2, 2)
    assert progress.expected == [(2, 7)]
    assert {path.name for path in (tmp_path / "t").rglob("*") if path.is_file()} == {
        "a.txt",
        "c.csv",
    }


def test_a_download_plan_agrees_with_the_download(
    repository: Repository, source: Path, tmp_path: Path
) -> None:
    upload_tree(repository, "main", b"p", source=source, options=UploadOptions())
    target = tmp_path / "t"
    options = DownloadOptions(selection=Selection((), ["skip/"]), parallelism=2)
    plan = totals(partial(download_tree, repository, "main", b"p", target=target, options=options))
    assert (
        plan.tallies[PathAction.NEW],
        plan.tallies[PathAction.CHANGED],
        plan.tallies[PathAction.UNCHANGED],
    ) == (ObjectTally(3, 12), ObjectTally(), ObjectTally())
    assert not target.exists()
    download_tree(repository, "main", b"p", target=target, options=options)
    (target / "a.txt").write_text("two")
    (target / "b/d").unlink()
    (target / "b/d").mkdir()
    plan = totals(partial(download_tree, repository, "main", b"p", target=target, options=options))
    assert plan.tallies[PathAction.CHANGED] == ObjectTally(2, 8)
    assert plan.tallies[PathAction.UNCHANGED] == ObjectTally(1, 4)
    assert plan.tallies[PathAction.EXCLUDED] == ObjectTally(1, 1)
    assert (target / "a.txt").read_text() == "two"


def test_own_files_are_neither_uploaded_nor_removed(repository: Repository, source: Path) -> None:
    for name in (".lakefs_ref.yaml", "b/.DS_Store", ".lakecli-incoming/1", "b/.lakecli-7.tmp"):
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text("own")
    stage(repository, "main", {b"p/.DS_Store": b"uploaded by others", b"p/gone": b"1"})
    options = UploadOptions()
    plan = totals(partial(upload_tree, repository, "main", b"p", source=source, options=options))
    assert plan.tallies[PathAction.NEW].count == 4
    done = upload_tree(repository, "main", b"p", source=source, options=options, delete=True)
    assert (done.uploaded, done.deleted) == (4, 1)
    assert b"p/.DS_Store" in read(repository, "main")
    names = [b".lakefs_ref.yaml"]
    done = upload_tree(repository, "main", b"q", source=source, options=options, names=names)
    assert (done.left_out, done.uploaded) == (names, 0)

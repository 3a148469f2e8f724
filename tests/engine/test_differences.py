"""A diff by any runner yields the same as a diff in this process, in the same order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.layout import SSTABLES
from lakecli.committed.diff import changed_ranges
from lakecli.engine import scratch
from lakecli.engine.differences import compare_by
from lakecli.engine.runner import LocalRunner
from lakecli.errors import IntegrityError
from lakecli.repository import branch
from lakecli.repository.commit import commit
from lakecli.repository.diff import TreesToCompare, diff_refs
from tests.support.lakefs_entries import stage_lakefs
from tests.support.lakes import make_repository, open_lake, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from lakecli.engine.runner import Runner
    from lakecli.repository.contract import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    """Two branches that each changed a thousand paths, some of them the same."""
    with open_lake(tmp_path) as lake:
        made = make_repository(lake, tmp_path)
        paths = [b"p/%04d" % number for number in range(2_000)]
        stage(made, "main", dict.fromkeys(paths, b"0"))
        commit(made, "main", message="base", committer="me")
        branch.create(made, "dev", source="main")
        stage(made, "main", dict.fromkeys(paths[:1_000], b"1") | dict.fromkeys(paths[990:1_000]))
        commit(made, "main", message="main", committer="me")
        stage(made, "dev", dict.fromkeys(paths[900:1_900], b"2") | {b"q\xff\n": b"3", b"z": b"4"})
        stage_lakefs(made, "dev", {paths[950]: b"1"})
        commit(made, "dev", message="dev", committer="me")
        yield made


class Backwards(LocalRunner):
    """A runner whose results come in the wrong order."""

    def run(self, task: Callable[[Any], Any], parts: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        return iter(list(super().run(task, parts))[::-1])


@pytest.fixture(
    params=[
        "one",
        "threads",
        "backwards",
        pytest.param("spark", marks=pytest.mark.xdist_group("spark")),
    ]
)
def runner(request: pytest.FixtureRequest) -> Runner:
    if request.param == "spark":
        found: Runner = request.getfixturevalue("spark_runner")
        return found
    if request.param == "backwards":
        return Backwards()
    return LocalRunner(parallelism=1 if request.param == "one" else 4)


def said(
    repository: Repository, runner: Runner | None, *refs: str, **options: Any
) -> list[tuple[str, bytes, bool]]:
    def by_runner(compared: TreesToCompare) -> Any:
        assert runner is not None
        return compare_by(repository, compared, runner=runner, entries=100)

    compare = None if runner is None else by_runner
    with diff_refs(repository, *refs, compare=compare, **options) as found:
        return [(each.type, each.path, each.unlike_checksums) for each in found]


def test_runners_yield_the_same_differences(
    repository: Repository, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "WAITING_SIZE", 100)
    stage(repository, "dev", {b"p/0001": None, b"p/0002": b"staged", b"zz": b"staged"})
    for refs, options in (
        (("main", "dev"), {}),
        (("main", "dev"), {"two_way": True}),
        (("main", "dev$"), {"two_way": True, "prefix": b"p/00"}),
        (("main", "main"), {}),
    ):
        expected = said(repository, None, *refs, **options)
        assert said(repository, runner, *refs, **options) == expected
    compared = said(repository, runner, "main", "dev")
    assert len(compared) == 1_002
    assert [path for _, path, is_unlike in compared if is_unlike] == [b"p/0950"]


def test_damage_is_reported(repository: Repository, tmp_path: Path) -> None:
    for path in (tmp_path / "namespace" / SSTABLES).iterdir():
        if b"typemetaranges" not in path.read_bytes() and path.name != "dummy":
            path.unlink()
    with pytest.raises(IntegrityError, match="missing from"):
        said(repository, LocalRunner(parallelism=2), "main", "dev")


def test_changed_ranges_are_counted(repository: Repository) -> None:
    trees = repository.trees

    def seen(compared: TreesToCompare) -> Any:
        left, right = trees.metarange(compared.left), trees.metarange(compared.right)
        counts.append(len(changed_ranges(left, right)))
        ours, theirs = ({each.id for each in tree.records()} for tree in (left, right))
        counts.append(len(ours ^ theirs))
        return iter(())

    counts: list[int] = []
    with diff_refs(repository, "main", "dev", compare=seen):
        assert counts[0] == counts[1] > 100

"""Imports on Spark make the same trees as in this process."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.engine.runner import LocalRunner, StoreLocation
from lakecli.engine.scratch import Scratch
from lakecli.engine.spark_runner import SparkRunner
from lakecli.errors import ConflictError, IntegrityError
from lakecli.imports import dry_run, manifest, sorting
from lakecli.imports.address_checks import Verify
from lakecli.imports.job import import_objects, preview
from lakecli.imports.report import ImportOptions, ImportReport
from lakecli.imports.sources import open_source
from lakecli.repository import branch
from lakecli.repository.commit import commit
from lakecli.repository.transfer.plan import PathAction
from lakecli.repository.transfer.walk import LinkPolicy
from tests.imports.lists import row_of, write_csv, write_parquet
from tests.support.lakes import make_repository, open_lake, stage
from tests.support.recorded_progress import RecordedProgress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.engine.runner import Runner
    from lakecli.repository.contract import Repository

pytestmark = pytest.mark.xdist_group("spark")

COUNT = 3_000


class Cluster(SparkRunner):
    """An embedded Spark that claims to run on other machines."""

    shares_disk = False


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """A repository whose branches have objects beside and below ``p``."""
    monkeypatch.setattr(manifest, "ROWS_PER_PART", 500)
    monkeypatch.setattr(sorting, "PART_ROWS", 1_024)
    monkeypatch.setattr(sorting, "ROWS_PER_INTERVAL", 500)
    with open_lake(tmp_path) as lake:
        made = make_repository(lake, tmp_path)
        base = {b"p/%05d" % n: b"%d" % n for n in range(0, COUNT, 3)}
        stage(made, "main", base | {b"a%03d" % n: b"" for n in range(100)} | {b"q": b"q"})
        commit(made, "main", message="base", committer="c")
        yield made


def rows() -> list[dict[str, Any]]:
    return [row_of(f"{n:05d}", n % 50) for n in range(1, COUNT, 2)]


def run(
    repository: Repository, name: str, source: Path, runner: Runner, **options: Any
) -> ImportReport:
    branch.create(repository, name, source="main")
    return import_objects(
        repository,
        name,
        b"p",
        source=open_source(repository, str(source), links=LinkPolicy.FAIL),
        runner=runner,
        committer="c",
        options=ImportOptions(**{"verify": Verify.NONE, **options}),
    )


@pytest.mark.parametrize(
    ("form", "replaces"), [("ordered.parquet", True), ("mixed.parquet", False), ("mixed.csv", True)]
)
def test_every_runner_makes_the_same_tree(
    repository: Repository,
    tmp_path: Path,
    spark: Any,
    form: str,
    replaces: bool,  # noqa: FBT001
) -> None:
    found = rows()
    if form.startswith("mixed"):
        random.Random(1).shuffle(found)
    write = write_csv if form.endswith("csv") else write_parquet
    source = write(tmp_path / form, found)
    reports = [
        run(repository, name, source, runner, replaces=replaces)
        for name, runner in (
            ("local", LocalRunner()),
            ("embedded", SparkRunner(spark)),
            ("cluster", Cluster(spark)),
        )
    ]
    assert len({report.commit.metarange_id for report in reports if report.commit}) == 1
    assert all(report.tally == reports[0].tally for report in reports)
    assert reports[0].tally.objects == len(found)
    assert reports[0].tally.unchanged == 0
    assert reports[-1].parts > 1


def test_a_directory_on_spark(repository: Repository, tmp_path: Path, spark: Any) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for n in range(20):
        (source / f"{n}").write_bytes(os.urandom(n))
    (source / "unreadable").symlink_to("nowhere")
    report = run(repository, "broken", source, SparkRunner(spark))
    assert [failure.path for failure in report.failures] == [b"p/unreadable"]
    (source / "unreadable").unlink()
    reports = [
        run(repository, f"{name}-{copies}", source, runner, copies=copies)
        for name, runner in (("local", LocalRunner()), ("spark", SparkRunner(spark)))
        for copies in (False, True)
    ]
    trees = [report.commit.metarange_id for report in reports if report.commit]
    assert trees[:2] == trees[2:]
    assert trees[0] != trees[1]


def test_duplicates_on_a_cluster(repository: Repository, tmp_path: Path, spark: Any) -> None:
    source = write_csv(tmp_path / "x.csv", [*rows(), row_of("00007", 3)])
    with pytest.raises(ConflictError) as caught:
        run(repository, "x", source, Cluster(spark))
    assert caught.value.paths == (b"p/00007",)


def test_missing_objects_on_spark(repository: Repository, tmp_path: Path, spark: Any) -> None:
    found = [row_of(f"{n:02d}", 1) for n in range(40)]
    (tmp_path / "there").write_bytes(b"x")
    for row in found:
        row["physical_address"] = f"local://{tmp_path}/there"
    found[23]["physical_address"] = f"local://{tmp_path}/missing"
    source = write_parquet(tmp_path / "x.parquet", found, group=20)
    report = run(repository, "x", source, SparkRunner(spark), verify=Verify.ALL)
    assert [failure.path for failure in report.failures] == [b"p/23"]
    assert (report.verified, report.commit) == (40, None)


def test_bad_values_on_a_cluster(repository: Repository, tmp_path: Path, spark: Any) -> None:
    source = write_csv(tmp_path / "x.csv", [row_of("a", 1) | {"size": "many"}])
    with pytest.raises(IntegrityError, match="does not contain integers"):
        run(repository, "x", source, Cluster(spark))


def test_an_interrupted_import_on_a_cluster_continues(
    repository: Repository, tmp_path: Path, spark: Any
) -> None:
    """Parts that were finished before an interruption are not imported again."""
    found = rows()
    random.Random(1).shuffle(found)
    source = write_parquet(tmp_path / "x.parquet", found)
    seen = 0

    def interrupt(_items: int) -> None:
        nonlocal seen
        seen += 1
        if seen == 2:
            raise KeyboardInterrupt

    runner = Cluster(spark)
    with pytest.raises(KeyboardInterrupt):
        run(repository, "first", source, runner, progress=RecordedProgress(interrupt))
    branch.delete(repository, "first")
    report = run(repository, "first", source, runner)
    assert report.resumed == 2
    whole = run(repository, "second", source, LocalRunner())
    assert report.commit is not None
    assert whole.commit is not None
    assert report.commit.metarange_id == whole.commit.metarange_id
    assert report.tally == whole.tally


@pytest.mark.parametrize("form", ["ordered.parquet", "mixed.csv"])
@pytest.mark.parametrize("replaces", [True, False])
def test_every_runner_lists_the_same_paths(
    repository: Repository,
    tmp_path: Path,
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    *,
    replaces: bool,
) -> None:
    monkeypatch.setattr(dry_run, "PIECE_STEPS", 100)
    found = [*rows(), row_of("x" * 2_000, 1), row_of("00001x", 1), row_of("zz", 1)]
    for row in found[3::7]:
        row["physical_address"] = f"nowhere/{row['path']}"
    found.sort(key=lambda row: str(row["path"]))
    if form.startswith("mixed"):
        random.Random(1).shuffle(found)
    write = write_csv if form.endswith("csv") else write_parquet
    source = write(tmp_path / form, found)
    scratch = Scratch(StoreLocation.of(repository), b"r" * 16)
    results = []
    for runner in (
        LocalRunner(),
        LocalRunner(parallelism=3),
        SparkRunner(spark),
        Cluster(spark),
        Cluster(spark, scratch=scratch),
    ):
        with preview(
            repository,
            "main",
            b"p",
            source=open_source(repository, str(source), links=LinkPolicy.FAIL),
            runner=runner,
            options=ImportOptions(verify=Verify.NONE, replaces=replaces),
        ) as (report, steps):
            results.append((list(steps), report.failed, report.failures, report.tally))
            assert report.parts > 1
    assert all(result == results[0] for result in results[1:])
    first, failed, _, tally = results[0]
    assert [step.path for step in first] == sorted(step.path for step in first)
    counts = Counter(step.action for step in first)
    assert counts[PathAction.FAILED] == failed > 200
    assert counts[PathAction.NEW] == tally.added > 500
    assert counts[PathAction.CHANGED] == tally.changed > 200
    assert counts[PathAction.DELETED] == tally.removed
    assert bool(tally.removed) == replaces

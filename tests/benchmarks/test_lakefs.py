"""In and out of lakeFS: a namespace of a million entries, and a dump of ten thousand commits."""

from __future__ import annotations

import os
import shutil
import tracemalloc
from datetime import UTC, datetime, timedelta
from statistics import median
from time import process_time
from typing import TYPE_CHECKING, NamedTuple

import pytest

from lakecli.ids import WriteId
from lakecli.kv.tracking import Tracked, TrackingStore
from lakecli.layout import SSTABLES
from lakecli.model import EMPTY_TREE, RefKind
from lakecli.refs.ref_store import RefStore
from lakecli.repository import repo
from lakecli.repository.core.commit_record import describe_commit, initial_commit
from lakecli.repository.lakefs.lists import write_dump
from lakecli.repository.lakefs.restore import clone_from_lakefs
from lakecli.repository.refs_dump import refs_dump
from lakecli.repository.repo import DEFAULT_RANGE_ENTRIES
from tests.benchmarks.lake import MAIN
from tests.benchmarks.measure import KIB, repeat

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

    from lakecli.ids import MetarangeId
    from lakecli.model import Commit
    from lakecli.repository.lakefs.manifest import RefsManifest
    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Large, Place

COMMITS = 10_000
ROUNDS = 3
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
NAME = "from-lakefs"


class Foreign(NamedTuple):
    """A namespace whose refs are only in a dump."""

    directory: Path
    manifest: RefsManifest


def history(tree: MetarangeId) -> list[Commit]:
    """Return commits as a job makes them, which all have the same tree."""
    commits = [initial_commit(BEGINNING)]
    for number in range(1, COMMITS):
        commits.append(
            describe_commit(
                parents=commits[-1:],
                metarange_id=tree,
                message=f"Load the orders of day {number}",
                committer="airflow",
                created_at=BEGINNING + timedelta(minutes=number),
                metadata={"job": f"orders-{number}", "git_commit_id": f"{number:040x}"},
            )
        )
    return commits


@pytest.fixture(scope="module")
def foreign(million: Large, place: Place) -> Foreign:
    """The tree of a million entries, under a long history of commits that change nothing."""
    directory = place.namespaces / NAME
    with million.open() as repository, repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        tree = refs.get_commit(refs.get_branch(MAIN).commit_id).metarange_id
        source = place.namespaces / million.name / SSTABLES
        shutil.copytree(source, directory / SSTABLES, copy_function=os.link)
        commits = history(tree)
        manifest = write_dump(
            repository.trees,
            commits=sorted(commits, key=lambda commit: commit.id),
            branches={MAIN: commits[-1].id},
            tags={},
            default_branch=MAIN,
        )
    for path in source.iterdir():
        if not (directory / SSTABLES / path.name).exists():
            os.link(path, directory / SSTABLES / path.name)
    return Foreign(directory, manifest)


def take_over(place: Place, foreign: Foreign) -> float:
    """Clone the namespace, and return the processor seconds."""
    with place.open() as lake:
        before = process_time()
        clone_from_lakefs(
            lake,
            str(foreign.directory),
            NAME,
            foreign.manifest,
            take_over=True,
            range_entries=DEFAULT_RANGE_ENTRIES,
        )
        return process_time() - before


def forget(place: Place, foreign: Foreign) -> None:
    with place.open() as lake:
        repo.delete(lake, NAME)
    shutil.rmtree(foreign.directory / "_lakecli")


def test_clone(benchmark: BenchmarkFixture, report: Report, place: Place, foreign: Foreign) -> None:
    taken: list[float] = []

    def clone() -> None:
        taken.append(take_over(place, foreign))
        forget(place, foreign)

    repeat(benchmark, clone, rounds=ROUNDS)
    report.check("clone of a lakeFS dump", median(taken), f"{COMMITS:,} commits, 1M entries")
    tracemalloc.start()
    try:
        take_over(place, foreign)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        forget(place, foreign)
    report.check("clone of a lakeFS dump, memory", peak / KIB / COMMITS)


def test_refs_dump(benchmark: BenchmarkFixture, report: Report, place: Place) -> None:
    place.create("dumped")
    with place.open() as lake:
        repository = lake.repository("dumped")
        with lake.kv.write() as txn:
            refs, commits = RefStore(txn, repository.key), history(EMPTY_TREE)
            for commit in commits:
                refs.put_commit(commit)
            head = commits[-1].id
            refs.put_branch(refs.get_branch(MAIN)._replace(commit_id=head))
            tracked = Tracked(RefKind.BRANCH, MAIN, head, 1, WriteId("ab" * 16), "1")
            TrackingStore(txn, repository.key).put(tracked)
    taken: list[float] = []

    def dump() -> None:
        with place.open() as lake:
            repository = lake.repository("dumped")
            before = process_time()
            refs_dump(repository)
            taken.append(process_time() - before)

    repeat(benchmark, dump, rounds=ROUNDS)
    report.check("refs-dump of 10,000 commits", median(taken))

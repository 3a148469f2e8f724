"""Marking garbage: commits that share most of their ranges, each of which is read once."""

from __future__ import annotations

from collections import Counter
from statistics import median
from time import perf_counter, process_time
from typing import TYPE_CHECKING, NamedTuple

from lakecli.layout import SSTABLES
from lakecli.pipeline.gc.run import GcOptions, advance
from lakecli.pipeline.runner import LocalRunner
from lakecli.repository.commit import commit
from lakecli.repository.core.stager import Stager
from tests.benchmarks import dataset
from tests.benchmarks.lake import MAIN, Large
from tests.benchmarks.measure import repeat
from tests.support.lakes import unclaimed

if TYPE_CHECKING:
    import pytest
    from pytest_benchmark.fixture import BenchmarkFixture

    from lakecli.pipeline.gc.run import GcReport
    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Place

COUNT = 500_000
COMMITS = 20
ROUNDS = 3
CHANGED = 4
"""Ranges that each commit changes, of about 90: nearly one in twenty."""


class Marked(NamedTuple):
    """The result and the cost of one mark."""

    done: GcReport
    tables: dict[str, int]
    wall: float
    cpu: float


def test_mark(
    benchmark: BenchmarkFixture, report: Report, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = Large(place, "gc", COUNT)
    large.create()
    large.commit_all()
    with large.open() as repository:
        for number in range(COMMITS - 1):
            places = [(number + each * COMMITS) % 80 for each in range(CHANGED)]
            paths = sorted({dataset.key_of(COUNT // 80 * each) for each in places})
            value = dataset.changed_value(number.to_bytes(16))
            Stager(repository, MAIN, kind="upload").write(
                unclaimed([(path, value) for path in paths])
            )
            commit(repository, MAIN, message="m", committer="benchmark")
    marked: list[Marked] = []
    repeat(benchmark, lambda: marked.append(mark(large, monkeypatch)), rounds=ROUNDS)

    for each in marked:
        assert set(each.tables.values()) == {1}
        assert len(each.tables) == each.done.ranges + COMMITS
        assert each.done.commits == COMMITS + 1
    done = marked[0].done
    whole = COUNT * COMMITS
    shared = 1 - done.entries / whole
    most = max(marked[0].tables.values())
    report.check("gc mark, reads of a range", most, f"{done.ranges} ranges")
    report.check(
        "gc mark",
        done.entries / median(each.cpu for each in marked),
        f"{done.entries:,} entries for {whole:,} in all commits ({shared:.0%} not read again), "
        f"{done.entries / median(each.wall for each in marked):,.0f}/s by the wall clock",
    )


def mark(large: Large, monkeypatch: pytest.MonkeyPatch) -> Marked:
    """Mark once, from a newly opened repository, and count the reads of each table."""
    with large.open() as repository:
        store = repository.store
        read: Counter[str] = Counter()
        get = store.get

        def counting(key: str, *, start: int = 0, length: int | None = None) -> bytes:
            read[key] += 1
            return get(key, start=start, length=length)

        monkeypatch.setattr(store, "get", counting)
        wall, cpu = perf_counter(), process_time()
        done = advance(repository, LocalRunner(), GcOptions(dry_run=True))
        wall, cpu = perf_counter() - wall, process_time() - cpu
    tables = {key: times for key, times in read.items() if key.startswith(SSTABLES)}
    return Marked(done, tables, wall, cpu)

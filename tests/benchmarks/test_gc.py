"""Marking garbage: commits that share most of their ranges, each of which is read once."""

from __future__ import annotations

from collections import Counter
from time import perf_counter, process_time
from typing import TYPE_CHECKING

from lakecli.layout import SSTABLES
from lakecli.pipeline.gc.run import GcOptions, advance
from lakecli.pipeline.runner import LocalRunner
from lakecli.repository.commit import commit
from lakecli.repository.stage import Stager
from tests.benchmarks import dataset
from tests.benchmarks.lake import MAIN, Large

if TYPE_CHECKING:
    import pytest

    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Place

COUNT = 500_000
COMMITS = 20
CHANGED = 4
"""Ranges that each commit changes: of about 90, not quite one in twenty."""


def test_mark(report: Report, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    large = Large(place, "gc", COUNT)
    large.create()
    large.commit_all()
    with large.open() as repository:
        for number in range(COMMITS - 1):
            places = [(number + each * COMMITS) % 80 for each in range(CHANGED)]
            paths = sorted({dataset.key_of(COUNT // 80 * each) for each in places})
            value = dataset.changed_value(number.to_bytes(16))
            Stager(repository, MAIN, kind="upload").write([(path, value) for path in paths])
            commit(repository, MAIN, message="m", committer="benchmark")
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
    assert set(tables.values()) == {1}
    assert len(tables) == done.ranges + COMMITS
    whole = COUNT * COMMITS
    shared = 1 - done.entries / whole
    assert done.commits == COMMITS + 1
    report.check("gc mark, reads of a range", max(tables.values()), f"{done.ranges} ranges")
    report.check(
        "gc mark",
        done.entries / cpu,
        f"{done.entries:,} entries for {whole:,} in all commits ({shared:.0%} not read again), "
        f"{done.entries / wall:,.0f}/s by the wall clock",
    )

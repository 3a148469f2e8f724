"""What a collection reports, and what it reads in batches."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.layout import data_key
from lakecli.base.model import RefKind
from lakecli.base.progress import NoProgress
from lakecli.gc import roots, run
from lakecli.gc.report import (
    GarbageSummary,
    GarbageTotal,
    GcReport,
    GcStatus,
    RefGarbage,
    fields_of,
)
from lakecli.gc.run import Action
from lakecli.remote.gc_protocol import Phase
from tests.gc.shared import GRACE, LONG, Shared, make_commit, push, upload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DAY = timedelta(days=1)


class Counted(NoProgress):
    """Counts the parts that were finished."""

    parts = expected = 0

    def expect(self, *, items: int = 0, size: int = 0, parts: int = 0) -> None:
        assert items == size == 0
        self.expected += parts

    def advance(self, *, items: int = 0, size: int = 0, parts: int = 0) -> None:
        assert items == size == 0
        self.parts += parts


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    with Shared(tmp_path, "ada", "ben") as made:
        yield made


def test_reports_count_what_was_read_and_what_was_found(shared: Shared) -> None:
    ada, ben = shared.clones
    make_commit(ada, {b"a": b"1", b"b": b"22"})
    make_commit(ada, {b"c": b"333"})
    push(ada)
    upload(ada, b"left", b"4444")
    upload(ada, b"kept", b"55555")
    shared.time.pass_by(LONG)
    progress = Counted()
    report = shared.collect(ben, progress=progress)
    assert len(shared.tables) == 4
    # The trees, their ranges, and the listing of the data objects.
    assert progress.parts == progress.expected == 3
    garbage = GarbageTotal("data", 2, 9)
    since, sweep_at = report.status.since, report.status.sweep_at
    summary = GarbageSummary(
        (RefGarbage(RefKind.BRANCH, "main", deleted=False, trees=0, former_trees=0),), 0, 2
    )
    # With the commit of the empty tree. The range with a and b is in two trees and read once.
    assert report == GcReport(
        action=Action.CONDEMNED,
        status=GcStatus(Phase.CONDEMNED, 1, GRACE, since, sweep_at, None, summary=summary),
        garbage=(garbage,),
        commits=3,
        entries=3,
        ranges=2,
        objects=5,
        size=15,
        tables=4,
        summary=summary,
    )
    assert str(summary) == "main: 0; 2 objects that no ref reaches"
    assert since is not None
    assert sweep_at == since + GRACE + timedelta(hours=1)
    shared.time.pass_by(DAY)
    upload(ben, b"again", b"55555")
    shared.time.pass_by(LONG)
    report = shared.collect(ben)
    swept = GarbageTotal("data", 1, 4)
    assert (report.action, report.garbage, report.spared) == (Action.SWEPT, (swept,), 1)
    assert (report.status.phase, report.status.sweep_at, report.status.resume_at) == (
        Phase.IDLE,
        None,
        None,
    )
    for name, tally, spared, at in (
        ("condemned", garbage, 0, since),
        ("swept", swept, 1, shared.time.now),
    ):
        saved = json.loads(shared.store.get(f"_lakecli/gc/reports/1-{name}.json"))
        assert abs(datetime.fromisoformat(saved.pop("at")) - at) < timedelta(minutes=2)
        assert saved == {
            "epoch": 1,
            "action": name,
            "spared": spared,
            "tables": 4,
            "summary": fields_of(summary._replace(objects=tally.objects)),
            "garbage": [
                {
                    "kind": "data",
                    "prefix": "data/",
                    "why": tally.why,
                    "objects": tally.objects,
                    "size": tally.size,
                }
            ],
        }


def test_what_is_in_use_is_read_in_batches(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roots, "_BATCH", 2)
    monkeypatch.setattr(run, "_KEPT", 2)
    ada, ben = shared.clones
    staged = [b"staged %d" % number for number in range(5)]
    again = [b"again %d" % number for number in range(5)]
    for contents in staged:
        upload(ada, contents, contents)
    for contents in (*again, b"left"):
        upload(ben, contents, contents)
    shared.time.pass_by(LONG)
    assert shared.collect(ada).garbage == (GarbageTotal("data", 6, 39),)
    shared.time.pass_by(DAY)
    for contents in again:
        upload(ben, b"more " + contents, contents)
    shared.time.pass_by(LONG)
    report = shared.collect(ada)
    assert (report.garbage, report.spared) == ((GarbageTotal("data", 1, 4),), 5)
    assert shared.data == {data_key(blake3_of(each).hex()) for each in (*staged, *again)}

"""Garbage found by joins in this process: the same as by the set, for all that executors do."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

from lakecli.identity import h
from lakecli.layout import data_key
from lakecli.pipeline import data_prefixes
from lakecli.pipeline.gc import join_tasks
from lakecli.pipeline.gc.live import DigestSet
from lakecli.pipeline.gc.marks import MARKS, LostMarks
from lakecli.pipeline.gc.run import Action, GcOptions, advance
from lakecli.pipeline.runner import LocalRunner
from lakecli.progress import Progress
from tests.pipeline.gc.test_joined import Place, collect, contents, grow_old, place
from tests.support.in_process_spark import InProcess
from tests.support.lakes import open_lake

__all__ = ["place"]


@pytest.mark.parametrize("few", [10_000, 100])
def test_joins_condemn_and_delete_the_same(
    place: Place, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(data_prefixes, "FEW", few)
    monkeypatch.setattr(data_prefixes, "OBJECTS_PER_PREFIX", 1)
    monkeypatch.setattr(join_tasks, "_BATCH", 7)
    steps = []
    for runner in (LocalRunner(), place.runner(InProcess())):
        condemned = collect(place.directory, runner, Action.CONDEMNED)
        lists = contents(place.directory, MARKS)
        young = data_key(h(b"299").hex())
        (place.directory / "namespace" / data_key(h(b"298").hex())).unlink()
        os.utime(place.directory / "namespace" / young)
        with open_lake(place.directory) as lake:
            preview = advance(lake.repository("demo"), runner, GcOptions(dry_run=True))
        swept = collect(place.directory, runner, Action.SWEPT)
        assert young in contents(place.directory)
        runner.close()
        steps.append((condemned, lists, preview.garbage, swept, contents(place.directory)))
        monkeypatch.setattr(DigestSet, "add", unused)
        place.restore()
    here, there = steps
    assert here == there
    assert len(here[1]) > 2
    assert here[2] == here[3].garbage
    assert {each.kind: each.objects for each in here[2]}["lakefs"] == 300


def unused(*_: object) -> NoReturn:
    pytest.fail("the set of this process was used")


@pytest.mark.parametrize("joins", [False, True])
def test_progress_ends_at_its_total(place: Place, *, joins: bool) -> None:
    class Counting(Progress):
        expected = done = 0

        def expect(self, *, parts: int = 0, **_: int) -> None:
            self.expected += parts

        def advance(self, *, parts: int = 0, **_: int) -> None:
            self.done += parts

    for expected in (Action.CONDEMNED, Action.SWEPT):
        shown = Counting()
        runner = place.runner(InProcess()) if joins else LocalRunner()
        with runner, open_lake(place.directory) as lake:
            report = advance(lake.repository("demo"), runner, GcOptions(progress=shown))
        assert report.action is expected
        assert shown.done == shown.expected > 1
        grow_old(place.directory)


def test_a_damaged_list_deletes_nothing(place: Place) -> None:
    collect(place.directory, LocalRunner(), Action.CONDEMNED)
    before = contents(place.directory)
    (first, *_) = [
        path for path in (place.directory / "namespace" / MARKS).rglob("data-*") if path.is_file()
    ]
    first.write_bytes(first.read_bytes()[:-1])
    grow_old(place.directory)
    with place.runner(InProcess()) as runner, pytest.raises(LostMarks):
        collect(place.directory, runner, Action.SWEPT)
    assert {key for key in before if key.startswith("data/")} <= contents(place.directory).keys()

"""Garbage found by joins in this process: the same as by the set, for all that executors do."""

from __future__ import annotations

import os
from itertools import chain
from typing import Any, NoReturn

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.layout import DATA, SCRATCH, data_key
from lakecli.base.progress import Progress
from lakecli.engine import runner as places
from lakecli.engine.runner import LocalRunner, OpenStore
from lakecli.engine.scratch import Kept, Scratch, load_value, take_value
from lakecli.engine.spark_runner import SparkRunner
from lakecli.errors import LostRace
from lakecli.gc import live_set
from lakecli.gc.lease import SweepLease
from lakecli.gc.live_set import (
    DigestSet,
    Reading,
    SparkLiveSet,
    counts_rows,
    garbage_of,
    keep_listed,
    open_live,
    rows,
)
from lakecli.gc.run import Action, GcOptions, Sweep
from lakecli.gc.state import DIGEST, MARKS, LostMarks
from lakecli.gc.tasks import ListingPart, PartListing
from lakecli.stores.contract import Version
from tests.gc.shared import advance
from tests.gc.test_spark_live_set import RECORDS, Place, collect, contents, grow_old, place
from tests.support import in_process_spark
from tests.support.in_process_spark import InProcess
from tests.support.lakes import open_lake
from tests.support.memory_store import MemoryStore

__all__ = ["place"]


@pytest.mark.parametrize("few", [10_000, 100])
def test_joins_condemn_and_delete_the_same(
    place: Place, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(places, "FEW", few)
    monkeypatch.setattr(places, "OBJECTS_PER_PREFIX", 1)
    monkeypatch.setattr("lakecli.engine.spark_joins.BATCH_ROWS", 7)
    steps = []
    for runner in (LocalRunner(), place.runner(InProcess())):
        condemned = collect(place.directory, runner, Action.CONDEMNED)
        lists = contents(place.directory, MARKS)
        young = data_key(blake3_of(b"299").hex())
        (place.directory / "namespace" / data_key(blake3_of(b"298").hex())).unlink()
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
def test_progress_ends_at_its_total(
    place: Place, monkeypatch: pytest.MonkeyPatch, *, joins: bool
) -> None:
    class Counting(Progress):
        expected = done = last = 0

        def expect(self, *, parts: int = 0, **_: int) -> None:
            self.expected += parts
            self.last = parts

        def advance(self, *, parts: int = 0, **_: int) -> None:
            self.done += parts

    run = in_process_spark._mapped
    started: list[int] = []

    def count(*arguments: Any) -> Any:
        started.append(1)
        return run(*arguments)

    monkeypatch.setattr(in_process_spark, "_mapped", count)
    for expected in (Action.CONDEMNED, Action.SWEPT):
        started.clear()
        shown = Counting()
        runner = place.runner(InProcess()) if joins else LocalRunner()
        with runner, open_lake(place.directory) as lake:
            report = advance(lake.repository("demo"), runner, GcOptions(), progress=shown)
        assert report.action is expected
        assert shown.done == shown.expected > 1
        assert shown.last == len(started) or not joins
        grow_old(place.directory)


def test_each_digest_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever those in memory are large enough, and what is left by the job that reads them."""
    monkeypatch.setattr(live_set, "_BUFFERED", 2 * DIGEST)
    store = MemoryStore()
    runner = SparkRunner.__new__(SparkRunner)
    runner.scratch = Scratch(OpenStore(store), bytes(16))  # type: ignore[arg-type]
    live = open_live(runner)
    assert isinstance(live, SparkLiveSet)
    for number in range(5):
        live.add(bytes([number]) * DIGEST)
    written = [store.get(info.key) for info in store.list(SCRATCH)]
    assert sorted(filter(None, written)) == [
        bytes(DIGEST) + b"\1" * DIGEST,
        b"\2" * DIGEST + b"\3" * DIGEST,
    ]
    assert live.added == 5


def test_references_that_were_read_here_are_written_too() -> None:
    runner = SparkRunner.__new__(SparkRunner)
    runner.scratch = Scratch(OpenStore(MemoryStore()), bytes(16))  # type: ignore[arg-type]
    live = open_live(runner)
    assert isinstance(live, SparkLiveSet)
    live.add(b"\1" * DIGEST)
    live.add_written(Kept(bytes(32), 2 * DIGEST))
    assert live.added == 3


def test_parts_with_a_prefix_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_set, "digits_for", lambda _store: 3)
    whole, one = (ListingPart(name, 1.0, prefix=DATA) for name in ("all", "ab"))
    one, of_lakefs = one._replace(prefix=f"{DATA}ab/"), ListingPart("x", 1.0)
    pieces = [one._replace(prefix=f"{DATA}ab/{digit}") for digit in "0123456789abcdef"]
    tasks = live_set.tasks_of(MemoryStore(), [whole, one, of_lakefs])
    assert tasks == [(0, whole), *((1, each) for each in pieces), (2, of_lakefs)]


def test_the_keys_of_garbage_follow_from_its_digests() -> None:
    digests = [bytes([number]) * DIGEST for number in (1, 2)]
    records = b"".join(digest + bytes(8) for digest in digests)
    assert list(garbage_of(records, (), ())) == [
        (data_key(digest.hex()), Version("")) for digest in digests
    ]
    found = list(garbage_of(records, ("a", "b"), ("v", "w")))
    assert found == [("a", Version("v")), ("b", Version("w"))]


def test_the_counts_of_all_tasks_of_a_part_are_added() -> None:
    store = MemoryStore()
    scratch = Scratch(OpenStore(store), bytes(16))  # type: ignore[arg-type]
    read = Reading(scratch, "nonce")
    tasks = [[3, 30, 1, "older", 2], [4, 40, 2, "newer", 0], [5, 50, 0, "", 0]]
    batches = [*chain.from_iterable(counts_rows(0, counts) for counts in tasks), *rows(0, RECORDS)]
    (result,) = keep_listed(iter(batches), names=["all", "other"], read=read)
    (body,) = result.column("body").to_pylist()
    found = take_value(scratch, load_value(body))
    assert found == PartListing("all", RECORDS, 12, 120, 3, "newer", 2)


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


def test_the_lease_is_kept_while_nothing_is_known_yet(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken_over(_lease: SweepLease) -> NoReturn:
        raise LostRace("taken over")

    monkeypatch.setattr("lakecli.engine.spark_runner.BEAT", 0.0)
    collect(place.directory, LocalRunner(), Action.CONDEMNED)
    before = contents(place.directory)
    for name in ("_tables", "_rest"):
        monkeypatch.setattr(Sweep, name, lambda *_: [])
    monkeypatch.setattr(SweepLease, "renew_if_due", taken_over)
    monkeypatch.setattr(SweepLease, "delete", unused)
    with place.runner(InProcess()) as runner, pytest.raises(LostRace, match="taken over"):
        collect(place.directory, runner, Action.SWEPT)
    assert {key for key in before if key.startswith("data/")} <= contents(place.directory).keys()

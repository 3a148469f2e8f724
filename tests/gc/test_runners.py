"""Both runners find the same garbage, and read each distinct range once."""

from __future__ import annotations

import json
import os
from collections import Counter
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakecli.base.ids import MetarangeId
from lakecli.base.layout import REPOSITORY, ref_key
from lakecli.base.model import RefKind
from lakecli.engine.runner import LocalRunner
from lakecli.errors import IntegrityError
from lakecli.gc.known_refs import RefsWentBack
from lakecli.gc.live_set import DigestSet
from lakecli.gc.run import GcOptions
from lakecli.gc.state import total_of
from lakecli.repository.commit import commit
from lakecli.repository.lakefs.dump import MANIFEST_KEY, RefsManifest, manifest_fields
from lakecli.repository.lakefs.kept_dumps import confirm_stopped
from lakecli.stores.contract import ANY
from tests.gc.shared import LONG, Shared, advance, push
from tests.support.counting import CountingStore
from tests.support.lakes import make_repository, open_lake, stage, through
from tests.support.memory_store import MemoryBucket

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.engine.spark_runner import SparkRunner
    from lakecli.repository.contract import Repository

COMMITS = 20


def make_history(repository: Repository) -> int:
    """Make commits that share most of their ranges; return the number of distinct ranges."""
    ranges: set[str] = set()
    stage(repository, "main", {b"%05d" % number: b"0" for number in range(600)})
    for number in range(COMMITS):
        stage(repository, "main", {b"%05d" % (31 * number): b"%d" % number})
        made = commit(repository, "main", message="m", committer="me")
        records = repository.trees.metarange(made.metarange_id).records()
        ranges.update(record.id for record in records)
    return len(ranges)


@pytest.mark.parametrize("parallelism", [1, 4])
def test_each_distinct_range_is_read_once(tmp_path: Path, parallelism: int) -> None:
    with Shared(tmp_path, "ada") as shared:
        (ada,) = shared.clones
        count = make_history(ada)
        shared.time.pass_by(LONG)
        counting = CountingStore(shared.bucket)
        ada = through(ada, counting)
        report = advance(ada, LocalRunner(parallelism=parallelism), GcOptions(dry_run=True))
        read = Counter(
            key
            for kind, key in counting.keys
            if kind == "get" and key.startswith("_lakefs/") and key != MANIFEST_KEY
        )
        assert set(read.values()) == {1}
        assert report.ranges == count
        assert report.commits == COMMITS + 1
        assert len(read) == count + COMMITS
        assert count < COMMITS * 5 + 60


@pytest.mark.xdist_group("spark")
def test_spark_finds_the_same(tmp_path: Path, spark_runner: SparkRunner) -> None:
    with open_lake(tmp_path) as lake:
        repository = make_repository(lake, tmp_path)
        make_history(repository)
        for number in range(500):
            repository.store.put_new(f"data/{number % 256:02x}/{number:062x}", b"left")
            repository.store.put_new(f"data/{number % 10:020}/{number:020}", b"lakeFS")
        let_lakefs_be_gone(repository)
        for path in (tmp_path / "namespace").rglob("*"):
            if path.is_file():
                os.utime(path, (1, 1))
        here = advance(repository, LocalRunner(), GcOptions(dry_run=True))
        there = advance(repository, spark_runner, GcOptions(dry_run=True))
        assert here == there
        found = [(each.kind, each.objects) for each in here.garbage]
        assert found == [("data", 500), ("lakefs", 500)]


@pytest.mark.xdist_group("spark")
def test_spark_stops_at_a_ref_that_vanished(tmp_path: Path, spark_runner: SparkRunner) -> None:
    with open_lake(tmp_path) as lake:
        repository = make_repository(lake, tmp_path)
        make_history(repository)
        push(repository)
        repository.store.delete([ref_key(RefKind.BRANCH, "main")])
        with pytest.raises(RefsWentBack, match="'main' is missing"):
            advance(repository, spark_runner, GcOptions())


def let_lakefs_be_gone(repository: Repository) -> None:
    """Make a namespace look as if it had been taken over from a lakeFS that has stopped."""
    push(repository)
    tree = MetarangeId("ab" * 32)
    lists = manifest_fields(RefsManifest(tree, tree, tree))
    claim = json.loads(repository.store.get(REPOSITORY))
    origin = {"origin": {"system": "lakefs", **lists}}
    repository.store.put(REPOSITORY, json.dumps({**claim, **origin}).encode(), ANY)
    confirm_stopped(repository.store)


def test_a_large_namespace_is_listed_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecli.engine.runner.FEW", 100)
    store = CountingStore(MemoryBucket())
    with Shared(tmp_path, "ada", store=store) as shared:
        (ada,) = shared.clones
        store_time = shared.time
        for number in range(300):
            store.put_new(f"data/{number % 256:02x}/{number:062x}", b"left")
        store._bucket._clock = store_time
        store_time.pass_by(timedelta(days=60))
        report = shared.collect(ada)
        assert [(each.kind, each.objects, each.size) for each in report.garbage] == [
            ("data", 300, 1200)
        ]
        listed = [key for kind, key in store.keys if kind == "list" and key.startswith("data/")]
        assert {f"data/{number:02x}/" for number in range(256)} <= set(listed)
        store_time.pass_by(LONG)
        assert shared.collect(ada).garbage == report.garbage
        assert not shared.data


def test_a_set_of_digests_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakecli.gc.live_set._BUFFERED", 1_000)
    digests = [bytes([number % 256]) * 31 + bytes([number // 256]) for number in range(1_000)]
    with closing(DigestSet()) as found:
        for digest in digests[::2]:
            found.add(digest)
        records = b"".join(digest + (7).to_bytes(8) for digest in sorted(digests))
        left = found.without(records)
        assert total_of(left) == (500, 3_500)
        assert {left[at : at + 32] for at in range(0, len(left), 40)} == set(digests[1::2])


def test_a_set_of_digests_that_another_program_deleted_counts_nothing_as_garbage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lakecli.gc.live_set._BUFFERED", 1)
    with closing(DigestSet()) as found:
        for number in range(2):
            found.add(bytes(31) + bytes([number]))
        record = bytes(32) + (7).to_bytes(8)
        assert found.without(record) == b""
        found.add(b"\1" * 32)
        found._path(0).unlink()
        with pytest.raises(IntegrityError, match="another program deleted"):
            found.without(record)
        found.add(bytes(32))
        with pytest.raises(IntegrityError, match="another program deleted"):
            found.without(b"\0" * 31 + b"\1" + (7).to_bytes(8))

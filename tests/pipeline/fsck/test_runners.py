"""A check by any runner has the same findings as one without a runner."""

from __future__ import annotations

import random
from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest

from lakecli.identity import h
from lakecli.layout import DATA, SSTABLES, data_key
from lakecli.objectstore.base import ANY
from lakecli.objectstore.memory.store import MemoryStore
from lakecli.pipeline import fsck as bulk_module
from lakecli.pipeline.fsck import RunnerBulk
from lakecli.pipeline.runner import LocalRunner
from lakecli.pipeline.store_location import OpenStore
from lakecli.repository import tag
from lakecli.repository.check.fsck import fsck
from lakecli.repository.check.thoroughness import Thoroughness
from lakecli.repository.commit import commit
from lakecli.repository.core.data_index import DataIndex
from lakecli.repository.core.findings import FsckCounts
from tests.support.lakes import entry_of, make_repository, open_lake, stage
from tests.support.recorded_progress import RecordedProgress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.pipeline.runner import Runner
    from lakecli.repository.core.findings import Finding
    from lakecli.repository.core.lake import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    """Two hundred objects in some ranges, half of them rewritten once."""
    with open_lake(tmp_path) as lake:
        made = make_repository(lake, tmp_path)
        for round_ in range(2):
            contents = {
                f"p/{n:03d}".encode(): f"{n} {round_ if n % 2 else 0}".encode() for n in range(200)
            }
            for data in contents.values():
                made.store.put_new(entry_of(data).physical_address, data)
            stage(made, "main", contents)
            commit(made, "main", message=str(round_), committer="me")
            tag.create(made, f"v{round_}", "main")
        yield made


@pytest.fixture(
    params=["one", "threads", pytest.param("spark", marks=pytest.mark.xdist_group("spark"))]
)
def runner(request: pytest.FixtureRequest) -> Runner:
    if request.param == "spark":
        found: Runner = request.getfixturevalue("spark_runner")
        return found
    return LocalRunner(parallelism=1 if request.param == "one" else 4)


def damage(repository: Repository, namespace: Path) -> None:
    """Break data objects and ranges in different ways."""
    objects = sorted(path for path in (namespace / DATA).rglob("*") if path.is_file())
    objects[3].unlink()
    objects[30].write_bytes(b"other")
    body = bytearray(objects[60].read_bytes())
    body[0] ^= 1
    objects[60].write_bytes(body)
    tables = sorted(path for path in (namespace / SSTABLES).iterdir() if path.name != "dummy")
    ranges = [path for path in tables if b"typemetaranges" not in path.read_bytes()]
    ranges[0].unlink()
    body = bytearray(ranges[1].read_bytes())
    body[len(body) // 3] ^= 1
    ranges[1].write_bytes(body)
    metaranges = [path for path in tables if path not in ranges]
    metaranges[0].write_bytes(b"")
    stage(repository, "main", {b"staged": b"never written"})


def check(
    repository: Repository, runner: Runner | None, *, sample: float = 1.0
) -> tuple[list[Finding], FsckCounts, int]:
    counts = FsckCounts()
    progress = RecordedProgress()
    bulk = None
    if runner is not None:
        bulk = RunnerBulk(repository, runner, progress=progress, reads_ranges=True)
    how = Thoroughness(hash_data=True, sample=sample, bulk=bulk)
    return list(fsck(repository, counts=counts, thoroughness=how)), counts, progress.items


def test_the_same_findings(
    repository: Repository, runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_module, "PART_OBJECTS", 40)
    monkeypatch.setattr(bulk_module, "PART_RANGES", 3)
    monkeypatch.setattr("lakecli.pipeline.data_prefixes.FEW", 10)
    repository.store.put("data/0aboveall000000000000/0f", b"of lakeFS", ANY)
    findings, counts, told = check(repository, runner)
    assert findings == []
    assert told + 1 == counts.objects == 301
    assert asdict(counts) == asdict(check(repository, None)[1])
    damage(repository, tmp_path / "namespace")
    expected, expected_counts, _ = check(repository, None)
    findings, counts, _ = check(repository, runner)
    assert {each.kind for each in findings} == {"data", "range", "metarange"}
    assert findings == expected
    assert asdict(counts) == asdict(expected_counts)


def test_a_sample(repository: Repository) -> None:
    _, counts, told = check(repository, LocalRunner(), sample=0.2)
    assert 20 < told < 120
    assert counts.objects == 300


@pytest.mark.parametrize("digits", [2, 3])
def test_parts_of_a_listing_have_every_key_once(digits: int) -> None:
    store = MemoryStore()
    digests = [h(b"%d" % n).hex() for n in range(2_000)]
    names = [data_key(digest) for digest in digests]
    others = ["data/zz/x", "data/0", "data/00", "data/ff0/x", "data/fg/x", "data/é/x", "data/A/b"]
    beside = ["dat", "data", "data0", "data.x/a", "_lakefs/x", "e"]
    for size, name in enumerate([*names, *others, *beside]):
        store.put(name, b"x" * (size % 7), ANY)
    location = OpenStore(store)
    parts = [
        bulk_module.list_part(number, digits=digits, location=location)
        for number in range(16**digits)
    ]
    assert sum(len(part.foreign) for part in parts) == 40 * len(others)
    random.Random(5).shuffle(parts)
    with DataIndex() as index, DataIndex() as serial:
        found = list(index.fill(store, hash_data=False, lister=lambda: iter(parts)))
        assert found == list(serial.fill(store, hash_data=False)) == []
        assert index.count == serial.count == len(names) + len(others)
        for size, name in enumerate([*names, *others]):
            assert index.problem_of(name, size % 7) is None
            assert index.problem_of(name, 9) == serial.problem_of(name, 9)
        assert index.problem_of(data_key("00" * 32), 1) == "missing"

"""A check by any runner has the same findings as one without a runner."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from hashlib import md5
from typing import TYPE_CHECKING, Any, cast

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.layout import DATA, SCRATCH, SSTABLES, data_digest, data_key
from lakecli.base.model import Entry
from lakecli.committed.check import Problem, check_range
from lakecli.engine.runner import LocalRunner, OpenStore, Runner, StoreLocation
from lakecli.engine.scratch import Kept, Scratch, take_value
from lakecli.errors import IntegrityError
from lakecli.fsck import hashing
from lakecli.fsck import index as index_module
from lakecli.fsck import spark_jobs as tasks_module
from lakecli.fsck.check import fsck
from lakecli.fsck.findings import FsckCounts
from lakecli.fsck.index import JoinedIndex
from lakecli.fsck.spark_jobs import (
    DAMAGED,
    LEFT,
    Checking,
    compare_some,
    keep_left,
    list_objects,
    read_recorded,
    read_references,
)
from lakecli.imports.bucket import list_between
from lakecli.repository import tag
from lakecli.repository.commit import commit
from lakecli.repository.contract import Repository
from lakecli.repository.stored_objects import DataIndex
from lakecli.stores.contract import ANY
from tests.support.lakes import START, entry_of, make_repository, open_lake, stage, stage_entries
from tests.support.memory_store import MemoryStore
from tests.support.recorded_progress import RecordedProgress

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.base.progress import Progress
    from lakecli.engine.spark_runner import SparkRunner
    from lakecli.fsck.findings import Finding
    from lakecli.fsck.spark_jobs import Differing, Lookup, LookupResult, ToRead


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


def look_up_here(
    _runner: Runner, lookup: Lookup, checking: Checking, *, progress: Progress
) -> Iterator[LookupResult]:
    """Join references and objects in this process, through the tasks of the executors."""
    del progress
    import pyarrow as pa

    def rows_of(batches: Iterator[Any]) -> Iterator[tuple[Any, ...]]:
        for batch in batches:
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    listings = 1 << 4 * lookup.digits
    numbers = pa.RecordBatch.from_pydict({"id": list(range(listings))})
    listed: list[Any] = []
    objects: dict[bytes, list[Any]] = {}
    tasks = list_objects(iter([numbers]), digits=lookup.digits, checking=checking)
    for row in rows_of(tasks):
        (listed if row[0] is None else objects.setdefault(row[0], [])).append(row)
    for name in lookup.damaged:
        objects.setdefault(name, []).append((name, DAMAGED, None))
    assert len(listed) == listings
    left: list[tuple[Any, ...]] = [(0, None, None, None, None, stat) for _, _, stat in listed]
    bodies = [pickle.dumps(part) for part in lookup.parts]
    parts = pa.RecordBatch.from_pydict({"number": list(range(len(bodies))), "body": bodies})
    for part, number, name, size, stat in rows_of(
        read_references(iter([parts]), checking=checking)
    ):
        found = [(None, None, None)] if name is None else objects.get(name, [(None, None, None)])
        for _, present, _ in found:
            if stat is not None or present != size:
                left.append((part, number, name, present, stat, None))
    for part in range(lookup.last // tasks_module.RESULT_RANGES + 1):
        rows = sorted(
            (row for row in left if row[0] == part),
            key=lambda row: -1 if row[1] is None else row[1],
        )
        columns = dict(zip(LEFT, zip(*rows, strict=True), strict=True))
        types = (pa.int32(), pa.int32(), pa.binary(), pa.int64(), pa.binary(), pa.binary())
        arrays = [pa.array(columns[name], kind) for name, kind in zip(LEFT, types, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, list(LEFT))
        for _, body in rows_of(keep_left(iter([batch]), checking=checking)):
            yield take_value(checking.scratch, pickle.loads(body))


def compare_here(
    _runner: Runner,
    parts: Sequence[ToRead],
    _objects: int,
    checking: Checking,
    *,
    progress: Progress,
) -> Iterator[Differing]:
    """Compare contents in this process, through the tasks of the executors."""
    del progress
    import pyarrow as pa

    bodies = [pickle.dumps(part) for part in parts]
    named = pa.RecordBatch.from_pydict({"number": list(range(len(bodies))), "body": bodies})
    rows: dict[tuple[Any, ...], None] = {}
    for batch in read_recorded(iter([named]), checking=checking):
        rows |= dict.fromkeys(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    types = {"key": pa.binary(), "size": pa.int64(), "checksum": pa.binary()}
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types.values(), strict=True)]
    batches = iter([pa.RecordBatch.from_arrays(arrays, list(types))])
    for batch in compare_some(batches, checking=checking):
        (body,) = batch.column("body").to_pylist()
        yield take_value(checking.scratch, pickle.loads(body))


class JoinsHere(LocalRunner):
    """Checks as on Spark, in this process."""

    scratch: Scratch | None = None


@pytest.fixture(autouse=True)
def joins_here(monkeypatch: pytest.MonkeyPatch) -> None:
    real = index_module.open_index

    def open_index(
        repository: Repository, runner: Runner, *, compares: bool, progress: Progress
    ) -> DataIndex | JoinedIndex:
        if not isinstance(runner, JoinsHere):
            return real(repository, runner, compares=compares, progress=progress)
        checking = Checking(StoreLocation.of(repository), runner.scratch, "nonce", compares)
        monkeypatch.setattr(tasks_module, "look_up", look_up_here)
        monkeypatch.setattr(tasks_module, "compare_all", compare_here)
        return JoinedIndex(repository.store, cast("SparkRunner", runner), checking, progress)

    monkeypatch.setattr("lakecli.fsck.check.open_index", open_index)


@pytest.fixture(
    params=[
        "one",
        "threads",
        "joined",
        pytest.param("spark", marks=pytest.mark.xdist_group("spark")),
    ]
)
def runner(request: pytest.FixtureRequest) -> Runner:
    if request.param == "spark":
        found: Runner = request.getfixturevalue("spark_runner")
        return found
    if request.param == "joined":
        return JoinsHere()
    return LocalRunner(parallelism=4 if request.param == "threads" else 1)


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
    repository: Repository,
    runner: Runner | None = None,
    *,
    sample: float = 1.0,
    hash_data: bool = True,
    external: bool = False,
) -> tuple[list[Finding], FsckCounts, RecordedProgress]:
    counts = FsckCounts()
    progress = RecordedProgress()
    found = fsck(
        repository,
        hash_data=hash_data,
        sample=sample,
        external=external,
        runner=runner,
        counts=counts,
        progress=progress,
    )
    return list(found), counts, progress


def test_the_same_findings(
    repository: Repository, runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashing, "PART_OBJECTS", 40)
    monkeypatch.setattr(index_module, "PART_RANGES", 3)
    monkeypatch.setattr(tasks_module, "RESULT_RANGES", 5)
    monkeypatch.setattr("lakecli.fsck.spark_jobs.RESULT_RANGES", 5)
    monkeypatch.setattr(index_module, "digits_for", lambda _: 1)
    repository.store.put("data/0aboveall000000000000/0f", b"of lakeFS", ANY)
    findings, counts, progress = check(repository, runner)
    assert findings == []
    assert progress.items + 1 == counts.objects == 301
    assert asdict(counts) == asdict(check(repository)[1])
    damage(repository, tmp_path / "namespace")
    expected, expected_counts, _ = check(repository)
    findings, counts, _ = check(repository, runner)
    assert {each.kind for each in findings} == {"data", "range", "metarange"}
    assert findings == expected
    assert asdict(counts) == asdict(expected_counts)


def unusual(repository: Repository, outside: Path) -> None:
    """Commit and stage entries of all kinds that no upload makes."""
    store = repository.store
    own, foreign, old = data_key(blake3_of(b"own").hex()), "data/part00000000000000/0", "0" * 20
    store.put(own, b"own", ANY)
    store.put(foreign, b"of lakeFS", ANY)
    store.put(old, b"old", ANY)
    (outside / "here").write_bytes(b"here")
    addresses = [
        own, foreign, old, "data/part00000000000000/1", "1" * 20, data_key("ab" * 32), "strange",
        f"local://{outside}/here", f"local://{outside}/gone", "s3://never/allowed", "x://y",
    ]  # fmt: skip
    entries = {
        b"u/%02d/%d" % (number, size): Entry(address, size, "?", START)
        for number, address in enumerate(addresses)
        for size in (3, 4, 9, (1 << 63) - 1)
    }
    stage_entries(repository, "main", entries)
    commit(repository, "main", message="unusual", committer="me")
    stage_entries(
        repository, "main", {b"s" + path: entry for path, entry in sorted(entries.items())[::2]}
    )


def test_executors_compare_the_contents_of_lakefs_objects(
    repository: Repository,
    runner: Runner,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good, bad = md5(b"good").hexdigest(), md5(b"evil").hexdigest()
    entries = {}
    for number, name in enumerate(["data/part00000000000000/", ""]):
        for letter in "ab":
            key = name + letter * 20
            repository.store.put(key, b"good", ANY)
            for sum_ in (good, bad, "a multipart upload-2") if letter == "b" else (good,):
                path = f"l/{number}{letter}{sum_[:4]}".encode()
                entries[path] = Entry(key, 4, sum_, START)
    for round_ in range(2):  # many commits, and staged entries, share the objects
        stage_entries(repository, "main", {**entries, b"l/%d" % round_: entries[b"l/0a755f"]})
        commit(repository, "main", message=str(round_), committer="me")
    stage_entries(repository, "main", {b"s" + path: entry for path, entry in entries.items()})
    expected, expected_counts, _ = check(repository)
    assert expected == []
    assert expected_counts.unverified == 4  # of two checksums of each object
    if request.node.callspec.params["runner"] in ("joined", "spark"):
        monkeypatch.setattr("lakecli.fsck.check.compare_contents", None)
    findings, counts, _ = check(repository, runner)
    assert findings == expected
    assert asdict(counts) == asdict(expected_counts)


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("hash_data", [False, True])
def test_the_same_findings_about_unusual_entries(
    repository: Repository, runner: Runner, tmp_path: Path, *, external: bool, hash_data: bool
) -> None:
    (tmp_path / "outside").mkdir()
    unusual(repository, tmp_path / "outside")
    expected, expected_counts, _ = check(repository, external=external, hash_data=hash_data)
    findings, counts, progress = check(repository, runner, external=external, hash_data=hash_data)
    assert len(expected) > 30
    assert findings == expected
    assert asdict(counts) == asdict(expected_counts)
    if not hash_data:
        # Each entry in the ranges; those of the staging area are not counted as progress.
        assert sum(items for items, _ in progress.expected) == progress.items > 200
    assert progress.parts_expected == progress.parts


def test_facts_of_ranges_go_to_the_bucket(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks_module, "_INLINE", 0)
    monkeypatch.setattr("lakecli.engine.scratch.LIMIT", 0)
    damage(repository, tmp_path / "namespace")
    monkeypatch.setattr(
        JoinsHere, "scratch", Scratch(StoreLocation.of(repository), bytes(16)), raising=True
    )
    expected, _, _ = check(repository, hash_data=False)
    assert check(repository, JoinsHere(), hash_data=False)[0] == expected
    names = [info.key for info in repository.store.list(SCRATCH)]
    assert len(names) == 2
    for name in names:
        repository.store.put(name, b"forged", ANY)
    monkeypatch.setattr(Scratch, "write", lambda _, body: Kept(blake3_of(body), len(body)))
    with pytest.raises(IntegrityError, match="lost or damaged"):
        check(repository, JoinsHere(), hash_data=False)


def test_a_range_that_appears_after_the_lookup_is_looked_up_by_requests(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An executor could not read it, so nobody has looked for its objects."""
    damage(repository, tmp_path / "namespace")
    expected, _, _ = check(repository, hash_data=False)

    def unread(trees: Any, record: Any) -> Iterator[Any]:
        items = list(check_range(trees, record))
        return iter([Problem("key", "missing"), *items[1:]])

    monkeypatch.setattr(tasks_module, "check_range", unread)
    assert check(repository, JoinsHere(), hash_data=False)[0] == expected


def test_a_sample(repository: Repository) -> None:
    for runner in (LocalRunner(), JoinsHere()):
        _, counts, progress = check(repository, runner, sample=0.2)
        assert 20 < progress.items < 120
        assert counts.objects == 300


@pytest.mark.parametrize("digits", [0, 1, 2, 3])
def test_parts_of_a_listing_have_every_key_once(
    digits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashing, "PART_OBJECTS", 3)
    store = MemoryStore()
    hash_all = hashing.Hashing(OpenStore(store))
    digests = [blake3_of(b"%d" % n).hex() for n in range(300)]
    names = [data_key(digest) for digest in digests]
    others = ["data/zz/x", "data/0", "data/00", "data/ff0/x", "data/fg/x", "data/é/x", "data/A/b"]
    beside = ["dat", "data", "data0", "data.x/a", "_lakefs/x", "e"]
    for size, name in enumerate([*names, *others, *beside]):
        store.put(name, b"x" * (size % 7), ANY)
    found: list[str] = []
    for number in range(16**digits):
        low, high = hashing.bounds_of(number, digits)
        keys = [info.key for info, _ in list_between(store, low, high)]
        found += keys
        if digits > 2 and not keys:
            continue
        divided, foreign = hashing.divide_part(number, digits=digits, hashing=hash_all)
        own = [key for key in keys if data_digest(key)]
        assert sum(part.objects for part in divided) == len(own)
        assert [
            info.key
            for part in divided
            for info, _ in list_between(store, part.low, part.high)
            if hash_all.takes(info.key)
        ] == own
        assert all(part.objects <= 3 for part in divided)
        assert foreign == len(keys) - len(own)
    assert found == sorted([*names, *others], key=str.encode)

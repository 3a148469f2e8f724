"""Garbage found by joins on Spark: the same lists and the same deletions as in one process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.layout import SCRATCH, data_key
from lakecli.engine import runner as places
from lakecli.engine.runner import (
    OBJECTS_PER_PREFIX,
    LocalRunner,
    OpenStore,
    StoreLocation,
    digits_of,
    divided,
)
from lakecli.engine.scratch import Kept, Scratch
from lakecli.engine.spark_runner import SparkRunner
from lakecli.errors import IntegrityError, LostRace, PermissionDenied
from lakecli.fsck.check import fsck
from lakecli.gc import live_set
from lakecli.gc.lease import SweepLease
from lakecli.gc.live_set import (
    DigestSet,
    Reading,
    Remainder,
    SparkLiveSet,
    counts_rows,
    group_names,
    open_live,
    read_digests,
    rows,
)
from lakecli.gc.run import Action, GcOptions
from lakecli.gc.state import DIGEST, MARKS, LostMarks
from lakecli.remote.gc_protocol import LEASE, Phase, StateMoved, read_state
from lakecli.stores.contract import ANY
from lakecli.stores.local.store import DirectoryStore
from tests.gc.shared import advance
from tests.gc.test_runners import let_lakefs_be_gone, make_history
from tests.support.lakes import make_repository, open_lake, stage, through
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakecli.engine.runner import Runner
    from lakecli.gc.run import GcReport
    from lakecli.stores.contract import ObjectStore

RUN = bytes(range(16))
RECORDS = b"".join(bytes([number]) * DIGEST + (10 * number).to_bytes(8) for number in range(200))


def collect(directory: Path, runner: Runner, action: Action) -> GcReport:
    """Take one step, and make all objects old."""
    with open_lake(directory) as lake:
        report = advance(lake.repository("demo"), runner, GcOptions())
    assert report.action is action
    grow_old(directory)
    return report._replace(status=report.status._replace(since=None, sweep_at=None))


def grow_old(directory: Path) -> None:
    for path in (directory / "namespace").rglob("*"):
        if path.is_file():
            os.utime(path, (1, 1))


def contents(directory: Path, prefix: str = "") -> dict[str, bytes]:
    """Return what is in the namespace, but what belongs to a run; names of lists without its ID."""
    store = DirectoryStore(str(directory / "namespace"))
    found = {info.key: store.get(info.key) for info in store.list(prefix)}
    if prefix:
        return {key.rpartition("/")[2]: body for key, body in found.items()}
    return {key: body for key, body in found.items() if not key.startswith("_lakecli/gc/")}


class Place(NamedTuple):
    """A namespace with garbage of all kinds, which can be had again as it was."""

    directory: Path

    def save(self) -> None:
        for name in ("store", "namespace"):
            shutil.copytree(self.directory / name, self.directory / "saved" / name)

    def restore(self) -> None:
        for name in ("store", "namespace"):
            shutil.rmtree(self.directory / name)
            shutil.copytree(self.directory / "saved" / name, self.directory / name)

    def runner(self, spark: Any) -> SparkRunner:
        """Return a runner on Spark with a scratch prefix in the namespace."""
        location = StoreLocation(f"local://{self.directory / 'namespace'}", "", 16)
        return SparkRunner(spark, scratch=Scratch(location, RUN))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(live_set, "BYTES_PER_TASK", 4_096)
    monkeypatch.setattr("lakecli.engine.spark_joins.ROWS_PER_PARTITION", 100)
    monkeypatch.setattr("lakecli.engine.spark_runner.BEAT", 0.05)
    with open_lake(tmp_path) as lake:
        repository = make_repository(lake, tmp_path)
        make_history(repository)
        stage(repository, "main", {b"staged": b"s"})
        for number in range(300):
            repository.store.put_new(data_key(blake3_of(b"%d" % number).hex()), b"x" * number)
            repository.store.put_new(f"data/{number % 10:020}/{number:020}", b"lakeFS")
        # In use, one of them twice.
        for text in (b"0", b"1", b"s"):
            repository.store.put_new(data_key(blake3_of(text + b" in use").hex()), text)
        let_lakefs_be_gone(repository)
    grow_old(tmp_path)
    made = Place(tmp_path)
    made.save()
    return made


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("few", [10_000, pytest.param(100, marks=pytest.mark.nightly)])
def test_spark_condemns_and_deletes_the_same(
    place: Place, spark: Any, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(places, "FEW", few)

    def unused(*_: object) -> NoReturn:
        pytest.fail("the set of this process was used")

    steps = []
    for runner in (LocalRunner(), place.runner(spark)):
        if isinstance(runner, SparkRunner):
            monkeypatch.setattr(DigestSet, "add", unused)
        condemned = collect(place.directory, runner, Action.CONDEMNED)
        lists = contents(place.directory, MARKS)
        swept = collect(place.directory, runner, Action.SWEPT)
        runner.close()
        steps.append((condemned, lists, swept, contents(place.directory)))
        place.restore()
    here, there = steps
    assert here == there
    lists = here[1]
    assert ("data-all" in lists) is (few > 1_000)
    assert len(lists) > (2 if few > 1_000 else 100)
    assert {each.kind: each.objects for each in here[2].garbage}["lakefs"] == 300


@pytest.mark.xdist_group("spark")
def test_a_python_that_dies_during_the_join_is_replaced(place: Place, spark: Any) -> None:
    here = collect(place.directory, LocalRunner(), Action.CONDEMNED)
    lists = contents(place.directory, MARKS)
    place.restore()
    with place.runner(spark) as runner:
        killed: list[int] = []
        beat = threading.Event()
        thread = threading.Thread(target=kill_worker, args=(place, killed, beat))
        thread.start()
        try:
            there = collect(place.directory, runner, Action.CONDEMNED)
        finally:
            beat.set()
            thread.join()
    assert killed
    assert there == here
    assert contents(place.directory, MARKS) == lists


def kill_worker(place: Place, killed: list[int], ended: threading.Event) -> None:
    """Kill a Python of Spark as soon as digests are in the scratch prefix, so the join follows."""
    scratch = place.directory / "namespace" / SCRATCH
    while not killed and not ended.is_set():
        time.sleep(0.02)
        if sum(path.is_file() for path in scratch.rglob("*")) > 1:
            for pid in python_workers():
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)


def python_workers() -> list[int]:
    """Return the processes that the Java process of this one runs tasks in."""
    parents: dict[int, int] = {}
    names: dict[int, bytes] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            status = (path / "stat").read_text()
            names[int(path.name)] = (path / "cmdline").read_bytes()
        except OSError:
            continue
        parents[int(path.name)] = int(status.rpartition(")")[2].split()[1])
    daemons = {
        pid for pid, name in names.items()
        if b"pyspark.daemon" in name and parents.get(parents[pid]) == os.getpid()
    }  # fmt: skip
    return [pid for pid, parent in parents.items() if parent in daemons]


@pytest.mark.xdist_group("spark")
def test_a_damaged_list_deletes_nothing(place: Place, spark: Any) -> None:
    with place.runner(spark) as runner:
        collect(place.directory, LocalRunner(), Action.CONDEMNED)
        before = contents(place.directory)
        store = DirectoryStore(str(place.directory / "namespace"))
        (first, *_) = [info.key for info in store.list(MARKS) if "data-" in info.key]
        body = store.get(first)
        store.put(first, body[:-1], ANY)
        grow_old(place.directory)
        with pytest.raises(LostMarks):
            collect(place.directory, runner, Action.SWEPT)
    assert {key for key in before if key.startswith("data/")} <= contents(place.directory).keys()


@pytest.mark.xdist_group("spark")
def test_digests_that_are_lost_condemn_nothing(
    place: Place, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Scratch.write

    def lost(scratch: Scratch, body: bytes) -> Kept:
        return write(scratch, body)._replace(digest=b"?" * DIGEST)

    monkeypatch.setattr(Scratch, "write", lost)
    with place.runner(spark) as runner, pytest.raises(IntegrityError, match="lost or damaged"):
        collect(place.directory, runner, Action.CONDEMNED)
    assert contents(place.directory, MARKS) == {}


class Unconditional:
    """A directory as a store that deletes whatever is there, as S3 does."""

    def __init__(self, directory: Path) -> None:
        self._store = DirectoryStore(str(directory / "namespace"))

    def __getattr__(self, name: str) -> Any:
        if name == "delete_matching":
            raise AttributeError(name)
        return getattr(self._store, name)


def then(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], None]) -> None:
    """Let something happen once Spark has compared, before anything is made of it."""
    compare = getattr(SparkLiveSet, name)

    def compared(*args: Any, **options: Any) -> Iterator[Any]:
        found = []
        for each in compare(*args, **options):
            if each is None:
                yield each  # Spark has not compared yet
            else:
                found.append(each)
        act()
        yield from found

    monkeypatch.setattr(SparkLiveSet, name, compared)


@pytest.mark.xdist_group("spark")
def test_the_lease_is_kept_while_spark_compares(
    place: Place, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[bool] = []
    compared: list[bool] = []

    def taken_over(_lease: SweepLease) -> NoReturn:
        checked.append(True)
        raise LostRace("taken over")

    with place.runner(spark) as runner:
        collect(place.directory, LocalRunner(), Action.CONDEMNED)
        data = {key for key in contents(place.directory) if key.startswith("data/")}
        monkeypatch.setattr("lakecli.gc.run.Sweep._tables", lambda *_: [])
        monkeypatch.setattr("lakecli.gc.run.Sweep._rest", lambda *_: [])
        monkeypatch.setattr(SweepLease, "renew_if_due", taken_over)
        then(monkeypatch, "iter_garbage", lambda: compared.append(True))
        with pytest.raises(LostRace, match="taken over"):
            collect(place.directory, runner, Action.SWEPT)
    assert (checked, compared) == ([True], [])
    assert data <= contents(place.directory).keys()


@pytest.mark.xdist_group("spark")
def test_a_sweep_that_was_taken_over_while_spark_compared_deletes_nothing(
    place: Place, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = data_key(blake3_of(b"299").hex())
    now = 0.0
    collect(place.directory, LocalRunner(), Action.CONDEMNED)
    with open_lake(place.directory) as lake, place.runner(spark) as runner:
        store = Unconditional(place.directory)
        repository = through(
            lake.repository("demo"), cast("ObjectStore", store), elapsed=lambda: now
        )

        def take_over() -> None:
            nonlocal now
            now += LEASE.total_seconds() + 60
            grow_old(place.directory)
            assert advance(through(repository), LocalRunner(), GcOptions()).action is Action.SWEPT
            assert again not in contents(place.directory)
            store.put_new(again, b"x" * 299)

        then(monkeypatch, "iter_garbage", take_over)
        with pytest.raises(StateMoved):
            advance(repository, runner, GcOptions())
        assert now
        assert read_state(repository.store).phase is Phase.IDLE
    assert contents(place.directory)[again] == b"x" * 299


@pytest.mark.xdist_group("spark")
def test_of_two_that_condemn_while_spark_compares_one_does(
    place: Place, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lists that the state names are those of the other one, which come to be swept."""
    states = []
    with open_lake(place.directory) as lake, place.runner(spark) as runner:
        repository = lake.repository("demo")

        def condemn() -> None:
            report = advance(through(repository), LocalRunner(), GcOptions())
            assert report.action is Action.CONDEMNED
            states.append(read_state(repository.store))

        then(monkeypatch, "iter_unreached", condemn)
        with pytest.raises(StateMoved):
            advance(repository, runner, GcOptions())
        assert [read_state(repository.store)] == states
    grow_old(place.directory)
    assert collect(place.directory, LocalRunner(), Action.SWEPT).spared == 0


def collected(place: Place) -> dict[str, bytes]:
    """Return what a collection in this process leaves, and go back."""
    collect(place.directory, LocalRunner(), Action.CONDEMNED)
    collect(place.directory, LocalRunner(), Action.SWEPT)
    left = contents(place.directory)
    place.restore()
    return left


def check_sound(place: Place) -> None:
    """Check whatever is reached; the garbage has names that are not the digests of its bytes."""
    with open_lake(place.directory) as lake:
        found = list(fsck(lake.repository("demo"), hash_data=True))
    assert [each for each in found if each.kind != "data" or each.path is not None] == []


@pytest.mark.nightly
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("step", ["lease 1", "gc:delete 1", "gc:delete 2", "gc:idle 1"])
def test_the_same_command_after_the_driver_was_killed_in_a_sweep(
    place: Place, spark: Any, step: str
) -> None:
    whole = collected(place)
    collect(place.directory, LocalRunner(), Action.CONDEMNED)
    command = [sys.executable, "-m", "tests.gc.spark_driver", str(place.directory), step]
    killed = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, cwd=Path.cwd()
    )
    assert killed.returncode == -signal.SIGKILL, killed
    assert whole.keys() <= contents(place.directory).keys()
    check_sound(place)
    with place.runner(spark) as runner:
        # For all that others know, the sweep goes on until its lease is over.
        collect(place.directory, runner, Action.WAITS)
        collect(place.directory, runner, Action.SWEPT)
        check_sound(place)
        collect(place.directory, runner, Action.CONDEMNED)
        collect(place.directory, runner, Action.SWEPT)
    assert contents(place.directory) == whole


def test_without_the_right_to_write_the_set_is_here(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> NoReturn:
        raise PermissionDenied("read-only")

    store = MemoryStore()
    runner = SparkRunner.__new__(SparkRunner)
    runner.scratch = Scratch(OpenStore(store), RUN)  # type: ignore[arg-type]
    live = open_live(runner)
    assert isinstance(live, SparkLiveSet)
    live.add(RECORDS[:DIGEST] * 3)
    assert live.added == 3
    monkeypatch.setattr(store, "put", denied)
    for each in (runner, LocalRunner()):
        with closing(open_live(each)) as here:
            assert isinstance(here, DigestSet)


def test_rows_become_records_again() -> None:
    keys, versions = [f"k{number}" for number in range(200)], ["v"] * 200
    batches = [*counts_rows(3, [7, "x"]), *rows(3, RECORDS, keys, versions)]
    found = Remainder(iter(batches))
    assert found.records == RECORDS
    assert (found.keys, found.versions) == (keys, versions)
    assert (found.number, found.counts, found.rows) == (0, [[7, "x"]], 200)
    plain = Remainder(rows(3, RECORDS))
    assert (plain.records, plain.keys, plain.versions) == (RECORDS, [], [])


def test_digests_are_read_whole_or_not_at_all() -> None:
    store = MemoryStore()
    scratch = Scratch(OpenStore(store), RUN)  # type: ignore[arg-type]
    digests = b"".join(RECORDS[at : at + DIGEST] for at in range(0, len(RECORDS), 40))
    kept = scratch.write(digests)
    read = Reading(scratch, "nonce")

    def found() -> Iterator[bytes]:
        for batch in read_digests(iter([number_batch(0)]), groups=[(kept, kept)], read=read):
            yield from batch.column("digest").to_pylist()

    assert b"".join(found()) == digests * 2
    (key,) = [info.key for info in store.list(SCRATCH)]
    store.put(key, digests[:-DIGEST], ANY)
    with pytest.raises(RuntimeError, match="lakecli:nonce:"):
        list(found())


def number_batch(number: int) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({"id": [number]})


def test_tasks_are_sized_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_set, "BYTES_PER_TASK", 100)
    names = [
        Kept(bytes([number]) * 32, size) for number, size in enumerate([60, 40, 1, 99, 500, 1])
    ]
    sizes = [[kept.size for kept in group] for group in group_names(names)]
    assert sizes == [[60, 40], [1, 99], [500], [1]]
    assert group_names([]) == [()]


@pytest.mark.parametrize(
    ("objects", "digits"),
    [(30_000, 2), (256 * OBJECTS_PER_PREFIX, 2), (256 * OBJECTS_PER_PREFIX + 1, 3),
     (10**9, 3), (10**10, 4), (10**13, 5)],
)  # fmt: skip
def test_listings_are_divided_by_the_number_of_objects(objects: int, digits: int) -> None:
    assert digits_of(objects) == digits
    prefixes = divided("data/ab/", digits)
    assert len(prefixes) == 16 ** (digits - 2)
    if digits < 5:
        assert objects / (256 * len(prefixes)) <= OBJECTS_PER_PREFIX
    assert prefixes == sorted(prefixes)
    assert all(prefix.startswith("data/ab/") for prefix in prefixes)


def test_the_first_keys_tell_how_many_objects_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "FEW", 500)
    monkeypatch.setattr(places, "OBJECTS_PER_PREFIX", 10)
    store = MemoryStore()
    for number in range(500):
        store.put(data_key(blake3_of(b"%d" % number).hex()), b"", ANY)
    assert places.digits_for(store) == 0
    for number in range(500, 2_000):
        store.put(data_key(blake3_of(b"%d" % number).hex()), b"", ANY)
    assert places.digits_for(store) == 2
    for number in range(2_000, 4_000):
        store.put(data_key(blake3_of(b"%d" % number).hex()), b"", ANY)
    assert places.digits_for(store) == 3

"""Garbage of lakeFS is collected after a take-over, once lakeFS has stopped, and not before."""

from __future__ import annotations

import json
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import md5
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.layout import (
    LEGACY_LAKEFS_MARKER,
    REFS,
    REPOSITORY,
    SSTABLES,
    data_key,
    lakefs_object,
)
from lakecli.base.model import EMPTY_TREE, Entry
from lakecli.committed.values import decode_entry, encode_entry
from lakecli.engine.runner import LocalRunner, OpenStore
from lakecli.errors import IntegrityError, UsageError
from lakecli.fsck.check import fsck
from lakecli.gc.policy import (
    LakeFsAhead,
    LakeFsWrites,
    NotConfirmed,
    Rules,
    SharedNamespace,
    Times,
    put_rules,
)
from lakecli.gc.run import Action, GcOptions, GcReport, status, undo
from lakecli.gc.tasks import (
    LAKEFS_PART,
    ListingPart,
    PartListing,
    _names_between,
    _old_prefixes,
    addresses_in,
    all_parts,
    digests_of,
    list_part,
    recent_lakefs_parts,
)
from lakecli.kv.bucket import TrackingStore
from lakecli.refs.ref_store import RefStore
from lakecli.remote.gc_protocol import Phase, read_state
from lakecli.repository import branch, rm
from lakecli.repository import push as pushing
from lakecli.repository.clone import clone
from lakecli.repository.commit import commit
from lakecli.repository.guard import Gone, claim_entry
from lakecli.repository.lakefs.dump import MANIFEST_KEY, parse_manifest
from lakecli.repository.lakefs.kept_dumps import (
    DUMPS,
    LAKEFS_DIGITS,
    STOPPED,
    LastDump,
    LostDump,
    confirm_stopped,
    recorded_times,
    written_at,
)
from lakecli.repository.lakefs.restore import clone_from_lakefs, update_refs
from lakecli.repository.reading.addresses import is_external
from lakecli.repository.reading.contents import read_object
from lakecli.repository.reading.view import open_view
from lakecli.repository.refs_dump import refs_dump
from lakecli.repository.upload import UploadOptions, upload_file
from lakecli.repository.upload_tree import upload_tree
from lakecli.stores.contract import ANY
from lakecli.stores.local.store import DirectoryStore
from tests.gc.shared import GRACE, LONG, Time, advance, make_commit, push
from tests.support.clones import machine
from tests.support.lakefs_files import live_expected, live_objects
from tests.support.lakefs_server import LakeFs
from tests.support.lakes import stage_entries, through
from tests.support.memory_store import MemoryBucket, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from lakecli.base.model import MetarangeId
    from lakecli.repository.contract import Repository

DAY = timedelta(days=1)
MONTH = timedelta(days=31)
STAGED = "data/ft6bon1ksduegtphb8j0/dc14dahksduegtphbzz0".replace("z", "v")
"""An object that only the staging area of a lakeFS server referred to."""


@cache
def _objects() -> dict[str, bytes]:
    return live_objects()


class Taken:
    """A namespace of lakeFS that ada has taken over and pushed, and that ben has cloned."""

    def __init__(self, directory: Path) -> None:
        self.time = Time()
        self.time.now = datetime(2027, 1, 1, tzinfo=UTC)
        self.store = MemoryStore(MemoryBucket(clock=self.time), "ns/")
        self._stack = ExitStack()
        place = directory / "namespace"
        for key, data in {**_objects(), "_lakefs/dummy": b"", STAGED: b"staged"}.items():
            (place / key).parent.mkdir(parents=True, exist_ok=True)
            (place / key).write_bytes(data)
        manifest = parse_manifest(json.dumps(live_expected()["refs_dump"]).encode())
        ada, ben = (self._stack.enter_context(machine(directory, name)) for name in ("ada", "ben"))
        first = clone_from_lakefs(
            ada, str(place), "demo", manifest, take_over=True, range_entries=16
        ).repository
        pushing.push_all(first, pushing.PushOptions(who="me"))
        made = (first, clone(ben, str(place), "demo"))
        on_disk = DirectoryStore(str(place))
        lists = {SSTABLES + tree for tree in live_expected()["refs_dump"].values()}
        for key in sorted(
            (info.key for info in on_disk.list()),
            key=lambda key: (key.startswith("_lakecli/"), key in lists),
        ):  # lakeFS wrote its dump last, and lakecli took over then
            data = on_disk.get(key)
            if key == REPOSITORY:
                fields = json.loads(data)
                fields["origin"] |= recorded_times(self.time.now, self.time.now)
                data = json.dumps(fields).encode()
            self.store.put(key, data, ANY)
        self.clones = tuple(
            through(
                each,
                self.store,
                clock=self.time,
                elapsed=self.time.monotonic,
                sleep=lambda _seconds: None,
            )
            for each in made
        )

    def close(self) -> None:
        self._stack.close()

    def copy(self, at: datetime) -> None:
        """Give all objects the date of a copy, or of a backup that was restored."""
        now, self.time.now = self.time.now, at
        for key in sorted(self.listed()):
            self.store.put(key, self.store.get(key), ANY)
        self.time.now = now

    def listed(self, prefix: str = "") -> set[str]:
        return {info.key for info in self.store.list(prefix)}

    def collect(self, repository: Repository | None = None, **options: Any) -> GcReport:
        """Take one step."""
        given = GcOptions(grace=GRACE)._replace(**options)
        return advance(repository or self.clones[0], LocalRunner(), given)

    def collect_all(self, repository: Repository | None = None, **options: Any) -> GcReport:
        """Condemn, wait, and sweep."""
        report = self.collect(repository, **options)
        if report.action is Action.FOUND_NOTHING:
            return report
        assert report.action is Action.CONDEMNED
        self.time.pass_by(LONG)
        return self.collect(repository)


@pytest.fixture
def taken(tmp_path: Path) -> Iterator[Taken]:
    made = Taken(tmp_path)
    yield made
    made.close()


def counts(report: GcReport) -> dict[str, int]:
    return {each.kind: each.objects for each in report.garbage}


def read_all(repository: Repository, ref: str) -> dict[bytes, bytes]:
    """Read every object of a ref that lies in the namespace."""
    repository.forget_trees()
    with open_view(repository, ref) as view:
        entries = {path: decode_entry(value) for path, value in view.scan()}
        return {
            path: b"".join(read_object(repository, entry))
            for path, entry in entries.items()
            if not is_external(entry)
        }


def in_use(repository: Repository) -> set[str]:
    """Return the data objects and tables that all commits of a clone refer to."""
    with repository.lake.kv.read() as txn:
        trees = {commit.metarange_id for commit in RefStore(txn, repository.key).iter_commits()}
    trees.discard(EMPTY_TREE)
    records = (record for tree in trees for record in repository.trees.metarange(tree).records())
    tables = {SSTABLES + record.id for record in records} | {SSTABLES + tree for tree in trees}
    return tables | addresses_of(repository, trees)


def addresses_of(repository: Repository, trees: Iterable[MetarangeId]) -> set[str]:
    records = {record for tree in trees for record in repository.trees.metarange(tree).records()}
    return {
        decode_entry(value).physical_address
        for record in records
        for _, value in repository.trees.table(record).records()
    }


def test_nothing_of_lakefs_is_garbage_until_somebody_confirms_that_it_stopped(taken: Taken) -> None:
    taken.time.pass_by(MONTH)
    before = taken.listed()
    with pytest.raises(SharedNamespace, match="taken over from lakeFS") as caught:
        taken.collect()
    assert isinstance(caught.value, NotConfirmed)
    assert "then confirm it, once: `gc run --lakefs-stopped" in (caught.value.hint or "")
    assert taken.listed("_lakefs/") | taken.listed("data/") <= before
    assert not taken.listed("_lakecli/gc/marks/")
    taken.collect(force_shared=True)
    taken.time.pass_by(LONG)
    taken.collect(force_shared=True)
    assert STAGED in taken.listed("data/")
    report = taken.collect(dry_run=True, lakefs_stopped=True)
    assert counts(report)["lakefs"] >= 1
    assert STOPPED not in taken.listed()


def test_garbage_of_lakefs_is_deleted_and_what_is_in_use_stays(taken: Taken) -> None:
    ada, ben = taken.clones
    needed = in_use(ben)
    before = {ref: read_all(ben, ref) for ref in live_expected()["branches"]}
    taken.time.pass_by(MONTH)
    assert counts(taken.collect_all(ada, lakefs_stopped=True))["lakefs"] >= 1
    assert STAGED not in taken.listed()
    assert {key for key in needed if "://" not in key} <= taken.listed()
    assert {ref: read_all(ben, ref) for ref in before} == before
    assert list(fsck(ben, hash_data=True)) == []
    taken.time.pass_by(LONG)
    assert taken.collect(ben).action is Action.FOUND_NOTHING  # confirmed for all machines
    assert status(ben).lakefs_stopped is not None


def test_rules_let_old_commits_lose_objects_of_lakefs(taken: Taken) -> None:
    (ada, _) = taken.clones
    before = {key for key in taken.listed("data/") if lakefs_object(key)}
    with ada.lake.kv.read() as txn:
        refs = RefStore(txn, ada.key)
        heads = {branch.commit_id for branch in refs.iter_branches()}
        heads |= {tag.commit_id for tag in refs.iter_tags()}
        trees = {refs.get_commit(each).metarange_id for each in heads}
    put_rules(taken.store, Rules(1, {}))
    taken.time.pass_by(MONTH + 2 * DAY)
    report = taken.collect_all(lakefs_stopped=True)
    assert {"lakefs", "range", "metarange"} <= counts(report).keys()
    left = {key for key in taken.listed("data/") if lakefs_object(key)}
    assert left == {key for key in addresses_of(ada, trees) if "://" not in key}
    assert left < before - {STAGED}
    assert list(fsck(ada, hash_data=True)) == []


def test_the_dump_of_the_take_over_is_kept_for_30_days(taken: Taken) -> None:
    ada, ben = taken.clones
    manifest = live_expected()["refs_dump"]
    lists = {SSTABLES + tree for tree in manifest.values()}
    (kept,) = status(ben).dumps
    assert kept.key == REPOSITORY
    assert kept.manifest.commits == manifest["commits_meta_range_id"]
    taken.time.pass_by(LONG)
    taken.collect_all(ada, lakefs_stopped=True)
    assert lists | {key for key in in_use(ada) if "://" not in key} <= taken.listed()
    taken.time.pass_by(MONTH)
    assert status(ben).dumps == ()
    taken.collect_all(ben)
    assert not lists & taken.listed()


def test_a_take_over_whose_dump_is_lost_says_when_it_matters_no_more(taken: Taken) -> None:
    taken.store.delete([SSTABLES + live_expected()["refs_dump"]["commits_meta_range_id"]])
    with pytest.raises(LostDump) as caught:
        taken.collect(taken.clones[1], lakefs_stopped=True)
    assert "collect garbage after 2027-01-31" in (caught.value.hint or "")
    taken.time.pass_by(MONTH)
    assert taken.collect(taken.clones[1], lakefs_stopped=True).action is Action.CONDEMNED


def test_young_objects_of_lakefs_are_kept(taken: Taken) -> None:
    report = taken.collect(lakefs_stopped=True)
    assert report.action is Action.FOUND_NOTHING
    assert STAGED in taken.listed()


def test_a_condemnation_is_undone_for_objects_of_lakefs_too(taken: Taken) -> None:
    (ada, _) = taken.clones
    taken.time.pass_by(MONTH)
    assert counts(taken.collect(lakefs_stopped=True))["lakefs"]
    undo(ada)
    taken.time.pass_by(LONG)
    assert taken.collect().action is Action.CONDEMNED
    assert STAGED in taken.listed()


def entry_at(address: str, contents: bytes = b"staged") -> Entry:
    return Entry(address, len(contents), "0" * 32, datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("is_full", [False, True])
def test_a_writer_that_uses_a_condemned_object_of_lakefs_keeps_it(
    taken: Taken, tmp_path: Path, *, is_full: bool
) -> None:
    ada, ben = taken.clones
    taken.time.pass_by(MONTH)
    assert counts(taken.collect(ada, lakefs_stopped=True))["lakefs"]
    address = f"local://{tmp_path}/namespace/{STAGED}" if is_full else STAGED
    claim_entry(ben, b"again", entry_at(address))
    taken.time.pass_by(LONG)
    assert taken.collect(ada).spared
    assert STAGED in taken.listed()
    taken.store.delete([STAGED])
    with pytest.raises(Gone):
        claim_entry(ben, b"again", entry_at(address))


@pytest.mark.parametrize("is_tree", [False, True])
def test_an_upload_that_changes_nothing_keeps_the_object_of_lakefs(
    taken: Taken, tmp_path: Path, *, is_tree: bool
) -> None:
    ada, ben = taken.clones
    checksum = md5(b"staged", usedforsecurity=False).hexdigest()
    stage_value(ben, b"t/old", entry_at(STAGED)._replace(checksum=checksum))
    taken.time.pass_by(MONTH)
    assert counts(taken.collect(ada, lakefs_stopped=True))["lakefs"]
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "old").write_bytes(b"staged")
    if is_tree:
        report = upload_tree(ben, "main", b"t/", source=tmp_path / "t", options=UploadOptions())
        assert (report.uploaded, report.unchanged) == (0, 1)
    else:
        source = tmp_path / "t" / "old"
        upload_file(ben, "main", b"t/old", source=source, options=UploadOptions())
    taken.time.pass_by(LONG)
    assert taken.collect(ada).spared
    assert STAGED in taken.listed()


def test_what_was_staged_over_or_removed_can_be_restored(taken: Taken) -> None:
    (ada, _) = taken.clones
    path, contents = next(iter(read_all(ada, "main").items()))
    rm.rm(ada, "main", path)
    commit(ada, "main", message="m", committer="c")
    push(ada)
    taken.time.pass_by(LONG)
    taken.collect_all(lakefs_stopped=True)
    assert read_all(ada, "main~1")[path] == contents


class Killed(BaseException):
    """The process was killed."""


@pytest.mark.nightly
def test_a_collection_that_is_killed_at_any_step_is_finished_by_the_next(taken: Taken) -> None:
    (ada, ben) = taken.clones
    needed = {key for key in in_use(ben) if "://" not in key}
    taken.time.pass_by(MONTH)
    taken.collect_all(lakefs_stopped=True)
    steps_left = survived = 0
    while steps_left == 0:
        survived += 1
        steps_left = survived
        garbage = f"data/{'0' * 20}/{survived:020}"
        taken.store.put(garbage, b"garbage", ANY)
        refs_dump(ben)
        taken.time.pass_by(MONTH)

        def kill(_step: str) -> None:
            nonlocal steps_left
            steps_left -= 1
            if steps_left == 0:
                raise Killed

        victim = through(ada, taken.store, on_step=kill)
        with suppress(Killed):
            taken.collect_all(victim, lakefs_stopped=True)
        for _ in range(3):
            taken.time.pass_by(LONG)
            taken.collect(ben, lakefs_stopped=True)
        assert garbage not in taken.listed()
        assert needed <= taken.listed()
    assert survived > 8
    assert status(ben).phase == "idle"


def test_a_dump_that_is_killed_leaves_garbage_only(taken: Taken) -> None:
    (ada, _) = taken.clones
    before = taken.listed()

    def kill(step: str) -> None:
        if step == "keep-dump":
            raise Killed

    with pytest.raises(Killed):
        refs_dump(through(ada, taken.store, on_step=kill))
    assert not taken.listed(DUMPS)
    assert taken.listed() > before
    assert refs_dump(ada).commits == 17
    assert len(taken.listed(DUMPS)) == 1


@pytest.mark.parametrize("step", ["gc:prepare", "gc:sweeping"])
def test_lakefs_that_goes_on_is_noticed_by_the_time_in_its_names(taken: Taken, step: str) -> None:
    taken.time.pass_by(MONTH)
    taken.collect(lakefs_stopped=True)
    name = "data/" + "0" * 20 + "/" + xid(taken.time.now + DAY)
    phases: list[Phase] = []

    def on_step(found: str) -> None:
        if found == step:
            taken.store.put(name, b"new", ANY)
        if found.startswith("gc:"):
            phases.append(read_state(taken.store).phase)

    lake = taken.clones[0].lake
    lake.runtime = lake.runtime._replace(on_step=on_step)
    taken.time.pass_by(LONG)
    with pytest.raises(LakeFsWrites, match=name):
        taken.collect()
    # If it is noticed before the sweep, no writer has to wait.
    assert (Phase.SWEEPING in phases) is (step == "gc:sweeping")
    lake.runtime = lake.runtime._replace(on_step=lambda _step: None)
    assert STAGED in taken.listed()
    taken.store.delete([name])
    assert counts(taken.collect())["lakefs"]


def test_lakefs_that_goes_on_is_noticed_before_anything_is_condemned(taken: Taken) -> None:
    taken.time.pass_by(MONTH)
    confirm_stopped(taken.store)
    name = "data/" + "0" * 20 + "/" + xid(taken.time.now + DAY)
    taken.store.put(name, b"new", ANY)
    for is_dry in (True, False):
        with pytest.raises(LakeFsWrites, match=name):
            taken.collect(dry_run=is_dry)
    assert read_state(taken.store).phase is Phase.IDLE
    taken.store.delete([name])
    assert counts(taken.collect())["lakefs"]


def test_lakefs_that_goes_on_is_noticed_by_its_tables(taken: Taken) -> None:
    taken.time.pass_by(MONTH)
    assert counts(taken.collect(lakefs_stopped=True))["lakefs"]
    table = next(key for key, data in _objects().items() if b"ranges" in data)
    taken.time.pass_by(LONG)
    taken.store.put(SSTABLES + "ab" * 32, taken.store.get(table), ANY)
    with pytest.raises(LakeFsWrites, match="abab"):
        taken.collect()
    assert STAGED in taken.listed()
    with pytest.raises(LakeFsAhead, match="abab"):  # to confirm it again is not enough
        taken.collect(lakefs_stopped=True)
    assert {STAGED, SSTABLES + "ab" * 32} <= taken.listed()


def test_what_lakefs_writes_after_the_last_dump_is_never_garbage(taken: Taken) -> None:
    ada, ben = taken.clones
    refs_dump(ada)
    later = f"data/{'0' * 20}/{'0' * 19}1"  # whatever the time in its name says
    taken.store.put(later, b"committed by lakeFS", ANY)
    taken.time.pass_by(2 * MONTH)
    for options in ({}, {"dry_run": True}):
        with pytest.raises(LakeFsAhead, match=later):
            taken.collect(ben, lakefs_stopped=True, **options)
    assert STOPPED not in taken.listed()
    assert read_state(taken.store).phase is Phase.IDLE
    table = SSTABLES + "cd" * 32
    some = next(key for key, data in _objects().items() if b"ranges" in data)
    taken.store.put(table, taken.store.get(some), ANY)
    taken.store.delete([later])
    taken.time.pass_by(2 * MONTH)
    with pytest.raises(LakeFsAhead, match=table):
        taken.collect(ben, lakefs_stopped=True)
    refs_dump(ada)
    taken.time.pass_by(2 * MONTH)
    taken.collect_all(ben, lakefs_stopped=True)
    assert not {table, STAGED} & taken.listed()


@pytest.mark.parametrize("days", [-60, 20])
@pytest.mark.parametrize("kind", ["object", "table"])
def test_in_a_copy_what_lakefs_wrote_after_the_last_dump_is_told_by_its_name(
    taken: Taken, days: int, kind: str
) -> None:
    ada, ben = taken.clones
    collect_tables(taken)
    refs_dump(ada)
    taken.time.pass_by(timedelta(seconds=10))
    written = f"data/{'0' * 20}/{xid(taken.time.now)}"
    if kind == "table":
        written = SSTABLES + "cd" * 32
    some = next(key for key, data in _objects().items() if b"ranges" in data)
    taken.store.put(written, taken.store.get(some), ANY)
    dumped = taken.time.now
    taken.time.pass_by(2 * MONTH)
    taken.copy(dumped + days * DAY)
    with pytest.raises(LakeFsAhead, match="those of a copy") as caught:
        taken.collect(ben, lakefs_stopped=True)
    assert written in str(caught.value)
    # The hint's other way: lakeFS has nothing that is needed.
    refs_dump(ada)
    taken.time.pass_by(2 * MONTH)
    taken.collect_all(ben, lakefs_stopped=True)
    assert not {written, STAGED} & taken.listed()
    assert list(fsck(ben, hash_data=True)) == []


def collect_tables(taken: Taken) -> None:
    """Delete the tables of lakeFS that nothing needs: in a copy, nothing tells when they came."""
    taken.time.pass_by(2 * MONTH)
    taken.collect_all(lakefs_stopped=True)
    assert STAGED not in taken.listed()
    taken.store.put(STAGED, b"staged", ANY)


def test_in_a_copy_garbage_of_lakefs_is_told_by_its_name(taken: Taken) -> None:
    ada, ben = taken.clones
    collect_tables(taken)
    refs_dump(ada)
    taken.time.pass_by(2 * MONTH)
    taken.copy(taken.time.now - MONTH)
    taken.collect_all(ben, lakefs_stopped=True)
    assert STAGED not in taken.listed()


def test_in_a_copy_tables_that_nothing_needs_stop_the_collection(taken: Taken) -> None:
    taken.time.pass_by(2 * MONTH)
    taken.copy(taken.time.now - MONTH)
    with pytest.raises(LakeFsAhead, match="those of a copy"):
        taken.collect(lakefs_stopped=True)


AT = datetime(2027, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("dump", "modified", "named", "is_later"),
    [
        (LastDump(AT), -HOUR, -HOUR, False),
        (LastDump(AT), HOUR, -HOUR, True),
        (LastDump(AT), -HOUR, 2 * HOUR, True),  # redated
        (LastDump(AT), -HOUR, HOUR / 2, False),  # the clocks differ
        (LastDump(AT), -HOUR, None, False),
        (LastDump(AT), HOUR, None, True),
        (LastDump(AT), -HOUR, -2 * MONTH, False),  # renewed, and known to be older
        (LastDump(AT), -HOUR, -HOUR / 2, False),
        (LastDump(AT, is_known=False), -HOUR, -2 * HOUR, False),
        (LastDump(AT, is_known=False), -HOUR, -2 * MONTH, True),  # may be a copy
        (LastDump(AT, is_copy=True), -MONTH, -HOUR / 2, True),
        (LastDump(AT, is_copy=True), MONTH, -2 * HOUR, False),
        (LastDump(AT, is_copy=True), -MONTH, None, True),
    ],
)
def test_what_is_later_than_the_last_dump(
    dump: LastDump, modified: timedelta, named: timedelta | None, is_later: object
) -> None:
    at = None if named is None else AT + named
    assert dump.is_before(AT + modified, at) is is_later


def test_a_dump_that_comes_in_again_lets_garbage_of_lakefs_go(taken: Taken) -> None:
    ada, ben = taken.clones
    server = LakeFs(ada.trees, refs_dump(ada).manifest)
    later = f"data/{'0' * 20}/{'0' * 19}1"
    taken.store.put(later, b"uncommitted in lakeFS", ANY)
    new = server.commit("main", next(iter(server.commits.values())).metarange_id)
    taken.time.pass_by(MONTH)
    with pytest.raises(LakeFsAhead):
        taken.collect(ben, lakefs_stopped=True)
    update_refs(ada, server.dump())
    pushing.push_all(ada, pushing.PushOptions(who="me"))
    taken.time.pass_by(MONTH)
    taken.collect_all(ben, lakefs_stopped=True)
    assert not {later, STAGED} & taken.listed()
    assert branch.show(ada, "main").commit_id == new
    assert list(fsck(ada, hash_data=True)) == []


@pytest.mark.parametrize("step", ["gc:prepare", "gc:sweeping"])
def test_a_sweep_spares_what_lakefs_wrote_after_the_last_dump(taken: Taken, step: str) -> None:
    ada, _ = taken.clones
    taken.time.pass_by(MONTH)
    taken.collect(lakefs_stopped=True)
    later = f"data/{'0' * 20}/{'0' * 19}1"

    def on_step(found: str) -> None:
        if found == step:
            taken.store.put(later, b"new", ANY)

    lake = ada.lake
    lake.runtime = lake.runtime._replace(on_step=on_step)
    taken.time.pass_by(LONG)
    with pytest.raises(LakeFsAhead, match=later):
        taken.collect()
    assert {STAGED, later} <= taken.listed()


def test_the_dump_that_lakefs_left_is_no_garbage_and_dates_the_dump_that_came_in(
    taken: Taken,
) -> None:
    _, ben = taken.clones
    lists = {SSTABLES + tree for tree in live_expected()["refs_dump"].values()}
    later = f"data/{'0' * 20}/{'0' * 19}1"
    taken.store.put(later, b"uncommitted", ANY)
    taken.store.put(MANIFEST_KEY, json.dumps(live_expected()["refs_dump"]).encode(), ANY)
    taken.time.pass_by(4 * MONTH)
    taken.collect_all(ben, lakefs_stopped=True)
    assert not {later, STAGED} & taken.listed()
    assert lists <= taken.listed()


def test_a_manifest_whose_dump_was_collected_after_the_take_over_stops_nothing(
    taken: Taken,
) -> None:
    taken.store.put(MANIFEST_KEY, json.dumps(live_expected()["refs_dump"]).encode(), ANY)
    taken.store.delete(SSTABLES + tree for tree in live_expected()["refs_dump"].values())
    with pytest.raises(LostDump):
        taken.collect(lakefs_stopped=True)
    taken.time.pass_by(MONTH)
    assert taken.collect(lakefs_stopped=True).action is Action.CONDEMNED


def xid(at: datetime) -> str:
    digits, number = "", int(at.timestamp()) << 3
    for _ in range(7):
        digits = "0123456789abcdefghijklmnopqrstuv"[number % 32] + digits
        number //= 32
    return digits + "0" * 13


def test_a_dump_for_lakefs_withdraws_the_confirmation(taken: Taken) -> None:
    (ada, _) = taken.clones
    taken.time.pass_by(MONTH)
    taken.collect(lakefs_stopped=True)
    assert status(ada).lakefs_stopped is not None
    refs_dump(ada)
    assert status(ada).lakefs_stopped is None
    taken.time.pass_by(LONG)
    report = taken.collect()
    assert (report.action, counts(report).get("lakefs")) == (Action.SWEPT, None)
    assert STAGED in taken.listed()
    with pytest.raises(SharedNamespace, match="taken over"):
        taken.collect()


def test_nothing_of_lakefs_is_garbage_before_a_branch_was_pushed(taken: Taken) -> None:
    (_, ben) = taken.clones
    taken.store.delete(taken.listed(REFS))
    with ben.lake.kv.write() as txn:  # a clone that never saw a branch there
        positions = TrackingStore(txn, ben.key)
        for each in list(positions.iter()):
            positions.delete(each.kind, each.name)
    taken.time.pass_by(2 * MONTH)
    for options in ({}, {"dry_run": True}, {"force_shared": True}):
        with pytest.raises(SharedNamespace, match="no branch of it was pushed"):
            taken.collect(ben, lakefs_stopped=True, **options)
    assert STAGED in taken.listed()


def test_only_a_namespace_that_was_taken_over_can_be_confirmed(taken: Taken) -> None:
    (ada, _) = taken.clones
    claim = json.loads(taken.store.get(REPOSITORY))
    for origin in (None, {"system": "other"}, "lakefs"):
        taken.store.put(REPOSITORY, json.dumps({**claim, "origin": origin}).encode(), ANY)
        with pytest.raises(UsageError, match="not taken over"):
            taken.collect(ada, lakefs_stopped=True)


@pytest.mark.parametrize(
    "forged", [b"", b"{}", b'{"format": 2, "stopped": true}', b'{"format": 1, "stopped": 1}']
)
def test_a_forged_confirmation_is_refused(taken: Taken, forged: bytes) -> None:
    taken.time.pass_by(MONTH)
    taken.store.put(STOPPED, forged, ANY)
    with pytest.raises(IntegrityError, match="lakefs-stopped"):
        taken.collect()


def test_objects_of_old_servers_are_garbage_in_their_namespaces_only(taken: Taken) -> None:
    (ada, _) = taken.clones
    xid_key, uuid_key, used = "c" * 20, "0123456789abcdef" * 2, "d" * 20
    for key in (xid_key, uuid_key, used, "dataset.csv", "c/file"):
        taken.store.put(key, key.encode(), ANY)
    old = claim_entry(ada, b"old", entry_at(used, used.encode()))
    refs_dump(ada)
    assert set(addresses_in(old)) >= {used.encode()}
    taken.time.pass_by(MONTH)
    taken.collect_all(lakefs_stopped=True)
    assert {xid_key, uuid_key, used} <= taken.listed()
    taken.store.put(LEGACY_LAKEFS_MARKER, b"", ANY)
    stage_value(ada, b"old", entry_at(used, used.encode()))
    taken.time.pass_by(LONG)
    assert counts(taken.collect_all())["lakefs"] == 2
    assert not {xid_key, uuid_key} & taken.listed()
    assert {used, "dataset.csv", "c/file", LEGACY_LAKEFS_MARKER} <= taken.listed()


def stage_value(repository: Repository, path: bytes, entry: Entry) -> None:
    stage_entries(repository, "main", {path: entry})


@pytest.mark.parametrize(
    "address",
    [
        STAGED,
        f"s3://bucket/ns/{STAGED}",
        f"https://account.blob.core.windows.net/c/{STAGED}",
        f"{STAGED},c2lnbmF0dXJl",
        f"https://account.blob.core.windows.net/c/{STAGED}%2Cc2lnbmF0dXJl",
    ],
)
def test_every_form_of_an_address_keeps_the_object(address: str) -> None:
    value = encode_entry(entry_at(address))
    assert blake3_of(STAGED.encode()) in digests_of(set(addresses_in(value)))


@pytest.mark.parametrize("name", ["0" * 20, "7" * 32])
def test_every_form_of_an_old_address_keeps_the_object(name: str) -> None:
    for address in (name, f"s3://bucket/ns/{name}"):
        value = encode_entry(entry_at(address))
        assert blake3_of(name.encode()) in digests_of(set(addresses_in(value)))
        assert blake3_of(name.encode()) not in digests_of(
            set(addresses_in(value, old_layout=False))
        )


def test_parts_of_a_large_namespace_have_all_partitions(
    taken: Taken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecli.gc.tasks._FEW", 1)
    monkeypatch.setattr("lakecli.engine.runner.FEW", 1)
    taken.time.pass_by(MONTH)
    make_commit(taken.clones[0], {b"a": b"1"})
    assert counts(taken.collect_all(lakefs_stopped=True))["lakefs"] >= 1
    assert STAGED not in taken.listed()
    assert list(fsck(taken.clones[1], hash_data=True)) == []


def test_a_large_namespace_is_listed_from_the_first_server_to_two_days_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lakecli.gc.tasks._FEW", 2)
    now = datetime(2027, 1, 1, tzinfo=UTC)
    times = Times(now, GRACE)
    store = MemoryStore()
    work: Any = SimpleNamespace(
        store=store,
        times=times,
        last_dump=LastDump(now - DAY),
        lakefs=SimpleNamespace(old_layout=True),
    )
    for key in (b"1", b"2"):
        store.put(data_key(blake3_of(key).hex()), key, ANY)
    assert [part.name for part in recent_lakefs_parts(work)] == [f"{LAKEFS_PART}everywhere"]
    store.put(STAGED, b"3", ANY)
    _, *parts, old = all_parts(work)
    everything = _names_between(datetime(2020, 1, 1, tzinfo=UTC), now + 2 * DAY)
    assert [part.name for part in parts] == [LAKEFS_PART + each for each in everything]
    assert old.name == f"{LAKEFS_PART}outside"
    assert {part.before for part in (*parts, old)} == {times.cutoff.timestamp()}
    dumps = {part.last_dump for part in (*parts, old)}
    assert dumps == {LastDump(now - DAY)}
    recent = [LAKEFS_PART + each for each in _names_between(times.cutoff - 2 * DAY, now + 2 * DAY)]
    assert [part.name for part in recent_lakefs_parts(work)] == recent


def test_a_part_has_the_counts_of_all_objects_and_the_records_of_the_old_ones() -> None:
    time = Time()
    store = MemoryStore(MemoryBucket(clock=time), "ns/")
    at = datetime(2027, 1, 1, tzinfo=UTC)
    names = [f"data/gp0n1l7d77pn0cke6jjg/{xid(at + day * DAY)}" for day in (1, 3, 2)]
    store.put("data/other", b"of nobody", ANY)
    for name in names[:2]:
        store.put(name, b"12345", ANY)
    time.pass_by(DAY)
    store.put(names[2], b"123", ANY)
    part = ListingPart(f"{LAKEFS_PART}gp0", time.now.timestamp())
    found = list_part(OpenStore(store), part._replace(keys=True))
    digests = sorted((blake3_of(name.encode()), name) for name in names[:2])
    assert found == PartListing(
        part.name,
        records=b"".join(digest + (5).to_bytes(8) for digest, _ in digests),
        objects=3,
        size=13,
        newest=names[1],
        keys=tuple(name for _, name in digests),
        versions=tuple(store.head(name).version for _, name in digests),
    )
    assert list_part(OpenStore(store), part) == found._replace(keys=(), versions=())
    empty = part._replace(name=f"{LAKEFS_PART}gp1")
    assert list_part(OpenStore(store), empty) == PartListing(empty.name, b"", 0, 0)


@pytest.mark.parametrize("old", [0, 1])
def test_of_several_objects_with_one_name_the_first_counts(old: int) -> None:
    time = Time()
    store = MemoryStore(MemoryBucket(clock=time), "ns/")
    keys = (STAGED, f"{STAGED},signature")
    store.put(keys[old], b"old", ANY)
    time.pass_by(DAY)
    store.put(keys[1 - old], b"young", ANY)
    part = ListingPart(f"{LAKEFS_PART}everywhere", time.now.timestamp())
    found = list_part(OpenStore(store), part)
    record = blake3_of(STAGED.encode()) + len(b"old").to_bytes(8)
    assert (found.records, found.objects) == (b"" if old else record, 2)


def test_keys_of_old_servers_are_listed_once_and_none_below_data() -> None:
    prefixes = list(_old_prefixes())
    for start in ("", "d", "da", "dat", "data"):
        for digit in LAKEFS_DIGITS:
            name = f"{start}{digit}".ljust(20, "0")
            assert sum(name.startswith(each) for each in prefixes) == 1, name
    assert not any("data/x".startswith(each) for each in prefixes)


def test_partitions_are_named_by_descending_time() -> None:
    at = datetime(2023, 3, 12, 8, 49, 48, tzinfo=UTC)
    assert list(_names_between(at, at)) == ["gp0"]
    assert written_at("data/gp0n1l7d77pn0cke6jjg/cg6p50nd77pn0cke6jk0") == datetime(
        2023, 3, 12, 8, 51, 14, tzinfo=UTC
    )
    assert written_at("0" * 32) is None

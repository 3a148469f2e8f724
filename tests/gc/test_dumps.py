"""Refs dumps, and all that their commits refer to, are kept from collection for 30 days."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakecli.base.layout import sstable_key
from lakecli.gc.run import status
from lakecli.refs.ref_store import RefStore
from lakecli.repository import branch
from lakecli.repository.guard import Gone
from lakecli.repository.lakefs.dump import MANIFEST_KEY, format_manifest
from lakecli.repository.lakefs.kept_dumps import DUMPS, KEPT_FOR, BadRecord, LostDump
from lakecli.repository.lakefs.restore import restore_refs, update_refs
from lakecli.repository.push import PushOptions, push_deletion
from lakecli.repository.refs_dump import Dumped, refs_dump, write_dump
from lakecli.stores.contract import ANY
from tests.gc.shared import LONG, Shared, make_commit, push, read_all
from tests.gc.test_roots import key_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository

DAY = timedelta(days=1)


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    with Shared(tmp_path, "ada", "ben") as made:
        yield made


def dump_of_a_deleted_branch(shared: Shared, ada: Repository) -> Dumped:
    """Dump a commit that no branch reaches any more, shortly before it is garbage."""
    make_commit(ada, {b"a": b"kept"})
    push(ada)
    branch.create(ada, "side", source="main")
    make_commit(ada, {b"b": b"dangling"}, "side")
    push(ada, "side")
    branch.delete(ada, "side")
    push_deletion(ada, "side", options=PushOptions(who="me"))
    shared.time.pass_by(25 * DAY)
    return refs_dump(ada)


def test_a_dump_and_what_it_refers_to_are_kept_for_30_days(shared: Shared) -> None:
    ada, ben = shared.clones
    dumped = dump_of_a_deleted_branch(shared, ada)
    assert dumped.commits == 3
    assert [kept.until for kept in status(ben).dumps] == [dumped.kept_until]
    lists = {sstable_key(tree) for tree in dumped.manifest[:3]}
    shared.time.pass_by(20 * DAY)
    shared.collect_all(ben)
    assert key_of(b"dangling") in shared.data
    assert lists <= shared.tables
    shared.time.pass_by(KEPT_FOR)
    assert status(ben).dumps == ()
    report = shared.collect_all(ben)
    assert "dump" not in {each.kind for each in report.garbage}
    assert shared.data == {key_of(b"kept")}
    assert not lists & shared.tables
    assert len(list(shared.store.list(DUMPS))) == 1  # the date of the last dump counts


def test_of_expired_records_only_the_newest_stays(shared: Shared) -> None:
    ada, ben = shared.clones
    make_commit(ada, {b"a": b"kept"})
    push(ada)
    for _ in range(3):
        refs_dump(ada)
        shared.time.pass_by(DAY)
    newest = max(shared.store.list(DUMPS), key=lambda info: info.modified_at).key
    shared.time.pass_by(KEPT_FOR)
    report = shared.collect_all(ben)
    assert {each.kind: each.objects for each in report.garbage}["dump"] == 2
    assert [info.key for info in shared.store.list(DUMPS)] == [newest]


def test_the_manifest_that_lakefs_left_is_a_root_as_long_as_it_is_there(shared: Shared) -> None:
    ada, ben = shared.clones
    dumped = dump_of_a_deleted_branch(shared, ada)
    shared.store.put(MANIFEST_KEY, format_manifest(dumped.manifest), ANY)
    shared.time.pass_by(10 * KEPT_FOR)
    shared.collect(ben, force_shared=True)
    shared.time.pass_by(LONG)
    shared.collect(ben, force_shared=True)
    assert shared.data == {key_of(b"kept"), key_of(b"dangling")}
    assert {sstable_key(tree) for tree in dumped.manifest[:3]} <= shared.tables
    shared.store.delete([MANIFEST_KEY])
    shared.collect_all(ben)
    assert shared.data == {key_of(b"kept")}


def test_nothing_is_collected_if_the_manifest_that_lakefs_left_cannot_be_read(
    shared: Shared,
) -> None:
    ada, ben = shared.clones
    dumped = dump_of_a_deleted_branch(shared, ada)
    body = format_manifest(dumped.manifest)
    shared.time.pass_by(10 * KEPT_FOR)
    before = shared.data
    for forged in (b"", b"[]", b"{}", body.replace(b'": "', b'": "../'), b"{" * 100_000):
        shared.store.put(MANIFEST_KEY, forged, ANY)
        with pytest.raises(BadRecord, match=MANIFEST_KEY) as caught:
            shared.collect(ben, force_shared=True)
        assert "delete that object" in (caught.value.hint or "")
    shared.store.put(MANIFEST_KEY, body, ANY)
    for lost in dumped.manifest[:3]:
        key = sstable_key(lost)
        kept = shared.store.get(key)
        shared.store.delete([key])
        ben.forget_trees()
        with pytest.raises(LostDump, match="cannot be read") as lost_dump:
            shared.collect(ben, force_shared=True)
        assert MANIFEST_KEY in (lost_dump.value.hint or "")
        shared.store.put(key, kept, ANY)
    assert shared.data == before


def test_a_kept_dump_can_be_restored(shared: Shared) -> None:
    ada, ben = shared.clones
    dumped = dump_of_a_deleted_branch(shared, ada)
    shared.time.pass_by(20 * DAY)
    shared.collect_all(ada)
    assert restore_refs(ben, dumped.manifest).commits == 3
    assert read_all(ben, "main") == {b"a": b"kept"}


def test_what_a_dump_brings_into_use_is_claimed(shared: Shared) -> None:
    ada, ben = shared.clones
    make_commit(ada, {b"a": b"kept"})
    push(ada)
    branch.create(ada, "side", source="main")
    make_commit(ada, {b"b": b"dangling"}, "side")
    push(ada, "side")
    branch.delete(ada, "side")
    push_deletion(ada, "side", options=PushOptions(who="me"))
    shared.time.pass_by(40 * DAY)
    assert {each.kind for each in shared.collect(ben).garbage} >= {"data", "metarange"}
    assert refs_dump(ada).commits == 3  # while they are condemned
    shared.time.pass_by(LONG)
    assert shared.collect(ben).spared
    assert key_of(b"dangling") in shared.data


def test_a_dump_of_a_deleted_tree_is_refused(shared: Shared) -> None:
    ada, ben = shared.clones
    made = make_commit(ada, {b"a": b"kept"})
    push(ada)
    make_commit(ben, {b"b": b"garbage"})
    shared.time.pass_by(40 * DAY)
    shared.collect_all(ada)
    shared.store.delete([sstable_key(made.metarange_id)])
    with pytest.raises(Gone):
        refs_dump(ada)
    assert not list(shared.store.list(DUMPS))


def test_nothing_is_collected_if_a_kept_dump_cannot_be_read(shared: Shared) -> None:
    ada, ben = shared.clones
    dumped = dump_of_a_deleted_branch(shared, ada)
    shared.time.pass_by(20 * DAY)
    record = next(iter(shared.store.list(DUMPS)))
    body = shared.store.get(record.key)
    shared.store.delete([sstable_key(dumped.manifest.commits)])
    with pytest.raises(LostDump, match="is kept until") as caught:
        shared.collect(ada)
    assert record.key in (caught.value.hint or "")
    for forged in (b"", b"[]", b'{"format": 1}', body.replace(b": 1", b": 2"), b"{" * 100_000):
        shared.store.put(record.key, forged, ANY)
        with pytest.raises(BadRecord, match=record.key):
            shared.collect(ben)
        with pytest.raises(BadRecord, match=record.key):
            status(ben)
    shared.time.pass_by(KEPT_FOR + DAY)
    assert shared.collect(ben).garbage


@pytest.mark.parametrize("step", ["commits", "restore", "keep-dump", "afterwards"])
def test_a_collection_and_an_update_from_lakefs_meet(shared: Shared, step: str) -> None:
    ada, ben = shared.clones
    dump_of_a_deleted_branch(shared, ada)
    with ada.lake.kv.read() as txn:
        commits = sorted(RefStore(txn, ada.key).iter_commits(), key=lambda each: each.id)
    main, side = sorted(commits, key=lambda each: each.generation)[-2:]
    manifest = write_dump(
        ben.trees,
        commits=commits,
        branches={"main": main.id, "side": side.id},
        tags={},
        default_branch="main",
    )
    shared.time.pass_by(2 * KEPT_FOR)
    assert {each.kind for each in shared.collect(ada).garbage} >= {"data", "metarange"}

    def sweep(found: str) -> None:
        if found == step:
            ben.lake.runtime = runtime
            shared.time.pass_by(LONG)
            shared.collect(ada)

    runtime = ben.lake.runtime
    ben.lake.runtime = runtime._replace(on_step=sweep)
    update_refs(ben, manifest)
    sweep("afterwards")
    assert read_all(ben, "side") == {b"a": b"kept", b"b": b"dangling"}
    push(ben, "side")
    shared.time.pass_by(LONG)
    shared.collect_all(ada)
    assert read_all(ben, "side") == {b"a": b"kept", b"b": b"dangling"}
    assert [each.by_lakefs for each in status(ada).dumps if each.lists == manifest[:3]] == [True]


def test_what_an_unpushed_update_brought_is_kept_by_other_clones(shared: Shared) -> None:
    ada, ben = shared.clones
    dumped = dump_of_a_deleted_branch(shared, ada)
    shared.time.pass_by(2 * KEPT_FOR)
    update_refs(ben, dumped.manifest)
    shared.time.pass_by(20 * DAY)
    shared.collect_all(ada)
    assert key_of(b"dangling") in shared.data

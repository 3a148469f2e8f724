"""What garbage collection deletes, and what it must keep."""

from __future__ import annotations

from datetime import timedelta
from io import BytesIO
from typing import TYPE_CHECKING

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.ids import MetarangeId
from lakecli.base.layout import (
    ATTESTATIONS,
    INCOMING,
    LINKS,
    SENT,
    attestation_key,
    data_key,
    incoming_key,
    sstable_key,
)
from lakecli.committed.tree_store import MissingTable
from lakecli.errors import IntegrityError, LakeError, NothingToDo, Refused, UsageError
from lakecli.fsck.check import fsck
from lakecli.fsck.findings import FsckCounts
from lakecli.gc.policy import Rules, find_rules, parse_rules, put_rules
from lakecli.gc.run import Action, SharedNamespace, status, undo
from lakecli.gc.state import add_expired
from lakecli.remote.attestations import Attestation, write_attestation
from lakecli.remote.gc_protocol import Phase, StateMoved, read_state
from lakecli.repository import branch, tag
from lakecli.repository.log import show_commit
from lakecli.repository.pull import PullOptions, pull
from lakecli.repository.sharing.fetch import fetch
from lakecli.repository.sharing.references import NotInBucket
from lakecli.repository.upload import UploadOptions, upload_stream
from lakecli.sstable.writer import TableWriter
from lakecli.stores.contract import ANY
from tests.gc.shared import GRACE, LONG, Shared, make_commit, push, read_all, upload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MONTHS = timedelta(days=70)


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    with Shared(tmp_path, "ada", "ben") as made:
        yield made


def key_of(contents: bytes) -> str:
    return data_key(blake3_of(contents).hex())


def test_an_upload_that_nobody_committed(shared: Shared) -> None:
    ada, ben = shared.clones
    upload(ada, b"left", b"left")
    make_commit(ben, {b"used": b"used"})
    push(ben)
    assert shared.collect(ben).action is Action.FOUND_NOTHING
    shared.time.pass_by(LONG)
    report = shared.collect(ben)
    assert report.action is Action.CONDEMNED
    assert [(each.kind, each.objects, each.size) for each in report.garbage] == [("data", 1, 4)]
    assert shared.data == {key_of(b"left"), key_of(b"used")}
    shared.time.pass_by(GRACE)
    assert shared.collect(ben).action is Action.WAITS
    shared.time.pass_by(timedelta(hours=2))
    report = shared.collect(ben)
    assert report.action is Action.SWEPT
    assert shared.data == {key_of(b"used")}
    assert read_all(ben, "main") == {b"used": b"used"}
    assert status(ben).phase is Phase.IDLE
    assert not list(shared.store.list("_lakecli/gc/marks/"))


def test_what_this_clone_staged_or_could_undo_stays(shared: Shared) -> None:
    ada, _ = shared.clones
    upload(ada, b"staged", b"staged")
    upload(ada, b"reset", b"reset")
    branch.reset_object(ada, "main", b"reset")
    assert shared.collect_all(ada).action is Action.FOUND_NOTHING
    shared.time.pass_by(MONTHS)  # the operations are too old to be taken back
    assert shared.collect_all(ada).action is Action.SWEPT
    assert shared.data == {key_of(b"staged")}


def test_what_a_deleted_branch_had_stays_as_long_as_the_reflog(shared: Shared) -> None:
    from lakecli.repository.push import PushOptions, push_deletion

    ada, ben = shared.clones
    branch.create(ada, "side", source="main")
    make_commit(ada, {b"side": b"side"}, "side")
    push(ada, "side")
    fetch(ben)
    push_deletion(ben, "side", options=PushOptions(who="me"))
    assert shared.collect_all(ben).action is Action.FOUND_NOTHING
    shared.time.pass_by(MONTHS)
    report = shared.collect_all(ben)
    assert {each.kind for each in report.garbage} == {"data", "range", "metarange"}
    assert key_of(b"side") not in shared.data
    assert not shared.tables


def test_tags_and_history_stay_without_rules(shared: Shared) -> None:
    ada, ben = shared.clones
    for number in range(4):
        make_commit(ada, {b"a": b"%d" % number})
    tag.create(ada, "v1", "main~2")
    push(ada)
    push(ada, "v1")
    shared.time.pass_by(MONTHS)
    assert shared.collect_all(ben).action is Action.FOUND_NOTHING
    pull(ben, "main", options=PullOptions(committer="me"))
    assert read_all(ben, "main~3") == {b"a": b"0"}


def test_rules_release_old_commits(shared: Shared) -> None:
    ada, ben = shared.clones
    put_rules(ada.store, Rules(21, {"side": 400}))
    make_commit(ada, {b"a": b"0"})
    branch.create(ada, "side", source="main")
    make_commit(ada, {b"a": b"side 1"}, "side")
    make_commit(ada, {b"a": b"side 2"}, "side")
    make_commit(ada, {b"a": b"1"})
    make_commit(ada, {b"a": b"2"})
    push(ada)
    push(ada, "side")
    shared.time.pass_by(MONTHS)
    report = shared.collect_all(ben)
    assert {each.kind: each.objects for each in report.garbage} == {
        "data": 1,
        "range": 1,
        "metarange": 1,
    }
    # 0 is kept by the rule of the side branch, 2 is the head, 1 was the head long ago.
    assert shared.data == {key_of(each) for each in (b"0", b"side 1", b"side 2", b"2")}
    # What was deleted on purpose is no damage to fsck, nor to the next run, whatever the rules are
    # then.
    counts = FsckCounts()
    assert not list(fsck(ada, counts=counts))
    assert counts.expired == 1
    ada.store.delete(["_lakecli/gc/rules.json"])
    assert shared.collect_all(ben).action is Action.FOUND_NOTHING


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_no_list_of_expired_trees_excuses_that_of_a_head(shared: Shared, kind: str) -> None:
    """Somebody wrote it, or it was left when its ref vanished."""
    ada, ben = shared.clones
    make_commit(ada, {b"a": b"1"})
    push(ada)
    branch.create(ada, "side", source="main")
    made = make_commit(ada, {b"a": b"2"}, "side")
    if kind == "tag":
        tag.create(ada, "v1", "side")
        branch.delete(ada, "side")
    name = "v1" if kind == "tag" else "side"
    push(ada, name)
    fetch(ben)
    lost = sstable_key(made.metarange_id)
    ada.store.delete([lost])
    add_expired(ada.store, 1, [made.metarange_id])
    counts = FsckCounts()
    assert [(each.name, each.ref) for each in fsck(ada, counts=counts)] == [(lost, name)]
    assert counts.expired == 0
    # The other clone has no branch of its own there, and reports it all the same.
    assert [(each.name, each.ref) for each in fsck(ben)] == [(lost, name)]
    shared.time.pass_by(LONG)
    with pytest.raises(MissingTable, match=lost):
        shared.collect(ben)


@pytest.mark.parametrize("restores", [False, True])
@pytest.mark.parametrize("commits", [False, True])
def test_a_push_refuses_a_branch_at_an_old_commit_whose_tree_has_expired(
    shared: Shared,
    commits: bool,  # noqa: FBT001
    restores: bool,  # noqa: FBT001
) -> None:
    ada, ben = shared.clones
    old = make_commit(ada, {b"a": b"1"})
    for contents in (b"2", b"3"):
        push(ada)
        shared.time.pass_by(MONTHS)
        make_commit(ada, {b"a": contents})
    push(ada)
    fetch(ben)
    branch.create(ada, "old", source=old.id)
    put_rules(ada.store, Rules(7, {}))
    assert shared.collect_all(ben).action is Action.SWEPT
    fetch(ada)
    if commits:
        make_commit(ada, {b"b": b"new"}, "old")
    if restores:
        ada.store.put_new(key_of(b"1"), b"1")
        push(ada, "old")
        assert list(fsck(ada)) == []
    else:
        with pytest.raises(NotInBucket):
            push(ada, "old")
    assert shared.collect_all(ben).action is not Action.WAITS


def test_a_merged_side_branch_loses_nothing_that_the_merge_has(shared: Shared) -> None:
    from lakecli.repository.merge import MergeOptions, merge

    ada, ben = shared.clones
    put_rules(ada.store, Rules(7, {}))
    branch.create(ada, "side", source="main")
    make_commit(ada, {b"side": b"side"}, "side")
    make_commit(ada, {b"main": b"main"})
    merge(ada, "side", "main", MergeOptions(committer="me"))
    push(ada)
    shared.time.pass_by(MONTHS)
    shared.collect_all(ben)
    pull(ben, "main", options=PullOptions(committer="me"))
    assert read_all(ben, "main") == {b"side": b"side", b"main": b"main"}


def test_a_commit_that_is_not_pushed_holds_for_the_grace_period(shared: Shared) -> None:
    ada, ben = shared.clones
    upload(ada, b"early", b"early")
    shared.time.pass_by(LONG)
    make_commit(ada, {b"late": b"late"})  # refers to what is old already
    assert shared.collect(ben).action is Action.FOUND_NOTHING
    assert shared.collect_all(ben).action is Action.SWEPT
    with pytest.raises(NotInBucket):
        push(ada)
    assert not [*shared.store.list("_lakecli/refs/")]
    # The same contents again, and it can be pushed.
    for contents in (b"early", b"late"):
        upload_stream(ada, "main", contents, source=BytesIO(contents), options=UploadOptions())
    assert key_of(b"early") in shared.data


def test_a_condemned_commit_is_saved_by_its_push(shared: Shared) -> None:
    ada, ben = shared.clones
    make_commit(ada, {b"a": b"a"})
    shared.time.pass_by(LONG)
    assert shared.collect(ben).action is Action.CONDEMNED
    push(ada)
    shared.time.pass_by(LONG)
    report = shared.collect(ben)
    assert (report.action, report.garbage, report.spared) == (Action.SWEPT, (), 3)
    assert read_all(ada, "main") == {b"a": b"a"}


def test_an_upload_of_what_is_condemned_keeps_it(shared: Shared) -> None:
    ada, ben = shared.clones
    upload(ben, b"left", b"left")
    shared.time.pass_by(MONTHS)
    assert shared.collect(ada).action is Action.CONDEMNED
    shared.time.pass_by(timedelta(days=1))
    upload(ben, b"again", b"left")
    assert [*shared.store.list("_lakecli/gc/keep/1/")]
    shared.time.pass_by(LONG - timedelta(days=1))
    report = shared.collect(ada)
    assert (report.action, report.garbage) == (Action.SWEPT, ())
    assert not [*shared.store.list("_lakecli/gc/keep/")]
    assert shared.data == {key_of(b"left")}


def test_a_condemned_object_that_is_sent_again_is_spared_by_its_age(shared: Shared) -> None:
    ada, ben = shared.clones
    upload(ben, b"left", b"left")
    shared.time.pass_by(MONTHS)
    assert shared.collect(ada).action is Action.CONDEMNED
    shared.store.delete([key_of(b"left")])  # by whoever tidied up; so nothing exists to be kept
    shared.time.pass_by(timedelta(days=1))
    upload(ben, b"again", b"left")
    assert not [*shared.store.list("_lakecli/gc/keep/")]
    shared.time.pass_by(LONG - timedelta(days=1))
    report = shared.collect(ada)
    assert (report.action, report.garbage) == (Action.SWEPT, ())
    assert shared.data == {key_of(b"left")}


def test_a_commit_of_condemned_ranges_saves_what_they_hold(shared: Shared) -> None:
    ada, ben = shared.clones
    make_commit(ben, {b"a": b"a"})
    shared.time.pass_by(MONTHS)
    assert shared.collect(ada).action is Action.CONDEMNED
    branch.create(ben, "other", source="main")
    shared.time.pass_by(timedelta(days=1))
    make_commit(ben, {b"b": b"b"}, "other")
    shared.time.pass_by(LONG - timedelta(days=1))
    assert shared.collect(ada).action is Action.SWEPT
    # The tree that nobody touched is gone, the one that was made of it is whole.
    assert read_all(ben, "other") == {b"a": b"a", b"b": b"b"}
    push(ben, "other")


def test_undo_works_until_the_sweep(shared: Shared) -> None:
    ada, ben = shared.clones
    upload(ben, b"left", b"left")
    with pytest.raises(NothingToDo):
        undo(ada)
    shared.time.pass_by(LONG)
    shared.collect(ada)
    assert undo(ada).phase is Phase.IDLE
    assert not [*shared.store.list("_lakecli/gc/marks/")]
    shared.time.pass_by(LONG)
    assert shared.collect(ada).status.epoch == 2
    assert shared.data


def test_a_dry_run_changes_nothing(shared: Shared) -> None:
    ada, ben = shared.clones
    upload(ben, b"left", b"left")
    shared.time.pass_by(LONG)

    def contents() -> dict[str, bytes]:
        return {info.key: shared.store.get(info.key) for info in shared.store.list()}

    before = contents()
    report = shared.collect(ada, dry_run=True)
    assert (report.action, report.garbage[0].objects) == (Action.CONDEMNED, 1)
    assert contents() == before
    shared.collect(ada)
    before = contents()
    report = shared.collect(ada, dry_run=True)
    assert (report.action, report.garbage[0].objects) == (Action.SWEPT, 1)
    assert contents() == before


def test_other_leftovers_are_deleted(shared: Shared) -> None:
    ada, _ = shared.clones
    store = shared.store
    for key in (
        "_lakecli/incoming/a.b",
        "_lakecli/doctor-0f/x",
        "_lakecli/scratch/0f/x",
        "_lakecli/unknown",
        "data/strange",
    ):
        store.put(key, b"x", ANY)
    uploads = store.uploads()
    uploads.start(key_of(b"large"))
    store.delete(["data/strange"])
    shared.time.pass_by(MONTHS)
    report = shared.collect(ada)
    assert {each.kind: each.objects for each in report.garbage} == {
        "incoming": 1,
        "doctor": 1,
        "scratch": 1,
        "upload": 1,
    }
    shared.time.pass_by(LONG)
    shared.collect(ada)
    left = {info.key for info in store.list()}
    assert {"_lakecli/unknown", "_lakecli/sharing.json"} <= left
    assert not {"_lakecli/incoming/a.b", "_lakecli/doctor-0f/x", "_lakecli/scratch/0f/x"} & left
    assert not list(uploads.iter_unfinished())


def test_a_statement_ends_with_its_tree(shared: Shared) -> None:
    ada, _ = shared.clones
    make_commit(ada, {b"raw/a": b"a"})
    push(ada)
    gone = "6a" * 32

    def state(number: int, subject: str, tree: str, prefix: str = "") -> str:
        who = "Ada <ada@example.com>"
        made = Attestation("check", "c", subject, MetarangeId(tree), prefix, who, shared.time.now)
        write_attestation(shared.store, made, id=f"{number:032x}")
        return attestation_key(subject, f"{number:032x}")

    tree = show_commit(ada, "main").metarange_id
    kept = {state(1, tree, tree), state(2, "7b" * 32, tree, "raw/"), state(3, "", "")}
    ended = {state(4, gone, gone), state(5, "7b" * 32, gone, "raw/")}
    shared.store.put(forged := attestation_key(gone, "f" * 32), b"{}", ANY)
    shared.time.pass_by(MONTHS)
    young = state(6, gone, gone)
    report = shared.collect(ada)
    assert {each.kind: each.objects for each in report.garbage} == {"statement": 2}
    shared.time.pass_by(LONG)
    shared.collect(ada)
    assert {info.key for info in shared.store.list(ATTESTATIONS)} == {*kept, forged, young}
    assert len(ended) == 2


def test_the_record_of_links_outlives_what_can_come_by_them(shared: Shared) -> None:
    ada, _ = shared.clones
    records = {f"{INCOMING}{'0f' * 8}{suffix}" for suffix in (LINKS, SENT)}
    for key in (incoming_key("0f" * 16), *records):
        shared.store.put(key, b"x", ANY)
    uploads = shared.store.uploads()
    large = uploads.start(incoming_key("1f" * 16), by_urls=True)
    shared.time.pass_by(LONG)
    shared.collect(ada)
    shared.time.pass_by(LONG)
    shared.collect(ada)
    assert {info.key for info in shared.store.list(INCOMING)} == records
    assert [each.id for each in uploads.iter_unfinished()] == [large]
    shared.time.pass_by(MONTHS)
    shared.collect(ada)
    shared.time.pass_by(MONTHS)
    shared.collect(ada)
    assert list(shared.store.list(INCOMING)) == []
    assert list(uploads.iter_unfinished()) == []


def test_replaced_packs_and_old_reflog_go_and_tombstones_stay(shared: Shared) -> None:
    from lakecli.repository.push import PushOptions, push_deletion

    ada, ben = shared.clones
    branch.create(ada, "side", source="main")
    push(ada, "side")
    push_deletion(ada, "side", options=PushOptions(who="me"))
    for number in range(40):
        make_commit(ada, {b"a": b"%d" % number})
        push(ada)
    packs = len([*shared.store.list("_lakecli/commits/")])
    shared.time.pass_by(MONTHS)
    report = shared.collect_all(ben)
    kinds = {each.kind: each.objects for each in report.garbage}
    assert kinds["pack"] > 5
    assert kinds["reflog"] > 0
    assert len([*shared.store.list("_lakecli/commits/")]) == packs - kinds["pack"]
    assert [*shared.store.list("_lakecli/refs/branches/side")]
    fetch(ben)
    pull(ben, "main", options=PullOptions(committer="me"))
    assert read_all(ben, "main~39") == {b"a": b"0"}


@pytest.mark.parametrize("what", ["table", "file", "object"])
def test_a_namespace_used_by_lakefs_is_refused(shared: Shared, what: str) -> None:
    ada, ben = shared.clones
    make_commit(ben, {b"left": b"left"})
    table = TableWriter(properties={"type": b"ranges"})
    table.add_many([b"key"], [b"value"])
    bodies = {
        "table": (sstable_key("0" * 64), table.finish()),
        "file": ("_lakefs/other.json", b"{}"),
        "object": ("data/gf0q1/c7", b"x"),
    }
    shared.store.put(*bodies[what], ANY)
    shared.time.pass_by(LONG)
    found = {
        "table": "1 ranges or metaranges of lakeFS",
        "file": "1 other files below _lakefs/",
        "object": "1 objects below data/",
    }
    with pytest.raises(SharedNamespace, match=rf"\b{found[what]}") as raised:
        shared.collect(ada, dry_run=True)
    assert not any(each in str(raised.value) for kind, each in found.items() if kind != what)
    with pytest.raises(SharedNamespace):
        shared.collect(ada)
    assert not [*shared.store.list("_lakecli/gc/marks/")]
    assert shared.collect(ada, force_shared=True).action is Action.CONDEMNED
    shared.time.pass_by(LONG)
    assert shared.collect(ada).action is Action.SWEPT
    assert bodies[what][0] in {info.key for info in shared.store.list()}
    assert key_of(b"left") not in shared.data
    assert shared.tables <= {bodies[what][0]}


def test_a_missing_range_stops_the_collection(shared: Shared) -> None:
    ada, ben = shared.clones
    make_commit(ada, {b"a": b"a"})
    push(ada)
    upload(ada, b"left", b"left")
    shared.time.pass_by(LONG)
    assert shared.collect(ben).action is Action.CONDEMNED
    make_commit(ada, {b"b": b"b"})
    push(ada)
    new = max(shared.store.list("_lakefs/"), key=lambda info: info.modified_at)
    shared.store.delete([new.key])
    shared.time.pass_by(LONG)
    with pytest.raises(IntegrityError):
        shared.collect(ben)
    # Nobody has to wait for a sweep that cannot be done, and nothing was deleted.
    assert read_state(shared.store).phase is Phase.CONDEMNED
    assert key_of(b"left") in shared.data
    with pytest.raises(IntegrityError):
        shared.collect(ben)


def test_tables_of_old_unpushed_commits_of_this_clone_stay(shared: Shared) -> None:
    ada, ben = shared.clones
    upload(ben, b"left", b"left")
    make_commit(ada, {b"a": b"a"})
    tables = shared.tables
    shared.time.pass_by(LONG)
    assert shared.collect_all(ada).action is Action.SWEPT
    assert shared.tables >= tables
    assert key_of(b"left") not in shared.data


def test_tables_that_unpushed_work_has_lost_are_reported_and_stop_nobody(shared: Shared) -> None:
    ada, ben = shared.clones
    upload(ben, b"left", b"left")
    pushed = shared.tables
    made = make_commit(ada, {b"a": b"a"})
    (range_key,) = shared.tables - pushed - {sstable_key(made.metarange_id)}
    shared.time.pass_by(LONG)
    assert shared.collect(ada, dry_run=True).lost == ()
    shared.store.delete([range_key])
    assert shared.collect(ada, dry_run=True).lost == (range_key.rpartition("/")[2],)
    shared.store.delete([sstable_key(made.metarange_id)])
    report = shared.collect(ada)
    assert (report.lost, report.action) == ((made.metarange_id,), Action.CONDEMNED)


def test_the_answer_no_deletes_nothing(shared: Shared) -> None:
    ada, ben = shared.clones
    upload(ben, b"left", b"left")
    shared.time.pass_by(LONG)
    shared.collect(ada)
    shared.time.pass_by(LONG)

    def no(_question: str) -> None:
        raise Refused("no")

    with pytest.raises(Refused):
        shared.collect(ada, confirm=no)
    assert status(ada).phase is Phase.CONDEMNED


def test_what_was_condemned_since_the_question_is_not_deleted(shared: Shared) -> None:
    ada, ben = shared.clones
    upload(ben, b"left", b"left")
    shared.time.pass_by(LONG)
    shared.collect(ada)
    shared.time.pass_by(LONG)
    before = shared.data

    def answer_late(question: str) -> None:
        assert "1 object that no ref reaches" in question
        undo(ada)
        upload(ben, b"more", b"more")
        shared.time.pass_by(LONG)
        assert shared.collect(ada).action is Action.CONDEMNED
        shared.time.pass_by(LONG)

    with pytest.raises(StateMoved):
        shared.collect(ada, confirm=answer_late)
    assert shared.data == before | {key_of(b"more")}
    assert status(ada).phase is Phase.CONDEMNED


def test_grace_periods_are_from_a_day_to_ten_years(shared: Shared) -> None:
    second = timedelta(seconds=1)
    for grace in (timedelta(hours=24), timedelta(days=3_650)):
        assert shared.collect(grace=grace).action is Action.FOUND_NOTHING
    with pytest.raises(UsageError, match="is less than 24 hours"):
        shared.collect(grace=timedelta(hours=24) - second)
    with pytest.raises(UsageError, match="is more than 3650 days"):
        shared.collect(grace=timedelta(days=3_650) + second)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"default_retention_days": 0}',
        '{"default_retention_days": "7"}',
        '{"default_retention_days": true}',
        '{"default_retention_days": 7, "branches": {"a": 1}}',
        '{"default_retention_days": 7, "branches": [{"branch_id": "a"}]}',
        '{"default_retention_days": 7, "branches": [{"branch_id": 1, "retention_days": 1}]}',
        (
            '{"default_retention_days": 7, "branches": [{"branch_id": "a", "retention_days": 1}, '
            '{"branch_id": "a", "retention_days": 2}]}'
        ),
        "[" * 100_000,
    ],
)
def test_invalid_rules_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_rules(text)


def test_rules_are_kept(shared: Shared) -> None:
    assert find_rules(shared.store) is None
    rules = parse_rules('{"default_retention_days": 7, "branches": null}')
    put_rules(shared.store, rules._replace(branches={"b": 1, "a": 2}))
    assert find_rules(shared.store) == Rules(7, {"a": 2, "b": 1})


def test_errors_of_parts_reach_the_driver() -> None:
    assert isinstance(SharedNamespace("x"), LakeError)

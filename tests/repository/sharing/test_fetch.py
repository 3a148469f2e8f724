"""Fetching the positions of the refs in the bucket."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base import layout
from lakecli.base.ids import PackId, WriteId
from lakecli.base.model import RefKind
from lakecli.errors import ErrorKind, IntegrityError, LakeError, NotFound
from lakecli.kv.bucket import ReflogStore
from lakecli.refs.ref_store import RefStore
from lakecli.remote.packs import list_packs, write_pack
from lakecli.remote.ref_records import RecordedMove
from lakecli.repository import branch, tag
from lakecli.repository.commit_attempts import initial_commit
from lakecli.repository.handle.namespace import NewerRepository
from lakecli.repository.journal.bucket_state import find_fetched
from lakecli.repository.journal.tracking import iter_known_moves, put_known_moves
from lakecli.repository.log import LogOptions, log
from lakecli.repository.open_remote import open_remote
from lakecli.repository.push import PushLease, PushOptions, push, push_deletion
from lakecli.repository.sharing.fetch import MAX_NAMED, Change, fetch
from lakecli.repository.undo.undo import undo
from lakecli.stores.contract import ANY
from tests.support.clones import Clones, make_commit, position
from tests.support.faulty import denied
from tests.support.lakes import START

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository
    from tests.support.faulty import FaultyStore

ME = PushOptions(who="Me <me@example.com>")


@pytest.fixture
def clones(tmp_path: Path, bucket: FaultyStore) -> Iterator[tuple[Repository, ...]]:
    assert bucket is not None
    with Clones.make(tmp_path, "one", "two", namespace="s3://bucket/ns") as made:
        yield made.repositories


def share(repository: Repository, *names: str) -> None:
    for name in names:
        push(repository, name, options=ME)


def changes(repository: Repository) -> list[tuple[str, Change]]:
    return [(update.name, update.change) for update in fetch(repository).updated]


def test_fetch_records_when_it_has_read_the_bucket(clones: tuple[Repository, ...]) -> None:
    seen = []
    for _ in range(2):
        fetch(clones[1])
        with clones[1].lake.kv.read() as txn:
            seen.append(find_fetched(txn, clones[1]))
    first, second = seen
    assert first is not None
    assert second is not None
    assert second.at > first.at


def test_fetch_moves_no_local_branch(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    before = branch.show(two, "main")
    made = make_commit(one, b"a")
    share(one, "main")
    report = fetch(two)
    assert report.updated == (("branch", "main", None, made.id, Change.NEW),)
    assert (report.commits, report.packs, report.refs) == (1, 1, 1)
    assert branch.show(two, "main") == before
    assert fetch(two).updated == ()


def test_fetch_reports_what_happened_to_refs(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    first = make_commit(one, b"a")
    branch.create(one, "side", source="main")
    tag.create(one, "v1", "main")
    share(one, "main", "side", "v1")
    assert changes(two) == [("main", Change.NEW), ("side", Change.NEW), ("v1", Change.NEW)]
    assert tag.show(two, "v1").commit_id == first.id
    make_commit(one, b"b")
    push_deletion(one, "side", options=ME)
    share(one, "main")
    assert changes(two) == [("main", Change.MOVED), ("side", Change.DELETED)]
    branch.create(two, "main2", source=first.id)
    make_commit(two, b"c", "main2")
    share(two, "main2")
    fetch(one)
    branch.create(one, "main2", source="main")
    push(one, "main2", options=ME._replace(lease=PushLease()))
    assert changes(two) == [("main2", Change.FORCED)]


def test_a_differing_tag_stays_and_is_reported(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    make_commit(one, b"a")
    tag.create(one, "v1", "main")
    tag.create(one, "taken", "main")
    mine = tag.create(two, "v1", "main")
    branch.create(two, "taken", source="main")
    share(one, "v1", "taken")
    assert changes(two) == [("taken", Change.DIFFERS), ("v1", Change.DIFFERS)]
    assert tag.show(two, "v1") == mine
    assert changes(two) == []


@pytest.mark.parametrize("deletes", [False, True])
def test_a_tag_that_was_undone_while_another_fetch_ran_stays_away(
    clones: tuple[Repository, ...], *, deletes: bool
) -> None:
    one, two = clones
    make_commit(one, b"a")
    tag.create(one, "v1", "main")
    share(one, "v1")
    calm = two.lake.runtime

    def meanwhile(name: str) -> None:
        if name == "track":
            two.lake.runtime = calm
            fetch(two)
            if deletes:
                tag.delete(two, "v1")
            else:
                undo(two)

    two.lake.runtime = calm._replace(on_step=meanwhile)
    fetch(two)
    with pytest.raises(NotFound):
        tag.show(two, "v1")


def test_fetch_stores_the_moves_of_refs(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    heads = []
    for path in (b"a", b"b", b"c"):
        heads.append(make_commit(one, path).id)
        share(one, "main")
    fetch(two)
    with two.lake.kv.read() as txn:
        moves = list(iter_known_moves(txn, two, RefKind.BRANCH, "main"))
    assert [move.after for move in moves] == heads[::-1]
    assert {(move.who, move.why) for move in moves} == {(ME.who, "push")}


def test_a_move_is_stored_whole(repository: Repository) -> None:
    move = RecordedMove(7, WriteId("0f" * 16), None, None, "Ada", START, "push", PackId("cd" * 32))
    move = move._replace(extra='{"later":1}')
    with repository.lake.kv.write() as txn:
        put_known_moves(txn, repository, RefKind.BRANCH, "main", [move])
        assert list(iter_known_moves(txn, repository, RefKind.BRANCH, "main")) == [move]
        ReflogStore(txn, repository.key).put_moves(RefKind.BRANCH, "main", [{"sequence": 8}])
        with pytest.raises(IntegrityError, match="is not valid"):
            next(iter_known_moves(txn, repository, RefKind.BRANCH, "main"))


def test_fetch_reads_only_new_objects(clones: tuple[Repository, ...], bucket: FaultyStore) -> None:
    one, two = clones
    make_commit(one, b"a")
    for name in ("b1", "b2", "b3", "b4"):
        branch.create(one, name, source="main")
        share(one, name)
    fetch(two)
    bucket.calls.clear()
    assert changes(two) == []
    # The state of garbage collection; one LIST of refs.
    assert (bucket.calls["get"], bucket.calls["list"]) == (1, 1)
    make_commit(one, b"b", "b1")
    share(one, "b1")
    bucket.calls.clear()
    assert changes(two) == [("b1", Change.MOVED)]
    assert (bucket.calls["get"], bucket.calls["list"]) == (4, 1)


def test_packs_that_no_ref_needs_are_not_read(
    clones: tuple[Repository, ...], bucket: FaultyStore
) -> None:
    one, two = clones
    make_commit(one, b"a")
    share(one, "main")
    fetch(two)
    made = make_commit(one, b"b")
    for number in range(5):  # packs of others, who lost a race
        write_pack(bucket, [made._replace(message=f"lost {number}")])
    share(one, "main")
    bucket.calls.clear()
    report = fetch(two)
    assert (report.packs, bucket.calls["get"], bucket.calls["list"]) == (1, 4, 1)


def test_fetch_lists_packs_when_many_are_new(
    clones: tuple[Repository, ...], bucket: FaultyStore
) -> None:
    one, two = clones
    for number in range(MAX_NAMED + 1):
        make_commit(one, b"%d" % number)
        share(one, "main")
    bucket.calls.clear()
    report = fetch(two)
    assert bucket.calls["list"] == 2
    assert report.packs < MAX_NAMED
    assert position(two) == position(one)


class LatePacks:
    """A store whose listing lacks some packs."""

    def __init__(self, store: FaultyStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hidden: set[str] = set()
        listed = store.list

        def list_late(prefix: str = "", *, after: str = "") -> Iterator[Any]:
            return (info for info in listed(prefix, after=after) if info.key not in self.hidden)

        monkeypatch.setattr(store, "list", list_late)
        self._store = store

    def hide_all(self) -> None:
        self.hidden = {info.key for info in self._store.list(layout.COMMITS)}


def test_a_pack_that_is_listed_late_is_found_by_the_move_that_names_it(
    clones: tuple[Repository, ...], bucket: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = clones
    late = LatePacks(bucket, monkeypatch)
    made = make_commit(one, b"a")
    share(one, "main")
    late.hide_all()
    assert changes(two) == [("main", Change.NEW)]
    assert position(two) == made.id


def test_a_pack_that_falsely_claims_to_replace_others_hides_no_commit(
    clones: tuple[Repository, ...], bucket: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = clones
    for path in (b"a", b"b", b"c"):
        make_commit(one, path)
        share(one, "main")
    large = initial_commit(START)._replace(message=os.urandom(1 << 15).hex())
    forged = large._replace(id=large.compute_id())
    write_pack(bucket, [forged], replaces=[info.id for info in list_packs(bucket)])
    monkeypatch.setattr("lakecli.repository.sharing.fetch.MAX_NAMED", 0)
    assert changes(two) == [("main", Change.NEW)]
    assert position(two) == position(one)
    reader = open_remote(two.lake.home, two.lake.runtime, two.record.storage_namespace)
    with reader, log(reader, "main", LogOptions()) as found:
        assert len(list(found)) == 4


@pytest.mark.parametrize("hides_all", [False, True])
def test_a_ref_whose_commits_are_not_there_yet_stays_where_it_was(
    clones: tuple[Repository, ...],
    bucket: FaultyStore,
    monkeypatch: pytest.MonkeyPatch,
    hides_all: bool,  # noqa: FBT001
) -> None:
    one, two = clones
    first = make_commit(one, b"a")
    branch.create(one, "side", source="main")
    share(one, "main", "side")
    fetch(two)
    # The pack of the second commit came with another ref, so no move of main names it.
    make_commit(one, b"b", "side")
    share(one, "side")
    packs = {info.key for info in bucket.list(layout.COMMITS)}
    branch.create(one, "other", source="side")
    third = make_commit(one, b"c", "other")
    share(one, "other")
    push_deletion(one, "side", options=ME)
    late = LatePacks(bucket, monkeypatch)
    late.hidden = packs
    if hides_all:
        late.hide_all()
    kept = {key: bucket.bucket.objects.pop(f"ns/{key}") for key in packs}
    report = changes(two)
    assert ("other", Change.INCOMPLETE) in report
    assert position(two, "other") is None
    assert position(two) == first.id
    assert ("other", Change.INCOMPLETE) in changes(
        two
    )  # and not considered complete at the next fetch
    packs |= {info.key for info in bucket.list(layout.COMMITS)}
    kept |= {key: bucket.bucket.objects.pop(f"ns/{key}") for key in packs - kept.keys()}
    assert ("other", Change.INCOMPLETE) in changes(two)  # nor if no pack is there any more
    bucket.bucket.objects.update({f"ns/{key}": value for key, value in kept.items()})
    late.hidden = set()
    assert changes(two) == [("other", Change.NEW)]
    assert position(two, "other") == third.id
    with two.lake.kv.read() as txn:
        refs = RefStore(txn, two.key)
        assert refs.get_commit(third.id).parents
        assert refs.find_commit(refs.get_commit(third.id).parents[0]) is not None


def test_a_ref_missing_from_the_listing_is_read_by_its_key(
    clones: tuple[Repository, ...], bucket: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = clones
    make_commit(one, b"a")
    share(one, "main")
    fetch(two)
    second = make_commit(one, b"b")
    share(one, "main")
    late = LatePacks(bucket, monkeypatch)
    late.hidden = {layout.ref_key(RefKind.BRANCH, "main")}
    assert changes(two) == [("main", Change.MOVED)]
    assert position(two) == second.id
    bucket.delete([layout.ref_key(RefKind.BRANCH, "main")])
    late.hidden = set()
    assert changes(two) == [("main", Change.WENT_BACK)]


def spoil_ref(bucket: FaultyStore) -> None:
    bucket.put(layout.ref_key(RefKind.BRANCH, "main"), b"{}", ANY)


def spoil_pack(bucket: FaultyStore) -> None:
    (info,) = bucket.list(layout.COMMITS)
    bucket.put(info.key, bucket.get(info.key)[:-9] + b"no pack!!", ANY)


def remove_repository(bucket: FaultyStore) -> None:
    bucket.delete([layout.REPOSITORY])


def make_newer(bucket: FaultyStore) -> None:
    body = bucket.get(layout.REPOSITORY)
    bucket.put(layout.REPOSITORY, body.replace(b'"format": 1', b'"format": 2'), ANY)


def forbid_listing(bucket: FaultyStore) -> None:
    bucket.errors["list"] = denied("list")


@pytest.mark.parametrize(("spoil", "kind"), [(spoil_ref, "branch"), (spoil_pack, "pack")])
def test_fetch_skips_damaged_refs(
    clones: tuple[Repository, ...], bucket: FaultyStore, spoil: Any, kind: str
) -> None:
    one, two = clones
    make_commit(one, b"a")
    share(one, "main")
    spoil(bucket)
    report = fetch(two)
    assert [each.kind for each in report.damaged] == [kind]
    assert position(two) is None


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (remove_repository, ErrorKind.REFUSED),
        (make_newer, ErrorKind.REFUSED),
        (forbid_listing, ErrorKind.PERMISSION),
    ],
)
def test_fetch_refuses_bad_input(
    clones: tuple[Repository, ...], bucket: FaultyStore, spoil: Any, kind: ErrorKind
) -> None:
    one, two = clones
    make_commit(one, b"a")
    share(one, "main")
    spoil(bucket)
    with pytest.raises(LakeError) as raised:
        fetch(two)
    assert raised.value.kind == kind
    assert raised.value.hint
    assert position(two) is None


def test_what_only_newer_versions_may_write_is_fetched_and_not_pushed(
    clones: tuple[Repository, ...], bucket: FaultyStore
) -> None:
    one, two = clones
    made = make_commit(one, b"a")
    share(one, "main")
    fields = json.loads(bucket.get(layout.REPOSITORY))
    newer = json.dumps({**fields, "needs_write": ["something new"]}).encode()
    bucket.put(layout.REPOSITORY, newer, ANY)
    fetch(two)
    assert position(two) == made.id
    make_commit(one, b"b")
    with pytest.raises(NewerRepository):
        share(one, "main")
    assert position(one) == made.id


def test_fetch_ignores_unknown_keys(clones: tuple[Repository, ...], bucket: FaultyStore) -> None:
    one, two = clones
    make_commit(one, b"a")
    share(one, "main")
    for key in ("branches/a b", "branches/%7Enot-legal", "heads/main", "branches/x/y", "readme"):
        bucket.put(layout.REFS + key, b"what is this", ANY)
    bucket.put(layout.COMMITS + "no-pack", b"what is this", ANY)
    assert changes(two) == [("main", Change.NEW)]

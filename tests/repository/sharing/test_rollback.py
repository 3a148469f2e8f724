"""A bucket that went back in time: nothing remembered about it is trusted."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakecli.base.layout import COMMITS, REFLOG, SSTABLES
from lakecli.base.model import RefKind
from lakecli.errors import NotFound
from lakecli.fsck.check import fsck
from lakecli.remote.ref_records import MAX_MOVES
from lakecli.remote.refs import find_ref
from lakecli.repository import branch, repo, tag
from lakecli.repository.clone import clone
from lakecli.repository.commit import commit
from lakecli.repository.journal.bucket_state import notify_rollback
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.pull import PullOptions, pull
from lakecli.repository.push import PushLease, PushOptions, push, push_all, push_deletion
from lakecli.repository.sharing.fetch import Change, fetch
from lakecli.repository.sharing.publish import StaleLease
from lakecli.repository.sharing.references import SAMPLE, NotInBucket
from lakecli.repository.status import went_back
from lakecli.stores.contract import ANY
from tests.support.clones import machine, synced
from tests.support.lakes import START, checksums, entry_of, read, stage, stage_entries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.base.model import Commit, CommitId
    from lakecli.repository.contract import Repository
    from tests.support.faulty import FaultyStore

ME = PushOptions(who="Me <me@example.com>")
NAMESPACE = "s3://bucket/ns"


class Backup:
    """A backup of all objects of a bucket."""

    def __init__(self, store: FaultyStore) -> None:
        self._store = store
        self._objects = dict(store.bucket.objects)

    def restore(self, *, keep: str = "") -> None:
        """Restore the backup, but keep newer objects with `keep` in their key."""
        made = {key: value for key, value in self._store.bucket.objects.items() if keep in key}
        self._store.bucket.objects.clear()
        self._store.bucket.objects.update((made if keep else {}) | self._objects)


@pytest.fixture
def clones(tmp_path: Path, bucket: FaultyStore) -> Iterator[tuple[Repository, Repository]]:
    """Two clones of a bucket with one commit; each machine has its cache."""
    with machine(tmp_path, "ada") as one, machine(tmp_path, "bob") as two:
        ada = repo.create(one, "demo", NAMESPACE, range_entries=16)
        put(ada, {b"first": b"first"})
        push(ada, "main", options=ME)
        bob = clone(two, NAMESPACE, "demo")
        yield ada, bob


def put(repository: Repository, contents: dict[bytes, bytes], name: str = "main") -> Commit:
    """Commit objects, whose bytes are in the bucket."""
    for data in contents.values():
        repository.store.put_new(entry_of(data).physical_address, data)
    stage(repository, name, dict(contents))
    return commit(repository, name, message="-", committer="me")


def there(
    repository: Repository, name: str = "main", kind: RefKind = RefKind.BRANCH
) -> CommitId | None:
    ref = find_ref(repository.store, kind, name)
    return None if ref is None else ref.commit_id


def here(repository: Repository, name: str = "main") -> CommitId:
    return branch.show(repository, name).commit_id


def notices(repository: Repository) -> str:
    """Return the notices since the last call."""
    found = "\n".join(each.message for each in repository.notices)
    repository.notices.clear()
    return found


@pytest.mark.parametrize(
    ("count", "named"),
    [(3, "branch 0, branch 1, branch 2; a"), (4, "branch 0, branch 1, branch 2 and 1 more; a")],
)
def test_a_notice_names_three_refs(
    clones: tuple[Repository, Repository], count: int, named: str
) -> None:
    ada, _ = clones
    notices(ada)
    notify_rollback(ada, [(RefKind.BRANCH, str(number)) for number in range(count)])
    assert f"went back in time: {named}" in notices(ada)


def check_whole(tmp_path: Path, expected: dict[bytes, bytes], name: str = "main") -> None:
    """Make a new clone, read a branch, and check that nothing is missing."""
    with machine(tmp_path, "fresh") as lake:
        made = clone(lake, NAMESPACE, "demo")
        assert read(made, name) == checksums(dict(expected))
        assert list(fsck(made, hash_data=True)) == []


FIRST = {b"first": b"first"}


def test_push_sends_lost_objects_again(
    clones: tuple[Repository, Repository], bucket: FaultyStore, tmp_path: Path
) -> None:
    ada, _ = clones
    backup = Backup(bucket)
    put(ada, {b"second": b"2"})
    push(ada, "main", options=ME)
    third = put(ada, {b"third": b"3"})
    backup.restore(keep="/data/")
    done = push(ada, "main", options=ME)
    assert done.after == there(ada) == third.id
    told = notices(ada)
    assert "the bucket went back in time: branch main" in told
    assert "were sent again" in told
    check_whole(tmp_path, FIRST | {b"second": b"2", b"third": b"3"})


def test_push_lists_data_that_is_gone_and_moves_nothing(
    clones: tuple[Repository, Repository], bucket: FaultyStore, tmp_path: Path
) -> None:
    ada, _ = clones
    backup = Backup(bucket)
    put(ada, {b"second": b"2"})
    push(ada, "main", options=ME)
    put(ada, {b"third": b"3"})
    backup.restore()
    before = there(ada)
    for _ in range(2):  # at every command, not only the first
        with pytest.raises(NotInBucket) as caught:
            push(ada, "main", options=ME)
        assert caught.value.paths == (b"second", b"third")
        assert there(ada) == before
    for data in (b"2", b"3"):
        ada.store.put_new(entry_of(data).physical_address, data)
    push(ada, "main", options=ME)
    check_whole(tmp_path, FIRST | {b"second": b"2", b"third": b"3"})


@pytest.mark.parametrize("is_auto", [False, True])
@pytest.mark.parametrize("bodies", [SAMPLE, 1])
def test_a_push_of_much_data_compares_all_refs(
    clones: tuple[Repository, Repository], bucket: FaultyStore, *, is_auto: bool, bodies: int
) -> None:
    """The youngest data came after the backup was restored, and the pushed ref is new."""
    ada, _ = clones
    branch.create(ada, "dev", source="main")
    backup = Backup(bucket)
    early = {b"early %d" % number: b"e%d" % number for number in range(4)}
    for data in early.values():
        ada.store.put_new(entry_of(data).physical_address, data)
    stage(ada, "dev", dict(early))
    put(ada, {b"second": b"2"})
    push(ada, "main", options=ME)
    sharing = synced(ada, "ada")
    sharing.catch_up()  # too early to notice anything
    backup.restore()
    late = {b"late %02d" % number: b"l%d" % (number % bodies) for number in range(SAMPLE)}
    at = START + timedelta(minutes=1)
    stage_entries(ada, "dev", {path: entry_of(data, at=at) for path, data in late.items()})
    for data in late.values():
        ada.store.put_new(entry_of(data).physical_address, data)

    def share() -> None:
        commit(sharing.repository if is_auto else ada, "dev", message="-", committer="me")
        push(ada, "dev", options=ME)

    with pytest.raises(NotInBucket) as caught:
        share()
    assert caught.value.paths == tuple(early)
    assert there(ada, "dev") is None
    assert "the bucket went back in time: branch main" in notices(ada)


def test_unpushed_data_that_is_gone_is_reported(
    clones: tuple[Repository, Repository], bucket: FaultyStore
) -> None:
    ada, _ = clones
    backup = Backup(bucket)
    put(ada, {b"second": b"2"})
    backup.restore()
    with pytest.raises(NotInBucket) as caught:
        push(ada, "main", options=ME)
    assert caught.value.paths == (b"second",)


@pytest.mark.parametrize("most_read", [0, 4])
def test_push_does_not_trust_another_ref_that_is_gone(
    clones: tuple[Repository, Repository],
    bucket: FaultyStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    most_read: int,
) -> None:
    """Whether the other refs are listed or read one by one."""
    monkeypatch.setattr("lakecli.repository.sharing.publish._MOST_READ", most_read)
    ada, _ = clones
    backup = Backup(bucket)
    branch.create(ada, "dev", source="main")
    put(ada, {b"dev": b"d"}, "dev")
    push(ada, "dev", options=ME)
    merge(ada, "dev", "main", MergeOptions("me"))
    backup.restore(keep="/data/")
    push(ada, "main", options=ME)
    check_whole(tmp_path, FIRST | {b"dev": b"d"})


@pytest.mark.parametrize("most_read", [0, 4])
def test_push_does_not_trust_another_ref_that_went_back(
    clones: tuple[Repository, Repository],
    bucket: FaultyStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    most_read: int,
) -> None:
    """Whether the other refs are listed or read one by one."""
    monkeypatch.setattr("lakecli.repository.sharing.publish._MOST_READ", most_read)
    ada, _ = clones
    branch.create(ada, "dev", source="main")
    push(ada, "dev", options=ME)
    fetch(ada)
    backup = Backup(bucket)
    put(ada, {b"dev": b"d"}, "dev")
    push(ada, "dev", options=ME)
    merge(ada, "dev", "main", MergeOptions("me"))
    backup.restore(keep="/data/")
    push(ada, "main", options=ME)
    check_whole(tmp_path, FIRST | {b"dev": b"d"})


def test_lost_packs_are_rewritten(
    clones: tuple[Repository, Repository], bucket: FaultyStore, tmp_path: Path
) -> None:
    ada, _ = clones
    second = put(ada, {b"second": b"2"})
    packs = {key for key in bucket.bucket.objects if COMMITS in key}
    push(ada, "main", options=ME)
    push(ada, "main", options=PushOptions(who="me", lease=PushLease()))
    for key in [key for key in bucket.bucket.objects if COMMITS in key and key not in packs]:
        del bucket.bucket.objects[key]
    for key in [key for key in bucket.bucket.objects if "/refs/" in key]:
        del bucket.bucket.objects[key]
    assert push(ada, "main", options=ME).after == second.id
    check_whole(tmp_path, FIRST | {b"second": b"2"})


def test_a_few_other_refs_are_not_listed(
    clones: tuple[Repository, Repository], monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, _ = clones
    branch.create(ada, "dev", source="main")
    put(ada, {b"dev": b"d"}, "dev")
    push(ada, "dev", options=ME)
    fetch(ada)
    merge(ada, "dev", "main", MergeOptions("me"))
    listed: list[object] = []
    monkeypatch.setattr("lakecli.repository.sharing.publish.iter_refs", listed.append)
    push(ada, "main", options=ME)
    assert there(ada) == here(ada)
    assert listed == []


def test_fetch_reports_a_rollback_once_and_status_until_it_is_repaired(
    clones: tuple[Repository, Repository], bucket: FaultyStore
) -> None:
    ada, bob = clones
    first = there(ada)
    backup = Backup(bucket)
    second = put(ada, {b"second": b"2"})
    push(ada, "main", options=ME)
    tag.create(ada, "v1", "main")
    push(ada, "v1", options=ME)
    pull(bob, "main", PullOptions("bob"))
    assert read(bob, "main") == checksums(FIRST | {b"second": b"2"})  # which caches the tables
    backup.restore(keep="/data/")
    report = fetch(bob)
    assert [(each.name, each.before, each.after, each.change) for each in report.updated] == [
        ("v1", second.id, None, Change.WENT_BACK),
        ("main", second.id, first, Change.WENT_BACK),
    ]
    assert "tag v1" in notices(bob)
    assert fetch(bob).updated == ()
    assert notices(bob) == ""
    assert went_back(bob) == [("branch", "main"), ("tag", "v1")]
    assert "branch main" in notices(bob)
    push_all(bob, ME)
    assert (there(bob), there(bob, "v1", RefKind.TAG)) == (second.id, second.id)
    notices(bob)
    assert went_back(bob) == []
    assert notices(bob) == ""


def test_a_ref_that_went_back_and_moved_on_is_reported(
    clones: tuple[Repository, Repository], bucket: FaultyStore, tmp_path: Path
) -> None:
    """The sequence number is the same, or higher, and the move another one."""
    ada, bob = clones
    for more in (1, 2):
        backup = Backup(bucket)
        put(ada, {b"ada": b"%d" % more})
        push(ada, "main", options=ME)
        backup.restore(keep="/data/")
        pull(bob, "main", PullOptions("bob"))
        notices(bob)
        for number in range(more):
            put(bob, {b"bob": b"%d%d" % (more, number)})
            push(bob, "main", options=ME)
        assert "went back" not in notices(bob)
        assert Change.WENT_BACK in [each.change for each in fetch(ada).updated]
        pull(ada, "main", PullOptions("ada"))
        push(ada, "main", options=ME)
    check_whole(tmp_path, FIRST | {b"ada": b"2", b"bob": b"21"})


def test_a_ref_that_went_back_and_moved_often_is_reported(
    clones: tuple[Repository, Repository], bucket: FaultyStore
) -> None:
    """The move that was seen would be in the shared reflog, not in the ref any more."""
    ada, bob = clones
    fetch(bob)
    backup = Backup(bucket)
    put(ada, {b"ada": b"1"})
    push(ada, "main", options=ME)
    backup.restore(keep="/data/")
    for number in range(MAX_MOVES + 1):
        put(bob, {b"bob": b"%d" % number})
        push(bob, "main", options=ME)
    assert [each.change for each in fetch(ada).updated] == [Change.WENT_BACK]
    for number in range(MAX_MOVES + 1):
        put(bob, {b"bob": b"again %d" % number})
        push(bob, "main", options=ME)
    assert [each.change for each in fetch(ada).updated] == [Change.MOVED]


def test_a_damaged_reflog_does_not_keep_a_fetch_from_its_work(
    clones: tuple[Repository, Repository], bucket: FaultyStore
) -> None:
    ada, bob = clones
    fetch(ada)
    for number in range(MAX_MOVES + 1):
        put(bob, {b"bob": b"%d" % number})
        push(bob, "main", options=ME)
    for key in [key for key in bucket.bucket.objects if REFLOG in key]:
        ada.store.put(key.removeprefix("ns/"), b"forged", ANY)
    assert [each.change for each in fetch(ada).updated] == [Change.MOVED]


def test_a_lease_on_a_ref_that_went_back_is_refused(
    clones: tuple[Repository, Repository], bucket: FaultyStore
) -> None:
    ada, _ = clones
    backup = Backup(bucket)
    put(ada, {b"second": b"2"})
    push(ada, "main", options=ME)
    branch.create(ada, "dev", source="main")
    push(ada, "dev", options=ME)
    backup.restore(keep="/data/")
    with pytest.raises(StaleLease):
        push(ada, "main", options=PushOptions(who="me", lease=PushLease()))
    with pytest.raises(NotFound):
        push_deletion(ada, "dev", options=ME)


class TestAuto:
    def test_local_commits_stay_and_the_next_commit_restores_the_bucket(
        self, clones: tuple[Repository, Repository], bucket: FaultyStore, tmp_path: Path
    ) -> None:
        _, bob = clones
        backup = Backup(bucket)
        sharing = synced(bob, "bob")
        sharing.catch_up()
        second = put(sharing.repository, {b"second": b"2"})
        branch.create(sharing.repository, "dev", source="main")
        sharing.finish()
        backup.restore(keep="/data/")
        sharing = synced(bob, "bob")
        sharing.catch_up()
        assert here(bob) == here(bob, "dev") == second.id
        assert "went back in time" in notices(bob)
        put(sharing.repository, {b"third": b"3"})
        sharing.finish()
        assert there(bob) == here(bob)
        assert "sent again" in notices(bob)
        check_whole(tmp_path, FIRST | {b"second": b"2", b"third": b"3"})

    def test_undo_does_not_touch_the_bucket(
        self, clones: tuple[Repository, Repository], bucket: FaultyStore
    ) -> None:
        from lakecli.repository.undo.undo import undo

        _, bob = clones
        first = there(bob)
        backup = Backup(bucket)
        sharing = synced(bob, "bob")
        sharing.catch_up()
        put(sharing.repository, {b"second": b"2"})
        sharing.finish()
        backup.restore(keep="/data/")
        sharing = synced(bob, "bob")
        sharing.catch_up()
        undo(sharing.repository, remote=True, committer="bob")
        sharing.finish()
        assert here(bob) == there(bob) == first


def test_lost_tables_that_no_clone_has_are_reported(
    clones: tuple[Repository, Repository], bucket: FaultyStore
) -> None:
    ada, _ = clones
    put(ada, {b"second": b"2"})
    for key in [key for key in bucket.bucket.objects if SSTABLES in key]:
        del bucket.bucket.objects[key]
    for file in (Path(ada.lake.home.cache) / ada.record.uuid).iterdir():
        file.unlink()
    with pytest.raises(NotInBucket, match="_lakefs/"):
        push(ada, "main", options=ME)

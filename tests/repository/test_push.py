"""Moving refs in the bucket to their local positions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from lakecli.base.layout import COMMITS, ref_key, sstable_key
from lakecli.base.model import CommitId, RefKind
from lakecli.errors import AlreadyExists, HookFailed, LostRace, NotFound, Refused
from lakecli.fsck.repair import repair_packs
from lakecli.kv import operations as log
from lakecli.kv.bucket import TrackingStore
from lakecli.remote import packs
from lakecli.remote.ref_records import NotOurs
from lakecli.repository import branch, tag
from lakecli.repository.clone import clone
from lakecli.repository.commit import commit
from lakecli.repository.push import Pushing, PushLease, PushOptions, push, push_all, push_deletion
from lakecli.repository.sharing.fetch import fetch
from lakecli.repository.sharing.publish import NonFastForward, StaleLease
from lakecli.repository.sharing.references import NotInBucket
from lakecli.stores.contract import ANY
from tests.support.clones import Clones, machine, make_commit, position
from tests.support.faulty import denied
from tests.support.lakes import checksums, read, stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from lakecli.repository.contract import Repository

ME = PushOptions(who="Me <me@example.com>")


@pytest.fixture
def clones(tmp_path: Path) -> Iterator[tuple[Repository, ...]]:
    with Clones.make(tmp_path, "one", "two") as made:
        yield made.repositories


def state_of(repository: Repository, name: str = "main", options: PushOptions = ME) -> Pushing:
    return push(repository, name, options=options).state


def test_push_creates_a_branch_and_then_moves_it(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    first = make_commit(one, b"a")
    assert push(one, "main", options=ME) == ("branch", "main", None, first.id, Pushing.CREATED)
    assert state_of(one) is Pushing.UP_TO_DATE
    second = make_commit(one, b"b")
    third = make_commit(one, b"c")
    pushed = push(one, "main", options=ME)
    assert pushed == ("branch", "main", first.id, third.id, Pushing.UPDATED)
    assert position(one) == third.id
    fetch(two)
    assert position(two) == third.id
    assert read(two, second.id) == checksums({b"a": b"a", b"b": b"b"})


def test_push_is_logged_and_moves_no_local_ref(clones: tuple[Repository, ...]) -> None:
    one = clones[0]
    made = make_commit(one, b"a")
    before = branch.show(one, "main")
    push(one, "main", options=ME)
    assert branch.show(one, "main") == before
    with one.lake.kv.read() as txn:
        newest = next(log.iter_operations(txn, one.key))
    assert (newest.kind, newest.refs, newest.staging) == ("push", (), ())
    assert newest.metadata["ref"] == "main"
    assert newest.metadata["after"] == made.id


def test_a_dry_run_of_push_moves_nothing(clones: tuple[Repository, ...]) -> None:
    one = clones[0]
    make_commit(one, b"a")
    keys = {info.key for info in one.store.list()}
    assert state_of(one, options=ME._replace(dry_run=True)) is Pushing.CREATED
    assert {info.key for info in one.store.list()} == keys
    assert state_of(one) is Pushing.CREATED


def test_push_refuses_a_diverged_branch(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    theirs = make_commit(one, b"a")
    make_commit(two, b"b")
    push(one, "main", options=ME)
    with pytest.raises(NonFastForward, match=theirs.id) as raised:
        push(two, "main", options=ME)
    assert raised.value.hint == "merge them first: `pull lakefs://demo/main`"
    assert position(two) is None  # only a fetch sets it, or a lease would protect nothing


def test_pushing_a_branch_that_is_behind_is_nothing_to_do(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    made = make_commit(one, b"a")
    push(one, "main", options=ME)
    pushed = push(two, "main", options=ME)
    assert (pushed.state, pushed.after) == (Pushing.BEHIND, made.id)
    with pytest.raises(StaleLease, match=made.id):  # only a fetch makes it the expected one
        push(two, "main", options=ME._replace(lease=PushLease()))


def test_pushing_an_unknown_ref_is_not_found(clones: tuple[Repository, ...]) -> None:
    with pytest.raises(NotFound, match="no branch or tag 'nope'"):
        push(clones[0], "nope", options=ME)
    with pytest.raises(NotFound, match="no tag 'main'"):
        push(clones[0], "main", kind=RefKind.TAG, options=ME)


def test_force_needs_the_ref_where_it_was_last_seen(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    first = make_commit(one, b"a")
    push(one, "main", options=ME)
    make_commit(two, b"b")
    forced = ME._replace(lease=PushLease())
    for _ in range(2):  # two has never fetched, and a refused push does not count
        with pytest.raises(StaleLease, match=first.id):
            push(two, "main", options=forced)
    fetch(two)
    pushed = push(two, "main", options=forced)
    assert pushed.state is Pushing.FORCED
    with pytest.raises(StaleLease):
        push(one, "main", options=forced)
    assert state_of(one, options=ME._replace(lease=PushLease(pushed.after))) is Pushing.FORCED
    fetch(two)
    assert position(two) == first.id


def test_force_moves_a_branch_back(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    first = make_commit(one, b"a")
    branch.create(one, "side", source="main")
    second = make_commit(one, b"b", "side")
    push(one, "side", options=ME)
    fetch(two)
    branch.create(two, "side", source=first.id)
    assert state_of(two, "side") is Pushing.BEHIND
    wrong = ME._replace(lease=PushLease(CommitId("0" * 64)))
    with pytest.raises(StaleLease):
        push(two, "side", options=wrong)
    pushed = push(two, "side", options=ME._replace(lease=PushLease()))
    assert pushed == ("branch", "side", second.id, first.id, Pushing.FORCED)


def test_push_creates_a_tag_once(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    first = make_commit(one, b"a")
    tag.create(one, "v1", "main")
    assert state_of(one, "v1") is Pushing.CREATED
    assert state_of(one, "v1") is Pushing.UP_TO_DATE
    make_commit(one, b"b")
    tag.create(one, "v1", "main", force=True)
    with pytest.raises(AlreadyExists, match=first.id):
        push(one, "v1", options=ME)
    assert state_of(one, "v1", ME._replace(lease=PushLease())) is Pushing.FORCED
    fetch(two)
    assert tag.show(two, "v1") == tag.show(one, "v1")


def test_push_deletes_a_ref_in_the_bucket(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    make_commit(one, b"a")
    branch.create(one, "side", source="main")
    push(one, "side", options=ME)
    with pytest.raises(StaleLease):  # never seen by two
        push_deletion(two, "side", options=ME)
    fetch(two)
    assert push_deletion(two, "side", options=ME._replace(dry_run=True)).after is None
    deleted = push_deletion(two, "side", options=ME)
    assert deleted.state is Pushing.DELETED
    assert position(two, "side") is None
    with pytest.raises(NotFound, match="no branch or tag 'side' in the bucket"):
        push_deletion(two, "side", options=ME)
    assert branch.show(one, "side").name == "side"  # the local branch stays
    assert state_of(one, "side") is Pushing.CREATED  # and can be pushed again


def test_push_refuses_to_delete_the_default_branch(clones: tuple[Repository, ...]) -> None:
    make_commit(clones[0], b"a")
    push(clones[0], "main", options=ME)
    with pytest.raises(Refused, match="default branch"):
        push_deletion(clones[0], "main", options=ME)


def test_push_all_pushes_every_ref(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    make_commit(one, b"a")
    branch.create(one, "side", source="main")
    tag.create(one, "v1", "main")
    make_commit(two, b"other", "main")
    push(two, "main", options=ME)
    report = push_all(one, ME)
    assert [(each.kind, each.name, each.state) for each in report.pushed] == [
        ("branch", "side", Pushing.CREATED),
        ("tag", "v1", Pushing.CREATED),
    ]
    ((kind, name, error),) = report.failed
    assert (kind, name) == ("branch", "main")
    assert isinstance(error, NonFastForward)
    assert {each.state for each in push_all(one, ME).pushed} == {Pushing.UP_TO_DATE}


def test_push_all_pushes_the_refs_beside_those_that_cannot_be_pushed(
    clones: tuple[Repository, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = clones
    push(one, "main", options=ME)
    for name in ("damaged", "forbidden", "gone", "lacking", "whole"):
        branch.create(one, name, source="main")
    one.store.put(ref_key(RefKind.BRANCH, "damaged"), b"{}", ANY)
    lost = make_commit(one, b"lost", "lacking")
    one.store.delete([sstable_key(lost.metarange_id)])
    whole = make_commit(one, b"whole", "whole")

    def hook(event: Mapping[str, object]) -> None:
        if event["ref"] == "forbidden":
            branch.delete(one, "gone")
            raise HookFailed("not this one")

    one.hooks = {"pre-push": hook}
    report = push_all(one, ME)
    assert [(each.name, each.after) for each in report.pushed] == [
        ("main", position(one)),
        ("whole", whole.id),
    ]
    assert {each.name: type(each.error) for each in report.failed} == {
        "damaged": NotOurs,
        "forbidden": HookFailed,
        "gone": NotFound,
        "lacking": NotInBucket,
    }


def test_push_refuses_a_range_that_the_bucket_lacks(clones: tuple[Repository, ...]) -> None:
    one = clones[0]
    make_commit(one, b"a")
    push(one, "main", options=ME)
    made = make_commit(one, b"b")
    one.store.delete([sstable_key(made.metarange_id)])
    with pytest.raises(NotInBucket, match=made.metarange_id):
        push(one, "main", options=ME)
    assert state_of(one, options=ME._replace(dry_run=True)) is Pushing.UPDATED  # nothing moved


def test_push_consolidates_packs(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    for number in range(24):
        make_commit(one, b"%d" % number)
        push(one, "main", options=ME)
    report = fetch(two)
    assert report.commits == 24
    assert report.packs <= 8
    assert position(two) == branch.show(one, "main").commit_id
    # No commit is packed twice.
    branch.create(one, "same", source="main")
    count = len(list(one.store.list(COMMITS)))
    push(one, "same", options=ME)
    assert len(list(one.store.list(COMMITS))) == count


def test_a_push_of_more_commits_than_a_pack_can_have_writes_several_packs(
    clones: tuple[Repository, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = clones
    for number in range(40):
        stage(one, "main", {b"a": b"%d" % number})
        commit(one, "main", message="m", committer="me", metadata={"key": f"{number}" * 200})
    monkeypatch.setattr("lakecli.base.layout.LARGEST_PACK", 4_000)
    monkeypatch.setattr("lakecli.base.layout.MAX_PACK_SIZE", 5_000)
    push(one, "main", options=ME)
    report = fetch(two)
    assert (report.commits, report.damaged) == (40, ())
    assert position(two) == branch.show(one, "main").commit_id
    one.store.delete([info.key for info in one.store.list(COMMITS)])
    assert list(repair_packs(one, dry_run=False))
    with machine(tmp_path, "three") as lake:
        three = clone(lake, str(tmp_path / "namespace"), "demo")
        assert position(three) == position(two)


def test_packs_that_may_not_be_read_are_not_merged(
    clones: tuple[Repository, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = clones

    def refuse(*_: object) -> None:
        raise denied("get")

    with monkeypatch.context() as patched:
        patched.setattr(packs, "read_pack", refuse)
        for number in range(10):
            make_commit(one, b"%d" % number)
            push(one, "main", options=ME)
    report = fetch(two)
    assert (report.commits, report.packs) == (10, 10)


def test_of_two_first_pushers_exactly_one_wins(tmp_path: Path) -> None:
    names = [f"m{number}" for number in range(4)]
    with Clones.make(tmp_path, *names) as made:
        repositories = made.repositories
        for number, repository in enumerate(repositories):
            branch.create(repository, "new", source="main")
            make_commit(repository, b"%d" % number, "new")

        def run(repository: Repository) -> Pushing | None:
            try:
                return push(repository, "new", options=ME).state
            except LostRace:
                return None

        with ThreadPoolExecutor(len(names)) as pool:
            outcomes = list(pool.map(run, repositories))
        assert sorted(map(str, outcomes)) == ["None", "None", "None", "created"]
        winner = repositories[outcomes.index(Pushing.CREATED)]
        for repository in repositories:
            fetch(repository)
            assert position(repository, "new") == branch.show(winner, "new").commit_id


def test_a_ref_of_another_clone_is_tracked_where_it_was_pushed(
    clones: tuple[Repository, ...],
) -> None:
    one, two = clones
    make_commit(one, b"a")
    push(one, "main", options=ME)
    fetch(two)
    with two.lake.kv.read() as txn:
        tracked = TrackingStore(txn, two.key).find(RefKind.BRANCH, "main")
    assert tracked is not None
    assert tracked.sequence == 1

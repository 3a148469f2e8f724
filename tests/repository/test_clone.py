"""Cloning a repository from its namespace."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base import layout
from lakecli.base.ids import PackId, WriteId
from lakecli.base.model import EMPTY_TREE, RefKind
from lakecli.base.retry import REF_MOVES, Retries
from lakecli.errors import AlreadyExists, ErrorKind, LakeError, NothingToDo
from lakecli.kv import operations as log
from lakecli.kv.bucket import IntentStore
from lakecli.kv.local_store import Table
from lakecli.refs.ref_store import RefStore
from lakecli.remote.packs import list_packs
from lakecli.remote.refs import Intent
from lakecli.repository import branch, repo, tag
from lakecli.repository.clone import clone, clone_counted
from lakecli.repository.commit_attempts import describe_commit, initial_commit
from lakecli.repository.handle.namespace import NewerRepository
from lakecli.repository.push import PushOptions, push, push_all
from lakecli.repository.sharing.fetch import Change, fetch
from lakecli.repository.sharing.publish import write_pack
from lakecli.stores.contract import ANY
from tests.remote.chains import move_ref
from tests.support.clones import machine, make_commit, position
from tests.support.faulty import denied
from tests.support.lakes import checksums, read, stage
from tests.support.stores import get_branch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.base.model import Commit
    from lakecli.repository.contract import Repository
    from lakecli.repository.handle.lake import Lake
    from tests.support.faulty import FaultyStore

ME = PushOptions(who="Me <me@example.com>")
NAMESPACE = "s3://bucket/ns"
WHEN = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def first(tmp_path: Path, bucket: FaultyStore) -> Iterator[Repository]:
    assert bucket is not None
    with machine(tmp_path, "first") as lake:
        yield repo.create(lake, "demo", NAMESPACE, range_entries=16)


@pytest.fixture
def second(tmp_path: Path) -> Iterator[Lake]:
    with machine(tmp_path, "second") as lake:
        yield lake


def everything(repository: Repository) -> dict[str, Any]:
    """Return refs, the commits that they reach, and their contents."""
    with repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        positions = {f"branch {each.name}": each.commit_id for each in refs.iter_branches()}
        positions |= {f"tag {each.name}": each.commit_id for each in refs.iter_tags()}
        commits = {each.id: each for each in refs.iter_commits()}
    contents = {commit_id: read(repository, commit_id) for commit_id in commits}
    return {"refs": positions, "commits": commits, "contents": contents}


def test_clone_rebuilds_a_lost_local_store(first: Repository, second: Lake) -> None:
    make_commit(first, b"a")
    branch.create(first, "side", source="main")
    make_commit(first, b"b", "side")
    tag.create(first, "v1.0", "side~1")
    make_commit(first, b"c")
    push_all(first, ME)
    before = everything(first)
    stage(first, "main", {b"lost": b"with the machine"})

    made = clone_counted(second, NAMESPACE, "demo")
    assert everything(made.repository) == before
    assert (made.branches, made.tags, made.commits, made.left_out) == (2, 1, 4, ())
    assert made.repository.record == first.record._replace(region="")
    assert read(made.repository, "main") == checksums({b"a": b"a", b"c": b"c"})
    # Work continues from there.
    make_commit(made.repository, b"d")
    push(made.repository, "main", options=ME)
    fetch(first)
    assert position(first) == branch.show(made.repository, "main").commit_id


def test_a_clone_has_a_local_name(first: Repository, second: Lake) -> None:
    made = clone(second, NAMESPACE + "/", "another-name")
    assert made.uri == "lakefs://another-name"
    assert made.record.uuid == first.record.uuid


def test_a_repository_that_was_never_pushed_can_be_cloned(first: Repository, second: Lake) -> None:
    made = clone_counted(second, NAMESPACE, "demo")
    assert everything(made.repository) == everything(first)
    assert (made.branches, made.tags, made.commits) == (1, 0, 0)


def test_a_clone_is_an_operation(first: Repository, second: Lake) -> None:
    tag.create(first, "v1", "main")
    push_all(first, ME)
    made = clone(second, NAMESPACE, "demo")
    with second.kv.read() as txn:
        (operation,) = log.iter_operations(txn, made.key)
    assert operation.kind == "clone"
    changed = [(change.kind, change.name, change.before) for change in operation.refs]
    assert changed == [("repository", "demo", None), ("branch", "main", None), ("tag", "v1", None)]


def test_clone_refuses_a_name_in_use(first: Repository, second: Lake) -> None:
    clone(second, NAMESPACE, "demo")
    with pytest.raises(AlreadyExists, match="'demo' exists already") as raised:
        clone(second, "s3://elsewhere/ns", "demo")
    assert "pull" not in str(raised.value.hint)  # it is another repository
    with pytest.raises(AlreadyExists, match="already, as lakefs://demo"):
        clone(second, NAMESPACE, "other")


def test_a_repository_is_cloned_once(first: Repository, second: Lake) -> None:
    clone(second, NAMESPACE, "demo")
    for lake in (first.lake, second):
        with pytest.raises(NothingToDo, match="'demo' exists already") as raised:
            clone(lake, NAMESPACE, "demo")
        assert "`pull lakefs://demo" in str(raised.value.hint)


def test_a_forgotten_repository_can_be_cloned_again(first: Repository) -> None:
    pushed = make_commit(first, b"a")
    branch.create(first, "unpushed", source="main")
    tag.create(first, "local", "main")
    push(first, "main", options=ME)
    unpushed = make_commit(first, b"b")
    stage(first, "main", {b"staged": b"staged"})
    lake = first.lake
    with lake.kv.write() as txn:
        IntentStore(txn, first.key).put(bytes(16), {"unsent": True})
        record = json.loads(txn.get(Table.BRANCHES, first.key + b"main") or b"")
        later = json.dumps(record | {"of a later version": 1}).encode()
        txn.put(Table.BRANCHES, first.key + b"main", later)
    repo.delete(lake, "demo")

    made = clone(lake, NAMESPACE, "again")
    assert [each.name for each in branch.iter_branches(made)] == ["main"]
    assert list(tag.iter_tags(made)) == []
    assert branch.show(made, "main").commit_id == pushed.id
    assert read(made, "main") == checksums({b"a": b"a"})
    assert read(made, unpushed.id) == checksums({b"a": b"a", b"b": b"b"})  # by its ID
    with lake.kv.read() as txn:
        assert list(IntentStore(txn, made.key).iter()) == []
        assert b"later" not in (txn.get(Table.BRANCHES, made.key + b"main") or b"later")
        operation = next(log.iter_operations(txn, made.key))
    changed = {(change.kind, change.name): change for change in operation.refs}
    assert changed[RefKind.BRANCH, "unpushed"].after is None
    main = changed[RefKind.BRANCH, "main"].before
    assert main is not None
    assert main["commit_id"] == unpushed.id
    assert bytes.fromhex(main["staging_token"]) in operation.sealed


def test_clone_skips_refs_deleted_in_the_bucket(first: Repository, second: Lake) -> None:
    from lakecli.repository.push import push_deletion

    make_commit(first, b"a")
    branch.create(first, "side", source="main")
    push_all(first, ME)
    push_deletion(first, "side", options=ME)
    made = clone(second, NAMESPACE, "demo")
    assert [each.name for each in branch.iter_branches(made)] == ["main"]


def test_clone_skips_refs_whose_commits_are_missing(
    first: Repository, second: Lake, bucket: FaultyStore
) -> None:
    make_commit(first, b"a")
    push(first, "main", options=ME)
    branch.create(first, "side", source="main")
    packs = {info.key for info in bucket.list(layout.COMMITS)}
    make_commit(first, b"b", "side")
    push(first, "side", options=ME)
    bucket.delete(info.key for info in bucket.list(layout.COMMITS) if info.key not in packs)
    made = clone_counted(second, NAMESPACE, "demo")
    assert [(update.name, update.change) for update in made.left_out] == [
        ("side", Change.INCOMPLETE)
    ]
    assert position(made.repository, "side") is None


def put(bucket: FaultyStore, **fields: Any) -> None:
    document = json.loads(bucket.get(layout.REPOSITORY))
    bucket.put(layout.REPOSITORY, json.dumps({**document, **fields}).encode(), ANY)


def empty(bucket: FaultyStore) -> None:
    bucket.delete([info.key for info in bucket.list()])


def make_lakefs(bucket: FaultyStore) -> None:
    bucket.delete([layout.REPOSITORY])


def make_newer(bucket: FaultyStore) -> None:
    put(bucket, format=2)


def make_unreadable(bucket: FaultyStore) -> None:
    put(bucket, needs_read=["telepathy"])


def spoil_description(bucket: FaultyStore) -> None:
    bucket.put(layout.REPOSITORY, b"<html>", ANY)


def spoil_ref(bucket: FaultyStore) -> None:
    key = layout.ref_key(RefKind.BRANCH, "main")
    bucket.put(key, bucket.get(key).replace(b'"name":"main"', b'"name":"dev"'), ANY)


def spoil_pack(bucket: FaultyStore) -> None:
    (info,) = bucket.list(layout.COMMITS)
    bucket.put(info.key, bucket.get(info.key)[:100], ANY)


def forbid_listing(bucket: FaultyStore) -> None:
    bucket.errors["list"] = denied("list")


def forbid_reading(bucket: FaultyStore) -> None:
    bucket.errors["get"] = denied("get")


@pytest.mark.parametrize(
    ("spoil", "kind", "said"),
    [
        (spoil_ref, "branch", "says that it is branch 'dev'"),
        (spoil_pack, "pack", "_lakecli/commits/"),
    ],
)
def test_clone_skips_damaged_refs_and_fetch_adds_them_once_repaired(
    first: Repository, second: Lake, bucket: FaultyStore, *, spoil: Any, kind: str, said: str
) -> None:
    make_commit(first, b"a")
    pushed = push(first, "main", options=ME)
    good = dict(bucket.bucket.objects)
    spoil(bucket)
    made = clone_counted(second, NAMESPACE, "demo")
    (damage,) = made.damaged
    assert damage.kind == kind
    assert said in damage.what
    assert position(made.repository) is None
    assert [each.change for each in made.left_out] == [Change.INCOMPLETE] * (kind == "pack")
    bucket.bucket.objects = good
    (update,) = fetch(made.repository).updated
    assert (update.change, update.after) == (Change.NEW, pushed.after)


@pytest.mark.parametrize(
    ("spoil", "kind", "said"),
    [
        (empty, ErrorKind.NOT_FOUND, "no repository in s3://bucket/ns"),
        (make_lakefs, ErrorKind.REFUSED, "belongs to a lakeFS repository"),
        (make_newer, ErrorKind.REFUSED, "needs a newer lakecli: format 2"),
        (make_unreadable, ErrorKind.REFUSED, "needs a newer lakecli: 'telepathy'"),
        (spoil_description, ErrorKind.INTEGRITY, "not a repository description"),
        (forbid_listing, ErrorKind.PERMISSION, "refused list"),
        (forbid_reading, ErrorKind.PERMISSION, "refused get"),
    ],
)
def test_clone_refuses_bad_input(
    first: Repository, second: Lake, bucket: FaultyStore, *, spoil: Any, kind: ErrorKind, said: str
) -> None:
    make_commit(first, b"a")
    push(first, "main", options=ME)
    good = dict(bucket.bucket.objects)
    spoil(bucket)
    with pytest.raises(LakeError, match=said) as raised:
        clone(second, NAMESPACE, "demo")
    assert raised.value.kind == kind
    assert raised.value.hint
    assert list(second.repositories()) == []
    # Once it is repaired, the same command succeeds.
    bucket.errors.clear()
    bucket.bucket.objects = good
    assert everything(clone(second, NAMESPACE, "demo")) == everything(first)


def test_a_repository_of_a_newer_format_is_cloned_and_not_pushed(
    first: Repository, second: Lake, bucket: FaultyStore
) -> None:
    put(bucket, needs_write=["more"])
    made = clone(second, NAMESPACE, "demo")
    make_commit(made, b"a")
    with pytest.raises(NewerRepository, match="'more'"):
        push(made, "main", options=ME)
    assert list(bucket.list(layout.REFS)) == []
    assert first.record.uuid == made.record.uuid


def test_replaced_packs_are_deleted_after_a_day(
    first: Repository, second: Lake, bucket: FaultyStore
) -> None:
    newest = initial(first)
    written: list[PackId] = []
    for number in range(80):
        bucket.offset += timedelta(hours=6)
        newest = describe_commit(
            parents=[newest],
            metarange_id=EMPTY_TREE,
            message=f"commit {number:04} " + "x" * 500,
            committer="me",
            created_at=WHEN,
            metadata={},
        )
        commits = [newest] if written else [initial(first), newest]
        written.append(write_known_pack(first, commits))
    there = {info.key.removeprefix(layout.COMMITS) for info in bucket.list(layout.COMMITS)}
    assert len(there) < len(written)
    assert written[-1] in there
    # Packs that a slow reader may have listed within the last day still exist.
    assert there.issuperset(written[-4:])
    move_ref(
        first.store,
        Intent(
            RefKind.BRANCH,
            "main",
            WriteId("0" * 32),
            None,
            newest.id,
            "me",
            WHEN,
            "push",
            written[-1],
        ),
        retries=Retries(REF_MOVES, random=lambda: 0.0, sleep=lambda _seconds: None),
    )
    made = clone_counted(second, NAMESPACE, "demo")
    assert (made.left_out, made.commits) == ((), 81)


def write_known_pack(repository: Repository, commits: list[Commit]) -> PackId:
    """Write a pack as a push does, and return its ID."""
    return write_pack(repository, commits, list_packs(repository.store))


def initial(repository: Repository) -> Commit:
    return initial_commit(repository.record.created_at)


COMMITS = 2_000
BRANCHES = 200


def long_history(repository: Repository) -> list[Commit]:
    """Give the bucket a hundred packs, and many branches."""
    with repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        newest = refs.get_commit(get_branch(refs, "main").commit_id)
    history = [newest]
    for number in range(COMMITS - 1):
        newest = describe_commit(
            parents=[newest],
            metarange_id=EMPTY_TREE,
            message=f"commit {number}",
            committer="me",
            created_at=WHEN,
            metadata={},
        )
        history.append(newest)
    for start in range(0, COMMITS, 20):
        write_known_pack(repository, history[start : start + 20])
    retries = Retries(REF_MOVES, random=lambda: 0.0, sleep=lambda _seconds: None)
    for number in range(BRANCHES):
        after = history[-1 - 10 * number].id
        name = "main" if number == 0 else f"branch-{number}"
        gone = PackId(f"{number:064x}")  # a pack that was consolidated long ago
        intent = Intent(
            RefKind.BRANCH, name, WriteId(f"{number:032x}"), None, after, "me", WHEN, "push", gone
        )
        move_ref(repository.store, intent, retries=retries)
    return history


def test_a_clone_of_a_long_history_takes_few_requests(
    first: Repository, second: Lake, bucket: FaultyStore
) -> None:
    history = long_history(first)
    bucket.calls.clear()
    made = clone_counted(second, NAMESPACE, "demo")
    gets, lists = bucket.calls["get"] - BRANCHES, bucket.calls["list"]
    assert gets <= 50
    assert lists <= 4
    assert (made.branches, made.commits) == (BRANCHES, COMMITS)
    assert branch.show(made.repository, "main").commit_id == history[-1].id
    assert branch.show(made.repository, "branch-199").commit_id == history[-1991].id

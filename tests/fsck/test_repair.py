"""``fsck --repair``: what is healed, from what, and what is said of the rest."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.ids import PackId, WriteId
from lakecli.base.layout import DATA, REPOSITORY, SSTABLES, pack_key, ref_key
from lakecli.base.model import CommitId, RefKind
from lakecli.committed.cache import SstableCache
from lakecli.fsck.check import fsck
from lakecli.fsck.findings import RepairCounts, Unrecoverable
from lakecli.fsck.repair import repair
from lakecli.kv.bucket import PackedStore, Tracked, TrackingStore
from lakecli.kv.local_store import Table
from lakecli.refs.ref_store import RefStore
from lakecli.remote.packs import list_packs, write_pack
from lakecli.repository import branch, stored_objects, tag
from lakecli.repository.commit import commit
from lakecli.repository.stored_objects import Repaired
from lakecli.repository.upload import UploadOptions
from lakecli.repository.upload_tree import upload_tree
from lakecli.stores.contract import ANY
from tests.fsck.test_fsck import flip, kind_of, remove, truncate, zero
from tests.support.faulty import FaultyStore
from tests.support.lakes import (
    entry_of,
    make_repository,
    open_lake,
    read,
    stage,
    stage_entries,
    through,
)
from tests.support.stores import get_branch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from lakecli.base.model import Commit
    from lakecli.fsck.findings import Finding, FsckCounts
    from lakecli.repository.contract import Repository


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Forty files, old enough that their digests are remembered."""
    root = tmp_path / "source"
    root.mkdir()
    for number in range(40):
        (root / f"{number:02d}.txt").write_text(f"contents {number}")
        os.utime(root / f"{number:02d}.txt", (1_000_000_000, 1_000_000_000))
    return root


@pytest.fixture
def history(repository: Repository, source: Path) -> Path:
    """Two commits, a tag and a branch; the namespace."""
    upload_tree(repository, "main", b"d", source=source, options=UploadOptions())
    commit(repository, "main", message="first", committer="me")
    tag.create(repository, "v1", "main")
    branch.create(repository, "side", source="main")
    stage(repository, "main", {b"d/00.txt": None})
    commit(repository, "main", message="second", committer="me")
    return source.parent / "namespace"


def heal(
    repository: Repository, *, places: Collection[str] = (), dry_run: bool = False
) -> tuple[list[Finding], list[Repaired], list[Unrecoverable], RepairCounts]:
    counts = RepairCounts()

    def check(fresh: FsckCounts) -> Iterator[Finding]:
        return fsck(repository, hash_data=True, counts=fresh)

    told = list(repair(repository, check, places=places, dry_run=dry_run, counts=counts))
    repaired = [each for each in told if isinstance(each, Repaired)]
    lost = [each for each in told if isinstance(each, Unrecoverable)]
    findings = [each for each in told if not isinstance(each, Repaired | Unrecoverable)]
    assert (counts.repaired, counts.lost) == (len(repaired), len(lost))
    return findings, repaired, lost, counts


def sound(repository: Repository) -> bool:
    return not list(fsck(repository, hash_data=True))


def data_of(repository: Repository, namespace: Path, path: bytes, ref: str = "main") -> Path:
    digest = read(repository, ref)[path]
    return namespace / DATA / digest[:2] / digest[2:]


def test_repair_of_a_sound_repository_does_nothing(repository: Repository, history: Path) -> None:
    assert heal(repository)[:3] == ([], [], [])


@pytest.mark.parametrize("damage", [flip, truncate, zero, remove])
def test_lost_data_is_restored_from_a_directory(
    repository: Repository, history: Path, source: Path, damage: Callable[[Path], None]
) -> None:
    broken = data_of(repository, history, b"d/07.txt")
    damage(broken)
    assert heal(repository, places=[str(source)], dry_run=True)[1][0].how.startswith("uploaded")
    assert not sound(repository)
    findings, repaired, lost, counts = heal(repository, places=[str(source)])
    assert [each.name for each in findings] == [broken.relative_to(history).as_posix()]
    assert [each.how for each in repaired] == [f"uploaded again from {source}/07.txt"]
    assert (lost, counts.checked.findings) == ([], 0)
    assert broken.read_text() == "contents 7"
    assert sound(repository)


def test_a_copy_that_changes_while_it_is_read_is_not_uploaded(
    repository: Repository, history: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = data_of(repository, history, b"d/07.txt")
    lost.unlink()
    upload = stored_objects._upload

    def changed_first(*arguments: Any) -> bool:
        (source / "07.txt").write_text("CONTENTS 7")
        return upload(*arguments)

    monkeypatch.setattr(stored_objects, "_upload", changed_first)
    _, repaired, told, _ = heal(repository, places=[str(source)])
    assert repaired == []
    assert [each.kind for each in told] == ["data"]
    assert not lost.exists()


def test_lost_data_is_restored_from_the_uploaded_files(tmp_path: Path, source: Path) -> None:
    from datetime import UTC, datetime, timedelta

    for number in (3, 4):  # small files are not remembered
        (source / f"{number:02d}.txt").write_bytes(b"%d" % number * (2 << 20))

    def later() -> datetime:
        return datetime.now(UTC) + timedelta(minutes=1)  # noqa: TID251 - files are of now

    with open_lake(tmp_path, clock=later) as lake:
        repository = make_repository(lake, tmp_path)
        upload_tree(repository, "main", b"d", source=source, options=UploadOptions())
        commit(repository, "main", message="first", committer="me")
        for number in (3, 4):
            data_of(repository, tmp_path / "namespace", f"d/{number:02d}.txt".encode()).unlink()
        (source / "04.txt").write_text("is something else")
        _, repaired, lost, _ = heal(repository)
        assert [each.how for each in repaired] == [f"uploaded again from {source}/03.txt"]
        assert [each.paths for each in lost] == [(b"d/04.txt",)]


def test_everything_is_restored_from_a_copy_of_the_namespace(
    repository: Repository, history: Path, tmp_path: Path
) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(history, copy)
    for path in (history / DATA).rglob("*"):
        if path.is_file() and path.name[-1] in "0123":
            path.unlink()
    for path in (history / SSTABLES).iterdir():
        if path.name != "dummy":
            flip(path)
    findings, repaired, lost, counts = heal(repository, places=[f"local://{copy}"])
    assert lost == []
    assert counts.checked.findings == 0
    assert {each.kind for each in repaired} == {"data", "range", "metarange"}
    assert len(findings) >= len(repaired)
    assert sound(repository)


def test_an_object_larger_than_any_table_is_no_copy_of_one(
    repository: Repository, history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(history, copy)
    for path in (history / SSTABLES).iterdir():
        if path.name != "dummy":
            flip(path)
    monkeypatch.setattr("lakecli.repository.stored_objects.MAX_TABLE_SIZE", 10)
    assert heal(repository, places=[f"local://{copy}"])[1] == []


def test_a_loss_is_reported_with_the_affected_refs_and_paths(
    repository: Repository, history: Path
) -> None:
    only_old = data_of(repository, history, b"d/00.txt", "v1")
    shared = data_of(repository, history, b"d/01.txt")
    only_old.unlink()
    shared.unlink()
    stage_entries(repository, "side", {b"new": entry_of(b"never uploaded")})
    _, repaired, lost, counts = heal(repository)
    assert repaired == []
    assert counts.checked.findings == 3
    by_path = {each.paths[0]: each for each in lost}
    assert by_path[b"d/01.txt"].refs == ("main", "side", "v1")
    assert "`fs rm lakefs://demo/main/d/01.txt" in by_path[b"d/01.txt"].advice
    assert by_path[b"d/00.txt"].refs == ("side", "v1")
    assert by_path[b"new"].refs == ("side",)
    assert "branch reset lakefs://demo/side" in by_path[b"new"].advice

    branch.delete(repository, "side")
    tag.delete(repository, "v1")
    lost = heal(repository)[2]
    assert "only earlier commits" in next(
        each.advice for each in lost if each.paths == (b"d/00.txt",)
    )


@pytest.mark.parametrize("kind", ["range", "metarange"])
def test_a_lost_tree_is_reported(repository: Repository, history: Path, kind: str) -> None:
    with repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        head = refs.get_commit(get_branch(refs, "main").commit_id)
        old = refs.get_commit(head.parents[0])
    mine = {record.id for record in repository.trees.metarange(head.metarange_id).records()}
    theirs = {record.id for record in repository.trees.metarange(old.metarange_id).records()}
    name = head.metarange_id if kind == "metarange" else min(mine - theirs)
    (history / SSTABLES / name).unlink()
    _, repaired, lost, _ = heal(repository)
    assert repaired == []
    (told,) = lost
    assert (told.kind, told.name, told.refs) == (kind, f"{SSTABLES}{name}", ("main",))
    assert f"branch create lakefs://demo/rescued -s lakefs://demo/{old.id}" in told.advice


def in_a_bucket(repository: Repository, namespace: Path) -> tuple[Repository, FaultyStore]:
    """Have the repository's objects in a store that is no directory, so that there is a cache."""
    store = FaultyStore()
    for info in repository.store.list():
        store.put(info.key, repository.store.get(info.key), ANY)
    return through(repository, store), store


def test_tables_are_restored_from_the_cache(repository: Repository, history: Path) -> None:
    repository, store = in_a_bucket(repository, history)
    expected = read(repository, "main")  # caches all it reads
    read(repository, "v1")
    lost = [path.name for path in (history / SSTABLES).iterdir() if path.name != "dummy"]
    for number, name in enumerate(sorted(lost)):
        if number % 2:
            store.delete([SSTABLES + name])
        else:
            store.put(SSTABLES + name, b"garbage", ANY)
    _, repaired, told, counts = heal(repository)
    assert told == []
    assert counts.checked.findings == 0
    assert {each.name for each in repaired} == {SSTABLES + name for name in lost}
    assert {each.how for each in repaired} == {"restored from the cache"}
    for name in lost:
        assert kind_of(history / SSTABLES / name) in store.get(SSTABLES + name)
    assert read(repository, "main") == expected


def test_damaged_copies_are_removed_from_the_cache(repository: Repository, history: Path) -> None:
    repository, _ = in_a_bucket(repository, history)
    expected = read(repository, "main")
    directory = Path(repository.lake.home.cache) / repository.record.uuid
    broken = max(directory.iterdir())
    flip(broken)
    _, repaired, lost, _ = heal(repository, dry_run=True)
    assert [(each.kind, each.name) for each in repaired] == [("cache", broken.name)]
    assert broken.exists()
    findings, repaired, lost, _ = heal(repository)
    assert (findings, len(repaired), lost) == ([], 1, [])
    assert not broken.exists()
    assert read(repository, "main") == expected


def test_packs_in_the_cache_are_no_damaged_copies(repository: Repository, history: Path) -> None:
    cache = SstableCache(Path(repository.lake.home.cache) / repository.record.uuid)
    pack = b"a pack is known by the digest of its bytes"
    cache.put(blake3_of(pack).hex(), pack)
    assert heal(repository)[1] == []


def all_commits(repository: Repository) -> list[Commit]:
    with repository.lake.kv.read() as txn:
        return list(RefStore(txn, repository.key).iter_commits())


@pytest.fixture
def shared(repository: Repository, history: Path) -> PackId:
    """All commits in one pack, and main in the bucket; the ID of the pack."""
    commits = all_commits(repository)
    pack_id = write_pack(repository.store, commits)
    with repository.lake.kv.write() as txn:
        PackedStore(txn, repository.key).add(pack_id, [each.id for each in commits])
        head = get_branch(RefStore(txn, repository.key), "main").commit_id
        TrackingStore(txn, repository.key).put(
            Tracked(RefKind.BRANCH, "main", head, 1, WriteId("0e" * 16), "v")
        )
    fields = {
        "format": 1, "kind": "branch", "name": "main", "commit_id": head, "sequence": 1,
        "write_id": "0e" * 16, "moves": [],
    }  # fmt: skip
    repository.store.put(ref_key(RefKind.BRANCH, "main"), json.dumps(fields).encode(), ANY)
    assert sound(repository)
    return pack_id


@pytest.mark.parametrize("damage", [flip, truncate, zero, remove])
def test_lost_packs_are_rewritten(
    repository: Repository, history: Path, shared: PackId, damage: Callable[[Path], None]
) -> None:
    damage(history / pack_key(shared))
    findings, repaired, lost, counts = heal(repository, dry_run=True)
    assert findings
    assert [each.name for each in repaired] == [pack_key(shared)]
    findings, repaired, lost, counts = heal(repository)
    assert {each.kind for each in findings} == {"pack", "ref"}
    assert [each.name for each in repaired] == [pack_key(shared)]
    assert (lost, counts.checked.findings) == ([], 0)
    assert [each.id for each in list_packs(repository.store)] == [shared]


def test_only_unneeded_packs_are_dropped(
    repository: Repository, history: Path, shared: PackId
) -> None:
    (part, *_) = all_commits(repository)
    old = write_pack(repository.store, [part])
    new = write_pack(repository.store, all_commits(repository), replaces=[old, shared])
    repository.store.put(pack_key(old), b"garbage", ANY)
    assert sound(repository)  # nobody reads it any more
    repository.store.put(pack_key(new), b"garbage", ANY)
    with repository.lake.kv.write() as txn:
        PackedStore(txn, repository.key).add(new, [part.id])
    _, repaired, (lost,), _ = heal(repository)
    assert [each.name for each in repaired] == [pack_key(new)]
    assert lost.name == pack_key(old)  # for all that this clone knows, it had others' commits
    assert "in a clone that has its commits" in lost.advice
    assert {each.id for each in list_packs(repository.store)} == {shared, old}


@pytest.mark.parametrize("garbage", [b"", b"\0" * 40, b"{", None])
def test_lost_shared_refs_are_rewritten(
    repository: Repository, history: Path, shared: PackId, garbage: bytes | None
) -> None:
    key = ref_key(RefKind.BRANCH, "main")
    before = json.loads(repository.store.get(key))
    if garbage is None:
        repository.store.delete([key])
    else:
        repository.store.put(key, garbage, ANY)
    findings, repaired, lost, counts = heal(repository)
    assert [(each.kind, each.name) for each in findings] == [("ref", key)]
    assert [each.name for each in repaired] == [key]
    assert (lost, counts.checked.findings) == ([], 0)
    assert json.loads(repository.store.get(key)) == before


def test_a_ref_of_a_newer_lakecli_is_left_alone(
    repository: Repository, history: Path, shared: PackId
) -> None:
    key = ref_key(RefKind.BRANCH, "main")
    repository.store.put(key, b'{"format": 2}', ANY)
    _, repaired, (lost,), _ = heal(repository)
    assert repaired == []
    assert lost.name == key
    assert repository.store.get(key) == b'{"format": 2}'


def test_lost_commits_are_restored_from_packs(
    repository: Repository, history: Path, shared: PackId
) -> None:

    commits = {each.id: each for each in all_commits(repository)}
    with repository.lake.kv.write() as txn:
        refs = RefStore(txn, repository.key)
        head = refs.get_commit(get_branch(refs, "main").commit_id)
        root = refs.get_commit(refs.get_commit(head.parents[0]).parents[0])
        for each in (head.parents[0], root.id):
            txn.delete(Table.COMMITS, repository.key + bytes.fromhex(each))
        refs.put_commit(head._replace(message="tampered"))
    findings, repaired, lost, counts = heal(repository)
    assert findings
    assert {each.kind for each in repaired} == {"commit"}
    assert (lost, counts.checked.findings) == ([], 0)
    assert {each.id: each for each in all_commits(repository)} == commits


def test_a_commit_that_no_pack_has_is_lost(repository: Repository, history: Path) -> None:
    with repository.lake.kv.write() as txn:
        side = get_branch(RefStore(txn, repository.key), "side").commit_id
        txn.delete(Table.COMMITS, repository.key + bytes.fromhex(side))
    _, repaired, lost, _ = heal(repository)
    assert repaired == []
    assert {each.kind for each in lost} == {"ref", "commit"}
    assert all("push" in each.advice for each in lost)


def test_a_lost_repository_json_is_rewritten(repository: Repository, history: Path) -> None:
    before = (history / REPOSITORY).read_bytes()
    for damage in (remove, zero, truncate):
        damage(history / REPOSITORY)
        assert [each.kind for each in heal(repository)[1]] == ["repository"]
        assert (history / REPOSITORY).read_bytes() == before
    (history / REPOSITORY).write_text(json.dumps({"uuid": "0" * 32}))
    _, repaired, (lost,), _ = heal(repository)
    assert (repaired, lost.kind) == ([], "repository")


def test_an_object_that_can_be_read_again_is_no_loss(repository: Repository, history: Path) -> None:
    from lakecli.errors import Unreachable

    repository, store = in_a_bucket(repository, history)
    fails = [True]
    open_ = store.open

    def flaky(key: str) -> object:
        if key.startswith(DATA) and fails:
            fails.clear()
            raise Unreachable("busy")
        return open_(key)

    store.open = flaky  # type: ignore[method-assign, assignment]
    _, repaired, lost, counts = heal(repository)
    assert [each.how for each in repaired] == ["intact when read again"]
    assert (lost, counts.checked.findings) == ([], 0)


def test_a_head_that_no_clone_has_is_lost(
    repository: Repository, history: Path, shared: PackId
) -> None:
    """A head that is in no pack, of a commit that this clone does not have."""
    key = ref_key(RefKind.BRANCH, "main")
    fields = json.loads(repository.store.get(key)) | {"commit_id": CommitId("f" * 64)}
    repository.store.put(key, json.dumps(fields).encode(), ANY)
    _, repaired, (lost,), _ = heal(repository)
    assert repaired == []
    assert (lost.kind, lost.name) == ("ref", key)

"""A bad object in the bucket is skipped and named; everything else is cloned and fetched."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base import layout
from lakecli.base.identity import blake3_of, commit_id
from lakecli.base.ids import CommitId, PackId
from lakecli.base.model import RefKind
from lakecli.errors import UsageError
from lakecli.fsck.check import check_shared
from lakecli.fsck.findings import Defect
from lakecli.fsck.repair import repair_refs
from lakecli.kv.bucket import TrackingStore
from lakecli.refs.ref_store import RefStore
from lakecli.remote.packs import encode_commit, write_pack
from lakecli.remote.ref_records import NotOurs
from lakecli.remote.refs import find_ref
from lakecli.repository import branch
from lakecli.repository.clone import clone_counted
from lakecli.repository.commit import commit
from lakecli.repository.push import PushOptions, push
from lakecli.repository.sharing.fetch import Change, fetch
from lakecli.sstable.writer import TableWriter
from lakecli.stores.contract import ANY
from tests.support.clones import Clones, machine, make_commit, position
from tests.support.counting import CountingStore
from tests.support.forgeries import DOCUMENTS
from tests.support.lakes import stage
from tests.support.stores import get_branch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository
    from lakecli.stores.contract import ObjectStore

ME = PushOptions(who="Me <me@example.com>")
SIDE = layout.ref_key(RefKind.BRANCH, "side")


@pytest.fixture
def clones(tmp_path: Path) -> Iterator[tuple[Repository, ...]]:
    with Clones.make(tmp_path, "one", "two") as made:
        one = made.repositories[0]
        make_commit(one, b"a")
        branch.create(one, "side", source="main")
        push(one, "main", options=ME)
        push(one, "side", options=ME)
        yield made.repositories


def year_one(store: ObjectStore) -> bytes:
    fields = json.loads(store.get(SIDE))
    fields["moves"][0]["at"] = "0001-01-01T00:00:00+14:00"
    return json.dumps(fields).encode()


def huge_sequence(store: ObjectStore) -> bytes:
    return json.dumps({**json.loads(store.get(SIDE)), "sequence": 2**63, "moves": []}).encode()


def always(data: bytes) -> Callable[[ObjectStore], bytes]:
    return lambda _store: data


BAD_REFS = {
    **{name: always(data) for name, data in DOCUMENTS.items()},
    "year one": year_one,
    "huge sequence": huge_sequence,
    "larger than any": always(b'{"format":1,' + b" " * layout.MAX_REF_SIZE + b"}"),
}


@pytest.mark.parametrize("make", BAD_REFS.values(), ids=BAD_REFS)
def test_fetch_reads_the_other_refs_beside_a_bad_one(
    clones: tuple[Repository, ...], make: Any
) -> None:
    one, two = clones
    fetch(two)
    known = tracked(two)
    one.store.put(SIDE, make(one.store), ANY)
    make_commit(one, b"b")
    push(one, "main", options=ME)
    for _ in range(2):  # it is named at every fetch
        report = fetch(two)
        (damage,) = report.damaged
        assert (damage.kind, damage.name, damage.key) == ("branch", "side", SIDE)
        assert damage.what
    assert position(two) == branch.show(one, "main").commit_id
    assert tracked(two)["branch", "side"] == known["branch", "side"]  # the known position stays
    assert not [each for each in report.updated if each.name == "side"]


def tracked(repository: Repository) -> dict[tuple[str, str], Any]:
    with repository.lake.kv.read() as txn:
        return {(each.kind, each.name): each for each in TrackingStore(txn, repository.key).iter()}


def test_a_clone_leaves_a_bad_ref_out(clones: tuple[Repository, ...], tmp_path: Path) -> None:
    one, _ = clones
    one.store.put(SIDE, b"garbage", ANY)
    with machine(tmp_path / "three", "three") as lake:
        made = clone_counted(lake, one.record.storage_namespace, "demo")
        assert made.branches == 1
        assert [each.key for each in made.damaged] == [SIDE]
        assert branch.show(made.repository, "main") is not None


def test_push_refuses_a_bad_ref_until_it_is_repaired(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    fetch(two)
    one.store.put(SIDE, year_one(one.store), ANY)
    make_commit(one, b"b", "side")
    with pytest.raises(NotOurs) as caught:
        push(one, "side", options=ME)
    assert SIDE in caught.value.message
    assert "`fsck REPOSITORY --repair`" in (caught.value.hint or "")
    (repaired,) = repair_refs(one, [Defect("ref", SIDE, "")], dry_run=False)
    assert repaired.name == SIDE
    push(one, "side", options=ME)
    assert fetch(two).damaged == ()


def test_an_object_that_is_too_large_is_never_fetched_whole() -> None:
    """The store gives only the beginning that was requested."""
    read: list[int | None] = []

    class Measured(CountingStore):
        def get_versioned(self, key: str, *, length: int | None = None) -> Any:
            read.append(length)
            return super().get_versioned(key, length=length)

    store = Measured()
    store.put(SIDE, b"x" * (3 * layout.MAX_REF_SIZE), ANY)
    with pytest.raises(NotOurs):
        find_ref(store, RefKind.BRANCH, "side")
    assert read == [layout.MAX_REF_SIZE + 1]


def forged_pack(store: ObjectStore, repository: Repository, **fields: Any) -> tuple[str, PackId]:
    """Write a pack, under its correct ID, with a sound commit and a malformed one."""
    with repository.lake.kv.read() as txn:
        head = get_branch(RefStore(txn, repository.key), "main").commit_id
        sound = RefStore(txn, repository.key).get_commit(head)
    changed = {"metarange_id": sound.metarange_id, "message": sound.message, **fields}
    forged_id = commit_id(
        committer=sound.committer,
        message=changed["message"],
        metarange_id=changed["metarange_id"],
        created_at=int(sound.created_at.timestamp()),
        metadata=sound.metadata,
        parents=sound.parents,
    )
    forged = sound._replace(**{**changed, "id": CommitId(forged_id)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakecli.base.layout.MAX_MESSAGE_SIZE", 1 << 30)
        record = encode_commit(forged)
    table = TableWriter(properties={"type": b"commits", "entity": b"commit"})
    for key, value in sorted([(forged_id, record), (sound.id, encode_commit(sound))]):
        table.add_many([key.encode()], [value])
    written = table.finish()
    pack_id = PackId.of_bytes(blake3_of(written))
    store.put(layout.pack_key(pack_id), written, ANY)
    return forged_id, pack_id


@pytest.mark.parametrize(
    "fields",
    [
        {"metarange_id": "/etc/passwd"},
        {"metarange_id": "/" + "a" * 63},
        {"metarange_id": "../../canary"},
        {"message": "x" * (layout.MAX_MESSAGE_SIZE + 1)},
    ],
    ids=["absolute", "absolute of 64", "parents", "message"],
)
def test_fetch_reads_the_other_commits_beside_a_bad_one(
    clones: tuple[Repository, ...], tmp_path: Path, fields: dict[str, Any]
) -> None:
    """A pushed commit that names an absolute path as its tree once had that file replaced."""
    one, _ = clones
    canary = tmp_path / "canary"
    canary.write_bytes(b"mine")
    if fields.get("metarange_id") == "/etc/passwd":
        fields = {"metarange_id": str(canary)}
    forged_id, pack_id = forged_pack(one.store, one, **fields)
    side = json.loads(one.store.get(SIDE))
    side["moves"][0]["pack"] = pack_id
    one.store.put(SIDE, json.dumps(side).encode(), ANY)
    with machine(tmp_path / "three", "three") as lake:
        made = clone_counted(lake, one.record.storage_namespace, "demo")
        assert made.branches == 2
        named = {(each.kind, each.name, each.key) for each in made.damaged}
        assert named == {("commit", forged_id, layout.pack_key(pack_id))}
        with made.repository.lake.kv.read() as txn:
            refs = RefStore(txn, made.repository.key)
            assert refs.find_commit(CommitId(forged_id)) is None
            findings = list(check_shared(made.repository, txn, checked=()))
        assert layout.pack_key(pack_id) in {each.name for each in findings}
    assert canary.read_bytes() == b"mine"


def test_a_ref_to_a_bad_commit_is_left_out(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    fetch(two)
    before = position(two)
    forged_id, pack_id = forged_pack(one.store, one, metarange_id="/etc/passwd")
    fields = json.loads(one.store.get(SIDE))
    fields |= {"commit_id": forged_id, "sequence": fields["sequence"] + 1, "write_id": "f" * 32}
    fields["moves"] = [
        {
            **fields["moves"][0],
            "sequence": fields["sequence"],
            "write_id": "f" * 32,
            "to": forged_id,
            "pack": pack_id,
        },
        *fields["moves"],
    ]
    one.store.put(SIDE, json.dumps(fields).encode(), ANY)
    report = fetch(two)
    assert [each.name for each in report.damaged] == [forged_id]
    (notice,) = two.notices
    assert notice.message.startswith(f"left out commit {forged_id!r}")
    assert [each.change for each in report.updated if each.name == "side"] == [Change.INCOMPLETE]
    assert position(two) == before
    assert tracked(two)["branch", "side"].commit_id == before


@pytest.mark.parametrize("damage", ["garbage", "large", "bomb"])
def test_fetch_reads_the_other_packs_beside_a_bad_one(
    clones: tuple[Repository, ...], monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    one, two = clones
    fetch(two)
    make_commit(one, b"b")
    pushed = push(one, "main", options=ME)
    if damage == "large":
        monkeypatch.setattr("lakecli.base.layout.MAX_PACK_SIZE", 10_000)
        data = b"x" * 10_001
    elif damage == "bomb":
        monkeypatch.setattr("lakecli.base.layout.PACK_ALLOWANCE", 0)
        monkeypatch.setattr("lakecli.base.layout.MAX_PACK_GROWTH", 2)
        with one.lake.kv.read() as txn:
            newest = RefStore(txn, one.key).get_commit(branch.show(one, "main").commit_id)
        large = [
            newest._replace(id=CommitId(f"{number:064x}"), message="x" * 60_000)
            for number in range(50)
        ]
        bomb = write_pack(one.store, large)
        data = one.store.get(layout.pack_key(bomb))
    else:
        data = b"garbage"
    bad = PackId.of_bytes(blake3_of(data)) if damage != "garbage" else PackId("9" * 64)
    one.store.put(layout.pack_key(bad), data, ANY)
    # The ref names the bad pack, so all packs are listed and read.
    fields = json.loads(one.store.get(layout.ref_key(RefKind.BRANCH, "main")))
    fields["moves"][0]["pack"] = bad
    one.store.put(layout.ref_key(RefKind.BRANCH, "main"), json.dumps(fields).encode(), ANY)
    report = fetch(two)
    assert [(each.kind, each.name) for each in report.damaged] == [("pack", bad)]
    assert position(two) == pushed.after


def test_a_commit_that_readers_would_refuse_is_refused(clones: tuple[Repository, ...]) -> None:
    one, _ = clones
    stage(one, "main", {b"long": b"1"})
    for fields in (
        {"message": "x" * (layout.MAX_MESSAGE_SIZE + 1)},
        {"message": "m", "metadata": {"key": "x" * layout.MAX_COMMIT_SIZE}},
    ):
        with pytest.raises(UsageError) as caught:
            commit(one, "main", committer="me", **fields)
        assert caught.value.hint

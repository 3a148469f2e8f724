"""A dump that is cut off, damaged or forged is refused, and leaves nothing behind."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakecli.base.identity import commit_id
from lakecli.base.model import EMPTY_TREE, Commit, CommitId, MetarangeId, RangeId, RefKind
from lakecli.committed.metaranges import RangeRecord, encode_range_record
from lakecli.committed.tree_store import TreeStore
from lakecli.errors import IntegrityError, LakeError
from lakecli.proto.messages import BRANCH_DATA, COMMIT_DATA
from lakecli.repository.commit_attempts import initial_commit
from lakecli.repository.handle.lake import find_intention, iter_repositories
from lakecli.repository.lakefs.dump import BadDump, Dump, LeftOut, Reason, RefsManifest, read_dump
from lakecli.repository.lakefs.restore import clone_from_lakefs, restore_refs
from lakecli.repository.refs_dump import write_dump
from lakecli.sstable.format import encode_value
from lakecli.sstable.writer import TableWriter
from lakecli.stores.contract import ANY
from tests.committed.trees import name_of, new_trees
from tests.repository.lakefs.test_restore import files, replace_file
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lakecli.repository.contract import Repository
    from lakecli.repository.handle.lake import Lake

NOW = datetime(2026, 3, 1, tzinfo=UTC)

Records = list[tuple[bytes, bytes]]


def child_of(parent: Commit) -> Commit:
    id_ = commit_id(
        committer="c",
        message="child",
        metarange_id=EMPTY_TREE,
        created_at=int(NOW.timestamp()),
        metadata={},
        parents=[parent.id],
    )
    return Commit(CommitId(id_), (parent.id,), EMPTY_TREE, "child", "c", NOW, {}, 2)


ROOT = initial_commit(NOW)
CHILD = child_of(ROOT)


def fields_of(commit: Commit) -> dict[str, Any]:
    return {
        "id": commit.id,
        "committer": commit.committer,
        "message": commit.message,
        "creation_date": {"seconds": int(commit.created_at.timestamp()), "nanos": 0},
        "meta_range_id": commit.metarange_id,
        "parents": list(commit.parents),
        "version": 1,
        "generation": commit.generation,
    }


def commit_record(
    commit: Commit, *, key: str | None = None, identity: str | None = None, **changes: object
) -> tuple[bytes, bytes]:
    data = COMMIT_DATA.encode({**fields_of(commit), **changes})
    value = encode_value((commit.id if identity is None else identity).encode(), data)
    return (commit.id if key is None else key).encode(), value


def branch_record(
    name: str, commit_id: str, *, key: bytes | None = None, identity: str | None = None
) -> tuple[bytes, bytes]:
    data = BRANCH_DATA.encode({"id": name, "commit_id": commit_id})
    value = encode_value((commit_id if identity is None else identity).encode(), data)
    return name.encode() if key is None else key, value


def put_list(
    store: MemoryStore, entity: str, ranges: Sequence[Records], *, recorded: str | None = None
) -> MetarangeId:
    """Write a list of a dump, well formed or not, and return its metarange."""
    properties = {"entity": (entity if recorded is None else recorded).encode()}
    listed = []
    for found in ranges:
        table = TableWriter(properties={**properties, "type": b"ranges"})
        for key, value in found:
            table.add_many([key], [value])
        data = table.finish()
        range_id = RangeId(name_of(data))
        store.put(f"_lakefs/{range_id}", data, ANY)
        listed.append(RangeRecord(range_id, found[0][0], found[-1][0], len(data), len(found)))
    table = TableWriter(properties={**properties, "type": b"metaranges"})
    for record in listed:
        table.add_many([record.max_key], [encode_range_record(record)])
    data = table.finish()
    tree = MetarangeId(name_of(data))
    store.put(f"_lakefs/{tree}", data, ANY)
    return tree


COMMITS = sorted([commit_record(ROOT), commit_record(CHILD)])
BRANCHES = [branch_record("main", CHILD.id)]


def read(
    *, commits: Records | None = None, branches: Records | None = None, tags: Records | None = None
) -> Dump:
    """Read a dump of these records."""
    store = MemoryStore()
    manifest = RefsManifest(
        put_list(store, "commit", [sorted(COMMITS if commits is None else commits)]),
        put_list(store, "branch", [BRANCHES if branches is None else branches]),
        put_list(store, "tag", [tags] if tags else []),
    )
    return read_dump(new_trees(store), manifest)


def test_the_dump_that_the_others_are_made_of_is_read() -> None:
    assert dict(read().commits) == {ROOT.id: ROOT, CHILD.id: CHILD}
    assert dict(read().branches) == {"main": CHILD.id}


OTHER = "ab" * 32

FORGED: Mapping[str, dict[str, Records]] = {
    "message of another commit": {"commits": [commit_record(ROOT, message="forged")]},
    "date of another commit": {
        "commits": [commit_record(ROOT, creation_date={"seconds": 1, "nanos": 0})]
    },
    "tree of another commit": {"commits": [commit_record(ROOT, meta_range_id=OTHER)]},
    "key of another commit": {"commits": [commit_record(ROOT, key=OTHER)]},
    "ID of another commit": {"commits": [commit_record(ROOT, id=OTHER)]},
    "identity of another commit": {"commits": [commit_record(ROOT, identity=OTHER)]},
    "missing parent": {"commits": [commit_record(CHILD)]},
    "own parent": {"commits": [commit_record(ROOT, parents=[ROOT.id])]},
    "negative generation": {"commits": [commit_record(ROOT, generation=-1)]},
    "contradicting generation": {
        "commits": [commit_record(ROOT, generation=2), commit_record(CHILD)]
    },
    "later version": {"commits": [commit_record(ROOT, version=2)]},
    "too many nanoseconds": {
        "commits": [
            commit_record(
                ROOT, creation_date={"seconds": int(NOW.timestamp()), "nanos": 1_000_000_000}
            )
        ]
    },
    "no message of protobuf": {
        "commits": [(ROOT.id.encode(), encode_value(ROOT.id.encode(), b"\x0a\xff"))]
    },
    "no framed value": {"commits": [(ROOT.id.encode(), b"\xff\xff")]},
    "empty value": {"branches": [(b"main", b"")]},
    "branch under another key": {"branches": [branch_record("main", CHILD.id, key=b"dev")]},
    "identity of another branch": {"branches": [branch_record("main", CHILD.id, identity=OTHER)]},
    "no commit ID": {"branches": [branch_record("main", "../x")]},
    "name that is no text": {
        "branches": [(b"\xff", encode_value(CHILD.id.encode(), b"\x0a\x01\xff"))]
    },
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_records_are_refused(name: str) -> None:
    with pytest.raises(IntegrityError, match="refs dump cannot be used"):
        read(**FORGED[name])


def test_refs_whose_commits_are_missing_are_left_out() -> None:
    branches = [branch_record("hot", OTHER), branch_record("main", CHILD.id)]
    found = read(branches=branches, tags=[branch_record("v1", OTHER)])
    assert dict(found.branches) == {"main": CHILD.id}
    assert dict(found.tags) == {}
    assert found.left_out == (
        LeftOut(RefKind.BRANCH, "hot", CommitId(OTHER), Reason.NO_COMMIT),
        LeftOut(RefKind.TAG, "v1", CommitId(OTHER), Reason.NO_COMMIT),
    )


def test_lists_that_contradict_themselves_are_refused() -> None:
    store = MemoryStore()
    branches, tags = put_list(store, "branch", [BRANCHES]), put_list(store, "tag", [])
    unnamed = put_list(store, "commit", [COMMITS], recorded="")
    for commits in (unnamed, branches, MetarangeId(OTHER)):
        with pytest.raises(BadDump):
            read_dump(new_trees(store), RefsManifest(commits, branches, tags))


@cache
def written() -> tuple[RefsManifest, dict[str, bytes]]:
    """Return a dump, and the tables that it consists of by key."""
    trees = new_trees()
    manifest = write_dump(
        trees,
        commits=sorted([ROOT, CHILD]),
        branches={"main": CHILD.id, "dev": ROOT.id},
        tags={"v1": ROOT.id},
        default_branch="main",
    )
    return manifest, {info.key: trees.store.get(info.key) for info in trees.store.list("_lakefs/")}


def read_changed(key: str, data: bytes) -> Dump:
    manifest, tables = written()
    store = MemoryStore()
    for name, table in {**tables, key: data}.items():
        store.put(name, table, ANY)
    return read_dump(TreeStore(store, cache=None, range_entries=16), manifest)


def test_a_table_that_is_cut_off_anywhere_is_refused() -> None:
    _, tables = written()
    for key, data in tables.items():
        for size in (*range(0, len(data), 17), *range(len(data) - 60, len(data))):
            with pytest.raises(BadDump):
                read_changed(key, data[:size])


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_flipped_bits_change_nothing_that_is_believed(data: st.DataObject) -> None:
    manifest, tables = written()
    key = data.draw(st.sampled_from(sorted(tables)))
    table = bytearray(tables[key])
    table[data.draw(st.integers(0, len(table) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found = read_changed(key, bytes(table))
    except BadDump:
        return
    assert found == read_changed(key, tables[key])
    assert manifest.default_branch == "main"


def tables_of(manifest: RefsManifest, directory: Path) -> list[Path]:
    return [
        directory / "_lakefs" / each
        for each in (manifest.commits, manifest.branches, manifest.tags)
    ]


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut off": lambda path: replace_file(path, path.read_bytes()[:-100]),
    "empty": lambda path: replace_file(path, b""),
    "gone": lambda path: path.unlink(),
    "zeros": lambda path: replace_file(path, bytes(path.stat().st_size)),
    "another table": lambda path: replace_file(path, next(iter(written()[1].values()))),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_clone_of_a_damaged_dump_writes_nothing(
    lake: Lake, foreign: Path, manifest: RefsManifest, number: int, damage: str
) -> None:
    path = tables_of(manifest, foreign)[number]
    intact = path.read_bytes()
    DAMAGES[damage](path)
    before = files(foreign)
    with pytest.raises(IntegrityError):
        clone_from_lakefs(lake, str(foreign), "x", manifest, take_over=True, range_entries=16)
    assert files(foreign) == before
    with lake.kv.read() as txn:
        assert list(iter_repositories(txn)) == []
        assert find_intention(txn, f"local://{foreign}") is None
    assert not os.path.lexists(Path(lake.home.store).with_name("objects"))
    path.write_bytes(intact)
    made = clone_from_lakefs(lake, str(foreign), "x", manifest, take_over=True, range_entries=16)
    assert made.commits == 17


def test_a_dump_of_another_namespace_is_refused(
    repository: Repository, manifest: RefsManifest
) -> None:
    before = {info.key for info in repository.store.list("")}
    with pytest.raises(LakeError, match="refs dump cannot be used"):
        restore_refs(repository, manifest)
    assert {info.key for info in repository.store.list("")} == before

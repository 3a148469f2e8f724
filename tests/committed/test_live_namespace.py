"""A namespace that a lakeFS server wrote is read with the results that the server returned."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest

from lakecli.base.identity import commit_id
from lakecli.base.model import Commit, CommitId, MetarangeId
from lakecli.committed.diff import diff
from lakecli.committed.merge import compare
from lakecli.committed.values import decode_entry
from lakecli.refs.graph import iter_merge_bases
from lakecli.refs.history import iter_log
from lakecli.repository.reading.merge_points import merge_base_of
from lakecli.stores.contract import ABSENT
from tests.committed.trees import contents, new_trees
from tests.support.lakefs_files import live_expected, live_objects, log_children_first
from tests.support.memory_store import MemoryStore

REFS = (
    "after", "dev@", "dev~1", "feat@", "feat~2", "imp@", "main@", "main^1", "main~3", "v1", "v1.0",
)  # fmt: skip


class Commits(dict[str, Commit]):
    """What reads commits."""

    def find_commit(self, id: CommitId) -> Commit | None:
        return self.get(id)


@cache
def expected() -> dict[str, Any]:
    return live_expected()


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    store = MemoryStore()
    for key, data in live_objects().items():
        store.put(key, data, ABSENT)
    return store


@pytest.fixture(scope="module")
def commits() -> Commits:
    return Commits(
        {
            id_: Commit(
                CommitId(id_),
                tuple(map(CommitId, found["parents"])),
                MetarangeId(found["meta_range_id"]),
                found["message"],
                found["committer"],
                datetime.fromtimestamp(found["creation_date"], UTC),
                found["metadata"] or {},
                found["generation"],
            )
            for id_, found in expected()["commits"].items()
        }
    )


def head(ref: str) -> str:
    """Return the commit of a ref: the first of its log."""
    return str(expected()["log"][ref][0])


def test_every_ref_is_looked_at() -> None:
    assert tuple(expected()["entries"]) == REFS
    assert len(expected()["commits"]) == 17
    assert len(expected()["diffs"]) == 2 * len(REFS) ** 2


def test_commit_ids_are_computed_as_lakefs_does(commits: Commits) -> None:
    for id_, commit in commits.items():
        metadata = dict(commit.metadata)
        if metadata.get("cherry-pick-origin") == id_:
            # That server added what a cherry-pick records to the commit that was picked, too.
            del metadata["cherry-pick-origin"], metadata["cherry-pick-committer"]
        computed = commit_id(
            committer=commit.committer,
            message=commit.message,
            metarange_id=commit.metarange_id,
            created_at=int(commit.created_at.timestamp()),
            metadata=metadata,
            parents=commit.parents,
        )
        assert computed == id_


@pytest.mark.parametrize("ref", REFS)
def test_entries(store: MemoryStore, commits: Commits, ref: str) -> None:
    found = contents(new_trees(store), commits[head(ref)].metarange_id)
    answered = expected()["entries"][ref]
    assert [os.fsdecode(path) for path in found] == [entry["path"] for entry in answered]
    for value, entry in zip(found.values(), answered, strict=True):
        decoded = decode_entry(value)
        assert decoded.physical_address == entry["physical_address"]
        assert (decoded.size, decoded.checksum) == (entry["size_bytes"], entry["checksum"])
        # The server's API returns this for an entry without a type.
        shown = decoded.content_type or "application/octet-stream"
        assert shown == entry["content_type"]
        assert dict(decoded.metadata) == (entry["metadata"] or {})
        assert int(decoded.modified_at.timestamp()) == entry["mtime"]


def test_differences_of_all_pairs(store: MemoryStore, commits: Commits) -> None:
    trees = new_trees(store)
    compared = 0
    for left, right, kind, changes in expected()["diffs"]:
        trees_of = [commits[head(ref)].metarange_id for ref in (left, right)]
        if kind == "three_dot":
            bases = tuple(iter_merge_bases(commits, CommitId(head(left)), CommitId(head(right))))
            base = merge_base_of(commits, bases)
            found = compare(trees, base=base, left=trees_of[0], right=trees_of[1])
        else:
            found = diff(trees, *trees_of)
        assert [[each.type.value, os.fsdecode(each.path)] for each in found] == changes
        compared += len(changes)
    assert compared > 10_000


def test_logs_and_merge_bases(commits: Commits) -> None:
    for ref in REFS:
        log = [commit.id for commit in iter_log(commits, CommitId(head(ref)))]
        assert log == log_children_first(expected(), ref)
    for left, right, base in expected()["merge_bases"]:
        found = iter_merge_bases(commits, CommitId(head(left)), CommitId(head(right)))
        assert [commit.id for commit in found] == [base]

"""Parts of a tree of lakeFS that are rebuilt apart join to the tree that one process makes."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from lakecli.committed.writer import find_canonical
from lakecli.engine.runner import LocalRunner, count_head_entries
from lakecli.errors import Refused
from lakecli.fsck.check import fsck
from lakecli.imports.tree_parts import rebuild_heads
from lakecli.kv.local_store import Table
from lakecli.refs.ref_store import RefStore
from lakecli.repository.lakefs.dump import parse_manifest
from lakecli.repository.lakefs.restore import clone_from_lakefs
from tests.support.lakefs_files import live_expected, live_objects
from tests.support.lakes import open_lake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.base.model import MetarangeId
    from lakecli.engine.spark_runner import SparkRunner
    from lakecli.repository.contract import Repository
    from lakecli.repository.handle.lake import Lake


class Elsewhere(LocalRunner):
    """A runner that has to be told where the namespace is, as Spark has."""

    name = "elsewhere"


@pytest.fixture
def namespace(tmp_path: Path) -> Path:
    for key, data in live_objects().items():
        path = tmp_path / "namespace" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return tmp_path / "namespace"


@pytest.fixture
def taken(tmp_path: Path, namespace: Path) -> Iterator[Repository]:
    with open_lake(tmp_path) as lake:
        yield cloned(lake, namespace, take_over=True)


def cloned(lake: Lake, namespace: Path, *, take_over: bool) -> Repository:
    manifest = parse_manifest(json.dumps(live_expected()["refs_dump"]).encode())
    return clone_from_lakefs(
        lake, os.fspath(namespace), "demo", manifest, take_over=take_over, range_entries=16
    ).repository


def heads(repository: Repository) -> list[MetarangeId]:
    with repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        return [refs.get_commit(each.commit_id).metarange_id for each in refs.iter_branches()]


def forget(repository: Repository) -> None:
    with repository.lake.kv.write() as txn:
        for key in [key for key, _ in txn.scan(Table.META, prefix=b"rebuilt/")]:
            txn.delete(Table.META, key)


def rebuilt(repository: Repository) -> list[MetarangeId]:
    found = [find_canonical(repository.trees, each) for each in heads(repository)]
    assert all(repository.trees.cuts_as(each) for each in found)
    return [each.id for each in found]


@pytest.mark.parametrize("entries", [1, 100, 1_000_000])
def test_parts_join_to_the_tree_of_one_process(
    taken: Repository, monkeypatch: pytest.MonkeyPatch, entries: int
) -> None:
    monkeypatch.setattr("lakecli.imports.tree_parts.PART_ENTRIES", entries)
    assert rebuild_heads(taken, Elsewhere()) == len(set(heads(taken)))
    apart = rebuilt(taken)
    forget(taken)
    rebuild_heads(taken, LocalRunner())
    assert rebuilt(taken) == apart
    assert count_head_entries(taken, check_from=1 << 20) == max(
        len(live_expected()["entries"][f"{name}@"]) for name in live_expected()["branches"]
    )
    assert list(fsck(taken)) == []


@pytest.mark.xdist_group("spark")
def test_spark_makes_the_same_tree(
    taken: Repository, spark_runner: SparkRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecli.imports.tree_parts.PART_ENTRIES", 1_000)
    rebuild_heads(taken, spark_runner)
    there = rebuilt(taken)
    forget(taken)
    rebuild_heads(taken, LocalRunner())
    assert rebuilt(taken) == there


def test_nothing_is_rebuilt_elsewhere_in_a_namespace_of_lakefs(
    tmp_path: Path, namespace: Path
) -> None:
    with open_lake(tmp_path) as lake:
        borrowed = cloned(lake, namespace, take_over=False)
        with pytest.raises(Refused, match="belongs to lakeFS"):
            rebuild_heads(borrowed, Elsewhere())

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException

from lakecli.repository import branch, tag
from lakecli.repository.commit import commit
from lakecli.repository.merge import MergeOptions, merge
from lakecli.spark import register
from tests.support.lakes import entry_of, read, stage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakecli.repository.contract import Repository

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]

URI = "lakefs://demo"


def _paths(frame: Any) -> dict[bytes, str]:
    rows = frame.selectExpr("cast(path as binary) as path", "checksum").collect()
    return {bytes(row.path): row.checksum for row in rows}


@pytest.fixture
def filled(repository: Repository) -> Repository:
    contents = {f"t/{number:04d}".encode(): b"%d" % number for number in range(500)}
    stage(repository, "main", {**contents, b"u/\xff": b"odd", "u/ä".encode(): b"umlaut"})
    commit(repository, "main", message="One", committer="test")
    return repository


def test_each_row_is_an_entry(filled: Repository, load: Callable[..., Any]) -> None:
    frame = load(f"{URI}/main/t/0007")
    [row] = frame.collect()
    entry = entry_of(b"7")
    assert row.asDict() == {
        "path": "t/0007",
        "physical_address": entry.physical_address,
        "size": 1,
        "checksum": entry.checksum,
        "mtime": datetime(2026, 3, 1, 12),
        "content_type": "text/plain",
        "metadata": {},
        "range_id": row.range_id,
    }
    assert len(row.range_id) == 64
    everything = load(f"{URI}/main", entriesPerPartition="200")
    assert everything.rdd.getNumPartitions() > 1
    assert _paths(everything) == read(filled, "main")


def test_a_branch_is_read_with_its_staged_changes(
    filled: Repository, load: Callable[..., Any]
) -> None:
    staged = {b"t/0001": None, b"t/0002": b"new", b"t/0002a": b"added", b"zz": None}
    stage(filled, "main", staged)
    now = load(f"{URI}/main")
    later = read(filled, "main")
    assert len(later) == 502
    assert _paths(now) == later
    assert _paths(load(f"{URI}/main@")) == read(filled, "main@")
    added = now.where("range_id is null").select("path").collect()
    assert [row.path for row in added] == ["t/0002", "t/0002a"]

    # The DataFrame stays what it was.
    stage(filled, "main", {b"t/0003": None})
    commit(filled, "main", message="Two", committer="test")
    assert _paths(now) == later
    assert _paths(load(f"{URI}/main")) == read(filled, "main") != later


def test_a_branch_at_a_date(filled: Repository, load: Callable[..., Any]) -> None:
    then = _paths(load(f"{URI}/main@"))
    filled.lake.runtime.clock.present += timedelta(days=2)  # type: ignore[attr-defined]
    stage(filled, "main", {b"t/0001": None})
    commit(filled, "main", message="Later", committer="test")
    assert _paths(load(f"{URI}/main@{{2026-03-02}}/")) == then != _paths(load(f"{URI}/main@"))


def test_columns_and_schema_prune(filled: Repository, load: Callable[..., Any], spark: Any) -> None:
    assert load(f"{URI}/main", columns="size, path").columns == ["size", "path"]
    chosen = spark.read.format("lakefs").schema("checksum string").load(f"{URI}/main")
    assert {row.checksum for row in chosen.collect()} == set(read(filled, "main").values())
    assert load(f"{URI}/main", columns="range_id").distinct().count() > 3


def test_filters_of_one_query_do_not_change_another(
    filled: Repository, load: Callable[..., Any]
) -> None:
    frame = load(f"{URI}/main")
    none = frame.where("path = 'x'")
    assert none.count() == 0
    assert none.union(frame).count() == frame.count() == 502
    assert load(f"{URI}/main/t/", prefix="00", entriesPerPartition=50).count() == 100


def test_differences_of_branches_that_crossed(filled: Repository, load: Callable[..., Any]) -> None:
    """They have two merge bases; what main deleted afterwards is no change of dev."""
    branch.create(filled, "dev", source="main")
    paths = [b"t/%04d" % number for number in range(500)]
    for name, changed in (("main", paths[::7]), ("dev", paths[3::7])):
        stage(filled, name, dict.fromkeys(changed, name.encode()))
        commit(filled, name, message="Before", committer="test")
    before = branch.show(filled, "main").commit_id
    merge(filled, "dev", "main", MergeOptions("test"))
    merge(filled, before, "dev", MergeOptions("test"))
    stage(filled, "main", dict.fromkeys(paths[:200]))
    commit(filled, "main", message="Deleted", committer="test")
    stage(filled, "dev", {b"t/0007": b"dev", b"t/0300": b"dev"})
    commit(filled, "dev", message="Changed", committer="test")
    rows = load(URI, diff="main...dev", entriesPerPartition=100).collect()
    assert [(row.path, row.type) for row in rows] == [("t/0007", "conflict"), ("t/0300", "changed")]


def test_commits_refs_and_differences(filled: Repository, load: Callable[..., Any]) -> None:
    branch.create(filled, "dev", source="main")
    tag.create(filled, "v1", "main")
    stage(filled, "dev", {b"t/0001": None, b"t/0002": b"dev", b"new": b"dev"})
    second = commit(filled, "dev", message="Two", committer="Ada", metadata={"k": "v"})
    stage(filled, "main", {b"t/0002": b"main", b"t/0400": b"main"})
    commit(filled, "main", message="Three", committer="test")

    refs = load(URI, what="refs").collect()
    assert [(row.kind, row.name) for row in refs] == [
        ("branch", "dev"),
        ("branch", "main"),
        ("tag", "v1"),
    ]
    commits = load(f"{URI}/dev", what="commits").collect()
    assert [row.message for row in commits] == ["Two", "One", "Repository created"]
    assert commits[0].asDict() | {"created_at": None} == {
        "id": second.id,
        "parents": list(second.parents),
        "message": "Two",
        "committer": "Ada",
        "created_at": None,
        "metadata": {"k": "v"},
        "metarange_id": second.metarange_id,
        "generation": 3,
    }
    assert commits[0].created_at.replace(tzinfo=UTC) == second.created_at

    def differences(dots: str, **options: Any) -> dict[str, str]:
        rows = load(URI, diff=dots, entriesPerPartition=100, **options).collect()
        return {row.path: row.type for row in rows}

    three = {"new": "added", "t/0001": "removed", "t/0002": "conflict"}
    assert differences("main...dev") == three
    two = {**three, "t/0002": "changed", "t/0400": "changed"}
    assert differences("main..dev") == two
    assert differences("main..dev", prefix="t/0") == {
        path: kind for path, kind in two.items() if path != "new"
    }
    [row] = load(URI, diff="main...dev").where("path = 'new'").collect()
    assert row.asDict() == {
        "type": "added",
        "path": "new",
        "left_size": None,
        "left_checksum": None,
        "right_size": 3,
        "right_checksum": entry_of(b"dev").checksum,
    }


@pytest.mark.parametrize(
    ("uri", "options", "message"),
    [
        (f"{URI}/nope", {}, "no branch or tag 'nope'\nhint: see what there is"),
        ("lakefs://other/main", {}, "no repository 'other'"),
        ("s3://bucket", {}, "not a lakefs:// URI"),
        (f"{URI}/main", {"columns": "path,nope"}, "column 'nope' of entries is unknown"),
        (f"{URI}/main", {"columns": "path,path"}, "column 'path' of entries is named twice"),
        (f"{URI}/main", {"what": "everything"}, "unknown rows: 'everything'"),
        (f"{URI}/main", {"colums": "path"}, "unknown option 'colums'"),
        (f"{URI}/main", {"entriesPerPartition": "many"}, "is not a positive number: 'many'"),
        (URI, {"diff": "main"}, "not two refs: 'main'"),
        (f"{URI}/main", {"diff": "main..main"}, "the URI has a ref in addition to the two"),
    ],
)
def test_wrong_options_are_refused(
    repository: Repository, load: Callable[..., Any], uri: str, options: Any, message: str
) -> None:
    with pytest.raises(AnalysisException, match=re.escape(message)):
        load(uri, **options)


def test_wrong_schemas_are_refused(
    filled: Repository, load: Callable[..., Any], spark: Any
) -> None:
    for schema, message in {
        "path string, nope int": "column 'nope' of entries is unknown",
        "size string": "column 'size' of entries is bigint, not string",
    }.items():
        with pytest.raises(AnalysisException, match=message):
            spark.read.format("lakefs").schema(schema).load(f"{URI}/main").collect()


def test_damage_is_reported_with_its_place(filled: Repository, load: Callable[..., Any]) -> None:
    frame = load(f"{URI}/main")
    [row, *_] = frame.collect()
    filled.store.delete([f"_lakefs/{row.range_id}"])
    with pytest.raises(Exception, match="missing from") as raised:
        frame.collect()
    assert f"_lakefs/{row.range_id}" in str(raised.value)
    assert "`fsck REPOSITORY`" in str(raised.value)


def test_each_session_has_a_data_source(
    repository: Repository, spark: Any, home: Path, tmp_path: Path
) -> None:
    stage(repository, "main", {b"a": b"1"})
    register(spark, home=home)
    other = spark.newSession()
    for place in (tmp_path, home):
        register(other, home=place)
    for session in (other, spark):
        assert session.read.format("lakefs").load("lakefs://demo/main").count() == 1

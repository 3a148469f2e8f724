"""Symlink manifests: what they list, what cannot be listed, and that Hive's reader takes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.layout import data_key
from lakecli.base.model import Entry
from lakecli.errors import LakeError, NotFound, Refused, Unsupported, UsageError
from lakecli.exports.manifests import write_symlinks
from lakecli.repository.commit import commit
from tests.support.lakes import make_repository, open_lake, stage, stage_entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakecli.repository.contract import Repository


PAGE = (Path(__file__).parents[2] / "lakecli/cli/manual/topics/import.md").read_text(
    encoding="utf-8"
)


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with open_lake(tmp_path) as lake:
        yield make_repository(lake, tmp_path)


def keep(repository: Repository, contents: Mapping[bytes, bytes | None]) -> None:
    stage(repository, "main", contents)
    commit(repository, "main", message="m", committer="c")


def uri(repository: Repository, data: bytes) -> str:
    place = repository.record.storage_namespace.removeprefix("local://")
    return f"file://{place}/{data_key(blake3_of(data).hex())}"


def listed(directory: Path) -> dict[str, list[str]]:
    """The lines of all files below a directory."""
    return {
        path.relative_to(directory).as_posix(): path.read_text(encoding="utf-8").splitlines()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_a_manifest_for_each_partition(repository: Repository, tmp_path: Path) -> None:
    out = tmp_path / "out"
    keep(
        repository,
        {
            b"t/d=1/a": b"1",
            b"t/d=1/sub/b": b"2",
            b"t/d=1/_SUCCESS": b"",
            b"t/d=2/.hidden": b"-",
            b"t/d=2/k=\xc3\xbc/c": b"3",
            b"t/_delta_log/0.json": b"-",
            b"u/x": b"4",
        },
    )
    done = write_symlinks(repository, "main", b"t", str(out))
    assert done[1:] == (2, 3, 3, 0, False)
    first = {
        "_symlink_format_manifest/d=1/manifest": [uri(repository, b"1"), uri(repository, b"2")],
        "_symlink_format_manifest/d=2/k=ü/manifest": [uri(repository, b"3")],
    }
    assert listed(out) == first
    # A later commit: one partition changes, one goes, one comes. What is not ours stays.
    (out / "_symlink_format_manifest" / "note").write_text("mine")
    keep(repository, {b"t/d=1/a": b"5", b"t/d=2/k=\xc3\xbc/c": None, b"t/d=3/e": b"6"})
    stage(repository, "main", {b"t/d=4/f": b"7"})
    dry = write_symlinks(repository, "main", b"t", str(out), dry_run=True)
    assert {key: each for key, each in listed(out).items() if "note" not in key} == first
    assert dry == write_symlinks(repository, "main", b"t", str(out))
    assert dry[1:] == (2, 3, 3, 1, True)
    assert listed(out) == {
        "_symlink_format_manifest/d=1/manifest": [uri(repository, b"5"), uri(repository, b"2")],
        "_symlink_format_manifest/d=3/manifest": [uri(repository, b"6")],
        "_symlink_format_manifest/note": ["mine"],
    }
    # The earlier commit, from the same command.
    write_symlinks(repository, "main~1", b"t", str(out))
    assert {key for key in listed(out) if "note" not in key} == set(first)


def test_a_table_without_partitions_in_a_bucket(repository: Repository) -> None:
    from lakecli.exports import target
    from tests.support.memory_store import MemoryStore

    keep(repository, {b"a": b"1", b"b": b"1"})
    store = MemoryStore()
    store.put_new("_symlink_format_manifest/d=9/manifest", b"old")
    store.put_new("_symlink_format_manifest/other", b"not ours")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, "open_by_uri", lambda _uri, **_: store)
        runtime = repository.lake.runtime
        repository.lake.runtime = runtime._replace(prepare_namespace=lambda _uri: "")
        write_symlinks(repository, "main", b"", "s3://bucket/t")
    keys = [info.key for info in store.list()]
    assert keys == ["_symlink_format_manifest/manifest", "_symlink_format_manifest/other"]
    same = uri(repository, b"1")
    assert store.get(keys[0]).decode() == f"{same}\n{same}\n"


@pytest.mark.parametrize(
    ("contents", "error", "message"),
    [
        ({b"t/a": b"", b"t/d=1/b": b""}, UsageError, "not a table: t/d=1/b is not in"),
        ({b"t/d=1/b": b"", b"t/e": b""}, UsageError, "not a table: t/e is not in"),
        ({b"t/x/d=1/b": b""}, UsageError, "not a table: x/d=1/b is not in"),
        ({b"t/d=\xff/b": b""}, UsageError, "not a table"),
        ({b"t/a.csv.gz": b""}, Unsupported, "a.csv.gz is compressed text"),
        ({b"t/_SUCCESS": b""}, NotFound, "no object at"),
        ({b"u": b""}, NotFound, "no object at"),
    ],
)
def test_what_is_no_table_is_refused(
    repository: Repository,
    tmp_path: Path,
    contents: dict[bytes, bytes | None],
    error: type[LakeError],
    message: str,
) -> None:
    keep(repository, contents)
    with pytest.raises(error, match=message):
        write_symlinks(repository, "main", b"t", str(tmp_path / "out"))


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("s3://elsewhere/t/ü x", "s3://elsewhere/t/ü x"),
        ("gs://elsewhere/x", "gs://elsewhere/x"),
        ("az://account/container/a/b", "abfss://container@account.dfs.core.windows.net/a/b"),
        ("s3://elsewhere/x?versionId=1", "its address names a version of it"),
        ("s3://elsewhere/a\nb", "its address has a line break"),
        *(
            (f"s3://elsewhere/{key}", "its address stands for another file, or for none")
            for key in (
                *("t/part[1]", "{a,b}", "a*", "a?", "a\\b", "k=2026-01-01 10:00/x"),
                *("t//x", "/x", "t/./x", "t/../x", "t/_x", "t/.x", "x._COPYING_"),
            )
        ),
        (
            "s3://elsewhere/_t/.d/(a),b;c%5b]}^#+&!'~@$.x",
            "s3://elsewhere/_t/.d/(a),b;c%5b]}^#+&!'~@$.x",
        ),
        (
            "https://account.blob.core.windows.net/container/a%20b",
            "abfss://container@account.dfs.core.windows.net/a b",
        ),
        ("s3://forbidden/x", "not allowed"),
    ],
)
def test_addresses_outside_the_namespace(
    repository: Repository, tmp_path: Path, address: str, found: str
) -> None:
    from lakecli.repository.reading.addresses import remember

    remember(repository, ["s3://elsewhere", "gs://elsewhere", "az://account/container"])
    entry = Entry(address, 1, "e", datetime(2026, 1, 1, tzinfo=UTC))
    stage_entries(repository, "main", {b"t/x.gz.parquet": entry})
    commit(repository, "main", message="m", committer="c")
    out = tmp_path / "out"
    if "://" in found:
        write_symlinks(repository, "main", b"t", str(out))
        assert listed(out) == {"_symlink_format_manifest/manifest": [found]}
    else:
        with pytest.raises(LakeError, match=found):
            write_symlinks(repository, "main", b"t", str(out))
        assert not listed(out)


def test_a_refused_table_leaves_the_manifests_of_the_last_one(
    repository: Repository, tmp_path: Path
) -> None:
    keep(repository, {b"t/d=1/a": b"1", b"t/d=2/a": b"2"})
    out = tmp_path / "out"
    write_symlinks(repository, "main", b"t", str(out))
    before = listed(out)
    keep(repository, {b"t/d=1/a": b"new", b"t/d=3/a.csv.gz": b"3"})
    with pytest.raises(Unsupported):
        write_symlinks(repository, "main", b"t", str(out))
    assert listed(out) == before


def test_the_destination_is_not_the_namespace(repository: Repository) -> None:
    keep(repository, {b"t/a": b"1"})
    with pytest.raises(Refused, match="own storage namespace"):
        write_symlinks(repository, "main", b"t", f"{repository.record.storage_namespace}/x")


@pytest.mark.xdist_group("spark")
def test_hive_reads_it(repository: Repository, tmp_path: Path, spark: Any) -> None:
    keep(repository, {b"t/d=1/a.csv": b"1,x\n2,y\n", b"t/d=1/b.csv": b"3,z\n"})
    write_symlinks(repository, "main", b"t", str(tmp_path / "out"))
    # All its splits have a length of 0, and Spark leaves out such ones by default.
    settings, name = spark.sparkContext._jsc.sc().conf(), "spark.hadoopRDD.ignoreEmptySplits"
    settings.set(name, "false")
    rows = spark.sparkContext.hadoopFile(
        f"file://{tmp_path}/out/_symlink_format_manifest/d=1",
        "org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat",
        "org.apache.hadoop.io.LongWritable",
        "org.apache.hadoop.io.Text",
    )
    assert sorted(text for _, text in rows.collect()) == ["1,x", "2,y", "3,z"]
    settings.remove(name)
    [statement] = re.findall(r"^    (CREATE EXTERNAL TABLE .*(?:\n    .*)*)", PAGE, re.MULTILINE)
    parsed = spark._jsparkSession.sessionState().sqlParser().parsePlan(statement)
    assert "SymlinkTextInputFormat" in parsed.toString()

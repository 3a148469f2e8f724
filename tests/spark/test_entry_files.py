"""Entries by way of Parquet files in the cache, compared with those of the data source."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from lakecli.errors import IntegrityError, NotFound, UsageError
from lakecli.model import Entry
from lakecli.repository.commit import commit
from lakecli.spark import entries as entries_module
from lakecli.spark import entry_files, read_entries
from lakecli.spark.entry_cache import EntryCache
from lakecli.spark.layout import KEPT
from tests.support.lakes import START, stage, stage_entries

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.repository.core.lake import Repository

    Load = Callable[..., Any]
    Read = Callable[..., Any]

pytestmark = pytest.mark.xdist_group("spark")

URI = "lakefs://demo"
TEXTS = ("range_id", "physical_address", "checksum", "content_type")


@pytest.fixture
def filled(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Entries of all kinds, in several groups."""
    monkeypatch.setattr(entries_module, "STABLE", 100)
    stage(repository, "main", {f"t/{number:04d}".encode(): b"%d" % number for number in range(900)})
    odd = {
        b"u/\xff": Entry("s3://other/\xe4", 0, "", START),
        "u/ä".encode(): Entry("data/x", 1 << 40, "etag", START, "", {"": "", "k": "ä"}),
        b"u/z": Entry("data/y", 3, "c" * 64, START.replace(year=1902), "text/ü", {"a": "b"}),
    }
    stage_entries(repository, "main", odd)
    commit(repository, "main", message="One", committer="test")
    return repository


@pytest.fixture
def read(spark: Any, home: Path) -> Read:
    """Read entries by way of files."""

    def read(uri: str, **options: Any) -> Any:
        return read_entries(spark, uri, home=home, **options)

    return read


def _rows(frame: Any) -> list[tuple[Any, ...]]:
    """Return the rows in order of their paths, which may not be UTF-8."""
    texts = (f"cast({name} as binary) as {name}" for name in ("path", *TEXTS))
    rows = frame.selectExpr(*texts, "size", "mtime", "metadata").collect()
    return sorted((tuple(row) for row in rows), key=lambda row: bytes(row[0]))


def _files(home: Path) -> dict[str, int]:
    """Return the files in the cache, and when each was written."""
    return {each.name: each.stat().st_ino for each in (home / "cache" / "entries").iterdir()}


def test_the_rows_are_those_of_the_data_source(
    filled: Repository, load: Load, read: Read, home: Path
) -> None:
    everything = read(f"{URI}/main")
    assert everything.dtypes == load(f"{URI}/main").dtypes
    assert _rows(everything) == _rows(load(f"{URI}/main"))
    assert len(everything.inputFiles()) == len(_files(home)) > 2
    assert read(f"{URI}/main/t/00").count() == 100
    assert _rows(read(f"{URI}/main/u")) == _rows(load(f"{URI}/main/u"))
    assert read(f"{URI}/main/none").collect() == []
    assert read(f"{URI}/main", columns=["size", "path"]).columns == ["size", "path"]


def test_spark_reads_only_the_columns_of_a_query(filled: Repository, read: Read) -> None:
    plan = read(f"{URI}/main").where("path = 't/0001'").select("size")
    text = plan._jdf.queryExecution().executedPlan().toString()
    assert "ReadSchema: struct<path:string,size:bigint>" in text
    assert "PushedFilters: [IsNotNull(path), EqualTo(path,t/0001)]" in text
    assert [row.size for row in plan.collect()] == [1]


def test_staged_changes(filled: Repository, load: Load, read: Read) -> None:
    staged = {b"t/0001": None, b"t/0002": b"new", b"t/0002a": b"added", b"zz": None}
    stage(filled, "main", staged)
    now = read(f"{URI}/main")
    rows = _rows(now)
    assert rows == _rows(load(f"{URI}/main"))
    assert len(rows) == 903
    assert _rows(read(f"{URI}/main@")) == _rows(load(f"{URI}/main@"))

    # The DataFrame stays what it was.
    stage(filled, "main", {b"t/0003": None})
    commit(filled, "main", message="Two", committer="test")
    assert _rows(now) == rows
    assert len(_rows(read(f"{URI}/main"))) == 902


def test_only_changed_groups_are_decoded(filled: Repository, read: Read, home: Path) -> None:
    assert read(f"{URI}/main").count() == 903
    before = _files(home)
    assert read(f"{URI}/main").count() == 903
    assert _files(home) == before
    stage(filled, "main", {b"t/0450": b"other"})
    commit(filled, "main", message="Two", committer="test")
    assert read(f"{URI}/main@").where("path = 't/0450'").first()["size"] == 5
    after = _files(home)
    assert before.items() <= after.items()
    assert len(before) > 3
    assert len(after) - len(before) <= 2


def test_files_that_nobody_has_used_for_a_week_are_deleted(
    filled: Repository, read: Read, home: Path
) -> None:
    directory = home / "cache" / "entries"
    directory.mkdir(mode=0o755, parents=True)
    now = directory.stat().st_mtime
    old, recent = directory / "old.parquet.unfinished", directory / "recent.parquet"
    for file, age in ((old, KEPT.total_seconds() + 86_400), (recent, 60)):
        file.write_bytes(b"")
        os.utime(file, (now - age, now - age))
    (directory / "sub").mkdir()
    os.utime(directory / "sub", (0, 0))
    assert read(f"{URI}/main").count() == 903
    assert not old.exists()
    assert not (directory / "sub").exists()
    assert recent.exists()
    assert directory.stat().st_mode & 0o777 == 0o700


def test_files_that_a_data_frame_reads_are_not_deleted_for_others(
    filled: Repository, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = read(f"{URI}/main/t/0001")
    assert len(first.inputFiles()) == 1

    def small(directory: Path, _limit: int, now: float) -> EntryCache:
        return EntryCache(directory, 1, now)

    monkeypatch.setattr(entry_files, "EntryCache", small)
    second = read(f"{URI}/main/t/0002")
    assert second.inputFiles() == []
    assert (first.count(), second.count()) == (1, 1)
    assert len(read(f"{URI}/main/t/0001").inputFiles()) == 1


def test_without_files_each_query_decodes(
    filled: Repository,
    load: Load,
    read: Read,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = _rows(load(f"{URI}/main"))
    with monkeypatch.context() as patch:
        patch.setattr(entry_files, "is_here", lambda _spark: False)
        frame = read(f"{URI}/main")
        assert frame.inputFiles() == []
        assert _rows(frame) == expected
        assert read(f"{URI}/main", columns=["size"]).columns == ["size"]
        assert read(f"{URI}/main/none").collect() == []

    # Nor are there files that would not fit into the cache, or could not be written.
    with monkeypatch.context() as patch:
        patch.setattr(entry_files, "ENTRY_SIZE", 1 << 40)
        assert read(f"{URI}/main/t/0001").inputFiles() == []
    directory = home / "cache" / "entries"
    directory.parent.mkdir(exist_ok=True)
    directory.write_bytes(b"")
    frame = read(f"{URI}/main/t/0001")
    assert frame.inputFiles() == []
    assert frame.count() == 1


def test_what_is_missing_or_damaged_is_reported(
    filled: Repository, load: Load, read: Read, home: Path
) -> None:
    first = min(row.range_id for row in load(f"{URI}/main").select("range_id").collect())
    name = filled.store.local_path(f"_lakefs/{first}")
    assert name is not None
    path = Path(name)
    body = path.read_bytes()
    path.chmod(0o600)
    for damaged in (body[:40] + b"\xff\xff\xff" + body[43:], b"", None):
        path.unlink() if damaged is None else path.write_bytes(damaged)
        with pytest.raises(IntegrityError, match=first[:12]) as raised:
            read(f"{URI}/main")
        assert raised.value.hint
        assert all(each.endswith(".parquet") for each in _files(home))
    path.write_bytes(body)
    assert read(f"{URI}/main").count() == 903


def test_wrong_arguments_are_refused(filled: Repository, read: Read) -> None:
    with pytest.raises(UsageError, match="column 'etag' of entries is unknown"):
        read(f"{URI}/main", columns=["path", "etag"])
    with pytest.raises(NotFound, match="nowhere"):
        read(f"{URI}/nowhere")


def test_a_file_has_its_name_only_when_it_is_complete(tmp_path: Path) -> None:
    schema = pa.schema([("path", pa.string())])
    target = tmp_path / "a.parquet"

    def broken() -> Any:
        yield pa.record_batch([["x"]], schema=schema)
        raise IntegrityError("damaged")

    with pytest.raises(IntegrityError):
        entry_files.write_file(broken(), schema, target, "1")
    assert [*tmp_path.iterdir()] == []
    batch = pa.record_batch([["x"] * 20_000], schema=schema)
    entry_files.write_file(iter([batch] * 5), schema, target, "1")
    assert [*tmp_path.iterdir()] == [target]
    metadata = parquet.read_metadata(target)
    sizes = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
    assert sizes == [40_000, 40_000, 20_000]

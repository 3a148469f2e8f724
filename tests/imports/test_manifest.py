"""Manifests: every format gives the same tree."""

from __future__ import annotations

import gzip
import os
import random
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakecli.committed.values import decode_entry
from lakecli.engine.runner import LocalRunner
from lakecli.errors import (
    ConflictError,
    IntegrityError,
    Refused,
    Unreachable,
    Unsupported,
    UsageError,
)
from lakecli.imports import manifest, manifest_rows, model, sorting
from lakecli.imports.address_checks import Verify
from lakecli.imports.job import import_objects, preview
from lakecli.imports.manifest_rows import MAX_TEXT_SIZE
from lakecli.imports.model import ROWS_AT_ONCE
from lakecli.imports.report import ImportOptions, ImportReport
from lakecli.imports.sources import open_source
from lakecli.repository.reading.view import open_view
from lakecli.repository.transfer.plan import PathAction
from lakecli.repository.transfer.walk import LinkPolicy
from tests.imports.lists import (
    inventory_manifest,
    inventory_row,
    row_of,
    write_csv,
    write_json,
    write_parquet,
)
from tests.imports.sources import value_of
from tests.support.disk import limit_databases
from tests.support.lakes import make_repository, open_lake
from tests.support.recorded_progress import RecordedProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import BinaryIO

    from lakecli.imports.manifest import ManifestFile
    from lakecli.imports.model import ImportPart
    from lakecli.repository.contract import Repository

KEYS = [f"dir {n % 7}/é{n:05d}.bin" for n in range(3_000)]
NUMBERS = {key: number % 100 for number, key in enumerate(sorted(KEYS, key=str.encode))}


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with open_lake(tmp_path) as lake:
        yield make_repository(lake, tmp_path)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "PART_ROWS", 256)
    monkeypatch.setattr(manifest, "ROWS_PER_PART", 500)


def run(
    repository: Repository, source: Path | str, *, path: bytes | None = None, **options: Any
) -> ImportReport:
    is_manifest = options.pop("is_manifest", False)
    opened = open_source(repository, str(source), is_manifest=is_manifest, links=LinkPolicy.FAIL)
    return import_objects(
        repository,
        "main",
        path,
        source=opened,
        runner=LocalRunner(),
        committer="c",
        options=ImportOptions(**{"verify": Verify.NONE, **options}),
    )


def contents(repository: Repository) -> dict[bytes, bytes]:
    with open_view(repository, "main") as view:
        return dict(view.scan())


EXPECTED = {key.encode(): value_of(number) for key, number in NUMBERS.items()}


def rows(*, shuffled: bool = False) -> list[dict[str, Any]]:
    found = [row_of(key, NUMBERS[key]) for key in sorted(KEYS, key=str.encode)]
    if shuffled:
        random.Random(1).shuffle(found)
    return found


def write_directory(path: Path, found: list[dict[str, Any]]) -> Path:
    path.mkdir()
    for number in range(5):
        write_parquet(path / f"part-{number:05d}.parquet", found[number::5])
    (path / "_SUCCESS").touch()
    (path / "_metadata.parquet").write_bytes(b"not for us")
    return path


FORMS: dict[str, Callable[[Path], Path]] = {
    "parquet in order": lambda d: write_parquet(d / "x.parquet", rows(), group=100),
    "parquet in one group": lambda d: write_parquet(d / "x.parquet", rows(), group=10_000),
    "parquet in disorder": lambda d: write_parquet(d / "x.parquet", rows(shuffled=True)),
    "disorder in one group": lambda d: write_parquet(
        d / "x.parquet", rows(shuffled=True), group=10_000
    ),
    "parquet of other types": lambda d: write_parquet(
        d / "x.parquet",
        rows(),
        kinds={
            "path": pa.large_string(),
            "physical_address": pa.dictionary(pa.int32(), pa.string()),
            "checksum": pa.binary(),
            "size": pa.int32(),
            "mtime": pa.timestamp("s"),
        },
    ),
    "csv": lambda d: write_csv(d / "x.csv", rows(shuffled=True)),
    "csv.gz": lambda d: write_csv(d / "x.csv.gz", rows(shuffled=True)),
    "jsonl": lambda d: write_json(d / "x.jsonl", rows(shuffled=True)),
    "ndjson.gz": lambda d: write_json(d / "x.ndjson.gz", rows(shuffled=True)),
    "directory": lambda d: write_directory(d / "x", rows(shuffled=True)),
    "other names": lambda d: write_csv(
        d / "x.csv",
        [
            {
                "extra": "1",
                "Key": row["path"],
                "uri": row["physical_address"],
                "ETag": f'"{row["checksum"]}"',
                "Size": row["size"],
                "Last_Modified": "2026-03-01T14:00:00+02:00",
            }
            for row in rows()
        ],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_format_gives_the_same_tree(
    repository: Repository, tmp_path: Path, form: str
) -> None:
    source = FORMS[form](tmp_path)
    report = run(repository, source, is_manifest=form == "directory")
    assert report.tally.objects == report.tally.added == len(KEYS)
    assert report.tally.size == sum(NUMBERS.values())
    assert contents(repository) == EXPECTED
    assert not list((Path(repository.lake.home.cache) / "imports").iterdir())


def test_sorted_and_unsorted_manifests_give_the_same_tree(
    repository: Repository, tmp_path: Path
) -> None:
    first = run(repository, write_parquet(tmp_path / "a.parquet", rows(), group=100))
    assert first.parts > 3
    again = run(repository, write_csv(tmp_path / "b.csv", rows(shuffled=True)), allow_empty=True)
    assert again.parts > 3
    assert first.commit is not None
    assert again.commit is not None
    assert first.commit.metarange_id == again.commit.metarange_id
    assert again.tally.unchanged == len(KEYS)


def test_wrong_statistics_do_not_change_the_result(repository: Repository, tmp_path: Path) -> None:
    """They make the intervals of parts, outside which a part must not merge a key."""
    keys = [f"k{number:05d}" for number in range(1_200)]
    file = write_parquet(tmp_path / "x.parquet", [row_of(key, 1) for key in keys], group=100)
    run(repository, file)
    data = file.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    file.write_bytes(data[:footer] + data[footer:].replace(b"k00500", b"k00599"))
    report = run(repository, file, allow_empty=True)
    assert (report.tally.unchanged, report.tally.removed) == (len(keys), 0)


def other_column_first() -> pa.Table:
    found = [{"m": {"x": n, "y": f"{n:05d}"}} | row_of(f"k{n:05d}", 1) for n in range(1_200)]
    return pa.Table.from_pylist(found)


def paths_of_integers() -> pa.Table:
    return pa.Table.from_pylist([row_of("", 1) | {"path": number} for number in range(1_200)])


def paths_not_utf_8() -> pa.Table:
    found = [row_of("", 1) | {"path": b"\xff%05d" % number} for number in range(1_200)]
    table = pa.Table.from_pylist(found)
    paths = table.column("path").combine_chunks().view(pa.string())
    return table.set_column(0, "path", paths)


@pytest.mark.parametrize("table", [other_column_first, paths_of_integers, paths_not_utf_8])
def test_unusual_statistics_are_no_obstacle(
    repository: Repository, tmp_path: Path, table: Callable[[], pa.Table]
) -> None:
    pq.write_table(table(), tmp_path / "x.parquet", row_group_size=100)
    for _ in range(2):
        report = run(repository, tmp_path / "x.parquet", allow_empty=True)
    assert report.tally.unchanged == len(contents(repository)) == 1_200


def test_a_column_that_occurs_twice_is_refused(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("path,uri,size,size,etag,,\n")
    with pytest.raises(UsageError, match="has several columns of the name 'size'"):
        run(repository, tmp_path / "x.csv")
    table = pa.Table.from_pylist([row_of("a", 1)])
    (tmp_path / "x").mkdir()
    pq.write_table(table, tmp_path / "x/1.parquet")
    pq.write_table(table.append_column("path", pa.array(["b"])), tmp_path / "x/2.parquet")
    with pytest.raises(UsageError, match=r"2\.parquet has several columns of the name 'path'"):
        run(repository, tmp_path / "x", is_manifest=True)


def test_content_types_and_missing_times(repository: Repository, tmp_path: Path) -> None:
    row = row_of("a", 1) | {"content_type": "text/csv"}
    del row["mtime"]
    run(repository, write_csv(tmp_path / "x.csv", [row]))
    entry = decode_entry(contents(repository)[b"a"])
    assert entry.content_type == "text/csv"
    assert entry.modified_at >= repository.record.created_at


def test_the_first_object_of_json_may_lack_a_content_type(
    repository: Repository, tmp_path: Path
) -> None:
    found = [row_of("a", 1), row_of("b", 2) | {"content_type": "text/csv"}]
    run(repository, write_json(tmp_path / "x.jsonl", found))
    types = [decode_entry(value).content_type for value in contents(repository).values()]
    assert types == ["", "text/csv"]


def test_the_first_object_of_json_may_lack_a_time_that_others_have(
    repository: Repository, tmp_path: Path
) -> None:
    """Times are not left out in silence: all objects have one, or none."""
    found = [row_of("a", 1), row_of("b", 2)]
    del found[0]["mtime"]
    with pytest.raises(IntegrityError, match="line 1: a value of column 'mtime' is missing"):
        run(repository, write_json(tmp_path / "x.jsonl", found))


@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "x.jsonl"])
def test_wrong_columns_are_named(repository: Repository, tmp_path: Path, name: str) -> None:
    found = [{"path": "a", "adress": "s3://b/a", "size": 1, "md5": "x"}]
    write = {".csv": write_csv, ".jsonl": write_json, ".parquet": write_parquet}[Path(name).suffix]
    with pytest.raises(UsageError) as caught:
        run(repository, write(tmp_path / name, found))
    assert "lacks the column physical_address and the column checksum" in caught.value.message
    assert "it has path, adress, size, md5" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("size", "many", "column 'size' does not contain integers"),
        ("mtime", "yesterday", "column 'mtime' does not contain times: 'yesterday'"),
        ("mtime", "9999-12-31T23:59:59-01:00", "column 'mtime' does not contain times"),
    ],
)
def test_wrong_values(
    repository: Repository, tmp_path: Path, field: str, value: str, message: str
) -> None:
    with pytest.raises(IntegrityError, match=message):
        run(repository, write_csv(tmp_path / "x.csv", [row_of("a", 1) | {field: value}]))


def test_a_time_after_the_year_9999_is_not_recorded() -> None:
    """Some file systems have such times, and no entry with one could be read."""
    found = model.Rows([b"a"], [b"s3://b/a"], [1], [b"x"], [300_000_000_000])
    (second,) = model.check_paths(found, b"", model.Failures()).seconds
    assert datetime.fromtimestamp(second, UTC) == datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


def test_a_footer_that_arrow_cannot_decode_is_damage(
    repository: Repository, tmp_path: Path
) -> None:
    file = tmp_path / "x.parquet"
    footer = b"\x15\x02\x1f" + b"\xff" * 20
    file.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(IntegrityError, match=r"cannot read .*x\.parquet as parquet"):
        run(repository, file)


def test_missing_values_are_refused(repository: Repository, tmp_path: Path) -> None:
    found = [row_of("a", 1), row_of("b", 2) | {"checksum": None}]
    for source in (
        write_parquet(tmp_path / "x.parquet", found),
        write_json(tmp_path / "x.jsonl", found),
    ):
        with pytest.raises(IntegrityError, match="a value of column 'checksum' is missing"):
            run(repository, source)


ONE_RECORD = b"y" * (2 << 20)
HEADER = b"path,physical_address,size,checksum\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("x.jsonl", b'{"path": "' + ONE_RECORD, id="one line of JSON"),
        pytest.param("x.csv", ONE_RECORD, id="the line of names"),
        pytest.param("x.csv", HEADER + ONE_RECORD, id="one line of CSV"),
        pytest.param("x.csv", HEADER + b'"a\n",' * (1 << 18), id="one record in many lines"),
        pytest.param("x.csv", HEADER + b'"' + b"y\n" * (1 << 20), id="one value in many lines"),
    ],
)
def test_a_record_of_text_is_read_within_a_bound(
    repository: Repository, tmp_path: Path, name: str, text: bytes
) -> None:
    """What a small compressed file holds may be of any length."""
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text))
    with pytest.raises((IntegrityError, UsageError)) as caught:
        run(repository, tmp_path / f"{name}.gz")
    assert len(str(caught.value.message)) < 300


@pytest.mark.parametrize("column", ["path", "physical_address", "checksum", "content_type"])
def test_a_text_of_a_row_has_a_bound(repository: Repository, tmp_path: Path, column: str) -> None:
    row = row_of("a", 1) | {"content_type": "text/csv"}
    longest = "x" * MAX_TEXT_SIZE
    for found in (
        write_csv(tmp_path / "x.csv", [row | {column: longest + "x"}]),
        write_json(tmp_path / "x.jsonl", [row | {column: longest + "x"}]),
        write_parquet(tmp_path / "x.parquet", [row | {column: longest + "x"}]),
    ):
        with pytest.raises(IntegrityError, match=f"{column}.* has a text of 16,385 bytes"):
            run(repository, found)


def test_a_row_group_that_is_too_large_for_its_rows_is_not_read(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [row_of("a", 1) | {"checksum": "y" * (8 << 20)}]
    source = write_parquet(tmp_path / "x.parquet", found)
    monkeypatch.setattr(manifest_rows, "rows_of_parquet", None)
    with pytest.raises(IntegrityError, match=r"column 'checksum' of row group 0 has .* for 1 rows"):
        run(repository, source)


@pytest.mark.parametrize("column", ["path", "physical_address", "checksum", "content_type"])
def test_a_long_text_of_a_dictionary_is_not_repeated_for_each_row(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    """In a file of a few kilobytes it would take gigabytes."""
    longest = "x" * (4 * MAX_TEXT_SIZE)
    row = row_of("a", 1) | {"content_type": "text/csv", column: longest}
    source = write_parquet(tmp_path / "x.parquet", [row] * 64)
    monkeypatch.setattr(manifest_rows, "rows_of_parquet", None)
    with pytest.raises(IntegrityError, match=f"row group 0: .*{column}.* has a text of 65,536"):
        run(repository, source)


def test_texts_in_each_encoding_are_read(repository: Repository, tmp_path: Path) -> None:
    table = pa.Table.from_pylist([row_of("a", 1), row_of("b", 2)])
    for number, encoding in enumerate(("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN")):
        source = tmp_path / f"{number}.parquet"
        pq.write_table(table, source, use_dictionary=False, column_encoding={"path": encoding})
        assert run(repository, source, path=b"%d" % number).tally.added == 2


def test_a_nested_column_that_is_too_large_for_its_rows_is_not_read(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_parquet(tmp_path / "x.parquet", [row_of("a", 1) | {"path": ["y" * (8 << 20)]}])
    monkeypatch.setattr(manifest_rows, "rows_of_parquet", None)
    with pytest.raises(IntegrityError, match=r"column 'path.list.element' of row group 0 has"):
        run(repository, source)


@pytest.mark.parametrize("name", ["x.csv.gz", "x.parquet", "x.jsonl"])
def test_damage(repository: Repository, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"nothing of the kind")
    with pytest.raises((IntegrityError, UsageError)):
        run(repository, tmp_path / name)


@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_two_sources_for_one_path(
    repository: Repository, tmp_path: Path, write: Callable[..., Path]
) -> None:
    found = [*rows(), row_of(KEYS[3], 5), row_of(KEYS[3], 6), row_of(KEYS[9], NUMBERS[KEYS[9]])]
    suffix = "csv" if write is write_csv else "parquet"
    with pytest.raises(ConflictError, match="two sources for each of 2 paths") as caught:
        run(repository, write(tmp_path / f"x.{suffix}", found), path=b"p")
    assert set(caught.value.paths) == {b"p/" + KEYS[3].encode(), b"p/" + KEYS[9].encode()}
    assert contents(repository) == {}


def test_unreadable_addresses_fail(repository: Repository, tmp_path: Path) -> None:
    found = [
        row_of("0", 1) | {"physical_address": "\0local:///etc/passwd"},
        row_of("a", 1) | {"physical_address": "data/x"},
        row_of("b", 1) | {"physical_address": "ftp://host/x"},
        row_of("c", 1),
        row_of("d", -1),
        row_of("e" * 1_025, 1),
    ]
    report = run(repository, write_parquet(tmp_path / "x.parquet", found))
    assert report.failed == 5
    assert report.commit is None
    assert {failure.path[:1]: failure.why for failure in report.failures} == {
        b"0": "not a storage namespace: '\\x00local:///etc/passwd'",
        b"a": "its address is not a URI: 'data/x'",
        b"b": "unsupported scheme 'ftp' of a storage namespace: 'ftp://host/x'",
        b"d": "the size is negative",
        b"e": "the path has more than 1024 bytes",
    }
    assert contents(repository) == {}


@pytest.mark.parametrize("copies", [False, True])
def test_a_content_type_that_is_not_utf_8_fails(
    repository: Repository,
    tmp_path: Path,
    copies: bool,  # noqa: FBT001
) -> None:
    row = row_of("a", 1) | {"content_type": os.fsdecode(b"text/\xff")}
    report = run(repository, write_csv(tmp_path / "x.csv", [row]), copies=copies)
    assert [failure.why for failure in report.failures] == ["its content type is not UTF-8"]
    assert report.commit is None


@pytest.mark.parametrize("copies", [False, True])
def test_objects_of_the_repository_itself_are_refused(
    repository: Repository,
    tmp_path: Path,
    copies: bool,  # noqa: FBT001
) -> None:
    inside = repository.record.storage_namespace + "/data/ab/cd"
    found = [row_of("a", 1) | {"physical_address": inside}]
    with pytest.raises(Refused, match="own namespace"):
        run(repository, write_csv(tmp_path / "x.csv", found), copies=copies)


def test_a_manifest_of_unknown_format_is_refused(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("a")
    with pytest.raises(UsageError, match="does not tell its format"):
        run(repository, tmp_path / "list.txt", is_manifest=True)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no manifest at"):
        run(repository, tmp_path / "empty", is_manifest=True)


def test_a_directory_named_like_a_manifest(repository: Repository, tmp_path: Path) -> None:
    """Spark writes tables into directories whose name ends in .parquet."""
    source = write_directory(tmp_path / "table.parquet", rows())
    run(repository, source)
    assert b"part-00000.parquet" in contents(repository)


def inventory(directory: Path, found: list[dict[str, Any]], **fields: Any) -> Path:
    root = directory / "inventory"
    (root / "data").mkdir(parents=True)
    (root / "2026-03-01T01-00Z").mkdir()
    write_csv(root / "data/one.csv.gz", found[::2], header=False)
    write_csv(root / "data/two.csv.gz", found[1::2], header=False)
    keys = ["inventory/data/one.csv.gz", "inventory/data/two.csv.gz"]
    path = root / "2026-03-01T01-00Z/manifest.json"
    path.write_bytes(inventory_manifest(found, keys, **fields))
    return path


def test_an_inventory(repository: Repository, tmp_path: Path) -> None:
    found = [
        inventory_row("a+b/%C3%A9%2Bx", 3),
        inventory_row("old", 4, IsLatest="false"),
        inventory_row("gone", 5, IsDeleteMarker="true", Size="", ETag=""),
        inventory_row("plain", 6),
    ]
    report = run(repository, inventory(tmp_path, found))
    assert report.tally.objects == 2
    entry = decode_entry(contents(repository)["a b/é+x".encode()])
    assert entry.physical_address == "s3://source/a b/é+x"
    assert entry.checksum == "etag-3"
    assert b"plain" in contents(repository)


def test_an_inventory_in_parquet(repository: Repository, tmp_path: Path) -> None:
    found = [
        {
            "bucket": "source",
            "key": "a+%41",
            "is_latest": True,
            "is_delete_marker": False,
            "size": 7,
            "last_modified_date": 1_700_000_000_000,
            "e_tag": "e",
        },
        {"bucket": "source", "key": "z", "is_latest": True, "is_delete_marker": True},
    ]
    found += [{**found[0], "is_latest": False}] * ROWS_AT_ONCE  # no row of a batch is wanted
    root = tmp_path / "inventory"
    (root / "data").mkdir(parents=True)
    (root / "2026").mkdir()
    write_parquet(root / "data/x.parquet", found, kinds={"last_modified_date": pa.timestamp("ms")})
    schema = (
        "message s3.inventory { required binary bucket (STRING); required binary key (STRING); "
        "optional boolean is_latest; optional boolean is_delete_marker; optional int64 size; "
        "optional int64 last_modified_date (TIMESTAMP_MILLIS); optional binary e_tag (STRING);}"
    )
    manifest_file = root / "2026/manifest.json"
    manifest_file.write_bytes(
        inventory_manifest(
            found, ["inventory/data/x.parquet"], fileFormat="Parquet", fileSchema=schema
        )
    )
    run(repository, manifest_file)
    entry = decode_entry(contents(repository)[b"a+%41"])
    assert entry.size == 7
    assert entry.modified_at.timestamp() == 1_700_000_000
    assert len(contents(repository)) == 1


def test_unusable_inventories_are_refused(repository: Repository, tmp_path: Path) -> None:
    found = [inventory_row("a", 1), inventory_row("b", 1)]
    path = inventory(tmp_path, found, fileFormat="ORC")
    with pytest.raises(Unsupported, match="an inventory in ORC"):
        run(repository, path)
    path.write_bytes(inventory_manifest([{"Bucket": "b", "Key": "k"}], []))
    with pytest.raises(UsageError, match="lacks the field Size and the field ETag"):
        run(repository, path)
    path.write_bytes(b'{"files": []}')
    with pytest.raises(IntegrityError, match="is not the manifest of an S3 Inventory"):
        run(repository, path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("fileSchema", 5),
        ("fileSchema", ["Bucket"]),
        ("fileSchema", None),
        ("fileFormat", {}),
        ("destinationBucket", 7),
        ("files", {"key": "x"}),
        ("files", ["x"]),
        ("files", [{"key": 1, "size": 1, "MD5checksum": "0"}]),
        ("files", [{"key": "x", "size": -1, "MD5checksum": "0"}]),
        ("files", [{"key": "x", "size": 1, "MD5checksum": None}]),
    ],
)
def test_a_field_of_another_type_makes_no_inventory(
    repository: Repository, tmp_path: Path, field: str, value: object
) -> None:
    found = [inventory_row("a", 1), inventory_row("b", 1)]
    path = inventory(tmp_path, found, **{field: value})
    with pytest.raises(IntegrityError, match=f"manifest of an S3 Inventory: {field}"):
        run(repository, path)


def test_empty_manifests(repository: Repository, tmp_path: Path) -> None:
    run(repository, write_csv(tmp_path / "x.csv", rows()), path=b"p")
    (tmp_path / "none.csv").write_text("path,uri,size,etag\n")
    assert run(repository, tmp_path / "none.csv", path=b"p").tally.removed == len(KEYS)
    path = inventory(tmp_path, [inventory_row("a", 1), inventory_row("b", 1)])
    run(repository, path)
    path.write_bytes(inventory_manifest([inventory_row("a", 1)], []))
    assert run(repository, path).tally.removed == 2
    assert contents(repository) == {}


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("replaces", [False, True])
def test_a_preview_lists_what_would_be_done(
    repository: Repository, tmp_path: Path, *, shuffled: bool, replaces: bool
) -> None:
    run(repository, write_csv(tmp_path / "all.csv", rows()), path=b"p")
    some = [row for number, row in enumerate(rows(shuffled=shuffled)) if number % 3]
    some[0]["checksum"] = "another"
    some.append({**some[1], "path": "zz", "size": 7})  # sorts last
    opened = open_source(
        repository, str(write_csv(tmp_path / "x.csv", some)), links=LinkPolicy.FAIL
    )
    options = ImportOptions(verify=Verify.NONE, replaces=replaces)
    where = (repository, "main", b"p")
    runner = LocalRunner(parallelism=2)
    with preview(*where, source=opened, runner=runner, options=options) as (report, steps):
        assert steps is not None
        listed = list(steps)
    tally = report.tally
    assert [each.path for each in listed] == sorted(each.path for each in listed)
    counts = Counter(each.action for each in listed)
    assert counts[PathAction.NEW] == tally.added == 1
    assert counts[PathAction.CHANGED] == tally.changed == 1
    assert counts[PathAction.UNCHANGED] == tally.unchanged
    assert counts[PathAction.DELETED] == tally.removed == (len(KEYS) - len(some) + 1) * replaces
    assert next(each.size for each in listed if each.path == b"p/zz") == 7


def test_a_preview_writes_nothing(repository: Repository, tmp_path: Path) -> None:
    source = write_csv(tmp_path / "x.csv", rows(shuffled=True))
    namespace = Path(repository.record.storage_namespace.removeprefix("local://"))
    before = sorted(namespace.rglob("*"))
    opened = open_source(repository, str(source), links=LinkPolicy.FAIL)
    with preview(
        repository,
        "main",
        b"p",
        source=opened,
        runner=LocalRunner(),
        options=ImportOptions(verify=Verify.NONE),
    ) as (report, steps):
        assert report.tally.added == len(KEYS)
        assert steps is not None
        assert [(each.action, each.path) for each in steps] == [
            (PathAction.NEW, f"p/{key}".encode()) for key in sorted(KEYS, key=str.encode)
        ]
    assert sorted(namespace.rglob("*")) == before
    assert not list((Path(repository.lake.home.cache) / "imports").iterdir())


WITHOUT_ARROW = ("pyarrow", "numpy", "pandas", "pyspark")


def _block(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in WITHOUT_ARROW:
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize(
    "name", ["x.csv", "x.csv.gz", "x.jsonl", "x.jsonl.gz", "inventory", "types.csv"]
)
def test_without_arrow_the_tree_is_the_same(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if name == "inventory":
        found = [inventory_row(f"dir/a%20{n:04d}+b", n) for n in range(500)]
        found[7]["IsLatest"] = "false"
        path = inventory(tmp_path, found)
    elif name == "types.csv":
        kinds = [{**row, "content_type": "x/y", "checksum": '"quoted"'} for row in rows()]
        path = write_csv(tmp_path / name, kinds)
    else:
        write = write_csv if ".csv" in name else write_json
        path = write(tmp_path / name, rows(shuffled=True))
    first = run(repository, path, path=b"with")
    _block(monkeypatch)
    second = run(repository, path, path=b"without")
    assert second.tally.objects == first.tally.objects > 400
    everything = contents(repository)
    assert len(everything) == 2 * first.tally.objects
    for key, value in everything.items():
        if key.startswith(b"with/"):
            assert everything[b"without/" + key.removeprefix(b"with/")] == value


def test_parquet_without_arrow(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_parquet(tmp_path / "x.parquet", rows())
    _block(monkeypatch)
    with pytest.raises(Unsupported, match="needs pyarrow") as refused:
        run(repository, path)
    assert "[spark]" in (refused.value.hint or "")


@pytest.mark.parametrize(
    "row", ["a,s3://b/k,many,e", "a,s3://b/k,1", "a,s3://b/k,99999999999999999999,e", 'a,"b']
)
def test_bad_values_without_arrow(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: str
) -> None:
    (tmp_path / "x.csv").write_text(f"path,uri,size,etag\n{row}\n")
    _block(monkeypatch)
    with pytest.raises(IntegrityError):
        run(repository, tmp_path / "x.csv")


def test_the_command_works_without_arrow(repository: Repository, tmp_path: Path) -> None:
    write_csv(tmp_path / "x.csv", rows())
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({WITHOUT_ARROW!r}))\n"
        "from lakecli.cli.app import main; sys.exit(main())"
    )
    home = {"LAKECLI_HOME": str(tmp_path)}
    arguments = (
        "import",
        "--from",
        str(tmp_path / "x.csv"),
        "--to",
        "lakefs://demo/main/",
        "--verify=none",
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **home},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(contents(repository)) == len(KEYS)


@pytest.mark.parametrize("form", ["csv", "jsonl", "csv.gz", "parquet"])
def test_portions_of_a_cluster_have_all_rows_once(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    rows = [row_of(key, NUMBERS[key]) for key in KEYS]
    write = {"csv": write_csv, "gz": write_csv, "jsonl": write_json, "parquet": write_parquet}
    (tmp_path / "m").mkdir()
    for number, start in enumerate(range(0, len(rows), 100)):
        path = tmp_path / f"m/{number:02}.{form}"
        write[form.rpartition(".")[2]](path, rows[start : start + 100])
    source = open_source(repository, str(tmp_path / "m"), is_manifest=True, links=LinkPolicy.FAIL)
    assert isinstance(source, manifest.Manifest)
    runner = LocalRunner()
    portions = sorting.portions_of(source)
    assert sorting.LEAST_TASKS <= len(portions) < len(source.files)
    pieces = [piece for portion in portions for piece in portion.pieces]
    assert [key.decode() for piece in pieces for rows in piece.rows(0) for key in rows.keys] == KEYS
    assert [key.decode() for piece in pieces for keys in piece.iter_keys() for key in keys] == KEYS

    def plan() -> list[ImportPart]:
        bounds = sorting.find_bounds(runner, source, portions, kept=tmp_path / "kept")
        return list(sorting.intervals_of(source, bounds, b"p/", b"p0"))

    parts = plan()
    assert len(parts) == sorting.LEAST_TASKS
    assert (parts[0].low, parts[-1].high) == (b"p/", b"p0")
    assert all(part.high == following.low for part, following in pairwise(parts))
    monkeypatch.setattr(runner, "run", None)  # after a restart, nothing is read
    assert plan() == parts


@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_a_manifest_that_is_replaced_meanwhile_is_not_imported(
    repository: Repository, tmp_path: Path, write: Callable[..., Path]
) -> None:
    file = tmp_path / ("x.csv" if write is write_csv else "x.parquet")
    source = open_source(repository, str(write(file, rows())), links=LinkPolicy.FAIL)
    assert isinstance(source, manifest.Manifest)
    source.estimate()
    write(file, rows()[:2_000])
    for piece, _ in source.pieces():
        with pytest.raises(IntegrityError, match="changed while it was read"):
            list(piece.rows(0))


def test_footers_are_read_once(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m").mkdir()
    for number in range(3):
        write_parquet(tmp_path / f"m/{number}.parquet", [row_of(f"{number}", 1)])
    source = open_source(repository, str(tmp_path / "m"), is_manifest=True, links=LinkPolicy.FAIL)
    assert isinstance(source, manifest.Manifest)
    opened: list[str] = []
    opened_file = manifest.opened

    def noted(file: ManifestFile) -> AbstractContextManager[BinaryIO]:
        opened.append(file.uri)
        return opened_file(file)

    monkeypatch.setattr(manifest, "opened", noted)
    assert source.estimate() == 3
    assert len(source.pieces()) == 3
    assert len(opened) == len(set(opened)) == 3


@pytest.mark.parametrize(("form", "expected"), [("x.parquet", [(3_000, 0)]), ("x.csv", [])])
def test_progress_has_a_total_where_it_is_known(
    repository: Repository, tmp_path: Path, form: str, expected: list[tuple[int, int]]
) -> None:
    write = write_parquet if form.endswith("parquet") else write_csv
    source = write(tmp_path / form, [row_of(key, NUMBERS[key]) for key in sorted(KEYS)])
    progress = RecordedProgress()
    run(repository, source, progress=progress)
    assert progress.expected == expected
    assert (progress.items, progress.size) == (3_000, 0)
    assert 0 < progress.parts == progress.parts_expected


@pytest.mark.parametrize("pages", [1, 10])
def test_a_disk_without_space_for_sorting_is_reported(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: int
) -> None:
    source = write_csv(tmp_path / "x.csv", rows(shuffled=True))
    limit_databases(monkeypatch, pages=pages)
    with pytest.raises(Unreachable, match="/rows or its temporary files: database or disk is full"):
        run(repository, source)


def test_sorted_rows_that_cannot_be_read_are_reported(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_csv(tmp_path / "x.csv", rows(shuffled=True))
    monkeypatch.setattr(sorting, "_SELECT", "SELECT * FROM gone WHERE ? < ?")
    with pytest.raises(Unreachable, match="/rows or its temporary files: no such table: gone"):
        run(repository, source)

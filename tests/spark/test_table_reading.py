from __future__ import annotations

import gzip
import pickle
import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError

from lakecli.base.identity import blake3_of
from lakecli.base.model import Entry
from lakecli.committed.values import encode_entry
from lakecli.engine.object_reader import TableFile, read_piece
from lakecli.engine.runner import StoreLocation
from lakecli.errors import IntegrityError, NotFound, Unsupported, UsageError
from lakecli.repository.commit import commit
from lakecli.repository.reading.addresses import OutsideAddress, remember
from lakecli.repository.reading.recorded import Recorded
from lakecli.repository.rm import rm_trees
from lakecli.repository.staged.stager import Stager
from lakecli.repository.upload import UploadOptions
from lakecli.repository.upload_tree import upload_tree
from lakecli.spark import read_table
from lakecli.spark.file_system import place_of
from lakecli.spark.table_files import read_footer
from lakecli.spark.table_reading import _listed_by_the_driver
from lakecli.stores.uri import is_local
from tests.support.lakes import unclaimed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from lakecli.repository.contract import Repository

    Read = Callable[..., Any]

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]

URI = "lakefs://demo/main/t"


def test_readings_at_the_same_time_restore_the_setting_of_the_session() -> None:
    settings = {"spark.sql.sources.parallelPartitionDiscovery.threshold": 32}
    session = Mock(conf=Mock(get=settings.get, set=settings.__setitem__))
    first, second = (_listed_by_the_driver(session) for _ in range(2))

    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert list(settings.values()) == [1 << 30]  # the second reading still needs it
    second.__exit__(None, None, None)
    assert list(map(int, settings.values())) == [32]


@pytest.fixture(scope="module")
def partitioned(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parquet that Spark wrote itself, in 120 directories of three partition columns."""
    path = tmp_path_factory.mktemp("written") / "t"
    frame = spark.range(240).selectExpr(
        "id",
        "cast(id as string) as text",
        "cast(id / 7 as decimal(10, 3)) as price",
        "timestamp'2026-01-01 00:00:00' + make_interval(0, 0, 0, 0, id) as at",
        "named_struct('a', id, 'b', array(id)) as nested",
        "cast(id % 120 as int) as n",
        "date'2026-01-01' + cast(id % 2 as int) as day",
        "case id % 4 when 0 then null when 1 then 'a/b=c' when 2 then 'ü %' else '1' end as kind",
    )
    frame.coalesce(1).write.partitionBy("n", "day", "kind").parquet(str(path))
    return path


@pytest.fixture
def table(spark: Any, home: Path) -> Read:
    """`read_table` of the table at a ref."""

    def read(uri: str = URI, **options: Any) -> Any:
        return read_table(spark, uri, home=home, **options)

    return read


def keep(repository: Repository, source: Path) -> None:
    report = upload_tree(repository, "main", b"t", source=source, options=UploadOptions())
    assert not report.failures
    commit(repository, "main", message="Table", committer="test")


def lay(root: Path, files: Mapping[str, bytes | str]) -> Path:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    return root


def rows(frame: Any) -> list[str]:
    return sorted(map(str, frame.collect()))


def same(found: Any, expected: Any) -> bool:
    assert found.schema.simpleString() == expected.schema.simpleString()
    assert rows(found) == rows(expected)
    return True


def test_parquet_in_many_partitions(
    anywhere: Repository, partitioned: Path, table: Read, spark: Any
) -> None:
    assert len(list(partitioned.glob("*/*/*/"))) >= 100
    keep(anywhere, partitioned)
    expected = spark.read.parquet(str(partitioned))
    found = table()
    assert same(found, expected)
    assert dict(found.dtypes)["day"] == "date"

    condition = "n = 4 and kind is null"
    chosen = table(where=condition, columns=["id", "kind"])
    assert same(chosen, expected.where(condition).select("id", "kind"))
    both = "n < 5 and id > 100"
    assert same(table(where=both), expected.where(both))

    # What comes later is not seen, and every ref has its own.
    rm_trees(anywhere, "main", [b"t/n=1"])
    assert table().count() == 238
    assert found.count() == table("lakefs://demo/main@/t/").count() == 240


def test_same_bytes_in_two_partitions(anywhere: Repository, table: Read, tmp_path: Path) -> None:
    keep(anywhere, lay(tmp_path / "t", {"d=1/f.csv": "x\n", "d=2/f.csv": "x\n"}))
    assert sorted(map(tuple, table(format="csv").collect())) == [("x", 1), ("x", 2)]


CSV: dict[str, bytes | str] = {
    "y=2026/m=1/a.csv": 'id,name,at\n1,ann,2026-01-01\n2,"b, c",\n\n',
    "y=2026/m=__HIVE_DEFAULT_PARTITION__/a.csv": "\ufeffid,name,at\r\n3,,2026-01-02\r\n",
    "y=2025/m=2/b.csv.gz": gzip.compress(b"id,name,at\n4.5,d,x\n"),
    "y=2025/m=2/_hidden.csv": "no\n",
    "y=2025/m=2/.hidden": "no\n",
    "_SUCCESS": "",
}
JSON: dict[str, bytes | str] = {
    "k=a b/1.json": '{"id": 1, "deep": {"x": [1, 2]}}\n{"id": 2}\n',
    "k=0x/2.json": '{"id": 3.5, "more": "ü"}\n\n{broken\n',
}


NOTES: dict[str, bytes | str] = {"a.csv": "#note\nid,a\n1,x\n#mid\n2,y,z\n", "b.csv": "id,a\n3\n"}
DEFLATED = zlib.compress(b'{"a": 4, "c": 1}\n')


TEXTS: tuple[tuple[str, Mapping[str, bytes | str], Mapping[str, Any]], ...] = (
    ("csv", NOTES, {"comment": "#"}),
    ("csv", NOTES, {"comment": "#", "header": True, "inferSchema": True}),
    ("csv", NOTES, {"mode": "DROPMALFORMED", "header": True}),
    ("csv", {"a": '"3\n4",5\r6'}, {"multiLine": True, "inferSchema": True}),
    ("csv", {"a": "id;1\n".encode("utf-16"), "b": b"\xff"}, {"encoding": "UTF-16"}),
    ("csv", {"a": "id,1|2,3|", "b": "x"}, {"lineSep": "|"}),
    ("csv", {"a.csv": "1\n", "b.txt": "x\n"}, {"pathGlobFilter": "*.csv"}),
    ("csv", {"a.csv": "1\n", "deep/b": "2\n"}, {"recursiveFileLookup": True}),
    ("csv", {"a": "1\n", "b": "2\n"}, {"modifiedAfter": "2020-01-01T00:00:00"}),
    ("csv", {"a[1].csv": "1\n", "b{*}": "2\n", "d e%20": "3\n", "é\\": "4\n"}, {}),
    ("json", {"a": '[{"a":1},\n{"a":2}]', "b": '{"a": 3}'}, {"multiLine": True}),
    ("json", {"a": '[{"a":1},{"a":2}]\n{"b":[1]}\n', "b.deflate": DEFLATED}, {}),
    ("json", JSON, {"mode": "DROPMALFORMED"}),
    ("csv", CSV, {"header": True, "inferSchema": True}),
    ("csv", CSV, {"header": True}),
    ("csv", {"a.csv": "1;x\n2;y\n"}, {"sep": ";"}),
    ("json", JSON, {}),
)


def test_text_reads_as_spark_reads_a_directory(
    anywhere: Repository, table: Read, spark: Any, tmp_path: Path
) -> None:
    source = tmp_path / "t"
    for number, (_, files, _) in enumerate(TEXTS):
        lay(source / str(number), files)
    keep(anywhere, source)
    for number, (kind, files, options) in enumerate(TEXTS):
        expected = spark.read.format(kind).options(**options).load(str(source / str(number)))
        found = table(f"{URI}/{number}", format=kind, options=options)
        assert same(found, expected), (files, options)


def test_a_given_schema_is_used(
    anywhere: Repository, table: Read, spark: Any, tmp_path: Path
) -> None:
    source = lay(tmp_path / "t", {"y=1/a.csv": "1,2\nx,3\n"})
    keep(anywhere, source)
    schema = "a INT, b STRING, c DATE, y STRING"
    expected = spark.read.schema(schema).csv(str(source))
    assert same(table(format="csv", schema=schema), expected)
    assert same(
        table("lakefs://demo/main/t/y=1/a.csv", format="csv", schema="a STRING"),
        spark.read.schema("a STRING").csv(str(source / "y=1" / "a.csv")),
    )


def test_parquet_files_with_different_schemas(
    anywhere: Repository, table: Read, spark: Any, tmp_path: Path
) -> None:
    source = tmp_path / "t"
    spark.range(3).selectExpr("id", "'x' as a").coalesce(1).write.parquet(str(source / "p=1"))
    spark.range(3).selectExpr("id", "2 as B").coalesce(1).write.parquet(str(source / "p=2"))
    keep(anywhere, source)
    merged = spark.read.option("mergeSchema", "true").parquet(str(source))
    assert same(table(options={"mergeSchema": True}), merged)
    assert same(table(), spark.read.parquet(str(source)))


def test_paths_that_are_not_tables_are_refused(
    anywhere: Repository, table: Read, tmp_path: Path
) -> None:
    names = ["a.csv", "h/_y", "b=1/c=2/d", "b=1/e", "deep/er/a"]
    keep(anywhere, lay(tmp_path / "t", dict.fromkeys(names, "x\n")))
    for uri, message in {
        "lakefs://demo/main/nope": "no object at lakefs://demo/main/nope",
        "lakefs://demo/nope/t": "no branch or tag 'nope'",
        f"{URI}/h": "nothing to read at lakefs://demo/main/t/h",
    }.items():
        with pytest.raises(NotFound, match=message):
            table(uri)
    for uri, kind, message in [
        (URI, "orc", "unknown format 'orc'"),
        (f"{URI}/a.csv", "parquet", r"Spark cannot read (lakefs://demo/main/t/)?a\.csv"),
        (f"{URI}/deep", "json", "lakefs://demo/main/t/deep: .*Unable to infer schema for JSON"),
        (URI, "csv", r"Spark cannot read lakefs://demo/main/t: .*Conflicting directory"),
    ]:
        with pytest.raises(UsageError, match=message) as refused:
            table(uri, format=kind)
        assert refused.value.hint


def test_a_directory_above_the_table_is_refused(
    repository: Repository, table: Read, tmp_path: Path
) -> None:
    keep(repository, lay(tmp_path / "t", {"a.json": "[1]\n"}))
    with pytest.raises(Unsupported, match="option basePath does not work"):
        table(format="json", options={"basePath": str(tmp_path)})


def test_addresses_that_are_not_allowed_are_refused(
    anywhere: Repository, tmp_path: Path, table: Read
) -> None:
    lay(tmp_path, {"outside/secret": "canary\n", "t/a": "1\n"})
    keep(anywhere, tmp_path / "t")
    outside = f"local://{tmp_path}/outside"
    digest = blake3_of(b"canary\n").hex()
    entry = Entry(f"{outside}/secret", 7, digest, datetime(2026, 1, 1, tzinfo=UTC))
    Stager(anywhere, "main").write(unclaimed([(b"t/secret", encode_entry(entry))]), kind="test")
    with pytest.raises(OutsideAddress) as refused:
        rows(table(format="csv"))
    assert "canary" not in refused.value.message
    remember(anywhere, [outside])
    if is_local(anywhere.store.uri):
        assert "canary" in str(rows(table(format="csv")))
    else:
        with pytest.raises(OutsideAddress, match="never followed"):
            rows(table(format="csv"))


def test_executors_get_the_allowed_places(anywhere: Repository) -> None:
    remember(anywhere, ["s3://allowed"])
    location = pickle.loads(pickle.dumps(StoreLocation.of(anywhere)))
    assert location.addresses().locate("s3://allowed/x")[1] == "x"
    for address in ("s3://other/x", "gs://allowed/x", "local:///etc/passwd", "file:///etc/passwd"):
        with pytest.raises(OutsideAddress):
            read_piece(location, TableFile("x", Recorded(address, 1, "", None)), 0, 1)
        with pytest.raises(OutsideAddress):
            read_footer(location, TableFile("x", Recorded(address, 1, "", None)))


def _clustered(path: Path) -> None:
    """Write a table with ten row groups of 100 rows in each of its two files."""
    for kind in (1, 2):
        (path / f"kind={kind}").mkdir(parents=True)
        ids = range(kind * 1_000, kind * 1_000 + 1_000)
        columns = {
            "id": pa.array(ids, pa.int64()),
            "name": [str(number) for number in ids],
            "at": pa.array([number * 1_000_000 for number in ids], pa.timestamp("us", tz="UTC")),
            "more": [number / 2 for number in ids],
        }
        pq.write_table(pa.table(columns), path / f"kind={kind}" / "f.parquet", row_group_size=100)


def test_spark_reads_the_objects_itself(
    repository: Repository, table: Read, spark: Any, tmp_path: Path
) -> None:
    source = tmp_path / "t"
    _clustered(source)
    (source / "kind=__HIVE_DEFAULT_PARTITION__").mkdir()
    for again in ("kind=2/again", "kind=__HIVE_DEFAULT_PARTITION__/f"):
        (source / again).write_bytes((source / "kind=2" / "f.parquet").read_bytes())
    keep(repository, source)
    # An object that was imported where it is, by a name that has to be escaped.
    outside = tmp_path / "raw = 1%20"
    outside.mkdir()
    odd = outside / "a b+%3A.parquet"
    odd.write_bytes((source / "kind=1" / "f.parquet").read_bytes())
    digest = blake3_of(odd.read_bytes()).hex()
    entry = Entry(f"local://{odd}", odd.stat().st_size, digest, datetime(2026, 1, 1, tzinfo=UTC))
    Stager(repository, "main").write(
        unclaimed([(b"t/kind=3/odd.parquet", encode_entry(entry))]), kind="test"
    )
    remember(repository, [f"local://{outside}"])
    expected = table()
    assert expected.count() == 5_000
    found = table(native=True)
    assert len({each.rpartition("/")[0] for each in found.inputFiles()}) == 4
    assert same(found, expected)
    where = "id >= 1900 and (kind = 2 or kind is null)"
    assert same(
        table(native=True, where=where, columns=["name"]), table(where=where, columns=["name"])
    )
    assert table(native=True, where="kind = 9").count() == 0
    alone = "lakefs://demo/main/t/kind=2"
    assert same(table(alone, native=True), table(alone)), "one object under two names"


@pytest.mark.parametrize("native", [True, False])
def test_a_file_that_changed_at_its_source_is_not_read(
    repository: Repository, table: Read, tmp_path: Path, *, native: bool
) -> None:
    source = lay(tmp_path / "source", {"a.csv": "1,2\n"})
    entry = Entry(
        f"local://{source}/a.csv", 4, blake3_of(b"1,2\n").hex(), datetime(2026, 1, 1, tzinfo=UTC)
    )
    Stager(repository, "main").write(unclaimed([(b"t/a.csv", encode_entry(entry))]), kind="test")
    remember(repository, [f"local://{source}"])
    options = {"format": "csv", "schema": "a int, b int", "native": native}
    planned = table(**options)
    assert rows(planned) == ["Row(a=1, b=2)"]
    (source / "a.csv").write_text("9,9\n")
    with pytest.raises((IntegrityError, Py4JJavaError), match="changed since it was recorded"):
        table(**options).collect()
    if not native:  # Spark itself compares nothing while it reads
        with pytest.raises(Py4JJavaError, match="changed since it was recorded"):
            planned.collect()


def test_what_spark_cannot_read_itself_is_refused(
    in_bucket: Repository, table: Read, tmp_path: Path
) -> None:
    _clustered(tmp_path / "t")
    keep(in_bucket, tmp_path / "t")
    with pytest.raises(Unsupported, match="no connector for s3a://") as refused:
        table(native=True)
    assert "org.apache.hadoop:hadoop-aws:3" in str(refused.value.hint)


@pytest.mark.parametrize("name", ["é", "a//b", "a/", "/a", "a/./b", "a/../b", "a\n"])
def test_names_that_hadoop_changes_are_refused(repository: Repository, name: str) -> None:
    remember(repository, ["s3://allowed"])
    with pytest.raises(Unsupported, match="cannot read an object by its address"):
        place_of(repository, TableFile("f", Recorded(f"s3://allowed/{name}", 1, "", None)))
    fine = TableFile("f", Recorded("s3://allowed/day=a%20b/f 1.parquet", 1, "", None))
    assert place_of(repository, fine) == ("s3", "allowed/day=a%20b/f 1.parquet")

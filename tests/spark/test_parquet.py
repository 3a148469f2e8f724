"""Parquet in parts: each row group is read once, and only where it can have wanted rows."""

from __future__ import annotations

import os
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from math import inf, nan
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import TaskContext
from pyspark.sql.datasource import EqualTo, GreaterThan, In, IsNull, LessThan, Not
from pyspark.sql.types import (
    DateType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from lakecli.errors import NotFound, PermissionDenied
from lakecli.pipeline.store_location import StoreLocation
from lakecli.spark import conditions, tasks
from lakecli.spark.conditions import Bounds, Condition, can_match, conditions_of, of_value
from lakecli.spark.fetch import DIRECTORY, ObjectFile, Remote, serialised
from lakecli.spark.parquet import parquet_batches, wanted_groups
from lakecli.spark.source_table import FilteringTableReader, Table, TableReader
from lakecli.spark.tasks import Reader, parts_of, tasks_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import DataType

SCHEMA = pa.schema([("id", pa.int64()), (DIRECTORY, pa.int32())])
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    conditions.EQUAL: lambda left, right: left == right,
    conditions.LESS: lambda left, right: left < right,
    conditions.AT_MOST: lambda left, right: left <= right,
    conditions.GREATER: lambda left, right: left > right,
    conditions.AT_LEAST: lambda left, right: left >= right,
    conditions.STARTS: str.startswith,
}


def _write(path: Path, rows: int = 1_000, group: int = 100, **options: Any) -> Remote:
    table = pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "Name": [f"{number:06d}" for number in range(rows)],
            "at": pa.array([None if number < rows // 2 else number for number in range(rows)]),
        }
    )
    pq.write_table(table, path / "f.parquet", row_group_size=group, **options)
    return Remote("f.parquet", "f.parquet", (path / "f.parquet").stat().st_size, 7)


def _location(path: Path) -> StoreLocation:
    return StoreLocation(f"local://{path}", "", 16)


def _columns(**kinds: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


def _ids(location: StoreLocation, file: Remote, *given: Condition) -> list[int]:
    batches = parquet_batches(ObjectFile(location, file), file, SCHEMA, given)
    return [number for batch in batches for number in batch.column(0).to_pylist()]


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}], ids=["dictionary", "plain"])
def test_the_parts_of_a_file_have_all_rows_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    file = _write(tmp_path, **options)
    for size in (file.size // 3, file.size // 30, 1_000_000_000):
        monkeypatch.setattr(tasks, "TASK_SIZE", size)
        parts = parts_of(file)
        assert len(parts) == -(-file.size // size)
        read = [_ids(_location(tmp_path), part) for part in parts]
        assert [number for each in read for number in each] == list(range(1_000))
        if size == file.size // 3:
            assert max(map(len, read)) <= 600, "no task has all"


def test_large_files_become_several_tasks() -> None:
    size = tasks.TASK_SIZE
    files = [Remote("a", "a", 10, 0), Remote("b", "b", 5 * size + 1, 0), Remote("c", "c", 10, 0)]
    split = list(tasks_of(files, splits=True))
    assert len(split) == 6
    assert max(len(task) for task in split) == 2
    assert list(tasks_of(files, splits=False)) == [[files[0]], [files[1]], [files[2]]]


def test_row_groups_that_cannot_match_are_not_read(tmp_path: Path) -> None:
    file = _write(tmp_path)
    metadata = pq.read_metadata(tmp_path / "f.parquet")

    def groups(*given: tuple[str, str, Any]) -> list[int]:
        wanted = [
            Condition(column, operator, tuple(value) if isinstance(value, list) else (value,))
            for column, operator, value in given
        ]
        return wanted_groups(metadata, file, wanted)

    assert groups() == list(range(10))
    assert groups(("id", "EqualTo", 250)) == [2]
    assert groups(("id", "In", [5, 950, 2_000])) == [0, 9]
    assert groups(("id", "GreaterThan", 799), ("id", "LessThan", 900)) == [8]
    assert groups(("name", "StringStartsWith", "0003")) == [3]
    assert groups(("at", "IsNull", None)) == [0, 1, 2, 3, 4]
    assert groups(("at", "IsNotNull", None)) == [5, 6, 7, 8, 9]
    assert groups(("at", "EqualTo", 20)) == [], "these are null"
    assert groups(("id", "EqualTo", "250"), ("more", "EqualTo", 1)) == list(range(10))
    assert _ids(_location(tmp_path), file, Condition("id", "LessThan", (100,))) == list(range(100))


def test_a_file_without_statistics_is_read_whole(tmp_path: Path) -> None:
    file = _write(tmp_path, write_statistics=False)
    assert len(_ids(_location(tmp_path), file, Condition("id", "EqualTo", (5_000,)))) == 1_000


def test_statistics_that_are_not_utf_8_tell_nothing(tmp_path: Path) -> None:
    texts = pa.array([b"\xff\xfe", b"\xff"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"id": [1, 2], "name": texts}), tmp_path / "f.parquet")
    file = Remote("f.parquet", "f.parquet", (tmp_path / "f.parquet").stat().st_size, 0)
    with pytest.raises(UnicodeDecodeError):
        _ = pq.read_metadata(tmp_path / "f.parquet").row_group(0).column(1).statistics.min
    assert _ids(_location(tmp_path), file, Condition("name", "EqualTo", ("x",))) == [1, 2]
    assert _ids(_location(tmp_path), file, Condition("name", "IsNull", ())) == []


def test_errors_of_tasks_have_no_traceback_and_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionDenied("no credentials for S3", hint="set AWS_PROFILE")

    reader = Reader(
        _location(tmp_path),
        [[Remote("f.parquet", "data/aa/bb", 100, 0)]],
        format="parquet",
        schema=serialised(pa.schema([(DIRECTORY, pa.int32())])),
        skip=False,
        conditions=[],
    )
    for context, error, hint in (
        (None, NotFound, "fsck"),
        (None, PermissionDenied, "set AWS_PROFILE"),
        (object(), PermissionDenied, r"spark\.executorEnv\.AWS"),
    ):
        monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
        monkeypatch.setattr(TaskContext, "get", partial(_same, context))
        if error is PermissionDenied:
            monkeypatch.setattr(tasks, "fetched", refuse)
        with pytest.raises(error) as caught:
            list(reader(iter([pa.record_batch({"id": [0]})])))
        assert re.match(f"hint: .*{hint}", caught.value.__notes__[0])
        assert os.environ["SPARK_HIDE_TRACEBACK"] == "1"


def _same(value: Any) -> Any:
    return value


def test_the_reader_of_tasks_takes_conditions(tmp_path: Path) -> None:
    file = _write(tmp_path)
    reader = Reader(
        _location(tmp_path),
        [parts_of(file)],
        format="parquet",
        schema=serialised(pa.schema([(DIRECTORY, pa.int32())])),
        skip=False,
        conditions=[Condition("id", "GreaterThan", (849,))],
    )
    found = list(reader(iter([pa.record_batch({"id": [0]})])))
    assert sum(map(len, found)) == 200, "rows are counted without a column"
    assert found[0].column(0)[0].as_py() == 7


@given(
    st.sampled_from(sorted(OPERATORS)),
    st.one_of(
        st.lists(st.integers(-9, 9), min_size=2),
        st.lists(st.text("ab", max_size=3), min_size=2),
        st.lists(st.sampled_from([-inf, -1.5, -0.0, 0.0, 2.5, inf]), min_size=2),
        st.lists(st.dates(date(2026, 1, 1), date(2026, 1, 9)), min_size=2),
    ),
)
def test_rows_that_match_are_never_left_out(operator: str, values: list[Any]) -> None:
    wanted, *present = values
    if operator == conditions.STARTS and not isinstance(wanted, str):
        return
    matches = any(OPERATORS[operator](each, wanted) for each in present)
    bounds = Bounds(min(present), max(present), has_nulls=False, has_values=True)
    assert can_match(Condition("x", operator, (wanted,)), bounds) or not matches


def test_values_that_do_not_compare_for_certain_match() -> None:
    bounds = Bounds(1.0, 2.0, has_nulls=False, has_values=True)
    assert can_match(Condition("x", "GreaterThan", (5.0,)), bounds), "NaN is larger in Spark"
    assert can_match(Condition("x", "EqualTo", (nan,)), bounds)
    assert not can_match(Condition("x", "EqualTo", (5.0,)), bounds)
    aware, naive = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1)
    assert can_match(Condition("x", "LessThan", (naive,)), of_value(aware))
    assert can_match(Condition("x", "LessThan", (1,)), of_value(Decimal(5)))
    assert not can_match(Condition("x", "LessThan", (Decimal(1),)), of_value(Decimal(5)))
    assert not can_match(Condition("x", "EqualTo", (1,)), of_value(None))
    unknown = Bounds(None, None, has_nulls=True, has_values=True)
    assert can_match(Condition("x", "EqualTo", (1,)), unknown)


def test_conditions_of_the_filters_that_spark_passes() -> None:
    schema = _columns(
        id=LongType(), name=StringType(), lower=StringType("UTF8_LCASE"), at=TimestampType()
    )
    found = conditions_of(
        [
            EqualTo(("ID",), 1),
            In(("name",), ("a", "b")),
            IsNull(("lower",)),
            LessThan(("at",), datetime(2026, 1, 1, tzinfo=UTC)),
            # Left to Spark:
            EqualTo(("lower",), "A"),
            GreaterThan(("nested", "x"), 1),
            GreaterThan(("more",), 1),
            EqualTo(("name",), None),
            Not(EqualTo(("id",), 1)),
        ],
        schema,
    )
    assert found == [
        Condition("id", "EqualTo", (1,)),
        Condition("name", "In", ("a", "b")),
        Condition("lower", "IsNull", ()),
        Condition("at", "LessThan", (datetime(2026, 1, 1, tzinfo=UTC),)),
    ]


def test_filters_of_the_data_source_select_files_and_row_groups(tmp_path: Path) -> None:
    file = _write(tmp_path)
    files = [file._replace(name=f"day={day}/f", directory=day) for day in range(3)]
    values: list[tuple[str | None, ...]] = [("2026-01-01",), (None,), ("2026-01-03",)]
    table = Table(_location(tmp_path), files, ("Day",), values, "lakefs://demo/main/t")
    schema = _columns(id=LongType(), day=DateType())

    def read(*filters: Filter) -> tuple[list[str], int]:
        reader = FilteringTableReader(table, schema)
        assert reader.pushFilters(list(filters)) == list(filters), "Spark applies them, too"
        partitions = reader.partitions()
        names = [each.name for part in partitions for each in vars(part)["files"]]
        return names, sum(len(batch) for part in partitions for batch in reader.read(part))

    assert read() == ([each.name for each in files], 3_000)
    assert read(EqualTo(("day",), date(2026, 1, 3))) == (["day=2/f"], 1_000)
    assert read(IsNull(("day",)), GreaterThan(("id",), 899)) == (["day=1/f"], 100)
    assert read(LessThan(("id",), 0)) == ([each.name for each in files], 0)
    only = TableReader(table, _columns(Day=DateType()))
    assert sum(len(batch) for part in only.partitions() for batch in only.read(part)) == 3_000

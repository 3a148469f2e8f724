"""Tables of many shapes, and the comparison of a reader with Spark's own reading of them.

A shape is a column of a table, or a table: types, with nulls, NaN and nesting; names that differ in
case; partition columns; files of different schemas; empty files. Most files are those of pyarrow,
without a schema of Spark.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import functions

from lakecli.spark import read_table, write_table
from lakecli.spark.schemas import nullable
from lakecli.spark.sessions import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

ZONE: Final = "America/New_York"
QUICK: Final = {"spark.sql.session.timeZone": ZONE, "spark.sql.shuffle.partitions": "1"}
NAN: Final = float("nan")
MOMENT: Final = datetime(2026, 3, 8, 7, 30, 0, 123456)  # an hour that New York does not have
NONE: Final = "__HIVE_DEFAULT_PARTITION__"

STRICT: Final = pyspark.__version__.startswith("4.1.")
"""Whether Spark refuses empty files of Parquet, and to merge fields that differ in case."""

Files = Mapping[str, pa.Table | bytes]
"""The files of a table, by their names."""


class Case(NamedTuple):
    """A table.

    Attributes:
        files: its files.
        options: options of Spark's reader.
        conf: settings of the session.
        schema: a schema that is given; ``""``: Spark infers it.
        refused: whether Spark stops.
    """

    files: Files
    options: Mapping[str, str] = {}
    conf: Mapping[str, str] = {}
    schema: str = ""
    refused: bool = False


def typed() -> dict[str, pa.Array]:
    """Return a column of each type, of three rows, the last one null."""
    zoned = MOMENT.replace(tzinfo=UTC)
    struct = pa.struct([("X", pa.int32()), ("y", pa.list_(pa.float64()))])
    pair = pa.struct([("a", pa.uint32()), ("t", pa.timestamp("us", "UTC"))])
    return {
        "int8": pa.array([-128, 127, None], pa.int8()),
        "int16": pa.array([-32768, 1, None], pa.int16()),
        "int32": pa.array([-(2**31), 1, None], pa.int32()),
        "int64": pa.array([-(2**63), 1, None], pa.int64()),
        "uint8": pa.array([0, 255, None], pa.uint8()),
        "uint16": pa.array([0, 65535, None], pa.uint16()),
        "uint32": pa.array([0, 2**32 - 1, None], pa.uint32()),
        "uint64": pa.array([0, 2**64 - 1, None], pa.uint64()),
        "float32": pa.array([1.5, NAN, None], pa.float32()),
        "float64": pa.array([NAN, float("-inf"), None], pa.float64()),
        "zeros": pa.array([-0.0, 0.0, None], pa.float64()),
        "bool": pa.array([True, False, None]),
        "string": pa.array(["", "ü\U0001f600", None]),
        "large string": pa.array(["a", "", None], pa.large_string()),
        "dictionary": pa.array(["a", "a", None]).dictionary_encode(),
        "binary": pa.array([b"a", b"bc", None]),
        "large binary": pa.array([b"a", b"bc", None], pa.large_binary()),
        "fixed": pa.array([b"ab", b"cd", None], pa.binary(2)),
        "decimal small": pa.array([Decimal("1.23"), Decimal("-9.99"), None], pa.decimal128(3, 2)),
        "decimal long": pa.array([Decimal("1.2"), Decimal(-9), None], pa.decimal128(18, 4)),
        "decimal large": pa.array([Decimal(10**37), Decimal(-1), None], pa.decimal128(38, 0)),
        "date": pa.array([date(1, 1, 1), date(2026, 2, 28), None]),
        "date64": pa.array([date(1582, 10, 15), date(2026, 2, 28), None], pa.date64()),
        "timestamp": pa.array([MOMENT, datetime(1969, 12, 31), None], pa.timestamp("us")),
        "timestamp ms": pa.array([datetime(2026, 1, 1), None, None], pa.timestamp("ms")),
        "timestamp utc": pa.array([zoned, datetime(1900, 1, 1), None], pa.timestamp("us", "UTC")),
        "timestamp zone": pa.array([zoned, None, None], pa.timestamp("ms", "Asia/Tokyo")),
        "duration": pa.array([timedelta(1), timedelta(-1), None], pa.duration("us")),
        "duration ms": pa.array([timedelta(1), timedelta(-1), None], pa.duration("ms")),
        "null": pa.nulls(3),
        "list": pa.array([[1, None], [], None], pa.list_(pa.int64())),
        "list unsigned": pa.array([[1, None], [], None], pa.list_(pa.uint16())),
        "large list": pa.array([[1.0, NAN], [], None], pa.large_list(pa.float64())),
        "list of lists": pa.array([[["a"], None, []], [], None], pa.list_(pa.list_(pa.string()))),
        "list of null": pa.array([[None], [], None], pa.list_(pa.null())),
        "struct": pa.array([{"X": 1, "y": [NAN, None]}, {"X": None, "y": None}, None], struct),
        "list of structs": pa.array([[{"a": 1, "t": zoned}, None], [], None], pa.list_(pair)),
        "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int32())),
        "map of structs": pa.array(
            [[("k", {"a": 7, "t": None}), ("l", None)], [], None], pa.map_(pa.string(), pair)
        ),
        "a.b": pa.array([1, 2, None], pa.int32()),
        "back`tick": pa.array(["x", "y", None]),
    }


PARTITIONS: Final = {
    "int": ("1", "-7", NONE),
    "zeros": ("007", "1", "2"),
    "long": ("1", "5000000000", "2"),
    "huge": ("1", "12345678901234567890", "2"),
    "double": ("1.5", "2", NONE),
    "exponent": ("1e3", "2", "3"),
    "nan": ("NaN", "1", "2"),
    "infinite": ("Infinity", "-Infinity", "1"),
    "suffix": ("1d", "2f", "3"),
    "date": ("2026-01-01", "2026-12-31", NONE),
    "day": ("2026-1-1", "2026-01-02", "2026-01-03"),
    "month": ("2026-01", "2026-02", "2026-03"),
    "moment": ("2026-01-01 00%3A00%3A00", "2026-06-01 12%3A30%3A00.5", "2026-03-08 02%3A30%3A00"),
    "mixed": ("2026-01-01", "2026-06-01 12%3A30%3A00", NONE),
    "clock": ("12%3A30", "13%3A45%3A10", "00%3A00"),
    "bool": ("true", "false", "true"),
    "text": ("a b", "ü", "%2Fx=y"),
    "number or text": ("1", "x", "2.5"),
    "date or number": ("2026-01-01", "7", NONE),
    "nulls": (NONE, NONE, NONE),
    "plus": ("+5", "6", "7"),
    "space": (" 1", "2", "3"),
}
"""The values of each partition column in three directories."""


def cases() -> dict[str, Case]:
    """Return all tables."""
    columns = typed()
    one = pa.table({"id": pa.array([1, 2], pa.int64())})
    two = pa.table({"id": pa.array([3], pa.int64())})
    paths = [
        "/".join(f"{name}={values[at]}" for name, values in PARTITIONS.items()) for at in range(3)
    ]
    found = {
        "types": Case({"f.parquet": pa.table(columns)}),
        "types, no rows": Case({"f.parquet": pa.table(columns).slice(0, 0)}),
        "recorded": Case({"f.parquet": _recorded()}),
        "int96": Case({"f.parquet": _int96()}),
        "partitions": Case({f"{path}/f.parquet": one for path in paths}),
        "partitions as text": Case(
            {f"{path}/f.parquet": one for path in paths},
            conf={"spark.sql.sources.partitionColumnTypeInference.enabled": "false"},
        ),
        "partition in file": Case(
            {f"id={at}/f.parquet": one.append_column("x", [[1.5, NAN]]) for at in range(2)}
        ),
        "partition case": Case({"K=1/f.parquet": one, "k=2/f.parquet": two}),
        "root beside partitions": Case({"a.parquet": one, "k=1/f.parquet": two}),
        "deep partitions": Case({"x/k=1/f.parquet": one, "x/k=2/y/f.parquet": two}),
        "directory beside files": Case({"a.parquet": one, "deep/b.parquet": two}),
        "empty file": Case({"a.parquet": b"", "b.parquet": one, "k.parquet": two}, refused=STRICT),
        "empty directory": Case({"k=1/a.parquet": b"", "k=2/b.parquet": one}, refused=STRICT),
        "hidden files": Case({"a.parquet": one, "_a": b"x", ".b": b"x", "c._COPYING_": b"x"}),
        "twice": Case({"a.parquet": one, "b.parquet": one, "c.parquet": two}),
        "twice in partitions": Case({"k=1/a.parquet": one, "k=1/b.parquet": one, "k=2/a": one}),
        "nested case": Case(_nested_case()),
        "nested case, merged": Case(
            _nested_case(), options={"mergeSchema": "true"}, refused=STRICT
        ),
        "case sensitive": Case(_cases(), conf={"spark.sql.caseSensitive": "true"}),
        "case sensitive, merged": Case(
            _cases(), {"mergeSchema": "true"}, {"spark.sql.caseSensitive": "true"}
        ),
        "case twice": Case({"f": _table(a=[1], A=[2])}, conf={"spark.sql.caseSensitive": "true"}),
        "case twice, refused": Case({"f": _table(a=[1], A=[2])}, refused=True),
        "column added": Case({"a": one, "b": _table(id=[5], more=["x"])}),
        "column added, merged": Case(
            {"a": one, "b": _table(id=[5], more=["x"], z=[1.5]), "c": _table(z=[NAN])},
            {"mergeSchema": "true"},
        ),
        "column gone": Case({"a": _table(id=[5], more=["x"]), "b": one}),
        "struct grown": Case(
            {"a": _table(s=[{"x": 1}, None]), "b": _table(s=[{"x": 1, "y": "t"}, None])},
            {"mergeSchema": "true"},
        ),
        "not parquet": Case({"a": b"no Parquet file at all"}, refused=True),
        "schema": Case({"a": one}, schema="id bigint, none string"),
        "schema of partitions": Case({"k=1/a": one}, schema="id bigint, k string"),
        "conflict": Case({"k=1/a": one, "j=1/b": two}, refused=True),
    }
    pairs = _pairs()
    for name in REFUSED:
        before, after = pairs.pop(name)
        found[name] = Case(
            {"a": pa.table({"v": before}), "b": pa.table({"v": after})}, refused=True
        )
    found["conversions"] = Case(
        {
            file: pa.table({name: pair[at] for name, pair in pairs.items()})
            for at, file in enumerate("ab")
        }
    )
    for name, kind in _unknown().items():
        found[name] = Case({"a": pa.table({"v": kind})}, refused=True)
    return found


def _table(**columns: Any) -> pa.Table:
    return pa.table(columns)


def _pairs() -> dict[str, tuple[pa.Array, pa.Array]]:
    """Return columns of two files, of which Spark takes the type of the first."""
    moment = pa.array([MOMENT], pa.timestamp("us"))
    return {
        "long of int": (pa.array([1], pa.int64()), pa.array([2], pa.int32())),
        "int of short": (pa.array([1], pa.int32()), pa.array([2], pa.int16())),
        "double of float": (pa.array([1.5]), pa.array([NAN], pa.float32())),
        "double of int": (pa.array([1.5]), pa.array([7], pa.int32())),
        "decimal of decimal": (
            pa.array([Decimal("1.25")], pa.decimal128(20, 2)),
            pa.array([Decimal("9.5")], pa.decimal128(5, 1)),
        ),
        "decimal of int": (
            pa.array([Decimal(5)], pa.decimal128(20, 0)),
            pa.array([2**31 - 1], pa.int32()),
        ),
        "timestamp of date": (moment, pa.array([date(2026, 1, 1)])),
        "long of timestamp": (pa.array([1], pa.int64()), moment),
        "int of date": (pa.array([1], pa.int32()), pa.array([date(2026, 1, 1)])),
        "float of double": (pa.array([1.5], pa.float32()), pa.array([2.5])),
        "int of long": (pa.array([1], pa.int32()), pa.array([2], pa.int64())),
        "int of bool": (pa.array([1], pa.int32()), pa.array([True])),
        "string of int": (pa.array(["a"]), pa.array([2], pa.int32())),
        "int of string": (pa.array([1], pa.int32()), pa.array(["2"])),
        "long of double": (pa.array([1], pa.int64()), pa.array([2.0])),
        "date of timestamp": (pa.array([date(2026, 1, 1)]), moment),
        "local of utc": (moment, moment.cast(pa.timestamp("us", "UTC"))),
        "list of string": (pa.array([[1]], pa.list_(pa.int32())), pa.array(["x"])),
        "struct of int": (pa.array([{"x": 1}]), pa.array([1], pa.int32())),
    }


REFUSED: Final = (
    *("float of double", "int of long", "int of bool", "string of int", "int of string"),
    *("long of double", "date of timestamp", "list of string", "struct of int"),
)
"""Types that Spark does not read as others."""

SAMPLE: Final = (
    *("types", "recorded", "int96", "partitions", "partition case", "root beside partitions"),
    *("empty file", "twice in partitions", "nested case, merged", "case sensitive"),
    *("struct grown", "conversions", "int of long", "not parquet", "schema of partitions"),
)
"""Tables that each reader takes in each run; lakecli's own reading takes all."""

CLUSTER: Final = ("types", "partitions", "nested case, merged")
"""Tables in which executors of another environment could show something else."""


def _unknown() -> dict[str, pa.Array]:
    """Return columns that Spark refuses."""
    return {
        "nanoseconds": pa.array([MOMENT], pa.timestamp("ns")),
        "time ms": pa.array([time(1)], pa.time32("ms")),
        "half": pa.array(np.array([1], np.float16)),
    }


def _nested_case() -> Files:
    return {
        "a": pa.table({"s": [{"Name": "x", "n": [{"Deep": 1}]}, None], "M": [1, 2]}),
        "b": pa.table({"S": [{"name": "y", "N": [{"deep": 2}, None]}, None], "m": [3, None]}),
    }


def _cases() -> Files:
    return {
        "a": pa.table({"Id": [1], "s": [{"X": 1}]}),
        "b": pa.table({"id": [2], "s": [{"x": 2}]}),
    }


def _recorded() -> pa.Table:
    """Return a table as Spark writes it."""
    fields = [("id", "long"), ("at", "timestamp"), ("wall", "timestamp_ntz"), ("lasts", "long")]
    schema = {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": False, "metadata": {}} for name, kind in fields
        ],
    }
    table = pa.table(
        {
            "id": pa.array([1], pa.int64()),
            "at": pa.array([MOMENT], pa.timestamp("us", "UTC")),
            "wall": pa.array([MOMENT], pa.timestamp("us")),
            "lasts": pa.array([1], pa.int64()),
        }
    )
    key = "org.apache.spark.sql.parquet.row.metadata"
    return table.replace_schema_metadata({key: json.dumps(schema)})


def _int96() -> pa.Table:
    old = datetime(1950, 6, 1, 12)
    values = pa.array([MOMENT, old, None], pa.timestamp("ns"))
    nested = pa.array([[MOMENT, None], [], None], pa.list_(pa.timestamp("ns")))
    return pa.table({"v": values, "l": nested})


def lay(root: Path, names: Iterable[str] = ()) -> dict[str, Case]:
    """Write tables, each into a directory of its name; all if no names are given."""
    found = cases()
    found = {name: found[name] for name in names or found}
    for name, case in found.items():
        for path, data in case.files.items():
            file = root / directory(name) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(data, bytes):
                file.write_bytes(data)
            else:
                pq.write_table(data, file, use_deprecated_int96_timestamps=name == "int96")
    return found


def directory(name: str) -> str:
    """Return the directory of a case."""
    return name.replace(" ", "_").replace(",", "")


class Seen(NamedTuple):
    """What a reader shows of a table.

    Attributes:
        columns: names and types, in their order.
        rows: the rows as texts, each as often as it comes.
    """

    columns: list[tuple[str, str]]
    rows: Counter[tuple[str | None, ...]]


def texts_of(frame: Any, name: str) -> Any:
    """Return the rows of a DataFrame as arrays of texts, each with a name."""
    cells = [
        (functions.hex if each.dataType.typeName() == "binary" else _text)(
            functions.col(quoted(each.name))
        )
        for each in frame.schema.fields
    ]
    return frame.select(functions.lit(name), functions.array(*cells))


def _text(column: Any) -> Any:
    return column.cast("string")


def look(frames: Mapping[str, Any]) -> dict[str, Seen]:
    """Return what DataFrames show, by one job."""
    rows: dict[str, Counter[tuple[str | None, ...]]] = {name: Counter() for name in frames}
    texts = (texts_of(frame, name) for name, frame in frames.items())
    for name, row in reduce(lambda left, right: left.union(right), texts).collect():
        rows[name][tuple(row)] += 1
    return {
        name: Seen([(each.name, each.dataType.simpleString()) for each in frame.schema.fields], row)
        for (name, frame), row in zip(frames.items(), rows.values(), strict=True)
    }


@contextmanager
def settings(spark: Any, conf: Mapping[str, str]) -> Iterator[None]:
    """Change settings of a session for a while."""
    before = {name: spark.conf.get(name) for name in conf}
    try:
        for name, value in conf.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def show(spark: Any, found: Mapping[str, Case], read: Callable[..., Any]) -> dict[str, Any]:
    """Return what a reader shows of each table, or the error with which it stops."""
    shown: dict[str, Any] = {}
    groups: dict[tuple[tuple[str, str], ...], dict[str, Any]] = {}
    for name, case in found.items():
        with settings(spark, case.conf):
            try:
                frame = read(directory(name), case)
                _ = frame.schema
                if case.refused:
                    shown |= look({name: frame})
                else:
                    groups.setdefault(tuple(case.conf.items()), {})[name] = frame
            except Exception as error:  # noqa: BLE001 - of Spark or lakecli
                shown[name] = str(error)
    for conf, frames in groups.items():
        with settings(spark, dict(conf)):
            shown |= _look_at_each(frames)
    return shown


def _look_at_each(frames: Mapping[str, Any]) -> dict[str, Any]:
    """Return what DataFrames show, or the errors of those that fail."""
    try:
        return dict(look(frames))
    except Exception as error:  # noqa: BLE001 - find the table
        if len(frames) == 1:
            return dict.fromkeys(frames, str(error))
        names = [*frames]
        halves = names[: len(names) // 2], names[len(names) // 2 :]
        left, right = (_look_at_each({name: frames[name] for name in half}) for half in halves)
        return left | right


def own(spark: Any, root: Path, place: str, case: Case) -> Any:
    """Return a table as Spark reads its directory."""
    reader = spark.read.options(**case.options)
    reader = reader.schema(case.schema) if case.schema else reader
    return reader.parquet((root / place).as_uri())


def compare(
    spark: Any,
    root: Path,
    found: Mapping[str, Case],
    readers: Mapping[str, Callable[..., Any]],
    samples: Mapping[str, Iterable[str]] = {},
) -> list[str]:
    """Return the tables that readers show otherwise than Spark, and why.

    Args:
        spark: the session.
        root: the directory of `lay`.
        found: the tables.
        readers: functions of the directory's name and the case, which return a DataFrame.
        samples: of a reader, the tables that it reads; by default all.
    """
    wrong = []
    with settings(spark, QUICK):
        expected = show(spark, found, partial(own, spark, root))
        for who, read in readers.items():
            part = {name: found[name] for name in samples.get(who, found)}
            shown = show(spark, part, read)
            differences = {name: _difference(expected[name], shown[name]) for name in part}
            wrong += [f"{who}: {name}: {text}" for name, text in differences.items() if text]
    refused = {name for name, seen in expected.items() if isinstance(seen, str)}
    declared = {name for name, case in found.items() if case.refused}
    return wrong + [f"refused by Spark: {name}" for name in sorted(refused ^ declared)]


WRITTEN: Final = ("types", "recorded", "int96", "partitions", "nested case", "conversions")
"""Tables that are written again: all types that Spark makes of files."""


def rewrite(spark: Any, root: Path, found: Mapping[str, Case], uri: str, home: Path) -> list[str]:
    """Return the tables that `write_table` writes otherwise than Spark, and why.

    Both are read by Spark, `write_table`'s by the addresses of the objects.
    """
    wrong = []
    frames: dict[str, dict[str, Any]] = {"read": {}, "by Spark": {}, "by lakecli": {}}
    with settings(spark, QUICK):
        for name, case in found.items():
            place = directory(name)
            frame = own(spark, root, place, case)
            by = [*PARTITIONS] if name == "partitions" else []
            by = [each for each in by if frame.schema[each].dataType.typeName() != "void"]
            voids = [each.name for each in frame.schema if "void" in each.dataType.simpleString()]
            frame = frame.drop(*voids)  # neither writes them
            target = (root / "own" / place).as_uri()
            frame.write.partitionBy(*by).parquet(target)
            write_table(frame, f"{uri}/{place}", partition_by=by, home=home)
            written = read_table(spark, f"{uri}/{place}", home=home)
            expected = spark.read.parquet(target)
            if written.schema != expected.schema:
                wrong.append(f"{name}: {expected.schema} became {written.schema}")
            if not by and written.schema != nullable(frame.schema):
                wrong.append(f"{name}: {frame.schema} became {written.schema}")
            frames["read"][name] = expected if by else frame
            frames["by Spark"][name] = expected
            frames["by lakecli"][name] = written
        read, by_spark, by_lakecli = (look(each) for each in frames.values())
    for name in found:
        differences = (_difference(before[name], by_lakecli[name]) for before in (read, by_spark))
        wrong += [f"{name}: {text}" for text in differences if text]
    return wrong


def _difference(expected: Seen | str, shown: Seen | str) -> str:
    if isinstance(expected, str) or isinstance(shown, str):
        if isinstance(expected, str) and isinstance(shown, str):
            return ""
        return f"Spark: {str(expected)[:200]}; shown: {str(shown)[:600]}"
    same = [(name.lower(), kind) for name, kind in expected.columns] == [
        (name.lower(), kind) for name, kind in shown.columns
    ]
    if not same:
        return f"columns {expected.columns} became {shown.columns}"
    if expected.rows != shown.rows:
        return f"rows {expected.rows - shown.rows} became {shown.rows - expected.rows}"
    return ""

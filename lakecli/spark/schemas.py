"""Schemas of tables: what Spark infers from files, and what it recorded in them.

The schema of Parquet depends on the footers alone. Spark's own converter in the driver's JVM reads
them: the one by which ``spark.read.parquet`` infers, but without a job on executors, which do not
see these files. `tests/spark/test_shapes.py` compares it with ``spark.read.parquet``. Through Spark
Connect there is no JVM; there the schema must be recorded in the file, as Spark and lakecli do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from lakecli.base.parsing import Unparsable, parse_json
from lakecli.base.retry import DRIVERS, Retries
from lakecli.engine.runner import StoreLocation
from lakecli.errors import Unsupported, UsageError
from lakecli.spark.private_names import analyzed_plan, jvm_of, session_state
from lakecli.spark.sessions import is_case_sensitive, is_connect
from lakecli.spark.table_files import AT_ONCE, TableFile, read_footer

Fold = Callable[[str], str]
"""Returns what two names of one column have in common."""

_ROW_METADATA: Final = b"org.apache.spark.sql.parquet.row.metadata"
GIVE_SCHEMA: Final = 'give the schema: schema="id INT, …"'

_MAX_SIZE: Final = 64 << 20
"""Bytes of a schema as JSON, at most."""

_MAX_DEPTH: Final = 192
"""Nested arrays and objects of a schema as JSON, at most: a struct in a struct takes three of them,
for which PySpark and Arrow call themselves a few times each."""

_KNOWN_TYPES: Final = tuple(
    (f"org.apache.spark.{place}.{name}", f"pyspark.{place}.{name}")
    for place in ("ml.linalg", "mllib.linalg")
    for name in ("VectorUDT", "MatrixUDT")
)
"""The user-defined types of Spark itself: the classes that Java and Python load for them."""


class TypeMismatch(Exception):
    """A type is not one that Spark reads, or not as the wanted one."""


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects of rows with a schema."""
    # PySpark 4.1 has no parameter for the time zone, which is UTC there.
    if "timezone" not in signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema)
    return to_arrow_schema(schema, timezone="UTC")


def serialised(schema: pa.Schema) -> bytes:
    """Return a schema as bytes, as Arrow's own objects cannot always be pickled."""
    return bytes(schema.serialize())


def first_file(files: Sequence[TableFile]) -> TableFile:
    """Return the file from which Spark infers a schema without ``mergeSchema``."""
    return min(files, key=_java_order)


def _java_order(file: TableFile) -> bytes:
    return file.name.encode("utf-16-be")


def merges_schemas(spark: SparkSession, flags: Mapping[str, str]) -> bool:
    """Return whether ``mergeSchema`` is set, as an option or for the session."""
    default = spark.conf.get("spark.sql.parquet.mergeSchema", "false")
    return flags.get("mergeschema", str(default)).lower() == "true"


def infer_parquet(
    spark: SparkSession, location: StoreLocation, files: Sequence[TableFile], *, merges: bool
) -> StructType:
    """Return the schema of Parquet files, all columns nullable.

    If `merges`, all files count, and not the first one only.
    """
    first = first_file(files)
    if is_connect(spark):
        if merges:
            raise Unsupported(
                "Spark Connect cannot merge the schemas of the files", hint=GIVE_SCHEMA
            )
        schema = recorded_in(location, first)
    else:
        chosen = sorted(files, key=_java_order) if merges else [first]
        schema = _by_converter(spark, location, chosen)
    try:
        _check_names(schema, str if is_case_sensitive(spark) else str.lower)
    except TypeMismatch as error:
        raise UsageError(
            f"Spark cannot read {first.name}: {error}", hint="set spark.sql.caseSensitive to true"
        ) from None
    return schema


def _by_converter(
    spark: SparkSession, location: StoreLocation, files: Sequence[TableFile]
) -> StructType:
    jvm = jvm_of(spark)
    conf = session_state(spark).conf()
    hadoop = session_state(spark).newHadoopConf()
    package = jvm.org.apache.spark.sql.execution.datasources.parquet
    converter = package.ParquetToSparkSchemaConverter(conf)

    def convert(scratch: Path, file: TableFile) -> Any:  # noqa: ANN401 - a StructType of the JVM
        footer = footer_of(location, file)
        check_recorded(footer, file.name)
        copy = scratch / str(id(file))
        copy.write_bytes(footer)
        path = jvm.org.apache.hadoop.fs.Path(copy.as_uri())
        source = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(path, hadoop)
        opened = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(source)
        try:
            footer = jvm.org.apache.parquet.hadoop.Footer(path, opened.getFooter())
        finally:
            opened.close()
        copy.unlink()
        return package.ParquetFileFormat.readSchemaFromFooter(footer, converter)

    with TemporaryDirectory(prefix="lakecli-") as name, ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(partial(convert, Path(name)), files)
        merged = reduce(lambda left, right: left.merge(right, conf.caseSensitiveAnalysis()), found)
    return schema_of_json(merged.json(), files[0].name)


def footer_of(location: StoreLocation, file: TableFile) -> bytes:
    """Return the footer of a Parquet file, as a file that has no data."""
    return Retries(DRIVERS).call(partial(read_footer, location, file))


def positions_of(names: Iterable[str], fold: Fold) -> dict[str, int]:
    """Return the position of each name; raise `TypeMismatch` if two are the same."""
    found: dict[str, int] = {}
    for at, name in enumerate(names):
        if fold(name) in found:
            raise TypeMismatch(f"two fields are named {name}")
        found[fold(name)] = at
    return found


def _check_names(kind: DataType, fold: Fold) -> None:
    """Refuse a type in which two fields of one struct have the same name, as Spark does."""
    if isinstance(kind, StructType):
        positions_of(kind.names, fold)
        for field in kind.fields:
            _check_names(field.dataType, fold)
    elif isinstance(kind, ArrayType):
        _check_names(kind.elementType, fold)
    elif isinstance(kind, MapType):
        _check_names(kind.keyType, fold)
        _check_names(kind.valueType, fold)


def recorded_in(location: StoreLocation, file: TableFile) -> StructType:
    """Return the schema that Spark or lakecli recorded in a Parquet file; refuse other files."""
    found = recorded_schema(stored_schema(location, file), file.name)
    if found is None:
        raise Unsupported(
            f"{file.name} does not record a schema of Spark, and there is no session to infer one",
            hint=f"{GIVE_SCHEMA}; read_table and write_table of lakecli.spark infer it",
        )
    return found


def stored_schema(location: StoreLocation, file: TableFile) -> pa.Schema:
    """Return the schema of a Parquet file, with what its footer records."""
    return _read(pq.read_schema, footer_of(location, file), file.name)


def _read(read: Callable[[pa.BufferReader], Any], footer: bytes, name: str) -> Any:  # noqa: ANN401
    try:
        return read(pa.BufferReader(footer))
    except (pa.ArrowException, OSError) as error:  # Arrow raises both
        raise UsageError(f"cannot read the schema of {name}: {error}") from error


def check_recorded(footer: bytes, name: str) -> None:
    """Refuse a footer that records a schema which Spark should not see; see `schema_of_json`."""
    recorded = (_read(pq.read_metadata, footer, name).metadata or {}).get(_ROW_METADATA)
    if recorded is not None:
        _parsed(recorded, name)


def recorded_schema(stored: pa.Schema, name: str) -> StructType | None:
    """Return the schema that Spark or lakecli recorded; ``None`` without one.

    One that is damaged, or that names a class other than those of Spark's own types, is refused.
    """
    recorded = (stored.metadata or {}).get(_ROW_METADATA)
    if recorded is None:
        return None
    try:
        return schema_of_json(recorded, name)
    except (PySparkException, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UsageError(
            f"the schema that {name} records is damaged: {error}", hint=GIVE_SCHEMA
        ) from error


def schema_of_json(text: str | bytes, name: str) -> StructType:
    """Return the schema that Spark describes as JSON, all columns nullable.

    Java loads the class of a user-defined type, and PySpark imports its module, or runs the class
    if the JSON contains it. So all but Spark's own types are refused, as `Unsupported`.
    """
    return cast("StructType", nullable(StructType.fromJson(_parsed(text, name))))


def _parsed(text: str | bytes, name: str) -> dict[str, Any]:
    try:
        parsed = parse_json(text, max_size=_MAX_SIZE, max_depth=_MAX_DEPTH)
    except Unparsable as error:
        raise UsageError(
            f"the schema of {name} is damaged or too large: {error}", hint=GIVE_SCHEMA
        ) from None
    _check_classes(parsed, name)
    return cast("dict[str, Any]", parsed)


def schema_of_frame(frame: DataFrame, name: str) -> StructType:
    """Return the schema of a DataFrame, all columns nullable, checked as `schema_of_json` does.

    That of Spark Connect is not checked.
    """
    if is_connect(frame.sparkSession):
        return cast("StructType", nullable(frame.schema))
    return schema_of_json(analyzed_plan(frame).schema().json(), name)


def _check_classes(parsed: Any, name: str) -> None:  # noqa: ANN401 - JSON
    waiting = [parsed]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            classes = each.get("class"), each.get("pyClass")
            if each.get("type") == "udt" and (
                classes not in _KNOWN_TYPES or "serializedClass" in each
            ):
                raise Unsupported(
                    f"{name} has a column of a type that a program defined: "
                    f"{each.get('pyClass') or each.get('class')}",
                    hint='give the schema, with the types that are stored: schema="id INT, …"',
                )
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


def nullable(kind: DataType) -> DataType:
    """Return a type whose fields, elements and values may all be null."""
    if isinstance(kind, ArrayType):
        return ArrayType(nullable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(nullable(kind.keyType), nullable(kind.valueType))
    if isinstance(kind, StructType):
        fields = ((each.name, nullable(each.dataType), each.metadata) for each in kind.fields)
        return StructType([StructField(name, of, metadata=more) for name, of, more in fields])
    return kind

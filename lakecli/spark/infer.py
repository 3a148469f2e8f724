"""The schema that Spark infers from files which it cannot reach itself.

Of Parquet it depends on the footers alone. The driver fetches them into small files, and Spark's
own converter in the driver's JVM reads them: the one by which ``spark.read.parquet`` infers, but
without a job on executors, which do not see these files. The converter is no public interface of
Spark, which has none for this; `tests/spark/test_shapes.py` compares it with
``spark.read.parquet``. Through Spark Connect there is no JVM; there the schema must be recorded in
the file, as Spark and lakecli do.

The schema of CSV and JSON Spark infers from lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from lakecli.base.retry import DRIVERS, Retries
from lakecli.engine.store_location import StoreLocation
from lakecli.errors import Unsupported, UsageError
from lakecli.spark.fetch import AT_ONCE, ObjectFile, Remote, iter_lines
from lakecli.spark.fetched_reading import Mismatch, positions_of
from lakecli.spark.options import VALUE, flags_of
from lakecli.spark.schemas import recorded_schema, schema_of_json
from lakecli.spark.sessions import is_case_sensitive, is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakecli.spark.fetched_reading import Fold

_MAGIC: Final = b"PAR1"
_TAIL: Final = 8
_GIVE: Final = 'give the schema: schema="id INT, …"'

LINE: Final = StructField(VALUE, StringType())
"""The column of lines."""


def first_file(files: Sequence[Remote]) -> Remote:
    """Return the file from which Spark infers a schema without ``mergeSchema``."""
    return min(files, key=lambda file: file.name.encode("utf-16-be"))


def merges_schemas(spark: SparkSession, flags: Mapping[str, str]) -> bool:
    """Return whether ``mergeSchema`` is set, as an option or for the session."""
    default = spark.conf.get("spark.sql.parquet.mergeSchema", "false")
    return flags.get("mergeschema", str(default)).lower() == "true"


def infer_parquet(
    spark: SparkSession, location: StoreLocation, files: Sequence[Remote], *, merges: bool
) -> StructType:
    """Return the schema of Parquet files, all columns nullable.

    Args:
        spark: the session.
        location: the repository's namespace.
        files: files of the table, which are not empty.
        merges: whether all files count, and not the first one only.

    Raises:
        UsageError: a file is not Parquet, or Spark cannot merge the schemas.
        Unsupported: Spark Connect cannot infer the schema.
    """
    chosen = sorted(files, key=lambda file: file.name.encode("utf-16-be"))
    if not merges:
        chosen = chosen[:1]
    if is_connect(spark):
        if merges:
            raise Unsupported("Spark Connect cannot merge the schemas of the files", hint=_GIVE)
        found = recorded(location, chosen[0])
        if found is None:
            raise not_recorded(chosen[0])
        schema = found
    else:
        schema = _by_converter(spark, location, chosen)
    try:
        _check_names(schema, str if is_case_sensitive(spark) else str.lower)
    except Mismatch as error:
        raise UsageError(
            f"Spark cannot read {chosen[0].name}: {error}",
            hint="set spark.sql.caseSensitive to true",
        ) from None
    return schema


def _check_names(kind: DataType, fold: Fold) -> None:
    """Refuse a type in which two fields of one struct have the same name, as Spark does.

    Raises:
        Mismatch: there are such fields.
    """
    if isinstance(kind, StructType):
        positions_of(kind.names, fold)
        for field in kind.fields:
            _check_names(field.dataType, fold)
    elif isinstance(kind, ArrayType):
        _check_names(kind.elementType, fold)
    elif isinstance(kind, MapType):
        _check_names(kind.keyType, fold)
        _check_names(kind.valueType, fold)


def recorded(location: StoreLocation, file: Remote) -> StructType | None:
    """Return the schema that Spark or lakecli recorded in a Parquet file; ``None`` without one.

    Raises:
        UsageError: the file is not Parquet.
        Unsupported: the schema names a class that is not one of PySpark.
    """
    try:
        stored = Retries(DRIVERS).call(partial(_read_schema, location, file))
    except pa.ArrowException as error:
        raise UsageError(
            f"cannot read the schema of {file.name}: {error}",
            hint="a table in CSV or JSON needs its format: read_table(…, format=…)",
        ) from error
    return recorded_schema(stored, file.name)


def _read_schema(location: StoreLocation, file: Remote) -> pa.Schema:
    with ObjectFile(location, file) as source:
        return pq.read_schema(source)


def not_recorded(file: Remote) -> Unsupported:
    """Return the error for a file whose schema only Spark can infer."""
    return Unsupported(
        f"{file.name} does not record a schema of Spark, and no session is here to infer one",
        hint=f"{_GIVE}; lakecli.spark.read_table infers it",
    )


def _by_converter(
    spark: SparkSession, location: StoreLocation, files: Sequence[Remote]
) -> StructType:
    jvm: Any = spark._jvm  # noqa: SLF001 - as the module says
    session: Any = spark._jsparkSession  # noqa: SLF001
    conf = session.sessionState().conf()
    hadoop = session.sessionState().newHadoopConf()
    package = jvm.org.apache.spark.sql.execution.datasources.parquet
    converter = package.ParquetToSparkSchemaConverter(conf)

    def convert(scratch: Path, file: Remote) -> Any:  # noqa: ANN401 - a StructType of the JVM
        end = scratch / str(id(file))
        Retries(DRIVERS).call(partial(_copy_end, location, file, end))
        path = jvm.org.apache.hadoop.fs.Path(end.as_uri())
        source = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(path, hadoop)
        opened = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(source)
        try:
            footer = jvm.org.apache.parquet.hadoop.Footer(path, opened.getFooter())
        finally:
            opened.close()
        end.unlink()
        return package.ParquetFileFormat.readSchemaFromFooter(footer, converter)

    with TemporaryDirectory(prefix="lakecli-") as name, ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(partial(convert, Path(name)), files)
        merged = reduce(lambda left, right: left.merge(right, conf.caseSensitiveAnalysis()), found)
    return schema_of_json(merged.json(), files[0].name)


def _copy_end(location: StoreLocation, file: Remote, target: Path) -> None:
    """Write a sparse file with the size and the footer of a Parquet file.

    Raises:
        UsageError: it is not a Parquet file.
    """
    with ObjectFile(location, file) as source:
        source.seek(max(0, file.size - _TAIL))
        tail = source.read(_TAIL)
        size = int.from_bytes(tail[:4], "little") + _TAIL
        if tail[4:] != _MAGIC or size > file.size:
            raise UsageError(
                f"Spark cannot read {file.name}, which is not a Parquet file",
                hint='give its format: format="csv"',
            )
        source.seek(file.size - size)
        end = source.read(size)
    with target.open("wb") as sparse:
        sparse.write(_MAGIC)
        sparse.seek(file.size - size)
        sparse.write(end)


def infer_text(
    spark: SparkSession,
    location: StoreLocation,
    files: Sequence[Remote],
    *,
    format: str,
    options: Mapping[str, str],
    lines: Callable[[], DataFrame],
) -> StructType:
    """Return the schema of CSV or JSON.

    Args:
        spark: the session.
        location: the repository's namespace.
        files: files of the table.
        format: ``csv`` or ``json``.
        options: options of Spark's reader.
        lines: returns all lines of the files, without headers.

    Raises:
        UsageError: the files are empty.
        Unsupported: Spark Connect cannot infer it.
    """
    if is_connect(spark):
        raise Unsupported(f"Spark Connect cannot infer the schema of {format}", hint=_GIVE)
    flags = flags_of(options)
    found = (line.decode("utf-8", "replace") for line in _first_lines(location, files))
    first = spark.sparkContext.parallelize([*found][:1], 1)
    sample = first
    if format == "json" or flags.get("inferschema") == "true":
        values = lines().select(VALUE).rdd.map(_first)
        sample = first.union(values) if has_header(format, flags) else values
    reader = spark.read.format(format).options(**options)
    schema = (reader.json if format == "json" else reader.csv)(sample).schema
    if not schema.fields:
        raise UsageError(f"Spark cannot infer the schema: {files[0].name} is empty", hint=_GIVE)
    return schema


def has_header(format: str, flags: Mapping[str, str]) -> bool:
    """Return whether the first line of each file has the names of the columns."""
    return format == "csv" and flags.get("header") == "true"


def _first_lines(location: StoreLocation, files: Sequence[Remote]) -> list[bytes]:
    """Return the first line that is not blank."""
    for file in files:
        for line in iter_lines(location, file):
            if line.strip():
                return [line]
    return []


def _first(row: Sequence[str]) -> str:
    return row[0]

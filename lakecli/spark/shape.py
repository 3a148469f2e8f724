"""The files that a DataFrame is written to: format, schema, compression, and order of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from lakecli.errors import UsageError
from lakecli.spark.fetch import serialised
from lakecli.spark.file_writer import Shape
from lakecli.spark.options import check_format, quoted
from lakecli.spark.schemas import nullable
from lakecli.spark.types import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField, StructType

_VALUE: Final = "value"
_COMPRESSIONS: Final = ("snappy", "gzip", "zstd", "lz4", "none", "uncompressed")
_TEXT_COMPRESSIONS: Final = {"": "none", "none": "none", "uncompressed": "none", "gzip": "gzip"}
_EXTENSIONS: Final = {"none": "", "uncompressed": "", "gzip": ".gz"}
_NOT_IN_CSV: Final = frozenset({"array", "map", "struct", "variant"})
"""Types that Spark does not write as CSV either."""
_NOT_IN_NAMES: Final = _NOT_IN_CSV | {"binary"}
"""Types without a place in a path: Spark takes bytes, and changes those that are not UTF-8."""


def shape_of(
    schema: StructType,
    *,
    format: str,
    partition_by: Sequence[str],
    options: Mapping[str, Any],
    version: str,
) -> Shape:
    """Return the shape of the files, without the header of CSV.

    Args:
        schema: of the rows.
        format: of the files.
        partition_by: columns that become directories.
        options: of the writer.
        version: Spark's, which the files record.

    Raises:
        UsageError: the format, a column or an option is not valid.
    """
    from pyspark.sql.types import StringType, StructField, StructType

    check_format(format)
    names = [name.lower() for name in schema.names]
    for at, name in enumerate(names):
        if name in names[:at]:
            raise UsageError(f"two columns have the name {name!r}", hint="rename one of them")
    by = [name.lower() for name in partition_by]
    for name in by:
        if name not in names or by.count(name) > 1:
            raise UsageError(
                f"cannot partition by {name!r}", hint=f"columns: {', '.join(schema.names)}"
            )
    places = [field for field in schema.fields if field.name.lower() in by]
    _check_types(places, _NOT_IN_NAMES, "partition by")
    fields = [field for field in schema.fields if field.name.lower() not in by]
    if format == "csv":
        _check_types(fields, _NOT_IN_CSV, "write as CSV")
    if not fields:
        raise UsageError(
            "all columns are partition columns, so the files would be empty",
            hint="leave one of them out of the partition columns",
        )
    given = {name.lower(): str(value) for name, value in options.items()}
    compression = given.get("compression", "snappy" if format == "parquet" else "").lower()
    if format == "parquet":
        if compression not in _COMPRESSIONS:
            raise UsageError(
                f"unknown compression {compression!r}", hint=f"one of {', '.join(_COMPRESSIONS)}"
            )
        arrow = _stored(StructType(fields), version)
        extension = (
            "" if compression in _EXTENSIONS and compression != "gzip" else f".{compression}"
        )
        extension += ".parquet"
    else:
        arrow = arrow_schema(StructType([StructField(_VALUE, StringType())]))
        if compression not in _TEXT_COMPRESSIONS:
            raise UsageError(f"unknown compression {compression!r}", hint="gzip or none")
        compression = _TEXT_COMPRESSIONS[compression]
        extension = f".{format}{_EXTENSIONS[compression]}"
    return Shape(
        format=format,
        partition_by=tuple(
            next(each for each in schema.names if each.lower() == name) for name in by
        ),
        schema=serialised(arrow),
        extension=extension,
        compression="none" if compression == "uncompressed" else compression,
        header="",
        max_rows=_max_rows(given.get("maxrecordsperfile", "0")),
    )


def _stored(schema: StructType, version: str) -> pa.Schema:
    """Return the schema of Parquet files, with that of Spark in its metadata.

    All columns may be null, nested ones too, as in the files that Spark writes.
    """
    from pyspark.errors import PySparkException

    schema = cast("StructType", nullable(schema))
    metadata = {
        "org.apache.spark.version": version,
        "org.apache.spark.sql.parquet.row.metadata": schema.json(),
    }
    try:
        return arrow_schema(schema).with_metadata(metadata)
    except PySparkException as error:
        raise UsageError(
            f"cannot write the rows: {error}", hint="cast the column to another type"
        ) from error


def _max_rows(text: str) -> int:
    """Return the maximum number of rows in a file; 0, as for Spark by a negative one: none."""
    try:
        return max(0, int(text))
    except ValueError:
        raise UsageError(
            f"maxRecordsPerFile is not a number: {text!r}", hint="for example 1000000"
        ) from None


def _check_types(fields: Sequence[StructField], kinds: frozenset[str], purpose: str) -> None:
    """Refuse columns of some types."""
    for field in fields:
        if field.dataType.typeName() in kinds:
            raise UsageError(
                f"cannot {purpose} {field.name!r}, {field.dataType.simpleString()}",
                hint="cast it to string, or drop it",
            )


def header_of(frame: DataFrame, *, partition_by: Sequence[str], options: Mapping[str, Any]) -> str:
    """Return the line of column names of CSV, quoted as by Spark; ``""`` if there is none."""
    given = {name.lower(): str(value) for name, value in options.items()}
    if given.get("header", "false").lower() != "true":
        return ""
    from pyspark.sql import functions

    by = {name.lower() for name in partition_by}
    names = [name for name in frame.columns if name.lower() not in by]
    cells = [functions.lit(name).alias(f"c{at}") for at, name in enumerate(names)]
    line = functions.to_csv(functions.struct(*cells), dict(given))
    return str(frame.sparkSession.range(1).select(line).collect()[0][0])


def arranged(frame: DataFrame, shape: Shape, options: Mapping[str, str]) -> DataFrame:
    """Return the rows for the sink: sorted, with partition columns as text before the others."""
    from pyspark.sql import functions

    by = {name.lower() for name in shape.partition_by}
    places = [
        functions.col(quoted(name)).cast("string").alias(f"__lakecli_{at}")
        for at, name in enumerate(shape.partition_by)
    ]
    data = [functions.col(quoted(name)) for name in frame.columns if name.lower() not in by]
    if shape.format != "parquet":
        to_text = functions.to_json if shape.format == "json" else functions.to_csv
        data = [to_text(functions.struct(*data), dict(options)).alias(_VALUE)]
    # PySpark takes a dot in a name of these rows for a field; the sink goes by positions.
    named = [column.alias(f"__lakecli_data_{at}") for at, column in enumerate(data)]
    rows = frame.select(*places, *named)
    names = [f"__lakecli_{at}" for at in range(len(places))]
    return rows.sortWithinPartitions(*names) if names else rows

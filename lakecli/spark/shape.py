"""The files that a DataFrame is written to: format, schema, compression, and order of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lakecli.errors import UsageError
from lakecli.spark.options import check_format, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from lakecli.spark.sink import Shape

_VALUE: Final = "value"
_TEXT_COMPRESSIONS: Final = {"": "none", "none": "none", "uncompressed": "none", "gzip": "gzip"}
_EXTENSIONS: Final = {"none": "", "uncompressed": "", "gzip": ".gz"}


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
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StringType, StructField, StructType

    from lakecli.spark.fetch import serialised
    from lakecli.spark.sink import Shape

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
    fields = [field for field in schema.fields if field.name.lower() not in by]
    if not fields:
        raise UsageError("all columns are partition columns, so the files would be empty")
    given = {name.lower(): str(value) for name, value in options.items()}
    compression = given.get("compression", "snappy" if format == "parquet" else "").lower()
    if format == "parquet":
        stored = StructType(fields)
        metadata = {
            "org.apache.spark.version": version,
            "org.apache.spark.sql.parquet.row.metadata": stored.json(),
        }
        arrow = to_arrow_schema(stored, timezone="UTC").with_metadata(metadata)
        extension = (
            "" if compression in _EXTENSIONS and compression != "gzip" else f".{compression}"
        )
        extension += ".parquet"
    else:
        arrow = to_arrow_schema(StructType([StructField(_VALUE, StringType())]))
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
        max_rows=int(given.get("maxrecordsperfile", 0)),
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

"""Schemas as Spark would find and merge them, without a session."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakecli.errors import UsageError
from lakecli.spark.fetch import ObjectFile

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    from lakecli.pipeline.store_location import StoreLocation
    from lakecli.spark.fetch import Remote

_ROW_METADATA: Final = b"org.apache.spark.sql.parquet.row.metadata"


def stored_columns(location: StoreLocation, file: Remote, uri: str) -> StructType:
    """Return the columns of a Parquet file: as Spark or lakecli recorded them, else as in Arrow.

    Args:
        location: the repository's namespace.
        file: the file.
        uri: the table, for errors.

    Raises:
        UsageError: the file is not Parquet, or has a type that Spark does not.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructField, StructType

    try:
        with ObjectFile(location, file) as source:
            stored = pq.ParquetFile(source, coerce_int96_timestamp_unit="us").schema_arrow
        spark = (stored.metadata or {}).get(_ROW_METADATA)
        columns = StructType.fromJson(json.loads(spark)) if spark else from_arrow_schema(stored)
    except (pa.ArrowException, PySparkException, ValueError, LookupError) as error:
        raise UsageError(
            f"cannot read the schema of {uri}: {file.name}: {error}",
            hint="a table in CSV or JSON needs its format: read_table(…, format=…)",
        ) from error
    fields = (StructField(each.name, each.dataType, metadata=each.metadata) for each in columns)
    return StructType(list(fields))


def merged_type(left: DataType, right: DataType) -> DataType | None:
    """Return the type that Spark's ``mergeSchema`` makes of two; ``None`` if it refuses them."""
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType

    if same_type(left, right):
        return left
    result: DataType | None = None
    if isinstance(left, DecimalType) and isinstance(right, DecimalType):
        if left.scale == right.scale:
            result = DecimalType(max(left.precision, right.precision), left.scale)
    elif isinstance(left, ArrayType) and isinstance(right, ArrayType):
        item = merged_type(left.elementType, right.elementType)
        result = item and ArrayType(item)
    elif isinstance(left, MapType) and isinstance(right, MapType):
        key = merged_type(left.keyType, right.keyType)
        value = merged_type(left.valueType, right.valueType)
        result = MapType(key, value) if key and value else None
    elif isinstance(left, StructType) and isinstance(right, StructType):
        result = _merged_struct(left, right)
    return result


def _merged_struct(left: StructType, right: StructType) -> StructType | None:
    from pyspark.sql.types import StructField, StructType

    others = {each.name.lower(): each for each in right.fields}
    fields = []
    for field in left.fields:
        other = others.pop(field.name.lower(), None)
        common = field.dataType if other is None else merged_type(field.dataType, other.dataType)
        if common is None:
            return None
        fields.append(StructField(field.name, common))
    return StructType([*fields, *others.values()])


def same_type(left: DataType, right: DataType) -> bool:
    """Return whether two types are the same but for nulls and the case of names."""
    return left.simpleString().lower() == right.simpleString().lower()

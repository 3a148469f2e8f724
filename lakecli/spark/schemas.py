"""Schemas of files: what Spark recorded in them, and what its ``mergeSchema`` makes of two."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructField, StructType

from lakecli.errors import Unsupported, UsageError
from lakecli.spark.sessions import is_connect

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_ROW_METADATA: Final = b"org.apache.spark.sql.parquet.row.metadata"
_LEGACY: Final = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


def recorded_schema(stored: pa.Schema, name: str) -> StructType | None:
    """Return the schema that Spark or lakecli recorded in a Parquet file; ``None`` without one.

    Raises:
        UsageError: it is damaged.
        Unsupported: it names a class that is not one of PySpark.
    """
    recorded = (stored.metadata or {}).get(_ROW_METADATA)
    if recorded is None:
        return None
    try:
        return schema_of_json(recorded, name)
    except (PySparkException, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UsageError(
            f"the schema that {name} records is damaged: {error}",
            hint='give the schema: schema="id INT, …"',
        ) from error


def schema_of_json(text: str | bytes, name: str) -> StructType:
    """Return the schema that Spark describes as JSON, all columns nullable.

    PySpark imports the class of a user-defined type, or runs it if the JSON contains it.

    Args:
        text: the JSON.
        name: what has the schema, for the error.

    Raises:
        Unsupported: it names a class that is not one of PySpark.
    """
    parsed = json.loads(text)
    _check_classes(parsed, name)
    return cast("StructType", nullable(StructType.fromJson(parsed)))


def schema_of_frame(frame: DataFrame, name: str) -> StructType:
    """Return the schema of a DataFrame, all columns nullable, checked as `schema_of_json` does.

    That of Spark Connect is not checked.
    """
    if is_connect(frame.sparkSession):
        return cast("StructType", nullable(frame.schema))
    return schema_of_json(frame._jdf.schema().json(), name)  # noqa: SLF001 - before PySpark takes it


def _check_classes(parsed: Any, name: str) -> None:  # noqa: ANN401 - JSON
    waiting = [parsed]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            is_own = str(each.get("pyClass", "")).startswith("pyspark.")
            if each.get("type") == "udt" and ("serializedClass" in each or not is_own):
                raise Unsupported(
                    f"{name} has a column of a type that a program defined: "
                    f"{each.get('pyClass') or each.get('class')}",
                    hint='give the schema, with the types that are stored: schema="id INT, …"',
                )
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


def check_calendar(stored: pa.Schema, name: str) -> None:
    """Refuse a file with the calendar of Spark 2, which Arrow takes for today's.

    Raises:
        Unsupported: the file is one.
    """
    if any(key in (stored.metadata or {}) for key in _LEGACY):
        raise Unsupported(
            f"{name} has dates in the calendar of Spark 2, which only Spark reads",
            hint="give Spark a connector to the store, and read the table with native=True",
        )


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


def merged_type(left: DataType, right: DataType) -> DataType | None:
    """Return the type that Spark's ``mergeSchema`` makes of two; ``None`` if it refuses them."""
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

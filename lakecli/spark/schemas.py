"""Read and check schemas that Spark and lakecli record in the footers of Parquet files."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from inspect import signature
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from lakecli.base.parsing import Unparsable, parse_json
from lakecli.base.retry import DRIVERS, Retries
from lakecli.engine.object_reader import TableFile
from lakecli.engine.runner import StoreLocation
from lakecli.errors import Unsupported, UsageError
from lakecli.spark.sessions import lower_case
from lakecli.spark.table_files import read_footer

_ROW_METADATA: Final = b"org.apache.spark.sql.parquet.row.metadata"
GIVE_SCHEMA: Final = 'give the schema: schema="id INT, …"'

AT_ONCE: Final = 8
"""The number of footers to read in parallel."""

_SELECTING: Final = frozenset({"pathglobfilter", "modifiedbefore", "modifiedafter"})
"""Options that make Spark leave out files."""

_MAX_SIZE: Final = 64 << 20
"""The maximum size in bytes of a schema as JSON."""

_MAX_DEPTH: Final = 192
"""The maximum nesting of arrays and objects in a schema as JSON. A nested struct takes three
levels; for each level, PySpark and Arrow recurse a few times."""

_KNOWN_TYPES: Final = tuple(
    (f"org.apache.spark.{place}.{name}", f"pyspark.{place}.{name}")
    for place in ("ml.linalg", "mllib.linalg")
    for name in ("VectorUDT", "MatrixUDT")
)
"""Spark's own user-defined types: for each, the classes that Java and Python load."""


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects for rows with a Spark schema."""
    # PySpark 4.1 has no parameter for the time zone, which is UTC there.
    if "timezone" not in signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema)
    return to_arrow_schema(schema, timezone="UTC")


def check_schemas(
    spark: SparkSession,
    location: StoreLocation,
    files: Sequence[TableFile],
    options: Mapping[str, str],
) -> None:
    """Reject Parquet files whose recorded schemas are dangerous to load; see `schema_of_json`.

    Only files from which Spark may infer the schema of the table with these options are checked.

    Raises:
        Unsupported: a schema has a user-defined type that is not one of Spark's own.
        UsageError: a schema is damaged or too large, or a file is not a Parquet file.
    """

    def check(file: TableFile) -> None:
        recorded = _recorded(Retries(DRIVERS).call(partial(read_footer, location, file)), file.name)
        if recorded is not None:
            _parsed(recorded, file.name)

    flags = lower_case(options)
    default = str(spark.conf.get("spark.sql.parquet.mergeSchema", "false"))
    present = [file for file in files if file.recorded.size]  # Spark ignores empty files
    if flags.get("mergeschema", default).lower() != "true" and _SELECTING.isdisjoint(flags):
        # Spark reads the schema of the first file by name, or of the first file that is in no
        # directory, if there are no partition columns. Check both.
        alone = [file for file in present if not file.directory]
        by_name = partial(min, key=lambda file: file.name.encode("utf-16-be"))  # Java's order
        present = [by_name(each) for each in (present, alone) if each]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(check, present):
            pass


def recorded_in(location: StoreLocation, file: TableFile) -> StructType:
    """Return the schema that Spark or lakecli recorded in a Parquet file.

    Raises:
        Unsupported: the file records no schema, or one with a user-defined type.
        UsageError: the schema is damaged, or the file is not a Parquet file.
    """
    recorded = _recorded(read_footer(location, file), file.name)
    if recorded is None:
        raise Unsupported(
            f"{file.name} does not record a schema of Spark, and there is no session to infer one",
            hint=f"{GIVE_SCHEMA}; read_table and write_table of lakecli.spark infer it",
        )
    return schema_of_json(recorded, file.name)


def _recorded(footer: bytes, name: str) -> bytes | None:
    """Return the JSON of Spark's schema in the footer of a Parquet file, or ``None``."""
    try:
        metadata: dict[bytes, bytes] | None = pq.read_metadata(pa.BufferReader(footer)).metadata
    except (pa.ArrowException, OSError) as error:  # Arrow raises both
        raise UsageError(f"cannot read the schema of {name}: {error}") from error
    return (metadata or {}).get(_ROW_METADATA)


def schema_of_json(text: str | bytes, name: str) -> StructType:
    """Parse Spark's JSON description of a schema; return the schema with all columns nullable.

    For a user-defined type, Java would load the class that the JSON names, and PySpark would import
    the named module or run a class in the JSON. So user-defined types other than Spark's own are
    rejected.

    Raises:
        Unsupported: the schema has a user-defined type that is not one of Spark's own.
        UsageError: the JSON is damaged or too large.
    """
    parsed = _parsed(text, name)
    try:
        return cast("StructType", nullable(StructType.fromJson(parsed)))
    except (PySparkException, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UsageError(
            f"the schema that {name} records is damaged: {error}", hint=GIVE_SCHEMA
        ) from error


def _parsed(text: str | bytes, name: str) -> dict[str, Any]:
    try:
        parsed = parse_json(text, max_size=_MAX_SIZE, max_depth=_MAX_DEPTH)
    except Unparsable as error:
        raise UsageError(
            f"the schema of {name} is damaged or too large: {error}", hint=GIVE_SCHEMA
        ) from None
    _check_classes(parsed, name)
    return cast("dict[str, Any]", parsed)


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
    """Return a type with all its fields, elements and values made nullable."""
    if isinstance(kind, ArrayType):
        return ArrayType(nullable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(nullable(kind.keyType), nullable(kind.valueType))
    if isinstance(kind, StructType):
        fields = ((each.name, nullable(each.dataType), each.metadata) for each in kind.fields)
        return StructType([StructField(name, of, metadata=more) for name, of, more in fields])
    return kind

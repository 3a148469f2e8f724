"""The columns of each kind of rows of the data source."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import TYPE_CHECKING, Final

from lakecli.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

ENTRIES: Final = "entries"
COMMITS: Final = "commits"
REFS: Final = "refs"
DIFF: Final = "diff"

COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    ENTRIES: {
        "path": "string",
        "physical_address": "string",
        "size": "bigint",
        "checksum": "string",
        "mtime": "timestamp",
        "content_type": "string",
        "metadata": "map<string,string>",
        "range_id": "string",
    },
    COMMITS: {
        "id": "string",
        "parents": "array<string>",
        "message": "string",
        "committer": "string",
        "created_at": "timestamp",
        "metadata": "map<string,string>",
        "metarange_id": "string",
        "generation": "bigint",
    },
    REFS: {"kind": "string", "name": "string", "commit_id": "string"},
    DIFF: {
        "type": "string",
        "path": "string",
        "left_size": "bigint",
        "left_checksum": "string",
        "right_size": "bigint",
        "right_checksum": "string",
    },
}
"""Names and Spark types of the columns, in order, by kind of rows."""


def chosen(what: str, columns: str) -> str:
    """Return the schema of some columns of a kind of rows; of all if `columns` is empty.

    Args:
        what: the kind of rows.
        columns: names separated by commas.

    Raises:
        UsageError: a column does not exist, or is named twice.
    """
    known = COLUMNS[what]
    names = [name.strip() for name in columns.split(",")] if columns.strip() else list(known)
    for at, name in enumerate(names):
        if name not in known or name in names[:at]:
            problem = "named twice" if name in known else "unknown"
            raise UsageError(
                f"column {name!r} of {what} is {problem}", hint=f"columns: {', '.join(known)}"
            )
    return ", ".join(f"{name} {known[name]}" for name in names)


def chosen_fields(schema: StructType, columns: str) -> StructType:
    """Return some columns of a table; all if `columns` is empty.

    Args:
        schema: all columns.
        columns: names separated by commas.

    Raises:
        UsageError: a column does not exist.
    """
    from pyspark.sql.types import StructType

    known = {field.name.lower(): field for field in schema.fields}
    names = [name.strip() for name in columns.split(",")] if columns.strip() else list(known)
    for name in names:
        if name.lower() not in known:
            raise UsageError(
                f"column {name!r} of the table is unknown",
                hint=f"columns: {', '.join(schema.names)}",
            )
    return StructType([known[name.lower()] for name in names])


def check_schema(what: str, schema: StructType) -> None:
    """Refuse a schema with other columns or types than a kind of rows has.

    Raises:
        UsageError: a column or its type differs.
    """
    known = COLUMNS[what]
    for field in schema.fields:
        expected = known.get(field.name)
        if expected != field.dataType.simpleString():
            is_type = f"{expected}, not {field.dataType.simpleString()}"
            raise UsageError(
                f"column {field.name!r} of {what} is {is_type if expected else 'unknown'}",
                hint=", ".join(f"{name} {kind}" for name, kind in known.items()),
            )


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects of rows with a schema."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # PySpark 4.1 has no parameter for the time zone, which is UTC there.
    if "timezone" not in signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema)
    return to_arrow_schema(schema, timezone="UTC")

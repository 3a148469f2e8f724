"""Define the columns of entries, commits, refs and differences; decode entries into columns.

Paths and Spark's strings are both bytes, so paths are passed on unchanged even if they are not
UTF-8. Arrays are made from buffers, because `pyarrow.array` imports pandas, which loads slowly.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructType

from lakecli.errors import UsageError
from lakecli.exports.entry_columns import columns_of, paths_of

ENTRIES: Final = "entries"
COMMITS: Final = "commits"
REFS: Final = "refs"
DIFF: Final = "diff"

_SCHEMAS: Final = {
    ENTRIES: "path string, physical_address string, size bigint, checksum string, mtime timestamp, "
    "content_type string, metadata map<string,string>, range_id string",
    COMMITS: "id string, parents array<string>, message string, committer string, "
    "created_at timestamp, metadata map<string,string>, metarange_id string, generation bigint",
    REFS: "kind string, name string, commit_id string",
    DIFF: "type string, path string, left_size bigint, left_checksum string, "
    "right_size bigint, right_checksum string",
}

COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    what: dict(column.split(" ", 1) for column in schema.split(", "))
    for what, schema in _SCHEMAS.items()
}
"""For each kind of rows, the names and Spark types of the columns, in order."""

RANGE_ID: Final = "range_id"

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")


BATCH: Final = 16_384
"""The number of records at which a batch is complete.

Batches consist of whole blocks, so a batch may have more records.
"""


def chosen(what: str, columns: str) -> str:
    """Return the schema of the chosen columns, in Spark's DDL.

    Args:
        what: the kind of rows, a key of `COLUMNS`.
        columns: the names of the columns, separated by commas; empty for all.

    Raises:
        UsageError: a column is unknown, or named twice.
    """
    known = COLUMNS[what]
    names = [name.strip() for name in columns.split(",")] if columns.strip() else list(known)
    for at, name in enumerate(names):
        if name not in known or name in names[:at]:
            problem = "named twice" if name in known else "unknown"
            hint = f"columns: {', '.join(known)}"
            raise UsageError(f"column {name!r} of {what} is {problem}", hint=hint)
    return ", ".join(f"{name} {known[name]}" for name in names)


def check_schema(what: str, schema: StructType) -> None:
    """Raise `UsageError` unless each column of a schema is a column of `what` with that type."""
    known = COLUMNS[what]
    for field in schema.fields:
        expected = known.get(field.name)
        if expected != field.dataType.simpleString():
            is_type = f"{expected}, not {field.dataType.simpleString()}"
            raise UsageError(
                f"column {field.name!r} of {what} is {is_type if expected else 'unknown'}",
                hint=", ".join(f"{name} {kind}" for name, kind in known.items()),
            )


def decode_batch(
    keys: Sequence[bytes], values: Sequence[bytes], wanted: Collection[str]
) -> dict[str, pa.Array]:
    """Return the wanted columns of records, without the range ID, which is not in records."""
    columns: dict[str, pa.Array] = {}
    if "path" in wanted:
        columns["path"] = paths_of(keys)
    rest = [name for name in wanted if name not in {"path", RANGE_ID}]
    if rest:
        found = columns_of(values)
        columns |= {name: found[name] for name in rest}
        if "mtime" in rest:
            columns["mtime"] = columns["mtime"].cast(TIMESTAMP)
    return columns

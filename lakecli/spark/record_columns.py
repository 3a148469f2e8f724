"""The columns of entries, commits, refs and differences, and decoding entries into columns.

Paths are bytes, as are Spark's strings, so they pass unchanged even if they are not UTF-8. Arrays
are made from buffers, because `pyarrow.array` imports pandas, which loads slowly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructType

from lakecli.errors import UsageError
from lakecli.exports.entry_columns import columns_of, paths_of

Records = tuple[list[bytes], list[bytes]]
"""Keys and values."""

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
"""Names and Spark types of the columns, in order, by kind of rows."""

RANGE_ID: Final = "range_id"

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")

BATCH: Final = 16_384
"""Records decoded together, at most, except for those of the last block."""

BATCH_SIZE: Final = 64 << 20
"""Bytes of keys and values decoded together, with the same exception."""


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
            raise UsageError(
                f"column {name!r} of {what} is {problem}", hint=f"columns: {', '.join(known)}"
            )
    return ", ".join(f"{name} {known[name]}" for name in names)


def check_schema(what: str, schema: StructType) -> None:
    """Raise `UsageError` if a kind of rows does not have a column of a schema, or its type."""
    known = COLUMNS[what]
    for field in schema.fields:
        expected = known.get(field.name)
        if expected != field.dataType.simpleString():
            is_type = f"{expected}, not {field.dataType.simpleString()}"
            raise UsageError(
                f"column {field.name!r} of {what} is {is_type if expected else 'unknown'}",
                hint=", ".join(f"{name} {kind}" for name, kind in known.items()),
            )


def batched(blocks: Iterable[Records]) -> Iterator[Records]:
    """Yield the keys and values of several blocks at a time, which are decoded together.

    A block has at most 128 MiB, and 96 MiB that its keys share, so no column reaches 2 GiB.
    """
    keys: list[bytes] = []
    values: list[bytes] = []
    size = 0
    for more_keys, more_values in blocks:
        keys += more_keys
        values += more_values
        size += sum(map(len, more_keys)) + sum(map(len, more_values))
        if len(keys) >= BATCH or size >= BATCH_SIZE:
            yield keys, values
            keys, values, size = [], [], 0
    if keys:
        yield keys, values


def decode_batch(
    keys: Sequence[bytes], values: Sequence[bytes], wanted: Collection[str]
) -> dict[str, pa.Array]:
    """Return the wanted columns of records, except the range ID, which records do not contain."""
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

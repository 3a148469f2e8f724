"""Entries as columns of Arrow, for manifests and DataFrames of entries.

The compiled core creates the buffers of the columns. Without the compiled core, or if an entry has
an unusual form, entries are decoded one by one. This also finds damaged entries.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa

from lakecli import native
from lakecli.committed.values import MalformedValue, decode_entry
from lakecli.repository.reading.addresses import is_external

SCHEMA: Final = pa.schema(
    {
        "path": pa.string(),
        "physical_address": pa.string(),
        "size": pa.int64(),
        "checksum": pa.string(),
        "mtime": pa.timestamp("s", tz="UTC"),
        "content_type": pa.string(),
        "metadata": pa.map_(pa.string(), pa.string()),
    }
)

Records = tuple[list[bytes], list[bytes]]
"""Keys and values of records, two lists of the same length."""

BATCH_SIZE: Final = 64 << 20
"""The bytes of keys and values at which a batch is complete; its last block may exceed them."""

_FIELDS: Final = [*SCHEMA][1:]
_MAX_OFFSET = (1 << 31) - 1


def columns_of(values: Sequence[bytes], *, namespace: str = "") -> dict[str, pa.Array]:
    """Return the columns of entries, without the path.

    Args:
        values: the encoded entries.
        namespace: the prefix for addresses that are not URIs.

    Raises:
        MalformedValue: an entry is damaged, or the values together are too large for one column.
    """
    _check_size(values, "values")
    core = native.core()
    found = None if core is None else core.entry_columns(list(values), namespace.encode())
    return _one_by_one(values, namespace) if found is None else _arrays(found, len(values))


def _arrays(found: tuple[Any, ...], count: int) -> dict[str, pa.Array]:
    """Return the Arrow columns for the buffers that the compiled core created."""
    addresses, sizes, checksums, seconds, types, pairs, keys, texts = found

    def numbers(kind: pa.DataType, data: bytes, count: int) -> pa.Array:
        return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(data)])

    def strings(column: tuple[bytes, bytes]) -> pa.Array:
        offsets, data = map(pa.py_buffer, column)
        return pa.Array.from_buffers(pa.string(), offsets.size // 4 - 1, [None, offsets, data])

    offsets = numbers(pa.int32(), pairs, count + 1)
    columns = (
        strings(addresses),
        numbers(pa.int64(), sizes, count),
        strings(checksums),
        numbers(SCHEMA.field("mtime").type, seconds, count),
        strings(types),
        pa.MapArray.from_arrays(offsets, strings(keys), strings(texts)),
    )
    return _named(columns)


def _one_by_one(values: Sequence[bytes], namespace: str) -> dict[str, pa.Array]:
    """Return the same columns as the compiled core, for entries of any form."""
    rows = (
        (
            entry.physical_address if is_external(entry) else namespace + entry.physical_address,
            entry.size,
            entry.checksum,
            entry.modified_at,
            entry.content_type,
            list(entry.metadata.items()),
        )
        for entry in map(decode_entry, values)
    )
    columns = list(zip(*rows, strict=True)) or [()] * len(_FIELDS)
    return _named(map(pa.array, columns, [field.type for field in _FIELDS]))


def _named(columns: Iterable[pa.Array]) -> dict[str, pa.Array]:
    return {field.name: column for field, column in zip(_FIELDS, columns, strict=True)}


def paths_of(keys: Sequence[bytes]) -> pa.Array:
    """Return paths as a column of strings; a path need not be UTF-8.

    Raises:
        MalformedValue: the paths together are too large for one column.
    """
    _check_size(keys, "paths")
    offsets = array("i", accumulate(map(len, keys), initial=0))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(keys))]
    return pa.Array.from_buffers(pa.string(), len(keys), buffers)


def _check_size(texts: Sequence[bytes], what: str) -> None:
    """Refuse texts whose total size exceeds Arrow's 32-bit offsets."""
    if (size := sum(map(len, texts))) > _MAX_OFFSET:
        raise MalformedValue(f"{len(texts)} {what} with {size} bytes")


def batched(blocks: Iterable[Records], *, rows: int) -> Iterator[Records]:
    """Join blocks of keys and values to larger batches, which are decoded together.

    A block has at most 128 MiB, and its keys share at most 96 MiB, so no column reaches 2 GiB.

    Args:
        rows: the number of records at which a batch is complete; its last block may exceed it.
    """
    keys: list[bytes] = []
    values: list[bytes] = []
    size = 0
    for more_keys, more_values in blocks:
        keys += more_keys
        values += more_values
        size += sum(map(len, more_keys)) + sum(map(len, more_values))
        if len(keys) >= rows or size >= BATCH_SIZE:
            yield keys, values
            keys, values, size = [], [], 0
    if keys:
        yield keys, values

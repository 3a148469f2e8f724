"""The ID that a range or metarange must have, computed from its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final

from lakecli.committed.ranges import is_ours
from lakecli.committed.values import digests
from lakecli.identity import frame_map, tree_id
from lakecli.sstable.reader import Table

_LAKEFS_PROPERTIES: Final = ("entity", "schema_definition", "schema_name", "type")
"""The properties that lakeFS hashes into a table's name."""


def name_of_table(table: Table, keys: Sequence[bytes], values: Sequence[bytes]) -> str:
    """Return the name that a table must have, by the rule of the program that wrote it.

    Args:
        table: its properties say who wrote it.
        keys: of all its records.
        values: of all its records, encoded.

    Raises:
        MalformedValue: a value has no identity.
    """
    if is_ours(table):
        return name_of_records(keys, values)
    return _lakefs_name(table.properties, keys, values)


def name_of_records(keys: Sequence[bytes], values: Sequence[bytes]) -> str:
    """Return the name that lakecli gives a table of these records.

    Raises:
        MalformedValue: a value has no identity.
    """
    return tree_id([digests(keys, values)[1]])


def _lakefs_name(
    properties: Mapping[str, bytes], keys: Sequence[bytes], values: Sequence[bytes]
) -> str:
    """Compute the name that lakeFS gives a table."""
    digest = sha256()
    for key, value in zip(keys, values, strict=True):
        digest.update(b"%d%b|%d%b|" % (len(key), key, len(value), value))
    known = {
        name: properties[name].decode("utf-8", "surrogateescape")
        for name in _LAKEFS_PROPERTIES
        if name in properties
    }
    digest.update(frame_map(known))
    return digest.hexdigest()

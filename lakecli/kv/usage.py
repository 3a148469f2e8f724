"""The space that the local store uses."""

from __future__ import annotations

from typing import NamedTuple


class Usage(NamedTuple):
    """The space that a store uses.

    Attributes:
        schema_version: of the store.
        map_size: bytes that the store can hold in this process.
        used: bytes in use, including those of deleted records.
    """

    schema_version: int
    map_size: int
    used: int

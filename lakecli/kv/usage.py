"""How full the local store is."""

from __future__ import annotations

from typing import NamedTuple


class Usage(NamedTuple):
    """What a store takes.

    Attributes:
        schema_version: of everything in it.
        map_size: bytes that it can hold at most, in this process.
        used: bytes of the map in use, those of deleted records included.
    """

    schema_version: int
    map_size: int
    used: int

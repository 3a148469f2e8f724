"""How much `fsck` checks, and what does the bulk of the work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakecli.committed.metaranges import RangeRecord
    from lakecli.model import RangeId
    from lakecli.repository.core.data_index import DataIndex, DataObject, Hashed, ListedPart


class Sound(NamedTuple):
    """A range without problems.

    Attributes:
        entries: the number of its entries.
        outside: places outside the namespace, and how many entries have their bytes in each.
    """

    entries: int
    outside: Mapping[str, int]


class Bulk(Protocol):
    """Does the work that grows with the data, for example on Spark."""

    def list_objects(self) -> Iterator[ListedPart] | None:
        """List ``data/`` in parts, in any order; ``None`` if `fsck` itself is to list it."""

    def hash_objects(self, objects: Iterator[DataObject]) -> Iterator[Hashed]:
        """Read data objects and compare their digests with their names, in any order."""

    def sound_ranges(
        self, records: Iterator[RangeRecord], index: DataIndex
    ) -> Mapping[RangeId, Sound]:
        """Return the ranges without problems; `fsck` itself reads the others."""


@dataclass(frozen=True, slots=True)
class Thoroughness:
    """How much to check.

    Attributes:
        hash_data: read data objects and compare their BLAKE3 digests with their names.
        sample: the share of the data objects to read, from 0 to 1.
        bulk: does the work that grows with the data; ``None``: this process.
        external: request every object outside the namespace and compare it with its entry.
    """

    hash_data: bool = False
    sample: float = 1.0
    bulk: Bulk | None = None
    external: bool = False

"""How much `fsck` checks, and what does the bulk of the work."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from lakecli.base.model import RangeId
from lakecli.committed.check import CheckedEntry, Problem
from lakecli.committed.metaranges import RangeRecord
from lakecli.repository.data_index import DataObject, Hashed, ObjectIndex
from lakecli.repository.reading.recorded import Compared, Contents


class Sound(NamedTuple):
    """A range without problems.

    Attributes:
        entries: the number of its entries.
        outside: places outside the namespace, and how many entries have their bytes in each.
    """

    entries: int
    outside: Mapping[str, int]


class AheadIndex(ObjectIndex):
    """An index that looks up all references at once, before the ranges are checked one by one."""

    @abstractmethod
    def look_ahead(self, ranges: Iterator[RangeRecord], staged: Iterator[Contents]) -> None:
        """Check ranges, and look up what their entries and others refer to.

        Args:
            ranges: each of a repository once.
            staged: other references.
        """

    @abstractmethod
    def compared(self, key: str, checksum: str) -> Compared | None:
        """Return the result of comparing an object of lakeFS with the checksum of an entry.

        ``None``: it was not compared.
        """

    @abstractmethod
    def sound(self, range_id: RangeId) -> Sound | None:
        """Return what is known of a range without problems; ``None`` if it has to be read."""

    @abstractmethod
    def take_up(
        self, range_id: RangeId, items: Iterator[CheckedEntry | Problem]
    ) -> Iterable[CheckedEntry | Problem]:
        """Return the items of a range that was read again, whose entries are looked up next."""


class Bulk(Protocol):
    """Does the work that grows with the data, for example on Spark."""

    def hash_objects(self, objects: Iterator[DataObject]) -> Iterator[Hashed]:
        """Read data objects and compare their digests with their names, in any order."""

    def open_index(self, *, compares: bool) -> AheadIndex | None:
        """Return an empty index; ``None`` if this process is to look references up.

        Args:
            compares: whether the contents of lakeFS's objects are compared with their entries.
        """


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

    @property
    def compares(self) -> bool:
        """Whether the contents of lakeFS's objects are compared with their entries."""
        return self.hash_data and self.sample >= 1

"""What was condemned, kept in the bucket so that any machine can go on.

::

    _lakecli/gc/marks/<epoch>-<id>/data-<prefix>   data objects: 32 bytes of digest, 8 of size each
    _lakecli/gc/marks/<epoch>-<id>/others          all other keys, one JSON object a line
    _lakecli/gc/marks/<epoch>-<id>/trees           metaranges that were followed, 32 bytes each
    _lakecli/gc/marks/<epoch>-<id>/ranges          ranges that were read, likewise

What was read refers to nothing that is condemned, so a sweep does not read it again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.errors import IntegrityError
from lakecli.layout import GC
from lakecli.objectstore.base import ANY, ObjectNotFound
from lakecli.pipeline.gc.reach import ids_of, pack_ids
from lakecli.remote.collection import EXPIRED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakecli.objectstore.base import ObjectStore

MARKS: Final = GC + "marks/"
_DATA: Final = "data-"


class Doomed(NamedTuple):
    """An object that is condemned, other than data: its key, size in bytes, and kind."""

    key: str
    size: int
    kind: str


class LostMarks(IntegrityError):
    """The list of what was condemned is not there."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"the list of what was condemned is missing or damaged: {key}",
            hint="take the condemnation back: lakecli gc undo lakefs://REPOSITORY",
        )


class Marks:
    """The lists of one condemnation.

    Args:
        store: the namespace.
        name: ``<epoch>-<id>``.
    """

    def __init__(self, store: ObjectStore, name: str) -> None:
        self._store = store
        self.prefix = f"{MARKS}{name}/"

    def put_data(self, part: str, records: bytes) -> None:
        """Write the condemned data objects of one part of the listing."""
        self._put(_DATA + part, records)

    def put_others(self, doomed: Iterable[Doomed]) -> None:
        """Write all other condemned objects."""
        lines = [json.dumps(each._asdict(), separators=(",", ":")) + "\n" for each in doomed]
        self._put("others", "".join(lines).encode("ascii"))

    def put_read(self, trees: Iterable[str], ranges: Iterable[str]) -> None:
        """Write what was read."""
        self._put("trees", pack_ids(trees))
        self._put("ranges", pack_ids(ranges))

    def data_parts(self) -> list[str]:
        """Return the names of the parts of data objects."""
        start = self.prefix + _DATA
        return [info.key.removeprefix(start) for info in self._store.list(start)]

    def data(self, part: str) -> bytes:
        """Return the records of a part."""
        return self._get(_DATA + part)

    def others(self) -> list[Doomed]:
        """Return all other condemned objects."""
        return [Doomed(**json.loads(line)) for line in self._get("others").splitlines()]

    def read_trees(self) -> set[str]:
        """Return the metaranges that were read."""
        return set(ids_of(self._get("trees")))

    def read_ranges(self) -> set[str]:
        """Return the ranges that were read."""
        return set(ids_of(self._get("ranges")))

    def delete(self) -> None:
        """Delete the lists."""
        self._store.delete([info.key for info in self._store.list(self.prefix)])

    def _put(self, name: str, body: bytes) -> None:
        self._store.put(self.prefix + name, body, ANY)

    def _get(self, name: str) -> bytes:
        try:
            return self._store.get(self.prefix + name)
        except ObjectNotFound:
            raise LostMarks(self.prefix + name) from None


def add_expired(store: ObjectStore, epoch: int, trees: Iterable[str]) -> None:
    """Note metaranges that are about to be deleted because no retained commit has them."""
    body = pack_ids(trees)
    if body:
        store.put(f"{EXPIRED}{epoch}", body, ANY)

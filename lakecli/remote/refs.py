"""Reading the refs of a bucket: one of them, their listing, or all of them in parallel."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lakecli.objectstore.base import ObjectStore, Version
    from lakecli.remote.records import RemoteRef

PARALLEL_READS = 16


class Listed(NamedTuple):
    """A ref as the listing knows it: its version tells whether it moved since it was last read."""

    kind: str
    name: str
    version: Version


def find_ref(store: ObjectStore, kind: str, name: str) -> RemoteRef | None:
    """Return a ref, deleted or not, or ``None`` if there never was one.

    Raises:
        NotOurs: the object in its place is no ref object of ours.
    """
    raise NotImplementedError


def iter_refs(store: ObjectStore) -> Iterator[Listed]:
    """Yield the refs, deleted ones too, in the order of their keys; what is no ref is passed over.

    One LIST; a store may list a new ref late.
    """
    raise NotImplementedError


def read_refs(
    store: ObjectStore, wanted: Iterable[Listed], *, parallelism: int = PARALLEL_READS
) -> Iterator[RemoteRef]:
    """Yield refs in the order of `wanted`, one GET each; those that are not there are left out.

    Raises:
        NotOurs: an object in the place of one is no ref object of ours.
    """
    raise NotImplementedError

"""Deleting objects only if they are still of the version that was looked at.

Between looking at an object and deleting it, somebody may write it again, with the same bytes, to
take it into use. So a version is enough of a condition only where every write makes another one,
also a write of the same bytes:

- Google Cloud Storage has generations, Azure an ETag for each write;
- a directory has the inode and the time of a file, which are compared under the namespace's lock;
- S3 can compare the ETag (``If-Match``), but derives it from the bytes: an object that was written
  again looks the same. Comparing the time is for its directory buckets only. So S3 has none.

Where a store has none, whoever deletes has to exclude writers in another way, such as a lease.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from lakecli.objectstore.base import ObjectStore, Version

T = TypeVar("T")


class MatchingDeletes(Protocol):
    """A store that deletes on a condition. Safe to share between threads."""

    def delete_matching(self, objects: Iterable[tuple[str, Version]]) -> Collection[str]:
        """Delete objects that are still of these versions; a missing one is fine.

        Args:
            objects: keys and versions, as `ObjectStore.head` and `ObjectStore.list` tell them.

        Returns:
            The keys of objects that have another version and were kept.
        """


def matching_deletes_of(store: ObjectStore) -> MatchingDeletes | None:
    """Return `store` as one that deletes on a condition, or ``None`` where it cannot."""
    if getattr(store, "delete_matching", None) is None:
        return None
    return cast("MatchingDeletes", store)


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of `size` items, the last one of fewer."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch

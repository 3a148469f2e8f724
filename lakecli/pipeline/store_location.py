"""Where a repository's objects lie, in words that travel: what an executor opens stores from."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lakecli.committed.tree_store import TreeStore
    from lakecli.objectstore.base import ObjectStore
    from lakecli.repository.core.address import Resolver
    from lakecli.repository.core.gc_guard import GcGuard
    from lakecli.repository.core.lake import Repository


class StoreLocation(NamedTuple):
    """A repository's storage namespace, and what its entries may name outside it.

    Attributes:
        uri: normalised, without a trailing slash.
        region: of the bucket, or ``""``.
        range_entries: the tree parameter N.
        name: of the repository on the driver's machine, for messages.
        allowed: places outside the namespace that addresses may lead to.
    """

    uri: str
    region: str
    range_entries: int
    name: str = ""
    allowed: tuple[str, ...] = ()

    @classmethod
    def of(cls, repository: Repository) -> StoreLocation:
        """Return the location of a repository."""
        from lakecli.repository.core.places import trust_of

        record = repository.record
        return cls(
            record.storage_namespace,
            record.region,
            record.range_entries,
            record.name,
            trust_of(repository).allowed,
        )

    def store(self) -> ObjectStore:
        """Return the storage namespace, opened once per process."""
        return _open(self)

    def addresses(self) -> Resolver:
        """Return the way from an entry's address to its bytes, one for each process."""
        return _resolver(self)

    def trees(self) -> TreeStore:
        """Return its trees, read without a cache on disk."""
        from lakecli.committed.tree_store import TreeStore

        return TreeStore(
            _open(self), cache=None, range_entries=self.range_entries, guard=self.guard
        )

    def guard(self) -> GcGuard:
        """Return what keeps garbage collection from what this process takes into use."""
        return _guard(self)


@lru_cache(maxsize=16)
def _open(location: StoreLocation) -> ObjectStore:
    from lakecli.objectstore.registry import open_store

    return open_store(location.uri, region=location.region)


@lru_cache(maxsize=16)
def _resolver(location: StoreLocation) -> Resolver:
    from lakecli.repository.core.address import Resolver
    from lakecli.repository.core.places import Trust

    trust = Trust(location.name, location.uri, location.allowed)
    return Resolver(location.store, lambda: trust, region=location.region)


@lru_cache(maxsize=16)
def _guard(location: StoreLocation) -> GcGuard:
    from lakecli.repository.core.gc_guard import GcGuard

    return GcGuard(_open(location))

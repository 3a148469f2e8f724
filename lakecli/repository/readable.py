"""The parts of a repository that reading needs: its refs with their history, and committed trees.

A function that takes only these parts moves no ref and writes no object.
`lakecli.repository.contract.Repository` has the other parts, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lakecli.base.model import RepositoryRecord

if TYPE_CHECKING:
    from datetime import datetime

    from lakecli.committed.tree_store import TreeStore
    from lakecli.kv.bucket import TrackingStore
    from lakecli.kv.local_store import LocalStore, ReadTransaction
    from lakecli.refs.ref_store import RefStore
    from lakecli.stores.contract import ObjectStore


class Clock(Protocol):
    """A clock that returns the present time."""

    def now(self) -> datetime:
        """Return the present time in whole seconds."""


class LakeOfRefs(Protocol):
    """The lake whose local store holds the refs of a repository."""

    @property
    def kv(self) -> LocalStore:
        """The local store."""

    @property
    def runtime(self) -> Clock:
        """The clock, by which dates such as ``2 days ago`` are resolved."""


class Refs(Protocol):
    """The branches, tags and commits of a repository."""

    record: RepositoryRecord
    """The record of the repository in the local store."""
    uri: str
    """``lakefs://name``; if the repository is read without a clone, the URI of its namespace."""
    key: bytes
    """The first 16 bytes of the key of each row of the repository in the local store."""

    @property
    def lake(self) -> LakeOfRefs:
        """The lake to which the repository belongs."""

    @property
    def store(self) -> ObjectStore:
        """The store of the namespace; the first use imports its adapter, but sends no request."""

    def refs(self, txn: ReadTransaction) -> RefStore:
        """Return the branches, tags and commits, as one transaction sees them."""

    def tracking(self, txn: ReadTransaction) -> TrackingStore:
        """Return the refs of the bucket as this clone last read them."""

    def at(self, ref: str, path: str = "") -> str:
        """Return the URI of a path, or of a whole ref, as users type it."""


class Trees(Protocol):
    """The committed trees of a repository."""

    @property
    def trees(self) -> TreeStore:
        """The committed trees in the storage namespace, cached in the lake's home."""


class Readable(Refs, Trees, Protocol):
    """The refs of a repository, and the trees of their commits."""

"""What reading takes of a repository: its refs with their history, and its committed trees.

A function that takes no more moves no ref and writes no object, and is understood without what
does; `lakecli.repository.contract.Repository` is both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lakecli.base.model import RepositoryRecord

if TYPE_CHECKING:
    from datetime import datetime

    from lakecli.committed.tree_store import TreeStore
    from lakecli.kv.local_store import LocalStore
    from lakecli.stores.contract import ObjectStore


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """Return the present in whole seconds."""


class LakeOfRefs(Protocol):
    """The lake whose local store holds the refs of a repository."""

    @property
    def kv(self) -> LocalStore:
        """The local store."""

    @property
    def runtime(self) -> Clock:
        """Tells what a date such as ``2 days ago`` means."""


class Refs(Protocol):
    """The branches, tags and commits of a repository."""

    record: RepositoryRecord
    """What the local store holds of it."""
    uri: str
    """``lakefs://name``; of a repository that is read without a clone, that of its namespace."""
    key: bytes
    """The 16 bytes that its rows in the local store begin with."""

    @property
    def lake(self) -> LakeOfRefs:
        """The lake that it belongs to."""

    @property
    def store(self) -> ObjectStore:
        """The storage namespace; the first use imports its adapter, and sends no request."""

    def at(self, ref: str, path: str = "") -> str:
        """Return the URI of a path, or of all of a ref, as it is typed."""


class Trees(Protocol):
    """The objects of the commits of a repository."""

    @property
    def trees(self) -> TreeStore:
        """The committed trees in the storage namespace, cached in the lake's home."""


class Readable(Refs, Trees, Protocol):
    """Refs, and the objects of the commits that they name."""

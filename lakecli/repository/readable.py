"""The parts of a repository that reading needs: its refs with their history, and committed trees.

A function that takes only these parts moves no ref and writes no object. It can be understood
without the modules that do; `lakecli.repository.contract.Repository` can do both.
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
    """A clock."""

    def now(self) -> datetime:
        """Return the present in whole seconds."""


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
    """What the local store holds of it."""
    uri: str
    """``lakefs://name``; of a repository that is read without a clone, that of its namespace."""
    key: bytes
    """The 16 bytes that its rows in the local store begin with."""

    @property
    def lake(self) -> LakeOfRefs:
        """The lake to which the repository belongs."""

    @property
    def store(self) -> ObjectStore:
        """The storage namespace; the first use imports its adapter, and sends no request."""

    def at(self, ref: str, path: str = "") -> str:
        """Return the URI of a path, or of a whole ref, as users type it."""


class Trees(Protocol):
    """The committed trees of a repository."""

    @property
    def trees(self) -> TreeStore:
        """The committed trees in the storage namespace, cached in the lake's home."""


class Readable(Refs, Trees, Protocol):
    """The refs of a repository, and the trees of their commits."""

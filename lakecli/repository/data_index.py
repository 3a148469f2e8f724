"""An index of the data objects in a namespace: a listing of ``data/`` on disk, for fast look-ups.

The keys and sizes are in a temporary database of SQLite, which bounds the memory. Stores list keys
in ascending order, so the records are appended to it.

A store or a file system that fails to list something says nothing about it. What would be deleted
because it is not listed is therefore listed again, if more than a tenth is missing: see
`is_much_less`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from blake3 import blake3

from lakecli.base.layout import DATA, data_digest
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.errors import LakeError
from lakecli.stores.contract import ObjectNotFound
from lakecli.stores.streams import batches

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectInfo, ObjectStore

_PIECE: Final = 4 << 20
_BATCH: Final = 4_096

_OLD_KEY: Final = re.compile(r"[0-9a-v]{20}|[0-9a-f]{32}")
"""Keys that old lakeFS servers wrote, directly in the namespace."""


class ObjectIndex(ABC):
    """The data objects of a namespace, in which a check looks up what entries refer to.

    Use it as a context manager, which releases its resources at the end.

    Args:
        store: the namespace.

    Attributes:
        damaged: the defects of objects that were read, by key.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.damaged: dict[str, str] = {}

    def __enter__(self) -> Self:
        """Return the index itself."""
        return self

    def __exit__(self, *_: object) -> None:  # noqa: B027 - an index may have nothing to release
        """Do nothing."""

    def problem_of(self, key: str, size: int) -> str | None:
        """Return the defect of the object that an entry refers to, or ``None``.

        Args:
            key: a physical address inside the namespace.
            size: the size in the entry, in bytes.
        """
        if data_digest(key) is not None or key.startswith(DATA):
            present = self._find(key, size)
        elif is_old_key(key):
            present = size_of(self._store, key)
        else:
            return "its physical address is no key of a data object"
        if present is None:
            return "missing"
        if present != size:
            return f"{present} bytes where the entry says {size}"
        return self.damaged.get(key)

    @abstractmethod
    def _find(self, key: str, size: int) -> int | None:
        """Return the size of an object below ``data/``, or ``None`` if it does not exist.

        Args:
            key: the key of the object.
            size: the size that is expected.
        """


class DataIndex(ObjectIndex):
    """The index of one listing, on disk.

    Attributes:
        count: the number of objects below ``data/``, as far as they were listed.
    """

    def __init__(self, store: ObjectStore) -> None:
        import sqlite3  # only checks need it

        super().__init__(store)
        self.count = 0
        # A file of this process alone. The runner of a check may list in another thread.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for line in (
            "PRAGMA journal_mode = OFF",
            "PRAGMA cache_size = -65536",
            "CREATE TABLE objects (key BLOB PRIMARY KEY, size INTEGER) WITHOUT ROWID",
            "BEGIN",  # one transaction, or each object would be written by itself
        ):
            self._database.execute(line)

    def __exit__(self, *_: object) -> None:
        """Delete it."""
        self._database.close()

    def fill(self) -> Iterator[ObjectInfo]:
        """List the data objects; yield those that lakecli named, as they are added."""
        for infos in batches(self._store.list(DATA), _BATCH):
            self._database.executemany(
                "INSERT OR REPLACE INTO objects VALUES (?, ?)",
                [(_as_bytes(info.key), info.size) for info in infos],
            )
            self.count += len(infos)
            yield from (info for info in infos if data_digest(info.key) is not None)

    def _find(self, key: str, size: int) -> int | None:
        del size
        query = "SELECT size FROM objects WHERE key = ?"
        found = self._database.execute(query, (_as_bytes(key),)).fetchone()
        return None if found is None else int(found[0])


def _as_bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")


class Hashed(NamedTuple):
    """A data object that was read.

    Attributes:
        what: its defect, or ``None``.
        size: bytes that were read.
    """

    key: str
    what: str | None
    size: int


def check_object(store: ObjectStore, key: str, progress: Progress = NO_PROGRESS) -> Hashed:
    """Read a data object and compare its digest with its name."""
    hasher = blake3()
    size = 0
    try:
        with store.open(key) as source:
            while piece := source.read(_PIECE):
                hasher.update(piece)
                size += len(piece)
                progress.advance(size=len(piece))
    except LakeError as error:
        return Hashed(key, f"cannot be read: {error.message}", size)
    if hasher.hexdigest() != data_digest(key):
        return Hashed(key, f"its bytes have another BLAKE3: {hasher.hexdigest()}", size)
    return Hashed(key, None, size)


def is_old_key(key: str) -> bool:
    """Return whether a key is one of old lakeFS servers: outside ``data/``, so not in the index."""
    return _OLD_KEY.fullmatch(key) is not None


def size_of(store: ObjectStore, key: str) -> int | None:
    """Return the size of an object by one request; ``None`` if it does not exist."""
    try:
        return store.head(key).size
    except ObjectNotFound:
        return None


def is_much_less(found: int, before: int) -> bool:
    """Return whether more than a tenth of what was there before was not found."""
    return found * 10 < before * 9

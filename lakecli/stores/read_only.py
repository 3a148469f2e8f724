"""Stores made of others: a namespace under a directory of this machine, or for reading only.

- `OverlayStore`: what is read comes from a directory, and else from a namespace that belongs to
  others; whatever is written goes into the directory. So commits can be made on top of a namespace
  without writing to it.
- `ReadOnlyStore`: every write is refused before a request is sent.
- `AtVersion`: reads are of one version of an object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from heapq import merge
from typing import Any, BinaryIO, NoReturn, TypeVar

from lakecli.errors import Refused, Unsupported
from lakecli.stores.capabilities import VersionedStore, versions_of
from lakecli.stores.contract import (
    ANY,
    PLAIN,
    Absent,
    Attributes,
    Condition,
    ConditionFailed,
    ObjectInfo,
    ObjectNotFound,
    ObjectStore,
    Version,
    WriteBatch,
    exists,
    key_bytes,
)
from lakecli.stores.presigned_urls import PresignedUrl, PresignRequest

T = TypeVar("T")


class OverlayStore:
    """Two namespaces that read as one.

    Args:
        upper: takes all writes; what it has hides what is below.
        lower: is read, and never written.
    """

    def __init__(self, upper: ObjectStore, lower: ObjectStore) -> None:
        self.upper = upper
        self.lower = lower

    @property
    def uri(self) -> str:
        """The URI of the namespace below."""
        return self.lower.uri

    def _read(self, read: Callable[[ObjectStore], T]) -> T:
        try:
            return read(self.upper)
        except ObjectNotFound:
            return read(self.lower)

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """See `ObjectStore.get`."""
        return self._read(lambda store: store.get(key, start=start, length=length))

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        """See `ObjectStore.get_versioned`."""
        return self._read(lambda store: store.get_versioned(key, length=length))

    def open(self, key: str) -> BinaryIO:
        """See `ObjectStore.open`."""
        return self._read(lambda store: store.open(key))

    def put(
        self, key: str, body: bytes | BinaryIO, condition: Condition, attributes: Attributes = PLAIN
    ) -> Version:
        """See `ObjectStore.put`; an object below counts as being there."""
        if isinstance(condition, Absent) and exists(self.lower, key):
            raise ConditionFailed(f"{key} is there already")
        return self.upper.put(key, body, condition, attributes)

    def put_new(self, key: str, body: bytes) -> bool:
        """See `ObjectStore.put_new`."""
        return not exists(self.lower, key) and self.upper.put_new(key, body)

    def head(self, key: str) -> ObjectInfo:
        """See `ObjectStore.head`."""
        return self._read(lambda store: store.head(key))

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """See `ObjectStore.list`."""
        last = None
        both = (store.list(prefix, after=after) for store in (self.upper, self.lower))
        for info in merge(*both, key=lambda info: key_bytes(info.key)):
            if info.key != last:
                yield info
            last = info.key

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects of the upper namespace; those below stay."""
        self.upper.delete(keys)

    def copy(self, source: str, key: str) -> None:
        """See `ObjectStore.copy`."""
        try:
            self.upper.copy(source, key)
        except ObjectNotFound:
            with self.lower.open(source) as body:
                self.upper.put(key, body, ANY)

    def presign(self, key: str, request: PresignRequest, *, now: datetime) -> PresignedUrl:
        """Sign a URL for an object below; what is only on this machine has none."""
        is_below = request.method == "GET" and not exists(self.upper, key)
        return (self.lower if is_below else self.upper).presign(key, request, now=now)

    def local_path(self, key: str) -> str | None:
        """See `ObjectStore.local_path`."""
        return self.upper.local_path(key) or self.lower.local_path(key)

    def batch(self) -> WriteBatch:
        """See `ObjectStore.batch`."""
        return self.upper.batch()


class ReadOnlyStore:
    """A namespace for reading.

    Args:
        store: the namespace.
        hint: of the errors of writes.
    """

    def __init__(self, store: ObjectStore, *, hint: str) -> None:
        self._store = store
        self._hint = hint
        self._options: dict[str, Any] = {}

    @property
    def uri(self) -> str:
        """See `ObjectStore.uri`."""
        return self._store.uri

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """See `ObjectStore.get`."""
        return self._store.get(key, start=start, length=length, **self._options)

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        """See `ObjectStore.get_versioned`."""
        return self._store.get_versioned(key, length=length)

    def open(self, key: str) -> BinaryIO:
        """See `ObjectStore.open`."""
        return self._store.open(key, **self._options)

    def head(self, key: str) -> ObjectInfo:
        """See `ObjectStore.head`."""
        return self._store.head(key, **self._options)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """See `ObjectStore.list`."""
        return self._store.list(prefix, after=after)

    def presign(self, key: str, request: PresignRequest, *, now: datetime) -> PresignedUrl:
        """See `ObjectStore.presign`; a URL for writing is refused."""
        if request.method != "GET":
            self.put()
        return self._store.presign(key, request, now=now, **self._options)

    def local_path(self, key: str) -> str | None:
        """See `ObjectStore.local_path`."""
        return self._store.local_path(key)

    def put(self, *_args: object, **_options: object) -> NoReturn:
        """Refuse.

        Raises:
            Refused: always.
        """
        raise Refused(f"{self.uri} is read without a clone, which cannot write", hint=self._hint)

    put_new = delete = copy = batch = put


class AtVersion(ReadOnlyStore):
    """A store whose reads are of one version of an object; an ID is of one object only.

    Args:
        store: keeps versions.
        version_id: of the version to read.
    """

    def __init__(self, store: VersionedStore, version_id: str) -> None:
        super().__init__(store, hint="")
        self._options = {"version_id": version_id}

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        """Return the bytes and the version, by two requests; a version does not change."""
        return self.get(key, length=length), self.head(key).version

    def put(self, *_args: object, **_options: object) -> NoReturn:
        """Refuse.

        Raises:
            Unsupported: always.
        """
        raise Unsupported(f"a version of an object can only be read: {self.uri}")

    put_new = list = delete = copy = batch = put


def at_version(store: ObjectStore, version_id: str) -> ObjectStore:
    """Return `store` reading one version of its objects; with ``""``, `store` itself.

    Raises:
        Unsupported: the store cannot read versions.
    """
    return AtVersion(versions_of(store), version_id) if version_id else store

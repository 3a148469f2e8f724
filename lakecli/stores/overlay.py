"""Namespaces that belong to others: with a directory of this machine on top, or only read.

A namespace that belongs to others, with a directory of this machine on top that takes writes.

What is read comes from the directory, and else from the namespace below it; whatever is written
goes into the directory. So commits can be made on top of a namespace without writing to it.

A namespace that is read and never written: every write is refused before a request is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from heapq import merge
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from lakecli.errors import Refused
from lakecli.stores.base import (
    ANY,
    PLAIN,
    Absent,
    Attributes,
    Condition,
    ConditionFailed,
    ObjectInfo,
    ObjectNotFound,
    Version,
    exists,
    key_bytes,
)
from lakecli.stores.presigning import PresignedUrl, PresignRequest
from lakecli.stores.streams import open_range

if TYPE_CHECKING:
    from lakecli.stores.base import Batch, ObjectStore


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

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """See `ObjectStore.get`."""
        try:
            return self.upper.get(key, start=start, length=length)
        except ObjectNotFound:
            return self.lower.get(key, start=start, length=length)

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        """See `ObjectStore.get_versioned`."""
        try:
            return self.upper.get_versioned(key, length=length)
        except ObjectNotFound:
            return self.lower.get_versioned(key, length=length)

    def open(self, key: str) -> BinaryIO:
        """See `ObjectStore.open`."""
        try:
            return self.upper.open(key)
        except ObjectNotFound:
            return self.lower.open(key)

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
        try:
            return self.upper.head(key)
        except ObjectNotFound:
            return self.lower.head(key)

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
        store = (
            self.lower if request.method == "GET" and not exists(self.upper, key) else self.upper
        )
        return store.presign(key, request, now=now)

    def local_path(self, key: str) -> str | None:
        """See `ObjectStore.local_path`."""
        return self.upper.local_path(key) or self.lower.local_path(key)

    def batch(self) -> Batch:
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

    @property
    def uri(self) -> str:
        """See `ObjectStore.uri`."""
        return self._store.uri

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """See `ObjectStore.get`."""
        return self._store.get(key, start=start, length=length)

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        """See `ObjectStore.get_versioned`."""
        return self._store.get_versioned(key, length=length)

    def open(self, key: str) -> BinaryIO:
        """See `ObjectStore.open`."""
        return self._store.open(key)

    def open_range(self, key: str, *, start: int, length: int) -> BinaryIO:
        """See `lakecli.stores.streams.open_range`."""
        return open_range(self._store, key, start=start, length=length)

    def head(self, key: str) -> ObjectInfo:
        """See `ObjectStore.head`."""
        return self._store.head(key)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """See `ObjectStore.list`."""
        return self._store.list(prefix, after=after)

    def presign(self, key: str, request: PresignRequest, *, now: datetime) -> PresignedUrl:
        """See `ObjectStore.presign`; a URL for writing is refused."""
        if request.method != "GET":
            self.put()
        return self._store.presign(key, request, now=now)

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

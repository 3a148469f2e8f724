"""Someone else's namespace, combined with a directory on this machine that receives all writes.

An object is read from the directory if it exists there, else from the namespace. So a user can
commit on top of a namespace without writing to the namespace.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from heapq import merge
from typing import BinaryIO, TypeVar

from lakecli.stores import contract
from lakecli.stores.contract import PLAIN, Attributes, Condition, ObjectInfo, ObjectStore, Version
from lakecli.stores.presigned_urls import PresignedUrl, PresignRequest

T = TypeVar("T")


class OverlayStore:
    """Two namespaces that are read as one.

    Args:
        upper: the namespace for all writes; an object of `upper` hides an object of `lower` with
            the same key.
        lower: the namespace that is only read, never written.
    """

    def __init__(self, upper: ObjectStore, lower: ObjectStore) -> None:
        self.upper = upper
        self.lower = lower

    @property
    def uri(self) -> str:
        """The URI of `lower`."""
        return self.lower.uri

    def _read(self, read: Callable[[ObjectStore], T]) -> T:
        try:
            return read(self.upper)
        except contract.ObjectNotFound:
            return read(self.lower)

    def get(
        self, key: str, *, start: int = 0, length: int | None = None, matching: str = ""
    ) -> bytes:
        """Return a range of an object; see `ObjectStore.get`."""
        return self._read(lambda one: one.get(key, start=start, length=length, matching=matching))

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        """Return an object and its version; see `ObjectStore.get_versioned`."""
        return self._read(lambda store: store.get_versioned(key, length=length))

    def open(self, key: str, *, matching: str = "") -> BinaryIO:
        """Open an object for reading; see `ObjectStore.open`."""
        return self._read(lambda store: store.open(key, matching=matching))

    def put(
        self, key: str, body: bytes | BinaryIO, condition: Condition, attributes: Attributes = PLAIN
    ) -> Version:
        """Write an object to `upper`; a create-only write fails if the object exists in `lower`."""
        if isinstance(condition, contract.Absent) and contract.exists(self.lower, key):
            raise contract.ConditionFailed(f"{key} is there already")
        return self.upper.put(key, body, condition, attributes)

    def put_new(self, key: str, body: bytes) -> bool:
        """Write an object to `upper` unless its key exists in either namespace."""
        return not contract.exists(self.lower, key) and self.upper.put_new(key, body)

    def head(self, key: str) -> ObjectInfo:
        """Return the properties of an object; see `ObjectStore.head`."""
        return self._read(lambda store: store.head(key))

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects of both namespaces; see `ObjectStore.list`."""
        last = None
        both = (store.list(prefix, after=after) for store in (self.upper, self.lower))
        for info in merge(*both, key=lambda info: contract.key_bytes(info.key)):
            if info.key != last:
                yield info
            last = info.key

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects of `upper`; objects of `lower` cannot be deleted."""
        self.upper.delete(keys)

    def copy(self, source: str, key: str) -> None:
        """Copy one object to `upper`; see `ObjectStore.copy`."""
        try:
            self.upper.copy(source, key)
        except contract.ObjectNotFound:
            with self.lower.open(source) as body:
                self.upper.put(key, body, contract.ANY)

    def presign(self, key: str, request: PresignRequest, *, now: datetime) -> PresignedUrl:
        """Sign a URL: by `lower` for reading an object that `upper` lacks, otherwise by `upper`."""
        is_below = request.method == "GET" and not contract.exists(self.upper, key)
        return (self.lower if is_below else self.upper).presign(key, request, now=now)

    def local_path(self, key: str) -> str | None:
        """Return the path of the object's file, or ``None``; see `ObjectStore.local_path`."""
        return self.upper.local_path(key) or self.lower.local_path(key)

    def batch(self) -> contract.WriteBatch:
        """Start a batch of writes to `upper`; see `ObjectStore.batch`."""
        return self.upper.batch()

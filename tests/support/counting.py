"""A store in memory that counts the requests that a bucket would receive."""

from __future__ import annotations

from collections import Counter
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO

from lakecli.stores.contract import PLAIN, Attributes
from tests.support.memory_store import MemoryBucket, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lakecli.stores.contract import Condition, ObjectInfo, Version

PAGE_SIZE = 1_000


class CountingStore(MemoryStore):
    """A store in memory.

    Attributes:
        counts: requests by kind: ``get``, ``put``, ``head``, ``list`` (one for each thousand
            objects, as stores have it), ``delete``, ``copy``.
        keys: (kind, key or prefix) of each request, in order.
    """

    def __init__(self, bucket: MemoryBucket | None = None, prefix: str = "ns/") -> None:
        super().__init__(bucket, prefix)
        self.counts: Counter[str] = Counter()
        self.keys: list[tuple[str, str]] = []
        self._counting = Lock()

    def count(self, kind: str, key: str) -> None:
        """Count one request."""
        with self._counting:
            self.counts[kind] += 1
            self.keys.append((kind, key))

    def reset(self) -> None:
        """Set all counts to zero."""
        with self._counting:
            self.counts.clear()
            self.keys.clear()

    def get(
        self, key: str, *, start: int = 0, length: int | None = None, matching: str = ""
    ) -> bytes:
        self.count("get", key)
        return super().get(key, start=start, length=length, matching=matching)

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        self.count("get", key)
        return super().get_versioned(key, length=length)

    def open(self, key: str, *, matching: str = "") -> BinaryIO:
        self.count("get", key)
        return super().open(key, matching=matching)

    def put(
        self, key: str, body: bytes | BinaryIO, condition: Condition, attributes: Attributes = PLAIN
    ) -> Version:
        self.count("put", key)
        return super().put(key, body, condition, attributes)

    def head(self, key: str) -> ObjectInfo:
        self.count("head", key)
        return super().head(key)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        self.count("list", prefix)
        for number, info in enumerate(super().list(prefix, after=after)):
            if number and number % PAGE_SIZE == 0:
                self.count("list", prefix)
            yield info

    def delete(self, keys: Iterable[str]) -> None:
        self.count("delete", "")
        super().delete(keys)

    def copy(self, source: str, key: str) -> None:
        self.count("copy", key)
        super().copy(source, key)

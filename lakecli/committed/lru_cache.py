"""A cache of the most recently used values, up to a size in bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import RLock
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Values by key; the least recently used go first, the newest stays however large it is.

    Safe to share between threads.

    Args:
        size_limit: sum of the sizes given to `put`, in bytes.
        forget: called with each value that is dropped, by one thread at a time.
    """

    def __init__(self, size_limit: int, *, forget: Callable[[V], None] | None = None) -> None:
        self._limit = size_limit
        self._forget = forget
        self._size = 0
        self._items: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = RLock()

    def get(self, key: K) -> V | None:
        """Return the value of `key` and mark it as used, or return ``None``."""
        with self._lock:
            found = self._items.get(key)
            if found is None:
                return None
            self._items.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Keep a value of `size` bytes."""
        with self._lock:
            self.drop(key)
            self._items[key] = value, size
            self._size += size
            while self._size > self._limit and len(self._items) > 1:
                self._drop_first()

    def drop(self, key: K) -> None:
        """Drop a key, if present."""
        with self._lock:
            found = self._items.pop(key, None)
            if found is not None:
                self._gone(found)

    def clear(self) -> None:
        """Drop all keys."""
        with self._lock:
            while self._items:
                self._drop_first()

    def _drop_first(self) -> None:
        self._gone(self._items.popitem(last=False)[1])

    def _gone(self, item: tuple[V, int]) -> None:
        self._size -= item[1]
        if self._forget is not None:
            self._forget(item[0])

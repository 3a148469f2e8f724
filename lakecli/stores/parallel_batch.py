"""Creates many objects, which are named by their contents, by parallel requests.

Writing objects named by their contents: same name and same size means the same object.

Creates many objects by parallel create-only requests; each response means durable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING, BinaryIO

from lakecli.errors import PermissionDenied, Unsupported
from lakecli.stores.base import ANY, ObjectNotFound

if TYPE_CHECKING:
    from concurrent.futures import Future

    from lakecli.stores.base import ObjectStore


def put_content(store: ObjectStore, key: str, body: bytes) -> bool:
    """Write `body` unless an object of this key and size exists; return whether it was absent.

    An object of another size is damaged and is replaced without a condition, since every writer of
    this key writes these bytes.

    Args:
        store: the namespace.
        key: derived from the digest of `body`.
        body: the whole object.
    """
    if store.put_new(key, body):
        return True
    try:
        if store.head(key).size == len(body):
            return False
    except (ObjectNotFound, PermissionDenied):
        pass  # deleted since, or the credentials may only write: send it again
    store.put(key, body, ANY)
    return True


WORKERS = 16
WAITING = 16
"""Bodies that wait for a worker; with those being sent, they are the memory of a batch."""


class ParallelBatch:
    """A batch on a bucket; see `protocol.Batch`.

    Objects become visible one by one, each complete and durable; `flush` waits for all.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._lock = Lock()
        self._slots = BoundedSemaphore(WORKERS + WAITING)
        self._pool: ThreadPoolExecutor | None = None
        self._error: BaseException | None = None
        self._existing: set[str] = set()

    def put_new(self, key: str, body: bytes) -> None:
        """Send `body` once a worker is free; `flush` raises errors."""
        self._submit(self._store.put_new, key, body)

    def put_content(self, key: str, body: bytes) -> None:
        """Do as `put_new`, but replace an object of another size."""
        self._submit(partial(put_content, self._store), key, body)

    def _submit(self, put: Callable[[str, bytes], bool], key: str, body: bytes) -> None:
        self._slots.acquire()
        try:
            with self._lock:
                if self._pool is None:
                    self._pool = ThreadPoolExecutor(WORKERS, "put")
                future = self._pool.submit(put, key, body)
        except BaseException:
            self._slots.release()
            raise
        future.add_done_callback(partial(self._finished, key))

    def spool(self) -> tuple[str, BinaryIO]:
        """Refuse: a bucket cannot rename objects."""
        raise Unsupported(f"cannot rename objects in {self._store.uri}")

    def adopt(self, key: str, temporary: str) -> None:
        """Refuse: there are no spools."""
        raise ValueError(f"not a spool of this batch: {temporary!r}, for {key!r}")

    def flush(self) -> Collection[str]:
        """Wait for all requests, then raise the first error."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()
        error, self._error = self._error, None
        if error is not None:
            raise error
        existing, self._existing = self._existing, set()
        return existing

    def _finished(self, key: str, future: Future[bool]) -> None:
        self._slots.release()
        error = future.exception()
        if error is None:
            if not future.result():
                self._existing.add(key)
        elif self._error is None:
            self._error = error

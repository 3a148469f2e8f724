"""A namespace that is read and never written: every write is refused before a request is sent."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from lakecli.errors import Refused
from lakecli.stores.base import ObjectInfo, Version
from lakecli.stores.presigned import PresignedUrl, PresignRequest
from lakecli.stores.ranges import open_range

if TYPE_CHECKING:
    from lakecli.stores.base import ObjectStore


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
        """See `lakecli.stores.ranges.open_range`."""
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

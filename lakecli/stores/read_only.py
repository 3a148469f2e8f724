"""Stores for reading only: every write is refused before a request is sent.

`ReadOnlyStore` reads a namespace, and `AtVersion` one version of an object.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, BinaryIO, NoReturn

from lakecli.errors import Refused, Unsupported
from lakecli.stores.capabilities import VersionedStore, versions_of
from lakecli.stores.contract import ObjectInfo, ObjectStore, Version
from lakecli.stores.presigned_urls import PresignedUrl, PresignRequest


class ReadOnlyStore:
    """A namespace that can only be read."""

    def __init__(self, store: ObjectStore, *, hint: str) -> None:
        self._store = store
        self._hint = hint
        self._options: dict[str, Any] = {}

    @property
    def uri(self) -> str:
        """See `ObjectStore.uri`."""
        return self._store.uri

    def get(
        self, key: str, *, start: int = 0, length: int | None = None, matching: str = ""
    ) -> bytes:
        """See `ObjectStore.get`."""
        return self._store.get(key, start=start, length=length, matching=matching, **self._options)

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        """See `ObjectStore.get_versioned`."""
        return self._store.get_versioned(key, length=length)

    def open(self, key: str, *, matching: str = "") -> BinaryIO:
        """See `ObjectStore.open`."""
        return self._store.open(key, matching=matching, **self._options)

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
        """Refuse every write."""
        raise Refused(f"{self.uri} is read without a clone, which cannot write", hint=self._hint)

    put_new = delete = copy = batch = put


class AtVersion(ReadOnlyStore):
    """Reads one version of an object; a version ID belongs to one object only."""

    def __init__(self, store: VersionedStore, version_id: str) -> None:
        super().__init__(store, hint="")
        self._options = {"version_id": version_id}

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        """Return the bytes and the version, by two requests: a version cannot change in between."""
        return self.get(key, length=length), self.head(key).version

    def put(self, *_args: object, **_options: object) -> NoReturn:
        """Raise `Unsupported` for everything except reading one version."""
        raise Unsupported(f"a version of an object can only be read: {self.uri}")

    put_new = list = delete = copy = batch = put


def at_version(store: ObjectStore, version_id: str) -> ObjectStore:
    """Return a store that reads one version of an object; for ``""``, `store` itself.

    Raises:
        Unsupported: the store cannot read versions.
    """
    return AtVersion(versions_of(store), version_id) if version_id else store

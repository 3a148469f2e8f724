"""Stores for reading only: every write is refused before a request is sent.

`ReadOnlyStore` reads a namespace, and `AtVersion` one version of an object.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from lakecli.errors import Refused, Unsupported
from lakecli.stores.capabilities import VersionedStore, versions_of
from lakecli.stores.contract import ObjectInfo, ObjectStore, Version

if TYPE_CHECKING:
    from lakecli.stores.presigned_urls import PresignedUrl, PresignRequest


class ReadOnlyStore:
    """A namespace that can only be read."""

    def __init__(self, store: ObjectStore, *, hint: str) -> None:
        self._store = store
        self._hint = hint

    @property
    def uri(self) -> str:
        """The normalised URI of the namespace; see `ObjectStore.uri`."""
        return self._store.uri

    def get(
        self, key: str, *, start: int = 0, length: int | None = None, matching: str = ""
    ) -> bytes:
        """Return a range of an object; see `ObjectStore.get`."""
        return self._store.get(key, start=start, length=length, matching=matching)

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        """Return an object and its version; see `ObjectStore.get_versioned`."""
        return self._store.get_versioned(key, length=length)

    def open(self, key: str, *, matching: str = "") -> BinaryIO:
        """Open an object for reading; see `ObjectStore.open`."""
        return self._store.open(key, matching=matching)

    def head(self, key: str) -> ObjectInfo:
        """Return the properties of an object; see `ObjectStore.head`."""
        return self._store.head(key)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects under a prefix; see `ObjectStore.list`."""
        return self._store.list(prefix, after=after)

    def presign(self, key: str, request: "PresignRequest", *, now: datetime) -> "PresignedUrl":
        """Sign a URL for reading an object; refuse a URL for writing."""
        if request.method != "GET":
            self.put()
        return self._store.presign(key, request, now=now)

    def local_path(self, key: str) -> str | None:
        """Return the path of the object's file, or ``None``; see `ObjectStore.local_path`."""
        return self._store.local_path(key)

    def put(self, *_args: object, **_options: object) -> NoReturn:
        """Raise `Refused` for every write."""
        raise Refused(f"{self.uri} is read without a clone, which cannot write", hint=self._hint)

    put_new = delete = copy = batch = put


class AtVersion(ReadOnlyStore):
    """A store that reads one version of one object, because a version ID belongs to one object."""

    def __init__(self, store: VersionedStore, version_id: str) -> None:
        super().__init__(store.at_version(version_id), hint="")

    def put(self, *_args: object, **_options: object) -> NoReturn:
        """Raise `Unsupported` for everything except reading one version."""
        raise Unsupported(f"a version of an object can only be read: {self.uri}")

    put_new = list = delete = copy = batch = get_versioned = put


def at_version(store: ObjectStore, version_id: str) -> ObjectStore:
    """Return a store that reads one version of an object; for the ID ``""``, return `store` itself.

    Raises:
        Unsupported: the store cannot read versions.
    """
    return AtVersion(versions_of(store), version_id) if version_id else store

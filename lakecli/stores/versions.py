"""Reading one version of an object, in stores that keep the versions of their objects.

A version ID is not a `base.Version`: on S3 and Azure that is an ETag.

- S3 keeps versions if the bucket has versioning enabled.
- Google Cloud Storage likewise; the ID is the object's generation.
- Azure keeps them if the storage account has versioning enabled; the ID is the version's time, with
  ``_`` in place of its colons.
- Directories keep none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, BinaryIO, NoReturn, Protocol

from lakecli.errors import Unsupported
from lakecli.stores.base import PLAIN, Attributes, Condition, ObjectInfo, Version
from lakecli.stores.capabilities import HasVersions
from lakecli.stores.presigning import PresignedUrl, PresignRequest

if TYPE_CHECKING:
    from lakecli.stores.base import Batch, ObjectStore


class VersionedStore(Protocol):
    """Reads versions of the objects of one store; safe to share between threads."""

    @property
    def uri(self) -> str:
        """The normalised URI of the namespace, without a trailing slash."""

    def check_versions(self) -> None:
        """Check that the bucket keeps the versions of its objects.

        Raises:
            Unsupported: it does not.
        """

    def list_versions(self, *, after: str = "") -> Iterator[tuple[ObjectInfo, str]]:
        """Yield objects like `ObjectStore.list`, each with the ID of its current version."""

    def get(
        self, key: str, *, start: int = 0, length: int | None = None, version_id: str = ""
    ) -> bytes:
        """Return a range of a version; see `ObjectStore.get`.

        Raises:
            ObjectNotFound: no such key, or no such version of it.
        """

    def open(self, key: str, *, version_id: str = "") -> BinaryIO:
        """Open a version for one pass of reading; see `ObjectStore.open`."""

    def head(self, key: str, *, version_id: str = "") -> ObjectInfo:
        """Describe a version; see `ObjectStore.head`."""

    def presign(
        self, key: str, request: PresignRequest, *, now: datetime, version_id: str = ""
    ) -> PresignedUrl:
        """Sign a URL of a version; see `ObjectStore.presign`."""


def versions_of(store: ObjectStore) -> VersionedStore:
    """Return what reads versions of a store's objects.

    Raises:
        Unsupported: the store cannot.
    """
    if not isinstance(store, HasVersions):
        raise Unsupported(
            f"only buckets keep versions of objects: {store.uri}",
            hint="copy the bytes into the repository instead: lakecli import --copy",
        )
    return store.versions()


def not_versioned(bucket: str, state: str) -> Unsupported:
    """Return the error of a bucket that does not keep the versions of its objects.

    Args:
        bucket: its URI.
        state: what is the matter with its versioning.
    """
    return Unsupported(
        f"the bucket keeps no versions of its objects, versioning {state}: {bucket}",
        hint="enable versioning of the bucket, or copy the bytes into the repository: --copy",
    )


class AtVersion:
    """A read-only store whose reads are of one version of an object.

    Args:
        store: keeps versions.
        version_id: of the version to read.
    """

    def __init__(self, store: VersionedStore, version_id: str) -> None:
        self._store = store
        self._version_id = version_id

    @property
    def uri(self) -> str:
        """The URI of the namespace."""
        return self._store.uri

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Return a range of the version."""
        return self._store.get(key, start=start, length=length, version_id=self._version_id)

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        """Return the bytes and the version, by two requests; a version does not change."""
        return self.get(key, length=length), self.head(key).version

    def open(self, key: str) -> BinaryIO:
        """Open the version for one pass of reading."""
        return self._store.open(key, version_id=self._version_id)

    def head(self, key: str) -> ObjectInfo:
        """Describe the version."""
        return self._store.head(key, version_id=self._version_id)

    def presign(self, key: str, request: PresignRequest, *, now: datetime) -> PresignedUrl:
        """Sign a URL of the version."""
        if request.method != "GET":
            self._refuse(key)
        return self._store.presign(key, request, now=now, version_id=self._version_id)

    def local_path(self, key: str) -> str | None:
        """Return ``None``: no directory keeps versions."""
        del key
        return None

    def put(
        self, key: str, body: bytes | BinaryIO, condition: Condition, attributes: Attributes = PLAIN
    ) -> Version:
        """Refuse: versions do not change."""
        del body, condition, attributes
        self._refuse(key)

    def put_new(self, key: str, body: bytes) -> bool:
        """Refuse: versions do not change."""
        del body
        self._refuse(key)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """Refuse: a version ID is of one object."""
        del after
        self._refuse(prefix)

    def delete(self, keys: Iterable[str]) -> None:
        """Refuse: versions do not change."""
        self._refuse(", ".join(keys))

    def copy(self, source: str, key: str) -> None:
        """Refuse: versions do not change."""
        del source
        self._refuse(key)

    def batch(self) -> Batch:
        """Refuse: versions do not change."""
        self._refuse("")

    def _refuse(self, key: str) -> NoReturn:
        raise Unsupported(f"a version of an object can only be read: {self.uri}/{key}")


def at_version(store: ObjectStore, version_id: str) -> ObjectStore:
    """Return `store` reading one version of its objects; with ``""``, `store` itself.

    Raises:
        Unsupported: the store cannot read versions.
    """
    return AtVersion(versions_of(store), version_id) if version_id else store

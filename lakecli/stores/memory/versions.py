"""Versions of objects in a bucket in memory that keeps them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, BinaryIO

from lakecli.errors import Unsupported
from lakecli.stores.base import ObjectInfo, ObjectNotFound, check_range
from lakecli.stores.presigning import PresignedUrl, PresignRequest

if TYPE_CHECKING:
    from lakecli.stores.memory.store import MemoryBucket, MemoryStore, Stored


class MemoryVersions:
    """Reads versions; see `versions.VersionedStore`.

    Args:
        store: whose objects.
        bucket: that holds them.
        prefix: of every key in the bucket.
    """

    def __init__(self, store: MemoryStore, bucket: MemoryBucket, prefix: str) -> None:
        self._store = store
        self._bucket = bucket
        self._prefix = prefix

    @property
    def uri(self) -> str:
        """The URI of the namespace."""
        return self._store.uri

    def check_versions(self) -> None:
        """Make sure that the bucket keeps versions.

        Raises:
            Unsupported: it does not.
        """
        if not self._bucket.keeps_versions:
            raise Unsupported(f"the bucket keeps no versions of its objects: {self.uri}")

    def list_versions(self, *, after: str = "") -> Iterator[tuple[ObjectInfo, str]]:
        """Yield the objects, each with the ID of its current version."""
        return ((info, str(info.version)) for info in self._store.list(after=after))

    def get(
        self, key: str, *, start: int = 0, length: int | None = None, version_id: str = ""
    ) -> bytes:
        """Return a range of a version."""
        check_range(start, length)
        body = self._find(key, version_id).body
        if start < 0:
            return body[start:]
        return body[start:] if length is None else body[start : start + length]

    def open(self, key: str, *, version_id: str = "") -> BinaryIO:
        """Open a version for reading."""
        return io.BytesIO(self._find(key, version_id).body)

    def head(self, key: str, *, version_id: str = "") -> ObjectInfo:
        """Describe a version."""
        return self._find(key, version_id).info

    def presign(
        self, key: str, request: PresignRequest, *, now: datetime, version_id: str = ""
    ) -> PresignedUrl:
        """Refuse: memory has no URLs."""
        del version_id
        return self._store.presign(key, request, now=now)

    def _find(self, key: str, version_id: str) -> Stored:
        try:
            return self._bucket.versions[self._prefix + key, version_id]
        except KeyError:
            raise ObjectNotFound(
                f"no such version in {self.uri}: {key!r}, {version_id!r}"
            ) from None

"""Uploads in parts into a bucket in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, BinaryIO, Protocol

import google_crc32c

from lakecli.errors import IntegrityError
from lakecli.stores.base import PLAIN, Attributes, Condition, Version
from lakecli.stores.uploads import Part, UnfinishedUpload, UploadId, UploadNotFound

if TYPE_CHECKING:
    from lakecli.stores.memory.store import MemoryBucket


@dataclass(slots=True)
class MemoryUpload:
    """An unfinished upload: its key in the bucket, its times, and its parts by number."""

    key: str
    started_at: datetime
    changed_at: datetime | None = None
    parts: dict[int, bytes] = field(default_factory=dict)


class _Store(Protocol):
    def put(
        self, key: str, body: bytes | BinaryIO, condition: Condition, attributes: Attributes = PLAIN
    ) -> Version: ...

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[object]: ...


class MemoryUploads:
    """The uploads of one namespace."""

    def __init__(self, store: _Store, bucket: MemoryBucket, prefix: str) -> None:
        self._store = store
        self._bucket = bucket
        self._prefix = prefix

    def start(self, key: str) -> UploadId:
        """Begin an upload."""
        next(iter(self._store.list()), None)  # raises if there is no bucket
        with self._bucket.lock:
            self._bucket.writes += 1
            upload = UploadId(f"upload-{self._bucket.writes}")
            self._bucket.uploads[upload] = MemoryUpload(self._prefix + key, self._bucket.now())
        return upload

    def put_part(
        self, key: str, upload: UploadId, number: int, body: bytes | BinaryIO, *, crc32c: int
    ) -> Part:
        """Keep one part."""
        data = body if isinstance(body, bytes) else body.read()
        if google_crc32c.value(data) != crc32c:
            raise IntegrityError(f"other bytes than their checksum says: {key!r}")
        with self._bucket.lock:
            found = self._find(key, upload)
            found.parts[number] = data
            found.changed_at = self._bucket.now()
        return _described(number, data)

    def parts(self, key: str, upload: UploadId) -> Iterator[Part]:
        """Yield the parts that have arrived."""
        with self._bucket.lock:
            kept = sorted(self._find(key, upload).parts.items())
        for number, data in kept:
            yield _described(number, data)

    def changed_at(self, key: str, upload: UploadId) -> datetime | None:
        """Return when the last part arrived."""
        with self._bucket.lock:
            return self._find(key, upload).changed_at

    def complete(
        self, key: str, upload: UploadId, parts: Sequence[Part], condition: Condition
    ) -> Version:
        """Join the parts."""
        with self._bucket.lock:
            kept = self._find(key, upload).parts
            if any(_described(part.number, kept.get(part.number, b"")) != part for part in parts):
                raise UploadNotFound(f"no such parts: {key!r}")
            body = b"".join(kept[part.number] for part in parts)
            version = self._store.put(key, body, condition)
            del self._bucket.uploads[upload]
        return version

    def abort(self, key: str, upload: UploadId) -> None:
        """Drop an upload."""
        del key
        with self._bucket.lock:
            self._bucket.uploads.pop(upload, None)

    def iter_unfinished(self, prefix: str = "") -> Iterator[UnfinishedUpload]:
        """Yield the unfinished uploads by key."""
        full = self._prefix + prefix
        with self._bucket.lock:
            found = [
                UnfinishedUpload(each.key[len(self._prefix) :], UploadId(name), each.started_at)
                for name, each in self._bucket.uploads.items()
                if each.key.startswith(full)
            ]
        yield from sorted(found, key=lambda each: (each.key, each.id))

    def _find(self, key: str, upload: UploadId) -> MemoryUpload:
        found = self._bucket.uploads.get(upload)
        if found is None or found.key != self._prefix + key:
            raise UploadNotFound(f"no such upload in parts: {key!r}")
        return found


def _described(number: int, data: bytes) -> Part:
    crc32c = google_crc32c.value(data)
    return Part(number, len(data), f"{crc32c:08x}", crc32c)

"""Uploads in parts that outlive the process which began them.

A directory has none: an interrupted copy starts again. `capabilities.uploads_of` returns those of
a store. Only the store knows which parts have arrived; no list is kept here. It also knows the
parts whose responses were lost, so a resumed upload sends only the parts that are missing.

- S3: multipart uploads.
- Google Cloud Storage: multipart uploads of the XML API, like S3's but without conditions. A
  resumable session takes its parts one after the other and cannot use several connections.
- Azure: uncommitted blocks, whose names hold the upload and the part's number; the store drops
  them after a week.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import BinaryIO, NamedTuple, NewType, Protocol

from lakecli.errors import NotFound
from lakecli.stores.base import Condition, Version
from lakecli.stores.capabilities import PART_SIZE

UploadId = NewType("UploadId", str)
"""Opaque; valid only in its store, together with the key."""

MAX_PARTS = 10_000
"""In one object: the limit of S3, and the lowest of all stores."""


class UploadNotFound(NotFound):
    """The upload was completed or aborted, or has expired."""


class Part(NamedTuple):
    """A part that has arrived.

    Attributes:
        number: from 1.
        size: in bytes.
        tag: opaque; `Uploads.complete` needs it.
        crc32c: of its bytes; ``None`` if the store does not report it.
    """

    number: int
    size: int
    tag: str
    crc32c: int | None = None


class UnfinishedUpload(NamedTuple):
    """An upload that was neither completed nor aborted.

    Attributes:
        key: of the object.
        id: of the upload.
        started_at: by the store's clock.
    """

    key: str
    id: UploadId
    started_at: datetime


class Uploads(Protocol):
    """Uploads in parts into one namespace. Safe to share between threads.

    Parts may be sent in any order, in parallel and repeatedly. Only `start` and `complete` retry;
    the caller decides how often to send a part.
    """

    def start(self, key: str) -> UploadId:
        """Begin an upload; nothing is visible before it is completed."""

    def put_part(
        self, key: str, upload: UploadId, number: int, body: bytes | BinaryIO, *, crc32c: int
    ) -> Part:
        """Send one part.

        Args:
            key: of the object.
            upload: what `start` returned for it.
            number: from 1.
            body: its bytes, or a seekable stream of them.
            crc32c: of the bytes; the store verifies it if it can.

        Raises:
            UploadNotFound: the upload no longer exists.
            IntegrityError: the store received other bytes.
        """

    def parts(self, key: str, upload: UploadId) -> Iterator[Part]:
        """Yield the parts that have arrived, by number.

        Raises:
            UploadNotFound: the upload no longer exists.
        """

    def changed_at(self, key: str, upload: UploadId) -> datetime | None:
        """Return when the last part arrived; ``None`` if no part did.

        Raises:
            UploadNotFound: the upload no longer exists.
        """

    def complete(
        self, key: str, upload: UploadId, parts: Sequence[Part], condition: Condition
    ) -> Version:
        """Join the parts, ordered by number; the object is then visible and durable.

        Raises:
            UploadNotFound: the upload or one of these parts does not exist.
            ConditionFailed: `condition` did not hold; the upload is unchanged.
            Unsupported: this store joins parts without a condition only (`ANY`).
        """

    def abort(self, key: str, upload: UploadId) -> None:
        """Delete an upload and its parts; a missing one is fine."""

    def iter_unfinished(self, prefix: str = "") -> Iterator[UnfinishedUpload]:
        """Yield the uploads of keys under `prefix` that were never completed."""


def part_size_of(size: int, smallest: int = PART_SIZE) -> int:
    """Return the part size of an object: `smallest` times a power of two."""
    while size > smallest * MAX_PARTS:
        smallest *= 2
    return smallest

"""Uploads in parts that outlive the process which began them.

Not every store has them: a directory is written by copying, which is begun anew. `uploads_of`
tells. Which parts have arrived is asked of the store, never kept beside it: it knows those too
whose answers were lost, so that whoever goes on sends again only what was under way.

How a store that is not S3 does it:

- Azure: parts are blocks whose names tell the upload and the number, and which are listed as
  uncommitted; the store forgets them after a week.
- Google Cloud Storage: the XML API's multipart uploads, which are S3's but know no conditions; a
  resumable session takes its parts one after the other and is no way to use several connections.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, NewType, Protocol, cast

from lakecli.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from lakecli.objectstore.base import Condition, ObjectStore, Version

UploadId = NewType("UploadId", str)
"""Opaque; means something to its store only, together with the key."""

PART_SIZE = 8 << 20
"""Bytes in a part of most objects."""

MAX_PARTS = 10_000
"""In one object, as S3 has it; no store takes fewer."""


class UploadNotFound(NotFound):
    """The store does not know the upload any more: completed, aborted or expired."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part that has arrived.

    Attributes:
        number: from 1.
        size: in bytes.
        tag: opaque; what completing the upload asks for.
        crc32c: of its bytes, where the store tells; ``None`` where it does not.
    """

    number: int
    size: int
    tag: str
    crc32c: int | None = None


@dataclass(frozen=True, slots=True)
class UnfinishedUpload:
    """An upload that was neither completed nor aborted; times are the store's.

    Attributes:
        key: of the object it would have become.
        id: of the upload.
        started_at: when it began.
    """

    key: str
    id: UploadId
    started_at: datetime


class Uploads(Protocol):
    """Uploads in parts into one namespace. Safe to share between threads.

    Parts may be sent in any order, side by side, and again. No method repeats a request by
    itself, but for `start` and `complete`: who sends parts decides how long to try.
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
            body: its bytes, or a stream of them that can seek.
            crc32c: of the bytes, which the store compares where it can.

        Raises:
            UploadNotFound: the store does not know the upload any more.
            IntegrityError: the store received other bytes.
        """

    def parts(self, key: str, upload: UploadId) -> Iterator[Part]:
        """Yield the parts that have arrived, by number.

        Raises:
            UploadNotFound: the store does not know the upload any more.
        """

    def changed_at(self, key: str, upload: UploadId) -> datetime | None:
        """Return when the last part arrived, or ``None`` if none did.

        Raises:
            UploadNotFound: the store does not know the upload any more.
        """

    def complete(
        self, key: str, upload: UploadId, parts: Sequence[Part], condition: Condition
    ) -> Version:
        """Join the parts, ordered by number, to the object, which is then visible and durable.

        Raises:
            UploadNotFound: the store does not know the upload, or not these parts.
            ConditionFailed: `condition` did not hold; the upload is as it was.
            Unsupported: the store joins parts under no condition, so it has to be `ANY`.
        """

    def abort(self, key: str, upload: UploadId) -> None:
        """Drop an upload and its parts; one that is gone is fine."""

    def iter_unfinished(self, prefix: str = "") -> Iterator[UnfinishedUpload]:
        """Yield the uploads of keys under `prefix` that were never completed."""


def uploads_of(store: ObjectStore) -> Uploads | None:
    """Return the uploads of a store, or ``None`` where it has none."""
    begin = getattr(store, "uploads", None)
    return None if begin is None else cast("Uploads", begin())


def part_size_of(size: int, smallest: int = PART_SIZE) -> int:
    """Return how large the parts of an object are: a power of two times `smallest`."""
    while size > smallest * MAX_PARTS:
        smallest *= 2
    return smallest

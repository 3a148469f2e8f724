"""The protocol of object stores: a flat, ordered namespace of objects with conditional writes.

Adapters are plain classes that satisfy `ObjectStore`; one contract suite runs on all of them.
Keys are ``str`` relative to the store's prefix; bytes that are not UTF-8 are surrogates.
Adapters translate their SDK's errors into lakecli's, which are in `base`:

- no such key: `ObjectNotFound`; no such bucket: `BucketNotFound`
- a condition that did not hold (S3 412, 409, 404 on a conditional PUT, …): `ConditionFailed`
- missing or refused credentials and permissions: `PermissionDenied`
- no connection, time-outs, throttling, 5xx after the retries, disk full: `Unreachable`
- what the store cannot do: `Unsupported`

What only some stores can do is in `capabilities`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import BinaryIO, Protocol

from lakecli.stores.base import PLAIN, Attributes, Condition, ObjectInfo, Version
from lakecli.stores.presigning import PresignedUrl, PresignRequest


class ObjectStore(Protocol):
    """One storage namespace: a prefix in a bucket, or a directory.

    Callers may retry every method, so each is safe to repeat. Instances are safe to share between
    threads.
    """

    @property
    def uri(self) -> str:
        """The normalised URI of the namespace, without a trailing slash."""

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Return bytes ``[start, start + length)``, fewer if the object ends earlier.

        A negative `start` counts from the end (a suffix read), with no `length`. A suffix longer
        than the object is the whole object; a start at or past the end gives ``b""``.

        Raises:
            ObjectNotFound: no such key.
        """

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        """Return an object and the version of exactly these bytes, for compare-and-set.

        Args:
            key: of the object.
            length: bytes to read from its beginning, at most; ``None``: all. Of an empty object
                the version may then be unknown, ``""``.

        Raises:
            ObjectNotFound: no such key.
        """

    def open(self, key: str) -> BinaryIO:
        """Open an object for one pass of reading; the caller closes it.

        Raises:
            ObjectNotFound: no such key.
        """

    def put(
        self, key: str, body: bytes | BinaryIO, condition: Condition, attributes: Attributes = PLAIN
    ) -> Version:
        """Write an object atomically and durably; readers see the old or the new one.

        Raises:
            ConditionFailed: `condition` did not hold.
        """

    def put_new(self, key: str, body: bytes) -> bool:
        """Write `body` unless the key exists; return whether it was absent.

        For keys that determine their bytes: unlike a conditional `put`, the request is repeated
        after a lost response, and may then find its own object.
        """

    def head(self, key: str) -> ObjectInfo:
        """Describe one object.

        Raises:
            ObjectNotFound: no such key.
        """

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects under `prefix` with keys greater than `after`, in byte order."""

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, in batches if the store can; a missing one is fine."""

    def copy(self, source: str, key: str) -> None:
        """Copy one object inside the namespace, on the store's side.

        Raises:
            ObjectNotFound: no such `source`.
        """

    def presign(self, key: str, request: PresignRequest, *, now: datetime) -> PresignedUrl:
        """Sign a URL, usually without a request.

        Raises:
            Unsupported: the store has no URLs.
        """

    def local_path(self, key: str) -> str | None:
        """Return the path of the file of this machine that holds the object, or ``None``."""

    def batch(self) -> Batch:
        """Start a batch of create-only writes that become durable together."""


class Batch(Protocol):
    """Many small create-only writes with one durability point.

    Before `flush`, objects may be invisible; after it, all are visible and durable. A dropped batch
    leaves at most temporary files, never a torn object. Safe to share between threads.
    """

    def put_new(self, key: str, body: bytes) -> None:
        """Write `body` unless the key exists; an existing object is unchanged."""

    def put_content(self, key: str, body: bytes) -> None:
        """Write `body` unless an object of this key and size exists.

        For keys derived from the digest of their bytes: an object of another size is damaged and
        replaced, see `contents.put_content`.
        """

    def adopt(self, key: str, temporary: str) -> None:
        """Give a finished `spool` its final key, derived from the digest of its bytes.

        An existing object of the same size stays as it is; one of another size is replaced.
        """

    def spool(self) -> tuple[str, BinaryIO]:
        """Open a temporary object whose final key is still unknown; the caller closes the file.

        Raises:
            Unsupported: the store cannot rename objects.
        """

    def flush(self) -> Collection[str]:
        """Make everything so far durable and visible, in order: content first, then names.

        After an error, nothing counts as durable. Objects that the error may have damaged are
        dropped, so that no later flush makes them visible; write them again.

        Returns:
            The keys that existed and were unchanged, if the store's responses say so; a directory
            returns none.
        """

"""What lakecli asks of a bucket: a flat, ordered namespace of objects with conditional writes.

Adapters are plain classes that satisfy `ObjectStore`; one contract suite runs on all of them.
Keys are ``str`` relative to the store's prefix; bytes that are not UTF-8 travel as surrogates.
Adapters translate their SDK's errors into lakecli's at their own edge:

- no such key: `ObjectNotFound`; no such bucket: `BucketNotFound`
- a condition that did not hold (S3 412, 409, 404 on a conditional PUT, …): `ConditionFailed`
- credentials and permissions: `PermissionDenied`
- no connection, time-outs, throttling, 5xx after the retries, disk full: `Unreachable`
- what the store cannot do: `Unsupported`

What only some stores can do is in `capabilities`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, NewType, Protocol

from lakecli.errors import IntegrityError, LostRace, NotFound, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from datetime import datetime, timedelta
    from pathlib import Path

Version = NewType("Version", str)
"""Opaque: an ETag or a generation. Compare it for equality, never look inside."""


class ObjectNotFound(NotFound):
    """No object has this key."""


class BucketNotFound(NotFound):
    """The bucket, container or directory itself is not there."""


class ConditionFailed(LostRace):
    """A conditional write found something else than it required; nothing was written."""


class TooLarge(IntegrityError):
    """An object that has more bytes than anything of its kind; it was not fetched."""

    def __init__(self, key: str, max_size: int) -> None:
        super().__init__(
            f"{key} has more than {max_size:,} bytes, which nothing that lakecli writes there has",
            hint="something else writes into this namespace: restore the object from a backup",
        )


@dataclass(frozen=True, slots=True)
class AnyVersion:
    """Write whatever is there."""


@dataclass(frozen=True, slots=True)
class Absent:
    """Write only if the key does not exist."""


@dataclass(frozen=True, slots=True)
class Match:
    """Write only over exactly this version."""

    version: Version


Condition = AnyVersion | Absent | Match
"""Always given explicitly: an optional version that happens to be None is how updates get lost."""

ANY: Final = AnyVersion()
ABSENT: Final = Absent()

_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a listing or a head request tells of one object; ``modified_at`` by the store's clock.

    ``content_type`` and ``metadata`` are filled by `ObjectStore.head` only, where the store keeps
    them: a directory does not. Stores may write the keys of metadata in lower case.
    """

    key: str
    size: int
    modified_at: datetime
    version: Version
    etag: str = ""
    content_type: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


class PresignedUrl(NamedTuple):
    """A bearer URL and the moment it really stops working.

    Attributes:
        headers: what a request has to send with it, for a PUT.
    """

    url: str
    expires_at: datetime
    headers: Mapping[str, str] = _NO_HEADERS


class PresignRequest(NamedTuple):
    """What a URL shall permit.

    Attributes:
        method: ``GET`` or ``PUT``.
        expires_in: asked for; a store's own limit or the credentials' end may come earlier.
        content_type: a GET answers with it, whatever the object was stored with; a PUT must
            send it.
        file_name: a GET suggests it to browsers (``Content-Disposition``).
        attachment: a GET tells browsers to save the object, and not to show it.
    """

    method: str
    expires_in: timedelta
    content_type: str = ""
    file_name: str = ""
    attachment: bool = False


def key_bytes(key: str) -> bytes:
    """Return the bytes of a key, which are what listings are ordered by.

    Raises:
        UsageError: half a surrogate pair, which stands for no byte.
    """
    try:
        return key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise UsageError(f"not a key of an object, it has no bytes: {key!r}") from None


def get_bounded(store: ObjectStore, key: str, max_size: int) -> bytes:
    """Return a whole object by one request that fetches no more than it may have.

    Raises:
        ObjectNotFound: no such key.
        TooLarge: it has more than `max_size` bytes.
    """
    data = store.get(key, start=0, length=max_size + 1)
    if len(data) > max_size:
        raise TooLarge(key, max_size)
    return data


def check_range(start: int, length: int | None) -> None:
    """Refuse a range that `ObjectStore.get` does not define.

    Raises:
        ValueError: a suffix with a length, or a negative length.
    """
    if length is not None and (start < 0 or length < 0):
        raise ValueError(f"no such range: start={start}, length={length}")


class ObjectStore(Protocol):
    """One storage namespace: a prefix in a bucket, or a directory.

    Every method may be retried by its caller, so each is safe to repeat. Instances are safe to
    share between threads.
    """

    @property
    def uri(self) -> str:
        """The normalised URI of the namespace, without a trailing slash."""

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Return bytes ``[start, start + length)``, less where the object ends earlier.

        A negative `start` counts from the end (a suffix read), with no `length`. A suffix longer
        than the object is the whole object; a start at or past the end gives ``b""``.

        Raises:
            ObjectNotFound: no such key.
        """

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        """Return an object and the version of just these bytes, for compare-and-set.

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
        self,
        key: str,
        body: bytes | BinaryIO,
        condition: Condition,
        *,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> Version:
        """Write an object whole, atomically and durably; readers see the old or the new one.

        Raises:
            ConditionFailed: `condition` did not hold.
        """

    def put_new(self, key: str, body: bytes) -> bool:
        """Write `body` unless the key is there already, which is fine; tell whether it was absent.

        For keys that say what their bytes are: unlike a conditional `put`, it is sent again after
        a reply that was lost, and then it may find its own object there.
        """

    def head(self, key: str) -> ObjectInfo:
        """Describe one object.

        Raises:
            ObjectNotFound: no such key.
        """

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects under `prefix` with keys greater than `after`, in byte order."""

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, in batches where the store can; a missing one is fine."""

    def copy(self, source: str, key: str) -> None:
        """Copy one object inside the namespace, on the store's side.

        Raises:
            ObjectNotFound: no such `source`.
        """

    def presign(self, key: str, request: PresignRequest, *, now: datetime) -> PresignedUrl:
        """Sign a URL without asking the store anything.

        Raises:
            Unsupported: the store has no URLs.
        """

    def local_path(self, key: str) -> Path | None:
        """Return the file that holds an object's bytes on this machine, if there is one."""

    def batch(self) -> Batch:
        """Start a batch of create-only writes that become durable together."""


class Batch(Protocol):
    """Many small create-only writes with one durability point.

    Nothing written is promised to be visible before `flush`, and everything is durable after it.
    A batch that is dropped leaves at most temporary files, never a torn object. Safe to share
    between threads.
    """

    def put_new(self, key: str, body: bytes) -> None:
        """Write `body` unless the key is there already; an existing object stays as it is."""

    def put_content(self, key: str, body: bytes) -> None:
        """Write `body` unless an object of this key and size is there.

        For keys derived from the digest of their bytes: an object of another size is damaged and
        is replaced, see `contents.put_content`.
        """

    def adopt(self, key: str, temporary: str) -> None:
        """Give a finished `spool` its final key, derived from the digest of its bytes.

        An existing object of the same size stays as it is; one of another size is replaced.
        """

    def spool(self) -> tuple[str, BinaryIO]:
        """Open a temporary object whose final key is not known yet; the caller closes the file.

        Raises:
            Unsupported: the store cannot rename; hash first, then put.
        """

    def flush(self) -> Collection[str]:
        """Make everything so far durable and visible, in order: content first, then names.

        After an error, nothing of it counts as durable. What the error may have lost is dropped,
        so that another flush never makes it visible; write it again.

        Returns:
            The keys that were there already and stayed as they were, where the answers of the
            store say so; a directory of this machine, whose files nobody copies, names none.
        """

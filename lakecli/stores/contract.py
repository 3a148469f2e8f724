"""The contract of object stores: a flat, ordered namespace of objects with conditional writes.

Adapters are classes that satisfy `ObjectStore`; all adapters pass the same test suite. Keys are
``str`` relative to the store's prefix; bytes that are not UTF-8 are surrogates. Adapters convert
their SDK's errors to lakecli's:

- no such key: `ObjectNotFound`; no such bucket: `BucketNotFound`
- a condition that did not hold (S3 412, 409, 404 on a conditional PUT, …): `ConditionFailed`
- missing or refused credentials: `PermissionDenied`; missing permissions: `NotAllowed`
- no connection, time-outs, throttling, 5xx after the retries, disk full: `Unreachable`
- an operation that the store does not have: `Unsupported`

`capabilities` has the operations that only some stores have.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, NewType, Protocol

from lakecli.base.model import CONTENT_CODINGS, NO_METADATA
from lakecli.errors import IntegrityError, LostRace, NotFound, PermissionDenied, Refused, UsageError

if TYPE_CHECKING:
    from lakecli.stores.presigned_urls import PresignedUrl, PresignRequest

Version = NewType("Version", str)
"""An opaque text, such as an ETag or a generation. Compare it for equality only."""


class ObjectNotFound(NotFound):
    """No object has this key."""


class BucketNotFound(NotFound):
    """The bucket, container or directory does not exist."""


class ConditionFailed(LostRace):
    """The condition of a write did not hold; nothing was written."""


class NotAllowed(PermissionDenied):
    """The credentials are valid but lack the permission for a request."""


class ObjectArchived(Refused):
    """The object is in an archive tier, and must be restored before it can be read."""


class TooLarge(IntegrityError):
    """The object is larger than any valid object of its kind, so it was not fetched completely."""

    def __init__(self, key: str, max_size: int) -> None:
        super().__init__(
            f"{key} has more than {max_size:,} bytes, more than lakecli ever writes there",
            hint="something else writes into this namespace: restore the object from a backup",
        )


class AnyVersion:
    """The condition of a write that is always performed."""

    __slots__ = ()


class Absent:
    """The condition that the key does not exist."""

    __slots__ = ()


class Match(NamedTuple):
    """The condition that the object has exactly this version."""

    version: Version

    def checked(self) -> Version:
        """Return the version; raise `ValueError` if it is empty, which would not be a condition."""
        if not self.version:
            raise ValueError("a version to match cannot be empty")
        return self.version


Condition = AnyVersion | Absent | Match
"""The condition of a write. It has no default, because a forgotten condition loses updates."""

ANY: Final = AnyVersion()
ABSENT: Final = Absent()


class ObjectInfo(NamedTuple):
    """The properties of one object in a listing or a head request.

    Attributes:
        modified_at: time of the last change, by the store's clock.
        content_type: MIME type. Like `content_encoding` and `metadata`, it is known only from
            `ObjectStore.head`, and only if the store keeps it, which a directory does not.
        metadata: user metadata; some stores return the keys in lower case.
        md5: MD5 of the bytes in hex digits, if the ETag is not an MD5 and the store reports the MD5
            separately; else ``""``.
        archive: the archive tier of an object that must be restored before it is read; ``""``:
            none. A listing of S3 also names the tier of an object that has been restored already.
    """

    key: str
    size: int
    modified_at: datetime
    version: Version
    etag: str = ""
    content_type: str = ""
    metadata: Mapping[str, str] = NO_METADATA
    md5: str = ""
    archive: str = ""
    content_encoding: str = ""


_TAG: Final = r'(?:W/)?"?(.*?)(?:(?:--?|;)(?:gzip|br|deflate|zstd))?"?'
_SENT: Final = "[!#-~]{1,1024}"
_OF_TRANSFERS: Final = frozenset({"", "aws-chunked", "identity"})


def plain_tag(etag: str) -> str:
    """Return an ETag without its quotes, and without the suffix that a compressing proxy adds."""
    found = re.fullmatch(_TAG, etag, re.DOTALL)
    return found[1] if found else etag


def tag_to_send(etag: str) -> str:
    """Return an ETag without quotes, for a condition; ``""`` if the ETag cannot be a condition.

    Weak ETags cannot be conditions, nor can texts that are not legal in a header.
    """
    tag = plain_tag(etag)
    return "" if etag.startswith("W/") or not re.fullmatch(_SENT, tag) else tag


def check_matching(matching: str, key: str, *found: str) -> None:
    """Raise `ConditionFailed` unless `matching` is empty or equals one of the object's tags.

    Args:
        matching: an ETag, a version or an MD5; ``""``: any object is accepted.
        found: the tags that the store reports; ``""`` in place of a tag that it does not report.
    """
    if matching and plain_tag(matching) not in map(plain_tag, filter(None, found)):
        raise ConditionFailed(f"not the object that was asked for: {key!r}")


def plain_encoding(encoding: str | None) -> str:
    """Return a Content-Encoding without transfer codings, which some servers store with it.

    A malformed value becomes ``""``.
    """
    parts = [part.strip() for part in (encoding or "").split(",")]
    kept = ", ".join(part for part in parts if part.lower() not in _OF_TRANSFERS)
    return kept if CONTENT_CODINGS.fullmatch(kept) else ""


class Attributes(NamedTuple):
    """Properties that a store keeps with an object; a directory keeps none of them.

    Attributes:
        content_type: MIME type; ``""``: the store's default.
        content_encoding: Content-Encoding of the stored bytes; ``""``: none.
    """

    content_type: str = ""
    metadata: Mapping[str, str] = NO_METADATA
    content_encoding: str = ""


PLAIN: Final = Attributes()
JSON: Final = Attributes("application/json")


class ObjectStore(Protocol):
    """One storage namespace: a prefix in a bucket, or a directory.

    Every method is safe to call again after a failure. Instances are safe to share between threads.
    """

    @property
    def uri(self) -> str:
        """The normalised URI of the namespace, without a trailing slash."""

    def get(
        self, key: str, *, start: int = 0, length: int | None = None, matching: str = ""
    ) -> bytes:
        """Return bytes ``[start, start + length)``, fewer if the object ends earlier.

        A negative `start` counts from the end (a suffix read); then `length` must be ``None``. If
        the suffix is longer than the object, the whole object is returned. If `start` is at or past
        the end, the result is ``b""``.

        Args:
            matching: the ETag that the object must have, as in `ObjectInfo`; the version if the
                store has no ETags, or the MD5 if it reports one; ``""``: any object is accepted.
                The tag is sent as a condition if the store supports one, and is always compared
                with the response.

        Raises:
            ObjectNotFound: no such key.
            ConditionFailed: the object does not match, or the response lacks the tag to compare.
                Some stores raise this error also if the object does not exist.
        """

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        """Return an object and the version that has exactly these bytes, for compare-and-set.

        Args:
            length: largest number of bytes to read from the beginning; ``None``: all. If `length`
                is given, the version of an empty object may be unknown (``""``).

        Raises:
            ObjectNotFound: no such key.
        """

    def open(self, key: str, *, matching: str = "") -> BinaryIO:
        """Open an object for one pass of reading; the caller closes it.

        Raises:
            ObjectNotFound: no such key.
            ConditionFailed: the object does not match, as in `get`.
        """

    def put(
        self, key: str, body: bytes | BinaryIO, condition: Condition, attributes: Attributes = PLAIN
    ) -> Version:
        """Write an object atomically and durably: readers see either the old or the new object.

        Args:
            body: the bytes, or a stream of them. With a condition, a store may read the whole
                stream into memory, so that a single request writes the object.

        Raises:
            ConditionFailed: `condition` did not hold.
        """

    def put_new(self, key: str, body: bytes) -> bool:
        """Write `body` unless the key exists; return whether the key was absent.

        Only for keys that determine their bytes: unlike a conditional `put`, the request is
        repeated after a lost response, and may then find the object that the first attempt wrote.
        """

    def head(self, key: str) -> ObjectInfo:
        """Return the properties of an object.

        Raises:
            ObjectNotFound: no such key.
        """

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects under `prefix` with keys greater than `after`, in byte order."""

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, in batches if possible; missing objects are ignored."""

    def copy(self, source: str, key: str) -> None:
        """Copy one object inside the namespace, without fetching it.

        Raises:
            ObjectNotFound: `source` does not exist.
        """

    def presign(self, key: str, request: "PresignRequest", *, now: datetime) -> "PresignedUrl":
        """Return a presigned URL of an object, usually without sending a request.

        Raises:
            Unsupported: the store has no URLs.
        """

    def local_path(self, key: str) -> str | None:
        """Return the path of the object's file on this machine; ``None`` without such a file."""

    def batch(self) -> "WriteBatch":
        """Start a batch of create-only writes that become durable together."""


class WriteBatch(Protocol):
    """Many small create-only writes that become durable together, by `flush`.

    Objects may be invisible before `flush`; all are visible and durable after it. A batch that is
    not flushed leaves at most temporary files, never an incomplete object. Safe to share between
    threads.
    """

    def put_new(self, key: str, body: bytes) -> None:
        """Write `body` unless the key exists; an existing object is unchanged."""

    def flush(self) -> Collection[str]:
        """Make everything written so far durable and visible: first the contents, then the names.

        After an error, treat no object as durable. The batch drops the objects that the error may
        have damaged, so no later flush makes them visible; they have to be written again.

        Returns:
            The keys of objects that already existed and were not changed, as far as the store
            reports this; a directory reports none.
        """


class Guard(Protocol):
    """Protects new and existing objects from garbage collection.

    `lakecli.repository.guard.GcGuard` implements it.
    """

    def begin(self) -> bool:
        """Return whether existing objects need protection; call this before any search."""

    def settle(
        self, *, found: Collection[str], written: Collection[str], whole: bool = False
    ) -> None:
        """Protect objects; call this before any record refers to them.

        Args:
            found: keys of objects that already existed.
            written: keys of new objects, which must be durable.
            whole: whether the objects refer to other objects that are missing from `found` and
                `written`.
        """

    def claim(self, keys: Collection[str]) -> Mapping[str, int] | None:
        """Protect objects; return the sizes of the existing objects, by key.

        Return ``None`` without checking anything if garbage collection has never run.
        """


def key_bytes(key: str) -> bytes:
    """Return the bytes of a key; listings are ordered by these bytes.

    Raises:
        UsageError: the key has a surrogate that does not represent a byte.
    """
    try:
        return key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise UsageError(f"not a key of an object, it cannot be encoded: {key!r}") from None


def get_bounded(store: ObjectStore, key: str, max_size: int) -> bytes:
    """Return a whole object by one request that fetches at most ``max_size + 1`` bytes.

    Raises:
        ObjectNotFound: no such key.
        TooLarge: the object has more than `max_size` bytes.
    """
    data = store.get(key, start=0, length=max_size + 1)
    if len(data) > max_size:
        raise TooLarge(key, max_size)
    return data


def find_bounded(store: ObjectStore, key: str, max_size: int) -> bytes | None:
    """Return a whole object like `get_bounded`; ``None`` if it does not exist."""
    try:
        return get_bounded(store, key, max_size)
    except ObjectNotFound:
        return None


def find_info(store: ObjectStore, key: str) -> ObjectInfo | None:
    """Return the properties of an object, as `store.head` does; ``None`` if it does not exist."""
    try:
        return store.head(key)
    except ObjectNotFound:
        return None


def exists(store: ObjectStore, key: str) -> bool:
    """Return whether an object exists, by one HEAD request."""
    return find_info(store, key) is not None


def size_of(store: ObjectStore, key: str) -> int | None:
    """Return the size of an object with one request; ``None`` if it does not exist."""
    found = find_info(store, key)
    return None if found is None else found.size


def is_much_less(found: int, before: int) -> bool:
    """Return whether `found` items are less than nine tenths of the earlier number `before`.

    A store or a file system may omit objects from a listing without an error. So a caller that is
    about to delete unlisted items first lists again if this function returns true.
    """
    return found * 10 < before * 9


def check_condition(condition: Condition, current: Version | None, key: str) -> None:
    """Raise `ConditionFailed` unless the condition of a write holds.

    Args:
        current: version of the object at the key, or ``None`` if there is no object.
    """
    match condition:
        case Absent() if current is not None:
            state = "there already"
        case Match() if current is None:
            state = "not there"
        case Match(version) if version != current:
            state = "of another version"
        case _:
            return
    raise ConditionFailed(f"object is {state}, nothing was written: {key!r}")


def put_content(store: ObjectStore, key: str, body: bytes) -> bool:
    """Write `body` unless an object of this key and size exists; return whether it was written.

    An object of a different size is damaged. It is replaced without a condition, since every writer
    of this key writes the same bytes.

    Args:
        key: a key derived from the digest of `body`.
    """
    if store.put_new(key, body):
        return True
    try:
        if store.head(key).size == len(body):
            return False
    except (ObjectNotFound, PermissionDenied):
        pass  # deleted since, or the credentials may only write: send it again
    store.put(key, body, ANY)
    return True


def check_range(start: int, length: int | None) -> None:
    """Raise `ValueError` for a negative length, or a length together with a negative start."""
    if length is not None and (start < 0 or length < 0):
        raise ValueError(f"no such range: start={start}, length={length}")

"""The contract of object stores: a flat, ordered namespace of objects with conditional writes.

Adapters are plain classes that satisfy `ObjectStore`; one contract suite runs on all of them.
Keys are ``str`` relative to the store's prefix; bytes that are not UTF-8 are surrogates.
Adapters translate their SDK's errors into lakecli's:

- no such key: `ObjectNotFound`; no such bucket: `BucketNotFound`
- a condition that did not hold (S3 412, 409, 404 on a conditional PUT, …): `ConditionFailed`
- missing or refused credentials and permissions: `PermissionDenied`
- no connection, time-outs, throttling, 5xx after the retries, disk full: `Unreachable`
- an operation that the store lacks: `Unsupported`

Operations that only some stores have are in `capabilities`.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, NewType, Protocol

from lakecli.base.model import CONTENT_CODINGS
from lakecli.errors import (
    IntegrityError,
    LostRace,
    NotFound,
    PermissionDenied,
    Refused,
    UsageError,
)

if TYPE_CHECKING:
    from lakecli.stores.presigned_urls import PresignedUrl, PresignRequest

Version = NewType("Version", str)
"""Opaque: an ETag or a generation. Compare it for equality only."""


class ObjectNotFound(NotFound):
    """No object has this key."""


class BucketNotFound(NotFound):
    """The bucket, container or directory does not exist."""


class ConditionFailed(LostRace):
    """The condition of a write did not hold; nothing was written."""


class ObjectArchived(Refused):
    """The object is in an archive tier: the store has to restore it before it can be read."""


class TooLarge(IntegrityError):
    """The object is larger than any valid object of its kind; it was not fetched."""

    def __init__(self, key: str, max_size: int) -> None:
        super().__init__(
            f"{key} has more than {max_size:,} bytes, more than lakecli ever writes there",
            hint="something else writes into this namespace: restore the object from a backup",
        )


class AnyVersion:
    """Write unconditionally."""

    __slots__ = ()


class Absent:
    """Write only if the key does not exist."""

    __slots__ = ()


class Match(NamedTuple):
    """Write only if the object has exactly this version."""

    version: Version

    def checked(self) -> Version:
        """Return the version; raise `ValueError` if it is empty, which would be no condition."""
        if not self.version:
            raise ValueError("a version to match cannot be empty")
        return self.version


Condition = AnyVersion | Absent | Match
"""Always given explicitly: an optional version that happens to be None is how updates get lost."""

ANY: Final = AnyVersion()
ABSENT: Final = Absent()

NO_METADATA: Final[Mapping[str, str]] = {}
"""Never changed; unlike a `MappingProxyType` it can be pickled."""


class ObjectInfo(NamedTuple):
    """The properties of one object in a listing or a head request.

    Attributes:
        modified_at: time of the last change, by the store's clock.
        content_type: filled only by `ObjectStore.head`, and only if the store keeps it; a directory
            does not. The same is true of `content_encoding` and `metadata`.
        metadata: user metadata; some stores return the keys in lower case.
        md5: MD5 of the bytes in hex digits, if the store reports one in addition to an ETag that is
            not an MD5.
        archive: archive tier of an object that must be restored before it is read; in a listing of
            S3, also that of a restored object.
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
    """Return an ETag without quotes, for a condition; ``""`` if it cannot be one.

    A condition never holds for a weak ETag, and an entry may record any text as its ETag.
    """
    tag = plain_tag(etag)
    return "" if etag.startswith("W/") or not re.fullmatch(_SENT, tag) else tag


def check_matching(matching: str, key: str, *found: str) -> None:
    """Raise `ConditionFailed` if no tag of an object equals `matching`.

    Args:
        matching: an ETag, a version or an MD5; ``""``: any object is accepted.
        found: the tags that the store reports; ``""`` for a tag that it does not report.
    """
    if matching and plain_tag(matching) not in map(plain_tag, filter(None, found)):
        raise ConditionFailed(f"not the object that was asked for: {key!r}")


def plain_encoding(encoding: str | None) -> str:
    """Return a Content-Encoding without codings of the transfer, which some servers store, too.

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

    Callers may retry every method, so each is safe to repeat. Instances are safe to share between
    threads.
    """

    @property
    def uri(self) -> str:
        """The normalised URI of the namespace, without a trailing slash."""

    def get(
        self, key: str, *, start: int = 0, length: int | None = None, matching: str = ""
    ) -> bytes:
        """Return bytes ``[start, start + length)``, fewer if the object ends earlier.

        A negative `start` counts from the end (a suffix read); then `length` must be ``None``. A
        suffix longer than the object is the whole object; a start at or past the end gives ``b""``.

        Args:
            matching: the ETag that the object must have, as in `ObjectInfo`; the version if the
                store has no ETags, or the MD5 if it reports one; ``""``: any object is accepted. It
                is sent as a condition if the store has such a condition, and is always compared
                with the response.

        Raises:
            ObjectNotFound: no such key.
            ConditionFailed: the object does not match, or the response does not say whether it
                does. Some stores raise this also if there is no object.
        """

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        """Return an object and the version of exactly these bytes, for compare-and-set.

        Args:
            length: largest number of bytes to read from the beginning; ``None``: all. With a
                length, the version of an empty object may be unknown (``""``).

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
        """Write an object atomically and durably; readers see the old or the new one.

        Raises:
            ConditionFailed: `condition` did not hold.
        """

    def put_new(self, key: str, body: bytes) -> bool:
        """Write `body` unless the key exists; return whether it was absent.

        For keys that determine their bytes: unlike a conditional `put`, the request is repeated
        after a lost response, and may then find the object that it has written itself.
        """

    def head(self, key: str) -> ObjectInfo:
        """Describe one object.

        Raises:
            ObjectNotFound: no such key.
        """

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects under `prefix` with keys greater than `after`, in byte order."""

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, in batches if the store can; a missing object is ignored."""

    def copy(self, source: str, key: str) -> None:
        """Copy one object inside the namespace, without fetching it.

        Raises:
            ObjectNotFound: no such `source`.
        """

    def presign(self, key: str, request: "PresignRequest", *, now: datetime) -> "PresignedUrl":
        """Sign a URL, usually without a request.

        Raises:
            Unsupported: the store has no URLs.
        """

    def local_path(self, key: str) -> str | None:
        """Return the path of the object's file on this machine, or ``None`` without such a file."""

    def batch(self) -> "WriteBatch":
        """Start a batch of create-only writes that become durable together."""


class WriteBatch(Protocol):
    """Many small create-only writes that become durable together, by `flush`.

    Before `flush`, objects may be invisible; after it, all are visible and durable. A dropped batch
    leaves at most temporary files, never an incomplete object. Safe to share between threads.
    """

    def put_new(self, key: str, body: bytes) -> None:
        """Write `body` unless the key exists; an existing object is unchanged."""

    def put_content(self, key: str, body: bytes) -> None:
        """Write `body` unless an object of this key and size exists.

        For keys derived from the digest of their bytes: an object of another size is damaged and is
        replaced. See the function `put_content`.
        """

    def adopt(self, key: str, temporary: str) -> None:
        """Give a finished `spool` its final key, derived from the digest of its bytes.

        An existing object of the same size is kept; one of another size is replaced.
        """

    def spool(self) -> tuple[str, BinaryIO]:
        """Open a temporary object whose final key is still unknown; the caller closes the file.

        Raises:
            Unsupported: the store cannot rename objects.
        """

    def flush(self) -> Collection[str]:
        """Make everything written so far durable and visible, in order: content first, then names.

        After an error, nothing counts as durable. Objects that the error may have damaged are
        dropped, so that no later flush makes them visible; write them again.

        Returns:
            The keys that existed and were unchanged, if the store's responses say so; a directory
            returns none.
        """


class Guard(Protocol):
    """Protects objects, new and existing ones, from garbage collection.

    `lakecli.repository.guard.GcGuard` implements it.
    """

    def begin(self) -> bool:
        """Return whether existing objects need protection; called before any check for objects."""

    def settle(
        self, *, found: Collection[str], written: Collection[str], whole: bool = False
    ) -> None:
        """Claim objects; called before anything refers to them.

        Args:
            found: keys of objects that existed already.
            written: keys of new objects, which are durable by now.
            whole: whether the objects refer to others that are not listed here.
        """

    def claim(self, keys: Collection[str]) -> Mapping[str, int] | None:
        """Claim objects that exist; return the sizes of those found, or ``None``."""


def key_bytes(key: str) -> bytes:
    """Return the bytes of a key, by which listings are ordered.

    Raises:
        UsageError: the key has a lone surrogate that does not stand for a byte.
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


def exists(store: ObjectStore, key: str) -> bool:
    """Return whether a namespace has an object, by one HEAD request."""
    try:
        store.head(key)
    except ObjectNotFound:
        return False
    return True


def is_much_less(found: int, before: int) -> bool:
    """Return whether `found` is less than nine tenths of `before`, the earlier number of items.

    A store or a file system may omit objects from a listing without an error. So a caller that is
    about to delete the unlisted items lists again first.
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

    An object of another size is damaged and is replaced without a condition, since every writer of
    this key writes these bytes.

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
    """Raise `ValueError` for a suffix with a length, or a negative length."""
    if length is not None and (start < 0 or length < 0):
        raise ValueError(f"no such range: start={start}, length={length}")

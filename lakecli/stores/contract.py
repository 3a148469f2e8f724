"""The contract of object stores: a flat, ordered namespace of objects with conditional writes.

Adapters are plain classes that satisfy `ObjectStore`; one contract suite runs on all of them.
Keys are ``str`` relative to the store's prefix; bytes that are not UTF-8 are surrogates.
Adapters translate their SDK's errors into lakecli's:

- no such key: `ObjectNotFound`; no such bucket: `BucketNotFound`
- a condition that did not hold (S3 412, 409, 404 on a conditional PUT, …): `ConditionFailed`
- missing or refused credentials: `PermissionDenied`; missing permissions: `NotAllowed`
- no connection, time-outs, throttling, 5xx after the retries, disk full: `Unreachable`
- what the store cannot do: `Unsupported`

What only some stores can do is in `capabilities`.
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


class NotAllowed(PermissionDenied):
    """The credentials are valid, and permissions refuse what was asked with them."""


class ObjectArchived(Refused):
    """The object is in an archive tier: the store has to restore it before anybody reads it."""


class TooLarge(IntegrityError):
    """An object larger than any valid one of its kind; it was not fetched."""

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
    """Write only over exactly this version."""

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

    ``modified_at`` is by the store's clock. Only `ObjectStore.head` fills ``content_type``,
    ``content_encoding`` and ``metadata``, and only where the store keeps them: a directory does
    not. Stores may return the keys of metadata in lower case. ``md5`` is the MD5 of the bytes in
    hex digits, if the store reports it beside an ETag that is none. ``archive`` is the archive tier
    of an object that cannot be read before it is restored; a listing of S3 has it of restored ones,
    too.
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
    """Return an ETag without its quotes, and without the suffix that compressing proxies add."""
    found = re.fullmatch(_TAG, etag, re.DOTALL)
    return found[1] if found else etag


def tag_to_send(etag: str) -> str:
    """Return an ETag as the condition of a request, without quotes; ``""``: it cannot be one.

    A weak ETag never holds in a condition, and an entry may record anything.
    """
    tag = plain_tag(etag)
    return "" if etag.startswith("W/") or not re.fullmatch(_SENT, tag) else tag


def check_matching(matching: str, key: str, *found: str) -> None:
    """Refuse an object if none of its tags equals `matching`.

    Args:
        matching: an ETag, a version or an MD5; ``""``: any object will do.
        found: what the store says; ``""`` where it says nothing.
    """
    if matching and plain_tag(matching) not in map(plain_tag, filter(None, found)):
        raise ConditionFailed(f"not the object that was asked for: {key!r}")


def plain_encoding(encoding: str | None) -> str:
    """Return a Content-Encoding without what belongs to a transfer; some servers store that.

    A malformed one is none.
    """
    parts = [part.strip() for part in (encoding or "").split(",")]
    kept = ", ".join(part for part in parts if part.lower() not in _OF_TRANSFERS)
    return kept if CONTENT_CODINGS.fullmatch(kept) else ""


class Attributes(NamedTuple):
    """What a store keeps with an object; a directory keeps nothing of it.

    Attributes:
        content_type: ``""``: the store's default.
        content_encoding: of the bytes as they are stored; ``""``: none.
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

        A negative `start` counts from the end (a suffix read), with no `length`. A suffix longer
        than the object is the whole object; a start at or past the end gives ``b""``.

        Args:
            matching: the ETag that the object must have, as `ObjectInfo` has it, the version where
                a store has no ETags, or the MD5 where it reports one; ``""``: any object will do.
                The request has it as its condition, if the store knows such a condition, and what
                the response says is compared in any case.

        Raises:
            ObjectNotFound: no such key.
            ConditionFailed: the object does not match, or the response does not say so. Some
                stores answer so, too, if there is no object.
        """

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        """Return an object and the version of exactly these bytes, for compare-and-set.

        Args:
            length: bytes to read from its beginning, at most; ``None``: all. Of an empty object
                the version may then be unknown, ``""``.

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

    def presign(self, key: str, request: "PresignRequest", *, now: datetime) -> "PresignedUrl":
        """Sign a URL, usually without a request.

        Raises:
            Unsupported: the store has no URLs.
        """

    def local_path(self, key: str) -> str | None:
        """Return the path of the file of this machine that holds the object, or ``None``."""

    def batch(self) -> "WriteBatch":
        """Start a batch of create-only writes that become durable together."""


class WriteBatch(Protocol):
    """Many small create-only writes with one durability point.

    Before `flush`, objects may be invisible; after it, all are visible and durable. A dropped batch
    leaves at most temporary files, never a torn object. Safe to share between threads.
    """

    def put_new(self, key: str, body: bytes) -> None:
        """Write `body` unless the key exists; an existing object is unchanged."""

    def put_content(self, key: str, body: bytes) -> None:
        """Write `body` unless an object of this key and size exists.

        For keys derived from the digest of their bytes: an object of another size is damaged and
        replaced, see the function `put_content`.
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


class Guard(Protocol):
    """Protects objects, new ones and those that existed already, from garbage collection.

    It is `lakecli.repository.guard.GcGuard`, whose methods these are.
    """

    def begin(self) -> bool:
        """Return whether objects that existed already need protection; called before any check."""

    def settle(
        self, *, found: Collection[str], written: Collection[str], whole: bool = False
    ) -> None:
        """Claim objects; called before anything refers to them.

        Args:
            found: keys of objects that existed already.
            written: keys of new objects, durable by now.
            whole: the objects refer to others that are not listed here.
        """

    def claim(self, keys: Collection[str]) -> Mapping[str, int] | None:
        """Claim objects that exist; return the sizes of those found, or ``None``."""


def key_bytes(key: str) -> bytes:
    """Return the bytes of a key, by which listings are ordered.

    Raises:
        UsageError: the key has half a surrogate pair, which is no byte.
    """
    try:
        return key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise UsageError(f"not a key of an object, it cannot be encoded: {key!r}") from None


def get_bounded(store: ObjectStore, key: str, max_size: int) -> bytes:
    """Return a whole object by one request that fetches no more than it may hold.

    Raises:
        ObjectNotFound: no such key.
        TooLarge: it has more than `max_size` bytes.
    """
    data = store.get(key, start=0, length=max_size + 1)
    if len(data) > max_size:
        raise TooLarge(key, max_size)
    return data


def exists(store: ObjectStore, key: str) -> bool:
    """Tell whether a namespace has an object; one HEAD."""
    try:
        store.head(key)
    except ObjectNotFound:
        return False
    return True


def is_much_less(found: int, before: int) -> bool:
    """Return whether more than a tenth of what was there before was not found.

    A store or a file system that fails to list something says nothing about it. So whoever is about
    to delete what is not listed lists again first.
    """
    return found * 10 < before * 9


def check_condition(condition: Condition, current: Version | None, key: str) -> None:
    """Raise `ConditionFailed` unless the condition of a write holds.

    Args:
        current: the version of the object that has the key, or ``None``.
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
    """Write `body` unless an object of this key and size exists; return whether it was absent.

    An object of another size is damaged and is replaced without a condition, since every writer of
    this key writes these bytes.

    Args:
        key: derived from the digest of `body`.
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

"""What adapters and callers of object stores share at run time: errors, conditions and records.

`lakecli.stores.protocol` has the protocol itself, which no program needs at its start: type
checkers find `ObjectStore` and `Batch` here, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, NewType

from lakecli.errors import IntegrityError, LostRace, NotFound, UsageError

if TYPE_CHECKING:
    from lakecli.stores.protocol import Batch as Batch  # noqa: PLC0414 - found here, too
    from lakecli.stores.protocol import ObjectStore as ObjectStore  # noqa: PLC0414

Version = NewType("Version", str)
"""Opaque: an ETag or a generation. Compare it for equality only."""


class ObjectNotFound(NotFound):
    """No object has this key."""


class BucketNotFound(NotFound):
    """The bucket, container or directory does not exist."""


class ConditionFailed(LostRace):
    """The condition of a write did not hold; nothing was written."""


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
        """Return the version.

        Raises:
            ValueError: it is empty, which would be no condition.
        """
        if not self.version:
            raise ValueError("a version to match cannot be empty")
        return self.version


Condition = AnyVersion | Absent | Match
"""Always given explicitly: an optional version that happens to be None is how updates get lost."""

ANY: Final = AnyVersion()
ABSENT: Final = Absent()

_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


NO_METADATA: Final[Mapping[str, str]] = {}
"""Never changed; unlike a `MappingProxyType` it can be pickled."""


class ObjectInfo(NamedTuple):
    """The properties of one object in a listing or a head request.

    ``modified_at`` is by the store's clock. Only `ObjectStore.head` fills ``content_type`` and
    ``metadata``, and only where the store keeps them: a directory does not. Stores may return the
    keys of metadata in lower case. ``md5`` is the MD5 of the bytes in hex digits, if the store
    reports it beside an ETag that is none.
    """

    key: str
    size: int
    modified_at: datetime
    version: Version
    etag: str = ""
    content_type: str = ""
    metadata: Mapping[str, str] = NO_METADATA
    md5: str = ""


class Attributes(NamedTuple):
    """What a store keeps with an object; a directory keeps neither.

    Attributes:
        content_type: ``""``: the store's default.
        metadata: names and values.
    """

    content_type: str = ""
    metadata: Mapping[str, str] = _NO_HEADERS


PLAIN: Final = Attributes()
JSON: Final = Attributes("application/json")


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


def check_range(start: int, length: int | None) -> None:
    """Reject a range that `ObjectStore.get` does not define.

    Raises:
        ValueError: a suffix with a length, or a negative length.
    """
    if length is not None and (start < 0 or length < 0):
        raise ValueError(f"no such range: start={start}, length={length}")

"""Reading a part of an object as a stream, on every store."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from lakecli.objectstore.base import ObjectStore


def open_range(store: ObjectStore, key: str, *, start: int, length: int) -> BinaryIO:
    """Open bytes ``[start, start + length)`` of an object for one pass; the caller closes it.

    Stores that have a method of this name stream them; of others the part is read whole. No store
    repeats anything here by itself.

    Raises:
        ObjectNotFound: no such key.
        Unsupported: the server does not know ranges.
    """
    stream = getattr(store, "open_range", None)
    if stream is not None:
        return cast("BinaryIO", stream(key, start=start, length=length))
    return BytesIO(store.get(key, start=start, length=length))

"""Writing objects named by their contents: same name and same size means the same object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.errors import PermissionDenied
from lakecli.stores.base import ANY, ObjectNotFound

if TYPE_CHECKING:
    from lakecli.stores.base import ObjectStore


def put_content(store: ObjectStore, key: str, body: bytes) -> bool:
    """Write `body` unless an object of this key and size exists; return whether it was absent.

    An object of another size is damaged and is replaced without a condition, since every writer of
    this key writes these bytes.

    Args:
        store: the namespace.
        key: derived from the digest of `body`.
        body: the whole object.
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

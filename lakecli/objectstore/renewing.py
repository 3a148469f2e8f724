"""Giving an object a new time and a new version without fetching it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.objectstore.base import ObjectStore


def renew(store: ObjectStore, key: str, *, aside: str) -> None:
    """Make an object as young as if it had been written just now.

    Stores that have a method ``renew`` do it at once, so that no reader ever finds less than the
    whole object. In others it is copied to another key and back, since an object cannot be copied
    onto itself everywhere.

    Args:
        store: the namespace.
        key: of the object.
        aside: a key that nobody else uses; it is gone afterwards.

    Raises:
        ObjectNotFound: no such object.
    """
    at_once: Callable[[str], None] | None = getattr(store, "renew", None)
    if at_once is not None:
        at_once(key)
        return
    store.copy(key, aside)
    store.copy(aside, key)
    store.delete([aside])

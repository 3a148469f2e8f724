"""Copying objects from one namespace to another on the store's side, where both are of one kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lakecli.objectstore.base import ObjectStore


def can_copy(source: ObjectStore, target: ObjectStore) -> bool:
    """Tell whether two stores are of one kind that copies on its side, without asking them."""
    return type(source) is type(target) and hasattr(target, "copy_from")


def copy_across(
    source: ObjectStore,
    source_key: str,
    target: ObjectStore,
    key: str,
    *,
    content_type: str = "",
    metadata: Mapping[str, str] | None = None,
) -> bool:
    """Copy an object without fetching it; tell whether these two stores can do that.

    The copy has the content type and the metadata that are given here, not the original's.

    Raises:
        ObjectNotFound: no such `source_key`.
        PermissionDenied: the credentials of the target's store may not read the source.
    """
    if not can_copy(source, target):
        return False
    copy_from: Callable[..., bool] = getattr(target, "copy_from")  # noqa: B009 - not of all stores
    return copy_from(source, source_key, key, content_type=content_type, metadata=metadata or {})

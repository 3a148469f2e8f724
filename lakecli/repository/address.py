"""From an entry's physical address to the store and key that hold its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakecli.model import Entry
    from lakecli.objectstore.base import ObjectStore
    from lakecli.repository.lake import Repository


def is_external(entry: Entry) -> bool:
    """Tell whether an entry's bytes lie outside the repository's own namespace layout."""
    return "://" in entry.physical_address


def locate(repository: Repository, entry: Entry) -> tuple[ObjectStore, str]:
    """Return the store and the key of an entry's bytes.

    Raises:
        UsageError: the address is of a kind that lakecli has no store for.
    """
    address = entry.physical_address
    if not is_external(entry):
        return repository.store, address
    from lakecli.objectstore.registry import open_store

    parent, _, name = address.rpartition("/")
    return open_store(parent), name


def full_address(repository: Repository, entry: Entry) -> str:
    """Return the URI of an entry's bytes."""
    if is_external(entry):
        return entry.physical_address
    return f"{repository.record.storage_namespace}/{entry.physical_address}"

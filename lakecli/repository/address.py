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
    if not is_external(entry):
        return repository.store, entry.physical_address
    from lakecli.objectstore.registry import open_store

    bucket, key = split_address(entry.physical_address)
    return open_store(bucket), key


def split_address(address: str) -> tuple[str, str]:
    """Return the URI of the bucket of an external address, and the key in it.

    Of a file it is the directory and the name. The key is taken as it is, slashes at its beginning
    and double ones included.

    Raises:
        UsageError: the address is of a kind that lakecli has no store for.
    """
    from lakecli.objectstore.uri import parse

    parsed = parse(address)
    if not parsed.bucket:
        parent, _, name = address.rpartition("/")
        return str(parse(parent)), name
    scheme, _, rest = address.partition("://")
    if scheme.lower() == "https":
        # Azure's own form, which lakeFS records: the host stands for the account.
        from urllib.parse import unquote

        key = unquote(rest.split("/", 2)[2], errors="surrogateescape")
    else:
        key = rest[len(parsed.bucket) + 1 :]
    return str(parsed._replace(path="")), key


def full_address(repository: Repository, entry: Entry) -> str:
    """Return the URI of an entry's bytes."""
    if is_external(entry):
        return entry.physical_address
    return f"{repository.record.storage_namespace}/{entry.physical_address}"

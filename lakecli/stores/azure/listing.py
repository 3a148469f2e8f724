"""Listing blobs in byte order.

Azure orders names by their UTF-16 units: characters beyond U+FFFF come before those from U+E000 on;
everything else is in byte order. Accounts with directories (a hierarchical namespace) list the
contents of a directory right after its name, before longer names that begin with it. Only a listing
of the whole directory could correct that, so it is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from lakecli.stores.responses import name_below

if TYPE_CHECKING:
    from azure.storage.blob import BlobProperties

    from lakecli.stores.azure.store import AzureStore

Entry = TypeVar("Entry")

_LAST_OF_PLANE_0 = "\uffff"


def current_blobs(
    store: AzureStore, prefix: str, *, with_versions: bool
) -> Iterator[BlobProperties]:
    """Yield the current blobs under a prefix, in Azure's order, and no directories.

    Args:
        store: of the container.
        prefix: of their full names.
        with_versions: request the IDs of their versions, too.
    """
    with store.translated():
        pages = store.sdk().pages(prefix, with_versions=with_versions)
    while True:
        with store.translated():
            page = next(pages, None)
            found = [] if page is None else list(page)
            for blob in found:
                name_below(prefix, blob.name or "")
        if page is None:
            return
        for blob in found:
            is_directory = (blob.metadata or {}).get("hdi_isfolder") == "true"
            is_old = with_versions and blob.version_id and not blob.is_current_version
            if not is_directory and not is_old:
                yield blob


def in_byte_order(
    entries: Iterable[Entry], name_of: Callable[[Entry], str], *, error: Callable[[], Exception]
) -> Iterator[Entry]:
    """Yield entries ordered by the bytes of their names.

    Names that share what precedes a character beyond U+FFFF are collected and sorted; such names
    are rare.

    Args:
        entries: in Azure's order.
        name_of: the name of an entry.
        error: makes the error to raise if the order is wrong.

    Raises:
        Exception: what `error` makes.
    """
    last = b""
    for entry in _rearranged(entries, name_of):
        name = name_of(entry).encode()
        if name <= last:
            raise error()
        last = name
        yield entry


def _rearranged(entries: Iterable[Entry], name_of: Callable[[Entry], str]) -> Iterator[Entry]:
    held: list[Entry] = []
    stem = ""
    for entry in entries:
        name = name_of(entry)
        if held and not name.startswith(stem):
            yield from sorted(held, key=lambda one: name_of(one).encode())
            held = []
        if not held:
            if name.isascii() or max(name) <= _LAST_OF_PLANE_0:
                yield entry
                continue
            first = next(at for at, character in enumerate(name) if character > _LAST_OF_PLANE_0)
            stem = name[:first]
        held.append(entry)
    yield from sorted(held, key=lambda one: name_of(one).encode())

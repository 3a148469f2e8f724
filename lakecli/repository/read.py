"""Reading an object's bytes, and telling whether they are the right ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from blake3 import blake3

from lakecli.errors import IntegrityError, NotFound, Unreachable
from lakecli.layout import data_digest
from lakecli.objectstore.base import ObjectNotFound
from lakecli.repository.address import is_external, locate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.model import Entry
    from lakecli.objectstore.base import ObjectStore
    from lakecli.repository.lake import Repository

PIECE: Final = 1 << 20
"""Bytes read at a time."""

RANGE: Final = 8 << 20
"""Bytes of one request, once reading everything by one has failed."""


def read_object(repository: Repository, entry: Entry) -> Iterator[bytes]:
    """Yield an entry's bytes in pieces, and check at the end that they were the right ones.

    Raises:
        NotFound: the data object is gone.
        IntegrityError: raised after the last piece: the bytes are not those that were uploaded.
    """
    store, key = locate(repository, entry)
    digest = None if is_external(entry) else data_digest(key)
    hasher = blake3()
    size = 0
    try:
        for piece in _pieces(store, key):
            hasher.update(piece)
            size += len(piece)
            yield piece
    except ObjectNotFound as error:
        raise NotFound(
            f"the data object is gone: {store.uri}/{key}",
            hint=f"see what else is missing: lakecli fsck {repository.uri}",
        ) from error
    if size != entry.size or (digest is not None and hasher.hexdigest() != digest):
        raise IntegrityError(
            f"the data object is damaged: {store.uri}/{key}",
            hint=f"see what else is: lakecli fsck {repository.uri} --data",
        )


def _pieces(store: ObjectStore, key: str) -> Iterator[bytes]:
    """Yield an object's bytes; where the connection breaks, go on from there, piece by piece."""
    position = 0
    try:
        with store.open(key) as source:
            while piece := source.read(PIECE):
                position += len(piece)
                yield piece
            return
    except Unreachable:
        if not position:
            raise
    while piece := store.get(key, start=position, length=RANGE):
        position += len(piece)
        yield piece

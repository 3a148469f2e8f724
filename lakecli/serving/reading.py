"""A part of an object."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

from lakecli.base.model import Entry
from lakecli.repository.contract import Repository
from lakecli.repository.reading.contents import damaged, gone
from lakecli.repository.reading.recorded import locate
from lakecli.stores.contract import ObjectNotFound
from lakecli.stores.streams import open_range

PIECE: Final = 1 << 20
"""The most bytes that are read at a time."""


def read_range(repository: Repository, entry: Entry, start: int, size: int) -> Iterator[bytes]:
    """Yield a part of an object; only its size is verified.

    Raises:
        NotFound: the object is not where its entry says.
        IntegrityError: the object is too short.
    """
    store, key = locate(repository, entry)
    try:
        if size <= PIECE:  # one request, and nothing to close
            data = store.get(key, start=start, length=size)
            size -= len(data)
            if not size:
                yield data
        else:
            with closing(open_range(store, key, start=start, length=size)) as source:
                while size and (piece := source.read(min(PIECE, size))):
                    size -= len(piece)
                    yield piece
    except ObjectNotFound as error:
        raise gone(repository.uri, store, key) from error
    if size:
        raise damaged(repository.uri, store, key)

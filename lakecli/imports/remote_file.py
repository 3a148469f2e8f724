"""Open a large object as a file, read in pieces from its store."""

from __future__ import annotations

from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from lakecli.base.model import NO_ACCOUNT, Account
from lakecli.engine.store_location import open_by_uri
from lakecli.repository.reading.addresses import split_address
from lakecli.stores.contract import ObjectInfo
from lakecli.stores.streams import Seekable

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore

READ_AHEAD: Final = 4 << 20


def head(uri: str, account: Account = NO_ACCOUNT) -> ObjectInfo:
    """Return the metadata of the object or file that a URI names.

    Raises:
        ObjectNotFound: it does not exist.
    """
    bucket, key = split_address(uri)
    return open_by_uri(bucket, account=account).head(key)


def open_object(uri: str, account: Account = NO_ACCOUNT) -> BinaryIO:
    """Open the object or file that a URI names, for reading at any position.

    Raises:
        ObjectNotFound: it does not exist.
    """
    bucket, key = split_address(uri)
    store = open_by_uri(bucket, account=account)
    path = store.local_path(key)
    if path is not None:
        return Path(path).open("rb")
    return BufferedReader(_Pieces(store, key), READ_AHEAD)


class _Pieces(Seekable):
    """Reads an object by ranged requests."""

    def __init__(self, store: ObjectStore, key: str) -> None:
        super().__init__(store.head(key).size)
        self._store = store
        self._key = key

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        wanted = min(len(view), self._size - self._position)
        if wanted <= 0:
            return 0
        data = self._store.get(self._key, start=self._position, length=wanted)
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

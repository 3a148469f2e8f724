"""Reading blobs: whole, in part, and as files; all bytes of one read are of one version."""

from __future__ import annotations

from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, BinaryIO, cast

from azure.core.exceptions import HttpResponseError

from lakecli.stores.azure.names import TRIES, replaced, version_of, version_time
from lakecli.stores.contract import ConditionFailed, Version
from lakecli.stores.streams import ReadStream

if TYPE_CHECKING:
    from azure.storage.blob import StorageStreamDownloader

    from lakecli.stores.azure.store import AzureStore


class AzureReader:
    """Reads the blobs of a store."""

    def __init__(self, store: AzureStore) -> None:
        self._store = store

    def read(self, key: str, start: int, length: int | None, version_id: str) -> bytes:
        """Return a range of a blob; Azure has no suffix reads, so its size is requested first."""
        if start >= 0:
            return self._read(key, start, length, version_id)
        for _ in range(TRIES):
            info = self._store.head(key, version_id=version_id)
            # Replaced between the two requests, it may have another end.
            with suppress(ConditionFailed):
                first = max(info.size + start, 0)
                return self._read(key, first, None, version_id, etag=info.version)
        raise replaced(self._store.uri, key)

    def _read(
        self, key: str, start: int, length: int | None, version_id: str, *, etag: str = ""
    ) -> bytes:
        time = version_time(version_id)
        with self._store.translated(key) as full:
            try:
                return (
                    self._store.sdk()
                    .download(full, start=start, length=length, etag=etag, version_id=time)
                    .readall()
                )
            except HttpResponseError as error:
                if error.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                    return b""
                raise
            except ValueError as error:  # how the SDK says that the response has no range
                raise self._store.translator.no_ranges(full) from error

    def read_versioned(self, key: str, length: int | None) -> tuple[bytes, Version]:
        """Return a blob and its version; the SDK reads further pieces of the first one's only."""
        for _ in range(TRIES):
            with suppress(ConditionFailed), self._store.translated(key) as full:
                try:
                    download = self._store.sdk().download(full, length=length)
                    return download.readall(), version_of(download.properties.etag)
                except HttpResponseError as error:
                    is_empty = error.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
                    if length is None or not is_empty:
                        raise
                    return b"", Version("")
        raise replaced(self._store.uri, key)

    def open(self, key: str, version_id: str) -> BinaryIO:
        """Open a blob for one pass of reading."""
        with self._store.translated(key) as full:
            download = self._store.sdk().download(full, version_id=version_time(version_id))
        return cast("BinaryIO", DownloadStream(self._store, download, key))


class DownloadStream(ReadStream):
    """A blob as a file, read piece by piece."""

    def __init__(
        self, store: AzureStore, download: StorageStreamDownloader[bytes], key: str
    ) -> None:
        self._store = store
        self._download = download
        self._key = key

    def read(self, size: int = -1) -> bytes:
        """Read `size` bytes, fewer only at the end.

        Raises:
            Unreachable: the connection broke, again and again.
            ConditionFailed: the blob was replaced.
        """
        try:
            with self._store.translated(self._key):
                return self._download.read(size)
        except ConditionFailed:
            raise replaced(self._store.uri, self._key) from None

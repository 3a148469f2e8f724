"""The adapter of Azure Blob Storage.

Built on azure-storage-blob and azure-identity, which the first request loads. Credentials and
endpoint come from the variables of Azure's own tools; see `credentials`. A version is an ETag
without its quotes.

Conditional writes are sent once: a retry could fail because the first attempt succeeded. So if the
outcome of a write is unknown, the caller reads the object back. The SDK retries every other
request.

Azure lacks three features. Some names are impossible; see `names`. Reading from the end requires a
request for the size first. Listing after a key lists the names before the key, too, and skips them.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, BinaryIO, Final, cast
from urllib.parse import quote

from lakecli.base.model import NO_ACCOUNT, NO_METADATA, YES, Account, Demand
from lakecli.errors import Unsupported
from lakecli.stores import contract
from lakecli.stores.azure import credentials, names
from lakecli.stores.azure.errors import NOT_COPIED, AzureTranslator
from lakecli.stores.azure.names import check_name, version_of, version_time
from lakecli.stores.azure.uploads import AzureUploads, block_name
from lakecli.stores.capabilities import Access, Renews, not_versioned
from lakecli.stores.cloud_store import BUCKET_EXISTS, MatchingCloudStore
from lakecli.stores.contract import Attributes, ConditionFailed, ObjectInfo, Version
from lakecli.stores.presigned_urls import LARGEST_PUT, PresignedUrl, PresignRequest, quoted_path
from lakecli.stores.responses import UnusableAnswerError, name_below
from lakecli.stores.streams import ReadStream

if TYPE_CHECKING:
    from azure.storage.blob import BlobProperties, StorageStreamDownloader

    from lakecli.stores.azure.client import AzureClient


_ARCHIVE: Final = "Archive"
"""The access tier whose blobs cannot be read."""

TRIES: Final = 5
"""Number of attempts to read or renew an object that other processes keep replacing."""


class AzureStore(MatchingCloudStore["AzureClient"], Renews):
    """A namespace in a container.

    Args:
        prefix: prefix of every key, without a trailing slash; may be empty.
        access: the limits for slow servers, and the requirements of buckets.
    """

    cloud = "Azure"
    delete_size = 256
    translator: AzureTranslator

    def __init__(
        self, account: str, container: str, prefix: str = "", access: Account = NO_ACCOUNT
    ) -> None:
        self._access = access
        root = f"az://{account}/{container}"
        translator = AzureTranslator(account, container, lambda: self._login.host)
        if access.demand(Demand.AZ_ANONYMOUS, root) == YES:
            translator.anonymous = Demand.AZ_ANONYMOUS
        self._scope = access.demand(Demand.AZ_SCOPE, root)
        super().__init__(root, prefix, translator)
        self.account = account
        self.container = container
        self._learned.add(BUCKET_EXISTS)  # Azure has different errors for container and blob

    def _get(self, key: str, start: int, length: int | None, matching: str) -> bytes:
        """Return a range of a blob; to read from its end, request its size first."""
        if start >= 0:
            return self._read(key, start, length, matching)
        for _ in range(TRIES):
            info = self.head(key)
            contract.check_matching(matching, key, info.etag, info.md5)
            # A blob that was replaced between the two requests may have another size.
            with suppress(ConditionFailed):
                first = max(info.size + start, 0)
                return self._read(key, first, None, info.version)
        raise self._replaced(key)

    def _read(self, key: str, start: int, length: int | None, etag: str) -> bytes:
        time = version_time(self.version_id)
        with self.reading(key) as full:
            return self.sdk().read(full, start=start, length=length, etag=etag, version_id=time)[0]

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        """Return an object and its version.

        Raises:
            ConditionFailed: the object was replaced during each of several attempts to read it.
        """
        for _ in range(TRIES):
            with suppress(ConditionFailed), self.reading(key) as full:
                data, etag = self.sdk().read(full, length=length)
                return data, version_of(etag) if data or etag or length is None else Version("")
        raise self._replaced(key)

    def open(self, key: str, *, matching: str = "") -> BinaryIO:
        """Open an object for one pass of reading."""
        time = version_time(self.version_id)
        with self.reading(key) as full:
            download = self.sdk().open(full, etag=matching, version_id=time)
        return cast("BinaryIO", _DownloadStream(self, download, key))

    def _replaced(self, key: str) -> ConditionFailed:
        what = f"{self.uri}/{key}"
        return ConditionFailed(f"object was replaced while it was read: {what!r}")

    def head(self, key: str) -> ObjectInfo:
        """Return the properties of an object."""
        with self.reading(key) as full:
            found = self.sdk().describe(full, version_id=version_time(self.version_id))
            settings = found.content_settings
            return self._info_of(found)._replace(
                content_type=settings.content_type or "",
                content_encoding=contract.plain_encoding(settings.content_encoding),
                metadata=names.decode_metadata(found.metadata or {}),
            )

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects in byte order, a page of a thousand at a time.

        Raises:
            Unsupported: the store does not list in byte order, as accounts with directories may.
        """
        for blob in self._listed(prefix, after):
            with self.translated():
                info = self._info_of(blob)
            yield info

    def _listed(self, prefix: str, after: str, *include: str) -> Iterator[BlobProperties]:
        """Yield the current blobs under a prefix in byte order, without directories."""
        floor = contract.key_bytes(self.start + after) if after else b""
        blobs = self._current(self.utf8(self.start + prefix), "metadata", *include)
        name_of = attrgetter("name")
        ordered = self.in_order(names.in_byte_order(blobs, name_of), name_of)
        return (blob for blob in ordered if blob.name.encode() > floor)

    def _current(self, prefix: str, *include: str) -> Iterator[BlobProperties]:
        for blob in self.follow_pages(
            lambda position: self.sdk().page(prefix, *include, position=position), ""
        ):
            with self.translated():
                name_below(prefix, blob.name or "")
            is_directory = (blob.metadata or {}).get("hdi_isfolder") == "true"
            is_old = "versions" in include and blob.version_id and not blob.is_current_version
            if not is_directory and not is_old:
                yield blob

    def check_versions(self) -> None:
        """Check that blobs have versions; see `capabilities.VersionedStore`.

        Only the first object is checked, because versioning is a setting of the account, and the
        account's properties cannot be read here. An empty container passes.
        """
        next(self.list_versions(), None)

    def list_versions(self, *, after: str = "") -> Iterator[tuple[ObjectInfo, str]]:
        """Yield the current versions and their IDs; see `capabilities.VersionedStore`.

        Raises:
            Unsupported: an object has no version, because versioning is off, or was off when the
                object was written.
        """
        for blob in self._listed("", after, "versions"):
            if blob.version_id is None:
                what = blob.name[len(self.start) :]
                raise not_versioned(self.root, f"is off, or was when {what!r} was written")
            with self.translated():
                found = self._info_of(blob), names.version_id_of(blob.version_id)
            yield found

    def renew(self, key: str) -> None:
        """Give an object a new time and version by writing its metadata again.

        Copying the object onto itself is not safe: the store may finish the copy later or never,
        and the object would be empty until then.
        """
        for _ in range(TRIES):
            with suppress(ConditionFailed), self.translated(key) as full:
                return self.sdk().touch(full)
        raise self._replaced(key)

    def copy(self, source: str, key: str) -> None:
        """Copy one object with its content type and metadata."""
        if self._copy(self, source, key, None):
            return
        found = self.head(source)
        with self.open(source, matching=found.etag) as body:
            attributes = Attributes(found.content_type, found.metadata, found.content_encoding)
            self.put(key, body, contract.ANY, attributes)

    def copy_from(
        self, source: contract.ObjectStore, source_key: str, key: str, attributes: Attributes
    ) -> bool:
        """Copy an object from any container of this account.

        If new blobs must have an encryption scope, return ``False``: the copy would get the default
        scope.
        """
        if not isinstance(source, AzureStore) or source.account != self.account:
            return False
        return self._copy(source, source_key, key, attributes)

    def _copy(
        self, source: AzureStore, source_key: str, key: str, attributes: Attributes | None
    ) -> bool:
        if self._scope:
            return False
        target = self.full(key)
        with source.reading(source_key) as origin:
            status = self.sdk().copy(source.container, origin, target, attributes)
            if status != "success":
                raise self.translator.error(NOT_COPIED, target, code=status)
        return True

    def presign(self, key: str, request: PresignRequest, *, now: datetime) -> PresignedUrl:
        """Sign a URL: offline with the account's key, otherwise with a delegated key of the store.

        Raises:
            Unsupported: the credentials are a SAS token, which cannot sign; or the request has a
                limit for the size of an upload.
        """
        if request.method == "PUT" and request.max_size < LARGEST_PUT:
            hint = "one request sends at most 5,000 MiB: ask for no smaller limit"
            raise Unsupported("Azure cannot limit the size of an upload by a URL", hint=hint)
        login = self._login
        if login.is_anonymous:
            path = quoted_path(self.full(key))
            raise self.translator.no_signature(f"{login.endpoint}/{self.container}/{path}")
        if login.sas_token:
            raise Unsupported(
                f"cannot presign, {login.source} holds a SAS token and no key",
                hint=f"unset it and do one of these: {credentials.HOW_TO_LOG_IN}",
            )
        named = self.reading if request.method == "GET" else self.translated
        with named(key) as full:
            delegated = None
            if not login.key:
                delegated = self.sdk().delegated_key(now=now, lifetime=request.expires_in)
            signed = credentials.sas_url(
                login,
                request,
                container=self.container,
                name=full,
                now=now,
                delegated=delegated,
                version_id=version_time(self.version_id),
                scope=self._scope,
            )
        if request.part is None:
            return signed
        name = block_name(request.part.upload, request.part.number, int(now.timestamp()))
        block = quote(b64encode(name.encode()), safe="")
        return signed._replace(url=f"{signed.url}&comp=block&blockid={block}", headers=NO_METADATA)

    def access(self) -> Access:
        """Describe the credentials in use, and the host that receives requests."""
        return credentials.describe(self._login, os.environ)

    def uploads(self) -> AzureUploads:
        """Return the interface for multipart uploads."""
        return AzureUploads(self)

    @cached_property
    def _login(self) -> credentials.AzureLogin:
        find = credentials.without_login if self.translator.anonymous else credentials.find_login
        return find(self.account, os.environ)

    def _new_client(self) -> AzureClient:
        from lakecli.stores.answer_limits import limits_of
        from lakecli.stores.azure.client import AzureClient

        return AzureClient(
            self._login,
            self.container,
            attempts=self.attempts,
            server_date=self.server_date,
            limits=limits_of(self._access),
            scope=self._scope,
            check_writes=self.translator.check_writes,
        )

    def full(self, key: str) -> str:
        """Return the name of a blob; see `CloudStore.full`."""
        full = super().full(key)
        check_name(full, key, reads=False)
        return full

    def readable(self, key: str) -> str:
        """Return the name of a blob to read; see `CloudStore.readable`."""
        full = super().full(key)
        check_name(full, key, reads=True)
        return full

    def _info_of(self, blob: BlobProperties) -> ObjectInfo:
        from lakecli.stores.azure.client import md5_of

        version = version_of(blob.etag)
        properties: tuple[object, ...] = blob.size, blob.last_modified
        if None in properties:
            raise UnusableAnswerError("an object lacks its size or its time")
        key, modified_at = blob.name[len(self.start) :], blob.last_modified.replace(microsecond=0)
        info = ObjectInfo(key, blob.size, modified_at, version, etag=version)
        archive = _ARCHIVE if blob.blob_tier == _ARCHIVE else ""
        return info._replace(md5=md5_of(blob), archive=archive)


class _DownloadStream(ReadStream):
    """A blob as a file, read piece by piece."""

    def __init__(self, store: AzureStore, blob: StorageStreamDownloader[bytes], key: str) -> None:
        self._store = store
        self._blob = blob
        self._key = key

    def read(self, size: int = -1) -> bytes:
        """Read `size` bytes, fewer only at the end."""
        try:
            with self._store.reading(self._key):
                return self._blob.read(size)
        except ConditionFailed:
            raise self._store._replaced(self._key) from None  # noqa: SLF001 - of this module

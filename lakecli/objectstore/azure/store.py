"""Azure Blob Storage.

Built on azure-storage-blob and azure-identity, loaded by the first request. Credentials and
endpoint come from the variables of Azure's own tools; see `login`. A version is an ETag
without its quotes.

Conditional writes are sent once: a retry could meet the effect of the first try and report as lost
a race that was won. Their callers read back. Everything else is repeated a few times by the SDK.

What Azure has not: some names (see `names`); reading from the end, for which the size is
asked first; and listing from a key on, for which what comes before is listed and left out.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from threading import RLock
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from lakecli.errors import Unsupported, UsageError
from lakecli.objectstore.azure.errors import Translator
from lakecli.objectstore.azure.listing import in_byte_order
from lakecli.objectstore.azure.login import HOW_TO_LOG_IN, find_login
from lakecli.objectstore.azure.names import check_name, decode_metadata, encode_metadata
from lakecli.objectstore.base import (
    Absent,
    ConditionFailed,
    Match,
    ObjectInfo,
    ObjectNotFound,
    Version,
    check_range,
    key_bytes,
)
from lakecli.objectstore.capabilities import (
    CopiesFrom,
    DeletesMatching,
    HasUploads,
    Renews,
    ReportsAccess,
    ShowsClock,
    WritesGarbled,
)
from lakecli.objectstore.dates import ServerDate
from lakecli.objectstore.streams import PART_SIZE, ReadStream, batches, read_exactly
from lakecli.retry import REQUESTS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from azure.storage.blob import BlobProperties, StorageStreamDownloader

    from lakecli.objectstore.access import Access
    from lakecli.objectstore.azure.client import AzureClient
    from lakecli.objectstore.azure.login import AzureLogin
    from lakecli.objectstore.azure.uploads import AzureUploads
    from lakecli.objectstore.base import Condition, ObjectStore, PresignedUrl, PresignRequest
    from lakecli.objectstore.parallel_batch import ParallelBatch
    from lakecli.objectstore.uri import NamespaceUri

DELETE_SIZE = 256
"""Deletions in one request, at most."""

SUFFIX_TRIES = 5


class AzureStore(
    CopiesFrom, DeletesMatching, HasUploads, Renews, ReportsAccess, ShowsClock, WritesGarbled
):
    """A namespace in a container; nothing is loaded or asked before the first request.

    Args:
        account: the storage account.
        container: its name.
        prefix: of every key, without a slash at its end; may be empty.
        attempts: of each request that may be repeated.
    """

    def __init__(
        self, account: str, container: str, prefix: str = "", *, attempts: int = REQUESTS.attempts
    ) -> None:
        self.account = account
        self.container = container
        self._prefix = prefix
        self._start = f"{prefix}/" if prefix else ""
        self._attempts = attempts
        self._server_date = ServerDate()
        self._translator = Translator(account, container, lambda: self._login().host)
        self._lock = RLock()
        self._found: AzureLogin | None = None
        self._client: AzureClient | None = None

    @property
    def uri(self) -> str:
        """``az://``, the account, the container and the prefix."""
        root = f"az://{self.account}/{self.container}"
        return root + (f"/{self._prefix}" if self._prefix else "")

    @property
    def server_date(self) -> ServerDate:
        """The date of the last response."""
        return self._server_date

    def check_container(self) -> None:
        """Make sure that the container is there.

        Raises:
            BucketNotFound: it is not.
            PermissionDenied: its blobs may not be listed.
        """
        with self.translated():
            self._sdk().ask_for_container()

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Return a range of an object; see `ObjectStore.get`.

        Raises:
            Unsupported: the server does not know ranges.
        """
        check_range(start, length)
        if length == 0:
            self.head(key)
            return b""
        if start >= 0:
            return self._read(key, start, length)
        for _ in range(SUFFIX_TRIES):
            info = self.head(key)
            try:
                return self._read(key, max(info.size + start, 0), None, etag=info.version)
            except ConditionFailed:
                continue  # replaced in between, so its end is elsewhere now
        raise _replaced(self._what(key))

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        """Return an object and its version; the SDK holds further pieces to the first's.

        Raises:
            ConditionFailed: it was replaced, again and again, while it was read.
        """
        for _ in range(SUFFIX_TRIES):
            with suppress(ConditionFailed):
                return self._read_versioned(key, length)
        raise _replaced(self._what(key))

    def open(self, key: str) -> BinaryIO:
        """Open an object for one pass of reading."""
        with self.translated(key) as full:
            download = self._sdk().download(full)
        return cast("BinaryIO", _DownloadStream(download, self._translator, full, self._what(key)))

    def put(
        self,
        key: str,
        body: bytes | BinaryIO,
        condition: Condition,
        *,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> Version:
        """Write an object; see `ObjectStore.put`.

        Streams of 8 MiB or more go in blocks, several side by side.
        """
        from io import BytesIO

        from lakecli.objectstore.azure.client import ONCE, SINGLE_LIMIT, Attributes

        attributes = Attributes(content_type, encode_metadata(metadata or {}))
        options = _options_of(condition)
        if isinstance(body, bytes | bytearray | memoryview):
            first, is_whole = bytes(body), len(body) <= SINGLE_LIMIT
            if not is_whole:
                body = BytesIO(first)
                first = body.read(PART_SIZE)
        else:
            first = read_exactly(body, PART_SIZE)
            is_whole = len(first) < PART_SIZE
        once = ONCE if options else {}
        if is_whole:
            with self.translated(key, is_write=True) as full:
                return _version(self._sdk().write(full, first, attributes, options | once))
        if isinstance(condition, Absent):
            self._check_absent(key)
        with self.translated(key, is_write=True) as full:
            rest = cast("BinaryIO", body)
            return _version(self._sdk().write_stream(full, first, rest, attributes, options | once))

    def head(self, key: str) -> ObjectInfo:
        """Describe one object."""
        with self.translated(key) as full:
            found = self._sdk().describe(full)
        return self._info_of(
            found,
            content_type=found.content_settings.content_type or "",
            metadata=decode_metadata(found.metadata or {}),
        )

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects in byte order, a page of a thousand at a time.

        Raises:
            Unsupported: the store lists in another order, as it may with directories.
        """
        floor = key_bytes(self._start + after) if after else b""
        blobs = in_byte_order(
            self._blobs(_utf8(self._start + prefix)),
            lambda blob: blob.name,
            error=self._translator.no_order,
        )
        for blob in blobs:
            if blob.name.encode() > floor:
                yield self._info_of(blob)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects with their snapshots, 256 by one request; a missing one is fine."""
        for batch in batches(map(self._full, keys), DELETE_SIZE):
            self._delete(batch)

    def delete_matching(self, objects: Iterable[tuple[str, Version]]) -> Collection[str]:
        """Delete objects that are still of these versions."""
        kept: list[str] = []
        for batch in batches(objects, DELETE_SIZE):
            names = [self._full(key) for key, _ in batch]
            with self.translated():
                failed = self._sdk().delete(names, [version for _, version in batch])
            for full, status, code in failed:
                error = self._translator.refused(status, code, full)
                if isinstance(error, ConditionFailed):
                    kept += self._present(full[len(self._start) :])
                elif not isinstance(error, ObjectNotFound):
                    raise error
        return kept

    def renew(self, key: str) -> None:
        """Give an object a new time and version.

        Its metadata are written again. A copy would do as well, but the store may make it later,
        and until then, or for ever if it gives up, the object would be empty.
        """
        for _ in range(SUFFIX_TRIES):
            with suppress(ConditionFailed), self.translated(key) as full:
                self._sdk().touch(full)
                return
        raise _replaced(self._what(key))

    def copy(self, source: str, key: str) -> None:
        """Copy one object with its content type and metadata."""
        target = self._full(key)
        with self.translated(source) as origin:
            status = self._sdk().copy(origin, target)
            if status != "success":
                raise self._translator.not_copied(status, target)

    def copy_from(
        self,
        source: ObjectStore,
        source_key: str,
        key: str,
        *,
        content_type: str,
        metadata: Mapping[str, str],
    ) -> bool:
        """Copy an object of any container of this account."""
        from lakecli.objectstore.azure.client import Attributes

        if not isinstance(source, AzureStore) or source.account != self.account:
            return False
        target = self._full(key)
        attributes = Attributes(content_type, encode_metadata(metadata))
        with source.translated(source_key) as origin:
            status = self._sdk().copy_from(source.container, origin, target, attributes)
            if status != "success":
                raise self._translator.not_copied(status, target)
        return True

    def presign(self, key: str, request: PresignRequest, *, now: datetime) -> PresignedUrl:
        """Sign a URL: offline with the account's key, otherwise with a key that the store gives.

        Raises:
            Unsupported: there is only a signature, which signs nothing.
        """
        from lakecli.objectstore.azure.presign import presign

        login = self._login()
        if login.sas_token:
            raise Unsupported(
                f"cannot presign, {login.source} holds a signature and no key",
                hint=f"unset it and do one of these: {HOW_TO_LOG_IN}",
            )
        with self.translated(key) as full:
            delegated = None
            if not login.key:
                delegated = self._sdk().delegated_key(now=now, lifetime=request.expires_in)
            return presign(
                login,
                request,
                container=self.container,
                name=full,
                now=now,
                delegated=delegated,
            )

    def access(self) -> Access:
        """Tell which credentials are in use, and where."""
        from lakecli.objectstore.azure.access import describe

        return describe(self._login(), os.environ)

    def put_garbled(self, key: str, body: bytes) -> None:
        """Send `body` with the checksum of other bytes.

        Raises:
            IntegrityError: as it should be.
        """
        with self.translated(key) as full:
            self._sdk().write_garbled(full, body)

    def local_path(self, key: str) -> Path | None:
        """Return ``None``: the bytes are elsewhere."""
        del key
        return None

    def batch(self) -> ParallelBatch:
        """Start a batch of parallel create-only requests."""
        from lakecli.objectstore.parallel_batch import ParallelBatch

        return ParallelBatch(self)

    def uploads(self) -> AzureUploads:
        """Return the uploads in parts; see `lakecli.objectstore.uploads`."""
        from lakecli.objectstore.azure.uploads import AzureUploads

        return AzureUploads(
            self.translated,
            sdk=self._sdk,
            find_version=lambda key: self.head(key).version,
            options_of=_options_of,
            start=self._start,
        )

    def put_new(self, key: str, body: bytes) -> bool:
        """Write `body` unless the key is there; for content-addressed keys: a retry is safe."""
        from lakecli.objectstore.azure.client import SINGLE_LIMIT, Attributes, if_absent

        try:
            if len(body) > SINGLE_LIMIT:
                self.put(key, body, Absent())
                return True
            with self.translated(key, is_write=True) as full:
                self._sdk().write(full, body, Attributes("", {}), if_absent())
        except ConditionFailed:
            return False
        return True

    def _login(self) -> AzureLogin:
        with self._lock:
            if self._found is None:
                self._found = find_login(self.account, os.environ)
            return self._found

    def _sdk(self) -> AzureClient:
        with self._lock:
            if self._client is None:
                from lakecli.objectstore.azure.client import AzureClient

                self._client = AzureClient(
                    self._login(),
                    self.container,
                    attempts=self._attempts,
                    server_date=self._server_date,
                )
            return self._client

    def _blobs(self, prefix: str) -> Iterator[BlobProperties]:
        with self.translated():
            pages = self._sdk().pages(prefix)
        while True:
            with self.translated():
                page = next(pages, None)
                found = [] if page is None else list(page)
            if page is None:
                return
            for blob in found:
                if (blob.metadata or {}).get("hdi_isfolder") != "true":  # not a directory
                    yield blob

    def _read(self, key: str, start: int, length: int | None, *, etag: str = "") -> bytes:
        from azure.core.exceptions import HttpResponseError

        with self.translated(key) as full:
            try:
                download = self._sdk().download(full, start=start, length=length, etag=etag)
                data = download.readall()
            except HttpResponseError as error:
                if error.status_code == 416:  # noqa: PLR2004 - Range Not Satisfiable
                    return b""
                raise
            except ValueError as error:  # so the SDK says that the answer has no range
                raise self._translator.no_ranges(full) from error
        return data

    def _read_versioned(self, key: str, length: int | None) -> tuple[bytes, Version]:
        from azure.core.exceptions import HttpResponseError

        with self.translated(key) as full:
            try:
                download = self._sdk().download(full, length=length)
                return download.readall(), _version(download.properties.etag)
            except HttpResponseError as error:
                if length is not None and error.status_code == 416:  # noqa: PLR2004 - empty
                    return b"", Version("")
                raise

    def _check_absent(self, key: str) -> None:
        """Look before sending gigabytes; the condition itself is checked at the end."""
        try:
            self.head(key)
        except ObjectNotFound:
            return
        raise ConditionFailed(f"object is there already, nothing was written: {key!r}")

    def _delete(self, batch: Sequence[str]) -> None:
        with self.translated():
            failed = self._sdk().delete(batch)
        for full, status, code in failed:
            error = self._translator.refused(status, code, full)
            if not isinstance(error, ObjectNotFound):
                raise error

    def _present(self, key: str) -> Iterator[str]:
        """Yield `key` if the object is there: a condition does not hold either where it is not."""
        with suppress(ObjectNotFound):
            self.head(key)
            yield key

    @contextmanager
    def translated(self, key: str | None = None, *, is_write: bool = False) -> Iterator[str]:
        """Name the object in full, and translate what the SDK says about it or the container."""
        full = "" if key is None else self._full(key)
        with self._translator.translated(full, is_write=is_write):
            yield full

    def _full(self, key: str) -> str:
        if not key:
            raise UsageError("an object needs a key")
        full = self._start + key
        check_name(full, key)
        return full

    def _what(self, key: str) -> str:
        return repr(f"{self.uri}/{key}")

    def _info_of(
        self,
        blob: BlobProperties,
        *,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> ObjectInfo:
        version = _version(blob.etag)
        return ObjectInfo(
            key=blob.name[len(self._start) :],
            size=blob.size,
            modified_at=blob.last_modified.replace(microsecond=0),
            version=version,
            etag=version,
            content_type=content_type,
            metadata=metadata or {},
        )


def open_namespace(uri: NamespaceUri, *, region: str) -> AzureStore:
    """Return the store of a container; see `registry.open_store`."""
    del region  # an account is found by its name alone
    account, _, container = uri.bucket.partition("/")
    return AzureStore(account, container, uri.path)


def prepare_namespace(uri: NamespaceUri) -> str:
    """Make sure that the container is there; see `registry.prepare_namespace`."""
    open_namespace(uri, region="").check_container()
    return ""


def _options_of(condition: Condition) -> dict[str, Any]:
    from lakecli.objectstore.azure.client import if_absent, if_match

    match condition:
        case Absent():
            return if_absent()
        case Match(version):
            if not version:
                raise ValueError("a version to match cannot be empty")  # it would be no condition
            return if_match(version)
        case _:
            return {}


def _version(etag: object) -> Version:
    version = Version(str(etag or "").strip('"'))
    if not version:
        raise ValueError("Azure told no ETag")  # it would be no condition
    return version


def _utf8(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise UsageError(f"Azure cannot hold such a key, it is not UTF-8: {name!r}") from None
    return name


def _replaced(what: str) -> ConditionFailed:
    return ConditionFailed(f"object was replaced while it was read: {what}")


class _DownloadStream(ReadStream):
    """An object as a file: read piece by piece, all of one version."""

    def __init__(
        self,
        download: StorageStreamDownloader[bytes],
        translator: Translator,
        full: str,
        what: str,
    ) -> None:
        self._download = download
        self._translator = translator
        self._full = full
        self._what = what

    def read(self, size: int = -1) -> bytes:
        """Read `size` bytes, fewer only at the end.

        Raises:
            Unreachable: the connection broke, again and again.
            ConditionFailed: another object has this name by now.
        """
        try:
            with self._translator.translated(self._full):
                return self._download.read(size)
        except ConditionFailed:
            raise _replaced(self._what) from None

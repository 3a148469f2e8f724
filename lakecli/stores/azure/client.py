"""The requests of Azure's SDK; importing this module loads the SDK."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from hashlib import md5
from threading import RLock
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple
from uuid import uuid4

from azure.core import MatchConditions
from azure.storage.blob import BlobBlock, ContentSettings

from lakecli.base.retry import COPIES, Retries
from lakecli.stores.azure.login import AzureLogin
from lakecli.stores.azure.presign import end_of
from lakecli.stores.azure.service import new_service
from lakecli.stores.contract import Attributes
from lakecli.stores.presigning import LONGEST
from lakecli.stores.responses import ServerDate, UnusableAnswerError, date_of, required, token_of
from lakecli.stores.streams import parts_of, send_all

if TYPE_CHECKING:
    from azure.storage.blob import (
        BlobClient,
        BlobProperties,
        StorageStreamDownloader,
        UserDelegationKey,
    )

PAGE_SIZE = 1_000

ONCE = {"retry_total": 0, "retry_connect": 0, "retry_read": 0, "retry_status": 0}
"""Options of a request that is not repeated."""


def _options(attributes: Attributes) -> dict[str, Any]:
    """Return attributes, whose metadata is encoded, as options of the SDK."""
    options: dict[str, Any] = {}
    if attributes.content_type:
        options["content_settings"] = ContentSettings(content_type=attributes.content_type)
    if attributes.metadata:
        options["metadata"] = dict(attributes.metadata)
    return options


class StagedBlock(NamedTuple):
    """An uncommitted block: its name, and its size in bytes."""

    name: str
    size: int


class AzureClient:
    """Requests about the blobs of one container.

    Args:
        login: to the account.
        container: its name.
        attempts: of each request that may be repeated.
        server_date: gets the date of each response.

    Every method raises the SDK's own errors.
    """

    def __init__(
        self, login: AzureLogin, container: str, *, attempts: int, server_date: ServerDate
    ) -> None:
        self._service = new_service(login, attempts=attempts, server_date=server_date)
        self._container = self._service.get_container_client(container)
        self._lock = RLock()
        self._delegated: UserDelegationKey | None = None

    def download(
        self,
        name: str,
        *,
        start: int = 0,
        length: int | None = None,
        etag: str = "",
        version_id: str = "",
    ) -> StorageStreamDownloader[bytes]:
        """Begin to read bytes ``[start, start + length)`` as they are stored.

        Args:
            name: of the blob.
            start: of the range.
            length: of the range; ``None`` reads to the end.
            etag: that the blob must have, or ``""``.
            version_id: of the version to read; ``""`` for the current blob.
        """
        is_whole = start == 0 and length is None
        return self._blob(name, version_id).download_blob(
            offset=None if is_whole else start,
            length=length,
            max_concurrency=1,
            decompress=False,
            **_if_match(etag),
        )

    def describe(self, name: str, *, version_id: str = "") -> BlobProperties:
        """Return the properties of a blob, or of one version of it."""
        return self._blob(name, version_id).get_blob_properties()

    def write(
        self, name: str, data: bytes, attributes: Attributes, condition: dict[str, Any]
    ) -> object:
        """Write a blob by one request of at most `SINGLE_LIMIT` bytes; return its ETag.

        Args:
            name: of the blob.
            data: all of it.
            attributes: of the blob.
            condition: `if_absent`, `if_match` or ``{}``, with `ONCE` to send it once.
        """
        answer = self._blob(name).upload_blob(
            data,
            length=len(data),
            overwrite=True,
            max_concurrency=1,
            validate_content=True,
            **_options(attributes),
            **condition,
        )
        return answer["etag"]

    def write_garbled(self, name: str, data: bytes) -> None:
        """Write a blob by a request with the checksum of other bytes."""
        wrong = b64encode(md5(data + b"other", usedforsecurity=False).digest()).decode()
        self._blob(name).upload_blob(data, overwrite=True, headers={"Content-MD5": wrong})

    def write_stream(
        self,
        name: str,
        first: bytes,
        rest: BinaryIO,
        attributes: Attributes,
        condition: dict[str, Any],
    ) -> object:
        """Write a blob in parallel blocks; return its ETag.

        The store deletes uncommitted blocks after a week.
        """
        blob = self._blob(name)
        # All uploads of a blob share one set of blocks, so each upload uses unique names.
        upload = uuid4().hex

        def stage(number: int, part: bytes) -> BlobBlock:
            block = f"{upload}-{number:05}"
            blob.stage_block(block, part, length=len(part), validate_content=True)
            return BlobBlock(block)

        blocks = send_all(parts_of(first, rest), stage)
        answer = blob.commit_block_list(
            blocks, validate_content=True, **_options(attributes), **condition
        )
        return answer["etag"]

    def stage(
        self,
        name: str,
        block: str,
        body: bytes | BinaryIO,
        *,
        size: int,
        md5: str = "",
        may_repeat: bool = False,
    ) -> datetime:
        """Send a block by one request; return the store's time.

        Args:
            name: of the blob.
            block: name of the block; all of a blob have the same length.
            body: its bytes; a stream is read from its position.
            size: in bytes.
            md5: of the bytes in Base64, which the store verifies.
            may_repeat: repeat the request after a failure; not for streams.
        """
        options: dict[str, Any] = {} if may_repeat else dict(ONCE)
        if md5:
            options["headers"] = {"Content-MD5": md5}
        answer = self._blob(name).stage_block(block, body, length=size, **options)
        moment: datetime = required(answer, "date")
        return moment

    def staged(self, name: str) -> list[StagedBlock]:
        """Return the uncommitted blocks of a blob."""
        _, blocks = self._blob(name).get_block_list("uncommitted")
        return [StagedBlock(block.id, block.size) for block in blocks]

    def commit(self, name: str, blocks: Sequence[str], condition: dict[str, Any]) -> str:
        """Commit blocks as a blob; return its ETag. Its other blocks are deleted."""
        answer = self._blob(name).commit_block_list(
            [BlobBlock(block) for block in blocks], validate_content=True, **condition
        )
        return str(answer["etag"])

    def uncommitted_pages(self, prefix: str) -> Iterator[Iterator[BlobProperties]]:
        """Yield pages of the blobs under `prefix`, including those with uncommitted blocks only."""
        return _moving(
            self._container.list_blobs(
                name_starts_with=prefix or None,
                include=["uncommittedblobs"],
                results_per_page=PAGE_SIZE,
            )
        )

    def ask_for_time(self) -> datetime:
        """Return the store's time; needs a container and only the right to list it."""
        dates: list[datetime] = []

        def note(response: Any) -> None:  # noqa: ANN401 - the SDK's
            found = date_of(response.http_response.headers.get("Date", ""))
            if found is None:
                raise UnusableAnswerError("it has no date")
            dates.append(found)

        listed = self._container.list_blobs(results_per_page=1, raw_response_hook=note)
        next(listed.by_page(), None)
        return dates[-1]

    def pages(
        self, prefix: str, *, with_versions: bool = False
    ) -> Iterator[Iterator[BlobProperties]]:
        """Yield pages of the blobs under `prefix`, with all versions if they are wanted."""
        return _moving(
            self._container.list_blobs(
                name_starts_with=prefix or None,
                include=["metadata", "versions"] if with_versions else ["metadata"],
                results_per_page=PAGE_SIZE,
            )
        )

    def ask_for_container(self) -> None:
        """Send a request that fails without a container; needs only the right to list it."""
        next(self._container.list_blobs(results_per_page=1).by_page(), None)

    def delete(self, names: Sequence[str], etags: Sequence[str] = ()) -> list[tuple[str, int, str]]:
        """Delete blobs by one request; return those that failed, with a status and a code.

        Args:
            names: of the blobs.
            etags: that they must have, without their quotes, if any are given.
        """
        blobs: list[str | dict[str, Any]] = [
            {"name": name, "delete_snapshots": "include", **if_match(etag)}
            for name, etag in zip(names, etags, strict=bool(etags))
        ]
        try:
            answers = list(
                self._container.delete_blobs(
                    *(blobs or names), delete_snapshots="include", raise_on_any_failure=False
                )
            )
        except (ValueError, AttributeError) as error:  # how the SDK says that they are none
            raise UnusableAnswerError("it is not one to a batch of deletions") from error
        if len(answers) != len(names):
            raise UnusableAnswerError("it does not answer each request of a batch")
        return [
            (name, answer.status_code, answer.headers.get("x-ms-error-code", ""))
            for name, answer in zip(names, answers, strict=True)
            if answer.status_code >= 400  # noqa: PLR2004 - where errors begin
        ]

    def touch(self, name: str) -> None:
        """Write a blob's metadata again, which changes its time and ETag."""
        blob = self._blob(name)
        found = blob.get_blob_properties()
        blob.set_blob_metadata(found.metadata, **if_match(found.etag.strip('"')))

    def copy(self, source: str, target: str) -> str:
        """Copy a blob inside the account; return the store's final status."""
        return self._copy(self._blob(source), self._blob(target), {})

    def copy_from(self, container: str, source: str, target: str, attributes: Attributes) -> str:
        """Copy a blob of any container of the account; return the store's final status."""
        origin = self._service.get_container_client(container).get_blob_client(source)
        copied = self._blob(target)
        options = _options(attributes)
        settings = options.pop("content_settings", None)
        status = self._copy(origin, copied, options)
        if settings is not None and status == "success":
            copied.set_http_headers(settings)
        return status

    def _copy(self, origin: BlobClient, copied: BlobClient, options: dict[str, Any]) -> str:
        status = str(copied.start_copy_from_url(origin.url, **options)["copy_status"])
        for number in Retries(COPIES).attempts():
            if number:
                status = str(copied.get_blob_properties().copy.status)
            if status != "pending":
                break
        return status

    def delegated_key(self, *, now: datetime, lifetime: timedelta) -> UserDelegationKey:
        """Return a key that signs for the caller's identity; it is requested once and kept."""
        with self._lock:
            known = self._delegated
            if known is None or end_of(known) < now + min(lifetime, LONGEST) - timedelta(hours=1):
                # A start in the past allows for different clocks.
                start = now - timedelta(minutes=5)
                known = self._service.get_user_delegation_key(start, start + LONGEST)
                self._delegated = known
            return known

    def _blob(self, name: str, version_id: str = "") -> BlobClient:
        return self._container.get_blob_client(name, version_id=version_id or None)


def _moving(listed: Any) -> Iterator[Iterator[BlobProperties]]:  # noqa: ANN401 - the SDK's
    """Yield the pages of a listing, each of which begins where the one before it ends."""
    pages = listed.by_page()
    token = None
    for page in pages:
        if pages.continuation_token:
            token = token_of(pages.continuation_token, token)
        yield page


def if_absent() -> dict[str, Any]:
    """Return the condition that the blob does not exist."""
    return {"match_condition": MatchConditions.IfMissing}


def if_match(etag: str) -> dict[str, Any]:
    """Return the condition that the blob has this ETag, given without its quotes."""
    return {"match_condition": MatchConditions.IfNotModified, "etag": f'"{etag}"'}


def _if_match(etag: str) -> dict[str, Any]:
    return if_match(etag) if etag else {}

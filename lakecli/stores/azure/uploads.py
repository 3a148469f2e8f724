"""Multipart uploads on Azure, which another process can resume; see `lakecli.stores.capabilities`.

Azure has no multipart uploads, only uncommitted blocks of a blob, each with a name and a size. So
the name of a block records the upload, when the upload began, the number of the part, and when the
part was sent, by the store's clock. An upload begins with a block 0 of one byte, which is never
committed; the block 0 of an aborted upload has two bytes.

- Blocks cannot be deleted. The store deletes all blocks of a blob a week after the last one was
  sent.
- Committing or writing a blob deletes its other blocks, so all other uploads of the blob are lost.
  An upload that began after the object was written is not listed, because the object hides its
  blocks.
- The names of a blob's blocks must all have the same length, so the names of an upload's blocks are
  as long as the names in `AzureClient.write_stream`.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import md5
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO, NamedTuple
from uuid import uuid4

from lakecli.errors import IntegrityError
from lakecli.stores.capabilities import UnfinishedUpload, UploadedPart, UploadId, UploadNotFound
from lakecli.stores.cloud_store import MatchingCloudStore
from lakecli.stores.contract import ANY, PLAIN, ObjectNotFound, Version
from lakecli.stores.responses import UnusableAnswerError

if TYPE_CHECKING:
    from lakecli.stores.azure.client import AzureClient

_NAME = re.compile(r"([0-9a-f]{16}([0-9a-f]{8}))-([0-9]{5})([0-9a-f]{8})")
_MARK = 0
_ALIVE, _DROPPED = b"-", b"--"
_PIECE = 1 << 20


class _Block(NamedTuple):
    """A block of an upload: its size, and the fields of its name; times are in unix seconds."""

    upload: str
    started: int
    number: int
    sent: int
    name: str
    size: int


class AzureUploads:
    """The multipart uploads of one namespace, made of uncommitted blocks."""

    def __init__(self, store: "MatchingCloudStore[AzureClient]") -> None:
        self._store = store

    def start(self, key: str, *, by_urls: bool = False) -> UploadId:
        """Begin an upload."""
        del by_urls  # any block may come without a checksum
        with self._store.translated(key) as full:
            upload = f"{uuid4().hex[:16]}{self._now():08x}"
            self._mark(full, upload, _ALIVE)
        return UploadId(upload)

    def put_part(
        self, key: str, upload: UploadId, number: int, body: bytes | BinaryIO, *, crc32c: int
    ) -> UploadedPart:
        """Send one part by one request; parts of an aborted upload are accepted, too.

        The store verifies an MD5 only, so the CRC32C is verified here, before anything is sent.
        """
        stream = BytesIO(body) if isinstance(body, bytes) else body
        size, digest = _measure(stream, crc32c, key)
        stream.seek(0)
        with self._store.translated(key) as full:
            name = block_name(upload, number, self._now())
            staged = body if isinstance(body, bytes) else stream
            self._store.sdk().stage(full, name, staged, size, md5=digest)
        return UploadedPart(number, size, name, crc32c)

    def parts(self, key: str, upload: UploadId) -> Iterator[UploadedPart]:
        """Yield the parts that the store has received, by number, without checksums."""
        for _, block in sorted(self._find(key, upload).items()):
            yield UploadedPart(block.number, block.size, block.name)

    def changed_at(self, key: str, upload: UploadId) -> datetime | None:
        """Return when the last part was sent, or a slightly earlier time."""
        sent = max((block.sent for block in self._find(key, upload).values()), default=None)
        return None if sent is None else _time(sent)

    def complete(self, key: str, upload: UploadId, parts: Sequence[UploadedPart]) -> Version:
        """Join the parts."""
        from azure.core.exceptions import HttpResponseError

        self._find(key, upload)
        with self._store.translated(key, may_be_absent=True) as full:
            try:
                return self._store.sdk().commit(full, [part.tag for part in parts], ANY, PLAIN)
            except HttpResponseError as error:
                if getattr(error, "error_code", None) == "InvalidBlockList":
                    raise _unknown(key) from error
                raise

    def abort(self, key: str, upload: UploadId) -> None:
        """Abort an upload; its parts stay for a week, but are no longer found."""
        with suppress(UploadNotFound), self._store.translated(key) as full:
            self._find(key, upload)
            self._mark(full, upload, _DROPPED)

    def iter_unfinished(self, prefix: str = "") -> Iterator[UnfinishedUpload]:
        """Yield the uploads under `prefix` whose keys have no object yet, a page at a time.

        Each such key takes one request. So does each empty object, because a listing shows both
        alike.
        """
        full, start = self._store.utf8(self._store.start + prefix), len(self._store.start)
        for blob in self._store.follow_pages(
            lambda position: self._store.sdk().page(full, "uncommittedblobs", position=position), ""
        ):
            if not blob.size:
                key = blob.name[start:]
                for upload, started in sorted(_alive(self._blocks(key))):
                    yield UnfinishedUpload(key, UploadId(upload), _time(started))

    def _find(self, key: str, upload: UploadId) -> dict[int, _Block]:
        """Return the parts of an upload by number; of a repeated part, the last one sent."""
        blocks = self._blocks(key)
        if upload not in {alive for alive, _ in _alive(blocks)}:
            raise _unknown(key)
        found: dict[int, _Block] = {}
        for block in sorted(blocks, key=lambda block: block.sent):
            if block.upload == upload and block.number != _MARK:
                found[block.number] = block
        return found

    def _blocks(self, key: str) -> list[_Block]:
        """Return the blocks of lakecli's uploads of a key, without blocks of other programs."""
        found: list[_Block] = []
        with suppress(ObjectNotFound), self._store.translated(key) as full:
            for block in self._store.sdk().staged(full):
                if fields := _NAME.fullmatch(block[0]):
                    upload, started, number, sent = fields.groups()
                    times = int(started, 16), int(sent, 16)
                    found.append(_Block(upload, times[0], int(number), times[1], *block))
        return found

    def _mark(self, full: str, upload: str, body: bytes) -> None:
        # Block 0 always has the same name, so that a later block 0 replaces it.
        self._store.sdk().stage(full, block_name(upload, _MARK, 0), body, len(body))

    def _now(self) -> int:
        """Return the store's time in unix seconds, from its last response or a new request."""
        clock = self._store.server_date
        if clock.now() is None:
            self._store.check_bucket()
        now = clock.now()
        if now is None:
            raise UnusableAnswerError("it has no date")
        return int(now.timestamp())


def block_name(upload: str, number: int, sent: int) -> str:
    """Return the name of the block for a part; `sent` is in seconds since 1970."""
    return f"{upload}-{number:05}{sent:08x}"


def _alive(blocks: Iterable[_Block]) -> Iterator[tuple[str, int]]:
    for block in blocks:
        if block.number == _MARK and block.size == len(_ALIVE):
            yield block.upload, block.started


def _measure(stream: BinaryIO, crc32c: int, key: str) -> tuple[int, str]:
    """Return the size of a body and its MD5 in Base64.

    Raises:
        IntegrityError: the body has a different CRC32C.
    """
    from google_crc32c import extend

    digest, actual, size = md5(usedforsecurity=False), 0, 0
    stream.seek(0)
    while piece := stream.read(_PIECE):
        digest.update(piece)
        actual = extend(actual, piece)
        size += len(piece)
    if actual != crc32c:
        raise IntegrityError(f"other bytes than their checksum says: {key!r}")
    return size, b64encode(digest.digest()).decode()


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _unknown(key: str) -> UploadNotFound:
    return UploadNotFound(f"no such upload in parts: {key!r}")

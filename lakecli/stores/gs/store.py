"""The adapter of Google Cloud Storage.

Built on google-cloud-storage, which the first request loads. The SDK determines credentials,
endpoint, proxies and certificates; see `credentials`. A version is a generation.

Conditional writes are sent once: a retry could fail because the first attempt succeeded. So if the
outcome of a write is unknown, the caller reads the object back. Every other request is retried
by the policy `retry.REQUESTS`.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from lakecli.base.content_types import DEFAULT
from lakecli.base.identity import is_md5
from lakecli.base.model import NO_ACCOUNT, YES, Account, Demand
from lakecli.errors import IntegrityError, Unsupported, UsageError
from lakecli.stores import contract, presigned_urls
from lakecli.stores.capabilities import Access, not_versioned
from lakecli.stores.cloud_store import MatchingCloudStore
from lakecli.stores.contract import Attributes, Match, ObjectInfo, ObjectStore, Version
from lakecli.stores.gs.credentials import GOOG4, KMS_KEY_HEADER, GsLogin, Signer, describe
from lakecli.stores.gs.errors import VANISHED, GsTranslator
from lakecli.stores.gs.generations import generation_for, version_of
from lakecli.stores.gs.uploads import GsUploads
from lakecli.stores.presigned_urls import LONGEST, PresignedUrl, PresignRequest, quoted_path
from lakecli.stores.responses import UnusableAnswerError, etag_of, name_below
from lakecli.stores.streams import READ_SIZE, PieceStream

if TYPE_CHECKING:
    from google.cloud.storage import Blob

    from lakecli.stores.gs.client import GsClient, ObjectPiece

LONGEST_NAME = 1_024
"""Longest name of an object, in bytes."""

VERSION_TRIES = 5
"""Number of attempts to read an object that other processes keep replacing."""


class GsStore(MatchingCloudStore["GsClient"]):
    """A namespace in a bucket.

    Args:
        prefix: prefix of every key, without a trailing slash; may be empty.
        access: the limits for slow servers, and the requirements of buckets.
    """

    cloud = "Google Cloud Storage"
    delete_size = 100
    translator: GsTranslator

    def __init__(self, bucket: str, prefix: str = "", access: Account = NO_ACCOUNT) -> None:
        root = f"gs://{bucket}"
        translator = GsTranslator(root, lambda: self._login.host)
        if access.demand(Demand.GS_ANONYMOUS, root) == YES:
            translator.anonymous = Demand.GS_ANONYMOUS
        is_anonymous = bool(translator.anonymous)
        self._login = GsLogin(access, translator.check_writes if is_anonymous else None)
        self.project = access.demand(Demand.GS_PROJECT, root)
        self._kms_key = access.demand(Demand.GS_KMS_KEY, root)
        super().__init__(root, prefix, translator)
        self.bucket = bucket
        self._signing: tuple[Signer, str] | None = None

    @property
    def _generation(self) -> int | None:
        """The generation to read; ``None``: the current one."""
        return generation_for(Match(Version(self.version_id))) if self.version_id else None

    def _get(self, key: str, start: int, length: int | None, matching: str) -> bytes:
        end = None if length is None else start + length
        with self.reading(key) as full:
            return self.read_matching(full, start, end, matching, self._generation).data

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        """Return an object and its version.

        If the response lacks the generation, the current generation is requested first, and then
        read.

        Raises:
            IntegrityError: the bytes do not have the checksum that the store keeps.
            ConditionFailed: the object was replaced during each of several attempts to read it.
        """
        with self.reading(key) as full:
            piece = self.sdk().read(full, end=length)
        if piece.generation is not None:
            return piece.data, Version(str(piece.generation))
        for _ in range(VERSION_TRIES):
            version = self.head(key).version
            with suppress(contract.ObjectNotFound), self.reading(key) as full:
                return self.sdk().read(full, end=length, generation=int(version)).data, version
        raise contract.ConditionFailed(f"object was replaced while it was read: {key!r}")

    def read_matching(
        self, full: str, start: int, end: int | None, matching: str, generation: int | None
    ) -> ObjectPiece:
        """Return bytes ``[start, end)`` of an object, after comparing its ETag or MD5.

        Google itself can compare ETags. If the response lacks the tag to compare, the object's
        properties are requested, and the generation that they name is read.

        Args:
            matching: the ETag or MD5 that the object must have, as for `ObjectStore.get`.
            generation: generation to read; ``None`` for the current one.
        """
        sdk = self.sdk()
        by_md5 = is_md5(matching)
        etag = "" if by_md5 else contract.tag_to_send(matching)
        piece = sdk.read(full, start=start, end=end, etag=etag, generation=generation)
        tags: Sequence[str] = piece.tags
        if matching and not tags[by_md5]:
            info = self._info_of(sdk.describe(full, generation=generation))
            tags = (info.etag,)
            piece = sdk.read(full, start=start, end=end, generation=int(info.version))
        contract.check_matching(matching, full, *tags)
        return piece

    def open(self, key: str, *, matching: str = "") -> BinaryIO:
        """Open an object for one pass of reading."""
        return cast("BinaryIO", _ObjectStream(self, key, matching, self._generation))

    def head(self, key: str) -> ObjectInfo:
        """Return the properties of an object."""
        with self.reading(key) as full:
            blob = self.sdk().describe(full, generation=self._generation)
            return self._info_of(blob)._replace(
                content_type=blob.content_type or "",
                content_encoding=contract.plain_encoding(blob.content_encoding),
                metadata=blob.metadata or {},
            )

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects in byte order, a page of a thousand at a time.

        Raises:
            Unsupported: the store does not list in byte order.
        """
        floor = self.start + after if after else ""
        wanted, floor = self.utf8(self.start + prefix), self.utf8(floor)

        def ask(position: str) -> tuple[list[ObjectInfo], str | None]:
            found, following = self.sdk().page(wanted, start=floor, position=position)
            for blob in found:
                name_below(wanted, blob.name or "")
            return [self._info_of(blob) for blob in found], following

        for info in self.in_order(self.follow_pages(ask, ""), attrgetter("key")):
            if not after or info.key > after:  # the listing starts at `after`
                yield info

    def check_versions(self) -> None:
        """Check that the bucket has versioning enabled; see `capabilities.VersionedStore`."""
        with self.translated():
            is_enabled = self.sdk().keeps_versions()
        if not is_enabled:
            raise not_versioned(self.root, "is not enabled")

    def list_versions(self, *, after: str = "") -> Iterator[tuple[ObjectInfo, str]]:
        """Yield objects as `list` does, each with the ID of its current version."""
        return ((info, str(info.version)) for info in self.list(after=after))

    def copy(self, source: str, key: str) -> None:
        """Copy one object with its content type and metadata."""
        target = self.full(key)
        with self.reading(source) as origin:
            self.sdk().copy(self.bucket, origin, target, contract.PLAIN)

    def copy_from(
        self, source: ObjectStore, source_key: str, key: str, attributes: Attributes
    ) -> bool:
        """Copy an object of any bucket into this namespace."""
        if not isinstance(source, GsStore):
            return False
        # Without any attribute, the copy would get the attributes of the original.
        attributes = attributes._replace(content_type=attributes.content_type or DEFAULT)
        target, payer = self.full(key), source.project
        with source.reading(source_key) as origin:
            self.sdk().copy(source.bucket, origin, target, attributes, project=payer)
        return True

    def presign(self, key: str, request: PresignRequest, *, now: datetime) -> PresignedUrl:
        """Sign a URL: offline with a service account's key, otherwise by Google's IAM.

        Raises:
            Unsupported: the credentials belong to a user, and only service accounts can sign.
        """
        if self.translator.anonymous:
            path = f"{self.bucket}/{quoted_path(self.full(key))}"
            raise self.translator.no_signature(f"{self._login.endpoint}/{path}")
        signer, endpoint = self._signing or self._find_signer()
        if request.part is not None and signer.longest < LONGEST:
            raise Unsupported("cannot presign parts, Google's IAM would sign each of them")
        if request.content_encoding:  # a URL of Google cannot set it, so the type names it
            sent = "application/gzip" if request.content_encoding == "gzip" else DEFAULT
            request = request._replace(content_type=sent, content_encoding="")
        longest = signer.longest
        lifetime = presigned_urls.lifetime_of(request.method, request.expires_in, longest=longest)
        limit = {"x-goog-content-length-range": f"0,{request.max_size}"}
        unsigned, _, text = presigned_urls.v4_url(
            GOOG4._replace(name=signer.email),
            request,
            f"{endpoint}/{self.bucket}/{quoted_path(self.full(key))}",
            (now.astimezone(UTC).replace(microsecond=0), lifetime),
            parameters={"generation": str(self._generation or ""), "userProject": self.project},
            put_headers=limit | ({KMS_KEY_HEADER: self._kms_key} if self._kms_key else {}),
        )
        url = unsigned._replace(unsigned=(signer.sign, text.encode()))
        return url if request.may_be_unsigned else url.signed(signer.sign(text.encode()))

    def _find_signer(self) -> tuple[Signer, str]:
        """Find and keep the signer, which raises lakecli's errors, and the server's URL."""
        with self.translated():
            self._login.emulator  # noqa: B018 - report a wrong address before missing credentials
            found = self._login.signer()
            endpoint = self._login.endpoint

        def sign(text: bytes) -> bytes:
            with self.translated():
                return found.sign(text)

        self._signing = found._replace(sign=sign), endpoint
        return self._signing

    def access(self) -> Access:
        """Describe the credentials in use, and the host that receives requests."""
        with self.translated():
            return describe(self._login)

    def uploads(self) -> GsUploads:
        """Return the interface for multipart uploads."""
        return GsUploads(self)

    def _new_client(self) -> GsClient:
        from lakecli.stores.gs.client import GsClient

        login, payer = self._login, {"project": self.project, "kms_key": self._kms_key}
        date = self.server_date
        return GsClient(login, self.bucket, attempts=self.attempts, server_date=date, **payer)

    def _put_stream(
        self, key: str, first: bytes, rest: BinaryIO, attributes: Attributes
    ) -> Version:
        try:
            return super()._put_stream(key, first, rest, attributes)
        except contract.BucketNotFound:
            self.check_bucket()
            raise self.translator.error(VANISHED, self.full(key)) from None

    def full(self, key: str) -> str:
        """Return the name of an object in the bucket; see `CloudStore.full`."""
        full = super().full(key)
        if "\n" in full or "\r" in full or full in {".", ".."}:
            raise UsageError(f"{self.cloud} cannot hold an object of this key: {key!r}")
        if len(full.encode()) > LONGEST_NAME:
            raise UsageError(f"key too long for {self.cloud}: {key!r}")
        return full

    def _info_of(self, blob: Blob) -> ObjectInfo:
        """Return the properties of an object.

        The ``etag`` is the MD5 of the bytes, as in lakeFS: unlike Google's ETag, it does not change
        with the metadata. A composed object has no MD5, so its ``etag`` is Google's ETag.
        """
        from lakecli.stores.gs.client import md5_of

        etag = md5_of(blob) or etag_of(str(blob.etag or ""))
        try:
            size, created = int(blob.size), blob.time_created.replace(microsecond=0)
        except (AttributeError, TypeError, ValueError) as error:
            raise UnusableAnswerError("an object lacks a property, or has a wrong one") from error
        key = blob.name[len(self.start) :]
        return ObjectInfo(key, size, created, version_of(blob), etag)


class _ObjectStream(PieceStream):
    """A file that reads one generation of an object piece by piece, and verifies its checksum.

    The constructor raises the errors of `ObjectStore.open`. Reading raises `Unreachable` if the
    connection broke in each attempt, `IntegrityError` for bytes without the checksum that the store
    keeps, and `ConditionFailed` if the object was replaced during reading.
    """

    def __init__(self, store: GsStore, key: str, matching: str, generation: int | None) -> None:
        from google_crc32c import Checksum

        self._store = store
        self._key = key
        self._matching = matching
        self._offset = 0
        self._sum: Any = Checksum()  # type: ignore[no-untyped-call]
        first = self._read(generation)
        self._generation = generation or first.generation
        if self._generation is None and len(first.data) == READ_SIZE:
            # All pieces must be of one generation, so look it up and read the first piece again.
            self._generation = int(store.head(key).version)
            first = self._read(self._generation)
        self._expected = first.crc32c
        self._is_last = False
        self.ahead = memoryview(self._checked(first))

    def _read(self, generation: int | None) -> ObjectPiece:
        start, end = self._offset, self._offset + READ_SIZE
        with self._store.reading(self._key) as full:
            return self._store.read_matching(full, start, end, self._matching, generation)

    def next_piece(self) -> bytes:
        if self._is_last:
            return b""
        try:
            return self._checked(self._read(self._generation))
        except contract.ObjectNotFound:
            what = f"object was replaced while it was read: {self._named()}"
            raise contract.ConditionFailed(what) from None

    def _named(self) -> str:
        return repr(f"{self._store.root}/{self._store.full(self._key)}")

    def _checked(self, piece: ObjectPiece) -> bytes:
        """Return the bytes of a piece; after the last piece, verify the checksum of all pieces."""
        self._offset += len(piece.data)
        self._sum.update(piece.data)
        self._is_last = len(piece.data) < READ_SIZE
        actual = b64encode(self._sum.digest()).decode()
        if self._is_last and self._expected and self._expected != actual:
            raise IntegrityError(
                f"received other bytes than their checksum says: {self._named()}",
                hint="repeat the command; if it happens again, suspect the network in between",
            )
        return piece.data

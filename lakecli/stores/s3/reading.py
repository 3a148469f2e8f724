"""Reads objects, ranges and old versions from S3, and lists buckets.

Plain requests are tried first, for the reasons in `direct_requests`. If a plain request is not
enough, the SDK sends the request again.

The versions in conditions are ETags. Old versions have IDs, and exist only in buckets with
versioning enabled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from operator import attrgetter
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast
from urllib.parse import quote, unquote_plus, urlencode

from lakecli.base.model import NO_ACCOUNT, Account
from lakecli.stores import contract, responses
from lakecli.stores.capabilities import OpensRanges, not_versioned
from lakecli.stores.cloud_errors import Translator
from lakecli.stores.cloud_store import CloudStore
from lakecli.stores.contract import ObjectInfo, Version, key_bytes
from lakecli.stores.responses import RangeIgnoredError, UnusableAnswerError, required, token_of
from lakecli.stores.s3.connection import S3Connection
from lakecli.stores.s3.direct_requests import DirectRequests
from lakecli.stores.s3.errors import S3Translator, status_of
from lakecli.stores.streams import ReadStream, read_exactly

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from botocore.response import StreamingBody

_REFUSES_IF_MATCH: Final = "the server refuses If-Match"
"""The fact that a store remembers about a server that refuses If-Match for reads."""

_META: Final = "x-amz-meta-"
_DESCRIBED: Final = {
    "ETag": "etag",
    "ContentType": "content-type",
    "ContentEncoding": "content-encoding",
    "StorageClass": "x-amz-storage-class",
    "ArchiveStatus": "x-amz-archive-status",
    "Restore": "x-amz-restore",
}
"""The headers of an object that the SDK returns under other names."""

_SIZE: Final = re.compile("[0-9]{1,18}", re.ASCII)

_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", re.ASCII)
_OF_OBJECTS: Final = frozenset({"Key", "Size", "LastModified", "ETag", "StorageClass"})
_ARCHIVES: Final = frozenset({"GLACIER", "DEEP_ARCHIVE", "ARCHIVE_ACCESS", "DEEP_ARCHIVE_ACCESS"})
"""Archive storage classes, and tiers of Intelligent-Tiering, whose objects cannot be read."""

_OF_PAGES: Final = frozenset({"IsTruncated", "NextContinuationToken", "EncodingType"})

PAGE_SIZE: Final = 1_000
"""Largest number of objects in one page of a listing, or in one batch of deletions."""

_DOUBTFUL: Final = frozenset(
    {HTTPStatus.BAD_REQUEST, HTTPStatus.PRECONDITION_FAILED, HTTPStatus.NOT_IMPLEMENTED}
)
"""Statuses of servers that do not support If-Match for reads, or quoted ETags in If-Match."""

READ_TRIES = 3
"""Number of attempts to read an object whose response breaks off."""


Page = tuple[list[ObjectInfo], str]
"""Objects with their full names, and the token of the next page, which is empty at the end."""


def headers_of(condition: contract.Condition) -> dict[str, str]:
    """Return the SDK's keyword arguments for the condition of a request."""
    match condition:
        case contract.Absent():
            return {"IfNoneMatch": "*"}
        case contract.Match():
            return {"IfMatch": condition.checked()}
        case _:
            return {}


def version_of(answer: Mapping[str, Any]) -> Version:
    """Return the version that a response names, or ``""``.

    Raises:
        UnusableAnswerError: the ETag is not valid in a header of a later request.
    """
    return Version(responses.etag_of(str(answer.get("ETag", ""))))


class S3Reader(CloudStore, OpensRanges):
    """A namespace in an S3 bucket, with the methods of `S3Store` that read.

    Attributes:
        direct: the plain requests, which are tried first.
    """

    cloud = "S3"
    translator: S3Translator
    delete_size = PAGE_SIZE

    def __init__(
        self, bucket: str, prefix: str = "", *, region: str = "", account: Account = NO_ACCOUNT
    ) -> None:
        translator = S3Translator(f"s3://{bucket}", lambda: self._connection.config.host)
        self._connection = S3Connection(region, account, bucket, translator.check_writes)
        translator.anonymous = self._connection.demands.anonymous
        super().__init__(f"s3://{bucket}", prefix, translator, self._connection.server_date)
        self.bucket = bucket
        self.direct = DirectRequests(self._connection, bucket, translator)

    @property
    def _wanted(self) -> dict[str, str]:
        """The SDK's keyword arguments that select the version; empty for the current object."""
        return {"VersionId": self.version_id} if self.version_id else {}

    def _get(self, key: str, start: int, length: int | None, matching: str) -> bytes:
        with self.translated(key) as full:
            return self._read(full, start, length, matching)[0]

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        """Return an object and its version."""
        with self.translated(key) as full:
            return self._read(full, 0, length)

    def _read(
        self, full: str, start: int, length: int | None, matching: str = ""
    ) -> tuple[bytes, Version]:
        """Return a range of an object, and its version; a negative `start` counts from the end."""
        span = ""
        if start or length is not None:
            end = "" if start < 0 or length is None else str(start + length - 1)
            span = f"bytes={start}" if start < 0 else f"bytes={start}-{end}"
        if not self.version_id:
            limit = -start if start < 0 else length
            if_match = self._if_match(matching)
            found = self.direct.get(full, span=span, limit=limit, if_match=if_match)
            if found is not None:
                contract.check_matching(matching, full, found[1])
                return found[0], Version(responses.etag_of(found[1]))
        from botocore.exceptions import IncompleteReadError, ResponseStreamingError

        wanted = ({"Range": span} if span else {}) | self._wanted
        for _ in range(READ_TRIES - 1):
            # The SDK repeats requests, but not the reading of a response that breaks off.
            with suppress(IncompleteReadError, ResponseStreamingError):
                return self._read_by_sdk(full, start, length, matching, wanted)
        return self._read_by_sdk(full, start, length, matching, wanted)

    def _if_match(self, matching: str) -> str:
        """Return the value of the header ``If-Match``, or ``""`` if it cannot be sent."""
        tag = "" if _REFUSES_IF_MATCH in self._learned else contract.tag_to_send(matching)
        return f'"{tag}"' if tag else ""

    def _request(self, full: str, matching: str, wanted: Mapping[str, str]) -> dict[str, Any]:
        """Request an object, and compare the ETag in the response with `matching`.

        Some servers implement If-Match for reads incorrectly. If a server refuses the request, it
        is sent again without this header, and only the ETag in the response is compared.
        """
        from botocore.exceptions import ClientError

        client = self._connection.client()
        asked = {"Bucket": self.bucket, "Key": full, **wanted}
        if_match = self._if_match(matching)
        is_refused = False
        try:
            answer = client.get_object(**asked, **({"IfMatch": if_match} if if_match else {}))
        except ClientError as error:
            if not if_match or status_of(error) not in _DOUBTFUL:
                raise
            answer, is_refused = client.get_object(**asked), True
        try:
            contract.check_matching(matching, full, str(answer.get("ETag", "")))
        except contract.ConditionFailed:
            answer["Body"].close()
            raise
        if is_refused:
            self._learned.add(_REFUSES_IF_MATCH)
        return cast("dict[str, Any]", answer)

    def _read_by_sdk(
        self, full: str, start: int, length: int | None, matching: str, wanted: Mapping[str, str]
    ) -> tuple[bytes, Version]:
        from botocore.exceptions import ClientError

        span = wanted.get("Range", "")
        try:
            answer = self._request(full, matching, wanted)
        except ClientError as error:
            if status_of(error) == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                return b"", Version("")
            raise
        with closing(answer["Body"]) as body:
            size = _size_of(answer)
            if span and _is_partial(answer):
                part = responses.size_of_part(span, answer.get("ContentRange", ""))
                if size not in {None, part}:
                    raise UnusableAnswerError("its length is not that of the part")
                data = read_exactly(body, part + 1)
                if len(data) != part:
                    what = f"its body has not the {part:,} bytes that it announces"
                    raise UnusableAnswerError(what)
                return data, version_of(answer)
            if span and size != 0:
                # A server may answer a range that covers the whole object with the whole object.
                if start or length is None or (size is not None and size > length):
                    raise RangeIgnoredError
                data = read_exactly(body, length + 1)
                if len(data) > length:
                    raise RangeIgnoredError
                return data, version_of(answer)
            return cast("bytes", body.read()), version_of(answer)

    def open(self, key: str, *, matching: str = "") -> BinaryIO:
        """Open an object for one pass of reading."""
        with self.translated(key) as full:
            answer = self._request(full, matching, self._wanted)
            _size_of(answer)
            return cast("BinaryIO", AnswerStream(answer["Body"], self.translator, full))

    def open_range(self, key: str, *, start: int, length: int) -> BinaryIO:
        """Open a range of an object by one request; see `OpensRanges`."""
        span = f"bytes={start}-{start + length - 1}"
        with self.translated(key) as full:
            client = self._connection.client(max_attempts=1)
            answer = client.get_object(Bucket=self.bucket, Key=full, Range=span)
            with ExitStack() as opened:
                opened.callback(answer["Body"].close)
                if not _is_partial(answer):
                    raise RangeIgnoredError
                responses.size_of_part(span, answer.get("ContentRange", ""))
                opened.pop_all()
            return cast("BinaryIO", AnswerStream(answer["Body"], self.translator, full, length))

    def head(self, key: str) -> ObjectInfo:
        """Return the properties of an object."""
        return self._head(key)[0]

    def _head(self, key: str) -> tuple[ObjectInfo, str]:
        """Return the properties of an object and its version ID."""
        with self.reading(key) as full:
            if not self.version_id:
                headers = self.direct.head(full)
                info = headers and described(headers, key)
                if headers and info:
                    return info, responses.version_id_of(headers.get("x-amz-version-id", "null"))
            client = self._connection.client()
            answer = client.head_object(Bucket=self.bucket, Key=full, **self._wanted)
            info = info_of(answer, key, size=required(answer, "ContentLength"))
            return info, responses.version_id_of(answer.get("VersionId", "null"))

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects in byte order, a page at a time.

        Raises:
            Unsupported: the store does not list in byte order; S3 Express does not.
        """
        wanted, first = self.utf8(self.start + prefix), self.utf8(self.start + after)
        listed = self.follow_pages(partial(self.page, wanted, first if after else ""), "")
        for info in self.in_order(listed, attrgetter("key")):
            yield info._replace(key=info.key[len(self.start) :])

    def page(self, prefix: str, after: str, token: str) -> Page:
        """Return a page of a listing.

        Args:
            after: the full name after which the listing begins; ``""``: at the prefix.
            token: the token of the page; ``""`` for the first page.
        """
        page = self._plain_page(prefix, after, token)
        if page is None:
            begin = {"StartAfter": after} if after else {}
            begin = {"ContinuationToken": token} if token else begin
            answer = self._connection.client().list_objects_v2(
                Bucket=self.bucket, Prefix=prefix, MaxKeys=PAGE_SIZE, **begin
            )
            objects = [
                info_of(item, required(item, "Key"), size=required(item, "Size"))
                for item in answer.get("Contents", ())
            ]
            is_last = not answer["IsTruncated"]
            page = objects, "" if is_last else token_of(answer.get("NextContinuationToken"))
        objects, following = page
        if following:
            token_of(following)
        for info in objects:
            responses.name_below(prefix, info.key)
        return page

    def _plain_page(self, prefix: str, after: str, token: str) -> Page | None:
        """Return a page of a listing, or ``None`` if the SDK has to send the request."""
        parameters = {
            "continuation-token": token,
            "encoding-type": "url",
            "list-type": "2",
            "max-keys": str(PAGE_SIZE),
            "prefix": prefix,
            "start-after": "" if token else after,
        }
        sent = {name: text for name, text in parameters.items() if text or name == "prefix"}
        try:
            body = self.direct.list(urlencode(sent, quote_via=quote, safe=""))
            return None if body is None else read_page(body)
        except (UnicodeError, UnusableAnswerError):
            return None

    def check_versions(self) -> None:
        """Check that the bucket has versioning enabled; see `capabilities.VersionedStore`."""
        with self.translated():
            answer = self._connection.client().get_bucket_versioning(Bucket=self.bucket)
        status = answer.get("Status")
        if status != "Enabled":
            raise not_versioned(self.root, "is suspended" if status else "was never enabled")

    def list_versions(self, *, after: str = "") -> Iterator[tuple[ObjectInfo, str]]:
        """Yield the current versions and their IDs; see `capabilities.VersionedStore`.

        The ordinary listing decides which objects exist: servers differ in where a listing of
        versions begins, and the caller would remove an omitted object from a branch.
        """
        floor = self.utf8(self.start + after)
        begin = {"KeyMarker": floor} if after else {}
        listed = self.follow_pages(partial(self._versions_page, floor), begin)
        waiting = next(listed, None)
        for info in self.list(after=after):
            while waiting is not None and key_bytes(waiting[0].key) < key_bytes(info.key):
                waiting = next(listed, None)
            if waiting is not None and waiting[0].key == info.key:
                yield waiting
                continue
            with suppress(contract.ObjectNotFound):  # deleted since it was listed
                yield self._head(info.key)

    def _versions_page(
        self, after: str, position: Mapping[str, str]
    ) -> tuple[Iterable[tuple[ObjectInfo, str]], dict[str, str] | None]:
        """Return a page of current versions with their IDs, and the position of the next page.

        Args:
            after: the full name after which the listing begins; some servers include this name.
        """
        page = self._connection.client().list_object_versions(
            Bucket=self.bucket, Prefix=self.start, MaxKeys=PAGE_SIZE, **position
        )
        found = []
        for item in page.get("Versions", ()):
            full = responses.name_below(self.start, required(item, "Key"))
            # A deleted object has no current version.
            if required(item, "IsLatest") and key_bytes(full) > key_bytes(after):
                info = info_of(item, full[len(self.start) :], size=required(item, "Size"))
                found.append((info, responses.version_id_of(item.get("VersionId"))))
        if not page["IsTruncated"]:
            return found, None
        following = {"KeyMarker": str(required(page, "NextKeyMarker"))}
        if page.get("NextVersionIdMarker"):
            following["VersionIdMarker"] = token_of(page["NextVersionIdMarker"])
        return found, following


def info_of(item: Mapping[str, Any], key: str, *, size: int) -> ObjectInfo:
    """Return the properties in an item of a listing, or in the SDK's response to HEAD."""
    if size < 0:
        raise UnusableAnswerError("an object has a negative size")
    return ObjectInfo(
        key=key,
        size=size,
        modified_at=required(item, "LastModified").replace(microsecond=0),
        version=version_of(item),
        etag=version_of(item),
        content_type=item.get("ContentType", ""),
        content_encoding=contract.plain_encoding(item.get("ContentEncoding")),
        metadata=item.get("Metadata", {}),
        archive=_archive_of(item),
    )


def _archive_of(item: Mapping[str, Any]) -> str:
    """Return the archive tier of an object; ``""`` if it can be read now."""
    tier = str(item.get("ArchiveStatus") or item.get("StorageClass") or "")
    is_restored = 'ongoing-request="false"' in item.get("Restore", "")
    return tier if tier in _ARCHIVES and not is_restored else ""


def described(headers: Mapping[str, str], key: str) -> ObjectInfo | None:
    """Return the properties in the headers of a plain HEAD; ``None`` if a header is unusual."""
    size = _SIZE.fullmatch(headers.get("content-length", ""))
    modified_at = responses.date_of(headers.get("last-modified", ""))
    if size is None or modified_at is None or modified_at.tzinfo != UTC:
        return None
    item: dict[str, Any] = {name: headers.get(header, "") for name, header in _DESCRIBED.items()}
    meta = {name[len(_META) :]: text for name, text in headers.items() if name.startswith(_META)}
    item |= {"LastModified": modified_at, "Metadata": meta}
    return info_of(item, key, size=int(size[0]))


def _size_of(answer: Mapping[str, Any]) -> int | None:
    """Return the announced length of a body; ``None`` if the body is chunked.

    Raises:
        UnusableAnswerError: the body has no length and is not chunked, so a broken connection would
            look like the end of the body.
    """
    size = answer.get("ContentLength")
    headers = answer["ResponseMetadata"]["HTTPHeaders"]
    if size is None and headers.get("transfer-encoding", "").lower() != "chunked":
        answer["Body"].close()
        raise UnusableAnswerError("it does not say how long it is")
    return cast("int | None", size)


def _is_partial(answer: Mapping[str, Any]) -> bool:
    status = answer["ResponseMetadata"]["HTTPStatusCode"]
    return bool(status == HTTPStatus.PARTIAL_CONTENT)


def read_page(body: bytes) -> Page:
    """Parse a page of a listing; keys are URL-encoded if the page says so."""
    root = responses.read_xml(body, "ListBucketResult", "IsTruncated")
    page = _texts(root, _OF_PAGES)
    is_truncated = page["IsTruncated"] == "true"
    token = page.get("NextContinuationToken", "")
    if is_truncated and not token:
        raise UnusableAnswerError("it does not say which page follows")
    is_encoded = page.get("EncodingType") == "url"
    objects = [_object_of(item, is_encoded=is_encoded) for item in root.iterfind("{*}Contents")]
    return objects, token if is_truncated else ""


def _texts(element: Element, names: frozenset[str]) -> dict[str, str]:
    """Return the texts of the children with these names; raise an error for a repeated child."""
    texts: dict[str, str] = {}
    for child in element:
        name = child.tag.rpartition("}")[2]
        if name in names:
            if name in texts or len(child):
                raise UnusableAnswerError(f"{name} comes twice, or is not text")
            texts[name] = child.text or ""
    return texts


def _object_of(element: Element, *, is_encoded: bool) -> ObjectInfo:
    item = _texts(element, _OF_OBJECTS)
    try:
        key, size, moment = item["Key"], item["Size"], item["LastModified"]
    except KeyError as error:
        raise UnusableAnswerError("an object lacks a property") from error
    if not _SIZE.fullmatch(size) or not _MOMENT.fullmatch(moment):
        raise UnusableAnswerError("a size or a time is malformed")
    try:
        full = unquote_plus(key, errors="strict") if is_encoded else key
        modified_at = datetime.fromisoformat(f"{moment[:19]}+00:00")
    except ValueError as error:
        raise UnusableAnswerError("a key or a time is malformed") from error
    return info_of(item | {"LastModified": modified_at}, full, size=int(size))


@dataclass(eq=False)
class AnswerStream(ReadStream):
    """The body of a response as a readable file.

    Args:
        full: full name of the object, with the prefix of the namespace.
        left: size of the requested part in bytes; ``None`` for a whole object.
    """

    _body: StreamingBody
    _translator: Translator
    _full: str
    _left: int | None = None

    def read(self, size: int = -1) -> bytes:
        """Read `size` bytes, fewer only at the end.

        Raises:
            IntegrityError: the bytes do not have the checksum that the store sent with them.
        """
        with self._translator.translated(self._full):
            if self._left is None:
                return cast("bytes", self._body.read(None if size < 0 else size))
            if size < 0 or size > self._left:
                size = self._left + 1
            data = read_exactly(cast("BinaryIO", self._body), size)
            self._left -= len(data)
            if self._left < 0:
                raise UnusableAnswerError("it has more bytes than were asked for")
            return data

    def close(self) -> None:
        """Close the connection."""
        if not self.closed:
            self._body.close()
        super().close()

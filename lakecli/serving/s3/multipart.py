"""Uploads in parts.

What is known of an upload is kept in memory, so it ends with the process; its parts are garbage
then, as those of any other upload that is never completed. A part that is copied from another
object is only recorded. If all parts together are one whole object, as when a program copies a
large object in parts, its entry is copied, and no bytes.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from secrets import token_hex
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.base.model import Entry
from lakecli.repository.contract import Repository
from lakecli.serving.s3 import checksums, conditions, pages, xml
from lakecli.serving.s3.buckets import OWNER, check_bucket
from lakecli.serving.s3.call import Call, S3Answer, empty_answer, xml_answer
from lakecli.serving.s3.errors import S3Error
from lakecli.serving.s3.objects import (
    CopySource,
    Properties,
    check_early,
    check_key,
    checksum_headers,
    etag_of,
    iso_date,
    properties_of,
    read_range,
    source_of,
    stage,
    stage_copy,
)
from lakecli.serving.s3.parts import ArrivedPart, Storage, storage_of
from lakecli.stores.local.batch import LocalBatch

if TYPE_CHECKING:
    from lakecli.serving.served import Served
    from lakecli.serving.writes import BranchWriter, Deposited

SMALLEST: Final = 5 << 20
"""The smallest part in bytes, unless it is the last one."""

MOST_UPLOADS: Final = 10_000
"""The most unfinished uploads of an endpoint; jobs complete all of theirs at their end."""

MOST_DONE: Final = 10_000
"""The most completed uploads that are remembered, for clients that repeat the request."""

PATIENCE: Final = timedelta(days=7)
"""The time after which an upload without a new part counts as abandoned."""


class Part(NamedTuple):
    """A part of an upload.

    Attributes:
        place: where its bytes are: stored, or in another object from the given byte on.
        checksums: base64 by algorithm.
    """

    number: int
    size: int
    tag: str
    modified_at: datetime
    place: ArrivedPart | tuple[CopySource, int]
    checksums: dict[str, str]


class Upload:
    """An unfinished upload. Safe to share between threads."""

    def __init__(
        self, call: Call, properties: Properties, algorithms: tuple[str, ...], storage: Storage
    ) -> None:
        self.id = token_hex(16)
        self.bucket = call.bucket
        self.key = call.key
        self.properties = properties
        self.algorithms = algorithms
        self.storage = storage
        self.started_at = self.changed_at = call.context.clock()
        self.parts: dict[int, Part] = {}
        self.completing = Lock()
        self.joined: tuple[list[str], Deposited] | None = None
        """The tags of the joined parts, if staging the object failed after that."""
        self.is_ended = False

    def add(self, part: Part) -> None:
        """Record a part; one of the same number is replaced."""
        if self.is_ended or self.joined is not None:
            self.storage.discard()
            raise _no_such_upload()
        self.parts[part.number] = part
        self.changed_at = part.modified_at
        self.storage.advance(self._stored)

    def _stored(self, number: int) -> ArrivedPart | None:
        part = self.parts.get(number)
        return part.place if part is not None and isinstance(part.place, ArrivedPart) else None

    def end(self) -> None:
        """Remove what was stored."""
        self.is_ended = True
        self.storage.discard()


class Uploads:
    """The unfinished uploads of an endpoint. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()  # of the attributes below
        self._by_id: dict[str, Upload] = {}
        self._done: OrderedDict[tuple[str, str, bytes], str] = OrderedDict()
        self._batches: dict[str, LocalBatch] = {}
        weakref.finalize(self, _end_all, self._by_id)

    def batch_of(self, repository: Repository) -> LocalBatch:
        """Return the batch with the temporary files of a directory."""
        uri = repository.record.storage_namespace
        with self._lock:
            if uri not in self._batches:
                batch = repository.store.batch()
                assert isinstance(batch, LocalBatch)
                self._batches[uri] = batch
            return self._batches[uri]

    def begin(self, upload: Upload) -> None:
        """Add an upload; abandoned ones end."""
        old: list[Upload] = []
        with self._lock:
            if len(self._by_id) >= MOST_UPLOADS // 2:
                before = upload.started_at - PATIENCE
                old = [each for each in self._by_id.values() if each.changed_at < before]
                for each in old:
                    del self._by_id[each.id]
            if len(self._by_id) >= MOST_UPLOADS:
                raise S3Error("SlowDown", f"there are {MOST_UPLOADS:,} unfinished uploads")
            self._by_id[upload.id] = upload
        for each in old:
            each.end()

    def of(self, call: Call) -> Upload:
        """Return the upload that a request names."""
        found = self._by_id.get(call.query["uploadId"])
        if found is None or (found.bucket, found.key) != (call.bucket, call.key):
            raise _no_such_upload()
        return found

    def result_of(self, call: Call) -> str | None:
        """Return the ETag of the object if the upload of a request was completed already."""
        return self._done.get((call.query["uploadId"], call.bucket, call.key))

    def finish(self, upload: Upload, etag: str = "") -> None:
        """Remove an upload, with the ETag of its object if it was completed."""
        with self._lock:
            self._by_id.pop(upload.id, None)
            if etag:
                self._done[upload.id, upload.bucket, upload.key] = etag
                while len(self._done) > MOST_DONE:
                    self._done.popitem(last=False)
        upload.end()

    def listed(self, bucket: str) -> list[Upload]:
        """Return the uploads into a bucket, ordered by key and age."""
        with self._lock:
            found = [each for each in self._by_id.values() if each.bucket == bucket]
        return sorted(found, key=lambda each: (each.key, each.started_at, each.id))


def _end_all(by_id: dict[str, Upload]) -> None:
    for upload in list(by_id.values()):
        upload.end()


_uploads: weakref.WeakKeyDictionary[Served, Uploads] = weakref.WeakKeyDictionary()
_adding: Final = Lock()


def uploads_of(served: Served) -> Uploads:
    """Return the unfinished uploads of an endpoint."""
    with _adding:
        found = _uploads.get(served)
        if found is None:
            found = _uploads[served] = Uploads()
        return found


def _no_such_upload() -> S3Error:
    return S3Error("NoSuchUpload", "the upload does not exist, was completed, or was aborted")


def _number_of(call: Call) -> int:
    number = pages.number_of(call.query["partNumber"], "partNumber")
    if not 1 <= number <= xml.MOST_PARTS:
        raise S3Error("InvalidArgument", f"a part has a number from 1 to {xml.MOST_PARTS:,}")
    return number


async def create_upload(call: Call) -> S3Answer:
    """Answer CreateMultipartUpload."""
    ref, path = check_key(call)
    if not path:
        raise S3Error("InvalidArgument", "an object needs a path behind the branch")
    await call.whole()
    named = call.headers.get("x-amz-checksum-algorithm")
    algorithms = () if named is None else (checksums.named(named),)

    def begin() -> Upload:
        call.writer(ref)
        uploads = uploads_of(call.context.served)
        storage = storage_of(call.context.served.repository(call.bucket), uploads.batch_of)
        upload = Upload(call, properties_of(call.headers, path), algorithms, storage)
        uploads.begin(upload)
        return upload

    upload = await call.in_thread(begin)
    children = [*_named(call), xml.leaf("UploadId", upload.id)]
    return xml_answer(xml.document("InitiateMultipartUploadResult", children))


def _named(call: Call) -> list[xml.Markup]:
    key = call.key.decode("utf-8", "replace")
    return [xml.leaf("Bucket", call.bucket), xml.leaf("Key", key)]


async def upload_part(call: Call) -> S3Answer:
    """Answer UploadPart."""
    number = _number_of(call)
    upload = uploads_of(call.context.served).of(call)
    size = call.body_size
    if size is None:
        raise S3Error("MissingContentLength", "the size of the part is missing")
    tag = f"{token_hex(16)}-1"  # the dash keeps clients from comparing it with an MD5

    def store(pieces: Iterable[bytes]) -> None:
        stored = upload.storage.add(number, size, pieces, tag)
        sums = call.finished.checksums if call.finished is not None else {}
        upload.add(Part(number, size, tag, call.context.clock(), stored, sums))

    if call.is_small:
        data = await call.whole(also=upload.algorithms)
        await call.in_thread(store, [data])
    else:
        await call.stored(store, also=upload.algorithms)
    return empty_answer(200, [(b"etag", f'"{tag}"'.encode()), *checksum_headers(call)])


async def copy_part(call: Call) -> S3Answer:
    """Answer UploadPartCopy."""
    number = _number_of(call)
    upload = uploads_of(call.context.served).of(call)

    def copy() -> Part:
        source = source_of(call)
        entry = source.entry
        start, size = 0, entry.size
        named = call.headers.get("x-amz-copy-source-range")
        if named is not None:
            span = conditions.copied_span_of(named, entry.size)
            start, size = span.start, span.end - span.start
        tag = f"{token_hex(16)}-1"
        part = Part(number, size, tag, call.context.clock(), (source, start), {})
        upload.add(part)
        return part

    part = await call.in_thread(copy)
    children = [
        xml.leaf("LastModified", iso_date(part.modified_at)),
        xml.leaf("ETag", f'"{part.tag}"'),
    ]
    return xml_answer(xml.document("CopyPartResult", children))


async def complete_upload(call: Call) -> S3Answer:
    """Answer CompleteMultipartUpload."""
    body = await call.whole(xml.LARGEST_COMPLETION, completes_upload=True)
    named = xml.read_completion(body)
    etag = await call.slowly(_complete, call, named)
    url = f"{call.context.options.url}{call.request.url.path}"
    children = [xml.leaf("Location", url), *_named(call), xml.leaf("ETag", f'"{etag}"')]
    return xml_answer(xml.document("CompleteMultipartUploadResult", children))


def _complete(call: Call, named: Sequence[xml.NamedPart]) -> str:
    uploads = uploads_of(call.context.served)
    done = uploads.result_of(call)
    if done is not None:
        return done
    upload = uploads.of(call)
    with upload.completing:
        done = uploads.result_of(call)
        if done is not None:
            return done
        ref, path = check_key(call)
        writer = call.writer(ref)
        parts = _chosen(call, upload, named)
        check_early(call, ref, path)
        entry = _staged(call, writer, path, upload, parts)
        etag = etag_of(entry)
        uploads.finish(upload, etag)
        return etag


def _staged(
    call: Call, writer: BranchWriter, path: bytes, upload: Upload, parts: Sequence[Part]
) -> Entry:
    """Stage the object of some parts; return its entry."""
    action, properties = "CompleteMultipartUpload", upload.properties
    source = _whole_source(parts)
    if source is not None:
        return stage_copy(call, writer, path, source, action=action, properties=properties)
    tags = [part.tag for part in parts]
    if upload.joined is None:
        stored = [_stored(upload, part) for part in parts]
        upload.joined = tags, upload.storage.join(stored, writer)
    elif upload.joined[0] != tags:
        raise S3Error("InvalidPart", "the upload was completed before, with other parts")
    deposited = upload.joined[1]
    entry = properties.entry(deposited, call.context.clock())
    return stage(call, writer, path, entry, action, deposited)


def _chosen(call: Call, upload: Upload, named: Sequence[xml.NamedPart]) -> list[Part]:
    """Return the parts that a client wants to be joined.

    Raises:
        S3Error: there is no such part, or it is too small, or has another checksum.
    """
    parts: list[Part] = []
    for each in named:
        part = upload.parts.get(each.number)
        if part is None or part.tag != each.etag:
            raise S3Error("InvalidPart", f"the upload has no part {each.number} with this ETag")
        if any(part.checksums.get(name, sum_) != sum_ for name, sum_ in each.checksums.items()):
            raise S3Error("InvalidPart", f"part {each.number} has another checksum")
        parts.append(part)
    for part in parts[:-1]:
        if part.size < SMALLEST:
            raise S3Error(
                "EntityTooSmall",
                f"part {part.number} has {part.size:,} bytes; all but the last one need "
                f"{SMALLEST:,}",
            )
    size = call.headers.get("x-amz-mp-object-size")
    if size is not None and size != str(sum(part.size for part in parts)):
        raise S3Error("InvalidRequest", "the parts do not have the size that was announced")
    _check_sums(call, parts)
    return parts


def _check_sums(call: Call, parts: Sequence[Part]) -> None:
    """Compare the checksums that a client sent of the whole object."""
    for name, text in checksums.sent(call.headers, of_upload=True).items():
        sums = [part.checksums.get(name, "") for part in parts]
        if not all(sums):
            continue  # they were not computed while the parts arrived
        if "-" in text:
            found = checksums.composite(name, sums)
        else:
            found = checksums.joined(name, zip(sums, (part.size for part in parts), strict=True))
        if found != text:
            raise S3Error("BadDigest", f"the object has another checksum: {name}")


def _whole_source(parts: Sequence[Part]) -> CopySource | None:
    """Return the object that all parts together are a whole copy of, or ``None``."""
    first = parts[0].place
    if isinstance(first, ArrivedPart):
        return None
    at = 0
    for part in parts:
        if isinstance(part.place, ArrivedPart) or part.place[1] != at:
            return None
        source = part.place[0]
        if (source.bucket, source.value) != (first[0].bucket, first[0].value):
            return None
        at += part.size
    return first[0] if at == first[0].entry.size else None


def _stored(upload: Upload, part: Part) -> ArrivedPart:
    """Return a part that is stored; if it was only recorded as a copy, its bytes are copied now."""
    if isinstance(part.place, ArrivedPart):
        return part.place
    source, start = part.place
    pieces: Iterator[bytes] = iter(())
    if part.size:
        pieces = read_range(source.repository, source.entry, start, part.size)
    return upload.storage.add(part.number, part.size, pieces, part.tag)


async def abort_upload(call: Call) -> S3Answer:
    """Answer AbortMultipartUpload."""

    def abort() -> None:
        uploads = uploads_of(call.context.served)
        upload = uploads.of(call)
        with upload.completing:
            uploads.finish(upload)

    await call.in_thread(abort)
    return empty_answer(204)


async def list_parts(call: Call) -> S3Answer:
    """Answer ListParts."""
    upload = uploads_of(call.context.served).of(call)
    most = pages.most_of(call.query.get("max-parts"), "max-parts")
    after = pages.number_of(call.query.get("part-number-marker") or "0", "part-number-marker")
    ordered = (part for number, part in sorted(upload.parts.items()) if number > after)
    found = list(islice(ordered, most + 1))
    listed = found[:most]
    children = [
        *_named(call),
        xml.leaf("UploadId", upload.id),
        OWNER,
        xml.leaf("StorageClass", "STANDARD"),
        xml.leaf("PartNumberMarker", after),
        xml.leaf("NextPartNumberMarker", listed[-1].number if listed else after),
        xml.leaf("MaxParts", most),
        xml.leaf("IsTruncated", bool(most) and len(found) > most),
    ]
    for part in listed:
        sums = [xml.leaf(f"Checksum{name.upper()}", text) for name, text in part.checksums.items()]
        described = [
            xml.leaf("PartNumber", part.number),
            xml.leaf("LastModified", iso_date(part.modified_at)),
            xml.leaf("ETag", f'"{part.tag}"'),
            xml.leaf("Size", part.size),
            *sums,
        ]
        children.append(xml.branch("Part", described))
    return xml_answer(xml.document("ListPartsResult", children))


async def list_uploads(call: Call) -> S3Answer:
    """Answer ListMultipartUploads."""
    await call.in_thread(check_bucket, call)
    query = call.query
    most = pages.most_of(query.get("max-uploads"), "max-uploads")
    encoding = pages.encoding_of(query.get("encoding-type"))
    prefix, delimiter, after = (
        query.get(name, "").encode("utf-8", "surrogateescape")
        for name in ("prefix", "delimiter", "key-marker")
    )
    after_id = query.get("upload-id-marker", "")

    def key_leaf(name: str, key: bytes) -> xml.Markup:
        return xml.leaf(name, xml.name_of(key, encoding=encoding))

    items: list[xml.Markup] = []
    last, is_truncated, is_past, common = (after, after_id), False, not after_id, b""
    for upload in uploads_of(call.context.served).listed(call.bucket):
        key = upload.key
        if not key.startswith(prefix) or key < after:
            continue
        if key == after and not is_past:
            is_past = upload.id == after_id
            continue
        at = key.find(delimiter, len(prefix)) if delimiter else -1
        group = key[: at + len(delimiter)] if at >= 0 else b""
        if (group and group in {common, after}) or (not after_id and key == after):
            continue
        if len(items) == most:
            is_truncated = bool(most)
            break
        common = group
        if group:
            items.append(xml.branch("CommonPrefixes", [key_leaf("Prefix", group)]))
            last = group, ""
            continue
        described = [
            key_leaf("Key", key),
            xml.leaf("UploadId", upload.id),
            OWNER,
            xml.leaf("StorageClass", "STANDARD"),
            xml.leaf("Initiated", iso_date(upload.started_at)),
        ]
        items.append(xml.branch("Upload", described))
        last = key, upload.id
    children = [
        xml.leaf("Bucket", call.bucket),
        key_leaf("KeyMarker", after),
        xml.leaf("UploadIdMarker", after_id),
        key_leaf("Prefix", prefix),
        *([key_leaf("Delimiter", delimiter)] if delimiter else []),
        *([xml.leaf("EncodingType", encoding)] if encoding else []),
        xml.leaf("MaxUploads", most),
        xml.leaf("IsTruncated", is_truncated),
        *(
            [key_leaf("NextKeyMarker", last[0]), xml.leaf("NextUploadIdMarker", last[1])]
            if is_truncated
            else []
        ),
        *items,
    ]
    return xml_answer(xml.document("ListMultipartUploadsResult", children))

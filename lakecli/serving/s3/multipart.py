"""Uploads in parts.

The state of uploads is in memory, so an unfinished upload ends with the process. Its parts become
garbage, like the parts of any upload that is never completed. A part that is copied from another
object is only recorded. If the parts together are a copy of one whole object, as when a program
copies a large object in parts, only the object's entry is copied, not its data.
"""

from itertools import count
from secrets import token_hex
from threading import Lock
from typing import Final
from xml.etree.ElementTree import Element

from starlette.responses import Response

from lakecli.base.temporary_files import finalize_here
from lakecli.committed.tree_store import LruCache
from lakecli.serving.reading import PIECE
from lakecli.serving.s3 import checksums, conditions, objects, xml
from lakecli.serving.s3.call import Call, xml_response
from lakecli.serving.s3.errors import S3Error
from lakecli.serving.s3.listing import ListingPage, bytes_of, most_of, number_of
from lakecli.serving.s3.parts import Parts, Upload, UploadPart, new_upload, no_such_upload

SMALLEST: Final = 5 << 20
"""The minimum size of a part in bytes; the last part may be smaller."""

MOST_UPLOADS: Final = 10_000
"""The maximum number of unfinished uploads; a job may complete all its uploads only at its end."""

MOST_DONE: Final = 10_000
"""The maximum number of completed uploads to remember, for clients that retry the completion."""


_serials: Final = count()


class Uploads:
    """The unfinished uploads of an endpoint. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()  # of the uploads below
        self._by_id: dict[str, Upload] = {}
        self._done: LruCache[tuple[str, str, bytes], str] = LruCache(MOST_DONE)
        finalize_here(self, _end_all, self._by_id)

    def begin(self, upload: Upload) -> None:
        """Add an upload; raise `S3Error` SlowDown if there are `MOST_UPLOADS` already."""
        with self._lock:
            if len(self._by_id) >= MOST_UPLOADS:
                raise S3Error("SlowDown", f"there are {MOST_UPLOADS:,} unfinished uploads")
            self._by_id[upload.id] = upload

    def of(self, call: Call) -> Upload:
        """Return the upload that a request names; raise `S3Error` NoSuchUpload if there is none."""
        found = self._by_id.get(call.query["uploadId"])
        if found is None or (found.bucket, found.key) != (call.bucket, call.key):
            raise no_such_upload()
        return found

    def result_of(self, call: Call) -> str | None:
        """Return the object's ETag if the request's upload is already completed, or ``None``."""
        return self._done.get((call.query["uploadId"], call.bucket, call.key))

    def finish(self, upload: Upload, etag: str = "") -> None:
        """Remove an upload; if it was completed, remember the ETag of its object."""
        if etag:
            self._done.put((upload.id, upload.bucket, upload.key), etag, 1)
        with self._lock:
            self._by_id.pop(upload.id, None)
        upload.end()

    def listed(self, bucket: str) -> list[Upload]:
        """Return the unfinished uploads to a bucket, ordered by key, then oldest first."""
        with self._lock:
            found = [each for each in self._by_id.values() if each.bucket == bucket]
        return sorted(found, key=lambda each: (each.key, each.id))


def _end_all(by_id: dict[str, Upload]) -> None:
    for upload in list(by_id.values()):
        upload.end()


def _upload_of(call: Call) -> Upload:
    return call.context.own(Uploads).of(call)


def _number_of(call: Call) -> int:
    number = number_of(call.query["partNumber"], "partNumber")
    if not 1 <= number <= xml.MOST_PARTS:
        raise S3Error("InvalidArgument", f"a part has a number from 1 to {xml.MOST_PARTS:,}")
    return number


def _new_tag() -> str:
    return f"{token_hex(16)}-1"  # the dash keeps clients from comparing it with an MD5


def _named(call: Call) -> dict[str, str]:
    return {"Bucket": call.bucket, "Key": call.key.decode("utf-8", "replace")}


def create_upload(call: Call) -> Response:
    """Answer CreateMultipartUpload with the ID of a new upload."""
    call.whole(PIECE)  # verified, but its contents have no meaning
    path = objects.check_key(call)
    if not path:
        raise S3Error("InvalidArgument", "an object needs a path behind the branch")
    call.writer()
    upload = new_upload(call, path)
    call.context.own(Uploads).begin(upload)
    return xml_response("InitiateMultipartUploadResult", **_named(call), UploadId=upload.id)


def upload_part(call: Call) -> Response:
    """Answer UploadPart: store the body as a part, in place of an earlier part of its number."""
    number, upload = _number_of(call), _upload_of(call)
    now = call.context.clock()
    part = UploadPart(number, call.body_size, _new_tag(), now, next(_serials))
    upload.store(part, call.contents())
    upload.record(part._replace(checksums=call.sums))
    return objects.received_response(call, part.tag)


def copy_part(call: Call) -> Response:
    """Answer UploadPartCopy: record the source and range of a part, without reading it yet."""
    number, upload, source = _number_of(call), _upload_of(call), objects.source_of(call)
    start, end = 0, source.entry.size
    named = call.headers.get("x-amz-copy-source-range")
    if named is not None:
        start, end = conditions.copied_span_of(named, end)
    now = call.context.clock()
    part = UploadPart(
        number, end - start, _new_tag(), now, next(_serials), source=source, start=start
    )
    upload.record(part)
    return objects.copy_response("CopyPartResult", now, part.tag)


def complete_upload(call: Call) -> Response:
    """Answer CompleteMultipartUpload; a repeated request gets the same response."""
    document = call.whole(xml.LARGEST, of_upload=True)
    named = xml.parse(document, "CompleteMultipartUpload")
    uploads = call.context.own(Uploads)
    etag = uploads.result_of(call)
    if etag is None:
        upload = uploads.of(call)
        with upload.completing:
            etag = uploads.result_of(call) or _completed(call, upload, named)
            uploads.finish(upload, etag)
    url = f"{call.context.options.url}{call.request.url.path}"
    return xml_response(
        "CompleteMultipartUploadResult", Location=url, **_named(call), ETag=f'"{etag}"'
    )


def _completed(call: Call, upload: Upload, named: Element) -> str:
    """Join the named parts to an object, stage it, and return its ETag."""
    action, properties = "CompleteMultipartUpload", upload.properties
    call.writer()
    parts = _chosen(call, upload, named)
    expected = checksums.sent(call.headers)
    objects.check_early(call)
    source = None if expected else _whole_source(parts)  # a checksum needs the data
    if source is not None:
        return objects.etag_of(objects.stage_copy(call, source, properties, action))
    entry = properties.entry(*upload.join(parts, expected), call.context.clock())
    return objects.etag_of(objects.stage(call, entry, action))


def _chosen(call: Call, upload: Upload, document: Element) -> list[UploadPart]:
    """Return the parts of an upload that a client named in its request.

    Raises:
        S3Error: a part does not exist, is too small, or has another checksum; or they are not in
            ascending order.
    """
    known = {str(number): part for number, part in list(upload.parts.items())}
    parts: list[UploadPart] = []
    for each in document.iterfind("Part"):
        part = known.get(xml.text_of(each, "PartNumber"))
        if part is None or part.tag != xml.text_of(each, "ETag").strip('"'):
            raise S3Error("InvalidPart", "the upload has no part with this number and ETag")
        for name, text in part.checksums.items():
            if xml.text_of(each, f"Checksum{name.upper()}") not in {"", text}:
                raise S3Error("InvalidPart", f"part {part.number} has another checksum")
        if parts and parts[-1].number >= part.number:
            raise S3Error("InvalidPartOrder", "The parts are not in ascending order.")
        parts.append(part)
    if not parts:
        raise xml.malformed("it names no parts")
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
    return parts


def _whole_source(parts: Parts) -> objects.CopySource | None:
    """Return the object of which the parts together are a complete copy, or ``None``."""
    first, at = parts[0].source, 0
    for part in parts:
        if first is None or part.source is None or part.start != at:
            return None
        if (part.source.bucket, part.source.entry) != (first.bucket, first.entry):
            return None
        at += part.size
    return first if first is not None and at == first.entry.size else None


def abort_upload(call: Call) -> Response:
    """Answer AbortMultipartUpload: drop the upload and its parts."""
    upload = _upload_of(call)
    with upload.completing:
        call.context.own(Uploads).finish(upload)
    return Response(status_code=204)


def list_parts(call: Call) -> Response:
    """Answer ListParts with one page of parts, by ascending number."""
    upload = _upload_of(call)
    most = most_of(call.query.get("max-parts"), "max-parts")
    after = number_of(call.query.get("part-number-marker") or "0", "part-number-marker")
    found = [part for number, part in sorted(upload.parts.items()) if number > after]
    listed = found[:most]
    parts = [
        xml.elements(
            PartNumber=part.number,
            LastModified=objects.iso_date(part.modified_at),
            ETag=f'"{part.tag}"',
            Size=part.size,
            **{f"Checksum{name.upper()}": text for name, text in part.checksums.items()},
        )
        for part in listed
    ]
    return xml_response(
        "ListPartsResult",
        **_named(call),
        UploadId=upload.id,
        Owner=xml.OWNER,
        StorageClass="STANDARD",
        PartNumberMarker=after,
        NextPartNumberMarker=listed[-1].number if listed else after,
        MaxParts=most,
        IsTruncated=0 < most < len(found),
        Part=parts,
    )


def list_uploads(call: Call) -> Response:
    """Answer ListMultipartUploads with one page of uploads; a delimiter has no effect."""
    call.check_bucket()
    page = ListingPage.of(call, "max-uploads")._replace(delimiter=b"")
    after, after_id = bytes_of(call, "key-marker"), call.query.get("upload-id-marker", "")
    marker = after, after_id or "\uffff"
    found = [
        each
        for each in call.context.own(Uploads).listed(call.bucket)
        if (each.key, each.id) > marker and each.key.startswith(page.prefix)
    ]
    shown = found[: page.most]
    last = shown[-1] if 0 < page.most < len(found) else None
    uploads = [
        xml.elements(
            Key=page.name(each.key),
            UploadId=each.id,
            Owner=xml.OWNER,
            StorageClass="STANDARD",
            Initiated=objects.iso_date(each.started_at),
        )
        for each in shown
    ]
    return xml_response(
        "ListMultipartUploadsResult",
        Bucket=call.bucket,
        KeyMarker=page.name(after),
        UploadIdMarker=after_id,
        **page.echoed(),
        MaxUploads=page.most,
        IsTruncated=last is not None,
        NextKeyMarker=page.name(last.key) if last else None,
        NextUploadIdMarker=last.id if last else None,
        Upload=uploads,
    )

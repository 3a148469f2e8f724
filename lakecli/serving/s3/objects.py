"""Operations on objects: read, write, copy and delete.

The ETag of an object is the checksum in its entry followed by ``-1``, so that no client takes it
for an MD5. User metadata is stored in the entry's metadata under the same keys. The headers of
`KEPT` are stored there, too, under their names in lower case. A key of user metadata with the name
of such a header is stored with the prefix ``X-Amz-Meta-``, which lakeFS's gateway adds to all keys.
"""

import re
from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from starlette.responses import Response

from lakecli.base.content_types import DEFAULT, content_type_of
from lakecli.base.identity import DIGEST_SIZE
from lakecli.base.model import CLIENT_METADATA_PREFIX, CONTENT_ENCODING, MAX_PATH_SIZE, Entry
from lakecli.committed.values import decode_entry, encode_entry, identify
from lakecli.errors import LakeError, NotFound
from lakecli.repository.contract import Repository
from lakecli.repository.handoff.links import presign_entry
from lakecli.repository.reading.view import open_view
from lakecli.serving.reading import PIECE, http_date
from lakecli.serving.responses import object_response
from lakecli.serving.s3 import checksums, conditions, xml
from lakecli.serving.s3.bodies import stored_encoding
from lakecli.serving.s3.call import Call, split_key, xml_response
from lakecli.serving.s3.errors import S3Error, of_lake_error
from lakecli.serving.writes import Deposited, PathChange
from lakecli.staging.area import TOMBSTONE
from lakecli.stores.contract import plain_tag

KEPT: Final = (
    CONTENT_ENCODING,
    "cache-control",
    "content-disposition",
    "content-language",
    "expires",
)
"""Headers that are stored with an object, besides the content type."""

MOST_METADATA: Final = 2 << 10
"""The maximum size of an object's user metadata, in bytes: S3's limit."""

REDIRECTED_FOR: Final = timedelta(hours=1)
"""How long the presigned URL of a redirect is valid."""

_FOLLOWS: Final = re.compile(r"(curl|rclone|duckdb|object_store)\b", re.IGNORECASE)
"""User agents that follow a redirect of GET to another host without sending their signature."""

_USER: Final = "x-amz-meta-"
_TAG: Final = re.compile(r"[!#-%'-;=?-~]{1,256}", re.ASCII)
"""An ETag that is valid both in headers and in XML."""

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}", re.ASCII)
_PRINTABLE: Final = re.compile(r"[ -~]+", re.ASCII)
_OVERRIDES: Final = ("content-type", *KEPT)
"""Response headers that a client can replace by a query parameter ``response-…``."""


class Properties(NamedTuple):
    """The properties that a client stores with an object."""

    content_type: str
    metadata: Mapping[str, str]

    def entry(self, address: str, digest: str, size: int, at: datetime) -> Entry:
        """Return the entry of an object in the namespace with these properties."""
        when = at.replace(microsecond=0)
        return Entry(address, size, digest, when, self.content_type, self.metadata)


def etag_of(entry: Entry) -> str:
    """Return the ETag of an object, without quotes."""
    tag = entry.checksum
    if len(tag) == 2 * DIGEST_SIZE and tag.isalnum():
        return f"{tag}-1"  # the common case; the code below takes ten times as long
    tag = plain_tag(tag)
    if not _TAG.fullmatch(tag):
        tag = identify(entry).hex()  # an object imported from a store without ETags
    return tag if "-" in tag else f"{tag}-1"


def find_entry(call: Call, bucket: str, key: bytes) -> tuple[Repository, Entry]:
    """Return the repository and the entry of an object; needs a thread."""
    ref, path = split_key(key)
    with call.view(ref, bucket) as view:
        value = view.find(path) if path else None
        if value is None:
            raise S3Error("NoSuchKey", "there is no object with this key")
        return view.repository, decode_entry(value)


@lru_cache(1 << 12)
def iso_date(moment: datetime) -> str:
    """Return a time in the format of S3's XML documents."""
    return f"{moment:%Y-%m-%dT%H:%M:%S}.000Z"


def get_object(call: Call) -> Response:
    """Answer GetObject or HeadObject; a large object is sent while it is read."""
    repository, entry = find_entry(call, call.bucket, call.key)
    headers, span = _selected(call, entry)
    start, end = span or (0, entry.size)
    is_large = end - start > PIECE and call.request.method != "HEAD"
    if is_large and (url := _redirection(call, repository, entry)):
        return Response(None, 307, {"location": url})
    try:
        return object_response(call.request, call.context, repository, entry, headers, span=span)
    except NotFound as error:
        raise S3Error("InternalError", error.message) from error


def _selected(call: Call, entry: Entry) -> tuple[dict[str, str], tuple[int, int] | None]:
    """Return the headers of the response, and the requested range or ``None``."""
    etag = etag_of(entry)
    conditions.check_read(call.headers, etag, entry.modified_at)
    span = conditions.span_of(call.headers, entry.size)
    part = call.query.get("partNumber")
    if part not in {None, "1"}:
        raise S3Error("InvalidRange", "the object has one part only")
    if part and span is None and entry.size:
        span = 0, entry.size
    headers = described(entry, etag)
    for name in _OVERRIDES if call.query else ():
        text = call.query.get(f"response-{name}")
        if text is not None:
            if text and not _PRINTABLE.fullmatch(text):
                raise S3Error("InvalidArgument", f"response-{name} is not text for a header")
            headers[name] = text
    return headers, span


def _redirection(call: Call, repository: Repository, entry: Entry) -> str:
    """Return a presigned URL to redirect the client to; ``""`` if it must get the object here."""
    follows = call.context.options.redirect and _FOLLOWS.match(call.headers.get("user-agent", ""))
    if not follows or any(f"response-{name}" in call.query for name in _OVERRIDES):
        return ""
    place, now = (repository, entry, call.place[1]), call.context.clock()
    try:
        return presign_entry(*place, expires_in=REDIRECTED_FOR, now=now).url
    except LakeError:
        return ""  # such as a directory, which has no URLs


def described(entry: Entry, etag: str) -> dict[str, str]:
    """Return the headers that describe an object, without its size."""
    content_type = entry.content_type
    headers = {
        "etag": f'"{etag}"',
        "last-modified": http_date(entry.modified_at),
        "accept-ranges": "bytes",
        "content-type": content_type if _PRINTABLE.fullmatch(content_type) else DEFAULT,
    }
    for key, text in entry.metadata.items():
        name = key.lower()
        if name in KEPT:
            if _PRINTABLE.fullmatch(text):
                headers[name] = text
        elif not key.startswith(CLIENT_METADATA_PREFIX):
            name = name.removeprefix(_USER)
            if _NAME.fullmatch(name):
                headers[_USER + name] = _header_text(text)
    return headers


def _header_text(text: str) -> str:
    """Return a value of user metadata for a header, RFC 2047-encoded if it is not ASCII."""
    if not text or _PRINTABLE.fullmatch(text):
        return text
    return f"=?UTF-8?B?{b64encode(text.encode('utf-8', 'replace')).decode()}?="


def _metadata_text(text: str) -> str:
    """Return a value of user metadata from a header, which may be UTF-8."""
    try:
        return text.encode("latin-1").decode()
    except UnicodeDecodeError:
        return text


def properties_of(headers: Mapping[str, str], path: bytes) -> Properties:
    """Return the properties of an object from the headers of a request.

    Args:
        path: the path of the object, which determines the default content type.

    Raises:
        S3Error: MetadataTooLarge.
    """
    metadata: dict[str, str] = {}
    size = 0
    for name, sent in headers.items():
        if name.startswith(_USER):
            key = name[len(_USER) :]
            text = _metadata_text(sent)
            size += len(key) + len(text.encode())
            metadata[f"X-Amz-Meta-{key}" if key in KEPT else key] = text
        elif name in KEPT:
            text = stored_encoding(sent) if name == CONTENT_ENCODING else sent
            if text:
                metadata[name] = text
    if size > MOST_METADATA:
        raise S3Error("MetadataTooLarge", f"user metadata has at most {MOST_METADATA:,} bytes")
    return Properties(headers.get("content-type") or content_type_of(path), metadata)


def check_key(call: Call) -> bytes:
    """Return the path that a request writes to; raise `S3Error` if the key is invalid."""
    path = call.place[1]
    if len(path) > MAX_PATH_SIZE:
        raise S3Error("KeyTooLongError", f"a path has at most {MAX_PATH_SIZE:,} bytes")
    if b"/" not in call.key:
        raise S3Error("InvalidArgument", "a key begins with a branch and a slash: main/PATH")
    return path


def check_conditions(headers: Mapping[str, str], present: bytes | None) -> None:
    """Raise `S3Error` if a condition of a write does not hold.

    Args:
        present: the present encoded entry of the path, or ``None``.
    """
    entry = None if present is None else decode_entry(present)
    conditions.check_write(headers, entry and etag_of(entry), entry and entry.modified_at)


def check_early(call: Call) -> None:
    """Check the conditions before the body is received; `stage` checks them again."""
    if "if-match" in call.headers or "if-none-match" in call.headers:
        ref, path = call.place
        # Unlike `call.view`, this includes staged changes whatever the endpoint shows.
        with open_view(call.context.served.repository(call.bucket), ref) as view:
            check_conditions(call.headers, view.find(path))


def _change_to(
    value: bytes, headers: Mapping[str, str], path: bytes, deposited: Deposited | None = None
) -> PathChange:
    """Return a change to an encoded entry or `TOMBSTONE` if the conditions in headers hold."""

    def decide(present: bytes | None) -> bytes:
        check_conditions(headers, present)
        return value

    return PathChange(path, decide, deposited)


def stage(call: Call, entry: Entry, action: str, deposited: Deposited | None = None) -> Entry:
    """Stage an entry if the conditions of the request hold, and return it; needs a thread."""
    value = encode_entry(entry)
    call.apply(_change_to(value, call.headers, call.place[1], deposited), action)
    return entry


def put_object(call: Call) -> Response:
    """Answer PutObject: store the body, and stage its entry."""
    path = check_key(call)
    properties = properties_of(call.headers, path)
    writer = call.writer()
    if not path:  # a directory marker for the branch itself: nothing to store
        if call.whole(PIECE):
            raise S3Error("InvalidArgument", "an object needs a path behind the branch")
        return received_response(call, "d41d8cd98f00b204e9800998ecf8427e-1")
    if call.body_size > PIECE:
        check_early(call)
    deposited = writer.deposit(call.contents())
    entry = properties.entry(*deposited[:3], call.context.clock())
    return received_response(call, etag_of(stage(call, entry, "PutObject", deposited)))


def received_response(call: Call, etag: str) -> Response:
    """Return the response to an upload: the ETag and the verified checksums of the body."""
    headers = {checksums.PREFIX + name: text for name, text in call.sums.items()}
    return Response(headers={"etag": f'"{etag}"', **headers})


class CopySource(NamedTuple):
    """The object that a request copies.

    Attributes:
        bucket: the name of the repository.
    """

    repository: Repository
    entry: Entry
    bucket: str
    key: bytes


def source_of(call: Call) -> CopySource:
    """Return the object that ``x-amz-copy-source`` names; needs a thread.

    Raises:
        S3Error: there is no such object, or a condition on it does not hold.
    """
    named, _, query = call.headers["x-amz-copy-source"].partition("?")
    if query:
        raise S3Error("InvalidArgument", "objects have no version IDs")
    bucket, slash, key = unquote_to_bytes(named).removeprefix(b"/").partition(b"/")
    if not slash or not bucket:
        raise S3Error("InvalidArgument", "the source of a copy is /BUCKET/REF/PATH")
    name = bucket.decode("utf-8", "surrogateescape")
    source = CopySource(*find_entry(call, name, key), name, key)
    conditions.check_copy(call.headers, etag_of(source.entry), source.entry.modified_at)
    return source


def copy_object(call: Call) -> Response:
    """Answer CopyObject; within a repository, only the entry is copied."""
    path = check_key(call)
    directive = call.headers.get("x-amz-metadata-directive", "COPY").upper()
    if directive not in {"COPY", "REPLACE"}:
        raise S3Error("InvalidArgument", f"no such directive about metadata: {directive}")
    properties = properties_of(call.headers, path) if directive == "REPLACE" else None
    call.writer()
    source = source_of(call)
    is_same = (source.bucket, source.key) == (call.bucket, call.key)
    if is_same and properties is None:
        raise S3Error(
            "InvalidRequest", "an object is copied onto itself only to change its metadata: REPLACE"
        )
    entry = stage_copy(call, source, properties, "CopyObject")
    return copy_response("CopyObjectResult", entry.modified_at, etag_of(entry))


def copy_response(root: str, modified_at: datetime, etag: str) -> Response:
    """Return the response to a copy, an XML document named `root`."""
    return xml_response(root, LastModified=iso_date(modified_at), ETag=f'"{etag}"')


def stage_copy(call: Call, source: CopySource, properties: Properties | None, action: str) -> Entry:
    """Stage a copy of an object at the path of the request, and return its entry; needs a thread.

    Args:
        properties: the properties of the copy; ``None`` keeps those of the source.
        action: the S3 operation, for the operation log.
    """
    entry = source.entry if source.bucket == call.bucket else _brought(call, source)
    entry = entry._replace(modified_at=call.context.clock().replace(microsecond=0))
    if properties is not None:
        entry = entry._replace(**properties._asdict())
    return stage(call, entry, action)


def _brought(call: Call, source: CopySource) -> Entry:
    """Copy the data of an object into the repository of the request, and return its entry there."""
    from lakecli.base.progress import NO_PROGRESS
    from lakecli.repository.cp_between_repositories import Across

    target = call.context.served.repository(call.bucket)
    across = Across(source.repository, target, 1, NO_PROGRESS)
    own, ingested = across.bring_one(encode_entry(source.entry))
    across.flush([] if ingested is None else [ingested])
    return decode_entry(own)


def delete_object(call: Call) -> Response:
    """Answer DeleteObject; a missing object counts as deleted."""
    path = call.place[1]
    call.writer()
    if path:
        call.apply(_change_to(TOMBSTONE, call.headers, path), "DeleteObject")
    return Response(status_code=204)


def delete_objects(call: Call) -> Response:
    """Answer DeleteObjects, with an error for each object that was not deleted."""
    objects, is_quiet = xml.read_deletion(call.whole(xml.LARGEST))
    errors = _delete_all(call, objects)
    deleted, failed = [], []
    for each in objects:
        if each in errors:
            error = of_lake_error(errors[each])
            failed.append(xml.elements(Key=each.key, Code=error.code, Message=error.message))
        elif not is_quiet:
            deleted.append(xml.elements(Key=each.key))
    return xml_response("DeleteResult", Deleted=deleted, Error=failed)


def _delete_all(call: Call, objects: list[xml.ToDelete]) -> dict[xml.ToDelete, LakeError]:
    """Delete objects; return the errors of those that were not deleted."""
    by_ref: dict[str, dict[xml.ToDelete, PathChange]] = {}
    for each in objects:
        ref, path = split_key(each.key.encode("utf-8", "surrogateescape"))
        if path:
            headers = {"if-match": each.etag} if each.etag else {}
            by_ref.setdefault(ref, {})[each] = _change_to(TOMBSTONE, headers, path)
    errors: dict[xml.ToDelete, LakeError] = {}
    for ref, removals in by_ref.items():
        try:
            changes = list(removals.values())
            outcomes = call.writer(ref).apply(changes, client=call.client, action="DeleteObjects")
        except LakeError as error:
            errors |= dict.fromkeys(removals, error)
            continue
        pairs = zip(removals, outcomes, strict=True)
        errors |= {each: outcome for each, outcome in pairs if isinstance(outcome, LakeError)}
    return errors

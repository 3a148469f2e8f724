"""Objects: read, list, write, copy, delete; also stage objects that clients stored themselves."""

import os
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from email.message import Message
from email.parser import BytesHeaderParser
from functools import partial
from hashlib import sha256
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from lakecli.base.content_types import DEFAULT, content_type_of
from lakecli.base.ids import MalformedId
from lakecli.base.layout import INCOMING, incoming_key
from lakecli.base.model import CLIENT_METADATA_PREFIX, MAX_PATH_SIZE, Entry
from lakecli.base.validation import MAX_COUNT, Invalid, list_of, optional, text, whole
from lakecli.committed.scan import ListedObject, ListedPrefix
from lakecli.committed.values import decode_entry, encode_entry
from lakecli.errors import IntegrityError, LakeError
from lakecli.repository import cp
from lakecli.repository.contract import Repository
from lakecli.repository.handoff import incoming
from lakecli.repository.handoff.links import presign_entry
from lakecli.repository.reading.addresses import is_external
from lakecli.repository.reading.view import check_branch, open_view
from lakecli.repository.staged.stager import NewAttributes
from lakecli.serving.api import requests
from lakecli.serving.api.requests import ApiCall, ApiOperation, JsonFields, as_json
from lakecli.serving.reading import has_tag, http_date, part_of
from lakecli.serving.responses import object_response
from lakecli.serving.statuses import PreconditionFailed
from lakecli.serving.writes import Deposited, PathChange
from lakecli.staging.area import TOMBSTONE
from lakecli.stores.presigned_urls import PresignRequest
from lakecli.stores.uri import as_url, is_local

_PRESIGNED_FOR: Final = timedelta(minutes=15)
"""How long presigned URLs are valid; the same as in lakeFS."""

_META_HEADERS: Final = {"x-lakefs-meta-": "", "x-lakefs-internal-": CLIENT_METADATA_PREFIX}
"""Prefixes of headers with user metadata; for each, the prefix of the keys in the metadata."""

_TYPE: Final = re.compile(r"[!-~][ -~]{0,254}", re.ASCII)
_TAG: Final = re.compile(r"[!#-+\--~][ !#-+\--~]{0,254}", re.ASCII)
_HEADERS: Final = {
    "Accept-Ranges": "bytes",
    # An object may be a page: a browser that shows it must not run it with the user's session.
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def _place(repository: Repository) -> str:
    return f"{as_url(repository.record.storage_namespace)}/"


def _is_presigned(call: ApiCall) -> bool:
    """Return whether the client requests a presigned URL, and the namespace is in a bucket."""
    return call.flag("presign") and not is_local(call.repository.record.storage_namespace)


def _object_json(call: ApiCall, path: bytes, entry: Entry) -> dict[str, Any]:
    """Return lakeFS's ``ObjectStats``.

    The query may request a presigned URL as the physical address, and leave out user metadata.
    """
    place = "" if is_external(entry) else _place(call.repository)
    same = ("checksum", "content_type", "metadata")
    record: dict[str, Any] = {
        "path": requests.shown_text(path),
        "path_type": "object",
        "physical_address": place + entry.physical_address,
        **as_json(entry, *same, size_bytes="size", mtime="modified_at"),
    }
    if _is_presigned(call):
        signed = presign_entry(call.repository, entry, path, expires_in=_PRESIGNED_FOR)
        record["physical_address"] = signed.url
        record["physical_address_expiry"] = int(signed.expires_at.timestamp())
    if not call.flag("user_metadata", default=True):
        del record["metadata"]
    return record


# Reading -------------------------------------------------------------------------------------


def _entry(call: ApiCall) -> Entry:
    with call.context.served.view(call["repository"], call["ref"]) as view:
        return view.entry(call.path())


def get_object(call: ApiCall) -> Response:
    """Return the contents of an object, or of the requested range."""
    entry, repository = _entry(call), call.repository
    if _is_presigned(call):
        signed = presign_entry(repository, entry, call.path(), expires_in=_PRESIGNED_FOR)
        return RedirectResponse(signed.url, 302)
    tag = _etag(entry)
    etag = f'"{tag}"'
    headers = _HEADERS | {
        "ETag": etag,
        "Last-Modified": http_date(entry.modified_at),
        "Content-Type": entry.content_type if _TYPE.fullmatch(entry.content_type) else DEFAULT,
    }
    if has_tag(call.request.headers.get("if-none-match", ""), tag, is_weak=True):
        return Response(status_code=304, headers=headers)
    is_same = call.request.headers.get("if-range", etag) == etag
    part = part_of(call.request.headers.get("range", ""), entry.size) if is_same else None
    if part is not None and part[0] >= part[1]:
        unsatisfied = {"Content-Range": f"bytes */{entry.size}"}
        raise HTTPException(416, f"the object has {entry.size} bytes", unsatisfied)
    return object_response(call.request, call.context, repository, entry, headers, span=part)


def _etag(entry: Entry) -> str:
    """Return the checksum of an entry, or its SHA-256 if the checksum is not a valid ``ETag``."""
    checksum = entry.checksum.strip('"')
    return checksum if _TAG.fullmatch(checksum) else sha256(os.fsencode(checksum)).hexdigest()


def stat_object(call: ApiCall) -> Mapping[str, Any]:
    """Return the ``ObjectStats`` of an object."""
    return _object_json(call, call.path(), _entry(call))


def list_objects(call: ApiCall) -> Mapping[str, Any]:
    """List objects, or the common prefixes of their paths."""
    with call.context.served.view(call["repository"], call["ref"]) as view:
        return requests.page_of_paths(call, view.list_paths, partial(_listed_json, call))


def _listed_json(call: ApiCall, found: ListedObject | ListedPrefix) -> Mapping[str, Any]:
    if isinstance(found, ListedObject):
        return _object_json(call, found.path, decode_entry(found.value))
    empty = {"path_type": "common_prefix", "physical_address": "", "checksum": "", "mtime": 0}
    return {"path": requests.shown_text(found.path), **empty}


# Writing -------------------------------------------------------------------------------------


def _stage(call: ApiCall, path: bytes, entry: Entry, *deposited: Deposited) -> Mapping[str, Any]:
    """Stage an entry if the conditions in the headers are met; return its ``ObjectStats``.

    Args:
        deposited: the stored data that the entry refers to.

    Raises:
        PreconditionFailed: a condition is not met.
    """
    headers, value = call.request.headers, encode_entry(entry)
    none_match, match = headers.get("if-none-match", ""), headers.get("if-match")

    def decide(present: bytes | None) -> bytes:
        etag = None if present is None else _etag(decode_entry(present))
        if has_tag(none_match, etag, is_weak=True):
            raise PreconditionFailed("the path already exists")
        if match and not has_tag(match, etag, is_weak=True):
            raise PreconditionFailed("the object at the path is another one")
        return value

    change = PathChange(path, decide, *deposited)
    call.writer.apply_one(change, client=call.client, action=call.action)
    return _object_json(call, path, entry)


def upload_object(call: ApiCall) -> Mapping[str, Any]:
    """Store the object in the body, and stage it; return its ``ObjectStats``."""
    path, writer = call.path(), call.writer
    assert not isinstance(call.body, bytes)
    sent_type, pieces = open_upload(call.request.headers.get("content-type", ""), call.body)
    deposited = writer.deposit(pieces)
    own = {
        lead + header.removeprefix(prefix): text
        for prefix, lead in _META_HEADERS.items()
        for header, text in call.request.headers.items()
        if header.startswith(prefix)
    }
    at = call.repository.lake.runtime.now()
    content_type = sent_type or content_type_of(path)
    entry = Entry(deposited.address, deposited.size, deposited.digest, at, content_type, own)
    return _stage(call, path, entry, deposited)


def delete_objects(call: ApiCall) -> Mapping[str, Any]:
    """Delete one or many objects; return an error for each object that could not be deleted."""
    paths = map(os.fsencode, call.fields["paths"]) if call.fields else [call.path()]
    changes = [PathChange(each, lambda _: TOMBSTONE) for each in paths]
    outcomes = call.writer.apply(changes, client=call.client, action=call.action)
    failed = []
    for change, outcome in zip(changes, outcomes, strict=True):
        if isinstance(outcome, LakeError):
            error, path = requests.of_lake_error(outcome), os.fsdecode(change.path[:MAX_PATH_SIZE])
            failed.append({"status_code": error.status_code, "message": error.detail, "path": path})
    return {"errors": failed}


def copy_object(call: ApiCall) -> Mapping[str, Any]:
    """Copy an object: stage an entry for its data at another path; no data is copied."""
    path, branch, repository = call.path("dest_path"), call["branch"], call.repository
    source_ref, source = call.fields["src_ref"] or branch, os.fsencode(call.fields["src_path"])
    if (source_ref, source) == (branch, path):
        with open_view(repository, branch) as view:
            return _object_json(call, path, view.entry(path))
    entry = cp.cp(repository, source_ref=source_ref, source=source, branch=branch, path=path)
    return _object_json(call, path, entry)


def update_metadata(call: ApiCall) -> None:
    """Replace the user metadata of an object."""
    attributes = NewAttributes(metadata=call.fields["set"])
    cp.update_metadata(call.repository, call["branch"], [call.path()], attributes)


FIELD: Final = "content"
"""The field of a form that contains the object."""

_MOST_HEADERS: Final = 16 << 10
"""The maximum size of the headers of a part of a form, in bytes."""

_BOUNDARY: Final = re.compile(r"[ -~]{1,200}", re.ASCII)


def open_upload(content_type: str, pieces: Iterator[bytes]) -> tuple[str, Iterator[bytes]]:
    """Return the content type and the contents of an object in the body of a request.

    The content type is ``""`` if the client sent none. A form (``multipart/form-data``) is read
    as a stream, with little memory; if it ends early, the iterator raises `Invalid`.

    Args:
        content_type: the header ``Content-Type``.
        pieces: the body.

    Raises:
        Invalid: a form without a boundary, or without the field `FIELD`.
    """
    header = Message()
    header["content-type"] = content_type or "application/octet-stream"
    if header.get_content_type() != "multipart/form-data":
        return content_type, pieces
    boundary = header.get_param("boundary")
    if not isinstance(boundary, str) or not _BOUNDARY.fullmatch(boundary):
        raise Invalid("a form without a boundary")
    form = _Form(pieces, boundary.encode())
    while (part := form.next_part()).get_param("name", header="content-disposition") != FIELD:
        pass
    return str(part.get("content-type", "")), form.last_contents()


class _Form:
    """A ``multipart/form-data`` body, read as a stream."""

    def __init__(self, pieces: Iterator[bytes], boundary: bytes) -> None:
        self._pieces = pieces
        self._mark = b"\r\n--" + boundary
        self._buffer = b"\r\n"  # the first boundary may be the very first line

    def next_part(self) -> Message:
        """Return the headers of the next part; the unread rest of the previous one is skipped."""
        for _ in self._until(self._mark):
            pass
        head = b""
        for piece in self._until(b"\r\n\r\n"):  # the first line break may end the boundary's line
            head += piece
            if len(head) > _MOST_HEADERS:
                raise Invalid("a form with a part whose head is too long")
        return BytesHeaderParser().parsebytes(head.partition(b"\r\n")[2])

    def last_contents(self) -> Iterator[bytes]:
        """Yield the contents of the current part; then skip the other parts of the body.

        The body is read to its end so that the connection can be used again.
        """
        yield from self._until(self._mark)
        for _ in self._pieces:
            pass

    def _until(self, mark: bytes) -> Iterator[bytes]:
        """Yield the bytes before the next mark, and skip the mark.

        Raises:
            Invalid: the body ends before the mark.
        """
        while (at := self._buffer.find(mark)) < 0:
            before = max(len(self._buffer) - len(mark) + 1, 0)
            yield self._buffer[:before]
            piece = next(self._pieces, None)
            if piece is None:
                raise Invalid("a form that ends early")
            self._buffer = self._buffer[before:] + piece
        found, self._buffer = self._buffer[:at], self._buffer[at + len(mark) :]
        yield found


# Objects that clients stored themselves ------------------------------------------------------

_STAGED: Final = JsonFields(
    physical_address=requests.name_text,
    checksum=requests.name_text,
    size_bytes=whole(0, MAX_COUNT),
    mtime=optional(requests.seconds(0), None),
    metadata=optional(requests.metadata, {}),
    content_type=requests.no_text,
)


def stage_object(call: ApiCall) -> Mapping[str, Any]:
    """Stage an object that is outside the repository's namespace."""
    path, given = call.path(), call.fields
    entry = incoming.record_object(
        call.repository, call["branch"], path, location=given["physical_address"],
        size=given["size_bytes"], checksum=given["checksum"], modified_at=given["mtime"],
        content_type=given["content_type"], metadata=given["metadata"],
    )  # fmt: skip
    return _object_json(call, path, entry)


def get_physical_address(call: ApiCall) -> Mapping[str, Any]:
    """Return an address for a new object; with ``presign``, also a URL to upload the object."""
    call.path()
    repository = call.repository
    check_branch(repository, call["branch"])
    key = incoming_key(repository.lake.runtime.new_id().hex())
    location: dict[str, Any] = {"physical_address": _place(repository) + key}
    if _is_presigned(call):
        request, now = PresignRequest("PUT", _PRESIGNED_FOR), repository.lake.runtime.clock()
        signed = repository.store.presign(key, request, now=now)
        location["presigned_url"] = signed.url
        location["presigned_url_expiry"] = int(signed.expires_at.timestamp())
    return location


_LINK: Final = JsonFields(
    staging=JsonFields(physical_address=requests.free_text),
    checksum=requests.free_text,
    size_bytes=whole(0, MAX_COUNT),
    user_metadata=optional(requests.metadata, {}),
    content_type=requests.no_text,
)


def link_physical_address(call: ApiCall) -> Mapping[str, Any]:
    """Stage an object that was uploaded to an address from `get_physical_address`.

    The object is read once and copied to its content address. Afterwards, nobody can change the
    staged object by the URL of the upload.
    """
    wanted, path, repository = call.fields, call.path(), call.repository
    check_branch(repository, call["branch"])
    found = wanted["staging"]["physical_address"].removeprefix(_place(repository) + INCOMING)
    try:
        version = repository.store.head(incoming_key(found)).version
        attributes = NewAttributes(wanted["content_type"], wanted["user_metadata"])
        size = wanted["size_bytes"]
        entry = incoming.bring_in(repository, path, found, attributes, size=size)
    except MalformedId:
        raise Invalid("not a staging address of this repository") from None
    except IntegrityError as error:
        raise Invalid(error.message) from error
    staged = _stage(call, path, entry)
    incoming.clear(repository, found, version)
    return staged


_SET: Final = JsonFields(set=requests.metadata)
_COPY: Final = JsonFields(src_path=requests.path_text, src_ref=optional(requests.name_text, ""))
_PATHS: Final = JsonFields(paths=list_of(text(1 << 16, has_nul=True), requests.LARGEST_PAGE))

_OBJECTS: Final = "/branches/{branch}/objects"
_METADATA: Final = "/branches/{branch}/objects/stat/user_metadata"
_BACKING: Final = "/branches/{branch}/staging/backing"

OPERATIONS: Final = requests.on_repository(
    ApiOperation("getObject", "GET", "/refs/{ref}/objects", get_object),
    ApiOperation("headObject", "HEAD", "/refs/{ref}/objects", get_object),
    ApiOperation("statObject", "GET", "/refs/{ref}/objects/stat", stat_object),
    ApiOperation("listObjects", "GET", "/refs/{ref}/objects/ls", list_objects),
    ApiOperation("uploadObject", "POST", _OBJECTS, upload_object, 201, acts=False, is_raw=True),
    ApiOperation("deleteObject", "DELETE", _OBJECTS, delete_objects, 204, acts=False),
    ApiOperation(
        "deleteObjects", "POST", _OBJECTS + "/delete", delete_objects, body=_PATHS, acts=False
    ),
    ApiOperation("copyObject", "POST", _OBJECTS + "/copy", copy_object, 201, _COPY),
    ApiOperation("stageObject", "PUT", _OBJECTS, stage_object, 201, _STAGED),
    # lakeFS answers 204, although its document says 201; lakectl fails after another status.
    ApiOperation("updateObjectUserMetadata", "PUT", _METADATA, update_metadata, 204, _SET),
    ApiOperation("getPhysicalAddress", "GET", _BACKING, get_physical_address),
    ApiOperation("linkPhysicalAddress", "PUT", _BACKING, link_physical_address, 200, _LINK),
)

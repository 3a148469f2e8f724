"""Objects: read, list, write, copy, delete."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
from hashlib import sha256
from http import HTTPStatus
from itertools import chain
from typing import TYPE_CHECKING, Final

from starlette.responses import RedirectResponse, Response, StreamingResponse

from lakecli.base.content_types import content_type_of
from lakecli.base.model import MAX_PATH_SIZE, Entry
from lakecli.base.validation import (
    MAX_COUNT,
    Record,
    boolean,
    list_of,
    nullable,
    optional,
    text,
    whole,
)
from lakecli.committed.scan import ListedObject, ListedPrefix, list_prefix
from lakecli.committed.values import decode_entry, encode_entry
from lakecli.errors import IntegrityError, LakeError
from lakecli.repository import cp
from lakecli.repository.handoff.incoming import record_object
from lakecli.repository.handoff.links import presign_entry
from lakecli.repository.reading.contents import gone, read_object
from lakecli.repository.reading.recorded import locate
from lakecli.repository.reading.view import open_view
from lakecli.repository.staged.stager import NewAttributes
from lakecli.serving.api.bodies import open_upload
from lakecli.serving.api.records import (
    PRESIGNED_FOR,
    can_presign,
    object_json,
    parse_range,
    prefix_json,
)
from lakecli.serving.api.requests import (
    LARGEST_PAGE,
    ApiCall,
    ApiOperation,
    Json,
    PreconditionFailed,
    free_text,
    metadata,
    name_text,
    of_lake_error,
    offset_of,
    page,
    path_text,
)
from lakecli.serving.writes import PathChange
from lakecli.staging.area import TOMBSTONE
from lakecli.stores.contract import ObjectNotFound

if TYPE_CHECKING:
    from lakecli.repository.contract import Repository

_PIECE: Final = 4 << 20
_HEADER_TEXT: Final = re.compile(r"[!-~][ -~]{0,254}", re.ASCII)
_SMALL: Final = 1 << 20
"""The most bytes that are sent at once."""

_META: Final = "x-lakefs-meta-"
"""Headers of uploads that begin like this are user metadata."""

_HEADERS: Final = {
    "Accept-Ranges": "bytes",
    # An object may be a page: a browser that shows it must not run it with the user's session.
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
}

# Reading -------------------------------------------------------------------------------------


def _entry(call: ApiCall) -> Entry:
    with call.context.served.view(call.name, call.parameters["ref"]) as view:
        return view.entry(call.path())


def get_object(call: ApiCall) -> Response:
    """Return the bytes of an object, or those of a range."""
    entry, repository = _entry(call), call.repository()
    if call.flag("presign") and can_presign(repository):
        signed = presign_entry(repository, entry, call.path(), expires_in=PRESIGNED_FOR)
        return RedirectResponse(signed.url, HTTPStatus.FOUND)
    etag = f'"{_etag(entry)}"'
    is_plain = _HEADER_TEXT.fullmatch(entry.content_type)
    headers = _HEADERS | {
        "ETag": etag,
        "Last-Modified": format_datetime(entry.modified_at, usegmt=True),
        "Content-Type": entry.content_type if is_plain else "application/octet-stream",
    }
    if _names(call.headers.get("if-none-match", ""), entry):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    is_same = call.headers.get("if-range", etag) == etag
    wanted = parse_range(call.headers.get("range") if is_same else None, entry.size)
    start, end = wanted or (0, entry.size)
    status = HTTPStatus.OK
    if wanted is not None:
        status = HTTPStatus.PARTIAL_CONTENT
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{entry.size}"
    headers["Content-Length"] = str(end - start)
    if call.action == "headObject":
        return Response(status_code=status, headers=headers)
    if wanted is None:
        pieces = _whole(read_object(repository, entry))
    else:
        pieces = _read_range(repository, entry, start, end)
    if end - start <= _SMALL:
        return Response(b"".join(pieces), status, headers)
    first = next(pieces)  # what is missing is noticed before the answer begins
    return StreamingResponse(chain([first], pieces), status, headers)


def _whole(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the last piece only after all are verified, so that a damaged object is cut short."""
    held = next(pieces, b"")
    for piece in pieces:
        yield held
        held = piece
    yield held


def _read_range(repository: Repository, entry: Entry, start: int, end: int) -> Iterator[bytes]:
    store, key = locate(repository, entry)
    while start < end:
        try:
            piece = store.get(key, start=start, length=min(end - start, _PIECE))
        except ObjectNotFound as error:
            raise gone(repository.uri, store, key) from error
        if not piece:
            raise IntegrityError(f"the data object is too short: {store.uri}/{key}")
        start += len(piece)
        yield piece


def _etag(entry: Entry) -> str:
    """Return the checksum of an entry, which may be any text, in a form for a header."""
    checksum = entry.checksum.strip('"')
    if _HEADER_TEXT.fullmatch(checksum) and not {'"', ","} & set(checksum):
        return checksum
    return sha256(os.fsencode(checksum)).hexdigest()


def _names(header: str, entry: Entry) -> bool:
    """Return whether a header with ETags names an entry."""
    tags = (each.strip().removeprefix("W/").strip('"') for each in header.split(","))
    return any(each in {_etag(entry), "*"} for each in tags if each)


def stat_object(call: ApiCall) -> Json:
    """Describe an object."""
    return object_json(
        call.repository(),
        call.path(),
        _entry(call),
        presigned=call.flag("presign"),
        user_metadata=call.flag("user_metadata", default=True),
    )


def list_objects(call: ApiCall) -> Json:
    """List objects, or the common prefixes of their paths."""
    repository, prefix = call.repository(), call.raw("prefix")
    presigned, own = call.flag("presign"), call.flag("user_metadata", default=True)

    def record(found: ListedObject | ListedPrefix) -> Json:
        if isinstance(found, ListedPrefix):
            return prefix_json(found.path)
        entry = decode_entry(found.value)
        return object_json(repository, found.path, entry, presigned=presigned, user_metadata=own)

    with call.context.served.view(call.name, call.parameters["ref"]) as view:
        listed = list_prefix(
            lambda start: view.scan(prefix=prefix, start=start),
            prefix=prefix,
            delimiter=call.raw("delimiter"),
            after=call.after,
        )
        return page(call, listed, record, lambda each: offset_of(each.path))


# Writing -------------------------------------------------------------------------------------


def conditional(call: ApiCall, value: bytes) -> Callable[[bytes | None], bytes]:
    """Return what decides to stage an entry, if the conditions in the headers are met."""
    none_match = call.headers.get("if-none-match", "")
    match = call.headers.get("if-match", "")

    def decide(present: bytes | None) -> bytes:
        entry = None if present is None else decode_entry(present)
        if none_match and entry is not None and _names(none_match, entry):
            raise PreconditionFailed("the path already exists")
        if match and (entry is None or not _names(match, entry)):
            raise PreconditionFailed("the object at the path is another one")
        return value

    return decide


def upload_object(call: ApiCall) -> Json:
    """Write an object."""
    path, writer = call.path(), call.writer
    assert not isinstance(call.body, bytes)
    upload = open_upload(call.headers.get("content-type", ""), call.body)
    deposited = writer.deposit(upload.pieces)
    entry = Entry(
        physical_address=deposited.address,
        size=deposited.size,
        checksum=deposited.digest,
        modified_at=call.repository().lake.runtime.now(),
        content_type=upload.content_type or content_type_of(path),
        metadata={
            name.removeprefix(_META): value
            for name, value in call.headers.items()
            if name.startswith(_META)
        },
    )
    decide = conditional(call, encode_entry(entry))
    return object_json(call.repository(), path, call.apply(path, decide, [deposited]))


def delete_object(call: ApiCall) -> Json:
    """Delete an object; it is no error if there is none."""
    _delete(call, [call.path()])
    return None


_PATHS: Final = Record({"paths": list_of(text(1 << 16, has_nul=True), LARGEST_PAGE)})


def delete_objects(call: ApiCall) -> Json:
    """Delete many objects; each that could not be deleted is listed."""
    paths = [os.fsencode(each) for each in call.read(_PATHS)["paths"]]
    return {"errors": _delete(call, paths)}


def _delete(call: ApiCall, paths: list[bytes]) -> list[Json]:
    changes = [PathChange(path, lambda _present: TOMBSTONE) for path in paths]
    outcomes = call.writer.apply(changes, client=call.client, action=call.action)
    failed: list[Json] = []
    for path, outcome in zip(paths, outcomes, strict=True):
        if isinstance(outcome, LakeError):
            error = of_lake_error(outcome)
            where = os.fsdecode(path[:MAX_PATH_SIZE])
            failed.append({"status_code": error.status, "message": error.message, "path": where})
    return failed


_COPY: Final = Record({"src_path": path_text, "src_ref": optional(nullable(name_text), "")})


def copy_object(call: ApiCall) -> Json:
    """Copy an object; no bytes are copied."""
    wanted, path = call.read(_COPY), call.path("dest_path")
    source_ref = wanted["src_ref"] or call.branch
    source = os.fsencode(wanted["src_path"])
    with call.acting() as repository:
        if (source_ref, source) == (call.branch, path):
            with open_view(repository, call.branch) as view:
                entry = view.entry(path)
        else:
            entry = cp.cp(
                repository, source_ref=source_ref, source=source, branch=call.branch, path=path
            )
        return object_json(repository, path, entry)


_METADATA: Final = Record({"set": metadata})


def update_metadata(call: ApiCall) -> Json:
    """Replace the user metadata of an object."""
    attributes = NewAttributes(metadata=call.read(_METADATA)["set"])
    with call.acting() as repository:
        cp.update_metadata(repository, call.branch, [call.path()], attributes)
    return None


_STAGED: Final = Record(
    {
        "physical_address": name_text,
        "checksum": name_text,
        "size_bytes": whole(0, MAX_COUNT),
        "mtime": optional(whole(0, 253_000_000_000), None),
        "metadata": optional(metadata, {}),
        "content_type": optional(free_text, None),
        "force": optional(boolean, default=False),
    }
)


def stage_object(call: ApiCall) -> Json:
    """Stage an object that is outside the repository's namespace."""
    wanted, path = call.read(_STAGED), call.path()
    mtime = wanted["mtime"]
    with call.acting() as repository:
        entry = record_object(
            repository,
            call.branch,
            path,
            location=wanted["physical_address"],
            size=wanted["size_bytes"],
            checksum=wanted["checksum"],
            modified_at=None if mtime is None else datetime.fromtimestamp(mtime, UTC),
            content_type=wanted["content_type"],
            metadata=wanted["metadata"],
        )
        return object_json(repository, path, entry)


_REF: Final = "/repositories/{repository}/refs/{ref}/objects"
_BRANCH: Final = "/repositories/{repository}/branches/{branch}/objects"
_OWN: Final = _BRANCH + "/stat/user_metadata"

OPERATIONS: Final = (
    ApiOperation("getObject", "GET", _REF, get_object),
    ApiOperation("headObject", "HEAD", _REF, get_object),
    ApiOperation("statObject", "GET", _REF + "/stat", stat_object),
    ApiOperation("listObjects", "GET", _REF + "/ls", list_objects),
    ApiOperation("uploadObject", "POST", _BRANCH, upload_object, 201, is_raw=True),
    ApiOperation("deleteObject", "DELETE", _BRANCH, delete_object, 204),
    ApiOperation("deleteObjects", "POST", _BRANCH + "/delete", delete_objects),
    ApiOperation("copyObject", "POST", _BRANCH + "/copy", copy_object, 201),
    ApiOperation("stageObject", "PUT", _BRANCH, stage_object, 201),
    ApiOperation("updateObjectUserMetadata", "PUT", _OWN, update_metadata, 201),
)

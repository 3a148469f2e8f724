"""Conditional requests, checked in the order of RFC 9110, and ranges."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from lakecli.serving.reading import has_tag, http_date, part_of
from lakecli.serving.s3.errors import S3Error
from lakecli.stores.responses import date_of

_SOURCE: Final = "x-amz-copy-source-"
_COPIED: Final = re.compile(r"bytes=([0-9]{1,18})-([0-9]{1,18})")
_NONE_MATCH: Final = "if-none-match"
_MODIFIED_SINCE: Final = "if-modified-since"
_NAMES: Final = ("if-match", "if-unmodified-since", _NONE_MATCH, _MODIFIED_SINCE)


def check_read(headers: Mapping[str, str], etag: str, modified: datetime) -> None:
    """Check the conditions of a GET or HEAD.

    Args:
        headers: the request's headers by lower-case names.
        etag: the ETag of the object, without quotes.

    Raises:
        S3Error: PreconditionFailed; or NotModified, with the headers that a 304 response must have.
    """
    failed = _failed(headers, "", etag, modified)
    if failed in {_NONE_MATCH, _MODIFIED_SINCE}:
        stored = {"ETag": f'"{etag}"', "Last-Modified": http_date(modified)}
        raise S3Error("NotModified", "The object is not modified.", stored)
    _require(failed)


def check_write(
    headers: Mapping[str, str], etag: str | None, modified: datetime | None = None
) -> None:
    """Check the conditions of a PUT, DELETE or CompleteMultipartUpload.

    Args:
        etag: the ETag of the present object; ``None`` if there is none.

    Raises:
        S3Error: PreconditionFailed; or NoSuchKey, if there is no object whose ETag could match.
    """
    wanted = headers.get("if-match")
    if etag is None and wanted is not None and wanted.strip() != "*":
        raise S3Error("NoSuchKey", "There is no object whose ETag If-Match could match.")
    _require(_failed(headers, "", etag, modified).replace(_MODIFIED_SINCE, ""))


def check_copy(headers: Mapping[str, str], etag: str, modified: datetime) -> None:
    """Check the conditions on the source of a copy (``x-amz-copy-source-if-match`` …).

    Raises:
        S3Error: PreconditionFailed; a condition does not hold.
    """
    _require(_failed(headers, _SOURCE, etag, modified))


def _require(failed: str) -> None:
    if failed:
        text = f"The condition {failed} does not hold."
        raise S3Error("PreconditionFailed", text)


def _failed(
    headers: Mapping[str, str], prefix: str, etag: str | None, modified: datetime | None
) -> str:
    """Return the name of the first condition that does not hold, or ``""``.

    A condition on a date is ignored if the request has the more exact condition on the ETag (RFC
    9110, 13.2.2).
    """
    match, until, none_match, since = (f"{prefix}{name}" for name in _NAMES)
    if match in headers:
        if not has_tag(headers[match], etag):
            return match
    elif modified and (moment := date_of(headers.get(until, ""))) and _whole(modified) > moment:
        return until
    if none_match in headers:
        return none_match if has_tag(headers[none_match], etag, is_weak=True) else ""
    moment = date_of(headers.get(since, ""))
    return since if moment and modified and _whole(modified) <= moment else ""


def _whole(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)


def span_of(headers: Mapping[str, str], size: int) -> tuple[int, int] | None:
    """Return the requested range of an object as (start, end); ``None`` for the whole object.

    A request with ``If-Range`` gets the whole object, which a client must expect.

    Raises:
        S3Error: InvalidRange (416, with Content-Range).
    """
    found = None if "if-range" in headers else part_of(headers.get("range", ""), size)
    if found is not None and found[0] >= found[1]:
        raise _unsatisfiable(size)
    return found


def _unsatisfiable(size: int) -> S3Error:
    text, headers = "The requested range is not satisfiable.", {"Content-Range": f"bytes */{size}"}
    return S3Error("InvalidRange", text, headers)


def copied_span_of(header: str, size: int) -> tuple[int, int]:
    """Return the range (start, end) that UploadPartCopy copies (``x-amz-copy-source-range``).

    Raises:
        S3Error: InvalidArgument; or InvalidRange if the range exceeds the object.
    """
    found = _COPIED.fullmatch(header.strip())
    if found is None or int(found[2]) < int(found[1]):
        raise S3Error("InvalidArgument", "The range to copy must have the form bytes=first-last.")
    if int(found[2]) >= size:
        raise _unsatisfiable(size)
    return int(found[1]), int(found[2]) + 1

"""Conditions of requests in the order of RFC 9110, and ranges."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple


def check_read(headers: Mapping[str, str], etag: str, modified: datetime) -> None:
    """Check the conditions of a GET or HEAD.

    Args:
        headers: the request's headers by lower-case names.
        etag: of the object; with or without quotes.

    Raises:
        S3Error: PreconditionFailed, or NotModified (304, with the headers that it must have).
    """
    raise NotImplementedError


def check_write(
    headers: Mapping[str, str], etag: str | None, modified: datetime | None = None
) -> None:
    """Check the conditions of a PUT, DELETE or CompleteMultipartUpload.

    Args:
        etag: of the present object; ``None`` if there is none.

    Raises:
        S3Error: PreconditionFailed; or NoSuchKey, if there is no object whose ETag could match.
    """
    raise NotImplementedError


def check_copy(headers: Mapping[str, str], etag: str, modified: datetime) -> None:
    """Check the conditions about the source of a copy (``x-amz-copy-source-if-match`` …).

    Raises:
        S3Error: PreconditionFailed.
    """
    raise NotImplementedError


class Span(NamedTuple):
    """A part of an object, from `start` up to but without `end`."""

    start: int
    end: int

    def content_range(self, size: int) -> str:
        """Return the header ``Content-Range`` of an answer with this part."""
        return f"bytes {self.start}-{self.end - 1}/{size}"


def span_of(headers: Mapping[str, str], size: int, etag: str, modified: datetime) -> Span | None:
    """Return the part of an object that a request is for, or ``None`` for the whole object.

    A header that is malformed, or has several ranges, is ignored, as RFC 9110 allows; so is one
    whose ``If-Range`` is about another version.

    Raises:
        S3Error: InvalidRange (416, with Content-Range).
    """
    raise NotImplementedError


def copied_span_of(header: str, size: int) -> Span:
    """Return the part that UploadPartCopy copies (``x-amz-copy-source-range``).

    Raises:
        S3Error: InvalidArgument, or InvalidRange if the object is shorter.
    """
    raise NotImplementedError

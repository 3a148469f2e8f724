"""The body of an upload: the bytes themselves, or a form (``multipart/form-data``) with a file.

A form is read as a stream, with little memory; a form that ends early is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from email.message import Message
from itertools import chain
from typing import Final, NamedTuple

from lakecli.base.validation import Invalid

FIELD: Final = "content"
"""The field of a form that has the object."""

_MOST_HEADERS: Final = 16 << 10
"""Largest head of a part of a form, in bytes."""

_BOUNDARY: Final = re.compile(r"[ -~]{1,200}", re.ASCII)


class UploadedContents(NamedTuple):
    """The contents of an object that a client sends.

    Attributes:
        content_type: what the client says it is; ``""`` if it says nothing.
        pieces: yields the contents; raises `Invalid` if a form ends early.
    """

    content_type: str
    pieces: Iterator[bytes]


def open_upload(content_type: str, pieces: Iterator[bytes]) -> UploadedContents:
    """Return the contents of an object in the body of a request.

    Args:
        content_type: the header ``Content-Type``.
        pieces: the body.

    Raises:
        Invalid: a form without a boundary, or without the field `FIELD`.
    """
    header = _parsed(content_type)
    if header.get_content_type() != "multipart/form-data":
        return UploadedContents(content_type, pieces)
    boundary = header.get_param("boundary") or ""
    if not isinstance(boundary, str) or not _BOUNDARY.fullmatch(boundary):
        raise Invalid("a form without a boundary")
    form = _Form(pieces, boundary.encode())
    for part in form.parts():
        if part.get_param("name", header="content-disposition") == FIELD:
            return UploadedContents(part.get("content-type", ""), form.contents(is_last=True))
    raise Invalid(f"a form without the field {FIELD!r}")


def _parsed(content_type: str) -> Message:
    message = Message()
    message["content-type"] = content_type or "application/octet-stream"
    return message


class _Form:
    """A form that is read from its start to its end."""

    def __init__(self, pieces: Iterator[bytes], boundary: bytes) -> None:
        # The first boundary may be the very first line.
        self._pieces = chain([b"\r\n"], pieces)
        self._mark = b"\r\n--" + boundary
        self._buffer = b""

    def parts(self) -> Iterator[Message]:
        """Yield the head of each part; what the caller leaves of its contents is skipped."""
        for _ in self.contents():
            pass
        while not self._head(b"\r\n").startswith(b"--"):
            # The line end of the boundary may also be that of an empty head.
            self._buffer = b"\r\n" + self._buffer
            part = Message()
            for line in self._head(b"\r\n\r\n").decode("utf-8", "replace").split("\r\n"):
                name, _, value = line.partition(":")
                if name:
                    part[name.strip()] = value.strip()
            yield part
            for _ in self.contents():
                pass

    def contents(self, *, is_last: bool = False) -> Iterator[bytes]:
        """Yield the bytes before the next boundary.

        Args:
            is_last: read the rest of the form, too, so that the connection can be used again.
        """
        while (at := self._buffer.find(self._mark)) < 0:
            keep = len(self._mark) - 1
            if len(self._buffer) > keep:
                yield self._buffer[:-keep]
                self._buffer = self._buffer[-keep:]
            self._fill()
        if at:
            yield self._buffer[:at]
        self._buffer = self._buffer[at + len(self._mark) :]
        if is_last:
            for _ in self._pieces:
                pass

    def _head(self, end: bytes) -> bytes:
        """Return the bytes before a mark, which must be near."""
        while (at := self._buffer.find(end)) < 0:
            if len(self._buffer) > _MOST_HEADERS:
                raise Invalid("a form with a part whose head does not end")
            if end == b"\r\n" and self._buffer.startswith(b"--"):
                return self._buffer
            self._fill()
        if at > _MOST_HEADERS:
            raise Invalid("a form with a part whose head is too long")
        found, self._buffer = self._buffer[:at], self._buffer[at + len(end) :]
        return found

    def _fill(self) -> None:
        piece = next(self._pieces, None)
        if piece is None:
            raise Invalid("a form that ends early")
        self._buffer += piece

"""The body of an upload: the bytes themselves, or a form (``multipart/form-data``) with a file.

A form is read as a stream, with little memory; a form that ends early is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from email.message import Message
from email.parser import BytesHeaderParser
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
    header = Message()
    header["content-type"] = content_type or "application/octet-stream"
    if header.get_content_type() != "multipart/form-data":
        return UploadedContents(content_type, pieces)
    boundary = header.get_param("boundary")
    if not isinstance(boundary, str) or not _BOUNDARY.fullmatch(boundary):
        raise Invalid("a form without a boundary")
    form = _Form(pieces, boundary.encode())
    while (part := form.next_part()).get_param("name", header="content-disposition") != FIELD:
        pass
    return UploadedContents(str(part.get("content-type", "")), form.last_contents())


class _Form:
    """A form that is read from its start to its end."""

    def __init__(self, pieces: Iterator[bytes], boundary: bytes) -> None:
        self._pieces = pieces
        self._mark = b"\r\n--" + boundary
        self._buffer = b"\r\n"  # the first boundary may be the very first line

    def next_part(self) -> Message:
        """Return the head of the next part; what the caller left of the last one is skipped."""
        for _ in self._until(self._mark):
            pass
        head = b""
        for piece in self._until(b"\r\n\r\n"):  # the first of them may end the boundary's line
            head += piece
            if len(head) > _MOST_HEADERS:
                raise Invalid("a form with a part whose head is too long")
        return BytesHeaderParser().parsebytes(head.partition(b"\r\n")[2])

    def last_contents(self) -> Iterator[bytes]:
        """Yield the contents of a part, and read the rest, so that the connection can go on."""
        yield from self._until(self._mark)
        for _ in self._pieces:
            pass

    def _until(self, mark: bytes) -> Iterator[bytes]:
        """Yield the bytes before a mark; those behind it are next."""
        while (at := self._buffer.find(mark)) < 0:
            before = max(len(self._buffer) - len(mark) + 1, 0)
            yield self._buffer[:before]
            piece = next(self._pieces, None)
            if piece is None:
                raise Invalid("a form that ends early")
            self._buffer = self._buffer[before:] + piece
        found, self._buffer = self._buffer[:at], self._buffer[at + len(mark) :]
        yield found

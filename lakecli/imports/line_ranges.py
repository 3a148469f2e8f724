"""Ranges of a text file that begin and end at line ends, so that tasks read one file together.

A line belongs to the range that its first byte is in. In CSV, a line end may be inside quotation
marks. A line with an odd number of them shows that, so reading such a range is an error, and the
file is read as a whole instead.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from lakecli.errors import LakeError

RANGE: Final = 64 << 20
"""Bytes of a range; less for the last one of a file."""

_CHUNK: Final = 1 << 20


class QuotedLineEnds(LakeError):
    """A file of CSV has values with line ends, so it cannot be divided."""


class LineRange(NamedTuple):
    """The lines that begin from `start` up to `end`; the first byte of the file is at 0."""

    start: int
    end: int


def ranges_of(start: int, size: int) -> Iterator[LineRange]:
    """Yield the ranges of a file of some size, from a position where a line begins."""
    for low in range(start, size, RANGE):
        yield LineRange(low, min(low + RANGE, size))


class Lines(io.RawIOBase):
    """The lines of a range as a file.

    Args:
        stream: the whole file; it stays open.
        lines: the range.
        is_quoted: whether to refuse lines with an odd number of quotation marks.
    """

    def __init__(self, stream: BinaryIO, lines: LineRange, *, is_quoted: bool) -> None:
        self._chunks = _unbroken(_chunks(stream, lines)) if is_quoted else _chunks(stream, lines)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: object) -> int:
        """Read into a buffer; see `io.RawIOBase`.

        Raises:
            QuotedLineEnds: a value contains a line end.
        """
        if not self._rest:
            self._rest = memoryview(next(self._chunks, b""))
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        size = min(len(view), len(self._rest))
        view[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _chunks(stream: BinaryIO, lines: LineRange) -> Iterator[bytes]:
    """Yield the bytes from the first line that begins in a range to the end of the last one."""
    # The byte before decides whether a line begins at a position.
    position = max(0, lines.start - 1)
    stream.seek(position)
    is_inside = lines.start == 0
    while chunk := stream.read(_CHUNK):
        after = position + len(chunk)
        begin = 0
        if not is_inside:
            begin = chunk.find(b"\n") + 1
            is_inside = begin > 0
            if is_inside and position + begin >= lines.end:
                return
        if is_inside:
            # The line whose end is at `end - 1` or later is the last one.
            last = chunk.find(b"\n", max(begin, lines.end - 1 - position))
            if after >= lines.end and last >= 0:
                yield chunk[begin : last + 1]
                return
            if begin < len(chunk):  # an empty chunk would look like the end
                yield chunk[begin:]
        position = after


def _unbroken(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield chunks unchanged.

    Raises:
        QuotedLineEnds: a line has an odd number of quotation marks.
    """
    odd = 0
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        odd += first.count(b'"')
        for line in others:
            if odd % 2:
                raise QuotedLineEnds("a value contains a line end")
            odd = line.count(b'"')
        yield chunk
    if odd % 2:
        raise QuotedLineEnds("a value contains a line end")

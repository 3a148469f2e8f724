"""The columns of entries, commits, refs and differences, and decoding entries into columns.

numpy walks all values of a batch in step, in one buffer: the third field of one message is nearly
always the third field of all. If any message has another form, even a valid one, the messages of
the batch are decoded one by one, which also finds damaged ones.

Paths are bytes, as are Spark's strings, so they pass unchanged even if they are not UTF-8. Arrays
are made from buffers: `pyarrow.array` imports pandas, which loads slowly.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import StructType

from lakecli.committed.values import MalformedValue, decode_entry
from lakecli.errors import UsageError

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Records = tuple[list[bytes], list[bytes]]
"""Keys and values."""
Span = tuple[Numbers, Numbers]
"""The position of each text in the buffer, and its size in bytes."""

ENTRIES: Final = "entries"
COMMITS: Final = "commits"
REFS: Final = "refs"
DIFF: Final = "diff"

_SCHEMAS: Final = {
    ENTRIES: "path string, physical_address string, size bigint, checksum string, mtime timestamp, "
    "content_type string, metadata map<string,string>, range_id string",
    COMMITS: "id string, parents array<string>, message string, committer string, "
    "created_at timestamp, metadata map<string,string>, metarange_id string, generation bigint",
    REFS: "kind string, name string, commit_id string",
    DIFF: "type string, path string, left_size bigint, left_checksum string, "
    "right_size bigint, right_checksum string",
}

COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    what: dict(column.split(" ", 1) for column in schema.split(", "))
    for what, schema in _SCHEMAS.items()
}
"""Names and Spark types of the columns, in order, by kind of rows."""

RANGE_ID: Final = "range_id"

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
MAP: Final = pa.map_(pa.string(), pa.string())

BATCH: Final = 16_384
"""Records decoded together, at most, except for those of the last block."""

BATCH_SIZE: Final = 64 << 20
"""Bytes of keys and values decoded together, with the same exception."""

_DIGEST_FRAME = 0x40
_IDENTITY_END = 33
_CONTINUES = 0x80
_LAST_SHIFT = 49
_PADDING = b"\0" * 16
_MICROSECONDS = 1_000_000
_MAX_SECONDS = 1 << 38
_MAX_OFFSET = (1 << 31) - 1


def chosen(what: str, columns: str) -> str:
    """Return the schema of some columns of a kind of rows, by names with commas, or of all."""
    known = COLUMNS[what]
    names = [name.strip() for name in columns.split(",")] if columns.strip() else list(known)
    for at, name in enumerate(names):
        if name not in known or name in names[:at]:
            problem = "named twice" if name in known else "unknown"
            raise UsageError(
                f"column {name!r} of {what} is {problem}", hint=f"columns: {', '.join(known)}"
            )
    return ", ".join(f"{name} {known[name]}" for name in names)


def check_schema(what: str, schema: StructType) -> None:
    """Refuse other columns or types than a kind of rows has, by a `UsageError`."""
    known = COLUMNS[what]
    for field in schema.fields:
        expected = known.get(field.name)
        if expected != field.dataType.simpleString():
            is_type = f"{expected}, not {field.dataType.simpleString()}"
            raise UsageError(
                f"column {field.name!r} of {what} is {is_type if expected else 'unknown'}",
                hint=", ".join(f"{name} {kind}" for name, kind in known.items()),
            )


def batched(blocks: Iterable[Records]) -> Iterator[Records]:
    """Yield the keys and values of blocks together, so that they are decoded at once.

    A block has at most 128 MiB, and 96 MiB that its keys share, so no column reaches 2 GiB.
    """
    keys: list[bytes] = []
    values: list[bytes] = []
    size = 0
    for more_keys, more_values in blocks:
        keys += more_keys
        values += more_values
        size += sum(map(len, more_keys)) + sum(map(len, more_values))
        if len(keys) >= BATCH or size >= BATCH_SIZE:
            yield keys, values
            keys, values, size = [], [], 0
    if keys:
        yield keys, values


def decode_batch(
    keys: Sequence[bytes], values: Sequence[bytes], wanted: Collection[str]
) -> dict[str, pa.Array]:
    """Return the wanted columns of records, except the range ID, which is not part of records."""
    _check_size(values, "values")
    columns: dict[str, pa.Array] = {}
    if "path" in wanted:
        columns["path"] = _paths(keys)
    rest = [name for name in wanted if name not in {"path", RANGE_ID}]
    if rest:
        columns |= (_in_step(values, rest) if values else None) or _one_by_one(values, rest)
    return columns


def _check_size(texts: Sequence[bytes], what: str) -> None:
    """Refuse texts together larger than the offsets of Arrow can say."""
    if (size := sum(map(len, texts))) > _MAX_OFFSET:
        raise MalformedValue(f"{len(texts)} {what} with {size} bytes")


def _paths(keys: Sequence[bytes]) -> pa.Array:
    _check_size(keys, "paths")
    offsets = np.zeros(len(keys) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, keys), np.int64, len(keys)), out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(b"".join(keys))]
    return pa.Array.from_buffers(pa.string(), len(keys), buffers)


def numbers_of(kind: pa.DataType, numbers: npt.NDArray[Any]) -> pa.Array:
    """Return an array of contiguous numbers that have the width of a type."""
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


class _FieldReader:
    """All messages of a batch, read field by field in step; `odd` ones have another form."""

    def __init__(self, buffer: npt.NDArray[np.uint8], position: Numbers, end: Numbers) -> None:
        self.buffer = buffer
        self.position = position
        self.odd: Flags = np.zeros(len(position), np.bool_)
        self._end = end

    def number(self, tag: int) -> Numbers:
        """Return an integer field, 0 if absent, and step past it."""
        present = self.is_next(tag)
        value, after = self.varint(self.position + 1, present)
        self.position = np.where(present, after, self.position)
        return np.where(present, value, 0)

    def span(self, tag: int) -> Span:
        """Return the span of a field of bytes, empty if absent, and step past it."""
        present = self.is_next(tag)
        size, start = self.varint(self.position + 1, present)
        fits = present & (start + size <= self._end)
        self.odd |= present & ~fits
        start = np.where(fits, start, self.position)
        size = np.where(fits, size, 0)
        self.position = start + size
        return start, size

    def is_next(self, tag: int) -> Flags:
        """Return the messages whose next field has a tag."""
        last = len(self.buffer) - 1
        is_next: Flags = (self.position < self._end) & (
            self.buffer[np.minimum(self.position, last)] == tag
        )
        return is_next

    def varint(self, at: Numbers, present: Flags) -> Span:
        """Return the integers at some positions, where `present`, and the positions after them."""
        last = len(self.buffer) - 1
        byte = self.buffer[np.minimum(at, last)].astype(np.int64)
        value = byte & 0x7F
        at = at + 1
        more = present & (byte >= _CONTINUES)
        shift = 7
        while more.any():
            if shift > _LAST_SHIFT:
                self.odd |= more
                break
            byte = self.buffer[np.minimum(at, last)].astype(np.int64)
            value += np.where(more, (byte & 0x7F) << shift, 0)
            at += more
            more &= byte >= _CONTINUES
            shift += 7
        return value, at

    def finish(self) -> bool:
        """Return whether all messages were read to their end and have the expected form."""
        return not (self.odd.any() or (self.position != self._end).any())


def _in_step(values: Sequence[bytes], wanted: Collection[str]) -> dict[str, pa.Array] | None:
    """Decode messages in the form that lakecli and lakeFS write; ``None`` if one has another."""
    data = b"".join((*values, _PADDING))
    buffer = np.frombuffer(data, np.uint8)
    ends = np.cumsum(np.fromiter(map(len, values), np.int64, len(values)))
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
    whole = _FieldReader(buffer, starts, ends)
    everywhere: Flags = np.ones(len(values), np.bool_)
    if (buffer[starts] != _DIGEST_FRAME).any():
        return None
    zigzag, at = whole.varint(starts + _IDENTITY_END, everywhere)
    stop = at + (zigzag >> 1)
    if whole.odd.any() or (zigzag & 1).any() or (stop > ends).any():
        return None

    fields = _FieldReader(buffer, at, stop)
    address = fields.span(0x0A)
    moment = fields.span(0x12)
    size = fields.number(0x18)
    checksum = fields.span(0x22)
    pairs = []
    while (rows := np.flatnonzero(fields.is_next(0x2A))).size:
        start, length = fields.span(0x2A)
        if fields.odd.any():
            return None  # a pair is longer than its message, so its position stays
        pairs.append((rows, (start[rows], length[rows])))
    fields.number(0x30)
    content_type = fields.span(0x3A)
    if not fields.finish():
        return None

    decoders: Mapping[str, Callable[[], pa.Array | None]] = {
        "physical_address": lambda: _texts(data, address),
        "size": lambda: numbers_of(pa.int64(), size),
        "checksum": lambda: _texts(data, checksum),
        "mtime": lambda: _moments(buffer, moment),
        "content_type": lambda: _texts(data, content_type),
        "metadata": lambda: _maps(data, buffer, pairs, len(values)),
    }
    columns = {name: decoders[name]() for name in wanted}
    return None if any(column is None for column in columns.values()) else columns


def _texts(data: bytes, span: Span) -> pa.Array | None:
    """Return texts by their spans, which do not overlap; ``None`` if one is not UTF-8."""
    start, size = span
    if not len(start):
        return _paths([])
    # Every second element is the gap between two texts.
    offsets = np.empty(2 * len(start), np.int32)
    offsets[0::2] = start
    offsets[1::2] = start + size
    pieces = pa.Array.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    taken = pieces.take(numbers_of(pa.int32(), np.arange(0, len(offsets), 2, dtype=np.int32)))
    try:
        return taken.cast(pa.string())
    except pa.ArrowInvalid:
        return None


def _moments(buffer: npt.NDArray[np.uint8], span: Span) -> pa.Array | None:
    start, size = span
    fields = _FieldReader(buffer, start, start + size)
    seconds = fields.number(0x08)
    fields.number(0x10)  # nanoseconds, which are ignored
    return moments_of(seconds) if fields.finish() else None


def moments_of(seconds: Numbers) -> pa.Array | None:
    """Return times by their seconds, which are not negative; ``None`` if one is of no year."""
    if (seconds > _MAX_SECONDS).any():
        return None
    return numbers_of(TIMESTAMP, seconds * _MICROSECONDS)


def _maps(
    data: bytes,
    buffer: npt.NDArray[np.uint8],
    rounds: Sequence[tuple[Numbers, Span]],
    count: int,
) -> pa.Array | None:
    """Return a map per message; round `n` has the messages with an n-th pair, and its span."""
    none = np.zeros(0, np.int64)
    rows = np.concatenate((none, *(row for row, _ in rounds)))
    starts = np.concatenate((none, *(start for _, (start, _) in rounds)))
    sizes = np.concatenate((none, *(size for _, (_, size) in rounds)))
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=count), out=offsets[1:])
    order = np.argsort(rows, kind="stable")
    fields = _FieldReader(buffer, starts[order], (starts + sizes)[order])
    texts = [_texts(data, fields.span(tag)) for tag in (0x0A, 0x12)]
    if not fields.finish() or any(text is None for text in texts):
        return None
    return pa.MapArray.from_arrays(numbers_of(pa.int32(), offsets), *texts)


def _one_by_one(values: Sequence[bytes], wanted: Collection[str]) -> dict[str, pa.Array]:
    entries = list(map(decode_entry, values))
    decoders: Mapping[str, Callable[[], tuple[list[Any], pa.DataType]]] = {
        "physical_address": lambda: ([each.physical_address for each in entries], pa.string()),
        "size": lambda: ([each.size for each in entries], pa.int64()),
        "checksum": lambda: ([each.checksum for each in entries], pa.string()),
        "mtime": lambda: ([each.modified_at for each in entries], TIMESTAMP),
        "content_type": lambda: ([each.content_type for each in entries], pa.string()),
        "metadata": lambda: ([list(each.metadata.items()) for each in entries], MAP),
    }
    return {name: pa.array(*decoders[name]()) for name in wanted}

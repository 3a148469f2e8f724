"""Convert columns of Arrow into `Rows`, in bulk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final, NamedTuple

from lakecli.errors import IntegrityError
from lakecli.imports.rows import Rows
from lakecli.repository.reading.addresses import unpinned_bytes

TRUE: Final = b"true"

NUMBER: Final = re.compile(rb"-?[0-9]{1,19}")
LARGEST: Final = 2**63 - 1

OLDEST: Final = -62_135_596_800
"""The first second of the year 1, in unix seconds."""
AFTER_LAST: Final = 253_402_300_800
"""The first second of the year 10000."""


class BadValue(IntegrityError):
    """A value of a manifest that is missing, of another type, or out of bounds.

    Attributes:
        at: position of its row in the batch.
    """

    def __init__(self, at: int, message: str, *, hint: str | None) -> None:
        super().__init__(message, hint=hint)
        self.at = at


class Layout(NamedTuple):
    """The names of a manifest's columns; ``""`` for a column that it lacks.

    Attributes:
        path: path below the destination.
        address: URI of the object.
        size: size in bytes.
        checksum: checksum or ETag.
        mtime: time of modification.
        content_type: content type.
        bucket: bucket of the object, in manifests without complete addresses.
        latest: true for an object's latest version.
        deleted: true for delete markers.
        is_quoted: whether keys are percent-encoded, with a plus sign for a space.
        scheme: scheme of addresses that are composed of a bucket and a key.
    """

    path: str
    address: str
    size: str
    checksum: str
    mtime: str = ""
    content_type: str = ""
    bucket: str = ""
    latest: str = ""
    deleted: str = ""
    is_quoted: bool = False
    scheme: str = ""

    def columns(self) -> list[str]:
        """Return the names of the columns to read."""
        return list(dict.fromkeys(name for name in self[:9] if name))


def normalised(batch: Any, layout: Layout, *, now: int) -> Any:  # noqa: ANN401 - of pyarrow
    """Return the objects of a manifest's batch, in the columns of `schema`.

    Args:
        batch: a ``pyarrow.RecordBatch``.
        layout: names of its columns.
        now: time of modification, in unix seconds, if the manifest has none.

    Raises:
        IntegrityError: a value is missing or malformed.
    """
    import pyarrow as pa

    batch = _only_present(batch, layout)
    count = len(batch)
    if layout.is_quoted or not layout.address:
        keys = keys_of(batch, layout)
        path = pa.array(keys, pa.binary())
    else:
        path = _binary(batch, layout.path)
    if layout.address:
        address = _binary(batch, layout.address)
    else:
        start = layout.scheme.encode() + b"://"
        buckets = bytes_of(_binary(batch, layout.bucket))
        address = pa.array(
            [
                unpinned_bytes(b"%b%b/%b" % (start, bucket, key))
                for bucket, key in zip(buckets, keys, strict=True)
            ],
            pa.binary(),
        )
    if layout.content_type:
        column = batch.column(layout.content_type)
        if pa.types.is_nested(column.type):
            raise _not_text(column, layout.content_type)
        content_type = _as_binary(column).fill_null(b"")
    else:
        content_type = pa.nulls(count, pa.binary())
    seconds = _times(batch, layout.mtime) if layout.mtime else pa.array([now] * count, pa.int64())
    columns = [
        path,
        address,
        _numbers(batch, layout.size),
        _unwrapped(_binary(batch, layout.checksum)),
        seconds,
        content_type,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema())


def _unwrapped(column: Any) -> Any:  # noqa: ANN401
    """Remove the quotation marks around ETags."""
    import pyarrow as pa

    values = bytes_of(column) if b'"' in _data_of(column) else []
    if not values:
        return column
    return pa.array([value.strip(b'"') for value in values], pa.binary())


def keys_of(batch: Any, layout: Layout) -> list[bytes]:  # noqa: ANN401 - of pyarrow
    """Return the keys of a batch.

    Raises:
        IntegrityError: one is missing.
    """
    keys = bytes_of(_binary(batch, layout.path))
    return unquoted(keys) if layout.is_quoted else keys


def _only_present(batch: Any, layout: Layout) -> Any:  # noqa: ANN401
    """Leave out old versions and delete markers."""
    for name, wanted in ((layout.latest, True), (layout.deleted, False)):
        if not name:
            continue
        import pyarrow as pa

        flags = batch.column(name)
        if not pa.types.is_boolean(flags.type):
            values = [text.lower() == TRUE for text in bytes_of(_as_binary(flags).fill_null(b""))]
            flags = pa.array(values, pa.bool_())
        else:
            flags = flags.fill_null(wanted)
        if not wanted:
            import pyarrow.compute as pc

            flags = pc.invert(flags)
        batch = batch.filter(flags)
    return batch


def _binary(batch: Any, name: str) -> Any:  # noqa: ANN401
    """Return a column of text or bytes as bytes.

    Raises:
        IntegrityError: a value is missing.
    """
    import pyarrow as pa

    column = _present(batch, name)
    try:
        return _as_binary(column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _not_text(column, name) from error


def _not_text(column: Any, name: str) -> BadValue:  # noqa: ANN401
    return BadValue(
        0,
        f"column {name!r} does not contain text, but {column.type}",
        hint="paths, addresses, checksums and content types are texts",
    )


def _present(batch: Any, name: str) -> Any:  # noqa: ANN401
    column = batch.column(name)
    if column.null_count:
        raise BadValue(
            column.is_null().to_pylist().index(True),
            f"a value of column {name!r} is missing",
            hint="every object of a manifest needs all of path, physical_address, size, checksum",
        )
    return column


def _as_binary(column: Any) -> Any:  # noqa: ANN401
    import pyarrow as pa

    kind = column.type
    if pa.types.is_binary(kind):
        return column
    is_bytes = pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    if not (is_bytes or pa.types.is_string(kind)):
        column = column.cast(pa.string())
    return column.cast(pa.binary())


def _data_of(column: Any) -> bytes:  # noqa: ANN401
    """Return the concatenated values of a column of bytes."""
    import numpy as np

    if not len(column):
        return b""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset)
    start, end = int(ends[0]), int(ends[-1])
    return b"" if data is None else bytes(data.slice(start, end - start).to_pybytes())


def bytes_of(column: Any) -> list[bytes]:  # noqa: ANN401
    """Return the values of a column of bytes without nulls."""
    import numpy as np

    if not len(column):
        return []
    whole = _data_of(column)
    ends = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, 4 * column.offset)
    positions = (ends - ends[0]).tolist()
    return [whole[start:end] for start, end in pairwise(positions)]


def _integers_of(column: Any) -> list[int]:  # noqa: ANN401
    """Return the values of a column of 64-bit integers without nulls."""
    import numpy as np

    if not len(column):
        return []
    # `to_numpy` imports pandas, which takes as long as the import of 50,000 objects.
    data = column.buffers()[1]
    numbers: list[int] = np.frombuffer(data, np.int64, len(column), 8 * column.offset).tolist()
    return numbers


def _numbers(batch: Any, name: str) -> Any:  # noqa: ANN401
    import pyarrow as pa

    column = _present(batch, name)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.string())  # no numbers
    try:
        if pa.types.is_binary(column.type):
            return column.cast(pa.string()).cast(pa.int64())
        return column.cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        at, value = next(
            (item for item in enumerate(column.to_pylist()) if not _is_integer(item[1])),
            (0, column.type),
        )
        shown = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        raise BadValue(
            at,
            f"column {name!r} does not contain integers: {shown[:40]!a}",
            hint="give sizes in bytes, as integers",
        ) from error


def _is_integer(value: object) -> bool:
    """Return whether a value is an integer of 64 bits, or is written as one."""
    text = value if isinstance(value, bytes) else str(value).removesuffix(".0").encode()
    is_known = isinstance(value, bytes | str | int | float) and not isinstance(value, bool)
    return is_known and bool(NUMBER.fullmatch(text)) and abs(int(text)) <= LARGEST


def _times(batch: Any, name: str) -> Any:  # noqa: ANN401
    """Return unix seconds of a column of times, of numbers, or of RFC 3339 text."""
    import pyarrow as pa

    column = _present(batch, name)
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("s", kind.tz), safe=False).cast(pa.int64())
    elif not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        return pa.array(seconds_of(bytes_of(_binary(batch, name)), name), pa.int64())
    import pyarrow.compute as pc

    are_times = pc.and_(pc.greater_equal(column, OLDEST), pc.less(column, AFTER_LAST))
    if not pc.all(are_times).as_py():
        at = are_times.to_pylist().index(False)
        raise BadValue(at, (bad := not_times(name, column[at])).message, hint=bad.hint)
    return column.cast(pa.int64(), safe=False)


def not_times(name: str, value: object) -> IntegrityError:
    """Return the error of a column with a value that is no time."""
    return IntegrityError(
        f"column {name!r} does not contain times: {str(value)[:40]!a}",
        hint="give times as RFC 3339, such as 2026-03-01T12:00:00Z, or as unix seconds",
    )


def seconds_of(texts: Sequence[bytes], name: str) -> list[int]:
    """Return unix seconds of times as text: numbers, or RFC 3339 (UTC without a time zone)."""
    found = []
    for at, text in enumerate(texts):
        plain = text.decode("ascii", "replace")
        if text.isdigit() and len(text) <= len(str(AFTER_LAST)) and int(text) < AFTER_LAST:
            found.append(int(plain))
            continue
        try:
            when = datetime.fromisoformat(plain)
        except ValueError:
            bad = not_times(name, plain)
            raise BadValue(at, bad.message, hint=bad.hint) from None
        found.append(int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()))
    return found


def unquoted(keys: list[bytes]) -> list[bytes]:
    """Decode percent-encoded keys, in which a plus sign stands for a space."""
    from urllib.parse import unquote_to_bytes

    return [
        unquote_to_bytes(key.replace(b"+", b" ")) if b"%" in key or b"+" in key else key
        for key in keys
    ]


COLUMNS: Final = ("path", "address", "size", "checksum", "seconds", "content_type")
"""The columns of rows while they are sorted or sent."""


def schema() -> Any:  # noqa: ANN401
    """Return the Arrow schema of `COLUMNS`."""
    import pyarrow as pa

    kinds = (pa.binary(), pa.binary(), pa.int64(), pa.binary(), pa.int64(), pa.binary())
    return pa.schema(list(zip(COLUMNS, kinds, strict=True)))


def rows_of(batch: Any) -> Rows:  # noqa: ANN401
    """Return the rows of a batch with `COLUMNS`."""
    path, address, size, checksum, seconds, types = batch.columns[:6]
    return Rows(
        bytes_of(path),
        bytes_of(address),
        _integers_of(size),
        bytes_of(checksum),
        _integers_of(seconds),
        None if types.null_count == len(types) else bytes_of(types.fill_null(b"")),
    )

"""Between Arrow's columns and `Rows`, in bulk."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakecli.errors import IntegrityError
from lakecli.pipeline.imports.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

TRUE: Final = b"true"


class Layout(NamedTuple):
    """Which column of a manifest says what; ``""`` where none does.

    Attributes:
        bucket: column with the bucket, for manifests that have no whole addresses.
        latest: column that is true for an object's latest version.
        deleted: column that is true for what marks a deletion.
        is_quoted: whether keys are percent-encoded, a plus sign standing for a space.
        scheme: what addresses begin with that are made of a bucket and a key.
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
        """Return the columns that are read."""
        return list(dict.fromkeys(name for name in self[:9] if name))


def rows_of(batch: Any, layout: Layout, *, now: int) -> Rows:  # noqa: ANN401 - of pyarrow
    """Return the objects of a batch of columns that a manifest has.

    Args:
        batch: a ``pyarrow.RecordBatch``.
        layout: of its columns.
        now: what stands for times that the manifest does not tell.

    Raises:
        IntegrityError: a value is missing, or is not what it should be.
    """
    batch = _only_present(batch, layout)
    keys = _texts(batch, layout.path)
    if layout.is_quoted:
        keys = _unquoted(keys)
    if layout.address:
        addresses = _texts(batch, layout.address)
    else:
        start = layout.scheme.encode() + b"://"
        buckets = _texts(batch, layout.bucket)
        addresses = [
            b"%b%b/%b" % (start, bucket, key) for bucket, key in zip(buckets, keys, strict=True)
        ]
    checksums = _texts(batch, layout.checksum)
    if any(b'"' in checksum for checksum in checksums):
        checksums = [checksum.strip(b'"') for checksum in checksums]
    types = _texts(batch, layout.content_type) if layout.content_type else None
    sizes = _numbers(batch, layout.size)
    times = _times(batch, layout.mtime) if layout.mtime else [now] * len(keys)
    return Rows(keys, addresses, sizes, checksums, times, types)


def _only_present(batch: Any, layout: Layout) -> Any:  # noqa: ANN401
    """Leave out old versions and deletions."""
    for name, wanted in ((layout.latest, True), (layout.deleted, False)):
        if not name:
            continue
        import pyarrow as pa

        flags = batch.column(name)
        if not pa.types.is_boolean(flags.type):
            told = [text.lower() == TRUE for text in bytes_of(_filled(flags))]
            flags = pa.array(told, pa.bool_())
        else:
            flags = flags.fill_null(wanted)
        if not wanted:
            import pyarrow.compute as pc

            flags = pc.invert(flags)
        batch = batch.filter(flags)
    return batch


def _filled(column: Any) -> Any:  # noqa: ANN401
    return column.fill_null("") if column.null_count else column


def _texts(batch: Any, name: str) -> list[bytes]:  # noqa: ANN401
    column = batch.column(name)
    if column.null_count:
        raise IntegrityError(
            f"{column.null_count} values of column {name!r} are missing",
            hint="every object of a manifest needs all of path, physical_address, size, checksum",
        )
    return bytes_of(column)


def bytes_of(column: Any) -> list[bytes]:  # noqa: ANN401
    """Return the values of a column of text or bytes without nulls."""
    import numpy as np
    import pyarrow as pa

    if not pa.types.is_binary(column.type):
        if not pa.types.is_string(column.type):
            column = column.cast(pa.string() if not _is_bytes(column.type) else pa.binary())
        column = column.cast(pa.binary())
    if not len(column):
        return []
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset)
    start, end = int(ends[0]), int(ends[-1])
    whole = data.slice(start, end - start).to_pybytes() if data is not None else b""
    positions = (ends - start).tolist()
    return [whole[a:b] for a, b in pairwise(positions)]


def _is_bytes(kind: Any) -> bool:  # noqa: ANN401
    import pyarrow as pa

    return bool(pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def _numbers(batch: Any, name: str) -> list[int]:  # noqa: ANN401
    import pyarrow as pa

    column = batch.column(name)
    if column.null_count:
        _texts(batch, name)
    try:
        if pa.types.is_binary(column.type):
            column = column.cast(pa.string())
        found: list[int] = column.cast(pa.int64()).to_numpy(zero_copy_only=False).tolist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise IntegrityError(
            f"column {name!r} does not hold whole numbers: {str(error).splitlines()[0]}",
            hint="sizes are bytes, as integers",
        ) from error
    return found


def _times(batch: Any, name: str) -> list[int]:  # noqa: ANN401
    """Return unix seconds of a column of times, of numbers, or of RFC 3339 text."""
    import pyarrow as pa

    column = batch.column(name)
    if column.null_count:
        _texts(batch, name)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("s", column.type.tz), safe=False).cast(pa.int64())
    elif pa.types.is_floating(column.type):
        column = column.cast(pa.int64(), safe=False)
    elif not pa.types.is_integer(column.type):
        return _seconds(bytes_of(column), name)
    found: list[int] = column.cast(pa.int64()).to_numpy(zero_copy_only=False).tolist()
    return found


def _seconds(texts: Sequence[bytes], name: str) -> list[int]:
    """Return unix seconds of times as text: RFC 3339, UTC unless they say otherwise, or numbers."""
    found = []
    for text in texts:
        plain = text.decode("ascii", "replace")
        if plain.isdigit():
            found.append(int(plain))
            continue
        try:
            when = datetime.fromisoformat(plain)
        except ValueError:
            raise IntegrityError(
                f"column {name!r} does not hold times: {plain!r}",
                hint="as RFC 3339: 2026-03-01T12:00:00Z; or unix seconds",
            ) from None
        found.append(int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()))
    return found


def _unquoted(keys: list[bytes]) -> list[bytes]:
    from urllib.parse import unquote_to_bytes

    return [
        unquote_to_bytes(key.replace(b"+", b" ")) if b"%" in key or b"+" in key else key
        for key in keys
    ]


COLUMNS: Final = ("path", "address", "size", "checksum", "seconds", "content_type", "place")
"""The columns in which rows travel through Spark; the last one says to which interval."""


def schema() -> Any:  # noqa: ANN401
    """Return the Arrow schema of those columns."""
    import pyarrow as pa

    kinds = (pa.binary(), pa.binary(), pa.int64(), pa.binary(), pa.int64(), pa.binary(), pa.int64())
    return pa.schema(list(zip(COLUMNS, kinds, strict=True)))


def batch_of(rows: Rows, places: list[int]) -> Any:  # noqa: ANN401
    """Return rows as a batch of those columns."""
    import pyarrow as pa

    types = rows.content_types
    columns = [
        pa.array(rows.keys, pa.binary()),
        pa.array(rows.addresses, pa.binary()),
        pa.array(rows.sizes, pa.int64()),
        pa.array(rows.checksums, pa.binary()),
        pa.array(rows.seconds, pa.int64()),
        pa.nulls(len(rows), pa.binary()) if types is None else pa.array(types, pa.binary()),
        pa.array(places, pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema())


def rows_of_batch(batch: Any) -> Rows:  # noqa: ANN401
    """Return the rows of such a batch."""
    path, address, size, checksum, seconds, types = batch.columns[:6]
    return Rows(
        bytes_of(path),
        bytes_of(address),
        size.to_numpy().tolist(),
        bytes_of(checksum),
        seconds.to_numpy().tolist(),
        None if types.null_count == len(types) else bytes_of(types.fill_null(b"")),
    )

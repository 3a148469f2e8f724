"""Reading the records of one range, and checking them against its metarange."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from lakecli.errors import IntegrityError

if TYPE_CHECKING:
    from lakecli.committed.metaranges import RangeRecord
    from lakecli.sstable.reader import Table
    from lakecli.sstable.run import Run

WRITER_PROPERTY: Final = "writer"
WRITER: Final = b"lakecli"


class Mismatch(IntegrityError):
    """A well-formed range that does not hold what its metarange says."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(
            f"{name} is not the range that its metarange describes: {what}", hint="run lakecli fsck"
        )


def is_ours(table: Table) -> bool:
    """Return whether lakecli wrote a table, so that its blocks end where the records decide."""
    return table.properties.get(WRITER_PROPERTY) == WRITER


def check_described(table: Table, record: RangeRecord) -> None:
    """Compare a range's properties with its record in the metarange; no records are read.

    Raises:
        Mismatch: they differ.
    """
    if table.count != record.count:
        raise Mismatch(table.name, f"{table.count} records instead of {record.count}")
    if is_ours(table):  # releases of lakeFS before 2021 wrote wrong min_keys
        first, last = table.properties.get("min_key"), table.properties.get("max_key")
        if (first, last) != (record.min_key, record.max_key):
            raise Mismatch(table.name, f"its keys reach from {first!r} to {last!r}")


def iter_runs(table: Table, record: RangeRecord) -> Iterator[Run]:
    """Yield the decoded blocks of a range, many at a time.

    Raises:
        CorruptTable: a block is damaged.
        Mismatch: the records are not those that the metarange describes.
    """
    last = None
    count = 0
    for run in table.runs():
        if not run.keys:
            continue
        if last is None:
            check_first(table, record, run.keys[0])
        last = run.keys[-1]
        if last > record.max_key:
            raise Mismatch(table.name, f"it has the key {last!r}")
        count += len(run.keys)
        yield run
    check_end(table, record, last, count)


def check_first(table: Table, record: RangeRecord, first: bytes) -> None:
    """Compare the first key that was read of a range with its record in the metarange.

    Raises:
        Mismatch: it is another.
    """
    if first != record.min_key:
        raise Mismatch(table.name, f"its first key is {first!r}")


def check_end(table: Table, record: RangeRecord, last: bytes | None, count: int) -> None:
    """Compare the last key that was read of a range, and the number of records.

    Raises:
        Mismatch: they are others.
    """
    if last != record.max_key or count != record.count:
        raise Mismatch(table.name, f"it has {count} records, the last key is {last!r}")

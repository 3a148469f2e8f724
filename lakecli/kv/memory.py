"""Rows in the memory of this process, in place of LMDB's, for what is read without a clone.

Rows are added and replaced, never deleted.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from lakecli.kv.env import Table, WriteTransaction

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self


_BATCH: Final = 1024


class MemoryRows:
    """The rows of all tables. Not safe to share between threads."""

    def __init__(self) -> None:
        self._tables: dict[Table, dict[bytes, bytes]] = {table: {} for table in Table}
        self._sorted: dict[Table, list[bytes]] = {}

    def get(self, table: Table, key: bytes) -> bytes | None:
        """Return the value of a key, or ``None``."""
        return self._tables[table].get(key)

    def put(self, table: Table, key: bytes, value: bytes) -> None:
        """Write a row, replacing an existing one."""
        rows = self._tables[table]
        if key not in rows:
            self._sorted.pop(table, None)
        rows[key] = value

    def keys(self, table: Table, *, prefix: bytes = b"", start: bytes = b"") -> list[bytes]:
        """Return the keys under `prefix` that are not below `start`, ascending."""
        from bisect import bisect_left

        ordered = self._sorted.get(table)
        if ordered is None:
            ordered = self._sorted[table] = sorted(self._tables[table])
        first = bisect_left(ordered, max(start, prefix))
        found = []
        for key in islice(ordered, first, None):
            if not key.startswith(prefix):
                break
            found.append(key)
        return found


class MemoryTransaction(WriteTransaction):
    """Reads and writes rows in memory at once: nothing is undone if the block raises."""

    def __init__(self, rows: MemoryRows) -> None:
        self._rows = rows

    def __enter__(self) -> Self:
        """Return the transaction."""
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def get(self, table: Table, key: bytes) -> bytes | None:
        """Return the value of a key, or ``None``."""
        return self._rows.get(table, key)

    def scan_batches(
        self, table: Table, *, prefix: bytes = b"", start: bytes = b"", cut: int = 0
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield rows as `ReadTransaction.scan_batches` does."""
        keys = iter(self._rows.keys(table, prefix=prefix, start=start))
        while batch := list(islice(keys, _BATCH)):
            yield [(key[cut:], self._rows.get(table, key) or b"") for key in batch]

    def scan_keys(
        self, table: Table, *, prefix: bytes = b"", start: bytes = b""
    ) -> Iterator[bytes]:
        """Yield keys as `ReadTransaction.scan_keys` does."""
        return iter(self._rows.keys(table, prefix=prefix, start=start))

    def scan_reverse(self, table: Table, *, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows under `prefix` in descending order of keys."""
        for key in reversed(self._rows.keys(table, prefix=prefix)):
            yield key, self._rows.get(table, key) or b""

    def put(self, table: Table, key: bytes, value: bytes) -> None:
        """Write a row, replacing an existing one."""
        self._rows.put(table, key, value)

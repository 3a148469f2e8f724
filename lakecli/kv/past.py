"""The local store as it was right after an operation, for reading.

The newer operations are walked back: a ref is what the oldest of them found, and so is what was
staged at a path. Of refs that costs memory for those that have changed since; staging is read
through the images of those operations, which stay where they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Final, NoReturn, Self

from lakecli.errors import LakeError
from lakecli.kv import operations, paths
from lakecli.kv.env import LocalStore, ReadTransaction, Table
from lakecli.kv.environment import Environment
from lakecli.model import RefKind

if TYPE_CHECKING:
    Rows = dict[bytes, bytes | None]

_TABLES: Final = {
    RefKind.BRANCH: Table.BRANCHES,
    RefKind.TAG: Table.TAGS,
    RefKind.REPOSITORY: Table.REPOSITORIES,
}
_BATCH: Final = 1024


class PastStore(LocalStore):
    """A handle for reading one repository as of an operation; other repositories as they are.

    Args:
        store: the handle to read through; it must stay open as long as this one.
        repository: the 16 bytes of its UUID.
        operation: the ID, 16 bytes.
    """

    def __init__(self, store: LocalStore, repository: bytes, operation: bytes) -> None:
        super().__init__(store.usable())
        self._repository = repository
        self._operation = operation

    def read(self) -> ReadTransaction:
        """Return a read transaction of the past, to be entered with ``with``.

        Entering raises `NotFound` if the operation has expired.
        """
        return PastTransaction(self.usable(), self._repository, self._operation)

    def write(self) -> NoReturn:
        """Refuse: what was cannot be changed."""
        raise LakeError("the past of a repository is for reading only")

    def close(self) -> None:
        """Do nothing: the environment is that of the other handle."""


class PastTransaction(ReadTransaction):
    """One moment of the store, with one repository as it was right after an operation."""

    def __init__(self, shared: Environment, repository: bytes, operation: bytes) -> None:
        super().__init__(shared)
        self._repository = repository
        self._operation = operation
        self._rows: dict[Table, Rows] = {table: {} for table in _TABLES.values()}
        self._newest = b""

    def __enter__(self) -> Self:
        """Begin, and walk back to the operation."""
        super().__enter__()
        try:
            self.past = self._walk_back()
        except BaseException:
            self._txn.abort()
            raise
        return self

    def _walk_back(self) -> PastStaging:
        kept = operations.get(self, self._repository, self._operation)
        writers: dict[bytes, list[bytes]] = {}
        for operation in operations.iter_operations(self, self._repository):
            if operation.sequence <= kept.sequence:
                break
            for change in operation.refs:
                name = change.name.encode("utf-8", "surrogateescape")
                key = name if change.kind is RefKind.REPOSITORY else self._repository + name
                fields = change.before
                self._rows[_TABLES[change.kind]][key] = (
                    None if fields is None else json.dumps(fields).encode("ascii")
                )
            for staged in operation.staging:
                writers.setdefault(staged.token, []).append(operation.id)
        self._newest = operations.key_of(kept)
        return PastStaging(self, writers)

    def get(self, table: Table, key: bytes) -> bytes | None:
        """Return the value that a key had, or ``None``."""
        rows = self._rows.get(table)
        return rows[key] if rows and key in rows else super().get(table, key)

    def scan_batches(
        self, table: Table, *, prefix: bytes = b"", start: bytes = b"", cut: int = 0
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield what was there, as of `ReadTransaction.scan_batches`."""
        rows = self._rows.get(table)
        if not rows:
            yield from super().scan_batches(table, prefix=prefix, start=start, cut=cut)
            return
        present = chain.from_iterable(super().scan_batches(table, prefix=prefix, start=start))
        changed = sorted(
            (key, value) for key, value in rows.items() if key.startswith(prefix) and key >= start
        )
        found = _overlay(changed, present)
        while batch := list(islice(found, _BATCH)):
            yield [(key[cut:], value) for key, value in batch]

    def scan_keys(
        self, table: Table, *, prefix: bytes = b"", start: bytes = b""
    ) -> Iterator[bytes]:
        """Yield the keys that were there."""
        if not self._rows.get(table):
            return super().scan_keys(table, prefix=prefix, start=start)
        return (key for key, _ in self.scan(table, prefix=prefix, start=start))

    def scan_reverse(self, table: Table, *, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield the records that were there from the last one back; of operations the older."""
        if self._rows.get(table):
            yield from reversed(list(self.scan(table, prefix=prefix)))
            return
        of_the_log = table is Table.OPERATIONS and self._newest.startswith(prefix)
        for key, value in super().scan_reverse(table, prefix=prefix):
            if not (of_the_log and key > self._newest):
                yield key, value


class PastStaging:
    """What was staged: for `lakecli.staging.area`, which has no other way to know.

    Args:
        txn: where the images are.
        writers: by token, the operations to look past, newest first.
    """

    def __init__(self, txn: ReadTransaction, writers: dict[bytes, list[bytes]]) -> None:
        self._txn = txn
        self._writers = {token: list(reversed(ids)) for token, ids in writers.items()}

    def get(self, token: bytes, path: bytes) -> bytes | None:
        """Return what was staged at a path, ``b""`` for a deletion, or ``None``."""
        for id_ in self._writers.get(token, ()):
            image = operations.find_image(self._txn, id_, token, path)
            if image is not None:
                return image.staged
        return paths.get(self._txn, Table.STAGING, token, path)

    def scan(
        self, token: bytes, *, start: bytes = b"", prefix: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield (path, what was staged) under `prefix` from `start` on, in path order."""
        present = paths.scan(self._txn, Table.STAGING, token, start=start, prefix=prefix)
        ids = self._writers.get(token)
        if not ids:
            return present
        images = [
            _ranked(operations.iter_images(self._txn, id_, token, start=start, prefix=prefix), rank)
            for rank, id_ in enumerate(ids)
        ]
        return _first_of_each(merge(*images, _ranked(present, len(ids)), key=lambda item: item[:2]))


def _ranked(
    records: Iterable[tuple[bytes, bytes | None]], rank: int
) -> Iterator[tuple[bytes, int, bytes | None]]:
    return ((path, rank, value) for path, value in records)


def _first_of_each(
    records: Iterator[tuple[bytes, int, bytes | None]],
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the first record of each path, unless nothing was there."""
    for path, group in groupby(records, key=lambda item: item[0]):
        value = next(group)[2]
        if value is not None:
            yield path, value


def _overlay(
    changed: Iterable[tuple[bytes, bytes | None]], present: Iterable[tuple[bytes, bytes]]
) -> Iterator[tuple[bytes, bytes]]:
    """Lay records over others, both ascending; ``None`` hides."""
    both = merge(_ranked(changed, 0), _ranked(present, 1), key=lambda item: item[:2])
    return _first_of_each(both)

"""The local store: tables of ordered bytes for all repositories of a user, and transactions.

Only one process can write at a time. So keep write transactions short, and do not build or upload
anything inside them. Readers never wait, and see the store as of the start of their transaction.

The tables share one LMDB database, each under its own first byte: opening a named database takes
the write lock, so a process that only reads would have to wait for a writer.

`get_path`, `put_paths` and the other methods for paths keep records under paths of any length, in
path order, although a key has at most 510 bytes. Every record has an owner of 16 bytes (a staging
token, an operation). A path of up to `CHUNK` bytes is stored directly under its owner. A longer
path is cut::

    owner ‖ path                      a path of at most CHUNK bytes -> its value
    owner ‖ first CHUNK bytes ‖ 00    a link -> child, the owner of the rest of the path
    child ‖ rest of the path          stored in the same way

    child = first 16 bytes of BLAKE3(owner ‖ first CHUNK bytes)

Only links have CHUNK + 1 bytes under their owner, so they cannot be confused with paths. A link
sorts directly after the path that consists of the link's CHUNK bytes, and before any greater path.
So all paths come in byte order if the child's records are read at the position of its link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from itertools import chain, islice
from typing import Final, Self, TypeVar

import lmdb

from lakecli.base.directories import StrPath
from lakecli.errors import IntegrityError, LakeError
from lakecli.kv import lmdb_environment
from lakecli.kv.lmdb_environment import LmdbEnvironment

V = TypeVar("V")

MAX_KEY_SIZE: Final = 510
"""Largest size of a key, in bytes. `put_paths` stores longer paths."""

OWNER_SIZE: Final = 16
"""Size of the owner of rows, in bytes: a repository's UUID or a staging token begins each key."""

Record = tuple[bytes, bytes]
"""A key or path, and its value."""

_LINK: Final = b"\0"
CHUNK = MAX_KEY_SIZE - OWNER_SIZE - len(_LINK)
"""Bytes of a path that fit into one key. Part of the stored format; only tests change it."""

_FIRST_BATCH: Final = 8
_LARGEST_BATCH: Final = 1024


def owner_key(owner: bytes) -> bytes:
    """Check the length of `owner`, the prefix of the keys of its rows, and return it.

    A shorter owner, from a damaged record, would match the rows of many owners.

    Raises:
        IntegrityError: `owner` is not 16 bytes long.
    """
    if len(owner) != OWNER_SIZE:
        what = f"an owner of rows in the local store has {len(owner)} bytes, not {OWNER_SIZE}"
        hint = "a repository's record is damaged: make a new clone of its storage namespace"
        raise IntegrityError(what, hint=hint)
    return owner


class Table(bytes, Enum):
    """The tables; a value is the first byte of a table's stored keys, and never changes meaning."""

    META = b"m"  # the schema version, and records about the whole store
    REPOSITORIES = b"r"  # by name
    BRANCHES = b"b"
    TAGS = b"t"
    COMMITS = b"c"
    STAGING = b"s"  # by staging token and path
    TOKENS = b"k"
    OPERATIONS = b"o"
    IMAGES = b"i"  # staged records as they were before an operation
    FILE_HASHES = b"f"
    TRANSFERS = b"x"
    TRACKING = b"u"  # the refs in the bucket, as this clone last saw them
    REFLOG = b"l"  # the moves of these refs, as far as this clone has read them
    INTENTS = b"v"  # moves that this clone began, and whose outcome is not recorded yet
    PACKED = b"p"  # the commits in the bucket, and the pack of each


class LocalStore:
    """A handle to the local store; close it, or use it as a context manager.

    Threads may share a handle; a process that is forked after the handle was opened cannot use it.

    Attributes:
        read_only: whether `write` raises an error, so that callers cannot store anything.
    """

    read_only = False

    def __init__(self, shared: LmdbEnvironment) -> None:
        self._environment = shared
        self._closed = False

    @classmethod
    def open(
        cls,
        directory: StrPath,
        *,
        map_size: int = lmdb_environment.DEFAULT_MAP_SIZE,
        durable: bool = True,
    ) -> Self:
        """Open the store in a directory; create the directory and the store if they do not exist.

        Handles of one directory share one environment within a process.

        Args:
            map_size: the size of the map in bytes; only the first handle of a directory decides it.
                The map is sparse and never resized. It is smaller if the address space does not
                suffice.
            durable: ``False`` for a store that only this process uses. The store may then be on a
                network file system, and no write waits for the disk.

        Raises:
            PermissionDenied: the directory cannot be created or written, or is not a directory.
            Refused: a newer lakecli wrote the store, or it is on a network file system.
            IntegrityError: the files are not a store, or damaged.
            Unreachable: there is no space on the disk, or no address space.
        """
        return cls(lmdb_environment.acquire(directory, map_size=map_size, durable=durable))

    def read(self) -> ReadTransaction:
        """Return a read transaction for a ``with`` statement."""
        return ReadTransaction(self.usable())

    def write(self) -> WriteTransaction:
        """Return a write transaction for a ``with`` statement.

        Entering the block waits for other writers. The writes are durable at the end of the block,
        and undone if the block raises.
        """
        return WriteTransaction(self.usable())

    def secret(self) -> bytes | None:
        """Return 32 random bytes that only this store has; ``None`` before its first write."""
        with self.read() as txn:
            return txn.get(Table.META, lmdb_environment.SECRET_KEY.removeprefix(Table.META))

    def usage(self) -> tuple[int, int]:
        """Return the bytes in use, and the bytes that the store can contain in this process."""
        return self.usable().usage()

    def take_written(self) -> int:
        """Return about how many records this process has written since the last call."""
        environment = self.usable()
        written, environment.written = environment.written, 0
        return written

    def close(self) -> None:
        """Release the environment; safe to repeat."""
        if not self._closed:
            self._closed = True
            lmdb_environment.release(self._environment)

    def __enter__(self) -> Self:
        """Return the handle itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the handle."""
        self.close()

    def usable(self) -> LmdbEnvironment:
        """Return the LMDB environment of the handle; only this package uses it.

        Raises:
            LakeError: the handle is closed, or was opened before this process was forked.
        """
        if self._closed:
            raise LakeError(f"the local store is closed: {self._environment.directory}")
        self._environment.check_process()
        return self._environment


class ReadTransaction:
    """A snapshot of the store. All results are copies, and stay valid after the transaction.

    A transaction may be used by one thread only.

    Attributes:
        is_past: whether the transaction shows an earlier state of a repository.
    """

    is_past = False

    _writes = False

    def __init__(self, shared: LmdbEnvironment) -> None:
        self._environment = shared
        self._txn: lmdb.Transaction[bytes]

    def __enter__(self) -> Self:
        """Begin the transaction."""
        self._txn = self._environment.begin(write=self._writes)
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """End the transaction; convert an LMDB error that the block raised to a lakecli error."""
        self._txn.abort()
        if isinstance(error, lmdb.Error):
            raise self._environment.translate(error) from error

    def for_writing(self) -> WriteTransaction:
        """Return this transaction; raise `TypeError` if it is not a write transaction."""
        raise TypeError("writing needs a write transaction")

    def get(self, table: Table, key: bytes) -> bytes | None:
        """Return the value of a key, or ``None``."""
        return self._txn.get(table + key)

    def scan(self, table: Table, *, prefix: bytes = b"", start: bytes = b"") -> Iterator[Record]:
        """Yield the records under `prefix` with keys not below `start`, in key order.

        Records are read ahead in growing batches. If the same transaction changes records during
        the scan, the scan may or may not see the changes.
        """
        return chain.from_iterable(self.scan_batches(table, prefix=prefix, start=start))

    def scan_batches(
        self, table: Table, *, prefix: bytes = b"", start: bytes = b"", cut: int = 0
    ) -> Iterator[list[Record]]:
        """Yield the records of `scan` in lists of up to 1,024, for loops that must be fast.

        The first `cut` bytes of every key are left out.
        """
        cut += len(table)
        cursor = self._txn.cursor()
        if not cursor.set_range(table + max(start, prefix)):
            return
        items = cursor.iternext()
        within = table + prefix
        size = _FIRST_BATCH
        while batch := list(islice(items, size)):
            # Keys ascend: if the last key of a batch has the prefix, all keys have it.
            if not batch[-1][0].startswith(within):
                yield [(key[cut:], value) for key, value in batch if key.startswith(within)]
                return
            yield [(key[cut:], value) for key, value in batch]
            size = min(2 * size, _LARGEST_BATCH)

    def scan_keys(
        self, table: Table, *, prefix: bytes = b"", start: bytes = b""
    ) -> Iterator[bytes]:
        """Yield the keys of the records that `scan` yields, without reading the values."""
        cursor = self._txn.cursor()
        if not cursor.set_range(table + max(start, prefix)):
            return
        cut = len(table)
        within = table + prefix
        for key in cursor.iternext(keys=True, values=False):
            if not key.startswith(within):
                return
            yield key[cut:]

    def has_owned(self, table: Table, owner: bytes) -> bool:
        """Return whether a table has rows of one owner."""
        return next(self.scan_keys(table, prefix=owner_key(owner)), None) is not None

    def scan_reverse(self, table: Table, *, prefix: bytes = b"") -> Iterator[Record]:
        """Yield the records under `prefix` in descending order of keys."""
        cursor = self._txn.cursor()
        within = table + prefix
        stem = within.rstrip(b"\xff")  # never empty: no table's byte is 255
        above = stem[:-1] + bytes([stem[-1] + 1])
        if not (cursor.prev() if cursor.set_range(above) else cursor.last()):
            return
        cut = len(table)
        for key, value in cursor.iterprev():
            if not key.startswith(within):
                return
            yield key[cut:], value

    def get_path(self, table: Table, owner: bytes, path: bytes) -> bytes | None:
        """Return the value at a path, or ``None``."""
        while len(path) > CHUNK:
            owner, path = _owner_of_rests(owner, path[:CHUNK]), path[CHUNK:]
        return self.get(table, owner + path)

    def scan_paths(
        self, table: Table, owner: bytes, *, start: bytes = b"", prefix: bytes = b""
    ) -> Iterator[Record]:
        """Yield (path, value) under `prefix`, from the first path not below `start`, in byte order.

        Records are read ahead in growing batches; see `ReadTransaction.scan`.
        """
        found = _path_batches(self, table, owner, start=start, prefix=prefix, lead=b"")
        return chain.from_iterable(found)


class WriteTransaction(ReadTransaction):
    """The only writer of the store until the block ends; its reads see its writes.

    Attributes:
        afterwards: a function that is called once the transaction is durable.
    """

    _writes = True
    afterwards: Callable[[], None] | None = None

    def __enter__(self) -> Self:
        """Begin the transaction; end it if an interrupt arrives before the block starts."""
        try:
            return super().__enter__()
        except BaseException:
            begun = getattr(self, "_txn", None)
            if begun is not None:
                self._environment.abort(begun)
            raise

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Make all writes durable, or undo all of them if the block raised."""
        try:
            if error is None:
                self._environment.commit(self._txn)
        finally:
            self._environment.abort(self._txn)  # an interrupt must leave no writer behind
        if error is not None:
            super().__exit__(_kind, error, _trace)
        elif self.afterwards is not None:
            self.afterwards()

    def for_writing(self) -> WriteTransaction:
        """Return this transaction."""
        return self

    def put(self, table: Table, key: bytes, value: bytes) -> None:
        """Write a record, replacing an existing one."""
        self._environment.written += 1
        self._txn.put(table + key, value)

    def put_new(self, table: Table, key: bytes, value: bytes) -> bool:
        """Write a record unless the key exists; return whether the record was written."""
        return self._txn.put(table + key, value, overwrite=False)

    def put_sorted(
        self, table: Table, items: Iterable[Record], *, prefix: bytes = b"", overwrite: bool = True
    ) -> None:
        """Write many records in ascending key order, each under `prefix` + key.

        This is several times faster than `put`. Keys in another order are written correctly, but
        slowly. Without `overwrite`, existing records are kept.
        """
        lead = table + prefix
        cursor = self._txn.cursor()
        remaining = iter(items)
        while batch := [(lead + key, value) for key, value in islice(remaining, _LARGEST_BATCH)]:
            cursor.putmulti(batch, overwrite=overwrite)
            self._environment.written += len(batch)

    def delete(self, table: Table, key: bytes) -> bool:
        """Delete a record; return whether it existed."""
        return self._txn.delete(table + key)

    def delete_owned(self, table: Table, owner: bytes, *, limit: int | None = None) -> int:
        """Delete at most `limit` rows of one owner, and return how many were deleted.

        A number below `limit` means that no rows are left.
        """
        cursor = self._txn.cursor()
        within = table + owner_key(owner)
        deleted = 0
        found = cursor.set_range(within)
        while found and deleted != limit and cursor.key().startswith(within):
            cursor.delete()
            deleted += 1
        return deleted

    def put_paths(
        self, table: Table, owner: bytes, items: Iterable[Record], *, overwrite: bool = True
    ) -> None:
        """Write records at paths of at least one byte; ascending order is several times faster.

        Without `overwrite`, existing values are kept.
        """
        remaining = iter(items)
        while batch := list(islice(remaining, _LARGEST_BATCH)):
            if max([len(path) for path, _ in batch]) > CHUNK:
                for path, value in batch:
                    if len(path) > CHUNK:
                        under, rest = owner, path
                        while len(rest) > CHUNK:
                            head, rest = rest[:CHUNK], rest[CHUNK:]
                            child = _owner_of_rests(under, head)
                            self.put_new(table, under + head + _LINK, child)
                            under = child
                        self.put_sorted(table, [(rest, value)], prefix=under, overwrite=overwrite)
                batch = [record for record in batch if len(record[0]) <= CHUNK]
            self.put_sorted(table, batch, prefix=owner, overwrite=overwrite)

    def delete_path(self, table: Table, owner: bytes, path: bytes) -> bool:
        """Delete the record at a path, and links that no path needs; return whether it existed."""
        if len(path) <= CHUNK:
            return self.delete(table, owner + path)
        head = path[:CHUNK]
        child = _owner_of_rests(owner, head)
        existed = self.delete_path(table, child, path[CHUNK:])
        if existed and not self.has_owned(table, child):
            self.delete(table, owner + head + _LINK)
        return existed

    def drop_paths(self, table: Table, owner: bytes, *, limit: int | None) -> int:
        """Delete at most `limit` keys of an owner's records, and return how many were deleted.

        A number below `limit` means that no records are left.
        """
        deleted = 0
        while deleted != limit:
            size = _LARGEST_BATCH if limit is None else min(_LARGEST_BATCH, limit - deleted)
            keys = list(islice(self.scan_keys(table, prefix=owner), size))
            if not keys:
                break
            if max(map(len, keys)) <= OWNER_SIZE + CHUNK:
                deleted += self.delete_owned(table, owner, limit=len(keys))
                continue
            for key in keys:
                if len(key) > OWNER_SIZE + CHUNK:
                    # The child's records go first: if the limit is reached, the link must remain.
                    child = _owner_of_rests(owner, key[OWNER_SIZE:-1])
                    room = None if limit is None else limit - deleted
                    deleted += self.drop_paths(table, child, limit=room)
                if deleted == limit:
                    break
                deleted += self.delete(table, key)
        return deleted


def scan_ids(txn: ReadTransaction, table: Table, lead: bytes, prefix: str) -> Iterator[bytes]:
    """Yield, in order, the IDs below `lead` whose lowercase hex digits start with `prefix`."""
    whole = lead + bytes.fromhex(prefix[: len(prefix) & ~1])
    for key in txn.scan_keys(table, prefix=whole):
        found = key[len(lead) :]
        if found.hex().startswith(prefix):  # the scan ignores the last digit of an odd number
            yield found


def _path_batches(
    txn: ReadTransaction, table: Table, owner: bytes, *, start: bytes, prefix: bytes, lead: bytes
) -> Iterator[list[Record]]:
    """Yield batches of one owner's records, with `lead` prepended to every path."""

    def behind(head: bytes, child: bytes, prefix: bytes) -> Iterator[list[Record]]:
        left = start[CHUNK:] if start.startswith(head) else b""
        return _path_batches(txn, table, child, start=left, prefix=prefix, lead=lead + head)

    if len(prefix) > CHUNK:  # all paths with this prefix are behind the same link
        head = prefix[:CHUNK]
        if start[:CHUNK] <= head:
            yield from behind(head, _owner_of_rests(owner, head), prefix[CHUNK:])
        return
    seek = start if len(start) <= CHUNK else start[:CHUNK] + _LINK
    batches = txn.scan_batches(table, prefix=owner + prefix, start=owner + seek, cut=OWNER_SIZE)
    for batch in batches:
        if max([len(path) for path, _ in batch], default=0) <= CHUNK:
            yield batch if not lead else [(lead + path, value) for path, value in batch]
            continue
        for path, value in batch:
            if len(path) <= CHUNK:
                yield [(lead + path, value)]
                continue
            yield from behind(path[:CHUNK], value, b"")


def put_over(
    newer: Iterator[tuple[bytes, V]], older: Iterator[tuple[bytes, V]]
) -> Iterator[tuple[bytes, V]]:
    """Yield the records of two layers in path order; at equal paths only the newer record."""
    below = next(older, None)
    for record in newer:
        path = record[0]
        while below is not None and below[0] < path:
            yield below
            below = next(older, None)
        if below is not None and below[0] == path:
            below = next(older, None)
        yield record
    if below is not None:
        yield below
        yield from older


def _owner_of_rests(owner: bytes, head: bytes) -> bytes:
    """Return the owner of the rest of each path that is cut after `head`, its first CHUNK bytes."""
    from lakecli.base.identity import blake3_of  # only paths longer than CHUNK need it

    return blake3_of(owner + head)[:OWNER_SIZE]

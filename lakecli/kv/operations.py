"""The operation log: what each command changed in a repository, and what undoing it needs.

Every command that changes refs or staging appends one operation, in the transaction that makes the
change. An operation records the changed refs before and after. It also has an image of each path
that it staged: the record that was staged at the path before. The image is written no later than
the first change of the path. The staging tokens that the operation sealed are kept as long as the
operation.

::

    OPERATIONS  n ‖ repository              -> the last sequence number given out
                s ‖ repository ‖ sequence   -> the operation as JSON, times as unix seconds
                i ‖ repository ‖ id         -> its sequence number
    IMAGES      paths under BLAKE3(id ‖ token)   -> 00, nothing was staged | 01 ‖ the staged record

    sequence numbers: 8 bytes, big-endian

`PastStore` reads the local store as it was right after an operation. It undoes the newer operations
in memory: the value of a ref or a staged record is the one recorded before the first newer
operation that changed it. Memory is needed only for the refs that have changed since that
operation. Staged records are read from the images of the newer operations, which stay on disk.
"""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from heapq import merge
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Any, Final, NamedTuple, NoReturn, Self

from lakecli.base.identity import blake3_of
from lakecli.base.model import NO_METADATA, CommitId, RefKind
from lakecli.errors import LakeError, NotFound
from lakecli.kv import local_store
from lakecli.kv.lmdb_environment import LmdbEnvironment
from lakecli.kv.local_store import (
    ReadTransaction,
    Record,
    Table,
    WriteTransaction,
    owner_key,
    put_over,
    scan_ids,
)
from lakecli.kv.store_errors import malformed

_COUNTER: Final = b"n"
_BY_SEQUENCE: Final = b"s"
_BY_ID: Final = b"i"
_SEQUENCE_SIZE: Final = 8
_NOTHING: Final = b"\0"
_STAGED: Final = b"\1"
_BATCH: Final = 1024


POLICY: Final = "policy"
"""The metadata key with the version of the rules that the operation set in the bucket."""

FOLLOWED: Final = "sync"
"""The kind of an operation that moves refs to the commits that they point to in the bucket."""

MOVE: Final = "move"
"""The metadata key with the write ID of the move that the operation made in the bucket."""

LEFT: Final = "left"
"""The metadata key that is set if the operation's commit left out a part of the staged changes."""


class RefChange(NamedTuple):
    """One ref or repository record that an operation changed.

    Attributes:
        kind: branch, tag or repository.
        name: name of the branch, tag or repository.
        before: the record's fields before the operation, as JSON; ``None`` if it did not exist.
        after: the record's fields after the operation, as JSON; ``None`` if it was deleted.
        is_local: whether the change undoes or redoes a change that came from the bucket. Such a
            change is never sent to the bucket.
    """

    kind: RefKind
    name: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    is_local: bool = False

    @property
    def commit_before(self) -> CommitId | None:
        """The commit of a branch or tag before the operation; ``None``: the ref did not exist."""
        return _commit_of(self.before)

    @property
    def commit_after(self) -> CommitId | None:
        """The commit of a branch or tag after the operation; ``None``: the ref was deleted."""
        return _commit_of(self.after)

    @property
    def position_before(self) -> str | None:
        """Previous commit ID of a ref, or UUID of a repository; null if it did not exist."""
        return _position_of(self.before)

    @property
    def position_after(self) -> str | None:
        """New commit ID or UUID; null if deleted; equal to before if no commit was moved."""
        return _position_of(self.after)

    @property
    def commits(self) -> tuple[CommitId | None, CommitId | None]:
        """The commits before and after the operation."""
        return self.commit_before, self.commit_after

    @property
    def moves_commit(self) -> bool:
        """Whether the operation moved, created or deleted a branch or tag."""
        return self.commit_before != self.commit_after


def _position_of(fields: Mapping[str, Any] | None) -> str | None:
    return None if fields is None else str(fields.get("commit_id") or fields["uuid"])


def _commit_of(fields: Mapping[str, Any] | None) -> CommitId | None:
    commit_id = None if fields is None else fields.get("commit_id")
    return None if commit_id is None else CommitId(commit_id)


class StagingChange(NamedTuple):
    """A staging area that an operation wrote to; the operation's images have the changed paths."""

    branch: str
    token: bytes


class Operation(NamedTuple):
    """The changes of one command.

    Attributes:
        id: 16 random bytes.
        repository: the 16 bytes of the repository's UUID.
        at: when the operation was appended, in whole seconds.
        command: the command line, without secrets; may be empty.
        kind: kind of operation, such as commit.
        refs: the changes of refs, in the order in which they were made.
        staging: the staging areas that the operation wrote to.
        sealed: the staging tokens that the operation committed or discarded, kept for undo.
        metadata: further details, such as undoes: the ID of the operation that was undone.
        sequence: the operation's number in the repository, from 1; set by `append`.
        parts: the number of transactions that have written the operation; 0 if an older lakecli
            wrote it, which did not count transactions.
    """

    id: bytes
    repository: bytes
    at: datetime
    command: str
    kind: str
    refs: tuple[RefChange, ...] = ()
    staging: tuple[StagingChange, ...] = ()
    sealed: tuple[bytes, ...] = ()
    metadata: Mapping[str, str] = NO_METADATA
    sequence: int = 0
    parts: int = 1

    @property
    def hex_id(self) -> str:
        """ID of the operation, 32 hex digits."""
        return self.id.hex()

    @property
    def staged(self) -> Sequence[str]:
        """Branches on which the operation staged or unstaged changes."""
        return sorted({change.branch for change in self.staging})


def append(txn: WriteTransaction, operation: Operation) -> Operation:
    """Append an operation to its repository's log; return it with its sequence number."""
    repository = operation.repository
    numbered = operation._replace(sequence=close(txn, repository))
    sequence = numbered.sequence.to_bytes(_SEQUENCE_SIZE)
    txn.put(Table.OPERATIONS, _BY_ID + owner_key(repository) + operation.id, sequence)
    rewrite(txn, numbered)
    return numbered


def key_of(operation: Operation) -> bytes:
    """Return the key of an appended operation; keys of newer operations are greater."""
    sequence = operation.sequence.to_bytes(_SEQUENCE_SIZE)
    return _BY_SEQUENCE + owner_key(operation.repository) + sequence


def rewrite(txn: WriteTransaction, operation: Operation) -> None:
    """Replace the record of an operation, for a command that extends it in several transactions."""
    txn.put(Table.OPERATIONS, key_of(operation), _dump(operation))


def close(txn: WriteTransaction, repository: bytes) -> int:
    """Take the next sequence number and return it, so that no command extends the last operation.

    A command extends an operation only while the operation has the last sequence number.
    """
    sequence = last_sequence(txn, repository) + 1
    key = _COUNTER + owner_key(repository)
    txn.put(Table.OPERATIONS, key, sequence.to_bytes(_SEQUENCE_SIZE))
    return sequence


def last_sequence(txn: ReadTransaction, repository: bytes) -> int:
    """Return the last sequence number used in a repository; 0 if none was used."""
    return int.from_bytes(txn.get(Table.OPERATIONS, _COUNTER + owner_key(repository)) or b"")


def iter_oldest_first(txn: ReadTransaction, repository: bytes) -> Iterator[Operation]:
    """Yield a repository's operations, oldest first."""
    for _, data in txn.scan(Table.OPERATIONS, prefix=_BY_SEQUENCE + owner_key(repository)):
        yield _load(repository, data)


def find_oldest(txn: ReadTransaction, repository: bytes) -> Operation | None:
    """Return the oldest operation that a repository's log still has, or ``None``."""
    return next(iter_oldest_first(txn, repository), None)


def find(txn: ReadTransaction, repository: bytes, id: bytes) -> Operation | None:
    """Return an operation by its ID, or ``None``."""
    sequence = txn.get(Table.OPERATIONS, _BY_ID + owner_key(repository) + id)
    if sequence is None:
        return None
    data = txn.get(Table.OPERATIONS, _BY_SEQUENCE + owner_key(repository) + sequence)
    return None if data is None else _load(repository, data)


def get(txn: ReadTransaction, repository: bytes, id: bytes) -> Operation:
    """Return an operation by its ID."""
    operation = find(txn, repository, id)
    if operation is None:
        raise NotFound(f"no operation {id.hex()}")
    return operation


def iter_ids(txn: ReadTransaction, repository: bytes, prefix: str) -> Iterator[bytes]:
    """Yield, in order, the IDs of operations whose lowercase hex digits start with `prefix`."""
    return scan_ids(txn, Table.OPERATIONS, _BY_ID + owner_key(repository), prefix)


def iter_operations(txn: ReadTransaction, repository: bytes) -> Iterator[Operation]:
    """Yield a repository's operations, newest first."""
    for _, data in txn.scan_reverse(Table.OPERATIONS, prefix=_BY_SEQUENCE + owner_key(repository)):
        yield _load(repository, data)


def save_images(txn: WriteTransaction, id: bytes, token: bytes, changed: Iterable[bytes]) -> None:
    """Save the records that are staged at paths, before an operation writes to these paths.

    Only the first image of a path is kept, so that an operation may write in several transactions.
    """
    owner = _image_owner(id, token)
    nothing_staged = not txn.has_owned(Table.STAGING, token)
    remaining = iter(changed)
    while batch := list(islice(remaining, _BATCH)):
        if nothing_staged:
            images = [(path, _NOTHING) for path in batch]
        else:
            images = [
                (path, _NOTHING if value is None else _STAGED + value)
                for path in batch
                for value in (txn.get_path(Table.STAGING, token, path),)
            ]
        txn.put_paths(Table.IMAGES, owner, images, overwrite=False)


def has_image(txn: ReadTransaction, id: bytes, token: bytes, path: bytes) -> bool:
    """Return whether an operation wrote to a path, and so has an image of it."""
    return txn.get_path(Table.IMAGES, _image_owner(id, token), path) is not None


def iter_images(
    txn: ReadTransaction, id: bytes, token: bytes, *, start: bytes = b"", prefix: bytes = b""
) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the paths that an operation wrote to, in order, each with the record staged before.

    The record is ``None`` if nothing was staged at the path.
    """
    owner = _image_owner(id, token)
    for path, image in txn.scan_paths(Table.IMAGES, owner, start=start, prefix=prefix):
        yield path, _staged_of(image)


def _staged_of(image: bytes) -> bytes | None:
    return None if image == _NOTHING else image[len(_STAGED) :]


def remove(txn: WriteTransaction, operation: Operation, *, limit: int | None = None) -> int:
    """Delete an operation with its images, at most `limit` records, and return how many.

    If the number is `limit`, call the function again for the rest. The records of the `sealed`
    tokens are not deleted: only the caller knows which of the tokens are in use again after an
    undo.
    """
    deleted = 0
    for change in operation.staging:
        owner = _image_owner(operation.id, change.token)
        room = None if limit is None else limit - deleted
        deleted += txn.drop_paths(Table.IMAGES, owner, limit=room)
        if deleted == limit:
            return deleted
    txn.delete(Table.OPERATIONS, _BY_ID + owner_key(operation.repository) + operation.id)
    return deleted + txn.delete(Table.OPERATIONS, key_of(operation))


def _image_owner(id: bytes, token: bytes) -> bytes:
    return blake3_of(id + token)[: local_store.OWNER_SIZE]


def _dump(operation: Operation) -> bytes:
    fields = {
        **operation._asdict(),
        "id": operation.id.hex(),
        "at": int(operation.at.timestamp()),
        "refs": [
            {"kind": ref.kind, "name": ref.name, "before": ref.before, "after": ref.after}
            | ({"local": True} if ref.is_local else {})
            for ref in operation.refs
        ],
        "staging": [
            {"branch": change.branch, "token": change.token.hex()} for change in operation.staging
        ],
        "sealed": [token.hex() for token in operation.sealed],
        "metadata": dict(operation.metadata),
    }
    del fields["repository"]  # it is in the key
    return json.dumps(fields, separators=(",", ":")).encode("ascii")


def _load_change(ref: Mapping[str, Any]) -> RefChange:
    records = ref["before"], ref["after"]
    return RefChange(RefKind(ref["kind"]), ref["name"], *records, ref.get("local", False))


def _load(repository: bytes, data: bytes) -> Operation:
    try:
        fields = json.loads(data)
        return Operation(
            id=bytes.fromhex(fields["id"]),
            repository=repository,
            at=datetime.fromtimestamp(fields["at"], UTC),
            command=fields["command"],
            kind=fields["kind"],
            refs=tuple(map(_load_change, fields["refs"])),
            staging=tuple(
                StagingChange(change["branch"], bytes.fromhex(change["token"]))
                for change in fields["staging"]
            ),
            sealed=tuple(bytes.fromhex(token) for token in fields["sealed"]),
            metadata=fields["metadata"],
            sequence=fields["sequence"],
            parts=fields.get("parts", 0),
        )
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise malformed("an operation in the local store is malformed") from error


Rows = dict[bytes, bytes | None]

_TABLES: Final = {
    RefKind.BRANCH: Table.BRANCHES,
    RefKind.TAG: Table.TAGS,
    RefKind.REPOSITORY: Table.REPOSITORIES,
}


class PastStore(local_store.LocalStore):
    """A read-only handle that shows one repository as it was right after an operation.

    Other repositories are shown in their current state.

    Args:
        store: the handle of the local store; the caller must not close it before this handle.
    """

    def __init__(self, store: local_store.LocalStore, repository: bytes, operation: bytes) -> None:
        super().__init__(store.usable())
        self._repository = repository
        self._operation = operation

    def read(self) -> ReadTransaction:
        """Return a read transaction of the past for a ``with`` statement.

        Entering the block raises `NotFound` if the operation has expired.
        """
        return PastTransaction(self.usable(), self._repository, self._operation)

    def write(self) -> NoReturn:
        """Raise `LakeError`: the past cannot be changed."""
        raise LakeError("the past of a repository is for reading only")

    def close(self) -> None:
        """Do nothing: the caller closes the handle of the local store."""


class PastTransaction(ReadTransaction):
    """A snapshot of the store, in which one repository is as it was right after an operation."""

    is_past = True

    def __init__(self, shared: LmdbEnvironment, repository: bytes, operation: bytes) -> None:
        super().__init__(shared)
        self._repository = repository
        self._operation = operation
        self._rows: dict[Table, Rows] = {table: {} for table in _TABLES.values()}
        self._writers: dict[bytes, deque[bytes]] = {}
        """For each staging token, the newer operations that wrote to it, oldest first."""
        self._newest = b""

    def __enter__(self) -> Self:
        """Begin the transaction, and undo in memory all operations after the given one."""
        super().__enter__()
        try:
            self._walk_back()
        except BaseException:
            self._txn.abort()
            raise
        return self

    def _walk_back(self) -> None:
        kept = get(self, self._repository, self._operation)
        for operation in iter_operations(self, self._repository):
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
                self._writers.setdefault(staged.token, deque()).appendleft(operation.id)
        self._newest = key_of(kept)

    def get(self, table: Table, key: bytes) -> bytes | None:
        """Return the value that a key had after the operation, or ``None``."""
        rows = self._rows.get(table)
        return rows[key] if rows and key in rows else super().get(table, key)

    def scan_batches(
        self, table: Table, *, prefix: bytes = b"", start: bytes = b"", cut: int = 0
    ) -> Iterator[list[Record]]:
        """Yield the records as of the end of the operation; see `ReadTransaction.scan_batches`."""
        rows = self._rows.get(table)
        if not rows:
            yield from super().scan_batches(table, prefix=prefix, start=start, cut=cut)
            return
        present = chain.from_iterable(super().scan_batches(table, prefix=prefix, start=start))
        changed = sorted(key for key in rows if key.startswith(prefix) and key >= start)
        found = _existing(put_over(((key, rows[key]) for key in changed), present))
        while batch := list(islice(found, _BATCH)):
            yield [(key[cut:], value) for key, value in batch]

    def scan_keys(
        self, table: Table, *, prefix: bytes = b"", start: bytes = b""
    ) -> Iterator[bytes]:
        """Yield the keys that existed after the operation."""
        if not self._rows.get(table):
            return super().scan_keys(table, prefix=prefix, start=start)
        return (key for key, _ in self.scan(table, prefix=prefix, start=start))

    def scan_reverse(self, table: Table, *, prefix: bytes = b"") -> Iterator[Record]:
        """Yield the records as they were after the operation, in descending order of keys.

        A scan of the operation log omits newer operations.
        """
        if self._rows.get(table):
            yield from reversed(list(self.scan(table, prefix=prefix)))
            return
        of_the_log = table is Table.OPERATIONS and self._newest.startswith(prefix)
        for key, value in super().scan_reverse(table, prefix=prefix):
            if not (of_the_log and key > self._newest):
                yield key, value

    def has_owned(self, table: Table, owner: bytes) -> bool:
        """Return whether a table had rows of one owner."""
        if owner not in self._writers:
            return super().has_owned(table, owner)
        return next(self.scan_paths(table, owner), None) is not None

    def get_path(self, table: Table, owner: bytes, path: bytes) -> bytes | None:
        """Return the value that a path had after the operation, or ``None``."""
        for id_ in self._writers.get(owner, ()):
            image = super().get_path(Table.IMAGES, _image_owner(id_, owner), path)
            if image is not None:
                return _staged_of(image)
        return super().get_path(table, owner, path)

    def scan_paths(
        self, table: Table, owner: bytes, *, start: bytes = b"", prefix: bytes = b""
    ) -> Iterator[Record]:
        """Yield the records as of the end of the operation; see `ReadTransaction.scan_paths`."""
        within = {"start": start, "prefix": prefix}
        present = super().scan_paths(table, owner, **within)
        ids = self._writers.get(owner)
        if not ids:
            return present
        # There may be thousands of layers. Of equal paths, that of the first layer comes first.
        images = [iter_images(self, id_, owner, **within) for id_ in ids]
        merged = merge(*images, present, key=itemgetter(0))
        return _existing(next(group) for _, group in groupby(merged, key=itemgetter(0)))


def _existing(records: Iterator[tuple[bytes, bytes | None]]) -> Iterator[Record]:
    """Skip the paths without a record."""
    return ((path, value) for path, value in records if value is not None)

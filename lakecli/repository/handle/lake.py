"""A lake: the repositories of one home, in one local store.

`Lake.open` is the entry point of the library. All input that is not an argument, such as the clock,
is passed as a `Home` and a `Runtime`.

When a repository is deleted, its rows stay under its UUID, so that the operation log can restore
it. The records of the deleted repositories are kept under their names::

    REPOSITORIES  name                         -> the record
    META          creating/BLAKE3(namespace)   -> the record of a creation that has begun
                  forgotten/name/number        -> the record of a repository that was deleted here
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Self

from lakecli.base.directories import make_private
from lakecli.base.ids import RepositoryUuid
from lakecli.base.model import RepositoryRecord
from lakecli.errors import AlreadyExists, LakeError, NotFound, NothingToDo
from lakecli.kv.local_store import LocalStore, ReadTransaction, Table, WriteTransaction
from lakecli.refs.ref_store import RefStore
from lakecli.repository.contract import BranchMover, Hook, Notice, OwnLake, Repository
from lakecli.repository.runtime import Home, Runtime

if TYPE_CHECKING:
    from lakecli.committed.cache import Reads
    from lakecli.committed.tree_store import TreeStore
    from lakecli.kv.bucket import TrackingStore
    from lakecli.repository.guard import GcGuard
    from lakecli.repository.reading.addresses import Resolver
    from lakecli.repository.reading.reader import Reader
    from lakecli.stores.contract import ObjectStore


_NEIGHBOURS: Final = 1_000
"""The number of repositories that are searched for the name that the user probably meant."""

_NUMBER_SIZE: Final = 8

_FORGOTTEN: Final = b"forgotten/"


class Lake:
    """A lake: the set of repositories of one home. Close it, or use it as a context manager.

    Threads can share a lake; close it when no thread uses it any more. It cannot be used in a
    process that was forked after the lake was opened.
    """

    def __init__(self, home: Home, store: LocalStore, runtime: Runtime) -> None:
        self.home = home
        self.kv = store
        self.runtime = runtime

    @classmethod
    def open(cls, home: Home, runtime: Runtime) -> Self:
        """Open the local store, or create it if it does not exist.

        Raises:
            PermissionDenied: the home is not writable.
            Refused: a newer lakecli wrote the store, or it is on a network file system.
        """
        return cls(home, LocalStore.open(home.store), runtime)

    def close(self) -> None:
        """Close the local store; safe to repeat."""
        self.kv.close()

    def __enter__(self) -> Self:
        """Return the lake itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the lake."""
        self.close()

    def tidy(self, repository: Repository) -> None:
        """Delete some expired records; called after each operation.

        More records are deleted than one operation writes, so expired records do not accumulate.
        Errors are ignored: the operation is already durable, and the next command tries again.
        """
        from lakecli.repository.handle.housekeeping import tidy

        with suppress(LakeError):
            tidy(repository)

    def forgotten(self, txn: ReadTransaction) -> Iterator[Repository]:
        """Yield the repositories that were deleted here and can still be restored."""
        return (LocalRepository(self, record) for record in iter_forgotten(txn))

    def forget(self, txn: WriteTransaction, repository: Repository) -> None:
        """Delete the record of a deleted repository. Afterwards it cannot be restored."""
        drop_forgotten(txn, repository.record)

    def for_repository(self, name: str) -> Lake:
        """Return this lake with a runtime that opens stores with the settings of a repository."""
        runtime = self.runtime.for_repository(name)
        return self if runtime is self.runtime else Lake(self.home, self.kv, runtime)

    def repositories(self, *, prefix: str = "", after: str = "") -> Iterator[RepositoryRecord]:
        """Yield the record of each repository, ordered by name."""
        with self.kv.read() as txn:
            yield from iter_repositories(txn, prefix=prefix, after=after)

    def repository(self, name: str) -> LocalRepository:
        """Return a handle to a repository of this lake.

        Raises:
            NotFound: no repository has that name.
        """
        with self.kv.read() as txn:
            record = find_repository(txn, name)
            if record is None:
                raise _no_such_repository(txn, name)
        return LocalRepository(self, record)


def _no_such_repository(txn: ReadTransaction, name: str) -> NotFound:
    from difflib import get_close_matches

    names = (record.name for record in islice(iter_repositories(txn), _NEIGHBOURS))
    hint = "list them: `repo list`"
    if next(iter_forgotten(txn, name), None) is not None:
        hint = f"it was deleted; see the operation log: `op log lakefs://{name}`"
    elif near := get_close_matches(name, names, n=1):
        hint = f"did you mean lakefs://{near[0]}?"
    return NotFound(f"no repository {name!r} on this machine", hint=hint)


class LocalRepository:
    """One repository of a lake: the first argument of the functions of `lakecli.repository`.

    Creating a handle reads nothing: the repository may be deleted, or not exist yet.
    Threads can share a handle, with its store, trees and guard. Any number of functions may run
    concurrently. If two of them move one branch, compare-and-set protects the branch, as between
    two processes.

    Args:
        lake: the lake that contains the repository.
        record: the repository's record in the local store.

    Attributes:
        mover: moves the branches in the bucket; ``None``: branches move only on this machine.
    """

    def __init__(self, lake: OwnLake, record: RepositoryRecord) -> None:
        self.lake = lake.for_repository(record.name)
        self.record = record
        self.name = record.name
        self.uri = f"lakefs://{record.name}"
        self.mover: BranchMover | None = None
        self.key = record.uuid.key
        """The first 16 bytes of the key of each row of the repository in the local store."""
        self.store_in_use: ObjectStore | None = None
        """The storage namespace; ``None`` before its first use."""
        self.reads: Reads | None = None
        """The number of tree reads served by each cache tier; ``None`` if no tree was read."""
        self.hooks: dict[str, Hook] = {}
        """Functions to call before and after moves; see `lakecli.repository.journal.hooks`."""
        self.skips_hooks = False
        self.notices: list[Notice] = []
        """Notices that functions have added for the caller, who shows and clears them."""

    def __enter__(self) -> Self:
        """Return the repository itself."""
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Push the refs that have unsent moves, unless an error occurred; close the lake.

        Raises:
            LostRace, AlreadyExists: a move of a ref would undo others' moves, and was not pushed.
            Unreachable, PermissionDenied, …: a move was not pushed; the next command tries again.
        """
        try:
            if error is None and self.mover is not None:
                self.mover.finish(self)
        finally:
            self.note_reads()
            self.lake.close()

    def reader(
        self, ref: str, *, fill: bytes | str | None = None
    ) -> AbstractContextManager[Reader]:
        """Open a ref for reading many entries; a plain branch includes its uncommitted changes.

        Args:
            fill: a prefix of paths, ``""`` for all paths. Until the reader is closed, a thread
                reads the entries with this prefix into memory, up to half of ``cache.memory``.

        Raises:
            UsageError: the expression is malformed.
            NotFound: the expression names nothing.
        """
        from lakecli.repository.reading.reader import open_reader

        return open_reader(self, ref, fill=fill)

    def refs(self, txn: ReadTransaction) -> RefStore:
        """Return the branches, tags and commits, as one transaction sees them.

        Methods that write need a write transaction.
        """
        return RefStore(txn, self.key)

    def tracking(self, txn: ReadTransaction) -> TrackingStore:
        """Return the refs of the bucket as this clone last read them."""
        from lakecli.kv.bucket import TrackingStore

        return TrackingStore(txn, self.key)

    @property
    def syncs(self) -> bool:
        """Whether moves of refs are sent to the bucket automatically, without an explicit push."""
        return self.mover is not None

    def notify(self, message: str, hint: str | None = None) -> None:
        """Add a notice for the caller, unless the same notice is already listed."""
        notice = Notice(message, hint)
        if notice not in self.notices:
            self.notices.append(notice)

    def is_here(self) -> bool:
        """Return whether this machine still has the repository, under the name of this handle."""
        with self.lake.kv.read() as txn:
            found = find_repository(txn, self.name)
        return found is not None and found.uuid == self.record.uuid

    def at(self, ref: str, path: str = "") -> str:
        """Return the URI of a path, or of a whole ref, in the form that users type."""
        return f"{self.uri}/{ref}/{path}"

    @cached_property
    def store(self) -> ObjectStore:
        """The store of the namespace. The first use imports its adapter; it sends no request."""
        record, open_store = self.record, self.lake.runtime.open_store
        store = self.store_in_use = open_store(record.storage_namespace, record.region)
        if record.is_borrowed:
            from pathlib import Path

            from lakecli.stores.overlay import OverlayStore

            make_private(own := Path(self.lake.home.store).with_name("objects") / record.uuid)
            return OverlayStore(open_store(str(own), ""), store)
        return store

    @cached_property
    def addresses(self) -> Resolver:
        """Resolves the physical addresses of entries."""
        from lakecli.repository.reading.addresses import Resolver

        opens, finds = self.lake.runtime.open_store, self.lake.runtime.prepare_namespace
        return Resolver(self.store, self, opens, finds, self.record.region)

    @cached_property
    def trees(self) -> TreeStore:
        """The committed trees in the storage namespace, cached in the lake's home."""
        from lakecli.committed.cache import SstableCache
        from lakecli.committed.tree_store import RebuiltTrees, TreeStore

        home = self.lake.home
        cached = os.path.join(home.cache, self.record.uuid)
        trees = TreeStore(
            self.store,
            cache=SstableCache(cached, size_limit=home.cache_size, secret=self.lake.kv.secret),
            range_entries=self.record.range_entries,
            memory=home.memory_size,
            reads=self.reads,
            guard=lambda: self.guard,
            rebuilt=RebuiltTrees(self.lake.kv, self.key, self.lake.runtime.show_rebuild),
        )
        self.reads = trees.reads
        return trees

    def forget_trees(self) -> None:
        """Drop the trees cached in memory: a table that could not be read may be readable now."""
        self.note_reads()
        self.__dict__.pop("trees", None)

    def note_reads(self) -> None:
        """Save the counts of tree reads since the last call, for `lakecli doctor`."""
        if "trees" in self.__dict__:
            self.trees.note_reads()

    @cached_property
    def guard(self) -> GcGuard:
        """Protects from garbage collection what this process is about to use."""
        from lakecli.repository.guard import GcGuard

        runtime = self.lake.runtime
        return GcGuard(
            self.store, monotonic=runtime.elapsed, sleep=runtime.sleep, new_id=runtime.new_id
        )


def record_fields(record: RepositoryRecord) -> dict[str, object]:
    """Return a record's fields for JSON, with times as Unix seconds."""
    fields = record._asdict() | {"created_at": int(record.created_at.timestamp())}
    # Leave out flags that are not set, as earlier versions did: only namespaces of lakeFS set them.
    return {name: value for name, value in fields.items() if value is not False}


def record_of(fields: Mapping[str, Any]) -> RepositoryRecord:
    """Rebuild a record from the fields that `record_fields` returned."""
    known = {name: fields[name] for name in RepositoryRecord._fields if name in fields}
    known |= {"uuid": RepositoryUuid(fields["uuid"])}
    known |= {"created_at": datetime.fromtimestamp(fields["created_at"], UTC)}
    return RepositoryRecord(**known)


def _load(data: bytes) -> RepositoryRecord:
    return record_of(json.loads(data))


def _dump(record: RepositoryRecord) -> bytes:
    return json.dumps(record_fields(record), separators=(",", ":")).encode()


def _name(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def find_repository(txn: ReadTransaction, name: str) -> RepositoryRecord | None:
    """Return a repository's record, or ``None``."""
    data = txn.get(Table.REPOSITORIES, _name(name))
    return None if data is None else _load(data)


def check_name_free(txn: ReadTransaction, name: str, namespace: str = "") -> None:
    """Raise an error if a repository of this machine already has the name of a new repository.

    Args:
        txn: the state of the local store.
        name: the name of the new repository.
        namespace: the storage namespace of the repository to clone; ``""`` if none is cloned.

    Raises:
        AlreadyExists: a repository with another namespace has the name.
        NothingToDo: the repository with this name has this namespace, so it is cloned already.
    """
    record = find_repository(txn, name)
    if record is not None:
        what = f"repository {name!r} exists already on this machine, in {record.storage_namespace}"
        if record.storage_namespace == namespace:
            raise NothingToDo(what, hint=f"bring it up to date: `pull lakefs://{name}`")
        raise AlreadyExists(what, hint="choose another name, or look: `repo list`")


def iter_repositories(
    txn: ReadTransaction, *, prefix: str = "", after: str = ""
) -> Iterator[RepositoryRecord]:
    """Yield the records of repositories, ordered by name."""
    start = _name(after) + b"\0" if after else b""
    for _, data in txn.scan(Table.REPOSITORIES, prefix=_name(prefix), start=start):
        yield _load(data)


def put_repository(txn: WriteTransaction, record: RepositoryRecord) -> None:
    """Write a repository's record under its name; it no longer counts as deleted."""
    txn.put(Table.REPOSITORIES, _name(record.name), _dump(record))
    drop_forgotten(txn, record)


def delete_repository(txn: WriteTransaction, record: RepositoryRecord) -> None:
    """Delete the record of a repository; its other rows are kept, so that undo can restore it."""
    txn.delete(Table.REPOSITORIES, _name(record.name))
    prefix = _forgotten_key(record.name)
    newest = next(txn.scan_reverse(Table.META, prefix=prefix), None)
    number = 1 + (int.from_bytes(newest[0][len(prefix) :]) if newest is not None else 0)
    txn.put(Table.META, prefix + number.to_bytes(_NUMBER_SIZE), _dump(record))


def iter_forgotten(txn: ReadTransaction, name: str | None = None) -> Iterator[RepositoryRecord]:
    """Yield the records of repositories deleted on this machine; for each name, last deleted first.

    A repository that exists again, possibly under another name, is left out.

    Args:
        txn: the state of the local store.
        name: only repositories that had this name; ``None``: any name.
    """
    here = {record.uuid for record in iter_repositories(txn)}
    prefix = _FORGOTTEN if name is None else _forgotten_key(name)
    for _, data in txn.scan_reverse(Table.META, prefix=prefix):
        record = _load(data)
        if record.uuid not in here:
            yield record


def drop_forgotten(txn: WriteTransaction, record: RepositoryRecord) -> None:
    """Delete the record of a deleted repository. Afterwards it cannot be restored."""
    for key, data in list(txn.scan(Table.META, prefix=_forgotten_key(record.name))):
        if _load(data).uuid == record.uuid:
            txn.delete(Table.META, key)


def _forgotten_key(name: str) -> bytes:
    return _FORGOTTEN + _name(name) + b"/"


def _intention_key(storage_namespace: str) -> bytes:
    from lakecli.base.identity import blake3_of  # only creating a repository needs it

    return b"creating/" + blake3_of(storage_namespace.encode("utf-8", "surrogateescape"))[:16]


def find_intention(txn: ReadTransaction, storage_namespace: str) -> RepositoryRecord | None:
    """Return the record of an unfinished creation of a repository in a namespace, or ``None``."""
    data = txn.get(Table.META, _intention_key(storage_namespace))
    return None if data is None else _load(data)


def put_intention(txn: WriteTransaction, record: RepositoryRecord) -> None:
    """Record that a repository is about to be created in its namespace."""
    txn.put(Table.META, _intention_key(record.storage_namespace), _dump(record))


def delete_intention(txn: WriteTransaction, record: RepositoryRecord) -> None:
    """Delete the record of an unfinished creation, because the repository exists now."""
    txn.delete(Table.META, _intention_key(record.storage_namespace))

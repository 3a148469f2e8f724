"""A lake: the repositories of one home, in one local store.

`Lake.open` is the entry point of the library. Everything that is not a function of its arguments
comes in here, as a `Home` and a `Runtime`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import cached_property, partial
from time import sleep
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from lakecli.base.directories import make_private
from lakecli.base.elapsed import elapsed
from lakecli.base.ids import RepositoryUuid
from lakecli.base.model import NO_ACCOUNT, Account, RepositoryRecord
from lakecli.base.progress import NO_PROGRESS, Progress, ignore_step
from lakecli.errors import NotFound
from lakecli.kv.env import LocalStore
from lakecli.repository.core import records
from lakecli.repository.core.mover import LOCAL_MOVER, BranchMover

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.base.directories import StrPath
    from lakecli.committed.cache import Reads, SstableCache
    from lakecli.committed.tree_store import TreeStore
    from lakecli.repository.core.address import Resolver
    from lakecli.repository.core.answer import Answer
    from lakecli.repository.core.gc_guard import GcGuard
    from lakecli.repository.core.notice import Notice
    from lakecli.repository.core.reader import Reader
    from lakecli.repository.core.rebuilt import RebuiltTrees
    from lakecli.stores.base import ObjectStore

DEFAULT_CACHE_SIZE = 10 << 30
DEFAULT_MEMORY_SIZE = 1 << 30


def _no_place(_repository: str) -> Sequence[str]:
    return ()


def _no_account(_repository: str) -> Account:
    return NO_ACCOUNT


def _open_store(uri: str, region: str, *, account: Account = NO_ACCOUNT) -> ObjectStore:
    from lakecli.stores.registry import open_store

    return open_store(uri, region=region, account=account)


def _prepare_namespace(uri: str, *, account: Account = NO_ACCOUNT) -> str:
    from lakecli.stores.registry import prepare_namespace

    return prepare_namespace(uri, account=account)


class Home(NamedTuple):
    """The directories of a lake on this machine.

    Attributes:
        store: the directory of the LMDB environment.
        cache: the directory of cached SSTables; it may be deleted at any time.
        cache_size: the limit of the cache of a repository in bytes.
        memory_size: the limit of the parts of trees that a repository keeps in memory, in bytes.
    """

    store: StrPath
    cache: StrPath
    cache_size: int = DEFAULT_CACHE_SIZE
    memory_size: int = DEFAULT_MEMORY_SIZE

    def objects_of(self, uuid: RepositoryUuid) -> Path:
        """Return the directory of what is committed on top of a borrowed namespace."""
        from pathlib import Path

        return Path(self.store).with_name("objects") / uuid


def _show_nothing(_entries: int) -> AbstractContextManager[Progress]:
    return nullcontext(NO_PROGRESS)


def _give_at_once(answer: Answer) -> None:
    answer.give()


class Runtime(NamedTuple):
    """The clocks, random numbers and stores that a lake uses; tests replace them.

    Attributes:
        clock: returns the present as an aware UTC datetime.
        new_id: returns 16 random bytes.
        command: the command line that the operation log records; no secrets.
        on_step: called with the name of each step of a protocol before it is taken.
        trusted: given the name of a repository, returns the places outside its namespace that the
            configuration allows it to read; see `lakecli.repository.core.places`.
        open_store: given the URI of a storage namespace and its region, returns its store.
        prepare_namespace: given the URI of a storage namespace, makes its directory if it is
            missing, and returns its region.
        elapsed: returns seconds that only grow, also while the machine is asleep.
        sleep: waits for some seconds.
        show_rebuild: given a number of entries, shows how a tree of lakeFS is rebuilt; see
            `lakecli.committed.rebuild`.
        account: given the name of a repository, returns how its buckets of S3 are accessed.
        on_answer: takes over the answer of a verb, which the caller gives; by default, it has.
    """

    clock: Callable[[], datetime]
    new_id: Callable[[], bytes]
    command: str = ""
    on_step: Callable[[str], None] = ignore_step
    trusted: Callable[[str], Sequence[str]] = _no_place
    open_store: Callable[[str, str], ObjectStore] = _open_store
    prepare_namespace: Callable[[str], str] = _prepare_namespace
    elapsed: Callable[[], float] = elapsed
    sleep: Callable[[float], None] = sleep
    show_rebuild: Callable[[int], AbstractContextManager[Progress]] = _show_nothing
    account: Callable[[str], Account] = _no_account
    on_answer: Callable[[Answer], None] = _give_at_once

    def for_repository(self, name: str) -> Runtime:
        """Return a runtime that opens stores as a repository's settings say."""
        account = self.account(name)
        if account == NO_ACCOUNT:
            return self
        return self._replace(
            open_store=partial(_open_store, account=account),
            prepare_namespace=partial(_prepare_namespace, account=account),
        )

    def find_store(self, uri: str) -> tuple[ObjectStore, str]:
        """Return the store of a namespace that exists, and the region of its bucket.

        A missing directory is not made: it may be a disk that is not mounted.

        Raises:
            BucketNotFound: no such bucket.
        """
        from lakecli.stores.uri import is_local

        region = "" if is_local(uri) else self.prepare_namespace(uri)
        return self.open_store(uri, region), region


class Lake:
    """A lake is the set of repositories of one home. Close it, or use it as a context manager.

    Safe to share between threads; close it when none of them uses it any more. Not usable in a
    process forked after it was opened.
    """

    def __init__(self, home: Home, store: LocalStore, runtime: Runtime) -> None:
        self.home = home
        self.kv = store
        self.runtime = runtime

    @classmethod
    def open(cls, home: Home, runtime: Runtime) -> Self:
        """Open the local store, and create it at first use.

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
        """Close it."""
        self.close()

    def for_repository(self, name: str) -> Lake:
        """Return this lake, opening stores as a repository's settings say."""
        runtime = self.runtime.for_repository(name)
        return self if runtime is self.runtime else Lake(self.home, self.kv, runtime)

    def now(self) -> datetime:
        """Return the present in whole seconds."""
        return self.runtime.clock().replace(microsecond=0)

    def random_number(self) -> float:
        """Return a random number from 0 to 1."""
        return int.from_bytes(self.runtime.new_id()[:4]) / 0xFFFFFFFF

    def repositories(self, *, prefix: str = "", after: str = "") -> Iterator[RepositoryRecord]:
        """Yield the record of each repository, ordered by name."""
        with self.kv.read() as txn:
            yield from records.iter_repositories(txn, prefix=prefix, after=after)

    def repository(self, name: str, *, mover: BranchMover = LOCAL_MOVER) -> Repository:
        """Return a handle to a repository of this lake.

        Args:
            name: of the repository.
            mover: moves its branches.

        Raises:
            NotFound: no repository has that name.
        """
        with self.kv.read() as txn:
            record = records.find_repository(txn, name)
            was_here = record is None and next(records.iter_forgotten(txn, name), None) is not None
        if record is None:
            hint = "list them: lakecli repo list"
            if was_here:
                hint = f"it was deleted; see the operation log: lakecli op log lakefs://{name}"
            raise NotFound(f"no repository {name!r} on this machine", hint=hint)
        return Repository(self, record, mover=mover)


class Repository:
    """One repository of a lake; the verbs of `lakecli.repository` take it as first argument.

    Safe to share between threads, with its store, trees and guard: any number of verbs may run at
    once, and two that move one branch compare as two processes do.

    Args:
        lake: the lake that it belongs to.
        record: what the local store holds of it.
        mover: moves its branches.
    """

    def __init__(
        self, lake: Lake, record: RepositoryRecord, *, mover: BranchMover = LOCAL_MOVER
    ) -> None:
        self.lake = lake.for_repository(record.name)
        self.record = record
        self.mover = LOCAL_MOVER if record.is_borrowed else mover
        self.key = record.uuid.key
        """The 16 bytes that this repository's rows in the local store begin with."""
        self._store: ObjectStore | None = None
        self._trees: TreeStore | None = None
        self.reads: Reads | None = None
        """How many reads of trees each tier answered; ``None`` if there were none."""
        self.notices: list[Notice] = []
        """What verbs found out, for the caller to show and to clear."""

    def __enter__(self) -> Self:
        """Return the repository itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Push what is still to be pushed, unless there was an error; close the lake.

        Raises:
            LostRace, AlreadyExists: a move would undo others' moves; it was not pushed.
            Unreachable, PermissionDenied, …: it was not pushed; the next command tries again.
        """
        try:
            if error is None:
                self.mover.finish(self)
        finally:
            self.note_reads()
            self.lake.close()

    def reader(
        self, ref: str, *, fill: bytes | str | None = None
    ) -> AbstractContextManager[Reader]:
        """Open a ref for reading many entries; a plain branch includes its uncommitted changes.

        Args:
            ref: a ref expression.
            fill: a prefix of paths, ``""`` for all. Until the reader is closed, a thread reads the
                entries below it into memory, for which half of ``cache.memory`` is used.

        Raises:
            UsageError: the expression is malformed.
            NotFound: it names nothing.
        """
        from lakecli.repository.core.reader import open_reader

        return open_reader(self, ref, fill=fill)

    @property
    def syncs(self) -> bool:
        """Whether what moves here goes to the bucket without a push: the setting ``sync``."""
        return self.mover.command_id is not None

    def notify(self, notice: Notice) -> None:
        """Add a notice for the caller, unless it is there already."""
        if notice not in self.notices:
            self.notices.append(notice)

    @property
    def name(self) -> str:
        """The name on this machine."""
        return self.record.name

    def is_here(self) -> bool:
        """Tell whether this machine still has the repository, under this name."""
        with self.lake.kv.read() as txn:
            found = records.find_repository(txn, self.name)
        return found is not None and found.uuid == self.record.uuid

    @property
    def uri(self) -> str:
        """``lakefs://name``."""
        return f"lakefs://{self.record.name}"

    def at(self, ref: str, path: str = "") -> str:
        """Return the URI of a path, or of all of a ref, as it is typed."""
        return f"{self.uri}/{ref}/{path}"

    @property
    def store_in_use(self) -> ObjectStore | None:
        """The storage namespace if it was used already, else ``None``; imports nothing."""
        return self._store

    @property
    def store(self) -> ObjectStore:
        """The storage namespace; the first use imports its adapter, and sends no request."""
        if self._store is None:
            record, open_store = self.record, self.lake.runtime.open_store
            self._store = open_store(record.storage_namespace, record.region)
            if record.is_borrowed:
                from lakecli.stores.overlay import OverlayStore

                make_private(own := self.lake.home.objects_of(record.uuid))
                self._store = OverlayStore(open_store(str(own), ""), self._store)
        return self._store

    @cached_property
    def addresses(self) -> Resolver:
        """Resolves the physical addresses of entries."""
        from lakecli.repository.core.address import Resolver
        from lakecli.repository.core.places import trust_of

        return Resolver(
            lambda: self.store,
            lambda: trust_of(self),
            open_store=self.lake.runtime.open_store,
            find_region=self.lake.runtime.prepare_namespace,
            region=self.record.region,
        )

    @property
    def trees(self) -> TreeStore:
        """The committed trees in the storage namespace, cached in the lake's home."""
        if self._trees is None:
            from lakecli.committed.tree_store import TreeStore

            self._trees = TreeStore(
                self.store,
                cache=self._table_cache,
                range_entries=self.record.range_entries,
                memory=self.lake.home.memory_size,
                reads=self.reads,
                guard=lambda: self.guard,
                rebuilt=self._rebuilt,
            )
            self.reads = self._trees.reads
        return self._trees

    def _table_cache(self) -> SstableCache:
        from lakecli.committed.cache import SstableCache

        home = self.lake.home
        place = os.path.join(home.cache, self.record.uuid)
        return SstableCache(place, size_limit=home.cache_size)

    def _rebuilt(self) -> RebuiltTrees:
        from lakecli.repository.core.rebuilt import RebuiltTrees

        return RebuiltTrees(self)

    def forget_trees(self) -> None:
        """Drop the trees in memory: a table that could not be read may be there now."""
        self.note_reads()
        self._trees = None

    def note_reads(self) -> None:
        """Keep the counts of reads of trees for `lakecli doctor`, those since the last call."""
        if self._trees is not None:
            self._trees.note_reads()

    @cached_property
    def guard(self) -> GcGuard:
        """Protects what this process takes into use from garbage collection."""
        from lakecli.repository.core.gc_guard import GcGuard

        runtime = self.lake.runtime
        return GcGuard(
            self.store, monotonic=runtime.elapsed, sleep=runtime.sleep, new_id=runtime.new_id
        )

"""Open the repository of a storage namespace for reading, without a clone.

Nothing is written to the bucket. On this machine only the cache is written and, until the handle is
closed, a local store in a temporary directory. Staged changes and operation logs exist in clones
only, so the handle has none. A verb that would write raises `Refused`.

The local store of such a handle fetches records when they are first read, with the code of clone
and fetch. When a ref is looked up, it is read by its key, with the commit pack that its last move
names. When refs are listed, all refs are read with all their packs. When a commit is looked up,
packs are read, the largest first, until the commit is found. So the first read of a ref takes a few
requests, however long the history is. Records in the local store are added and never changed, so a
handle shows one state of each ref.
"""

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from shutil import rmtree
from tempfile import mkdtemp
from threading import RLock
from typing import Final, NoReturn

from lakecli.base.ids import CommitId, PackId
from lakecli.base.model import NAMED_KINDS, Branch, RefKind, RepositoryRecord, StagingToken, Tag
from lakecli.base.temporary_files import finalize_here
from lakecli.base.uri import LakeUri
from lakecli.errors import Unreachable
from lakecli.kv.local_store import OWNER_SIZE, LocalStore, ReadTransaction, Table
from lakecli.refs.names import is_ref_name
from lakecli.remote.packs import read_named_packs
from lakecli.remote.ref_records import InvalidRecord, RemoteRef
from lakecli.remote.refs import find_ref
from lakecli.repository.commit_attempts import initial_commit
from lakecli.repository.contract import Repository
from lakecli.repository.handle.lake import Lake, LocalRepository
from lakecli.repository.handle.namespace import describe_there
from lakecli.repository.journal import tracking
from lakecli.repository.runtime import Home, Runtime
from lakecli.repository.sharing.fetch import notify, read_remote, take_new_packs, take_packs, unpack
from lakecli.stores.contract import ObjectStore
from lakecli.stores.read_only import ReadOnlyStore
from lakecli.stores.uri import normalise

_KINDS: Final = {Table.BRANCHES: RefKind.BRANCH, Table.TAGS: RefKind.TAG}
_NO_STAGING: Final = StagingToken(bytes(OWNER_SIZE))
"""The staging token of all branches, under which nothing is staged."""


def open_remote(home: Home, runtime: Runtime, storage_namespace: str) -> "RemoteRepository":
    """Open the repository of a storage namespace for reading.

    This takes one request for the repository's description, and another one for the bucket's region
    if buckets of this store have regions.

    Args:
        home: only its cache is used; no directory of it is created before something is cached.
        storage_namespace: a URI or an absolute path.

    Raises:
        UsageError: an illegal namespace.
        NotFound: there is no repository in that namespace.
        Refused: the namespace belongs to lakeFS, or needs a newer lakecli.
    """
    uri = normalise(storage_namespace)
    store, record = describe_there(runtime, uri, uri)
    return RemoteRepository(home, runtime, record, store)


class RemoteRepository(LocalRepository):
    """A repository that is read from its bucket without a clone; `open_remote` returns it.

    A handle shows one state: each ref is read once. Open another handle for a newer state.

    Args:
        home: only its cache is used.
        record: the record of the repository, whose name is the URI of the namespace.
    """

    def __init__(
        self, home: Home, runtime: Runtime, record: RepositoryRecord, store: ObjectStore
    ) -> None:
        readable = ReadOnlyStore(
            store, hint=f"clone it, and change the clone: `clone {record.name} lakefs://NAME`"
        )
        local = OnDemandStore(readable.put)
        super().__init__(Lake(home, local, runtime), record)
        self.uri = record.name
        self.store = self.store_in_use = readable
        filled = copy(self)
        filled.lake = Lake(home, local.filled, runtime)
        local.fetching = Fetching(filled)

    def at(self, ref: str, path: str = "") -> str:
        """Return the URI of a path, or of a whole ref, as users type it."""
        return f"{LakeUri(self.record.name, ref)}/{path}"


class OnDemandStore(LocalStore):
    """The local store of a repository that is read without a clone.

    Safe to share between threads.

    Args:
        refuse: a function that raises the error for an attempt to write.

    Raises:
        Unreachable: there is no space for a temporary directory.
    """

    read_only = True

    def __init__(self, refuse: Callable[[], NoReturn]) -> None:
        try:
            directory = mkdtemp(prefix="lakecli-")
        except OSError as error:
            hint = "set TMPDIR to a directory on a disk with free space"
            raise Unreachable(f"cannot make a temporary directory: {error}", hint=hint) from error
        self.filled = LocalStore.open(directory, durable=False)
        """The same store, writable, for the records that are fetched."""
        super().__init__(self.filled.usable())
        self._remove = finalize_here(self, _discard, self.filled, directory)
        self._refuse = refuse
        self.fetching: Fetching | None = None
        """Fetches the records that are read."""

    def read(self) -> ReadTransaction:
        """Return a read transaction, which also sees records that are fetched while it is open."""
        assert self.fetching is not None
        return _Reading(self, self.fetching)

    def write(self) -> NoReturn:
        """Raise an error: this store is read-only.

        Raises:
            Refused: always.
        """
        self._refuse()

    def close(self) -> None:
        """Remove the store; safe to repeat."""
        self._closed = True
        self._remove()


def _discard(store: LocalStore, directory: str) -> None:
    store.close()
    rmtree(directory, ignore_errors=True)


class _Reading(ReadTransaction):
    """A read transaction that fetches missing records, and then sees them."""

    def __init__(self, store: OnDemandStore, fetch: "Fetching") -> None:
        super().__init__(store.usable())
        self._filled = store.filled
        self._fetch = fetch

    def get(self, table: Table, key: bytes) -> bytes | None:
        """Return the value of a key, fetched if necessary, or ``None``."""
        value = super().get(table, key)
        if value is not None:
            return value
        self._fetch.row(table, key)
        with self._filled.read() as txn:
            return txn.get(table, key)

    def scan_batches(
        self, table: Table, *, prefix: bytes = b"", start: bytes = b"", cut: int = 0
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        """Fetch the table if necessary, then scan it as `ReadTransaction.scan_batches` does."""
        self._fetch.table(table)
        with self._filled.read() as txn:
            yield from txn.scan_batches(table, prefix=prefix, start=start, cut=cut)

    def scan_keys(
        self, table: Table, *, prefix: bytes = b"", start: bytes = b""
    ) -> Iterator[bytes]:
        """Fetch the table if necessary, then scan it as `ReadTransaction.scan_keys` does."""
        self._fetch.table(table)
        with self._filled.read() as txn:
            yield from txn.scan_keys(table, prefix=prefix, start=start)

    def scan_reverse(self, table: Table, *, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Fetch the table if necessary, then scan it as `ReadTransaction.scan_reverse` does."""
        self._fetch.table(table)
        with self._filled.read() as txn:
            yield from txn.scan_reverse(table, prefix=prefix)


class Fetching:
    """Fetches the refs and commits of a repository, each at most once.

    Args:
        repository: a handle of the repository, to whose local store the records are written. It
            shares its notices with the user's handle.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._lock = RLock()
        self._read: set[tuple[RefKind, str]] = set()
        self._listed: set[RefKind] = set()
        self._named: set[PackId] = set()
        self._has_searched = False
        self._has_all_packs = False
        with repository.lake.kv.write() as txn:
            first = initial_commit(repository.record.created_at)
            repository.refs(txn).put_commit(first)
        self._first = first.id
        self._default = (RefKind.BRANCH, repository.record.default_branch)

    def row(self, table: Table, key: bytes) -> None:
        """Fetch the ref or commit of a row, unless it was fetched before."""
        if not key.startswith(self._repository.key):
            return
        name = key[OWNER_SIZE:]
        with self._lock:
            if table in _KINDS:
                self._fetch_ref(_KINDS[table], _text(name))
            elif table is Table.TRACKING:
                kind, _, name = name.partition(b"\0")
                self._fetch_ref(RefKind(kind.decode("ascii")), _text(name))
            elif table is Table.COMMITS:
                self._fetch_commit(CommitId(name.hex()))

    def table(self, table: Table) -> None:
        """Fetch all refs or commits of a table, unless they were fetched before."""
        with self._lock:
            if table in _KINDS:
                self._list_refs({_KINDS[table]})
            elif table is Table.TRACKING:
                self._list_refs(set(NAMED_KINDS))
            elif table is Table.COMMITS:
                self._fetch_packs()

    def _fetch_ref(self, kind: RefKind, name: str) -> None:
        is_read = (kind, name) in self._read or kind in self._listed
        if is_read or not is_ref_name(kind, name):
            return
        ref = find_ref(self._repository.store, kind, name)
        if ref is not None:
            packs = [move.pack for move in ref.moves if move.after == ref.commit_id and move.pack]
            if ref.commit_id is not None and not self._has(ref.commit_id):
                read = read_named_packs(self._repository.store, packs[:1])
                self._report(unpack(self._repository, read).damaged)
                self._fetch_commit(ref.commit_id)
            self._keep([ref])
        elif (kind, name) == self._default:
            self._make_default()
        self._read.add((kind, name))  # only now: after an error, the ref is read again

    def _list_refs(self, kinds: set[RefKind]) -> None:
        if not (kinds := kinds - self._listed):
            return
        remote = read_remote(
            self._repository,
            {},
            wanted=lambda kind, name: kind in kinds and (kind, name) not in self._read,
        )
        self._report([*remote.damaged, *take_packs(self._repository, remote.refs).damaged])
        self._listed |= kinds
        self._read |= {(ref.kind, ref.name) for ref in remote.refs}
        self._keep(remote.refs)
        damaged = {(each.kind, each.name) for each in remote.damaged}
        if RefKind.BRANCH in kinds and self._default not in self._read | damaged:
            self._make_default()

    def _keep(self, refs: Iterable[RemoteRef]) -> None:
        repository = self._repository
        with repository.lake.kv.write() as txn:
            refs_here = repository.refs(txn)
            for ref in refs:
                tracking.track(txn, repository, ref)
                self._named.update(move.pack for move in ref.moves if move.pack)
                if ref.commit_id is not None and ref.kind is RefKind.BRANCH:
                    refs_here.put_branch(Branch(ref.name, ref.commit_id, _NO_STAGING))
                elif ref.commit_id is not None:
                    refs_here.put_tag(Tag(ref.name, ref.commit_id))

    def _make_default(self) -> None:
        """Create the default branch, which was never pushed, at the initial commit."""
        branch = Branch(self._default[1], self._first, _NO_STAGING)
        with self._repository.lake.kv.write() as txn:
            self._repository.refs(txn).put_branch(branch)

    def _fetch_commit(self, commit_id: CommitId) -> None:
        """Read packs until a commit is found; if packs were searched before, read all packs."""
        if self._has_all_packs or self._has(commit_id):
            return
        if not self._has_searched:
            self._has_searched = True
            self._report(take_new_packs(self._repository, until=commit_id).damaged)
        if not self._has(commit_id):
            self._fetch_packs()
        if not self._has(commit_id):
            # A store may list a pack late, but the refs name the pack. See also `take_packs`.
            read = take_new_packs(self._repository, named=self._named, all_packs=True)
            self._report(read.damaged)

    def _fetch_packs(self) -> None:
        if not self._has_all_packs:
            self._report(take_new_packs(self._repository).damaged)
            self._has_all_packs = True

    def _has(self, commit_id: CommitId) -> bool:
        with self._repository.lake.kv.read() as txn:
            return self._repository.refs(txn).find_commit(commit_id) is not None

    def _report(self, damaged: Iterable[InvalidRecord]) -> None:
        hint = "examine and repair it from a clone: `fsck REPOSITORY --repair`"
        notify(self._repository, damaged, hint=hint)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")

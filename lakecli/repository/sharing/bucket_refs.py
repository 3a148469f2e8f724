"""The refs and commits of a bucket, read when they are asked for, in place of a local store.

Whoever reads a table of refs or commits finds what the bucket has. Only what is needed is read:
a branch by one request, its head by the pack that its last move names. All packs are listed and
read when a commit is asked for that no such move names. Everything is read at most once, so a
handle shows one state of each ref.
"""

from __future__ import annotations

from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Final, NoReturn

from lakecli.errors import Refused
from lakecli.ids import CommitId
from lakecli.kv.env import LocalStore, Table
from lakecli.kv.memory import MemoryRows, MemoryTransaction
from lakecli.kv.tracking import Tracked, TrackingStore
from lakecli.model import Branch, RefKind, StagingToken, Tag
from lakecli.objectstore.read_only import ReadOnlyStore
from lakecli.refs.names import is_branch_name, is_tag_name
from lakecli.refs.ref_store import RefStore
from lakecli.remote import damage, known
from lakecli.repository.core.commit_record import initial_commit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from lakecli.committed.cache import SstableCache
    from lakecli.ids import PackId
    from lakecli.kv.env import WriteTransaction
    from lakecli.model import RepositoryRecord
    from lakecli.objectstore.base import ObjectStore
    from lakecli.remote.damage import Damage
    from lakecli.remote.packs import DamagedPack, Pack
    from lakecli.remote.ref_records import RemoteRef

_KINDS: Final = {Table.BRANCHES: RefKind.BRANCH, Table.TAGS: RefKind.TAG}
_NO_STAGING: Final = StagingToken(bytes(16))
"""The staging token of branches, under which nothing is staged."""

_MAX_NAMED: Final = 4
"""Packs that are read by the names that moves have for them, before all packs are listed."""

_OWNER: Final = 16


class BucketRefs(LocalStore):
    """The local store of a repository that is read without a clone.

    Safe to share between threads.

    Args:
        record: of the repository.
        store: its namespace.
        hint: of the errors of writes.
        on_damage: called with each record that is left out because it is not valid.
    """

    read_only = True

    def __init__(
        self,
        record: RepositoryRecord,
        store: ObjectStore,
        *,
        hint: str,
        on_damage: Callable[[Damage], None],
    ) -> None:
        self._record = record
        self._key = record.uuid.key
        self._store = store
        self._hint = hint
        self._on_damage = on_damage
        self._lock = RLock()
        self._rows = MemoryRows()
        self._read: set[tuple[RefKind, str]] = set()
        self._listed: set[RefKind] = set()
        self._pack_of: dict[CommitId, PackId] = {}
        self._packs: set[PackId] = set()
        self._named = 0
        self._has_all_packs = False
        self._first = initial_commit(record.created_at)
        self._refs.put_commit(self._first)

    def read(self) -> MemoryTransaction:
        """Return a read transaction."""
        return _Reading(self, self._rows)

    def write(self) -> NoReturn:
        """Refuse.

        Raises:
            Refused: always.
        """
        raise Refused(
            f"{self._store.uri} is read without a clone, which cannot write", hint=self._hint
        )

    def close(self) -> None:
        """Do nothing: there are no files."""

    @property
    def _refs(self) -> RefStore:
        return RefStore(MemoryTransaction(self._rows), self._key)

    def look_for(self, table: Table, key: bytes) -> None:
        """Read what a row is made of, unless it was read before."""
        if not key.startswith(self._key):
            return
        with self._lock:
            if table in _KINDS:
                self._look_for_ref(_KINDS[table], _text(key[_OWNER:]))
            elif table is Table.TRACKING:
                kind, _, name = key[_OWNER:].partition(b"\0")
                self._look_for_ref(RefKind(kind.decode("ascii")), _text(name))
            elif table is Table.COMMITS:
                self._look_for_commit(CommitId(key[_OWNER:].hex()))

    def look_for_all(self, table: Table) -> None:
        """Read what the rows of a table are made of, unless they were read before."""
        with self._lock:
            if table in _KINDS:
                self._list_refs({_KINDS[table]})
            elif table is Table.TRACKING:
                self._list_refs(set(_KINDS.values()))
            elif table is Table.COMMITS:
                self._read_all_packs()

    def _look_for_ref(self, kind: RefKind, name: str) -> None:
        from lakecli.remote.refs import find_ref

        if (kind, name) in self._read or kind in self._listed or not _is_legal(kind, name):
            return
        found = find_ref(self._store, kind, name)
        self._read.add((kind, name))
        if found is not None:
            self._keep_ref(found)
        elif (kind, name) == (RefKind.BRANCH, self._record.default_branch):
            self._keep_default()

    def _list_refs(self, kinds: set[RefKind]) -> None:
        from lakecli.remote.refs import BadRef, iter_refs, read_refs

        if not (kinds := kinds - self._listed):
            return
        bad: list[BadRef] = []
        wanted = (
            each
            for each in iter_refs(self._store)
            if each.kind in kinds
            and (each.kind, each.name) not in self._read
            and _is_legal(each.kind, each.name)
        )
        for ref in read_refs(self._store, wanted, on_bad=bad.append):
            self._read.add((ref.kind, ref.name))
            self._keep_ref(ref)
        self._listed |= kinds
        for each in bad:
            self._on_damage(damage.of_ref(each))
        default = (RefKind.BRANCH, self._record.default_branch)
        unread = default not in self._read and default not in {
            (each.kind, each.name) for each in bad
        }
        if RefKind.BRANCH in kinds and unread:
            self._keep_default()

    def _keep_ref(self, ref: RemoteRef) -> None:
        txn = MemoryTransaction(self._rows)
        if ref.commit_id is not None and ref.kind is RefKind.BRANCH:
            self._refs.put_branch(Branch(ref.name, ref.commit_id, _NO_STAGING))
        elif ref.commit_id is not None:
            self._refs.put_tag(Tag(ref.name, ref.commit_id))
        known.put_moves(txn, self._key, ref.kind, ref.name, ref.moves)
        TrackingStore(txn, self._key).put(
            Tracked(ref.kind, ref.name, ref.commit_id, ref.sequence, ref.write_id, ref.version)
        )
        for move in reversed(ref.moves):
            if move.after is not None and move.pack:
                self._pack_of[move.after] = move.pack

    def _keep_default(self) -> None:
        """Keep the default branch, which was never pushed: it stands on the first commit."""
        branch = Branch(self._record.default_branch, self._first.id, _NO_STAGING)
        self._refs.put_branch(branch)

    def _look_for_commit(self, commit_id: CommitId) -> None:
        from lakecli.remote.packs import read_named_packs

        if self._has_all_packs or self._refs.find_commit(commit_id) is not None:
            return
        pack = self._pack_of.get(commit_id)
        if pack is not None and pack not in self._packs and self._named < _MAX_NAMED:
            self._named += 1
            self._keep_packs(read_named_packs(self._store, [pack], on_damage=self._left_out))
            if self._refs.find_commit(commit_id) is not None:
                return
        self._read_all_packs()
        if self._refs.find_commit(commit_id) is None:
            # A store may list a pack late, but its ref names it.
            self._read_packs(also=set(self._pack_of.values()))

    def _read_all_packs(self) -> None:
        if not self._has_all_packs:
            self._read_packs()
            self._has_all_packs = True

    def _read_packs(self, also: Collection[PackId] = ()) -> None:
        from lakecli.remote.packs import read_new_packs

        self._keep_packs(
            read_new_packs(self._store, self._packs, also=also, on_damage=self._left_out)
        )

    def _keep_packs(self, packs: Iterable[Pack]) -> None:
        for pack in packs:
            self._packs.update((pack.id, *pack.replaces))
            for each in pack.bad:
                self._on_damage(damage.of_commit(pack, each))
            for commit in pack.commits:
                self._refs.put_commit(commit)

    def _left_out(self, error: DamagedPack) -> None:
        self._packs.add(error.pack_id)
        self._on_damage(damage.of_pack(error))


class _Reading(MemoryTransaction):
    """A read transaction: the bucket is read before the rows are."""

    def __init__(self, refs: BucketRefs, rows: MemoryRows) -> None:
        super().__init__(rows)
        self._refs = refs

    def for_writing(self) -> WriteTransaction:
        """Refuse: it only reads."""
        raise TypeError("writing needs a write transaction")

    def get(self, table: Table, key: bytes) -> bytes | None:
        """Return the value of a key, or ``None``."""
        self._refs.look_for(table, key)
        return super().get(table, key)

    def scan_batches(
        self, table: Table, *, prefix: bytes = b"", start: bytes = b"", cut: int = 0
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield rows as `ReadTransaction.scan_batches` does."""
        self._refs.look_for_all(table)
        return super().scan_batches(table, prefix=prefix, start=start, cut=cut)

    def scan_keys(
        self, table: Table, *, prefix: bytes = b"", start: bytes = b""
    ) -> Iterator[bytes]:
        """Yield keys as `ReadTransaction.scan_keys` does."""
        self._refs.look_for_all(table)
        return super().scan_keys(table, prefix=prefix, start=start)


class CachedPacks(ReadOnlyStore):
    """A namespace for reading, whose commit packs are kept in a cache.

    Args:
        store: the namespace.
        cache: of the repository.
        hint: of the errors of writes.
    """

    def __init__(self, store: ObjectStore, cache: SstableCache, *, hint: str) -> None:
        super().__init__(store, hint=hint)
        self._cache = cache

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """See `ObjectStore.get`."""
        from lakecli.ids import PackId
        from lakecli.layout import COMMITS

        name = key.removeprefix(COMMITS)
        if name == key or start or length is None or not PackId.is_valid(name):
            return super().get(key, start=start, length=length)
        data = self._cached(name, length)
        if data is None:
            data = super().get(key, start=start, length=length)
            if len(data) < length:
                self._cache.put(name, data)
        return data

    def _cached(self, name: str, length: int) -> bytes | None:
        """Return a pack from the cache if its bytes are those of its name."""
        from lakecli.identity import h

        path = self._cache.find(name)
        if path is None:
            return None
        try:
            with Path(path).open("rb") as file:
                data = file.read(length)
        except OSError:
            return None
        if h(data).hex() == name:
            return data
        self._cache.drop(name)
        return None


def _is_legal(kind: RefKind, name: str) -> bool:
    return is_branch_name(name) if kind is RefKind.BRANCH else is_tag_name(name)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")

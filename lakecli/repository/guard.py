"""Claim objects and commits against garbage collection before anything refers to them.

An object in the bucket may be garbage to every other clone, condemned (listed for deletion), or
deleted already. Before this clone refers to an object, this module checks that the object exists
and claims it. The types enforce that: staging areas accept only a `ClaimedValue`, and commits,
branches and tags refer only to a `ClaimedCommit`. Only this module makes values of these types.

If garbage collection has never run, a claim costs one GET, of the state of garbage collection.
Writing to the bucket and staging fail if the bucket cannot be reached.

A claimed tree protects everything to which it refers: a sweep follows the trees that are recent or
kept, and deletes trees before the objects to which they refer. Refs are local: if the bucket cannot
be reached, branches and tags are created, and operations undone, without claims. A later push
detects objects that were lost.

A collector treats an old tree as garbage if no ref in the bucket reaches its commit. That concerns
commits that were never pushed, and pushed commits that no ref reaches any more. So this clone
claims such trees before it builds on their commits.

`GcGuard` follows the protocol of `lakecli.remote.gc_protocol`. Uploads and the code that writes
trees use it, too:

- One GET returns the state. If garbage collection has never run, nothing else is needed.
- An object older than half the grace period gets a new modification time, so that it is not a
  candidate for deletion for now.
- While objects are condemned, the guard first records the used objects as kept, then reads the
  state again.
- While a sweep runs, the guard waits. After a sweep, it checks that everything still exists.

The guard reuses a state for `MAX_STATE_AGE` after reading it; the collector waits that much longer.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from itertools import chain, islice
from threading import RLock
from time import sleep
from typing import Final, NewType, TypeVar, cast

from lakecli.base.identity import blake3_of
from lakecli.base.layout import GC_STATE, MAX_STATE_AGE, data_digest, lakefs_object, sstable_key
from lakecli.base.model import EMPTY_TREE, Commit, CommitId, Entry, MetarangeId
from lakecli.base.progress import elapsed
from lakecli.base.retry import SWEEPS, Retries
from lakecli.committed.values import decode_entry, encode_entry
from lakecli.errors import IntegrityError, LostRace, PermissionDenied, Unreachable
from lakecli.kv.local_store import ReadTransaction
from lakecli.refs.graph import iter_known_unreached
from lakecli.remote import gc_protocol
from lakecli.remote.gc_protocol import NEVER_RAN, GcState, Phase, SweepRunning
from lakecli.repository.contract import Repository
from lakecli.repository.reading.addresses import key_of
from lakecli.repository.reading.view import View
from lakecli.staging.area import TOMBSTONE, ClaimedValue
from lakecli.stores import contract
from lakecli.stores.capabilities import renew
from lakecli.stores.contract import BucketNotFound, ObjectInfo, ObjectNotFound, ObjectStore
from lakecli.stores.streams import batches

T = TypeVar("T")

ClaimedCommit = NewType("ClaimedCommit", Commit)
"""A commit to which refs and other commits may refer, because its tree is claimed."""

Change = tuple[bytes, ClaimedValue]
"""A path, and the value to stage there."""

BATCH: Final = 5_000
"""Number of values that are claimed together."""

MAX_LISTED: Final = 1_000
"""Maximum number of paths that an error lists."""

MAX_EXAMINED: Final = 1_000
"""Maximum number of examined commits; if more were never pushed, the oldest are not claimed."""

PARALLELISM: Final = 16
"""Number of objects that are checked, or get a new modification time, in parallel."""


class Gone(IntegrityError):
    """A needed object is no longer in the bucket."""


class Swept(LostRace):
    """Garbage collection deleted an object that was about to be used."""

    def __init__(self, uri: str) -> None:
        super().__init__(
            f"garbage collection ran in {uri} at the same time; nothing refers to what was written",
            hint="run the same command again",
        )


def claim_entry(repository: Repository, path: bytes, entry: Entry) -> ClaimedValue:
    """Claim the object of an entry; return the encoded entry, which may be staged.

    Raises:
        Gone: the object is not in the bucket, or has another size.
        Swept: the object was deleted just now.
        SweepRunning: a sweep did not end in time.
    """
    ((_, value),) = claim_values(repository, [(path, encode_entry(entry))])
    return value


def claim_values(repository: Repository, values: Iterable[tuple[bytes, bytes]]) -> list[Change]:
    """Claim the objects of some values; return the values as changes that may be staged.

    Objects outside the namespace are never collected, and are not checked.

    Args:
        values: paths, each with an encoded entry or a tombstone.

    Raises:
        Gone: some objects are not in the bucket, or have another size; the error lists their paths.
        Swept: an object was deleted just now.
        SweepRunning: a sweep did not end in time.
    """
    claimed = list(values)
    gone = [path for batch in batches(claimed, BATCH) for path in _claim(repository, batch)]
    if gone:
        what = "the objects of these paths are" if gone[1:] else "the object of this path is"
        raise Gone(
            f"{what} no longer in {repository.store.uri}, or damaged: {len(gone)}",
            hint="garbage collection may have deleted them; upload the same contents again, or "
            f"see what else is missing: `fsck {repository.uri}`",
            paths=gone[:MAX_LISTED],
        )
    return cast("list[Change]", claimed)


def uploaded_changes(changes: Iterable[tuple[bytes, bytes]]) -> list[Change]:
    """Return pairs of a path and an encoded entry as changes to stage, in path order.

    The objects of the entries were claimed by `lakecli.repository.transfer.ingest.Ingest.flush`.
    """
    return cast("list[Change]", sorted(changes))


def claim_below(view: View, *, prefix: bytes) -> Iterator[Change]:
    """Claim everything that a view has under a prefix, and yield it in path order.

    The tree is claimed as a whole, staged changes object by object.

    Raises:
        Gone: some objects are not in the bucket.
        Swept: some objects were deleted just now.
        SweepRunning: a sweep did not end in time.
    """
    found = view.scan(prefix=prefix)
    first = next(found, None)
    if first is None:
        return
    claim_commit(view.txn, view.repository, view.commit)
    for batch in batches(view.staged(prefix=prefix), BATCH):
        claim_values(view.repository, batch)
    yield from cast("Iterator[Change]", chain([first], found))


def committed_value(head: View, path: bytes) -> ClaimedValue:
    """Return the committed value of a path, or a tombstone; the head must have been claimed."""
    value = head.find_committed(path)
    return TOMBSTONE if value is None else ClaimedValue(value)


def same_area(records: Iterable[tuple[bytes, bytes]]) -> Iterator[Change]:
    """Yield the records of a staging area as changes for another area of the same branch.

    Their objects were claimed when the records were staged, and stay in use.
    """
    yield from cast("Iterable[Change]", records)


class Reclaimed:
    """Claims the trees and objects that an undo brings back into use, if they still exist.

    Attributes:
        gone: the number of trees and objects that no longer exist.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self.gone = 0

    def add_commit(self, txn: ReadTransaction, commit: Commit) -> None:
        """Claim a commit to which undo moves a ref back."""
        self.gone += not claim_history(txn, self._repository, commit)

    def add_values(self, values: Iterator[tuple[bytes, bytes]]) -> None:
        """Claim the objects of the values that an undo is about to stage again.

        Args:
            values: paths, each with an encoded entry or a tombstone.
        """
        first = next((each for each in values if each[1]), None)
        if first is None or not self._repository.guard.begin():
            return
        for batch in batches(chain([first], values), BATCH):
            self.gone += len(_claim(self._repository, batch))

    def value(self, image: bytes) -> ClaimedValue:
        """Return a value that `add_values` has claimed, in the type that staging areas accept."""
        return ClaimedValue(image)


def _claim(repository: Repository, values: Iterable[tuple[bytes, bytes]]) -> list[bytes]:
    """Claim the objects of some values; return the paths whose objects are missing."""
    found = ((path, *named) for path, value in values if (named := _object_of(repository, value)))
    first = next(found, None)
    if first is None or not repository.guard.begin():
        return []  # no protection needed, so the other values are not decoded
    wanted = [first, *found]
    sizes = repository.guard.claim(sorted({key for _, key, _ in wanted}))
    if sizes is None:
        return []
    return [path for path, key, size in wanted if sizes.get(key) != size]


def _object_of(repository: Repository, value: bytes) -> tuple[str, int] | None:
    """Return key and size of a value's object; ``None`` if it is never garbage-collected."""
    if not value:
        return None
    entry = decode_entry(value)
    key = key_of(repository, entry.physical_address)
    if key is None or (data_digest(key) is None and lakefs_object(key) is None):
        return None
    return key, entry.size


def claim_head(view: View) -> ClaimedCommit:
    """Claim the head of a branch, and return it as the parent of a new commit.

    Trees in the history of the head that only this clone knows are claimed, too. Missing trees are
    no error here: a push detects them, and they can be uploaded again.

    Raises:
        Swept: a tree was deleted just now.
        SweepRunning: a sweep did not end in time.
    """
    claim_history(view.txn, view.repository, view.commit)
    return cast("ClaimedCommit", view.commit)


def claim_target(txn: ReadTransaction, repository: Repository, commit: Commit) -> ClaimedCommit:
    """Claim a commit if the bucket can be reached; return it, so that a ref may point to it.

    Raises:
        Gone: the commit's tree is no longer in the bucket.
        Swept: the tree was deleted just now.
        SweepRunning: a sweep did not end in time.
    """
    with unless_away():
        claim_commit(txn, repository, commit)
    return cast("ClaimedCommit", commit)


@contextmanager
def unless_away() -> Iterator[None]:
    """Ignore in the block that the bucket cannot be reached or read; still raise `SweepRunning`."""
    try:
        yield
    except SweepRunning:
        raise
    except (Unreachable, BucketNotFound, PermissionDenied):
        return


def claim_commit(txn: ReadTransaction, repository: Repository, commit: Commit) -> ClaimedCommit:
    """Claim a commit and its history; return it, so that refs and commits may refer to it.

    Raises:
        Gone: the commit's tree is no longer in the bucket.
        Swept: the tree was deleted just now.
        SweepRunning: a sweep did not end in time.
    """
    if not claim_history(txn, repository, commit):
        raise Gone(
            f"the tree of commit {commit.id} is no longer in {repository.store.uri}",
            hint="garbage collection has deleted it; if a copy of it is known here: "
            f"`fsck {repository.uri} --repair`",
        )
    return cast("ClaimedCommit", commit)


def claim_trees(repository: Repository, trees: Iterable[MetarangeId]) -> None:
    """Claim trees that were found in the bucket, before refs and commits refer to them.

    Raises:
        Gone: a tree is no longer in the bucket.
        Swept: a tree was deleted just now.
        SweepRunning: a sweep did not end in time.
    """
    if not repository.guard.begin():
        return
    keys = sorted(sstable_key(tree) for tree in trees if tree)
    sizes = repository.guard.claim(keys)
    if sizes is not None and (gone := [key for key in keys if key not in sizes]):
        raise Gone(
            f"trees are no longer in {repository.store.uri}: {len(gone)}, such as {gone[0]}",
            hint="garbage collection has deleted them; make the dump again without these commits",
        )


def claim_history(txn: ReadTransaction, repository: Repository, commit: Commit) -> bool:
    """Claim the trees of a commit's history that only this clone knows.

    Returns:
        Whether the tree of `commit` exists.
    """
    if not repository.guard.begin():
        return True
    trees = unreached_trees(txn, repository, commit)
    sizes = repository.guard.claim(sorted(map(sstable_key, trees)))
    return not commit.metarange_id or sizes is None or sstable_key(commit.metarange_id) in sizes


def unreached_trees(
    txn: ReadTransaction, repository: Repository, start: Commit
) -> frozenset[MetarangeId]:
    """Return the trees of a commit and its ancestors that no ref in the bucket reaches.

    The refs in the bucket are those of the last fetch. The empty tree is not included.
    """
    # Imported here, because uploads do not need it.
    from lakecli.kv.bucket import PackedStore

    refs, packed = repository.refs(txn), PackedStore(txn, repository.key)
    shared = repository.tracking(txn).positions()
    trees = {start.metarange_id}
    waiting = [start.id]
    pushed: list[CommitId] = []
    seen: set[CommitId] = set()
    while waiting and len(seen) < MAX_EXAMINED:
        commit_id = waiting.pop()
        if commit_id in seen or commit_id in shared:
            continue
        seen.add(commit_id)
        if packed.find_pack(commit_id) is not None:
            pushed.append(commit_id)
            continue
        commit = refs.find_commit(commit_id)
        if commit is not None:
            trees.add(commit.metarange_id)
            waiting += commit.parents
    for commit_id in pushed:
        unreached = islice(iter_known_unreached(refs, commit_id, shared), MAX_EXAMINED)
        trees.update(commit.metarange_id for commit in unreached)
    return frozenset(trees - {EMPTY_TREE})


class GcGuard:
    """Follows the garbage collection protocol as a writer to one namespace. Thread-safe.

    Args:
        monotonic: returns the seconds of a monotonic clock that includes the machine's sleep.
        sleep: waits for some seconds.
        new_id: returns random bytes.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        monotonic: Callable[[], float] = elapsed,
        sleep: Callable[[float], None] = sleep,
        new_id: Callable[[], bytes] = lambda: os.urandom(16),
    ) -> None:
        self._store = store
        self._new_id = new_id
        self._monotonic = monotonic
        self._sleep = sleep
        self._lock = RLock()
        self._state = NEVER_RAN
        self._read_at: float | None = None
        self._clock: tuple[datetime, float] | None = None

    def begin(self) -> bool:
        """Read the state, unless it was read recently; wait for a sweep to end.

        Call this before checking whether objects exist.

        Returns:
            Whether garbage collection has ever run, so that existing objects need protection.

        Raises:
            PermissionDenied: reading the state is not allowed, and the state may exist.
            SweepRunning: a sweep did not end in time.
        """
        with self._lock:
            if self._read_at is None or self._is_stale():
                self._await_sweep()
            return not self._state.never_ran

    def settle(
        self, *, found: Collection[str], written: Collection[str], whole: bool = False
    ) -> None:
        """Make sure that garbage collection keeps objects, before anything refers to them.

        Args:
            found: keys of objects that existed before, or may have existed.
            written: keys of all other objects, which must be durable.
            whole: whether the listed objects may refer to objects that are not listed. Then a sweep
                raises `Swept`; otherwise the listed objects are checked again.

        Raises:
            Swept: an object has been deleted.
            SweepRunning: a sweep did not end in time.
        """
        with self._lock:
            is_stale = self._is_stale()
            if self._read_at is None:
                self._await_sweep()
            before = self._state
            while True:
                keys = set(found)
                if is_stale or before.phase is not Phase.IDLE:
                    now = self._read()
                    if gc_protocol.may_have_swept(before, now):
                        self._await_sweep()
                        if whole:
                            raise Swept(self._store.uri)
                        self._for_each(self._store.head, [*keys, *written])  # raises `Swept`
                if is_stale:
                    # Objects written long before this reading may be condemned by now.
                    keys.update(written)
                state = self._state
                if state.never_ran or not keys:
                    return
                if state.phase is Phase.CONDEMNED and not self._keep(state, keys):
                    # A change between the two readings is handled like a sweep before them.
                    before = state
                    continue
                self._renew(self._for_each(self._store.head, keys), state.grace / 2)
                return

    def claim(self, keys: Collection[str]) -> Mapping[str, int] | None:
        """Make sure that garbage collection keeps objects, if they exist; return their sizes.

        Returns:
            The sizes of the existing objects; ``None`` if garbage collection has never run, so that
            nothing was checked.

        Raises:
            Swept: an object was deleted just now.
            SweepRunning: a sweep did not end in time.
        """
        if not keys:
            return {}
        with self._lock:
            while self.begin():
                state = self._state
                if state.phase is Phase.SWEEPING:
                    self._await_sweep()
                    continue
                found = self._for_each(partial(contract.find_info, self._store), keys)
                infos = {key: info for key, info in found.items() if info is not None}
                # The objects were looked up after the state was read and before they are kept. If a
                # sweep deleted one of them meanwhile, it has changed the state.
                if not infos or state.phase is not Phase.CONDEMNED or self._keep(state, set(infos)):
                    self._renew(infos, state.grace / 2)
                    return {key: info.size for key, info in infos.items()}
            return None

    def _is_stale(self) -> bool:
        """Return whether the state was read so long ago that it must be read again."""
        return self._read_at is not None and self._monotonic() - self._read_at > MAX_STATE_AGE

    def _read(self) -> GcState:
        started = self._monotonic()
        try:
            self._state = gc_protocol.read_state(self._store)
        except PermissionDenied as error:
            self._check_absent(error)
            self._state = NEVER_RAN
        self._read_at = started
        return self._state

    def _check_absent(self, error: PermissionDenied) -> None:
        """Accept an unreadable state only if a listing proves that it does not exist.

        Without permission to list, stores also deny access to missing objects. But a policy, or an
        owner in another account, could hide an existing state. A writer that believes that nothing
        was ever collected would then use objects that a sweep is about to delete.
        """
        try:
            if all(info.key != GC_STATE for info in self._store.list(GC_STATE)):
                return
        except PermissionDenied:
            raise error from None  # there may be no credentials at all
        raise PermissionDenied(
            f"not allowed to read whether garbage is collected: {self._store.uri}/{GC_STATE}",
            hint="allow reading it, and listing the namespace; see what is missing: `doctor "
            f"{self._store.uri}`",
        ) from error

    def _await_sweep(self) -> None:
        if self._read().phase is Phase.SWEEPING:
            gc_protocol.wait_for_sweep(
                self._store, Retries(SWEEPS, sleep=self._sleep, monotonic=self._monotonic)
            )
            self._read()

    def _keep(self, state: GcState, keys: set[str]) -> bool:
        """Record objects as kept; return whether the state is still the same."""
        # Named by its content: keeping the same objects twice writes one record.
        keep_id = blake3_of("\n".join(sorted(keys)).encode("ascii")).hex()[:32]
        gc_protocol.write_keep(self._store, state.epoch, keep_id, keys)
        now = self._read()
        return (now.phase, now.epoch) == (state.phase, state.epoch)

    def _renew(self, infos: Mapping[str, ObjectInfo], limit: timedelta) -> None:
        """Give objects that are older than `limit` a new modification time."""
        if not infos:
            return
        now = self._now()
        old = [key for key, info in infos.items() if now - info.modified_at > limit]
        if old:
            self._for_each(self._touch, old)

    def _now(self) -> datetime:
        """Return the time by the store's clock, which is read only once."""
        if self._clock is None:
            self._clock = gc_protocol.store_now(self._store), self._monotonic()
        then, at = self._clock
        return then + timedelta(seconds=self._monotonic() - at)

    def _touch(self, key: str) -> None:
        # Each copy has a unique name: two writers that renew one object at once do not delete each
        # other's copy. If the bucket forbids replacing objects, the object keeps its old time. It
        # may then be condemned earlier, but still exists for a whole grace period after that.
        with suppress(PermissionDenied):
            renew(self._store, key, aside=gc_protocol.REFRESHING + self._new_id().hex())

    def _for_each(self, function: Callable[[str], T], keys: Collection[str]) -> dict[str, T]:
        """Call a function for each key, several at a time; return the results by key.

        Raises:
            Swept: an object is gone.
        """
        try:
            if len(keys) == 1:
                return {key: function(key) for key in keys}
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(PARALLELISM) as pool:
                return dict(zip(keys, pool.map(function, keys), strict=True))
        except ObjectNotFound:
            raise Swept(self._store.uri) from None

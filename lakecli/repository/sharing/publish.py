"""Moving one ref in the bucket, for push, undo and automatic sharing; and its refusals.

1. **Pack**: verify that all that the new commits refer to is in the bucket
   (`lakecli.repository.sharing.references`), and write those that are in no pack as one.
2. **Intent**: record the move in the local store, with the only write ID that it will ever have.
3. **Move** the ref by compare-and-set, see `lakecli.remote.refs`.
4. **Track** its new position and delete the intent, in one transaction of the local store.

A crash after 2 leaves the intent to the next command, which finds out what became of the move.

A new pack takes in small ones: packs are merged geometrically, so that a clone reads few of them
whatever the number of pushes. A replaced pack is deleted after a day: until then, another clone may
read what it has listed before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final, NamedTuple

from lakecli.base.ids import PackId, WriteId
from lakecli.base.layout import pack_key, sstable_key
from lakecli.base.model import Commit, CommitId, RefKind
from lakecli.base.retry import REF_MOVES, SWEEPS, Retries
from lakecli.errors import (
    AlreadyExists,
    LakeError,
    LostRace,
    OutcomeUnknown,
    PermissionDenied,
    Unreachable,
)
from lakecli.kv.bucket import PackedStore, Tracked, TrackingStore
from lakecli.kv.local_store import ReadTransaction
from lakecli.refs.graph import iter_unreached
from lakecli.refs.ref_store import RefStore, get_commit, get_parent
from lakecli.remote import packs
from lakecli.remote.gc_protocol import GcState, Phase, may_have_swept, read_state, wait_for_sweep
from lakecli.remote.packs import Pack
from lakecli.remote.ref_records import RemoteRef
from lakecli.remote.refs import (
    Intent,
    MoveOutcome,
    MoveResult,
    Outdated,
    find_ref,
    iter_refs,
    move_ref,
)
from lakecli.repository.contract import LocalMove, Repository
from lakecli.repository.handle.namespace import check_writable
from lakecli.repository.journal import intents, tracking
from lakecli.repository.journal.intents import Begun, mark_sent
from lakecli.repository.sharing.references import NewTree, NotInBucket, check_references

TRUSTED_SHARE: Final = 0.5
"""Share of the grace period: younger data is not looked for, since it cannot be collected yet."""

_MOST_READ: Final = 4
"""Refs that are read one by one rather than by a listing, which grows with their number."""

CLOCK_SLACK: Final = timedelta(hours=1)
"""How far the clock of an uploading machine may be wrong."""

KEPT_FOR: Final = timedelta(days=1)
"""How long a replaced pack is kept."""

_COMMIT_SIZE: Final = 400
"""Approximate bytes of a commit in a pack, without its message."""


class Unverified(Unreachable):
    """A ref moved in the bucket; whether garbage collection has spared its objects is unknown."""


class WantedMove(NamedTuple):
    """A move of a ref in the bucket.

    Attributes:
        kind: a branch or a tag.
        name: the name of the ref.
        before: its required position in the bucket; ``None``: it must not exist.
        after: its new position, a commit in the local store; ``None`` deletes it.
        who: ``Name <email>``, for the shared reflog.
        why: what is done, for the shared reflog.
    """

    kind: RefKind
    name: str
    before: CommitId | None
    after: CommitId | None
    who: str
    why: str


def publish(
    repository: Repository,
    wanted: WantedMove,
    *,
    landing: LocalMove | None = None,
    since: int = 0,
    is_push: bool = False,
    has_fetched: bool = False,
) -> MoveResult:
    """Move a ref in the bucket by compare-and-set.

    Args:
        repository: the repository of the ref.
        wanted: the move.
        landing: what to do here in the transaction that records the outcome, now or in the next
            command. ``None``: only append a ``push`` to the operation log.
        since: the ref's sequence number in the bucket when the caller compared its position with
            `WantedMove.before`, or a lower one; 0: unknown, so the ref is read and compared first.
        is_push: whether the ref stands on `WantedMove.after` here. If it is moved back here before
            the request, nothing is sent; afterwards, moving it back waits for the outcome.
        has_fetched: whether this command has fetched all refs, and so noticed it if the bucket went
            back in time.

    Returns:
        ``APPLIED``, or ``LOST`` if the ref did not stand on `WantedMove.before`, the branch here is
        no longer what the commit was built from, or the pushed ref was moved back here; and the
        ref as it is, if it was read.

    Raises:
        CannotShare: the store has no working compare-and-set.
        NewerRepository: the repository may be written by newer versions only.
        Swept: garbage was collected meanwhile; nothing was moved.
        NotInBucket: something that the new commits refer to is missing there; nothing was moved,
            unless the message says that the ref was.
        Unverified: the ref was moved, but then the store did not say whether a sweep has run.
        OutcomeUnknown: the next command finds out whether it moved.
        Unreachable: the store does not answer; nothing was moved.
        PermissionDenied: writing there is not allowed; nothing was moved.
    """
    lake = repository.lake
    check_writable(repository)
    if not since:
        # Where many commit to one branch, this saves most of the cost of a lost race.
        ref, is_lost = _look(repository, wanted)
        if is_lost:
            return MoveResult(MoveOutcome.LOST, ref)
        since = 0 if ref is None else ref.sequence
    collection = _settled(repository)
    after = wanted.after
    commits = [] if after is None else _new_commits(repository, wanted.before, after, collection)
    trees = _trees_of(repository, commits)
    _check(repository, trees, collection, has_fetched=has_fetched)
    if not collection.never_ran:
        # No sweep may delete what was just found before it sees that a ref reaches it. If one did
        # meanwhile, `collection` is older than it, and everything is verified once more at the end.
        repository.guard.claim(sorted({sstable_key(each.id) for each in trees if each.id}))
    if landing is not None:
        # Many machines commit to one branch, and the checks took a while. If the race is lost, this
        # saves writing a pack in vain.
        ref, is_lost = _look(repository, wanted)
        if is_lost:
            return MoveResult(MoveOutcome.LOST, ref)
    _forget_lost_packs(repository, commits)
    lake.runtime.on_step("pack")
    packed, pack = (None, None) if after is None else _pack(repository, after)
    lake.runtime.on_step("intent")
    intent = Intent(
        **wanted._asdict(),
        write_id=WriteId.of_bytes(lake.runtime.new_id()),
        at=lake.runtime.now(),
        pack=pack or "",
        since=since,
    )
    begun, is_new = _write_down(repository, Begun(intent, landing), packed)
    lake.runtime.on_step("move")
    result = request_move(repository, begun, is_new=is_new, is_push=is_push)
    lake.runtime.on_step("track")
    with lake.kv.write() as txn:
        intents.record_outcome(txn, repository, begun, result)
    if result.outcome == MoveOutcome.APPLIED and trees:
        _check_again(repository, wanted.name, trees, collection)
    return result


def request_move(
    repository: Repository, begun: Begun, *, is_new: bool, is_push: bool = False
) -> MoveResult:
    """Ask the store to make a recorded move; drop its intent if nothing can have been sent.

    Args:
        repository: the repository of the ref.
        begun: the move.
        is_new: whether no earlier command can have sent it.
        is_push: as of `publish`.
    """
    lake = repository.lake
    retries = Retries(REF_MOVES, sleep=lake.runtime.sleep, random=lake.runtime.random_number)

    def on_step(name: str) -> None:
        lake.runtime.on_step(name)
        if name == "put" and (is_push or begun.landing is not None):
            with lake.kv.write() as txn:
                if not mark_sent(txn, repository, begun):
                    raise Outdated
            lake.runtime.on_step("send")

    try:
        return move_ref(repository.store, begun.intent, retries=retries, on_step=on_step)
    except Outdated:
        return MoveResult(MoveOutcome.LOST, None)
    except OutcomeUnknown:
        raise
    except LakeError:
        if is_new:
            with lake.kv.write() as txn:
                intents.drop(txn, repository, begun)
        raise


def _look(repository: Repository, wanted: WantedMove) -> tuple[RemoteRef | None, bool]:
    """Return a ref in the bucket, and whether it does not stand where its move has to start.

    If an earlier command has begun a move of the ref, the answer is no: it may be this very move.
    """
    ref = find_ref(repository.store, wanted.kind, wanted.name)
    if (None if ref is None else ref.commit_id) == wanted.before:
        return ref, False
    with repository.lake.kv.read() as txn:
        return ref, not any(
            (begun.intent.kind, begun.intent.name) == (wanted.kind, wanted.name)
            for begun in intents.iter_begun(txn, repository)
        )


def _settled(repository: Repository) -> GcState:
    retries = Retries(SWEEPS, sleep=repository.lake.runtime.sleep)
    return wait_for_sweep(repository.store, retries)


def _new_commits(
    repository: Repository, before: CommitId | None, after: CommitId, collection: GcState
) -> list[Commit]:
    """Return the commits that the bucket's refs do not reach, as far as this clone knows.

    `before` was read a moment ago. Positions of other refs are believed if they have not moved
    since they were seen: of a few commits, one ref each is read; otherwise, all refs are listed.
    """
    with repository.lake.kv.read() as txn:
        known = set() if before is None else {before}
        trusted = _trusted(txn, repository, collection) - known
        commits = list(iter_unreached(RefStore(txn, repository.key), after, known | trusted))
    ids = {commit.id for commit in commits}
    ends = {parent for commit in commits for parent in commit.parents} | {after}
    if not trusted or ends <= ids | known:
        return commits
    with repository.lake.kv.read() as txn:
        tracked = TrackingStore(txn, repository.key).by_ref()
    if _still_stand(repository, tracked.values(), ends - ids - known):
        return commits
    for listed in iter_refs(repository.store):
        ref = tracked.get((listed.kind, listed.name))
        if ref is not None and ref.commit_id in trusted and ref.version == listed.version:
            known.add(ref.commit_id)
    with repository.lake.kv.read() as txn:
        return list(iter_unreached(RefStore(txn, repository.key), after, known))


def _still_stand(
    repository: Repository, tracked: Iterable[Tracked], ends: Collection[CommitId]
) -> bool:
    """Return whether a ref stands on each of a few commits, by reading one ref for each."""
    if len(ends) > _MOST_READ:
        return False
    seen = {each.commit_id: each for each in tracked if each.commit_id in ends}
    if len(seen) < len(ends):
        return False
    refs = (find_ref(repository.store, each.kind, each.name) for each in seen.values())
    return all(
        ref is not None and ref.version == each.version
        for ref, each in zip(refs, seen.values(), strict=True)
    )


def _forget_lost_packs(repository: Repository, commits: Sequence[Commit]) -> None:
    """Forget packs that are recorded to have new commits and are not in the bucket."""
    with repository.lake.kv.read() as txn:
        packed = PackedStore(txn, repository.key)
        known = {pack for commit in commits if (pack := packed.find_pack(commit.id)) is not None}
    if not known:
        return
    lost = known.difference(info.id for info in packs.list_packs(repository.store))
    if lost:
        with repository.lake.kv.write() as txn:
            PackedStore(txn, repository.key).forget(lost)


def _trusted(txn: ReadTransaction, repository: Repository, collection: GcState) -> set[CommitId]:
    """Return tracked positions, if nothing can have been collected since they were read."""
    fetched = tracking.find_fetched(txn, repository)
    if fetched is None:
        return set()
    then = GcState(phase=Phase(fetched.phase), epoch=fetched.epoch)
    return set() if may_have_swept(then, collection) else tracking.positions(txn, repository)


def _trees_of(repository: Repository, commits: Sequence[Commit]) -> list[NewTree]:
    with repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        return [
            NewTree(each.metarange_id, [refs.get_commit(id_).metarange_id for id_ in each.parents])
            for each in commits
        ]


def _check(
    repository: Repository, trees: Sequence[NewTree], collection: GcState, *, has_fetched: bool
) -> None:
    """Verify that all that new trees refer to is in the bucket; upload again what is still here.

    Young data is trusted while nothing is condemned, unless the bucket went back in time since it
    was uploaded.
    """
    if not trees:
        return
    trusted_for = collection.grace * TRUSTED_SHARE - CLOCK_SLACK
    is_idle = collection.phase is Phase.IDLE
    older_than = repository.lake.runtime.now() - trusted_for if is_idle else None
    with repository.lake.kv.read() as txn:
        last = tracking.find_rollback(txn, repository)
    if older_than is not None and last is not None:
        older_than = max(older_than, last.at + CLOCK_SLACK)
    check_references(repository, trees, older_than=older_than, has_fetched=has_fetched)


def _check_again(
    repository: Repository, name: str, trees: Sequence[NewTree], before: GcState
) -> None:
    """Verify again, once the ref has moved, if a sweep may have run meanwhile."""
    try:
        if not may_have_swept(before, read_state(repository.store)):
            return
        _settled(repository)
        check_references(repository, trees, older_than=None)
    except NotInBucket as error:
        raise NotInBucket(
            f"{name} was moved in the bucket, but garbage collection has deleted what it needs: "
            f"{error.message}",
            hint="upload them again, with the same contents, then: lakecli fsck --data "
            f"{repository.uri}",
            paths=error.paths,
        ) from error
    except LakeError as error:
        raise Unverified(
            f"{name} was moved in the bucket, but it is unknown whether garbage collection has "
            f"spared what it needs: {error.message}",
            hint=f"when the store answers again: lakecli fsck --data {repository.uri}",
        ) from error


def _pack(repository: Repository, after: CommitId) -> tuple[Pack | None, PackId | None]:
    """Write a pack if commits are in none; return it, and the ID of the pack that has `after`."""
    with repository.lake.kv.read() as txn:
        commits = _unpacked_commits(txn, repository, after)
        known = PackedStore(txn, repository.key).find_pack(after)
    packed = write_pack(repository, commits)
    return packed, known if packed is None else packed.id


def _unpacked_commits(
    txn: ReadTransaction, repository: Repository, start: CommitId
) -> list[Commit]:
    """Return the commits that `start` reaches and that are in no pack, in no order.

    All commits that a packed commit reaches are in packs, too.

    Raises:
        DamagedHistory: one of them is missing here.
    """
    refs, packed = RefStore(txn, repository.key), PackedStore(txn, repository.key)
    if packed.find_pack(start) is not None:
        return []
    found = {start: get_commit(refs, start)}
    frontier = [found[start]]
    while frontier:
        commit = frontier.pop()
        for parent in commit.parents:
            if parent not in found and packed.find_pack(parent) is None:
                found[parent] = get_parent(refs, commit, parent)
                frontier.append(found[parent])
    return list(found.values())


def write_pack(repository: Repository, commits: Sequence[Commit]) -> Pack | None:
    """Write commits into the bucket as one pack; ``None`` if there are none to write.

    Raises:
        PermissionDenied: writing there is not allowed.
        Unreachable: the store does not answer.
    """
    if not commits:
        return None
    store = repository.store
    infos = packs.list_packs(store)
    with repository.lake.kv.read() as txn:
        live = set(PackedStore(txn, repository.key).live_packs())
    size = sum(_COMMIT_SIZE + len(commit.message) for commit in commits)
    chosen = packs.choose_replaced([info for info in infos if info.id in live], size)
    everything = {commit.id: commit for commit in commits}
    replaced: list[PackId] = []
    superseded: list[PackId] = []
    listed = {info.id: info for info in infos}
    newest = max((info.modified_at for info in infos), default=None)
    for pack_id in chosen:
        try:
            pack = packs.read_pack(store, pack_id)
        except LakeError:
            continue  # missing or damaged: a push does not need to merge this pack
        if pack.bad:
            continue  # records that this version cannot read may be commits of a later version
        everything |= {commit.id: commit for commit in pack.commits}
        older = [each for each in pack.replaces if each in listed]
        replaced += [pack_id, *older]
        if newest is not None and listed[pack_id].modified_at < newest - KEPT_FOR:
            superseded += older
    replaces = tuple(sorted(set(replaced)))
    pack_id = packs.write_pack(store, list(everything.values()), replaces=replaces)
    if superseded:
        with suppress(PermissionDenied):
            store.delete(map(pack_key, superseded))
    return Pack(pack_id, replaces, list(everything.values()))


def _write_down(repository: Repository, wanted: Begun, packed: Pack | None) -> tuple[Begun, bool]:
    """Record a move and its pack; return it, and whether it is new.

    A move that an earlier command began keeps its write ID, so it cannot be made twice.
    """
    with repository.lake.kv.write() as txn:
        if packed is not None:
            ids = [commit.id for commit in packed.commits]
            PackedStore(txn, repository.key).add(packed.id, ids, replaces=packed.replaces)
        for begun in intents.iter_begun(txn, repository):
            if _is_same(begun, wanted):
                return begun, False
        intents.write_down(txn, repository, wanted)
        return wanted, True


def _is_same(begun: Begun, wanted: Begun) -> bool:
    fields = ("kind", "name", "before", "after")
    return begun.landing == wanted.landing and all(
        getattr(begun.intent, field) == getattr(wanted.intent, field) for field in fields
    )


class NonFastForward(LostRace):
    """The bucket has commits on the branch that this clone's branch does not reach."""


class StaleLease(LostRace):
    """The ref does not stand where a forced push expected it."""


def stale(repository: Repository, name: str, commit_id: CommitId | None) -> StaleLease:
    """Return the error for a ref that does not stand in the bucket where it was expected."""
    where = "was deleted" if commit_id is None else f"stands on {commit_id}"
    return StaleLease(
        f"{name} is not where it was expected in the bucket: it {where}",
        hint=f"fetch what is there, then decide again: lakecli fetch {repository.uri}",
    )


def refused(
    repository: Repository,
    kind: RefKind,
    name: str,
    *,
    before: CommitId | None,
    after: CommitId | None,
) -> LakeError:
    """Return the error for a move that would undo or delete what others did.

    Args:
        repository: the repository of the ref.
        kind: a branch or a tag.
        name: the name of the ref.
        before: its position in the bucket; ``None``: it was deleted there.
        after: the position it should have; ``None``: it should be deleted.
    """
    if after is None:
        return stale(repository, name, before)
    uri = f"{repository.uri}/{name}"
    if before is None:
        return NonFastForward(
            f"{kind} {name} was deleted in the bucket",
            hint=f"it is kept on this machine; restore it in the bucket: lakecli push {uri}",
        )
    if kind is RefKind.TAG:
        return AlreadyExists(
            f"tag {name} is in the bucket already, at {before}",
            hint="push with --force-with-lease moves the tag for everybody",
        )
    return NonFastForward(
        f"the bucket has commits on {name} that are not here; it stands on {before}",
        hint=f"merge them first: lakecli pull {uri}",
    )

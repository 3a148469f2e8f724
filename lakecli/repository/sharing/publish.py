"""Moving one ref in the bucket, for push, undo and automatic sharing; and its refusals.

First, all that the new commits refer to is verified to be in the bucket
(`lakecli.repository.sharing.references`), and the commits that are in no pack are written as one.
Then the ref moves (`lakecli.repository.journal.intents.make_move`).

A new pack takes in small ones: packs are merged geometrically, so that a clone reads few of them
whatever the number of pushes. A replaced pack is deleted after a day: until then, another clone may
read what it has listed before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from shlex import quote
from typing import Final

from lakecli.base.ids import MetarangeId, PackId
from lakecli.base.layout import pack_key, sstable_key
from lakecli.base.model import Commit, CommitId, RefKind
from lakecli.base.retry import SWEEPS, Retries
from lakecli.errors import AlreadyExists, LakeError, LostRace, PermissionDenied, Unreachable
from lakecli.kv.bucket import PackedStore, Tracked, TrackingStore
from lakecli.kv.local_store import ReadTransaction
from lakecli.refs.graph import iter_unreached
from lakecli.refs.ref_store import RefStore, get_commit, get_parent
from lakecli.remote import packs
from lakecli.remote.gc_protocol import (
    NEVER_RAN,
    GcState,
    Phase,
    may_have_swept,
    read_state,
    wait_for_sweep,
)
from lakecli.remote.packs import PackInfo
from lakecli.remote.ref_records import RemoteRef
from lakecli.remote.refs import MoveOutcome, MoveResult, find_ref, iter_refs
from lakecli.repository.contract import Repository
from lakecli.repository.handle.namespace import check_writable
from lakecli.repository.journal import bucket_state, hooks, intents
from lakecli.repository.journal.intents import WantedMove, make_move
from lakecli.repository.sharing.fetch import find_gone_back
from lakecli.repository.sharing.references import NotInBucket, Trees, check_references

TRUSTED_SHARE: Final = 0.5
"""Share of the grace period: younger data is not looked for, since it cannot be collected yet."""

CLOCK_SLACK: Final = timedelta(hours=1)
"""How far the clock of an uploading machine may be wrong."""

_MOST_READ: Final = 4
"""Refs that are read one by one rather than by a listing, which grows with their number."""

KEPT_FOR: Final = timedelta(days=1)
"""How long a replaced pack is kept."""

_COMMIT_SIZE: Final = 400
"""Approximate bytes of a commit in a pack, without its message."""


class Unverified(Unreachable):
    """A ref moved in the bucket; whether garbage collection has spared its objects is unknown."""


def compare_and_publish(repository: Repository, wanted: WantedMove) -> MoveResult:
    """Read a ref in the bucket, and `publish` its move if it stands where the move has to start.

    Where many commit to one branch, this saves most of the cost of a lost race.
    """
    ref = find_ref(repository.store, wanted.kind, wanted.name)
    if _is_lost(repository, wanted, ref):
        return MoveResult(MoveOutcome.LOST, ref)
    return publish(repository, wanted, is_push=False)


def publish(
    repository: Repository,
    wanted: WantedMove,
    *,
    has_fetched: bool = False,
    is_push: bool = True,
) -> MoveResult:
    """Move a ref in the bucket, with all that its new position makes reachable.

    Args:
        wanted: the move; the caller has compared the ref in the bucket with it.
        has_fetched: whether this command has fetched all refs, and so compared them with those that
            were seen before.
        is_push: as `lakecli.repository.journal.intents.make_move` takes it.

    Returns:
        As `lakecli.repository.journal.intents.make_move` does.

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
    event: dict[str, object] = {"kind": wanted.kind, "ref": wanted.name}
    event |= {"before": wanted.before, "after": wanted.after}
    hooks.ask(repository, "push", **event)
    result = _publish(repository, wanted, has_fetched=has_fetched, is_push=is_push)
    if result.outcome == MoveOutcome.APPLIED:
        hooks.tell(repository, "push", **event)
    return result


def _publish(
    repository: Repository, wanted: WantedMove, *, has_fetched: bool, is_push: bool
) -> MoveResult:
    check_writable(repository)
    collection = _settled(repository)
    if wanted.after is None:
        return make_move(repository, wanted)  # a deletion makes nothing reachable
    commits = _new_commits(repository, wanted.before, wanted.after, collection)
    trees = _new_trees(repository, commits)
    if trees:
        older_than = _oldest_trusted(repository, collection)
        head = _tree_of(repository, wanted.after)
        may_lack = check_references(repository, trees, head=head, older_than=older_than)
        if may_lack and not has_fetched and (back := find_gone_back(repository)):
            bucket_state.notify_rollback(repository, back)
            check_references(repository, trees, head=head, older_than=None)
    if not collection.never_ran:
        # No sweep may delete what was just found before it sees that a ref reaches it. If one did
        # meanwhile, `collection` is older than it, and everything is verified once more at the end.
        used = {commit.metarange_id for commit in commits if commit.metarange_id}
        repository.guard.claim(sorted(map(sstable_key, used)))
    if wanted.landing is not None:
        # Many machines commit to one branch, and the checks took a while. If the race is lost, this
        # saves writing a pack in vain.
        ref = find_ref(repository.store, wanted.kind, wanted.name)
        if _is_lost(repository, wanted, ref):
            return MoveResult(MoveOutcome.LOST, ref)
    repository.lake.runtime.on_step("pack")
    pack = _pack(repository, commits, wanted.after)
    result = make_move(repository, wanted, pack=pack, is_push=is_push)
    if result.outcome == MoveOutcome.APPLIED and trees:
        _check_again(repository, wanted, trees, collection)
    return result


def _is_lost(repository: Repository, wanted: WantedMove, ref: RemoteRef | None) -> bool:
    """Return whether a ref in the bucket does not stand where its move has to start.

    If an earlier command has begun a move of the ref, the answer is no: it may be this very move.
    """
    if (None if ref is None else ref.commit_id) == wanted.before:
        return False
    with repository.lake.kv.read() as txn:
        return not intents.is_begun(txn, repository, wanted.kind, wanted.name)


def _settled(repository: Repository) -> GcState:
    retries = Retries(SWEEPS, sleep=repository.lake.runtime.sleep)
    return wait_for_sweep(repository.store, retries)


def _new_commits(
    repository: Repository, before: CommitId | None, after: CommitId, collection: GcState
) -> list[Commit]:
    """Return the commits that the bucket's refs do not reach, as far as this clone knows.

    `before` was read a moment ago. Positions of other refs are believed if they have not moved
    since they were seen: of a few commits, one ref each is read; otherwise, all refs are listed.
    Where something may have been collected since, only the commits on which refs stand are believed
    to be whole.
    """
    known = set() if before is None else {before}
    with repository.lake.kv.read() as txn:
        tracked = list(TrackingStore(txn, repository.key).iter())
        fetched = bucket_state.find_fetched(txn, repository)
        positions = {each.commit_id for each in tracked if each.commit_id is not None} - known
        commits = list(iter_unreached(RefStore(txn, repository.key), after, known | positions))
    ids = {commit.id for commit in commits}
    ends = {parent for commit in commits for parent in commit.parents} | {after}
    if not positions or ends <= ids | known:
        return commits
    then = NEVER_RAN if fetched is None else GcState(Phase(fetched.phase), fetched.epoch)
    may_lack = may_have_swept(then, collection)
    if (not may_lack or ends <= ids | known | positions) and _still_stand(
        repository, tracked, ends - ids - known
    ):
        return commits
    if not may_lack:
        versions = {(each.kind, each.name): each.version for each in iter_refs(repository.store)}
        standing = [ref for ref in tracked if versions.get((ref.kind, ref.name)) == ref.version]
        known |= {each.commit_id for each in standing if each.commit_id is not None}
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


def _new_trees(repository: Repository, commits: Sequence[Commit]) -> Trees:
    """Return the trees of new commits, each with those of the parents of its oldest commit.

    So a tree that came again, by a revert, is not compared with what was made of it.
    """
    trees = {}
    with repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        for commit in commits:
            parents = [refs.get_commit(parent).metarange_id for parent in commit.parents]
            if commit.metarange_id and commit.metarange_id not in parents:
                trees[commit.metarange_id] = parents
    return trees


def _tree_of(repository: Repository, commit_id: CommitId) -> MetarangeId:
    with repository.lake.kv.read() as txn:
        return RefStore(txn, repository.key).get_commit(commit_id).metarange_id


def _oldest_trusted(repository: Repository, collection: GcState) -> datetime | None:
    """Return when the oldest entries were made whose data is trusted; ``None``: none is.

    Young data is trusted while nothing is condemned, unless the bucket went back in time since it
    was uploaded.
    """
    if collection.phase is not Phase.IDLE:
        return None
    trusted_for = collection.grace * TRUSTED_SHARE - CLOCK_SLACK
    oldest = repository.lake.runtime.now() - trusted_for
    with repository.lake.kv.read() as txn:
        last = bucket_state.find_rollback(txn, repository)
    return oldest if last is None else max(oldest, last.at + CLOCK_SLACK)


def _pack(repository: Repository, commits: Sequence[Commit], after: CommitId) -> PackId | None:
    """Write a pack if commits are in none; return the ID of the pack that has `after`.

    Packs that are recorded to have new commits and are not in the bucket are forgotten.
    """
    with repository.lake.kv.read() as txn:
        packed = PackedStore(txn, repository.key)
        known = {pack for commit in commits if (pack := packed.find_pack(commit.id)) is not None}
        pack_id = packed.find_pack(after)
    if pack_id is not None and not known:
        return pack_id
    infos = packs.list_packs(repository.store)
    if lost := known.difference(info.id for info in infos):
        with repository.lake.kv.write() as txn:
            PackedStore(txn, repository.key).forget(lost)
    with repository.lake.kv.read() as txn:
        unpacked = _unpacked_commits(txn, repository, after)
    return write_pack(repository, unpacked, infos) if unpacked else pack_id


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


def write_pack(
    repository: Repository, commits: Sequence[Commit], infos: Sequence[PackInfo]
) -> PackId:
    """Write commits into the bucket as one pack, with those of small packs, and record it.

    Args:
        commits: one at least.

    Raises:
        PermissionDenied: writing there is not allowed.
        Unreachable: the store does not answer.
    """
    store = repository.store
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
            pack = packs.find_replaceable_pack(store, pack_id)
        except LakeError:
            continue  # a push does not need to merge a pack that it may not read
        if pack is None:
            continue
        everything |= {commit.id: commit for commit in pack.commits}
        older = [each for each in pack.replaces if each in listed]
        replaced += [pack.id, *older]
        if newest is not None and listed[pack.id].modified_at < newest - KEPT_FOR:
            superseded += older
    replaces = tuple(sorted(set(replaced)))
    pack_id = packs.write_pack(store, list(everything.values()), replaces=replaces)
    if superseded:
        with suppress(PermissionDenied):
            store.delete(map(pack_key, superseded))
    with repository.lake.kv.write() as txn:
        PackedStore(txn, repository.key).add(pack_id, everything, replaces=replaces)
    return pack_id


def _check_again(repository: Repository, wanted: WantedMove, trees: Trees, before: GcState) -> None:
    """Verify again, once the ref has moved, if a sweep may have run meanwhile."""
    name = wanted.name
    try:
        if not may_have_swept(before, read_state(repository.store)):
            return
        _settled(repository)
        assert wanted.after is not None
        head = _tree_of(repository, wanted.after)
        check_references(repository, trees, head=head, older_than=None)
    except NotInBucket as error:
        raise NotInBucket(
            f"{name} was moved in the bucket, but garbage collection has deleted what it needs: "
            f"{error.message}",
            hint=f"upload them again, with the same contents, then: `fsck --data {repository.uri}`",
            paths=error.paths,
        ) from error
    except LakeError as error:
        raise Unverified(
            f"{name} was moved in the bucket, but it is unknown whether garbage collection has "
            f"spared what it needs: {error.message}",
            hint=f"when the store answers again: `fsck --data {repository.uri}`",
        ) from error


class NonFastForward(LostRace):
    """The bucket has commits on the branch that this clone's branch does not reach."""


class StaleLease(LostRace):
    """The ref does not stand where a forced push expected it."""


def stale(repository: Repository, name: str, commit_id: CommitId | None) -> StaleLease:
    """Return the error for a ref that does not stand in the bucket where it was expected."""
    where = "was deleted" if commit_id is None else f"stands on {commit_id}"
    return StaleLease(
        f"{name} is not where it was expected in the bucket: it {where}",
        hint=f"fetch what is there, then decide again: `fetch {repository.uri}`",
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
        kind: a branch or a tag.
        before: its position in the bucket; ``None``: it was deleted there.
        after: the position it should have; ``None``: it should be deleted.
    """
    if after is None:
        return stale(repository, name, before)
    uri = quote(f"{repository.uri}/{name}")
    if before is None:
        return NonFastForward(
            f"{kind} {name} was deleted in the bucket",
            hint=f"it is kept on this machine; restore it in the bucket: `push {uri}`",
        )
    if kind is RefKind.TAG:
        return AlreadyExists(
            f"tag {name} is in the bucket already, at {before}",
            hint="push with --force-with-lease moves the tag for everybody",
        )
    return NonFastForward(
        f"the bucket has commits on {name} that are not here; it stands on {before}",
        hint=f"merge them first: `pull {uri}`",
    )

"""Move one ref in the bucket, for push, undo and automatic sharing; make errors for refused moves.

First, all objects that the new commits refer to are verified to be in the bucket
(`lakecli.repository.sharing.references`), and the commits that are in no pack are written as one
pack. Then the ref moves (`lakecli.repository.journal.intents.make_move`).

A new pack includes the commits of small packs. Packs are merged geometrically, so that a clone
reads few packs however many pushes there were. A replaced pack is deleted after a day: until then,
another clone may read the packs that it has listed before.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from shlex import quote
from typing import Final

from lakecli.base.ids import MetarangeId, PackId
from lakecli.base.layout import pack_key, sstable_key
from lakecli.base.model import Commit, CommitId, RefKind
from lakecli.base.retry import SWEEPS, Retries
from lakecli.errors import AlreadyExists, LakeError, LostRace, PermissionDenied, Unreachable
from lakecli.kv.bucket import PackedStore, Tracked
from lakecli.refs.graph import iter_unreached
from lakecli.remote import gc_protocol, packs
from lakecli.remote.gc_protocol import NEVER_RAN, GcState, Phase, may_have_swept, read_state
from lakecli.remote.packs import PackInfo
from lakecli.remote.refs import MoveOutcome, MoveResult, find_ref, iter_refs
from lakecli.repository.contract import Repository
from lakecli.repository.handle.namespace import check_writable
from lakecli.repository.journal import bucket_state, hooks, intents
from lakecli.repository.journal.intents import WantedMove, make_move
from lakecli.repository.sharing.fetch import find_gone_back, unpacked_commits
from lakecli.repository.sharing.references import NotInBucket, Trees, check_references
from lakecli.stores.capabilities import store_time
from lakecli.stores.contract import exists

TRUSTED_SHARE: Final = 0.5
"""Data younger than this share of the grace period is trusted: it cannot be deleted yet."""

CLOCK_SLACK: Final = timedelta(hours=1)
"""The largest accepted error of an uploading machine's clock."""

_MOST_READ: Final = 4
"""The largest number of refs that are read one by one instead of by listing all refs."""

KEPT_FOR: Final = timedelta(days=1)
"""How long a replaced pack is kept."""


class Unverified(Unreachable):
    """A ref moved in the bucket, but garbage collection may have deleted objects that it needs."""


def compare_and_publish(repository: Repository, wanted: WantedMove) -> MoveResult:
    """Publish a move, if the ref in the bucket is at the commit where the move starts.

    If many clients commit to one branch, reading the ref first makes a lost race cheap.
    """
    return _find_lost(repository, wanted) or publish(repository, wanted, is_push=False)


def publish(
    repository: Repository, wanted: WantedMove, *, has_fetched: bool = False, is_push: bool = True
) -> MoveResult:
    """Move a ref in the bucket, after sending all objects that its new commit makes reachable.

    Args:
        wanted: the move; the caller has checked that the ref in the bucket is at its start.
        has_fetched: whether this command has fetched all refs, and so compared them with the state
            that this clone saw last.
        is_push: as in `lakecli.repository.journal.intents.make_move`.

    Returns:
        The result of `lakecli.repository.journal.intents.make_move`.

    Raises:
        CannotShare: the store has no working compare-and-set.
        NewerRepository: only newer versions may write to the repository.
        Swept: garbage was collected meanwhile; nothing was moved.
        NotInBucket: an object that the new commits refer to is missing in the bucket. Unless the
            message says otherwise, the ref has not moved.
        Unverified: the ref was moved, but then it was impossible to find out whether a sweep ran.
        OutcomeUnknown: the bucket's reply was lost; the next command finds out whether the ref
            moved.
        Unreachable: the store does not answer; nothing was moved.
        PermissionDenied: writing to the namespace is not allowed; nothing was moved.
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
    head, trees = _new_trees(repository, commits, wanted, collection)
    if trees:
        older_than = _oldest_trusted(repository, collection)
        may_lack = check_references(repository, trees, head=head, older_than=older_than)
        if may_lack and not has_fetched and (back := find_gone_back(repository)):
            bucket_state.notify_rollback(repository, back)
            check_references(repository, trees, head=head, older_than=None)
    if not collection.never_ran:
        # Claim the trees, so that no sweep deletes them before a ref reaches them. If a sweep ran
        # meanwhile, it is newer than `collection`, and everything is verified again at the end.
        used = {commit.metarange_id for commit in commits if commit.metarange_id}
        repository.guard.claim(sorted(map(sstable_key, used)))
    # Many machines commit to one branch, and the checks took a while. If the race is lost, this
    # saves writing a pack in vain.
    if wanted.landing is not None and (lost := _find_lost(repository, wanted)) is not None:
        return lost
    repository.lake.runtime.on_step("pack")
    pack = _pack(repository, commits, wanted.after)
    result = make_move(repository, wanted, pack=pack, is_push=is_push)
    if result.outcome == MoveOutcome.APPLIED and trees:
        _check_again(repository, wanted.name, head, trees, collection)
    return result


def _find_lost(repository: Repository, wanted: WantedMove) -> MoveResult | None:
    """Return the result of a lost move if the ref in the bucket is not at the start of the move.

    If an earlier command has begun a move of the ref, the move is not lost: it may be this very
    move.
    """
    ref = find_ref(repository.store, wanted.kind, wanted.name)
    if (None if ref is None else ref.commit_id) == wanted.before:
        return None
    with repository.lake.kv.read() as txn:
        is_begun = intents.is_begun(txn, repository, wanted.kind, wanted.name)
    return None if is_begun else MoveResult(MoveOutcome.LOST, ref)


def _settled(repository: Repository) -> GcState:
    retries = Retries(SWEEPS, sleep=repository.lake.runtime.sleep)
    return gc_protocol.wait_for_sweep(repository.store, retries)


def _new_commits(
    repository: Repository, before: CommitId | None, after: CommitId, collection: GcState
) -> list[Commit]:
    """Return the commits that the bucket's refs do not reach, as far as this clone knows.

    The ref's commit `before` was just read from the bucket. The last seen commit of another ref
    counts only if the ref has not moved since. To find out whether refs have moved, one ref is read
    for each commit, or all refs are listed if there are many commits. If garbage may have been
    collected since the last fetch, a known commit counts as complete only if a ref points to it.
    """
    known = set() if before is None else {before}
    with repository.lake.kv.read() as txn:
        tracking = repository.tracking(txn)
        tracked, positions = list(tracking.iter()), tracking.positions() - known
        fetched = bucket_state.find_fetched(txn, repository)
        commits = list(iter_unreached(repository.refs(txn), after, known | positions))
    ids = {commit.id for commit in commits}
    ends = {parent for commit in commits for parent in commit.parents} | {after}
    if not positions or ends <= ids | known:
        return commits
    then = NEVER_RAN if fetched is None else GcState(Phase(fetched.phase), fetched.epoch)
    may_lack = may_have_swept(then, collection)
    is_complete = not may_lack or ends <= ids | known | positions
    if is_complete and _still_stand(repository, tracked, ends - ids - known):
        return commits
    if not may_lack:
        versions = {(each.kind, each.name): each.version for each in iter_refs(repository.store)}
        standing = [ref for ref in tracked if versions.get((ref.kind, ref.name)) == ref.version]
        known |= {each.commit_id for each in standing if each.commit_id is not None}
    with repository.lake.kv.read() as txn:
        return list(iter_unreached(repository.refs(txn), after, known))


def _still_stand(repository: Repository, tracked: Iterable[Tracked], ends: set[CommitId]) -> bool:
    """Return whether a ref still points to each of a few commits; read one ref for each commit."""
    seen = {each.commit_id: each for each in tracked if each.commit_id in ends}
    if len(ends) > _MOST_READ or len(seen) < len(ends):
        return False
    refs = ((each, find_ref(repository.store, each.kind, each.name)) for each in seen.values())
    return all(ref is not None and ref.version == each.version for each, ref in refs)


def _new_trees(
    repository: Repository, commits: Sequence[Commit], wanted: WantedMove, collection: GcState
) -> tuple[MetarangeId, Trees]:
    """Return the tree of the head; and new trees, each with the parents' trees to compare it with.

    If several new commits have the same tree, the parents of the oldest of these commits count. So
    a tree that a revert restores is not compared with the tree that the revert undid.

    Retention rules delete trees of commits that refs reach, unless they are heads, and a tree goes
    before its objects. So a known commit counts only if it is a head or its tree is in the bucket.
    """
    assert wanted.after is not None
    with repository.lake.kv.read() as txn:
        refs = repository.refs(txn)
        ends = {parent for commit in commits for parent in commit.parents} | {wanted.after}
        ends -= {commit.id for commit in commits} | repository.tracking(txn).positions()
        old = {refs.get_commit(each).metarange_id for each in ends if each != wanted.before}
        head = refs.get_commit(wanted.after).metarange_id
        found = [
            (commit.metarange_id, [refs.get_commit(each).metarange_id for each in commit.parents])
            for commit in commits
        ]
    gone = set[MetarangeId]()
    if not collection.never_ran:
        gone = {each for each in old if each and not exists(repository.store, sstable_key(each))}
    trees: dict[MetarangeId, list[MetarangeId]] = {head: []} if head in gone else {}
    for tree, parents in found:
        left = [each for each in parents if each not in gone]
        if tree and tree not in left:
            trees[tree] = left
    return head, trees


def _oldest_trusted(repository: Repository, collection: GcState) -> datetime | None:
    """Return the time after which uploaded data is trusted to be in the bucket, or ``None``.

    While garbage collection is idle, young data is trusted, unless the bucket was rolled back after
    the data was uploaded. During a collection, no data is trusted.
    """
    if collection.phase is not Phase.IDLE:
        return None
    trusted_for = collection.grace * TRUSTED_SHARE - CLOCK_SLACK
    now = repository.lake.runtime.now()
    # If this machine's clock is behind, the bucket may have collected data that seems young here.
    oldest = max(now, store_time(repository.store) or now) - trusted_for
    with repository.lake.kv.read() as txn:
        last = bucket_state.find_rollback(txn, repository)
    return oldest if last is None else max(oldest, last.at + CLOCK_SLACK)


def _pack(repository: Repository, commits: Sequence[Commit], after: CommitId) -> PackId | None:
    """Write packs if some commits are in no pack; return the ID of the pack that has `after`.

    If a recorded pack of the new commits is not in the bucket, it is forgotten, and its commits are
    written again.
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
        unpacked = unpacked_commits(txn, repository, after)
    for some in packs.divide_into_packs(unpacked):  # the last of them has `after`
        pack_id = write_pack(repository, some, infos)
    return pack_id


def write_pack(repository: Repository, commits: Sequence[Commit], infos: list[PackInfo]) -> PackId:
    """Write commits and the commits of small packs into the bucket as one pack, and record it.

    Args:
        commits: the commits, at least one.

    Raises:
        PermissionDenied: writing to the namespace is not allowed.
        Unreachable: the store does not answer.
    """
    store = repository.store
    with repository.lake.kv.read() as txn:
        live = set(PackedStore(txn, repository.key).live_packs())
    size = sum(map(packs.size_of_commit, commits))
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
            # A pack only claims which packs it replaces, and anybody can write a pack.
            old = filter(None, (packs.find_replaceable_pack(store, each) for each in superseded))
            held = (each for each in old if everything.keys() >= {one.id for one in each.commits})
            store.delete(pack_key(each.id) for each in held)
    with repository.lake.kv.write() as txn:
        PackedStore(txn, repository.key).add(pack_id, everything, replaces=replaces)
    return pack_id


def _check_again(
    repository: Repository, name: str, head: MetarangeId, trees: Trees, before: GcState
) -> None:
    """If a sweep may have run before a ref moved, verify that the bucket has the ref's objects."""
    moved = f"{name} was moved in the bucket, but"
    try:
        if not may_have_swept(before, read_state(repository.store)):
            return
        _settled(repository)
        check_references(repository, trees, head=head, older_than=None)
    except NotInBucket as error:
        what = f"{moved} garbage collection has deleted what it needs: {error.message}"
        hint = f"upload them again, with the same contents, then: `fsck --data {repository.uri}`"
        raise NotInBucket(what, hint=hint, paths=error.paths) from error
    except LakeError as error:
        unknown = "it is unknown whether garbage collection has spared what it needs"
        hint = f"when the store answers again: `fsck --data {repository.uri}`"
        raise Unverified(f"{moved} {unknown}: {error.message}", hint=hint) from error


class NonFastForward(LostRace):
    """The bucket has commits on the branch that are missing on this clone's branch."""


class StaleLease(LostRace):
    """The ref is not at the commit that a forced push expected."""


Position = CommitId | None
"""The commit of a ref; ``None`` if the ref does not exist."""


def stale(repository: Repository, name: str, commit_id: Position) -> StaleLease:
    """Return the error for a ref that is not at the expected commit in the bucket."""
    where = "was deleted" if commit_id is None else f"stands on {commit_id}"
    hint = f"fetch what is there, then decide again: `fetch {repository.uri}`"
    return StaleLease(f"{name} is not where it was expected in the bucket: it {where}", hint=hint)


def refused(
    repository: Repository, kind: RefKind, name: str, *, before: Position, after: Position
) -> LakeError:
    """Return the error for a move that would undo or delete moves of others.

    Args:
        kind: a branch or a tag.
        before: the ref's commit in the bucket; ``None``: it was deleted there.
        after: the commit that the move would set; ``None``: the move would delete the ref.
    """
    if after is None:
        return stale(repository, name, before)
    uri = quote(f"{repository.uri}/{name}")
    if before is None:
        hint = f"it is kept on this machine; restore it in the bucket: `push {uri}`"
        return NonFastForward(f"{kind} {name} was deleted in the bucket", hint=hint)
    if kind is RefKind.TAG:
        hint = "to move the tag for everybody: `lease=PushLease()`"
        return AlreadyExists(f"tag {name} is in the bucket already, at {before}", hint=hint)
    what = f"the bucket has commits on {name} that are not here; it stands on {before}"
    return NonFastForward(what, hint=f"merge them first: `pull {uri}`")

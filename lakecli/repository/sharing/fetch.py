"""Read the refs in the bucket, and their commits: Git's ``fetch``.

A fetch lists the refs, and also the packs if there is much to read. It reads the refs that have
moved since this clone last read them, and the packs that contain their commits. Local branches
never move. New tags are created in this clone if their name is free; a tag that differs is reported
and stays.

A pack is recorded as known once the local store has all ancestors of its commits. So every commit
of a known pack has its complete history in the local store. If a store lists a pack late, this
clone does not record the packs that build on it, and the refs that need it keep their last known
commits. The next fetch reads these packs again.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from lakecli.base.ids import PackId
from lakecli.base.model import Commit, CommitId, RefKind, Tag
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.kv.bucket import PackedStore, Tracked
from lakecli.kv.local_store import ReadTransaction, WriteTransaction
from lakecli.kv.operations import FOLLOWED, RefChange
from lakecli.refs.graph import is_ancestor
from lakecli.refs.names import is_ref_name
from lakecli.refs.ref_store import DamagedHistory, RefStore, get_commit, get_parent
from lakecli.remote.gc_protocol import read_state
from lakecli.remote.packs import DamagedPack, Pack, list_packs, read_named_packs, read_new_packs
from lakecli.remote.ref_records import InvalidRecord, RemoteRef
from lakecli.remote.refs import PARALLEL_READS, ListedRef, iter_refs, read_refs
from lakecli.repository.contract import Repository
from lakecli.repository.handle.namespace import check_readable
from lakecli.repository.journal import bucket_state, operation_log, tracking, unsent_moves
from lakecli.stores.contract import Version

MAX_NAMED: Final = 16
"""The largest number of packs that are read by their names in refs, without listing all packs."""

BATCH: Final = 8_192
"""The largest number of commits written in one transaction, which blocks other processes."""


class Change(StrEnum):
    """What happened to a ref in the bucket since this clone last read it."""

    NEW = "new"
    MOVED = "moved"
    FORCED = "forced"
    """The ref's new commit does not have the old commit among its ancestors."""
    DELETED = "deleted"
    WENT_BACK = "went back"
    """The ref has an older state than this clone has seen: the bucket was rolled back."""
    INCOMPLETE = "incomplete"
    """The ref's new commits are not listed yet, so the ref's old commit is kept."""
    DIFFERS = "differs"
    """This clone has a tag of this name at another commit, or a branch of this name."""


class RefUpdate(NamedTuple):
    """A ref in the bucket that moved.

    Attributes:
        kind: branch or tag.
        name: name of the branch or tag.
        before: its commit in the bucket at the last fetch; null if it did not exist.
        after: its commit in the bucket now; null if it was deleted.
        change: new, moved, forced, went back, deleted, incomplete or differs.
    """

    kind: RefKind
    name: str
    before: CommitId | None
    after: CommitId | None
    change: Change


class FetchReport(NamedTuple):
    """The result of a fetch.

    Attributes:
        updated: branches and tags that moved since the last fetch, branches first, by name.
        commits: number of new commits.
        packs: number of commit packs that were read.
        refs: number of branches and tags in the bucket, including deleted ones.
        damaged: records that were left out because they are damaged; a damaged branch or tag keeps
            its last known commit.
    """

    updated: tuple[RefUpdate, ...]
    commits: int
    packs: int
    refs: int
    damaged: tuple[InvalidRecord, ...] = ()


def fetch(repository: Repository, *, progress: Progress = NO_PROGRESS) -> FetchReport:
    """Fetch the commits that this clone lacks, and record the commits of the bucket's refs.

    Args:
        progress: counts the refs and commits that were read.

    Raises:
        NewerRepository: only newer versions may read the repository.
        OtherRepository: this repository no longer owns the namespace.
        Unreachable: the store does not answer.
        PermissionDenied: reading or listing is not allowed.
    """
    lake = repository.lake
    state = read_state(repository.store)
    with lake.kv.read() as txn:
        known = repository.tracking(txn).by_ref()
    remote = read_remote(repository, known, checks_owner=True, progress=progress)
    if number := max((ref.policy for ref in remote.refs), default=0):
        from lakecli.repository.policy.rules import see_rules  # few repositories have rules

        see_rules(repository, number)
    back = find_back(repository, known, remote)
    packs = {info.id for info in list_packs(repository.store)} if back else set()
    unpacked = take_packs(repository, remote.refs, progress=progress)
    lake.runtime.on_step("track")
    fetched = bucket_state.LastFetch(lake.runtime.now(), str(state.phase), state.epoch)
    with lake.kv.write() as txn:
        went_back = _accept(txn, repository, back, packs)
        updated = _track(txn, repository, remote, went_back)
        bucket_state.put_fetched(txn, repository, fetched)
    if went_back:
        bucket_state.notify_rollback(repository, went_back)
    damaged = (*remote.damaged, *unpacked.damaged)
    notify(repository, damaged)
    return FetchReport(updated, unpacked.commits, unpacked.packs, remote.listed, damaged)


def notify(repository: Repository, damaged: Iterable[InvalidRecord], *, hint: str = "") -> None:
    """Add a notice for each malformed object that was left out."""
    repair = f"examine and repair it: `fsck --repair {repository.uri}`"
    hint = hint or f"what this clone knew of it is kept; {repair}"
    for each in damaged:
        repository.notify(f"left out {each.kind} {each.name!r}: {each.what}", hint=hint)


def _accept(
    txn: WriteTransaction, repository: Repository, back: Sequence[Tracked], packs: set[PackId]
) -> dict[tuple[RefKind, str], Tracked]:
    """Forget the records of refs that were rolled back, unless another process has fetched since.

    Returns:
        The last seen state of each of these refs.
    """
    positions = repository.tracking(txn)
    seen = [each for each in back if positions.find(each.kind, each.name) == each]
    if seen:
        bucket_state.accept_rollback(txn, repository, seen, packs=packs)
    return {(each.kind, each.name): each for each in seen}


@dataclass(slots=True)
class Unpacked:
    """The result of reading packs into the local store.

    Attributes:
        packs: the number of packs that were read.
        commits: the number of commits that were new in this clone.
        damaged: packs and records of packs that were left out because they are damaged, each once.
    """

    packs: int = 0
    commits: int = 0
    damaged: dict[InvalidRecord, None] = field(default_factory=dict)


def is_whole(txn: ReadTransaction, repository: Repository, commit_id: CommitId | None) -> bool:
    """Return whether this clone has a commit with its complete history.

    Args:
        commit_id: the commit; ``None``, for a deleted ref, counts as complete.
    """
    try:
        if commit_id is not None:
            unpacked_commits(txn, repository, commit_id)
    except DamagedHistory:
        return False
    return True


def unpacked_commits(txn: ReadTransaction, repository: Repository, head: CommitId) -> list[Commit]:
    """Return the commits that `head` reaches and that are in no pack, in no particular order.

    The search ends at packed commits: their ancestors are in packs, too.

    Raises:
        DamagedHistory: a commit is missing here.
    """
    refs, packed = repository.refs(txn), PackedStore(txn, repository.key)
    if packed.find_pack(head) is not None:
        return []
    found = {head: get_commit(refs, head)}
    frontier = [found[head]]
    while frontier:
        commit = frontier.pop()
        for parent in commit.parents:
            if parent not in found and packed.find_pack(parent) is None:
                found[parent] = get_parent(refs, commit, parent)
                frontier.append(found[parent])
    return list(found.values())


def take_packs(
    repository: Repository, refs: Sequence[RemoteRef], *, progress: Progress = NO_PROGRESS
) -> Unpacked:
    """Read the packs that have the commits of refs.

    A ref names the packs of its last moves. If these packs are few, they are read first, which
    skips the packs of lost races. If they are many or lack a commit, the packs are listed and all
    new packs are read, the largest first. If commits are still missing, because a store may list a
    pack late, the packs that the refs name are read by key. They are not read by key earlier: most
    of them were merged into larger packs long ago. Replaced packs are then read, too, since a pack
    may falsely claim to replace them. A damaged pack is left out and reported.
    """
    unpacked = Unpacked()
    if not (lacking := _lacking(repository, refs)):
        return unpacked
    with repository.lake.kv.read() as txn:
        packed = PackedStore(txn, repository.key)
        named = list(dict.fromkeys(pack for ref in lacking for pack in _unseen(packed, ref)))
    if len(named) <= MAX_NAMED:
        unpack(repository, read_named_packs(repository.store, named), unpacked, progress=progress)
        if not (lacking := _lacking(repository, lacking)):
            return unpacked
    take_new_packs(repository, unpacked, progress=progress)
    with repository.lake.kv.read() as txn:
        absent = [ref for ref in lacking if not is_whole(txn, repository, ref.commit_id)]
        late = {move.pack for ref in absent for move in ref.moves if move.pack}
    if absent:
        take_new_packs(repository, unpacked, named=late, all_packs=True, progress=progress)
    return unpacked


def take_new_packs(
    repository: Repository,
    unpacked: Unpacked | None = None,
    *,
    named: Collection[PackId] = (),
    all_packs: bool = False,
    until: CommitId | None = None,
    progress: Progress = NO_PROGRESS,
) -> Unpacked:
    """List the packs, and read the packs that are new in this clone, the largest first.

    Args:
        unpacked: the result of earlier readings, to which this one is added.
        named: packs that are read even if a stale listing lacks them.
        all_packs: also read packs that another pack claims to replace.
        until: a commit; after it was read, no further pack is read.
        progress: counts the commits that were read.
    """
    with repository.lake.kv.read() as txn:
        packed = PackedStore(txn, repository.key)
        known = set(packed.live_packs() if all_packs else packed.known_packs())
    read = read_new_packs(repository.store, known, also=named, all_packs=all_packs)
    return unpack(repository, read, unpacked, until=until, progress=progress)


def _lacking(repository: Repository, refs: Iterable[RemoteRef]) -> list[RemoteRef]:
    """Return the refs whose commits are in none of the packs that this clone has read."""
    with repository.lake.kv.read() as txn:
        packed = PackedStore(txn, repository.key)
        return [ref for ref in refs if ref.commit_id and packed.find_pack(ref.commit_id) is None]


def _unseen(packed: PackedStore, ref: RemoteRef) -> Iterator[PackId]:
    """Yield the packs of a ref's moves, newest first, back to a move to a commit of this clone."""
    for move in ref.moves:
        if move.after is not None and packed.find_pack(move.after) is not None:
            return
        if move.pack:
            yield move.pack


class _WaitingPack(NamedTuple):
    """A pack that was read, and the parents of its commits that this clone lacked at that time."""

    id: PackId
    replaces: tuple[PackId, ...]
    commit_ids: tuple[CommitId, ...]
    needs: frozenset[CommitId]


def unpack(
    repository: Repository,
    packs: Iterable[Pack | DamagedPack],
    unpacked: Unpacked | None = None,
    *,
    until: CommitId | None = None,
    progress: Progress = NO_PROGRESS,
) -> Unpacked:
    """Write the commits of packs into the local store, in batches.

    Args:
        packs: the packs, which are read while this function iterates; damaged packs are left out.
        unpacked: the result of earlier readings, to which this one is added.
        until: a commit; the packs after the pack that contains it are not read.
        progress: counts the commits that were written.
    """
    unpacked, waiting = unpacked or Unpacked(), list[_WaitingPack]()
    for pack in packs:
        unpacked.damaged |= dict.fromkeys(pack.bad)
        if isinstance(pack, DamagedPack):
            continue
        unpacked.packs += 1
        unpacked.commits += _write(repository, pack.commits, progress)
        ids = tuple(commit.id for commit in pack.commits)
        needs = _missing_parents(repository, pack.commits)
        known = _WaitingPack(pack.id, pack.replaces, ids, needs)
        if needs:
            waiting.append(known)
        else:
            _note_known(repository, [known])
        if until in ids:
            break
    if waiting:
        _note_complete(repository, waiting)
    return unpacked


def _write(repository: Repository, commits: list[Commit], progress: Progress) -> int:
    """Write commits into the local store, and return how many were new."""
    new = 0
    for start in range(0, len(commits), BATCH):
        part = commits[start : start + BATCH]
        with repository.lake.kv.write() as txn:
            refs = repository.refs(txn)
            for commit in part:
                if refs.find_commit(commit.id) is None:
                    refs.put_commit(commit)
                    new += 1
        progress.advance(items=len(part))
    return new


def _missing_parents(repository: Repository, commits: list[Commit]) -> frozenset[CommitId]:
    with repository.lake.kv.read() as txn:
        refs = repository.refs(txn)
        packed = PackedStore(txn, repository.key)
        own = {commit.id for commit in commits}
        outside = {parent for commit in commits for parent in commit.parents} - own
        here = {each for each in outside if packed.find_pack(each) and refs.find_commit(each)}
        return frozenset(outside - here)


def _note_known(repository: Repository, packs: Iterable[_WaitingPack]) -> None:
    """Record packs as known, in one transaction, because a pack may need commits of another."""
    with repository.lake.kv.write() as txn:
        packed = PackedStore(txn, repository.key)
        for pack in packs:
            packed.add(pack.id, pack.commit_ids, replaces=pack.replaces)


def _note_complete(repository: Repository, waiting: Sequence[_WaitingPack]) -> None:
    """Record packs whose missing parents have arrived."""
    pack_of = {commit_id: pack.id for pack in waiting for commit_id in pack.commit_ids}
    incomplete: set[PackId] = set()
    with repository.lake.kv.read() as txn:
        packed = PackedStore(txn, repository.key)
        while more := {
            pack.id
            for pack in waiting
            if pack.id not in incomplete
            and any(
                pack_of[need] in incomplete if need in pack_of else packed.find_pack(need) is None
                for need in pack.needs
            )
        }:
            incomplete |= more
    _note_known(repository, [pack for pack in waiting if pack.id not in incomplete])


def _track(
    txn: WriteTransaction,
    repository: Repository,
    remote: "RefsInBucket",
    went_back: Mapping[tuple[RefKind, str], Tracked],
) -> tuple[RefUpdate, ...]:
    """Record the commits of the bucket's refs, create new tags, and return what changed."""
    positions = repository.tracking(txn)
    tags: list[RefChange] = []
    updated = [
        RefUpdate(each.kind, each.name, each.commit_id, None, Change.WENT_BACK)
        for each in remote.gone
        if (each.kind, each.name) in went_back
    ]
    for ref in remote.refs:
        found = positions.find(ref.kind, ref.name)
        if found is not None and found.sequence > ref.sequence:
            continue  # another process has fetched since
        before = None if found is None else found.commit_id
        if not is_whole(txn, repository, ref.commit_id):
            updated.append(RefUpdate(ref.kind, ref.name, before, ref.commit_id, Change.INCOMPLETE))
            continue
        tracking.track(txn, repository, ref)
        seen = went_back.get((ref.kind, ref.name))
        change = _change(repository.refs(txn), before, ref.commit_id)
        if seen is not None:
            before, change = seen.commit_id, Change.WENT_BACK
        # If another process has fetched this move since, the tag exists here, or was undone here.
        is_new = found is None or found.write_id != ref.write_id
        if is_new and ref.kind is RefKind.TAG and ref.commit_id is not None:
            change = _take_tag(txn, repository, Tag(ref.name, ref.commit_id), tags) or change
        if change is not None:
            updated.append(RefUpdate(ref.kind, ref.name, before, ref.commit_id, change))
    if tags:
        # Undo ignores a fetch that the user did not ask for.
        kind = FOLLOWED if repository.syncs else "fetch"
        operation_log.append(txn, repository, kind=kind, refs=tags)
        unsent_moves.drop_notes(txn, repository, tags)
    return tuple(updated)


def _change(refs: RefStore, before: CommitId | None, after: CommitId | None) -> Change | None:
    if before == after:
        return None
    if after is None:
        return Change.DELETED
    if before is None:
        return Change.NEW
    return Change.MOVED if is_ancestor(refs, before, after) else Change.FORCED


def _take_tag(
    txn: WriteTransaction, repository: Repository, tag: Tag, changes: list[RefChange]
) -> Change | None:
    """Create a tag in this clone; return ``DIFFERS`` if another ref has its name, else ``None``."""
    refs = repository.refs(txn)
    present = refs.find_tag(tag.name)
    if present is not None or refs.find_branch(tag.name) is not None:
        return None if present == tag else Change.DIFFERS
    if unsent_moves.find_unsent(txn, repository, RefKind.TAG, tag.name) is not None:
        return Change.DIFFERS  # the tag was deleted here, and the deletion is not sent yet
    changes.append(operation_log.change_ref(txn, repository, None, tag))
    return None


class RefsInBucket(NamedTuple):
    """The refs of a bucket as a fetch has read them.

    Attributes:
        listed: the number of refs, including deleted refs.
        refs: the refs that have changed since this clone last read them.
        gone: refs that this clone has read before and that no longer exist.
        damaged: objects at the keys of refs that are not valid refs.
    """

    listed: int
    refs: tuple[RemoteRef, ...]
    gone: tuple[Tracked, ...]
    damaged: tuple[InvalidRecord, ...] = ()


def find_back(
    repository: Repository, known: Mapping[tuple[RefKind, str], Tracked], remote: RefsInBucket
) -> list[Tracked]:
    """Return the last seen state of each ref that was rolled back in the bucket, or is gone.

    Args:
        known: the last seen state of each ref.
        remote: the refs in the bucket that differ from their last seen state.
    """
    seen = list(remote.gone)
    moved = [(known.get((ref.kind, ref.name)), ref) for ref in remote.refs]
    pairs = [(before, ref) for before, ref in moved if before is not None]
    if pairs:
        with ThreadPoolExecutor(PARALLEL_READS) as pool:
            back = pool.map(lambda pair: tracking.went_back(repository.store, *pair), pairs)
            seen += [before for (before, _), is_older in zip(pairs, back, strict=True) if is_older]
    return seen


def read_remote(
    repository: Repository,
    known: dict[tuple[RefKind, str], Tracked],
    *,
    wanted: Callable[[RefKind, str], bool] = lambda _kind, _name: True,
    checks_owner: bool = False,
    progress: Progress = NO_PROGRESS,
) -> RefsInBucket:
    """Return the refs in the bucket that differ from their last seen state.

    A ref that the listing lacks is read by its key, since a store may list late: lakecli never
    deletes a ref object, but replaces it by a tombstone. An object that is not a valid ref is left
    out and reported, since it does not show the commit of the ref.

    Args:
        known: the last seen state of each ref.
        wanted: returns whether to read a ref with this kind and name; by default, all are read.
        checks_owner: verify before reading that this repository still owns the namespace. The check
            is skipped if every ref is listed with its last seen version, since each version comes
            from one write.
        progress: counts the refs that were read.
    """
    store = repository.store
    changed: list[ListedRef] = []
    listed = set()
    for each in iter_refs(store):
        if not is_ref_name(each.kind, each.name) or not wanted(each.kind, each.name):
            continue
        listed.add((each.kind, each.name))
        before = known.get((each.kind, each.name))
        if before is None or before.version != each.version:
            changed.append(each)
    unlisted = {ref: each for ref, each in known.items() if ref not in listed}
    late = [ListedRef(*ref, Version(each.version)) for ref, each in unlisted.items()]
    if checks_owner and (changed or late or not listed):
        check_readable(repository)
    read = []
    for found in read_refs(store, changed):
        read.append(found)
        progress.advance(items=1)
    answered = set()
    for found in read_refs(store, late):
        ref = RefKind(found.kind), found.name
        answered.add(ref)
        if isinstance(found, InvalidRecord) or found.version != known[ref].version:
            read.append(found)
    gone = [each for ref, each in unlisted.items() if ref not in answered]
    refs = [each for each in read if isinstance(each, RemoteRef)]
    refs.sort(key=lambda ref: (ref.kind, ref.name))
    damaged = sorted(each for each in read if isinstance(each, InvalidRecord))
    return RefsInBucket(len(listed), tuple(refs), tuple(gone), tuple(damaged))


def find_gone_back(repository: Repository) -> list[tuple[RefKind, str]]:
    """Read the refs that have changed, and return those that were rolled back; record nothing."""
    with repository.lake.kv.read() as txn:
        known = repository.tracking(txn).by_ref()
    back = find_back(repository, known, read_remote(repository, known))
    return [(each.kind, each.name) for each in back]

"""Repair what `fsck` finds, from intact copies; then check again.

Local commits come from the bucket, and refs and packs in the bucket from this clone. Only damaged
copies in the cache, and damaged packs whose commits are elsewhere, are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Final

from lakecli.base.ids import PackId
from lakecli.base.layout import MAX_REF_SIZE, REFS, pack_key, ref_key
from lakecli.base.model import Commit, CommitId
from lakecli.errors import IntegrityError, LakeError
from lakecli.fsck.findings import (
    Defect,
    Finding,
    FsckCounts,
    RepairCounts,
    Unrecoverable,
    describe_losses,
    problems_of_commit,
)
from lakecli.fsck.shared import believed_packs, read_packs
from lakecli.kv.bucket import PackedStore, Tracked, TrackingStore
from lakecli.kv.local_store import ReadTransaction
from lakecli.refs.graph import iter_reached
from lakecli.refs.ref_store import RefStore
from lakecli.remote.packs import read_new_packs, write_pack
from lakecli.remote.ref_records import (
    MAX_MOVES,
    NewerRecord,
    NotOurs,
    RemoteRef,
    dump_ref,
    parse_ref,
)
from lakecli.remote.refs import find_ref, iter_known_moves, iter_refs
from lakecli.repository import stored_objects
from lakecli.repository.contract import Repository
from lakecli.repository.handle import namespace
from lakecli.repository.stored_objects import Repaired
from lakecli.stores.contract import ABSENT, JSON, ConditionFailed, Match, ObjectNotFound, Version

ROUNDS: Final = 6
"""Checks at most: each repaired table may reveal problems of what it refers to."""


def repair(
    repository: Repository,
    check: Callable[[FsckCounts], Iterator[Finding]],
    *,
    places: Collection[str] = (),
    dry_run: bool = False,
    counts: RepairCounts | None = None,
) -> Iterator[Finding | Repaired | Unrecoverable]:
    """Repair what can be repaired; yield the findings, the repairs, and last what is lost.

    Args:
        repository: the repository to repair.
        check: runs `fsck` with the given counts.
        places: directories with files that may be lost objects, and URIs of copies of the
            namespace.
        dry_run: report what would be repaired, and change nothing; problems that repaired trees
            would reveal are not found.
        counts: updated while this runs.

    Raises:
        Unreachable: the store does not answer.
        PermissionDenied: writing to the namespace is not allowed.
    """
    counts = counts or RepairCounts()
    for repaired in stored_objects.repair_cache(repository, dry_run=dry_run):
        counts.repaired += 1
        yield repaired
    reported: set[tuple[str, str, bytes | None]] = set()
    for number in range(ROUNDS):
        counts.checked = FsckCounts()
        defects: dict[tuple[str, str], Defect] = {}
        for finding in check(counts.checked):
            identity = (finding.kind, finding.name, finding.path)
            if identity not in reported:
                reported.add(identity)
                yield finding
            key = (finding.kind, finding.name)
            defects.setdefault(key, Defect(*key, finding.what)).add(finding)
        if not defects or number == ROUNDS - 1:
            break
        repaired_any = False
        for repaired in _repair(repository, list(defects.values()), places, dry_run=dry_run):
            repaired_any = True
            counts.repaired += 1
            if dry_run:
                defects.pop((repaired.kind, repaired.name), None)
            yield repaired
        if dry_run or not repaired_any:
            break
        repository.forget_trees()
    for lost in describe_losses(repository, defects.values()):
        counts.lost += 1
        yield lost


def _repair(
    repository: Repository, defects: list[Defect], places: Collection[str], *, dry_run: bool
) -> Iterator[Repaired]:
    """Repair the findings of one check, as far as possible."""

    def of(*kinds: str) -> list[Defect]:
        return [defect for defect in defects if defect.kind in kinds]

    for defect in of("repository"):
        if _repair_claim(repository, dry_run=dry_run):
            yield Repaired("repository", defect.name, "written again")
    if of("ref", "commit"):
        yield from repair_local(repository, dry_run=dry_run)
        yield from repair_refs(repository, of("ref"), dry_run=dry_run)
    if of("ref", "commit", "pack"):
        yield from repair_packs(repository, dry_run=dry_run)
    tables = of("metarange", "range")
    yield from stored_objects.repair_tables(repository, tables, places, dry_run=dry_run)
    yield from stored_objects.repair_data(repository, of("data"), places, dry_run=dry_run)


def _repair_claim(repository: Repository, *, dry_run: bool) -> bool:
    try:
        owner = namespace.owner_of(repository.store)
    except LakeError:
        owner = None
    if owner is not None:
        return False
    if not dry_run:
        namespace.restore(repository.store, repository.record)
    return True


BATCH: Final = 2_000
"""Commits written in one transaction."""


def repair_local(repository: Repository, *, dry_run: bool) -> Iterator[Repaired]:
    """Replace missing or damaged local commits from the packs in the bucket."""
    with repository.lake.kv.read() as txn:
        wanted = set(_wrong_commits(repository, txn))
    if not wanted:
        return
    packs = read_new_packs(repository.store, (), on_damage=lambda _damaged: None)
    there = {commit.id: commit for pack in packs for commit in pack.commits}
    taken: dict[CommitId, Commit] = {}
    waiting = [commit_id for commit_id in wanted if commit_id in there]
    with repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        while waiting:
            commit = there[waiting.pop()]
            if commit.id in taken:
                continue
            taken[commit.id] = commit
            waiting += [
                parent
                for parent in commit.parents
                if parent in there and refs.find_commit(parent) is None
            ]
    if not dry_run:
        rest = iter(taken.values())
        while batch := list(islice(rest, BATCH)):
            with repository.lake.kv.write() as txn:
                refs = RefStore(txn, repository.key)
                for commit in batch:
                    refs.put_commit(commit)
    for commit_id in sorted(taken):
        yield Repaired("commit", commit_id, "taken from a commit pack")


def _wrong_commits(repository: Repository, txn: ReadTransaction) -> Iterator[CommitId]:
    """Yield the reachable commits that are missing or do not match their ID."""
    refs = RefStore(txn, repository.key)
    heads = [branch.commit_id for branch in refs.iter_branches()]
    heads += [tag.commit_id for tag in refs.iter_tags()]
    for commit_id, commit in iter_reached(refs, heads):
        if commit is None:
            yield commit_id
            continue
        has_parents = all(refs.find_commit(parent) for parent in commit.parents)
        if has_parents and next(iter(problems_of_commit(refs, commit)), None) is not None:
            yield commit_id


def repair_packs(repository: Repository, *, dry_run: bool) -> Iterator[Repaired]:
    """Write commits to the bucket again that are missing from its packs."""
    packs = read_packs(repository.store)
    with repository.lake.kv.read() as txn:
        needed = _needed(repository, txn, packs.parents)
        believed = believed_packs(repository, txn)
    reachable = packs.parents.keys() | needed.keys()
    dropped = [
        PackId(bad.name)
        for bad in packs.bad
        if bad.name in packs.replaced
        or (bad.name in believed and believed[PackId(bad.name)] <= reachable)
    ]
    if not dry_run:
        # Delete damaged packs first: the new pack may have the name of one.
        repository.store.delete(map(pack_key, dropped))
        if needed:
            _write_pack(repository, list(needed.values()))
    missing = believed.keys() - {bad.name for bad in packs.bad}
    for pack_id in sorted(missing):
        if not believed[pack_id] <= packs.parents.keys():
            yield Repaired("pack", pack_key(pack_id), "its commits were written again")
    for pack_id in dropped:
        yield Repaired("pack", pack_key(pack_id), "deleted, other packs have its commits")


def _write_pack(repository: Repository, commits: list[Commit]) -> None:

    pack_id = write_pack(repository.store, commits)
    with repository.lake.kv.write() as txn:
        PackedStore(txn, repository.key).add(pack_id, [commit.id for commit in commits])


def _needed(
    repository: Repository, txn: ReadTransaction, packed: Collection[CommitId]
) -> dict[CommitId, Commit]:
    """Return the commits of this clone that are missing from the packs."""
    refs, known = RefStore(txn, repository.key), PackedStore(txn, repository.key)
    starts: list[CommitId] = []
    for listed in iter_refs(repository.store):
        with suppress(IntegrityError):
            ref = find_ref(repository.store, listed.kind, listed.name)
            if ref is not None and ref.commit_id is not None:
                starts.append(ref.commit_id)
    starts += [each.id for each in refs.iter_commits() if known.find_pack(each.id) is not None]
    return {
        commit_id: commit
        for commit_id, commit in iter_reached(refs, starts)
        if commit is not None and commit_id not in packed
    }


def repair_refs(
    repository: Repository, defects: Iterable[Defect], *, dry_run: bool
) -> Iterator[Repaired]:
    """Restore missing or damaged ref objects as this clone last saw them.

    A ref object that can be parsed, or that a newer lakecli wrote, is not changed.
    """
    with repository.lake.kv.read() as txn:
        tracked = {
            ref_key(each.kind, each.name): each
            for each in TrackingStore(txn, repository.key).iter()
        }
    for defect in defects:
        known = tracked.get(defect.name)
        if known is None or not defect.name.startswith(REFS):
            continue
        try:
            data, version = repository.store.get_versioned(defect.name, length=MAX_REF_SIZE + 1)
        except ObjectNotFound:
            data, version = b"", None
        if _is_readable(known, data):
            continue
        if version == Version(""):  # some stores return no version with a range of an empty object
            version = repository.store.head(defect.name).version
        if not dry_run:
            try:
                _put_ref(repository, defect.name, known, version)
            except ConditionFailed:
                continue  # another clone has written it since
        yield Repaired("ref", defect.name, "restored as this clone last saw it")


def _is_readable(known: Tracked, data: bytes) -> bool:

    try:
        parse_ref(known.kind, known.name, data, Version(""))
    except NewerRecord:
        return True
    except NotOurs:
        return False
    return True


def _put_ref(repository: Repository, key: str, known: Tracked, version: Version | None) -> None:

    with repository.lake.kv.read() as txn:
        found = iter_known_moves(txn, repository.key, known.kind, known.name)
        moves = tuple(islice(found, MAX_MOVES))
    if not moves or (moves[0].write_id, moves[0].sequence) != (known.write_id, known.sequence):
        moves = ()
    ref = RemoteRef(
        kind=known.kind,
        name=known.name,
        commit_id=known.commit_id,
        sequence=known.sequence,
        write_id=known.write_id,
        moves=moves,
        version=Version(""),
    )
    condition = ABSENT if version is None else Match(version)
    repository.store.put(key, dump_ref(ref), condition, JSON)

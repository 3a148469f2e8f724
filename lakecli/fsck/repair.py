"""Repair the problems that `fsck` finds, from intact copies; then check again.

Local commits are restored from the bucket, and refs and packs in the bucket from this clone. The
only objects that are deleted are damaged files in the cache, and damaged packs whose commits are in
other packs.

For each loss that cannot be repaired, `describe_losses` lists the affected branches, tags and
paths, and advises the user.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from shlex import quote
from typing import Final

from lakecli.base import ids, layout
from lakecli.base.model import Commit, CommitId, MetarangeId, RefKind
from lakecli.committed import metaranges, point_reads, values
from lakecli.errors import IntegrityError, LakeError
from lakecli.fsck import findings
from lakecli.fsck.check import believed_packs, read_packs
from lakecli.fsck.findings import Defect, Finding, FsckCounts, RepairCounts, Unrecoverable
from lakecli.kv.bucket import PackedStore, Tracked
from lakecli.kv.local_store import ReadTransaction
from lakecli.refs.graph import iter_reached
from lakecli.remote import ref_records
from lakecli.remote.packs import Pack, divide_into_packs, read_new_packs, write_pack
from lakecli.remote.refs import find_ref, iter_refs
from lakecli.repository import stored_objects
from lakecli.repository.contract import Repository
from lakecli.repository.handle import namespace
from lakecli.repository.journal.tracking import iter_known_moves
from lakecli.repository.stored_objects import Repaired
from lakecli.stores.contract import ABSENT, JSON, ConditionFailed, Match, ObjectNotFound, Version
from lakecli.stores.streams import batches

TABLES: Final = ("metarange", "range")
"""The kinds of findings that concern tables."""

ROUNDS: Final = 6
"""Maximum number of checks; a repaired table may reveal problems of tables and objects below it."""


def repair(
    repository: Repository,
    check: Callable[[FsckCounts], Iterator[Finding]],
    *,
    places: Collection[str] = (),
    dry_run: bool = False,
    counts: RepairCounts | None = None,
) -> Iterator[Finding | Repaired | Unrecoverable]:
    """Repair problems where possible; yield findings and repairs, and at the end the losses.

    Args:
        check: runs `fsck` with the given counts.
        places: directories with files that may be lost objects, and URIs of copies of the
            namespace.
        dry_run: report the possible repairs, and change nothing. Problems that come to light only
            after trees are repaired are not reported.
        counts: updated during the repair.

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
    """Repair the defects that one check has found, as far as possible; yield the repairs."""

    def of(*kinds: str) -> list[Defect]:
        return [defect for defect in defects if defect.kind in kinds]

    for defect in of("repository"):
        if defect.name == layout.REPOSITORY and _repair_claim(repository, dry_run=dry_run):
            yield Repaired("repository", defect.name, "written again")
    if of("ref", "commit"):
        yield from repair_local(repository, dry_run=dry_run)
        yield from repair_refs(repository, of("ref"), dry_run=dry_run)
    if of("ref", "commit", "pack"):
        yield from repair_packs(repository, dry_run=dry_run)
    tables = of(*TABLES)
    yield from stored_objects.repair_tables(repository, tables, places, dry_run=dry_run)
    yield from stored_objects.repair_data(repository, of("data"), places, dry_run=dry_run)


def _repair_claim(repository: Repository, *, dry_run: bool) -> bool:
    with suppress(LakeError):
        if namespace.owner_of(repository.store) is not None:
            return False
    if not dry_run:
        namespace.restore(repository.store, repository.record)
    return True


BATCH: Final = 2_000
"""Number of commits written in one transaction."""


def repair_local(repository: Repository, *, dry_run: bool) -> Iterator[Repaired]:
    """Replace missing or damaged local commits from the packs in the bucket."""
    with repository.lake.kv.read() as txn:
        wanted = set(_wrong_commits(repository, txn))
    if not wanted:
        return
    packs = (each for each in read_new_packs(repository.store, ()) if isinstance(each, Pack))
    there = {commit.id: commit for pack in packs for commit in pack.commits}
    taken: dict[CommitId, Commit] = {}
    waiting = [commit_id for commit_id in wanted if commit_id in there]
    with repository.lake.kv.read() as txn:
        refs = repository.refs(txn)
        while waiting:
            commit = there[waiting.pop()]
            if commit.id in taken:
                continue
            taken[commit.id] = commit
            parents = filter(there.__contains__, commit.parents)
            waiting += [parent for parent in parents if refs.find_commit(parent) is None]
    if not dry_run:
        for batch in batches(taken.values(), BATCH):
            with repository.lake.kv.write() as txn:
                refs = repository.refs(txn)
                for commit in batch:
                    refs.put_commit(commit)
    for commit_id in sorted(taken):
        yield Repaired("commit", commit_id, "taken from a commit pack")


def _wrong_commits(repository: Repository, txn: ReadTransaction) -> Iterator[CommitId]:
    """Yield the reachable commits that are missing or do not match their ID."""
    refs = repository.refs(txn)
    heads = [commit_id for _, _, commit_id in refs.iter_refs()]
    for commit_id, commit in iter_reached(refs, heads):
        if commit is None or (
            all(map(refs.find_commit, commit.parents))
            and any(findings.problems_of_commit(refs, commit))
        ):
            yield commit_id


def repair_packs(repository: Repository, *, dry_run: bool) -> Iterator[Repaired]:
    """Write packs to the bucket with the needed commits that its packs lack.

    A damaged pack is deleted if other packs have all of its commits.
    """
    packs = read_packs(repository.store)
    with repository.lake.kv.read() as txn:
        needed = _needed(repository, txn, packs.parents)
        believed = believed_packs(repository, txn)
    reachable = packs.parents.keys() | needed.keys()
    dropped = [
        ids.PackId(bad.name)
        for bad in packs.bad
        if bad.name in packs.replaced
        or (bad.name in believed and believed[ids.PackId(bad.name)] <= reachable)
    ]
    if not dry_run:
        # Delete damaged packs first: a new pack may have the name of a damaged pack.
        repository.store.delete(map(layout.pack_key, dropped))
        for some in divide_into_packs(needed.values()):
            pack_id = write_pack(repository.store, some)
            with repository.lake.kv.write() as txn:
                PackedStore(txn, repository.key).add(pack_id, [commit.id for commit in some])
    missing = believed.keys() - {bad.name for bad in packs.bad}
    for pack_id in sorted(missing):
        if not believed[pack_id] <= packs.parents.keys():
            yield Repaired("pack", layout.pack_key(pack_id), "its commits were written again")
    for pack_id in dropped:
        yield Repaired("pack", layout.pack_key(pack_id), "deleted, other packs have its commits")


def _needed(
    repository: Repository, txn: ReadTransaction, packed: Collection[CommitId]
) -> dict[CommitId, Commit]:
    """Return the commits of this clone that must be in a pack but are in none."""
    refs, known = repository.refs(txn), PackedStore(txn, repository.key)
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
    """Restore missing or damaged ref objects to the state that this clone saw last.

    A ref object that can be parsed, or that a newer lakecli wrote, is not changed.
    """
    with repository.lake.kv.read() as txn:
        all_tracked = list(repository.tracking(txn).iter())
    tracked = {layout.ref_key(each.kind, each.name): each for each in all_tracked}
    for defect in defects:
        known = tracked.get(defect.name)
        if known is None or not defect.name.startswith(layout.REFS):
            continue
        most = layout.MAX_REF_SIZE + 1
        data, version = b"", None
        with suppress(ObjectNotFound):
            data, version = repository.store.get_versioned(defect.name, length=most)
        if _is_readable(known, data):
            continue
        if version == Version(""):  # some stores return no version with a range of an empty object
            version = repository.store.head(defect.name).version
        if not dry_run:
            try:
                _put_ref(repository, defect.name, known, version)
            except ConditionFailed:
                continue  # another clone has written the ref meanwhile
        yield Repaired("ref", defect.name, "restored as this clone last saw it")


def _is_readable(known: Tracked, data: bytes) -> bool:
    try:
        ref_records.parse_ref(known.kind, known.name, data, Version(""))
    except ref_records.NotOurs as error:
        return isinstance(error, ref_records.NewerRecord)
    return True


def _put_ref(repository: Repository, key: str, known: Tracked, version: Version | None) -> None:
    with repository.lake.kv.read() as txn:
        found = iter_known_moves(txn, repository, known.kind, known.name)
        moves = tuple(islice(found, ref_records.MAX_MOVES))
    if not moves or (moves[0].write_id, moves[0].sequence) != (known.write_id, known.sequence):
        moves = ()
    policy = max((each.policy for each in moves), default=0)
    seen = {**known._asdict(), "version": Version("")}
    ref = ref_records.RemoteRef(**seen, moves=moves, policy=policy)
    condition = ABSENT if version is None else Match(version)
    repository.store.put(key, ref_records.dump_ref(ref), condition, JSON)


def describe_losses(repository: Repository, defects: Iterable[Defect]) -> Iterator[Unrecoverable]:
    """Yield a description of each loss, with the refs and paths that need the lost object now."""
    with repository.lake.kv.read() as txn:
        losses = _Losses(repository, txn, list(defects))
        yield from map(losses.describe, losses.defects)


class _Losses:
    def __init__(self, repository: Repository, txn: ReadTransaction, defects: list[Defect]) -> None:
        self._repository = repository
        self._refs = repository.refs(txn)
        self.defects = defects
        self._lost = {defect.name.removeprefix(layout.SSTABLES) for defect in defects}
        self._heads = [
            (name, kind is RefKind.BRANCH, commit.id, commit.metarange_id)
            for kind, name, commit_id in self._refs.iter_refs()
            if (commit := self._refs.find_commit(commit_id)) is not None
        ]

    def describe(self, defect: Defect) -> Unrecoverable:
        paths = tuple(dict.fromkeys(each.path for each in defect.affected if each.path is not None))
        count = defect.count
        if defect.kind == "data":
            refs, advice = self._data(defect, paths)
        elif defect.kind in TABLES:
            refs, count, advice = self._table(defect)
        else:
            refs = tuple(dict.fromkeys(each.ref for each in defect.affected if each.ref))
            advice = self._advice(defect)
        return Unrecoverable(defect.kind, defect.name, defect.what, refs, paths, count, advice)

    def _data(self, defect: Defect, paths: tuple[bytes, ...]) -> tuple[tuple[str, ...], str]:
        uri = self._repository.uri
        staged = {each.ref for each in defect.affected if each.commit_id is None and each.ref}
        now = [
            (name, is_branch, path)
            for name, is_branch, _, tree in self._heads
            for path in paths
            if self._address(tree, path) == defect.name
        ]
        refs = tuple(dict.fromkeys([*sorted(staged), *(name for name, _, _ in now)]))
        again = f"`fsck {uri} --data --repair --from DIRECTORY`"
        advice = f"if you have a file with these bytes: {again}"
        on_branch = next(((name, path) for name, is_branch, path in now if is_branch), None)
        if on_branch is not None:
            name, path = on_branch
            shown = quote(self._repository.at(name, os.fsdecode(path)))
            advice = f"{advice}; else delete it: `fs rm {shown}`"
        elif staged:
            shown = quote(os.fsdecode(paths[0]))
            reset = f"`branch reset {uri}/{min(staged)} --object {shown}`"
            advice = f"upload it again, or drop the uncommitted change: {reset}"
        elif defect.affected and not refs:
            advice = "only earlier commits need it, no branch or tag: nothing to do"
        elif not refs:
            advice = f"no ref of this clone needs it; {advice}"
        return refs, advice

    def _table(self, defect: Defect) -> tuple[tuple[str, ...], int, str]:
        table_id = defect.name.removeprefix(layout.SSTABLES)
        refs = []
        count = 0
        for name, _, _, tree in self._heads:
            if tree == table_id:
                refs.append(name)
                continue
            found = [each.count for each in self._records(tree) or () if each.id == table_id]
            if found:
                refs.append(name)
                count = found[0]
        uri = self._repository.uri
        advice = f"if there is another copy of the namespace: `fsck {uri} --repair --from URI`"
        sound = self._last_sound(refs)
        if sound is not None:
            rescue = f"`branch create {uri}/rescued -s {uri}/{sound}`"
            advice += f"; else continue from the last complete commit: {rescue}"
        return tuple(refs), count, advice

    def _advice(self, defect: Defect) -> str:
        uri = self._repository.uri
        if defect.kind == "pack" or (defect.kind == "commit" and "in no pack" in defect.what):
            return f"run this in a clone that has its commits: `fsck {uri} --repair`"
        if defect.name.startswith(layout.REFS):
            return f"run this in a clone that has seen it: `fsck {uri} --repair`"
        if defect.kind in {"ref", "commit"}:
            return "run `push` in a clone that has the commit, then repeat this here"
        named = {
            layout.POLICY: f"let an owner set the rules again: `policy set {uri} FILE`",
            layout.SHARING: f"test the store again: `doctor {uri} --again`",
        }
        if defect.name in named:
            return named[defect.name]
        if defect.kind == "entry":
            return "upload the path again, or delete it with `fs rm`"
        return "restore the object from a backup, or use the namespace's own repository"

    def _address(self, tree: MetarangeId, path: bytes) -> str | None:
        with suppress(IntegrityError):
            value = point_reads.find(self._repository.trees, tree, path)
            return None if value is None else values.decode_entry(value).physical_address
        return None

    def _records(self, tree: MetarangeId) -> list[metaranges.RangeRecord] | None:
        """Return the ranges of a tree; ``None`` if its metarange cannot be read."""
        with suppress(IntegrityError):
            return list(self._repository.trees.metarange(tree).records())
        return None

    def _last_sound(self, refs: Collection[str]) -> CommitId | None:
        """Return the newest readable commit of the first of the refs, following first parents."""
        start = next((head for name, _, head, _ in self._heads if name in refs), None)
        commit = None if start is None else self._refs.find_commit(start)
        while commit is not None:
            if self._is_sound(commit):
                return commit.id
            commit = self._refs.find_commit(commit.parents[0]) if commit.parents else None
        return None

    def _is_sound(self, commit: Commit) -> bool:
        if commit.metarange_id in self._lost:
            return False
        records = self._records(commit.metarange_id)
        return records is not None and not any(record.id in self._lost for record in records)

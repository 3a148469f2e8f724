"""Commit packs: writing the commits that are in none, and reading those of the bucket.

The commits that are in no pack yet are written as one pack, which takes in small ones. Packs are
merged geometrically, so that a clone reads few of them whatever the number of pushes. A replaced
pack is deleted after a day: until then, another clone may read what it has listed before.

The commits of packs that are read are closed under ancestry in the local store. A pack is recorded
as known once all ancestors of its commits are here. If a store lists a pack late, packs that build
on it are read again by the next fetch, and the refs that need it keep their last known positions
until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, NamedTuple

from lakecli.base.ids import PackId
from lakecli.base.layout import pack_key
from lakecli.base.model import Commit, CommitId
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.errors import LakeError, PermissionDenied
from lakecli.kv.bucket import PackedStore
from lakecli.kv.local_store import ReadTransaction, WriteTransaction
from lakecli.refs.reader import get_commit, get_parent
from lakecli.refs.ref_store import RefStore
from lakecli.remote import packs
from lakecli.remote.packs import Pack
from lakecli.remote.ref_records import InvalidRecord
from lakecli.repository.contract import Repository

KEPT_FOR: Final = timedelta(days=1)
"""How long a replaced pack is kept."""

_COMMIT_SIZE: Final = 400
"""Approximate bytes of a commit in a pack, without its message."""


class Packed(NamedTuple):
    """A pack that was written: its ID, its commits, and the packs that it replaces."""

    id: PackId
    commit_ids: tuple[CommitId, ...]
    replaces: tuple[PackId, ...]


def unpacked_commits(txn: ReadTransaction, repository: Repository, start: CommitId) -> list[Commit]:
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


def write(repository: Repository, commits: Sequence[Commit]) -> Packed | None:
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
    return Packed(pack_id, tuple(everything), replaces)


def note(txn: WriteTransaction, repository: Repository, packed: Packed) -> None:
    """Record which commits a pack has."""
    PackedStore(txn, repository.key).add(packed.id, packed.commit_ids, replaces=packed.replaces)


BATCH: Final = 8_192
"""Commits written in one transaction: other processes wait for no more than these."""


class _Read(NamedTuple):
    """A pack that was read, and the parents of its commits that were missing here then."""

    id: PackId
    replaces: tuple[PackId, ...]
    commit_ids: tuple[CommitId, ...]
    needs: frozenset[CommitId]


@dataclass(slots=True)
class Unpacked:
    """What unpacking brought.

    Attributes:
        packs: how many packs were read.
        commits: how many commits were new here.
        incomplete: commits that are here and cannot be used, since an ancestor is missing.
        damaged: packs, and records of packs, that were left out.
    """

    packs: int = 0
    commits: int = 0
    incomplete: set[CommitId] = field(default_factory=set)
    damaged: list[InvalidRecord] = field(default_factory=list)

    def has(self, txn: ReadTransaction, repository: Repository, commit_id: CommitId) -> bool:
        """Return whether a commit is here with its whole history."""
        if commit_id in self.incomplete:
            return False
        return RefStore(txn, repository.key).find_commit(commit_id) is not None


def unpack(
    repository: Repository,
    packs: Iterable[Pack],
    *,
    progress: Progress = NO_PROGRESS,
) -> Unpacked:
    """Write the commits of packs into the local store, in batches.

    Args:
        repository: the repository of the commits.
        packs: the packs, as they are read.
        progress: counts the commits that were written.

    Raises:
        DamagedPack: one of them is damaged; commits written before stay, unused.
    """
    unpacked = Unpacked()
    waiting: list[_Read] = []
    for pack in packs:
        unpacked.packs += 1
        unpacked.damaged += pack.bad
        unpacked.commits += _write(repository, pack.commits, progress)
        ids = tuple(commit.id for commit in pack.commits)
        needs = _missing_parents(repository, pack.commits)
        read = _Read(pack.id, pack.replaces, ids, needs)
        if needs:
            waiting.append(read)
        else:
            _note(repository, [read])
    if waiting:
        _note_complete(repository, waiting, unpacked)
    return unpacked


def _write(repository: Repository, commits: list[Commit], progress: Progress) -> int:
    """Write commits, and return how many were new."""
    new = 0
    for start in range(0, len(commits), BATCH):
        part = commits[start : start + BATCH]
        with repository.lake.kv.write() as txn:
            refs = RefStore(txn, repository.key)
            for commit in part:
                if refs.find_commit(commit.id) is None:
                    refs.put_commit(commit)
                    new += 1
        progress.advance(items=len(part))
    return new


def _missing_parents(repository: Repository, commits: list[Commit]) -> frozenset[CommitId]:
    with repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        packed = PackedStore(txn, repository.key)
        own = {commit.id for commit in commits}
        outside = {parent for commit in commits for parent in commit.parents} - own
        return frozenset(
            parent
            for parent in outside
            if packed.find_pack(parent) is None or refs.find_commit(parent) is None
        )


def _note(repository: Repository, packs: Iterable[_Read]) -> None:
    """Record packs as known, together: each may need commits of another."""
    with repository.lake.kv.write() as txn:
        packed = PackedStore(txn, repository.key)
        for pack in packs:
            packed.add(pack.id, pack.commit_ids, replaces=pack.replaces)


def _note_complete(repository: Repository, waiting: Sequence[_Read], unpacked: Unpacked) -> None:
    """Record the packs whose needs came with others; add the commits of the rest to `unpacked`."""
    pack_of = {commit_id: pack.id for pack in waiting for commit_id in pack.commit_ids}
    with repository.lake.kv.read() as txn:
        packed = PackedStore(txn, repository.key)
        incomplete = {
            pack.id
            for pack in waiting
            if any(need not in pack_of and packed.find_pack(need) is None for need in pack.needs)
        }
    grows = bool(incomplete)
    while grows:
        more = {
            pack.id
            for pack in waiting
            if pack.id not in incomplete
            and any(pack_of.get(need) in incomplete for need in pack.needs)
        }
        incomplete |= more
        grows = bool(more)
    _note(repository, [pack for pack in waiting if pack.id not in incomplete])
    for pack in waiting:
        if pack.id in incomplete:
            unpacked.incomplete.update(pack.commit_ids)

"""Write the commits of the bucket's packs into the local store, closed under ancestry.

A pack is recorded as known once all ancestors of its commits are here. If a store lists a pack
late, packs that build on it are read again by the next fetch, and the refs that need it keep their
last known positions until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lakecli.base.ids import PackId
from lakecli.base.model import Commit, CommitId
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.kv.bucket import PackedStore
from lakecli.kv.env import ReadTransaction
from lakecli.refs.ref_store import RefStore
from lakecli.remote import damage
from lakecli.remote.damage import Damage
from lakecli.remote.packs import Pack
from lakecli.repository.core.lake import Repository

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
    damaged: list[Damage] = field(default_factory=list)

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
        unpacked.damaged += [damage.of_commit(pack, each) for each in pack.bad]
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

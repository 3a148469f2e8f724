"""Write the commits that are in no pack yet into the bucket, as one pack that merges small ones.

Packs are merged geometrically, so that a clone reads few of them whatever the number of pushes. A
replaced pack is deleted after a day: until then, another clone may read what it has listed before.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final, NamedTuple

from lakecli.base.ids import PackId
from lakecli.base.layout import pack_key
from lakecli.base.model import Commit, CommitId
from lakecli.errors import LakeError, PermissionDenied
from lakecli.kv.bucket import PackedStore
from lakecli.kv.env import ReadTransaction, WriteTransaction
from lakecli.refs.reader import get_commit, get_parent
from lakecli.refs.ref_store import RefStore
from lakecli.remote import packs
from lakecli.remote.packs import PackInfo
from lakecli.repository.core.lake import Repository

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
    chosen = _choose(repository, commits)
    everything = {commit.id: commit for commit in commits}
    replaced: list[PackId] = []
    superseded: list[PackId] = []
    listed = {info.id: info for info in chosen.listed}
    newest = max((info.modified_at for info in chosen.listed), default=None)
    for pack_id in chosen.replaced:
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


class _Choice(NamedTuple):
    listed: Sequence[PackInfo]
    replaced: Sequence[PackId]


def _choose(repository: Repository, commits: Sequence[Commit]) -> _Choice:
    """List the packs, and choose those that the new one replaces."""
    listed = packs.list_packs(repository.store)
    with repository.lake.kv.read() as txn:
        live = set(PackedStore(txn, repository.key).live_packs())
    candidates = [info for info in listed if info.id in live]
    size = sum(_COMMIT_SIZE + len(commit.message) for commit in commits)
    return _Choice(listed, packs.choose_replaced(candidates, size))

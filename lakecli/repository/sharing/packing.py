"""Commits on their way into the bucket: what is not in a pack yet, in one, with small ones merged.

Packs are merged geometrically, so that a clone reads few of them whatever the number of pushes.
A pack that was replaced a day ago is deleted; until then, somebody may be reading what an earlier
listing showed.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.errors import LakeError, PermissionDenied
from lakecli.kv.packed import PackedStore
from lakecli.layout import pack_key
from lakecli.refs.graph import get_commit, get_parent
from lakecli.refs.ref_store import RefStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakecli.ids import PackId
    from lakecli.kv.env import ReadTransaction, WriteTransaction
    from lakecli.model import Commit, CommitId
    from lakecli.remote.packs import PackInfo
    from lakecli.repository.core.lake import Repository

KEPT_FOR: Final = timedelta(days=1)
"""How long a replaced pack stays."""

_COMMIT_SIZE: Final = 400
"""Bytes of a commit in a pack, about, without its texts."""


class Packed(NamedTuple):
    """A pack that was written: its ID, what is in it, and the packs that it replaces."""

    id: PackId
    commit_ids: tuple[CommitId, ...]
    replaces: tuple[PackId, ...]


def unpacked_commits(txn: ReadTransaction, repository: Repository, start: CommitId) -> list[Commit]:
    """Return the commits that `start` reaches and that are in no pack, in no order.

    Whatever a packed commit reaches is in a pack too.

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
    from lakecli.remote import packs

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
            continue  # gone or damaged: this pack need not be merged for a push to succeed
        if pack.bad:
            continue  # what is no commit for this version might be one for a later one
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
    """Remember which commits a pack has."""
    PackedStore(txn, repository.key).add(packed.id, packed.commit_ids, replaces=packed.replaces)


class _Choice(NamedTuple):
    listed: Sequence[PackInfo]
    replaced: Sequence[PackId]


def _choose(repository: Repository, commits: Sequence[Commit]) -> _Choice:
    """List the packs, and choose those that a new one should replace."""
    from lakecli.remote import packs

    listed = packs.list_packs(repository.store)
    with repository.lake.kv.read() as txn:
        live = set(PackedStore(txn, repository.key).live_packs())
    candidates = [info for info in listed if info.id in live]
    size = sum(_COMMIT_SIZE + len(commit.message) for commit in commits)
    return _Choice(listed, packs.choose_replaced(candidates, size))

"""Commit packs for garbage collection: all are read, including those that others replace.

Which packs a pack replaces is its own claim, and anybody who can write to the bucket can write a
pack. So the commits of all packs count, and a pack is garbage only if another one that stays
contains all of its commits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from lakecli.base.ids import PackId
from lakecli.base.model import CommitId
from lakecli.gc.rules import Known
from lakecli.remote.packs import DamagedPack, Pack, list_packs, read_pack
from lakecli.stores.contract import ObjectNotFound

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore


class PacksRead(NamedTuple):
    """The contents of all packs.

    Attributes:
        commits: commits by ID.
        replaces: IDs of the packs that each pack claims to replace, by the ID of that pack.
        damaged: packs that cannot be read. That matters only if one of their commits is reached
            and is in no other pack.
    """

    commits: dict[CommitId, Known]
    replaces: dict[PackId, tuple[PackId, ...]]
    damaged: list[DamagedPack]


def read_all(store: ObjectStore) -> PacksRead:
    """Read all packs."""
    commits: dict[CommitId, Known] = {}
    replaces: dict[PackId, tuple[PackId, ...]] = {}
    damaged: list[DamagedPack] = []
    for pack in _iter_packs(store, damaged):
        if pack.replaces:
            replaces[pack.id] = pack.replaces
        for commit in pack.commits:
            at = int(commit.created_at.timestamp())
            commits[commit.id] = Known(commit.parents, commit.metarange_id, at)
    return PacksRead(commits, replaces, damaged)


def _iter_packs(store: ObjectStore, damaged: list[DamagedPack]) -> Iterator[Pack]:
    done: set[PackId] = set()
    looks_again = True
    while looks_again:
        looks_again = False
        for info in list_packs(store):
            if info.id in done:
                continue
            done.add(info.id)
            try:
                yield read_pack(store, info.id)
            except ObjectNotFound:
                looks_again = True  # replaced since the listing, maybe by a newer pack
            except DamagedPack as error:
                damaged.append(error)


def superseded(
    store: ObjectStore,
    packs: Collection[str],
    replaces: Mapping[PackId, tuple[PackId, ...]],
) -> dict[PackId, PackId]:
    """Return the packs that are garbage: another pack, which stays, has all of their commits.

    Args:
        store: the namespace.
        packs: IDs of the listed packs.
        replaces: the claims of all packs, as in `PacksRead`.

    Returns:
        The ID of the pack that has the commits, by the ID of the pack that is garbage.
    """
    direct: dict[PackId, PackId] = {}
    for by, replaced in sorted(replaces.items()):
        wanted = [each for each in replaced if each in packs and each not in direct]
        if by not in packs or not wanted:
            continue
        holds = _commits_of(store, by)
        for each in wanted:
            found = None if holds is None else _commits_of(store, each)
            if holds is not None and found is not None and found <= holds:
                direct[each] = by
    return {each: _last(direct, each) for each in direct}


def _last(direct: Mapping[PackId, PackId], pack_id: PackId) -> PackId:
    """Follow replacements to the last; without cycles, as a pack's ID depends on its claims."""
    while (by := direct.get(pack_id)) is not None:
        pack_id = by
    return pack_id


def _commits_of(store: ObjectStore, pack_id: PackId) -> frozenset[CommitId] | None:
    """Return the commits of a pack; ``None`` if it is missing or damaged."""
    try:
        pack = read_pack(store, pack_id)
    except (DamagedPack, ObjectNotFound):
        return None
    # A later version may be able to read the bad records, which may be in no other pack.
    return None if pack.bad else frozenset(commit.id for commit in pack.commits)

"""Commit packs as a collection reads them: each one, whatever another says that it replaces.

That a pack replaces another is what the pack itself says, and anybody can write one. So the
commits of all packs count, and a pack may go only if one that stays holds all of its commits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lakecli.objectstore.base import ObjectNotFound
from lakecli.pipeline.gc.history import Known
from lakecli.remote.packs import DamagedPack, list_packs, read_pack

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from lakecli.ids import PackId
    from lakecli.model import CommitId
    from lakecli.objectstore.base import ObjectStore
    from lakecli.remote.packs import Pack


class PacksRead(NamedTuple):
    """What all packs hold.

    Attributes:
        commits: by ID.
        replaces: IDs of the packs that each pack says it replaces, by the ID of that pack.
        damaged: packs that cannot be read. That matters only where one of their commits is reached
            and in no other pack.
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
                looks_again = True  # replaced since it was listed, maybe by one that came since
            except DamagedPack as error:
                damaged.append(error)


def superseded(
    store: ObjectStore,
    packs: Collection[str],
    replaces: Mapping[PackId, tuple[PackId, ...]],
) -> dict[PackId, PackId]:
    """Return which packs may go: all of their commits are in another one, which is to stay.

    Args:
        store: of the namespace.
        packs: IDs of those that were listed.
        replaces: what packs say that they replace, as `read_all` found it.

    Returns:
        The ID of the pack that holds the commits, by the ID of the one that may go.
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
    """Follow who replaces whom; no circle: the name of a pack depends on whom it replaces."""
    while (by := direct.get(pack_id)) is not None:
        pack_id = by
    return pack_id


def _commits_of(store: ObjectStore, pack_id: PackId) -> frozenset[CommitId] | None:
    """Return the commits of a pack; ``None`` if it is gone or damaged."""
    try:
        pack = read_pack(store, pack_id)
    except (DamagedPack, ObjectNotFound):
        return None
    # What is no commit for this version may be one for a later one, and is in no other pack.
    return None if pack.bad else frozenset(commit.id for commit in pack.commits)

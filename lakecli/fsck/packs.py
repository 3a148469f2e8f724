"""Every commit pack of a bucket, damaged ones included; and when a listing is done twice.

Read every commit pack of a bucket, damaged ones included.

When a listing finds so much less than before that it is done twice.

A store or a file system that fails to list something says nothing about it. What would be deleted
because it is not listed is therefore listed again, if more than a tenth is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lakecli.base.model import CommitId, MetarangeId
from lakecli.remote.packs import read_new_packs
from lakecli.remote.ref_records import InvalidRecord

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore


class BadPack(NamedTuple):
    """A pack that cannot be read.

    Attributes:
        id: the ID of the pack.
        what: the problem, in one line.
        is_replaced: whether a readable pack has all of its commits.
    """

    id: str
    what: str
    is_replaced: bool


class Packs(NamedTuple):
    """The commit packs of a bucket.

    Attributes:
        parents: the parents of every commit in a readable pack.
        trees: the trees of these commits.
        bad: the packs that cannot be read.
        bad_commits: records in readable packs that are not valid commits.
    """

    parents: dict[CommitId, tuple[CommitId, ...]]
    trees: dict[CommitId, MetarangeId]
    bad: list[BadPack]
    bad_commits: list[InvalidRecord]


def read_packs(store: ObjectStore) -> Packs:
    """Read every pack that no other pack replaces."""
    parents: dict[CommitId, tuple[CommitId, ...]] = {}
    trees: dict[CommitId, MetarangeId] = {}
    damaged: list[InvalidRecord] = []
    replaced: set[str] = set()
    bad_commits: list[InvalidRecord] = []
    for pack in read_new_packs(store, (), on_damage=damaged.append):
        parents |= {commit.id: commit.parents for commit in pack.commits}
        trees |= {commit.id: commit.metarange_id for commit in pack.commits}
        replaced.update(pack.replaces)
        bad_commits += pack.bad
    bad = [BadPack(each.name, each.what, each.name in replaced) for each in damaged]
    return Packs(parents, trees, bad, bad_commits)


def is_much_less(found: int, before: int) -> bool:
    """Return whether more than a tenth of what was there before was not found."""
    return found * 10 < before * 9

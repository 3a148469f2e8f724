"""Finding the trees that only this clone's word keeps from garbage collection.

Commits that were never pushed are known to this clone alone, and commits that were pushed may be
reached by no ref of the bucket any more: what their trees refer to looks like garbage to a
collector once it is old. Whoever builds on top of them says that they are in use.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from lakecli.kv.packed import PackedStore
from lakecli.model import EMPTY_TREE
from lakecli.refs.graph import DamagedHistory, iter_unreached
from lakecli.refs.ref_store import RefStore

if TYPE_CHECKING:
    from lakecli.kv.env import ReadTransaction
    from lakecli.model import Commit, CommitId, MetarangeId
    from lakecli.repository.core.lake import Repository

MOST: Final = 1_000
"""Commits looked at. Who has more that were never pushed had better push."""


def unreached_trees(
    txn: ReadTransaction, repository: Repository, start: Commit
) -> frozenset[MetarangeId]:
    """Return the trees of a commit and of its ancestors, as far as the bucket's refs lack them.

    Where the bucket's refs stand is what was fetched last. The empty tree is not among them.
    """
    from lakecli.repository.core import tracking

    refs, packed = RefStore(txn, repository.key), PackedStore(txn, repository.key)
    shared = tracking.positions(txn, repository)
    trees = {start.metarange_id}
    waiting = [start.id]
    pushed: list[CommitId] = []
    seen: set[CommitId] = set()
    while waiting and len(seen) < MOST:
        commit_id = waiting.pop()
        if commit_id in seen or commit_id in shared:
            continue
        seen.add(commit_id)
        if packed.find_pack(commit_id) is not None:
            pushed.append(commit_id)
            continue
        commit = refs.find_commit(commit_id)
        if commit is not None:
            trees.add(commit.metarange_id)
            waiting += commit.parents
    for commit_id in pushed:
        try:
            unreached = islice(iter_unreached(refs, commit_id, shared), MOST)
            trees.update(commit.metarange_id for commit in unreached)
        except DamagedHistory:
            continue  # fsck tells of it
    return frozenset(trees - {EMPTY_TREE})

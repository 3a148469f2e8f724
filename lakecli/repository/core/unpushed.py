"""Find the trees that garbage collection cannot know to be in use.

Only this clone knows commits that were never pushed, and pushed commits may no longer be reached by
a ref in the bucket. Once their trees are old, a collector takes them for garbage. Before building
on them, this clone claims them.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from lakecli.base.model import EMPTY_TREE, Commit, CommitId, MetarangeId
from lakecli.kv.bucket import PackedStore
from lakecli.kv.env import ReadTransaction
from lakecli.refs.graph import iter_unreached
from lakecli.refs.reader import DamagedHistory
from lakecli.refs.ref_store import RefStore
from lakecli.repository.core import tracking

if TYPE_CHECKING:
    from lakecli.repository.core.lake import Repository

MOST: Final = 1_000
"""Commits examined at most; of more commits that were never pushed, the oldest are not claimed."""


def unreached_trees(
    txn: ReadTransaction, repository: Repository, start: Commit
) -> frozenset[MetarangeId]:
    """Return the trees of a commit and of its ancestors, as far as the bucket's refs lack them.

    The refs in the bucket are those of the last fetch. The empty tree is not included.
    """
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
            continue  # fsck reports it
    return frozenset(trees - {EMPTY_TREE})

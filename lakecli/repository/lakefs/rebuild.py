"""Rebuilding the trees of lakeFS that branches stand on, before the first commit does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.committed.rebuild import canonical
from lakecli.refs.ref_store import RefStore

if TYPE_CHECKING:
    from lakecli.repository.core.lake import Repository


def rebuild_heads(repository: Repository) -> int:
    """Rebuild the trees of all branches that lakeFS cut, and return how many there are.

    Raises:
        IntegrityError: a table of a tree is missing or damaged.
    """
    with repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        heads = [refs.get_commit(branch.commit_id) for branch in refs.iter_branches()]
    trees = repository.trees
    ids = sorted({commit.metarange_id for commit in heads})
    return sum(canonical(trees, each, build=True).id != each for each in ids)

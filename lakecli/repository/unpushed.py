"""Keeping the history that a new commit stands on from garbage collection.

Commits that were never pushed are known to this clone alone: what their trees refer to looks like
garbage to a collector once it is old. Whoever commits on top of them says that they are in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakecli.kv.packed import PackedStore
from lakecli.layout import sstable_key
from lakecli.refs.store import RefStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakecli.kv.env import ReadTransaction
    from lakecli.model import Commit, CommitId
    from lakecli.repository.lake import Repository

MOST: Final = 1_000
"""Commits looked at. Who has more that were never pushed had better push."""


def claim_unpushed(repository: Repository, parents: Sequence[Commit]) -> None:
    """Take the trees of commits that were never pushed into use again, from `parents` back.

    Trees that are gone already stay gone: pushing finds that out.

    Raises:
        Swept: a sweep has just gone by.
        SweepRunning: it does not end.
    """
    with repository.lake.kv.read() as txn:
        trees = {each.metarange_id for each in _unpushed(txn, repository, parents)} - {""}
    if trees:
        repository.guard.claim(sorted(map(sstable_key, trees)))


def _unpushed(
    txn: ReadTransaction, repository: Repository, parents: Sequence[Commit]
) -> Iterator[Commit]:
    refs, packed = RefStore(txn, repository.key), PackedStore(txn, repository.key)
    waiting = [each.id for each in parents]
    seen: set[CommitId] = set()
    while waiting and len(seen) < MOST:
        commit_id = waiting.pop()
        if commit_id in seen or packed.find_pack(commit_id) is not None:
            continue
        seen.add(commit_id)
        commit = refs.find_commit(commit_id)
        if commit is not None:
            yield commit
            waiting += commit.parents

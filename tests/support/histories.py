"""Histories of many commits, written without the cost of staging each one."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from lakecli.committed.values import encode_entry
from lakecli.committed.writer import apply
from lakecli.refs.ref_store import RefStore
from lakecli.repository.commit_attempts import describe_commit
from lakecli.repository.reading.view import branch_at
from tests.support.lakes import entry_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakecli.base.model import Commit
    from lakecli.repository.contract import Repository


def grow(
    repository: Repository,
    changes: Iterable[Mapping[bytes, bytes | None]],
    branch: str = "main",
    *,
    merges: Commit | None = None,
) -> list[Commit]:
    """Commit contents by path, ``None`` for a removal, a minute apart; write no data.

    Args:
        repository: where to.
        changes: one mapping for each commit.
        branch: the branch to move.
        merges: the second parent of the first commit.
    """
    made: list[Commit] = []
    with repository.lake.kv.write() as txn:
        refs = RefStore(txn, repository.key)
        present = branch_at(repository, txn, branch)
        head = refs.get_commit(present.commit_id)
        for contents in changes:
            values = [
                (path, None if data is None else encode_entry(entry_of(data)))
                for path, data in sorted(contents.items())
            ]
            parents = [head, *([merges] if merges is not None and not made else [])]
            head = describe_commit(
                parents=parents,
                metarange_id=apply(repository.trees, head.metarange_id, values),
                message=f"{branch} {head.generation}",
                committer="Ada Lovelace <ada@example.com>",
                created_at=max(each.created_at for each in parents) + timedelta(minutes=1),
                metadata={},
            )
            refs.put_commit(head)
            made.append(head)
        refs.put_branch(present._replace(commit_id=head.id))
    return made

"""What a commit of a part of the staged changes leaves: copied to tokens of its own.

The copies belong to nothing until the commit lands and puts them in the place of the sealed tokens.
If the process dies before, housekeeping deletes them; see `staging_tokens`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from lakecli.base.model import Branch, StagingToken
from lakecli.refs.ref_store import RefStore
from lakecli.repository.contract import Repository
from lakecli.repository.guard import same_area
from lakecli.repository.journal import staging_tokens
from lakecli.staging import area

BATCH: Final = 8_192
"""Records written in one transaction, for which other processes wait."""


def copy_staged(
    repository: Repository, branch: Branch, leaves: Callable[[bytes], bool]
) -> tuple[StagingToken, ...]:
    """Copy staged records of the sealed tokens of a branch, and return the new tokens.

    Each token gets a copy of its own, started on the same commit, so that staged conflicts are
    found as before; one without such records gets none.

    Args:
        repository: the repository of the branch.
        branch: the branch as it was sealed.
        leaves: tells whether a path is copied.
    """
    made = []
    with repository.lake.kv.read() as txn:
        for token in branch.sealed_tokens:
            started_on = staging_tokens.started_on(txn, token) or branch.commit_id
            records = ((path, value) for path, value in area.scan(txn, token) if leaves(path))
            copy: StagingToken | None = None
            while batch := list(islice(records, BATCH)):
                repository.lake.runtime.on_step("leave")
                with repository.lake.kv.write() as writing:
                    if copy is None:
                        copy = staging_tokens.start(writing, repository, branch.name, started_on)
                        staging_tokens.note_copies(writing, repository, [copy])
                    area.put_many(writing, copy, same_area(batch))
            if copy is not None:
                made.append(copy)
    return tuple(made)


def drop_unused(repository: Repository, *, name: str, tokens: Sequence[StagingToken]) -> None:
    """Delete copies whose commit did not land, unless their branch has them after all."""
    for token in tokens:
        rest = BATCH
        while rest == BATCH:
            with repository.lake.kv.write() as txn:
                branch = RefStore(txn, repository.key).find_branch(name)
                if branch is not None and token in branch.sealed_tokens:
                    return
                rest = area.drop(txn, token, limit=BATCH)
                if rest < BATCH:
                    staging_tokens.forget(txn, token)
                    staging_tokens.settle_copy(txn, repository, token)

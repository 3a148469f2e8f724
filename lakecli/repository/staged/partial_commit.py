"""Commits of a part of the staged changes: which part, and what becomes of the rest.

The rest stays staged. Before the branch moves, `copy_rest` copies it to staging tokens of its own,
one for each sealed token. They belong to nothing until the commit lands, which puts them in the
place of the sealed ones; so undoing the commit restores the staging area as it was. If the commit
does not land, `drop_copies` deletes them. If the process dies before, housekeeping does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from lakecli.base.model import Branch, StagingToken
from lakecli.base.uri import as_directory
from lakecli.refs.ref_store import RefStore
from lakecli.repository.contract import Repository
from lakecli.repository.guard import same_area
from lakecli.repository.journal import operation_log
from lakecli.staging import area

BATCH: Final = 8_192
"""Records written in one transaction, for which other processes wait."""


class StagedPart(NamedTuple):
    """A part of the staged changes.

    Attributes:
        paths: objects, and all that is below them as if they were directories.
        prefixes: all paths that begin with one of these.
    """

    paths: frozenset[bytes] = frozenset()
    prefixes: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, paths: Iterable[bytes], prefixes: Iterable[bytes]) -> StagedPart:
        """Return the part that these paths and prefixes name."""
        named = frozenset(paths)
        return cls(named, (*map(as_directory, named), *prefixes))

    def has(self, path: bytes) -> bool:
        """Tell whether a path belongs to the part."""
        return path in self.paths or path.startswith(self.prefixes)


def copy_rest(repository: Repository, branch: Branch, part: StagedPart) -> tuple[StagingToken, ...]:
    """Copy all but a part of what is under the sealed tokens of a branch; return the new tokens.

    Each token gets a copy of its own, started on the same commit, so that staged conflicts are
    found as before; one without such records gets none.

    Args:
        branch: the branch as it was sealed.
    """
    made = []
    with repository.lake.kv.read() as txn:
        for token in branch.sealed_tokens:
            started_on = operation_log.started_on(txn, token) or branch.commit_id
            records = ((path, value) for path, value in area.scan(txn, token) if not part.has(path))
            copy: StagingToken | None = None
            while batch := list(islice(records, BATCH)):
                repository.lake.runtime.on_step("leave")
                with repository.lake.kv.write() as writing:
                    if copy is None:
                        copy = operation_log.start_token(
                            writing, repository, branch.name, started_on
                        )
                        operation_log.note_copies(writing, repository, [copy])
                    area.put_many(writing, copy, same_area(batch))
            if copy is not None:
                made.append(copy)
    return tuple(made)


def drop_copies(repository: Repository, *, name: str, tokens: Sequence[StagingToken]) -> None:
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
                    operation_log.forget_token(txn, token)
                    operation_log.settle_copy(txn, repository, token)

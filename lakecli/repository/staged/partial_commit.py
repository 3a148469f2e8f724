"""Commits of some of the staged changes: which changes are committed, and how the others stay.

The other changes stay staged. Before the branch moves, `copy_rest` copies them to new staging
tokens, one for each sealed token. The copies belong to no branch until the commit lands, which
replaces the sealed tokens by them; so undoing the commit restores the staging area as it was. If
the commit does not land, `drop_copies` deletes the copies. If the process dies before,
housekeeping deletes them.
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
    """Selects some of the staged changes.

    Attributes:
        paths: objects, and everything below them as if they were directories.
        prefixes: all paths that begin with one of these prefixes are selected.
    """

    paths: frozenset[bytes] = frozenset()
    prefixes: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, paths: Iterable[bytes], prefixes: Iterable[bytes]) -> StagedPart:
        """Return the part that contains these paths and prefixes."""
        named = frozenset(paths)
        return cls(named, (*map(as_directory, named), *prefixes))

    def has(self, path: bytes) -> bool:
        """Return whether a path belongs to the part."""
        return path in self.paths or path.startswith(self.prefixes)


def copy_rest(repository: Repository, branch: Branch, part: StagedPart) -> tuple[StagingToken, ...]:
    """Copy a branch's sealed records that are not in `part`; return the tokens of the copies.

    Each sealed token gets a separate copy, started on the same commit, so that staged conflicts are
    found as before. A token without such records gets no copy.

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
    """Delete copies whose commit did not land, unless the branch has them nevertheless."""
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

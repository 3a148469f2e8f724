"""Commit some of the staged changes, and keep the other changes staged.

Before the branch moves, `copy_rest` copies the changes that are not committed to new staging
tokens, one for each sealed token. The copies belong to no branch until the commit lands. Then they
replace the sealed tokens; so undoing the commit restores the staging area as it was. If the commit
does not land, `drop_copies` deletes the copies. If the process is killed before, housekeeping
deletes them.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from lakecli.base.model import Branch, StagingToken
from lakecli.base.uri import as_directory
from lakecli.repository.contract import Repository
from lakecli.repository.guard import same_area
from lakecli.repository.journal import operation_log
from lakecli.staging import area
from lakecli.stores.streams import batches

BATCH: Final = 8_192
"""The largest number of records written in one transaction, which blocks other processes."""


class StagedPart(NamedTuple):
    """Selects some of the staged changes.

    Attributes:
        paths: paths of objects or directories; everything below a directory is selected.
        prefixes: all paths that begin with one of these prefixes are selected.
    """

    paths: frozenset[bytes] = frozenset()
    prefixes: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, paths: Iterable[bytes], prefixes: Iterable[bytes]) -> "StagedPart":
        """Return the selection of these paths and prefixes."""
        named = frozenset(paths)
        return cls(named, (*map(as_directory, named), *prefixes))

    def has(self, path: bytes) -> bool:
        """Return whether a path is selected."""
        return path in self.paths or path.startswith(self.prefixes)


def copy_rest(repository: Repository, branch: Branch, part: StagedPart) -> tuple[StagingToken, ...]:
    """Copy a branch's sealed records that are not in `part`; return the tokens of the copies.

    Each sealed token gets a separate copy, started on the same commit, so that staged conflicts are
    found as before. A token whose records are all in `part` gets no copy.

    Args:
        branch: the branch with its sealed tokens.
    """
    made = []
    with repository.lake.kv.read() as txn:
        for token in branch.sealed_tokens:
            base = operation_log.started_on(txn, token) or branch.commit_id
            records = ((path, value) for path, value in area.scan(txn, token) if not part.has(path))
            copy: StagingToken | None = None
            for batch in batches(records, BATCH):
                repository.lake.runtime.on_step("leave")
                with repository.lake.kv.write() as writing:
                    if copy is None:
                        copy = operation_log.start_token(writing, repository, branch.name, base)
                        operation_log.note_copies(writing, repository, [copy])
                    area.put_many(writing, copy, same_area(batch))
            if copy is not None:
                made.append(copy)
    return tuple(made)


def drop_copies(repository: Repository, *, name: str, tokens: Sequence[StagingToken]) -> None:
    """Delete copies made by `copy_rest`, unless they now belong to the branch."""
    for token in tokens:
        rest = BATCH
        while rest == BATCH:
            with repository.lake.kv.write() as txn:
                branch = repository.refs(txn).find_branch(name)
                if branch is not None and token in branch.sealed_tokens:
                    return
                rest = area.drop(txn, token, limit=BATCH)
                if rest < BATCH:
                    operation_log.forget_token(txn, token)
                    operation_log.settle_copy(txn, repository, token)

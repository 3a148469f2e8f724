"""Workspaces: staging areas that belong to one job, and to no branch until the job commits them.

A workspace is begun on a branch, and is named ``BRANCH*TOKEN``, which is not a valid name of a
branch, a tag or a commit. Reading by this name shows the branch as it was when the workspace was
begun, with its sealed changes, and the changes of the workspace on top. Writing by this name stages
in the workspace (`lakecli.repository.reading.view`). Only its job sees a workspace, and it is never
pushed. The operation log lists the commit of a workspace, but not the writes to the workspace.

A workspace accepts writes while the row of its token exists. `end` removes the row, so that every
write is either in the commit or refused. The note of a copy (`operation_log.note_copies`) outlives
a killed process. Each write renews the note, and housekeeping deletes a workspace `KEPT_FOR` after
its last write.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from lakecli.base.model import Branch, CommitId, StagingToken
from lakecli.errors import Refused
from lakecli.kv.local_store import ReadTransaction, WriteTransaction
from lakecli.repository.contract import Repository
from lakecli.repository.journal import operation_log
from lakecli.repository.readable import Refs

MARK: Final = "*"
"""The character between the branch and the token; names of branches and tags cannot have it."""

KEPT_FOR: Final = timedelta(days=7)


class WorkspaceEnded(Refused):
    """A workspace has been committed or discarded, or belongs to another machine."""


def begin(txn: WriteTransaction, repository: Repository, branch: Branch, owner: str) -> str:
    """Begin a workspace on a branch whose staging area is sealed; return the workspace's name."""
    sealed = [each.hex() for each in branch.sealed_tokens]
    token = operation_log.start_token(
        txn, repository, branch.name, branch.commit_id, owner=owner, below=sealed
    )
    renew(txn, repository, token)
    return _name(branch.name, token)


def _name(branch: str, token: StagingToken) -> str:
    return f"{branch}{MARK}{token.hex()}"


def find_of(txn: ReadTransaction, repository: Repository, branch: str, owner: str) -> str | None:
    """Return the name of the workspace that an owner has begun on a branch, or ``None``."""
    for token, _ in operation_log.iter_copies(txn, repository):
        fields = operation_log.token_fields(txn, token)
        if (fields.get("branch"), fields.get("owner")) == (branch, owner):
            return _name(branch, token)
    return None


def renew(txn: WriteTransaction, repository: Repository, token: StagingToken) -> None:
    """Record that a workspace is in use now, so that housekeeping keeps it."""
    operation_log.note_copies(txn, repository, [token], kept_for=KEPT_FOR)


def parts_of(name: str) -> tuple[str, StagingToken]:
    """Return the branch and the token of a workspace."""
    branch, _, token = name.rpartition(MARK)
    return branch, StagingToken(bytes.fromhex(token))


def branch_of(name: str) -> str:
    """Return the branch of a workspace; return any other name unchanged."""
    return name.partition(MARK)[0]


def is_workspace(name: str) -> bool:
    """Return whether a name has the form of a workspace's name; the workspace need not exist."""
    digits = name.rpartition(MARK)[2]
    return MARK in name and len(digits) == 32 and not digits.strip("0123456789abcdef")  # noqa: PLR2004


def find(txn: ReadTransaction, repository: Refs, name: str) -> Branch:
    """Return a workspace as a `Branch` with the head on which the workspace was begun.

    Raises:
        WorkspaceEnded: the workspace accepts no more writes.
    """
    branch, token = parts_of(name)
    fields = operation_log.token_fields(txn, token)
    owner = repository.record.uuid, branch
    is_noted = operation_log.are_noted(txn, repository, [token])
    if not is_noted or (fields.get("repository"), fields.get("branch")) != owner:
        raise WorkspaceEnded(
            f"the block of {repository.uri}/{branch} that this belongs to has ended, or is not of "
            "this machine",
            hint="write and read within the block, and wait for its threads and processes before "
            "it ends",
        )
    below = tuple(StagingToken(bytes.fromhex(each)) for each in fields["below"])
    return Branch(name, CommitId(fields["started_on"]), token, below)


def watch(
    txn: WriteTransaction, repository: Repository, name: str, prefixes: Iterable[bytes]
) -> None:
    """Record path prefixes: if others change paths below them, the workspace cannot be committed.

    Raises:
        WorkspaceEnded: the workspace accepts no more writes.
    """
    token = find(txn, repository, name).staging_token
    watched = {*prefixes, *watched_of(txn, name)}
    fields = operation_log.token_fields(txn, token)
    fields["watched"] = [each.hex() for each in sorted(watched)]
    operation_log.put_token_fields(txn, token, fields)


def watched_of(txn: ReadTransaction, name: str) -> list[bytes]:
    """Return the prefixes that `watch` has recorded, sorted."""
    fields = operation_log.token_fields(txn, parts_of(name)[1])
    return [bytes.fromhex(each) for each in fields.get("watched", [])]


def end(txn: WriteTransaction, repository: Repository, name: str) -> Branch:
    """Stop a workspace from accepting writes; return its last state.

    Raises:
        WorkspaceEnded: the workspace was already ended.
    """
    found = find(txn, repository, name)
    operation_log.forget_token(txn, found.staging_token)
    return found

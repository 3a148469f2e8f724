"""Ref expressions to commit IDs, and commits by ref."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.base.model import Commit
from lakecli.repository.reading.view import commit_at, resolve_ref

if TYPE_CHECKING:
    from lakecli.refs.resolve import Resolved
    from lakecli.repository.contract import Repository


def rev_parse(repository: Repository, ref: str) -> Resolved:
    """Return what a ref expression names, with each modifier's step.

    Raises:
        UsageError: it is malformed.
        NotFound: it names nothing, or too much.
    """
    with repository.lake.kv.read() as txn:
        return resolve_ref(repository, txn, ref)


def show_commit(repository: Repository, ref: str) -> Commit:
    """Return the commit that a ref expression names.

    Raises:
        UsageError: it is malformed, or names a staging area.
        NotFound: it names nothing, or too much.
    """
    with repository.lake.kv.read() as txn:
        return commit_at(repository, txn, ref)

"""The best common ancestor of two refs, from which a merge and a diff of two refs start."""

from typing import NamedTuple

from lakecli.base.model import Commit
from lakecli.errors import Refused
from lakecli.kv.local_store import ReadTransaction
from lakecli.refs.graph import merge_base
from lakecli.refs.ref_store import RefStore
from lakecli.repository.contract import Repository
from lakecli.repository.reading.view import commit_at


class MergePoints(NamedTuple):
    """The three commits of a merge."""

    base: Commit
    source: Commit
    destination: Commit


def find_merge_base(repository: Repository, source: str, destination: str) -> MergePoints:
    """Return the commits that two ref expressions name, and their best common ancestor.

    Raises:
        NotFound: one of them names nothing.
        Refused: they have no common ancestor.
    """
    with repository.lake.kv.read() as txn:
        return find_merge_points(repository, txn, source=source, destination=destination)


def find_merge_points(
    repository: Repository, txn: ReadTransaction, *, source: str, destination: str
) -> MergePoints:
    """Return what `find_merge_base` does, within a transaction."""
    from_commit = commit_at(repository, txn, source)
    into_commit = commit_at(repository, txn, destination)
    base = merge_base(RefStore(txn, repository.key), from_commit.id, into_commit.id)
    if base is None:
        raise Refused(f"{source} and {destination} have no common ancestor")
    return MergePoints(base, from_commit, into_commit)

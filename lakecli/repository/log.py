"""Walking history from a ref expression."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakecli.refs.history import iter_log
from lakecli.refs.store import RefStore
from lakecli.repository.view import commit_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from lakecli.model import Commit
    from lakecli.repository.lake import Repository


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Which commits a log shows; those of `lakecli.refs.history.iter_log`, and by path.

    Attributes:
        after: a ref expression: skip up to and including this commit.
        stop_at: a ref expression: the last commit to show.
        objects: only commits that changed one of these exact paths.
        prefixes: only commits that changed something under one of these.
    """

    first_parent: bool = False
    no_merges: bool = False
    since: datetime | None = None
    after: str | None = None
    stop_at: str | None = None
    objects: Sequence[bytes] = ()
    prefixes: Sequence[bytes] = ()
    topological: bool = False


@contextmanager
def log(repository: Repository, ref: str, options: LogOptions) -> Iterator[Iterator[Commit]]:
    """Open the stream of commits reachable from a ref expression, newest first.

    With path filters, merge commits and the initial commit are never shown: a commit is compared
    with its only parent.

    Raises:
        NotFound: one of the expressions names nothing.
    """
    with repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        start = commit_at(repository, txn, ref)
        commits = iter_log(
            refs,
            start.id,
            first_parent=options.first_parent,
            no_merges=options.no_merges,
            since=options.since,
            after=commit_at(repository, txn, options.after).id if options.after else None,
            stop_at=commit_at(repository, txn, options.stop_at).id if options.stop_at else None,
            topological=options.topological,
        )
        if options.objects or options.prefixes:
            commits = (each for each in commits if _touches(repository, refs, each, options))
        yield commits


def _touches(repository: Repository, refs: RefStore, commit: Commit, options: LogOptions) -> bool:
    from lakecli.committed.diff import diff
    from lakecli.committed.scan import find
    from lakecli.committed.values import identity_of

    if len(commit.parents) != 1:
        return False
    before = refs.get_commit(commit.parents[0]).metarange_id
    after = commit.metarange_id
    if before == after:
        return False
    for path in options.objects:
        old, new = find(repository.trees, before, path), find(repository.trees, after, path)
        if (old and identity_of(old)) != (new and identity_of(new)):
            return True
    return any(
        next(diff(repository.trees, before, after, prefix=prefix), None) is not None
        for prefix in options.prefixes
    )

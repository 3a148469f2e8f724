"""Show history: the log of a ref expression, and the commit that an expression names."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from lakecli.base.model import Commit
from lakecli.errors import UsageError
from lakecli.kv.local_store import ReadTransaction
from lakecli.refs.expression import split_range
from lakecli.refs.history import GraphLine, iter_graph_lines, iter_log
from lakecli.repository.readable import Readable, Refs
from lakecli.repository.reading.view import commit_at, resolve_ref

if TYPE_CHECKING:
    from lakecli.refs.resolve import Resolved


class LogOptions(NamedTuple):
    """The filters of a log.

    With path filters, merge commits and the initial commit are never shown: a commit is compared
    with its only parent.

    Attributes:
        first_parent: follow first parents only.
        no_merges: leave out commits with several parents.
        since: leave out older commits, and commits that are reached only through them.
        authors: only commits whose committer matches one of these patterns.
        messages: only commits whose message matches one of these patterns.
        after: a ref expression: skip up to and including this commit.
        stop_at: a ref expression: the last commit to show.
        objects: only commits that changed one of these exact paths.
        prefixes: only commits that changed an object under one of these prefixes.
    """

    first_parent: bool = False
    no_merges: bool = False
    since: datetime | None = None
    until: datetime | None = None
    authors: Sequence[re.Pattern[str]] = ()
    messages: Sequence[re.Pattern[str]] = ()
    after: str | None = None
    stop_at: str | None = None
    objects: Sequence[bytes] = ()
    prefixes: Sequence[bytes] = ()


@contextmanager
def log(repository: Readable, ref: str, options: LogOptions) -> Iterator[Iterator[Commit]]:
    """Open the stream of the commits that a ref reaches: children before parents, newest first.

    ``A..B`` means the commits that B reaches and A does not.

    Raises:
        NotFound: one of the expressions does not name a commit.
        UsageError: the expression is another kind of range, such as ``A...B``.
    """
    with repository.lake.kv.read() as txn:
        commits = _walk(repository, txn, ref, options)
        yield (each for each in commits if _is_shown(repository, txn, each, options))


@contextmanager
def log_graph(repository: Readable, ref: str, options: LogOptions) -> Iterator[Iterator[GraphLine]]:
    """Open a stream of the lines that draw the commits of `log` as a graph.

    Lines connect shown commits across the commits that are not shown.

    Raises:
        NotFound: one of the expressions does not name a commit.
    """
    with repository.lake.kv.read() as txn:
        commits = _walk(repository, txn, ref, options)
        yield iter_graph_lines(
            commits, is_shown=lambda each: _is_shown(repository, txn, each, options)
        )


def _walk(
    repository: Refs, txn: ReadTransaction, ref: str, options: LogOptions
) -> Iterator[Commit]:
    hidden = None
    span = split_range(ref)
    if span is not None:
        left, dots, ref = span
        if dots != "..":
            raise UsageError(f"not a range of commits: {left}{dots}{ref}", hint=f"{left}..{ref}")
        hidden = commit_at(repository, txn, left).id
    return iter_log(
        repository.refs(txn),
        commit_at(repository, txn, ref).id,
        hidden=hidden,
        first_parent=options.first_parent,
        since=options.since,
        after=commit_at(repository, txn, options.after).id if options.after else None,
        stop_at=commit_at(repository, txn, options.stop_at).id if options.stop_at else None,
    )


def _is_shown(
    repository: Readable, txn: ReadTransaction, commit: Commit, options: LogOptions
) -> bool:
    if options.no_merges and len(commit.parents) > 1:
        return False
    if options.until is not None and commit.created_at > options.until:
        return False
    if options.authors and not any(each.search(commit.committer) for each in options.authors):
        return False
    if options.messages and not any(each.search(commit.message) for each in options.messages):
        return False
    return not (options.objects or options.prefixes) or _touches(repository, txn, commit, options)


def _touches(
    repository: Readable, txn: ReadTransaction, commit: Commit, options: LogOptions
) -> bool:
    """Return whether a commit changed one of the paths; unchanged ranges are not read."""
    from lakecli.committed.diff import diff, differs_at

    if len(commit.parents) != 1:
        return False
    before = repository.refs(txn).get_commit(commit.parents[0]).metarange_id
    after = commit.metarange_id
    if before == after:
        return False
    trees = repository.trees
    return any(differs_at(trees, before, after, path) for path in options.objects) or any(
        next(diff(trees, before, after, prefix=prefix), None) is not None
        for prefix in options.prefixes
    )


def rev_parse(repository: Refs, ref: str) -> "Resolved":
    """Resolve a ref expression; the result has one step for each modifier.

    Raises:
        UsageError: the expression is malformed.
        NotFound: the expression names nothing, or is ambiguous.
    """
    with repository.lake.kv.read() as txn:
        return resolve_ref(repository, txn, ref)


def show_commit(repository: Refs, ref: str) -> Commit:
    """Return the commit that a ref expression names.

    Raises:
        UsageError: the expression is malformed, or names a staging area.
        NotFound: the expression names nothing, or is ambiguous.
    """
    with repository.lake.kv.read() as txn:
        return commit_at(repository, txn, ref)

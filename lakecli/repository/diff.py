"""Compare staged changes with the committed tree, and two refs with each other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, cast

from lakecli.base.model import EMPTY_TREE, Commit, Difference, MetarangeId
from lakecli.committed import merge_base, point_reads, tree_store
from lakecli.committed.diff import diff
from lakecli.committed.merge import compare as compare_trees
from lakecli.committed.scan import ListedPrefix, list_prefix
from lakecli.kv.local_store import ReadTransaction, put_over
from lakecli.refs.ref_store import get_parent
from lakecli.repository.contract import Repository
from lakecli.repository.readable import Refs
from lakecli.repository.reading.merge_points import find_merge_points
from lakecli.repository.reading.view import View, commit_at, open_view, resolve_ref
from lakecli.repository.staged.changes import compare_staged, uncommitted


@contextmanager
def diff_uncommitted(
    repository: Repository, branch: str, *, prefix: bytes = b""
) -> Iterator[Iterator[Difference]]:
    """Open the stream of a branch's uncommitted changes; it is empty for a tag or a commit.

    Args:
        prefix: only paths that start with this prefix.

    Raises:
        NotFound: no such ref.
    """
    with open_view(repository, branch) as view:
        yield uncommitted(view, prefix=prefix)


def diff_commit(repository: Repository, commit: Commit) -> Iterator[Difference]:
    """Yield the changes of a commit since its first parent; for an initial commit, all its objects.

    Raises:
        DamagedHistory: the parent is missing.
    """
    before = EMPTY_TREE
    if commit.parents:
        with repository.lake.kv.read() as txn:
            refs = repository.refs(txn)
            before = get_parent(refs, commit, commit.parents[0]).metarange_id
    return diff(repository.trees, before, commit.metarange_id)


class TreesToCompare(NamedTuple):
    """Two trees to compare, and their merge base.

    Attributes:
        base: the merge base; ``None``: compare `left` and `right` directly.
        prefix: only paths that start with this prefix.
    """

    base: merge_base.MergeBase | None
    left: MetarangeId
    right: MetarangeId
    prefix: bytes


def compare_here(
    trees: tree_store.TreeStore,
    compared: TreesToCompare,
    start: bytes = b"",
    stop: bytes | None = None,
) -> Iterator[Difference]:
    """Yield the differences of trees in path order, computed by this process.

    Args:
        trees: the store that holds the trees.
        start: only this path and later paths.
        stop: only paths before this one; ``None`` for no limit.
    """
    base, left, right, prefix = compared
    if base is None:
        return diff(trees, left, right, prefix=prefix, start=start, stop=stop)
    return compare_trees(
        trees, base=base, left=left, right=right, prefix=prefix, start=start, stop=stop
    )


def list_changes(
    changes: Callable[[bytes], Iterator[Difference]],
    *,
    prefix: bytes = b"",
    delimiter: bytes = b"",
    after: bytes = b"",
) -> Iterator[Difference | ListedPrefix]:
    """Yield differences in path order; those below a common prefix become one result.

    Args:
        changes: a function that yields the differences below `prefix`, from the given path on.
        delimiter: see `list_prefix`, as for `after`.
    """

    def by_path(start: bytes) -> Iterator[tuple[bytes, bytes]]:
        return ((each.path, cast("bytes", each)) for each in changes(start))

    for found in list_prefix(by_path, prefix=prefix, delimiter=delimiter, after=after):
        yield found if isinstance(found, ListedPrefix) else cast("Difference", found.value)


def trees_of(
    repository: Refs,
    txn: ReadTransaction,
    left: str,
    right: str,
    *,
    prefix: bytes = b"",
    two_way: bool = False,
) -> TreesToCompare:
    """Return the committed trees of two refs; the arguments and errors are those of `diff_refs`."""
    if two_way:
        base = None
        before, after = (commit_at(repository, txn, ref) for ref in (left, right))
    else:
        points = find_merge_points(repository, txn, source=right, destination=left)
        base, before, after = points.base, points.destination, points.source
    return TreesToCompare(base, before.metarange_id, after.metarange_id, prefix)


@contextmanager
def diff_refs(
    repository: Repository,
    left: str,
    right: str,
    *,
    prefix: bytes = b"",
    two_way: bool = False,
    compare: Callable[[TreesToCompare], Iterator[Difference]] | None = None,
) -> Iterator[Iterator[Difference]]:
    """Open the stream of differences between two refs, in path order.

    Without `two_way`, the differences are the changes that merging `right` into `left` would make,
    conflicts included; uncommitted changes are ignored. With `two_way`, they are the plain
    differences of the two trees, and ``branch$`` on the right includes its staged changes.

    Args:
        repository: the repository of both refs.
        left: a ref expression; without `two_way`, the destination.
        right: a ref expression; without `two_way`, the source.
        prefix: only paths that start with this prefix.
        two_way: compare the two trees directly.
        compare: the function that compares committed trees; by default, `compare_here`.

    Raises:
        NotFound: one of the refs does not name a commit.
        UsageError: a ref expression has ``$`` where a commit is needed.
        Refused: the refs have no common ancestor, and `two_way` is not set.
    """
    if compare is None:
        compare = partial(compare_here, repository.trees)
    with repository.lake.kv.read() as txn:
        if not two_way:
            yield compare(trees_of(repository, txn, left, right, prefix=prefix))
            return
        left_tree = commit_at(repository, txn, left).metarange_id
        resolved = resolve_ref(repository, txn, right)
        between = compare(TreesToCompare(None, left_tree, resolved.commit.metarange_id, prefix))
        if resolved.staging and resolved.steps:
            with open_view(repository, right) as view:
                yield _with_staging(view, left_tree, between, prefix=prefix)
        else:
            yield between


def _with_staging(
    view: View, left_tree: MetarangeId, between: Iterator[Difference], *, prefix: bytes
) -> Iterator[Difference]:
    """Combine the differences of two commits with the staged changes on top of the second one."""
    staged, trees = view.staged(prefix=prefix), view.repository.trees
    committed = ((each.path, each) for each in between)
    combined: Iterator[tuple[bytes, bytes | Difference]] = put_over(staged, committed)
    for path, found in combined:
        if isinstance(found, Difference):
            yield found
            continue
        difference = compare_staged(path, point_reads.find(trees, left_tree, path), found)
        if difference is not None:
            yield difference

"""Find the commit that last changed each object, or anything below each common prefix.

One walk goes from the ref to older commits and handles all paths together. A commit passes each
path to the first parent that has the path unchanged, as ``git blame`` does. If no parent has it
unchanged, the commit itself changed the path. The walk reads neither the ranges that a commit
shares with its parent nor ranges that contain none of the remaining paths.

If a merge combines changes below one common prefix from both sides, the result is the newest commit
that made such a change, not the merge.
"""

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from heapq import heappop, heappush
from itertools import chain
from typing import Final, NamedTuple

from lakecli.base.model import EMPTY_TREE, Commit, CommitId, MetarangeId
from lakecli.committed.diff import DELIMITER, Items, touched
from lakecli.committed.scan import ListedObject, ListedPrefix, scan
from lakecli.errors import NotFound
from lakecli.kv.local_store import ReadTransaction
from lakecli.refs.ref_store import RefStore, get_parent
from lakecli.repository.contract import Repository
from lakecli.repository.reading import view as views
from lakecli.repository.reading.view import View
from lakecli.stores.streams import batches

PAGE: Final = 1 << 17
"""Maximum number of items that one walk handles together."""


class Annotation(NamedTuple):
    """An object or a common prefix, and the commit that changed it last.

    Attributes:
        path: path of the object, or the common prefix up to and including the slash.
        commit: the commit that last changed the object or, for a common prefix, any object below
            the prefix.
    """

    path: bytes
    is_prefix: bool
    commit: Commit

    @property
    def type(self) -> str:
        """``object`` or ``common_prefix``."""
        return "common_prefix" if self.is_prefix else "object"


@contextmanager
def annotate(
    repository: Repository,
    ref: str,
    path: bytes = b"",
    *,
    recursive: bool = False,
    first_parent: bool = False,
) -> Iterator[Iterator[Annotation]]:
    """Open the stream of annotations of the committed objects at or below a path, in path order.

    Args:
        ref: a ref expression; uncommitted changes are ignored.
        path: the path of an object; or a prefix, below which objects and common prefixes are
            annotated as ``ls`` lists them.
        recursive: annotate every object under the prefix, and no common prefixes.
        first_parent: follow first parents only. Then a change that came with a merge counts as made
            by the merge commit.

    Raises:
        NotFound: the ref does not exist, or nothing is at or below the path.
    """
    with repository.lake.kv.read() as txn:
        commit = views.commit_at(repository, txn, ref)
        view = View(repository, txn, commit, (), ref)
        listed = _list(view, path, recursive=recursive)
        first = next(listed, None)
        if first is None and path:
            raise _nothing_at(repository, txn, ref, path)
        refs = repository.refs(txn)
        items = Items(path, is_grouped=not recursive)
        walk = _AncestorWalk(repository, refs, items, first_parent=first_parent)
        yield _annotations(walk, commit, listed if first is None else chain([first], listed))


def last_changes(
    repository: Repository, txn: ReadTransaction, commit: Commit, paths: Sequence[bytes]
) -> Mapping[bytes, Commit]:
    """Return the last commit that changed or deleted each path, in the history of a commit.

    A path that neither the commit nor an ancestor has is left out.

    Args:
        commit: the newest commit to consider.
        paths: paths of objects, in ascending order.
    """
    items = Items(b"", is_grouped=False, may_be_absent=True)
    refs = repository.refs(txn)
    return _AncestorWalk(repository, refs, items, first_parent=False).run(commit, list(paths))


def _nothing_at(repository: Repository, txn: ReadTransaction, ref: str, path: bytes) -> NotFound:
    branch = views.resolve_ref(repository, txn, ref).branch
    if branch is not None:
        staged = views.view_of_branch(repository, txn, branch.name).staged(prefix=path)
        if next(staged, None) is not None:
            uri = f"{repository.uri}/{branch.name}"
            hint = f"list uncommitted changes: `diff {uri}`"
            return NotFound(f"not committed yet: {uri}/{os.fsdecode(path)}", hint=hint)
    return views.no_such_path(repository, ref, path)


def _list(view: View, path: bytes, *, recursive: bool) -> Iterator[ListedObject | ListedPrefix]:
    is_object = path and not path.endswith(DELIMITER) and not recursive
    value = view.find(path) if is_object else None
    if value is not None:
        return iter((ListedObject(path, value),))
    return view.list_paths(prefix=path, delimiter=b"" if recursive else DELIMITER)


def _annotations(
    walk: "_AncestorWalk", commit: Commit, listed: Iterator[ListedObject | ListedPrefix]
) -> Iterator[Annotation]:
    for page in batches(listed, PAGE):
        found = walk.run(commit, [item.path for item in page])
        for item in page:
            yield Annotation(item.path, isinstance(item, ListedPrefix), found[item.path])


class _Pending(NamedTuple):
    """A commit that the walk has yet to visit, and the paths to examine in this commit.

    Attributes:
        present: objects and common prefixes that exist in the commit, in ascending order.
        gone: common prefixes that exist in a later merge, but not in the commit.
    """

    commit: Commit
    present: list[bytes]
    gone: set[bytes]


class _AncestorWalk:
    """Walks from a commit to its ancestors, children before parents."""

    def __init__(
        self, repository: Repository, refs: RefStore, items: Items, *, first_parent: bool
    ) -> None:
        self._trees = repository.trees
        self._refs = refs
        self._items = items
        self._first_parent = first_parent
        self._heap: list[tuple[int, CommitId]] = []
        self._waiting: dict[CommitId, _Pending] = {}
        self._found: dict[bytes, Commit] = {}

    def run(self, commit: Commit, paths: list[bytes]) -> dict[bytes, Commit]:
        """Return the commit that last changed each path.

        Args:
            commit: the commit where the walk starts.
            paths: paths of objects and common prefixes, in ascending order.
        """
        self._found = {}
        self._add(commit, paths)
        while self._heap:
            pending = self._waiting.pop(heappop(self._heap)[1])
            self._visit(pending)
        return self._found

    def _add(self, commit: Commit, items: list[bytes], gone: Iterable[bytes] = ()) -> None:
        """Add items to examine when the walk visits a commit."""
        known = self._waiting.get(commit.id)
        if known is None:
            heappush(self._heap, (-commit.generation, commit.id))
            self._waiting[commit.id] = _Pending(commit, items, set(gone))
        else:
            known.gone.update(gone)
            few, many = sorted((items, known.present), key=len)
            for item in few:
                at = bisect_left(many, item)
                if many[at : at + 1] != [item]:
                    many.insert(at, item)
            self._waiting[commit.id] = known._replace(present=many)

    def _visit(self, pending: _Pending) -> None:
        """Pass unchanged items on to a parent; record the commit for all other items."""
        commit, items, gone = pending
        ids = dict.fromkeys(commit.parents[:1] if self._first_parent else commit.parents)
        parents = [get_parent(self._refs, commit, each) for each in ids]
        for parent in parents:
            changed = sorted(self._touched(parent.metarange_id, commit, items))
            for item in reversed(changed):  # from the end, so that fewer items move
                del items[bisect_left(items, item)]
            if items:
                self._add(parent, items)
            items = changed
        if not parents:
            items = sorted(self._touched(EMPTY_TREE, commit, items))
        if len(parents) > 1:
            prefixes = [item for item in items if self._items.is_prefix(item)]
            new = self._split(parents, prefixes)
            items = [item for item in items if item in new or not self._items.is_prefix(item)]
        for item in items:
            self._record(item, commit)
        self._visit_gone(commit, parents, gone)

    def _visit_gone(self, commit: Commit, parents: Sequence[Commit], gone: Iterable[bytes]) -> None:
        for item in gone:
            before = next((each for each in parents if not self._has(each, item)), None)
            if before is not None:
                self._add(before, [], gone=[item])
            elif len(parents) > 1:
                self._split(parents, [item])
            elif parents:
                self._record(item, commit)

    def _split(self, parents: Sequence[Commit], prefixes: Sequence[bytes]) -> set[bytes]:
        """Pass prefixes on to all parents of a merge that combined changes below these prefixes.

        Returns:
            The prefixes that no parent has: the merge itself created them.
        """
        if not prefixes:
            return set()
        sides = [[item for item in prefixes if self._has(each, item)] for each in parents]
        known = set().union(*sides)
        for parent, present in zip(parents, sides, strict=True):
            self._add(parent, present, gone=known.difference(present))
        return set(prefixes) - known

    def _has(self, commit: Commit, prefix: bytes) -> bool:
        found = scan(self._trees, commit.metarange_id, prefix=prefix)
        return next(found, None) is not None

    def _touched(self, before: MetarangeId, commit: Commit, items: Sequence[bytes]) -> set[bytes]:
        return touched(self._trees, before, commit.metarange_id, items, self._items)

    def _record(self, item: bytes, commit: Commit) -> None:
        known = self._found.get(item)
        if known is None or _age(commit) > _age(known):
            self._found[item] = commit


def _age(commit: Commit) -> tuple[datetime, int, int, CommitId]:
    # A commit may have the same time as its parents, but is newer.
    return commit.created_at, commit.generation, commit.nanoseconds, commit.id

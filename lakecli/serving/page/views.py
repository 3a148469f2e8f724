"""The values of each page, for its template. Each function runs in a thread."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import dropwhile, islice, takewhile
from typing import Any, Final, TypeVar

from lakecli.base.model import EMPTY_TREE, Branch, Commit, CommitId, Difference, Entry, RefKind, Tag
from lakecli.base.uri import SCHEME, as_directory
from lakecli.base.visibility import is_visible
from lakecli.committed.change_counts import ChangeCounts
from lakecli.committed.scan import ListedObject, ListedPrefix
from lakecli.committed.values import decode_entry
from lakecli.errors import NotFound
from lakecli.kv.bucket import TrackingStore
from lakecli.refs.graph import count_ahead_behind
from lakecli.refs.ref_store import RefStore
from lakecli.repository.diff import TreesToCompare, compare_here, list_changes, trees_of
from lakecli.repository.log import LogOptions, log_graph, show_commit
from lakecli.repository.reading.view import view_of_branch
from lakecli.repository.staged.changes import uncommitted
from lakecli.repository.undo.log import iter_log
from lakecli.serving.page import graph
from lakecli.serving.page.asked import Asked, link
from lakecli.serving.page.preview import preview
from lakecli.staging import area

T = TypeVar("T")
Values = dict[str, Any]
"""The values of a template by name."""

PAGE: Final = 100
"""The number of items on one page."""

MOST_BELOW: Final = 500
"""The maximum number of differences that are counted below one directory."""

MOST_WALKED: Final = 20_000
"""The maximum number of commits that a page reads to count how far refs are ahead and behind."""

MOST_NAMED: Final = 2_000
"""The maximum number of branches and tags that a page of commits names."""


def page(asked: Asked, verb: str) -> tuple[str, Values]:
    """Return the template of a page, and its values.

    Raises:
        NotFound: a repository has no such page.
    """
    if not asked.name:
        return "repositories", repositories(asked)
    if verb not in PAGES:
        raise NotFound("there is no such page")
    own, repository, ref = PAGES[verb](asked), asked.repository, asked.ref
    with repository.lake.kv.read() as txn:
        is_branch = RefStore(txn, repository.key).find_branch(ref) is not None
    shared: Values = {"name": asked.name, "ref": ref, "branch": ref if is_branch else None}
    # A repository that is read without a clone cannot be changed.
    shared |= {"repository": repository, "is_clone": repository.uri.startswith(SCHEME)}
    return verb or "refs", own | shared


def _cut(items: Iterable[T]) -> tuple[list[T], bool]:
    """Return the first `PAGE` items, and whether there are more."""
    found = list(islice(items, PAGE + 1))
    return found[:PAGE], len(found) > PAGE


def repositories(asked: Asked) -> Values:
    """Return the values of the page that lists all repositories."""
    records = {each.name: each for each in asked.served.lake.repositories()}
    names, more = _cut(each for each in asked.served.names() if each > asked.text("after"))
    found = [(name, records.get(name)) for name in names]
    return {"title": "Repositories", "repositories": found, "more": more}


class _Counting:
    """Counts how far commits are ahead and behind, reading at most `MOST_WALKED` commits."""

    def __init__(self, refs: RefStore) -> None:
        self._refs, self._left = refs, MOST_WALKED

    def find_commit(self, id: CommitId) -> Commit | None:
        self._left -= 1
        if self._left < 0:
            raise OverflowError
        return self._refs.find_commit(id)

    def apart(self, here: CommitId, there: CommitId | None) -> tuple[int, int] | None:
        """Return how many commits `here` is ahead of `there`, and how many it is behind.

        ``None`` means that `there` is unknown, or that there are too many commits to count.
        """
        try:
            return None if there is None else count_ahead_behind(self, here, there)
        except OverflowError:
            return None


def refs(asked: Asked) -> Values:
    """Return the values of the page of a repository: its branches and tags."""
    repository = asked.repository
    after = {key: asked.text(key) for key in ("branches", "tags")}
    with repository.lake.kv.read() as txn:
        store = RefStore(txn, repository.key)
        tracked = TrackingStore(txn, repository.key)
        counting = _Counting(store)
        base = store.position(RefKind.BRANCH, repository.record.default_branch)

        def row(ref: Branch | Tag) -> Mapping[str, Any]:
            head = ref.commit_id
            # The commit may be missing on this machine.
            found: dict[str, Any] = {"name": ref.name, "commit": store.find_commit(head)}
            found["default"] = counting.apart(head, base)
            if isinstance(ref, Branch):
                there = tracked.position(RefKind.BRANCH, ref.name)
                found |= {"bucket": counting.apart(head, there), "is_shared": there is not None}
                found["is_dirty"] = not area.is_clean(txn, ref)
            return found

        branches, more_branches = _cut(map(row, store.iter_branches(after=after["branches"])))
        tags, more_tags = _cut(map(row, store.iter_tags(after=after["tags"])))
    more = {"more_branches": more_branches, "more_tags": more_tags}
    return {"title": asked.name, "branches": branches, "tags": tags, "after": after, **more}


def log(asked: Asked) -> Values:
    """Return the values of the page with the history of a ref as a graph."""
    after = asked.text("after")
    with log_graph(asked.repository, asked.ref, LogOptions(after=after or None)) as lines:
        rows, more = _cut(graph.rows(lines))
    shown = {"title": f"History of {asked.ref}", "lanes": graph.width(rows), "names": _names(asked)}
    return {"rows": rows, "more": more, "after": after, **shown}


def _names(asked: Asked) -> Mapping[CommitId, Sequence[tuple[RefKind, str]]]:
    """Return the kinds and names of branches and tags by their commit."""
    names: dict[CommitId, list[tuple[RefKind, str]]] = {}
    with asked.repository.lake.kv.read() as txn:
        found = RefStore(txn, asked.repository.key).iter_refs()
        for kind, name, commit_id in islice(found, MOST_NAMED):
            names.setdefault(commit_id, []).append((kind, name))
    return names


def commit(asked: Asked) -> Values:
    """Return the values of the page of a commit: its message and its changes."""
    found = show_commit(asked.repository, asked.ref)
    left = found.parents[0] if found.parents else None
    before = show_commit(asked.repository, left).metarange_id if left else EMPTY_TREE
    trees = TreesToCompare(None, before, found.metarange_id, asked.path())
    open_ = partial(compare_here, asked.repository.trees, trees)
    names = _names(asked).get(found.id, ())
    shown = {"title": f"Commit {found.id[:12]}", "commit": found, "names": names}
    changes = _changes(asked, open_, "commit", ref=found.id)
    return {"left": left, "right": found.id, **shown, **changes}


def tree(asked: Asked) -> Values:
    """Return the values of the page of a directory at a ref."""
    ref, prefix, after = asked.ref, as_directory(asked.path()), asked.path("after")
    with asked.served.view(asked.name, ref) as view:

        def item(found: ListedObject | ListedPrefix) -> tuple[bytes, Entry | None, bool]:
            if isinstance(found, ListedPrefix):
                return found.path, None, False
            return found.path, decode_entry(found.value), view.staged_at(found.path) is not None

        found = view.list_paths(prefix=prefix, delimiter=b"/", after=after)
        items, more = _cut(map(item, found))
        if prefix and not items and not after:
            view.entry(prefix.rstrip(b"/"))  # raises `NotFound` unless it is an object
            message = f"{os.fsdecode(prefix)} is an object, not a directory"
            raise NotFound(message, hint="its page has the same address without the slash")
    text = os.fsdecode(prefix)
    here = text if is_visible(text) else ""  # a form would change bytes that are not text
    own = {"items": items, "more": more, "prefix": prefix, "after": after, "here": here}
    return _place(asked, prefix) | own


def _place(asked: Asked, path: bytes) -> Values:
    """Return the title of a directory or object, the directories that contain it, its address."""
    parents = [(each[0], path[: each.end()]) for each in re.finditer(b"[^/]*/", path[:-1])]
    name = path.rstrip(b"/").rpartition(b"/")[2] or path or f"Files of {asked.ref}"
    at = asked.repository.at(asked.ref, os.fsdecode(path))
    return {"title": name, "parents": parents, "at": at}


def object_(asked: Asked) -> Values:
    """Return the values of the page of an object: its record, and a preview."""
    path = asked.path()
    with asked.served.view(asked.name, asked.ref) as view:
        entry, is_staged = view.entry(path), view.staged_at(path) is not None
    shown = {"entry": entry, "preview": preview(asked.repository, path, entry)}
    return {"path": path, "is_staged": is_staged, **shown, **_place(asked, path)}


def staged(asked: Asked) -> Values:
    """Return the values of the page of the uncommitted changes of a branch, by directory."""
    repository, ref, prefix = asked.repository, asked.ref, asked.path()
    with repository.lake.kv.read() as txn:
        view = view_of_branch(repository, txn, ref)
        values = _changes(asked, partial(uncommitted, view, prefix=prefix), "staged", ref=ref)
    values |= {"left": view.commit.id, "right": ref, "at": repository.at(ref)}
    return {"title": f"Uncommitted on {ref}", **values}


def compare_refs(asked: Asked) -> Values:
    """Return the values of the page of the differences of two refs, by directory."""
    repository = asked.repository
    left, right = asked.text("left", repository.record.default_branch), asked.text("right")
    sides = {"left": left, "right": right, "direct": asked.text("direct")}
    if not right:
        return {"title": "Compare", **sides}
    is_direct, prefix = bool(sides["direct"]), asked.path()
    with repository.lake.kv.read() as txn:
        trees = trees_of(repository, txn, left, right, prefix=prefix, two_way=is_direct)
    values = _changes(asked, partial(compare_here, repository.trees, trees), "diff", **sides)
    return {"title": f"{left} and {right}", **sides, **values}


def _changes(
    asked: Asked, changes: Callable[[bytes], Iterator[Difference]], verb: str, **known: str
) -> Values:
    """Return the values of a page of differences, with links to the next page and directories.

    Args:
        changes: yields the differences below the path of the page, from a given path on.
    """
    prefix = asked.path()
    listed = list_changes(changes, prefix=prefix, delimiter=b"/", after=asked.path("after"))
    found, more = _cut(listed)

    def item(each: Difference | ListedPrefix) -> Mapping[str, Any]:
        if isinstance(each, Difference):
            before, after = (value and decode_entry(value) for value in (each.left, each.right))
            return {"path": each.path, "type": each.type, "before": before, "after": after}
        counts = ChangeCounts(each.path)
        below = takewhile(lambda one: one.path.startswith(each.path), changes(each.path))
        for one in islice(below, MOST_BELOW):
            counts.add(one)
        return {"path": each.path, "type": None, "counts": counts, "is_more": any(below)}

    here = partial(link, asked.name, verb, **known)
    following = here(path=prefix, after=found[-1].path) if more else None
    return {"items": list(map(item, found)), "prefix": prefix, "next": following, "below": here}


def operations(asked: Asked) -> Values:
    """Return the values of the page of the operation log."""
    after, operations = asked.text("after"), iter_log(asked.repository)
    if after:
        operations = islice(
            dropwhile(lambda each: each.operation.hex_id != after, operations), 1, None
        )
    found, more = _cut(operations)
    return {"title": "Operations", "operations": found, "more": more, "after": after}


PAGES: Final[Mapping[str, Callable[[Asked], Values]]] = {
    "": refs, "log": log, "commit": commit, "tree": tree, "object": object_, "staged": staged,
    "diff": compare_refs, "operations": operations,
}  # fmt: skip
"""The pages of a repository by the last part of their address, which also names the template."""

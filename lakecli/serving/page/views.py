"""The data of each page: what its template is given. Each function runs in a thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from lakecli.base.model import EMPTY_TREE, Branch, Commit, CommitId, Difference, Entry, RefKind, Tag
from lakecli.base.uri import SCHEME, as_directory
from lakecli.base.visibility import is_visible
from lakecli.committed.diff import diff
from lakecli.committed.merge import compare
from lakecli.committed.scan import ListedObject, list_prefix
from lakecli.committed.values import decode_entry
from lakecli.errors import NotFound
from lakecli.kv.bucket import TrackingStore
from lakecli.refs.graph import count_ahead_behind
from lakecli.refs.ref_store import RefStore
from lakecli.repository.contract import Repository
from lakecli.repository.diff import TreesToCompare, diff_refs
from lakecli.repository.log import LogOptions, log_graph, show_commit
from lakecli.repository.reading.view import view_of_branch
from lakecli.repository.staged.changes import uncommitted
from lakecli.repository.undo.log import iter_log
from lakecli.serving.page import changes, graph
from lakecli.serving.page.asked import Asked, command, link
from lakecli.serving.page.preview import preview
from lakecli.staging import area

PAGE: Final = 100
COMMITS: Final = 50
DEEPEST: Final = 10_000
"""The number of commits or operations after which a list can't be paged further."""

MOST_WALKED: Final = 20_000
"""The number of commits that a page reads to count how far branches are apart."""

MOST_NAMED: Final = 2_000
"""The number of branches and tags that a page of commits can name."""

Apart = tuple[int, int] | None
"""Numbers of commits, ahead and behind; ``None``: not known, or too many to count."""


class Shown(NamedTuple):
    """A page: its template, its title, the way to it as names and addresses, and its data."""

    template: str
    title: bytes | str
    crumbs: Sequence[tuple[bytes | str, str]]
    values: Mapping[str, Any]


def _page(
    asked: Asked,
    template: str,
    title: bytes | str,
    path: bytes | None = None,
    /,
    **values: Any,  # noqa: ANN401 - for the template
) -> Shown:
    """Return a page of a ref, or with a path of a directory or object at the ref."""
    ref, repository = asked.ref, asked.repository
    crumbs: list[tuple[bytes | str, str]] = [
        ("lakecli", link()),
        (asked.name, link(asked.name)),
        (ref, link(asked.name, "tree", ref=ref)),
    ]
    at = 0
    while path and (end := path.find(b"/", at) + 1):
        crumbs.append((path[at:end], link(asked.name, "tree", ref=ref, path=path[:end])))
        at = end
    if path is None or path[at:]:
        crumbs.append((title, ""))
    with repository.lake.kv.read() as txn:
        is_branch = RefStore(txn, repository.key).find_branch(ref) is not None
    values |= {"ref": ref, "branch": ref if is_branch else None}
    return Shown(template, title, crumbs, values)


def _change(asked: Asked, *words: str) -> str:
    """Return a command that changes the repository; ``""`` if it is read without a clone."""
    return command(*words) if asked.repository.uri.startswith(SCHEME) else ""


def repositories(asked: Asked) -> Shown:
    """Return the page that lists all repositories."""
    records = {each.name: each for each in asked.served.lake.repositories()}
    after = asked.text("after")
    names = [name for name in asked.served.names() if name > after]
    more = link(after=names[PAGE - 1]) if len(names) > PAGE else None
    found = [(name, records.get(name)) for name in names[:PAGE]]
    return Shown("repositories", "Repositories", (), {"repositories": found, "next": more})


class RefRow(NamedTuple):
    """A branch or tag.

    Attributes:
        commit: its commit; ``None``: this machine lacks it.
        default: compared with the default branch.
        bucket: compared with the bucket.
        is_shared: whether the bucket has a branch of that name.
    """

    name: str
    commit: Commit | None
    default: Apart
    bucket: Apart = None
    is_shared: bool = False
    is_dirty: bool = False


class _TooManyError(Exception):
    """More commits would be read than a page reads."""


class _Counting:
    """Reads commits, up to a number of them, and counts how far two of them are apart."""

    def __init__(self, refs: RefStore, left: int) -> None:
        self._refs, self._left = refs, left

    def find_commit(self, id: CommitId) -> Commit | None:
        self._left -= 1
        if self._left < 0:
            raise _TooManyError
        return self._refs.find_commit(id)

    def apart(self, here: CommitId, there: CommitId | None) -> Apart:
        """Return how many commits only one of two reaches."""
        try:
            return None if there is None else count_ahead_behind(self, here, there)
        except _TooManyError:
            return None


def refs(asked: Asked) -> Shown:
    """Return the page of a repository: its branches and tags."""
    repository = asked.repository
    after = {key: asked.text(key) for key in ("branches", "tags")}
    with repository.lake.kv.read() as txn:
        store = RefStore(txn, repository.key)
        tracked = TrackingStore(txn, repository.key)
        counting = _Counting(store, MOST_WALKED)
        base = store.position(RefKind.BRANCH, repository.record.default_branch)

        def row(ref: Branch | Tag) -> RefRow:
            head = ref.commit_id
            found = RefRow(ref.name, store.find_commit(head), counting.apart(head, base))
            if isinstance(ref, Tag):
                return found
            there = tracked.position(RefKind.BRANCH, ref.name)
            bucket, is_dirty = counting.apart(head, there), not area.is_clean(txn, ref)
            return found._replace(bucket=bucket, is_shared=there is not None, is_dirty=is_dirty)

        iterators: Mapping[str, Iterator[Branch | Tag]] = {
            "branches": store.iter_branches(after=after["branches"]),
            "tags": store.iter_tags(after=after["tags"]),
        }
        rows = {key: list(map(row, islice(each, PAGE + 1))) for key, each in iterators.items()}
    values: dict[str, Any] = {key: found[:PAGE] for key, found in rows.items()}
    for key, found in rows.items():
        to = link(asked.name, "", **(after | {key: found[PAGE - 1].name})) if found[PAGE:] else None
        values[f"next_{key}"] = to
    values |= {"record": repository.record, "uri": (uri := repository.uri), "after": after}
    head = f"{uri}/{repository.record.default_branch}"
    values["tag"] = _change(asked, "tag", "create", f"{uri}/v1", head)
    crumbs = (("lakecli", link()), (asked.name, ""))
    return Shown("refs", asked.name, crumbs, values)


def log(asked: Asked) -> Shown:
    """Return the page of the history of a ref, as a graph."""
    skip = asked.number("skip", most=DEEPEST)
    # Later pages go on from the same commit, although the branch may have moved.
    start = asked.text("from", asked.ref)
    with log_graph(asked.repository, start, LogOptions()) as lines:
        found = list(islice(graph.rows(lines), skip, skip + COMMITS + 1))
    more, restarts = None, skip + COMMITS > DEEPEST
    if len(found) > COMMITS:
        if not skip and ".." not in start:
            start = found[0].commit.id
        more = link(asked.name, "log", ref=asked.ref, skip=skip + COMMITS, **{"from": start})
        if restarts:
            more = link(asked.name, "log", ref=found[COMMITS].commit.id)
    return _page(
        asked, "log", f"History of {asked.ref}", rows=found[:COMMITS], next=more, skip=skip,
        lanes=graph.width(found), names=_names(asked), restarts=restarts, graph=graph,
    )  # fmt: skip


def _names(asked: Asked) -> Mapping[CommitId, Sequence[tuple[RefKind, str]]]:
    """Return branches and tags by their commits."""
    names: dict[CommitId, list[tuple[RefKind, str]]] = {}
    with asked.repository.lake.kv.read() as txn:
        for kind, name, commit_id in islice(
            RefStore(txn, asked.repository.key).iter_refs(), MOST_NAMED
        ):
            names.setdefault(commit_id, []).append((kind, name))
    return names


def commit(asked: Asked) -> Shown:
    """Return the page of a commit: its message, and what it changed."""
    found = show_commit(asked.repository, asked.ref)
    left = found.parents[0] if found.parents else None
    before = show_commit(asked.repository, left).metarange_id if left else EMPTY_TREE
    trees = TreesToCompare(None, before, found.metarange_id, asked.path())
    values = _changes(asked, partial(_between, asked.repository, trees), "commit", ref=found.id)
    return _page(
        asked, "commit", f"Commit {found.id[:12]}", commit=found, left=left, right=found.id,
        names=_names(asked).get(found.id, ()), **values,
    )  # fmt: skip


class ListedItem(NamedTuple):
    """A directory, whose entry is ``None``, or an object."""

    path: bytes
    name: bytes
    entry: Entry | None
    is_staged: bool


def tree(asked: Asked) -> Shown:
    """Return the page of a directory at a ref."""
    ref, prefix, after = asked.ref, as_directory(asked.path()), asked.path("after")
    with asked.served.view(asked.name, ref) as view:

        def scan(start: bytes) -> Iterator[tuple[bytes, bytes]]:
            return view.scan(prefix=prefix, start=start)

        found = list(
            islice(list_prefix(scan, prefix=prefix, delimiter=b"/", after=after), PAGE + 1)
        )
        if prefix and not found and not after:
            view.entry(prefix.rstrip(b"/"))  # raises what it is not, or it is an object
            raise NotFound(
                f"{os.fsdecode(prefix)} is an object, not a directory",
                hint="its page has the same address without the slash",
            )
        items = [
            ListedItem(each.path, each.path[len(prefix) :], decode_entry(each.value),
                   is_staged=view.staged_at(each.path) is not None)
            if isinstance(each, ListedObject)
            else ListedItem(each.path, each.path[len(prefix) :], None, is_staged=False)
            for each in found[:PAGE]
        ]  # fmt: skip
    more = None
    if len(found) > PAGE:
        more = link(asked.name, "tree", ref=ref, path=prefix, after=found[PAGE - 1].path)
    text = os.fsdecode(prefix)
    return _page(
        asked, "tree", prefix.rstrip(b"/").rpartition(b"/")[2] or f"Files of {ref}", prefix,
        items=items, prefix=prefix, next=more, after=after,
        here=text if is_visible(text) else "",  # a form sends text, and changes other bytes
        upload=_change(asked, "fs", "upload", "FILE", asked.repository.at(ref, text)),
    )  # fmt: skip


def object_(asked: Asked) -> Shown:
    """Return the page of an object: its record, and a preview."""
    path = asked.path()
    entry, is_staged = find(asked)
    at = asked.repository.at(asked.ref, os.fsdecode(path))
    return _page(
        asked, "object", path.rpartition(b"/")[2] or path, path, path=path, entry=entry,
        is_staged=is_staged, address=at, preview=preview(asked.repository, path, entry),
        commands=[command("fs", "download", at, "."), command("log", at)],
    )  # fmt: skip


def find(asked: Asked) -> tuple[Entry, bool]:
    """Return the entry at the path that was asked for, and whether it is not committed yet."""
    with asked.served.view(asked.name, asked.ref) as view:
        return view.entry(asked.path()), view.staged_at(asked.path()) is not None


def staged(asked: Asked) -> Shown:
    """Return the page of what is not committed on a branch, by directory."""
    repository, ref, prefix = asked.repository, asked.ref, asked.path()
    with repository.lake.kv.read() as txn:
        view = view_of_branch(repository, txn, ref)

        def open_(start: bytes) -> Iterator[Difference]:
            return uncommitted(view, prefix=prefix, start=start)

        values = _changes(asked, open_, "staged", ref=ref)
    at = repository.at(ref)
    return _page(
        asked, "staged", f"Uncommitted on {ref}", left=view.commit.id, right=ref, **values,
        upload=_change(asked, "fs", "upload", "FILE", at),
        commit=_change(asked, "commit", at.rstrip("/"), "-m", "MESSAGE"),
    )  # fmt: skip


def compare_refs(asked: Asked) -> Shown:
    """Return the page of the differences of two refs, by directory."""
    repository = asked.repository
    sides = {"left": asked.text("left", repository.record.default_branch)}
    sides |= {"right": asked.text("right"), "direct": asked.text("direct")}
    left, right, direct = sides.values()
    if not right:
        return _page(asked, "diff", "Compare", **sides)
    found: list[TreesToCompare] = []

    def keep(trees: TreesToCompare) -> Iterator[Difference]:
        found.append(trees)
        return iter(())

    show_commit(repository, right)  # refuses `branch$`, which `staged` shows
    with diff_refs(
        repository, left, right, prefix=asked.path(), two_way=bool(direct), compare=keep
    ):
        pass
    values = _changes(asked, partial(_between, repository, found[0]), "diff", **sides)
    return _page(asked, "diff", f"{left} and {right}", **sides, **values)


def _between(repository: Repository, trees: TreesToCompare, start: bytes) -> Iterator[Difference]:
    base, left, right, prefix = trees
    if base is None:
        return diff(repository.trees, left, right, prefix=prefix, start=start)
    return compare(repository.trees, base=base, left=left, right=right, prefix=prefix, start=start)


def _changes(asked: Asked, open_: changes.Open, verb: str, **known: str) -> dict[str, Any]:
    """Return a page of differences, and the addresses of the next and of its directories."""
    prefix = asked.path()
    items, after = changes.one_page(open_, prefix, asked.path("after"))
    here = partial(link, asked.name, verb, **known)
    more = None if after is None else here(path=prefix, after=after)
    return {"items": items, "prefix": prefix, "next": more, "below": here}


def operations(asked: Asked) -> Shown:
    """Return the page of the operation log."""
    skip, uri = asked.number("skip", most=DEEPEST), asked.repository.uri
    found = list(islice(iter_log(asked.repository), skip, skip + PAGE + 1))
    is_more = len(found) > PAGE and skip + PAGE <= DEEPEST
    return _page(
        asked, "operations", "Operations", operations=found[:PAGE], skip=skip,
        next=link(asked.name, "operations", skip=skip + PAGE) if is_more else None,
        undo=_change(asked, "undo", uri), log=command("op", "log", uri),
    )  # fmt: skip


PAGES: Final[Mapping[str, Callable[[Asked], Shown]]] = {
    "": refs,
    "log": log,
    "commit": commit,
    "tree": tree,
    "object": object_,
    "staged": staged,
    "diff": compare_refs,
    "operations": operations,
}
"""The pages of a repository, by the last part of their address."""

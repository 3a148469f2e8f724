"""The data of each page: what its template is given. Each function runs in a thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from lakecli.base.model import Branch, Commit, CommitId, Difference, Entry, RefKind, Tag
from lakecli.base.uri import as_directory
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
from lakecli.repository.reading.view import View, view_of_branch
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
"""The number of branches, and of tags, whose names are looked for among the commits of a page."""

Values = Mapping[str, Any]
Crumb = tuple[bytes | str, str]


class Shown(NamedTuple):
    """A page: its template, the text of its title, the way to it, and its data."""

    template: str
    title: bytes | str
    crumbs: list[Crumb]
    values: Values


def repositories(asked: Asked) -> Shown:
    """Return the page that lists all repositories."""
    records = {each.name: each for each in asked.served.lake.repositories()}
    after = asked.text("after")
    names = [name for name in asked.served.names() if name > after]
    more = link(after=names[PAGE - 1]) if len(names) > PAGE else None
    found = [(name, records.get(name)) for name in names[:PAGE]]
    return Shown("repositories", "Repositories", [], {"repositories": found, "next": more})


class RefRow(NamedTuple):
    """A branch or tag, with numbers of commits (ahead, behind); ``None``: not known, or too many.

    Attributes:
        commit: its commit; ``None``: this machine lacks it.
        default: compared with the default branch.
        bucket: compared with the bucket; ``None`` also if it was never there.
        is_shared: whether the bucket has a ref of that name.
    """

    name: str
    commit: Commit | None
    default: tuple[int, int] | None
    bucket: tuple[int, int] | None = None
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

    def apart(self, here: CommitId, there: CommitId | None) -> tuple[int, int] | None:
        """Return how many commits only one of two reaches; ``None`` if there are too many."""
        if there is None or here == there:
            return (0, 0) if there else None
        try:
            return count_ahead_behind(self, here, there)
        except _TooManyError:
            return None


def refs(asked: Asked) -> Shown:
    """Return the page of a repository: its branches and tags."""
    repository = asked.served.repository(asked.name)
    after = {key: asked.text(key) for key in ("branches", "tags")}
    with repository.lake.kv.read() as txn:
        store = RefStore(txn, repository.key)
        tracked = TrackingStore(txn, repository.key)
        counting = _Counting(store, MOST_WALKED)
        default = store.find_branch(repository.record.default_branch)

        def row(ref: Branch | Tag) -> RefRow:
            base = default.commit_id if default else None
            found = RefRow(ref.name, store.find_commit(ref.commit_id),
                           counting.apart(ref.commit_id, base))  # fmt: skip
            if isinstance(ref, Tag):
                return found
            there = tracked.position(RefKind.BRANCH, ref.name)
            return found._replace(
                bucket=counting.apart(ref.commit_id, there),
                is_shared=there is not None,
                is_dirty=not area.is_clean(txn, ref),
            )

        branches = list(map(row, islice(store.iter_branches(after=after["branches"]), PAGE + 1)))
        tags = list(map(row, islice(store.iter_tags(after=after["tags"]), PAGE + 1)))
    more = {
        f"next_{key}": link(asked.name, **{**after, key: rows[PAGE - 1].name})
        for key, rows in (("branches", branches), ("tags", tags))
        if len(rows) > PAGE
    }
    values = {"record": repository.record, "uri": repository.uri, "after": after, **more}
    values |= {"branches": branches[:PAGE], "tags": tags[:PAGE], "default": default}
    return Shown("refs", asked.name, _crumbs(asked), values)


def log(asked: Asked) -> Shown:
    """Return the page of the history of a ref, as a graph."""
    repository, ref = _start(asked)
    skip = asked.number("skip", most=DEEPEST)
    # Later pages go on from the same commit, although the branch may have moved.
    start = asked.text("from", ref)
    with log_graph(repository, start, LogOptions()) as lines:
        found = list(islice(graph.rows(lines), skip, skip + COMMITS + 1))
    more = None
    if len(found) > COMMITS:
        if not asked.text("from") and not skip and ".." not in start:
            start = found[0].commit.id
        at = {"from": start, "skip": skip + COMMITS}
        more = link(asked.name, "log", ref=ref, **at)
        if skip + COMMITS > DEEPEST:
            more = link(asked.name, "log", ref=found[COMMITS].commit.id)
    found = found[:COMMITS]
    values = {
        "rows": found,
        "lanes": graph.width(found),
        "next": more,
        "graph": graph,
        "skip": skip,
    }
    values |= {"names": _names(repository), "restarts": skip + COMMITS > DEEPEST}
    return _of_ref(asked, ref, Shown("log", f"History of {ref}", [], values))


def _names(repository: Repository) -> Mapping[CommitId, list[tuple[RefKind, str]]]:
    names: dict[CommitId, list[tuple[RefKind, str]]] = {}
    with repository.lake.kv.read() as txn:
        store = RefStore(txn, repository.key)
        for kind, found in (
            (RefKind.BRANCH, store.iter_branches()),
            (RefKind.TAG, store.iter_tags()),
        ):
            for each in islice(found, MOST_NAMED):
                names.setdefault(each.commit_id, []).append((kind, each.name))
    return names


def commit(asked: Asked) -> Shown:
    """Return the page of a commit: its message, and what it changed."""
    repository, ref = _start(asked)
    found = show_commit(repository, ref)
    tree = ""
    if found.parents:
        tree = show_commit(repository, found.parents[0]).metarange_id
    open_ = partial(_between, repository, TreesToCompare(None, tree, found.metarange_id, b""))
    values = {"commit": found, "names": _names(repository).get(found.id, [])}
    values |= _changes(asked, open_, ref=found.id)
    left = found.parents[0] if found.parents else None
    return _of_ref(asked, ref, Shown("commit", f"Commit {found.id[:12]}", [], {
        **values, "left": left, "right": found.id}))  # fmt: skip


def tree(asked: Asked) -> Shown:
    """Return the page of a directory at a ref."""
    repository, ref = _start(asked)
    prefix, after = as_directory(asked.path()), asked.path("after")
    with asked.served.view(asked.name, ref) as view:
        listing = list_prefix(
            lambda start: view.scan(prefix=prefix, start=start),
            prefix=prefix,
            delimiter=b"/",
            after=after,
        )
        found = list(islice(listing, PAGE + 1))
        if prefix and not found and not after:
            view.entry(prefix.rstrip(b"/"))  # raises what it is not, or it is an object
            raise NotFound(
                f"{os.fsdecode(prefix)} is an object, not a directory",
                hint="its page has the same address without the slash",
            )
        items = [_listed(view, prefix, each) for each in found[:PAGE]]
    more = None
    if len(found) > PAGE:
        more = link(asked.name, "tree", ref=ref, path=prefix, after=found[PAGE - 1].path)
    # A form sends text; a path that is more than that stays behind.
    here = os.fsdecode(prefix) if is_visible(os.fsdecode(prefix)) else ""
    values = {"items": items, "prefix": prefix, "next": more, "after": after, "here": here}
    title = prefix.rstrip(b"/").rpartition(b"/")[2] or f"Files of {ref}"
    upload = command("fs", "upload", "FILE", repository.at(ref, os.fsdecode(prefix)))
    return _of_ref(asked, ref, Shown("tree", title, [], {**values, "upload": upload}), prefix)


class Listed(NamedTuple):
    """A directory, whose entry is ``None``, or an object."""

    path: bytes
    name: bytes
    entry: Entry | None
    is_staged: bool


def _listed(view: View, prefix: bytes, found: Any) -> Listed:  # noqa: ANN401
    name = found.path[len(prefix) :]
    if not isinstance(found, ListedObject):
        return Listed(found.path, name, None, is_staged=False)
    is_staged = view.staged_at(found.path) is not None
    return Listed(found.path, name, decode_entry(found.value), is_staged)


def object_(asked: Asked) -> Shown:
    """Return the page of an object: its record, and a preview."""
    repository, ref = _start(asked)
    path = asked.path()
    entry, is_staged = find(asked, ref, path)
    at = repository.at(ref, os.fsdecode(path))
    values = {"path": path, "entry": entry, "is_staged": is_staged, "address": at}
    values |= {"preview": preview(repository, path, entry)}
    values |= {"commands": [command("fs", "download", at, "."), command("log", at)]}
    return _of_ref(asked, ref, Shown("object", path.rpartition(b"/")[2] or path, [], values), path)


def find(asked: Asked, ref: str, path: bytes) -> tuple[Entry, bool]:
    """Return the entry at a path, and whether it is not committed yet."""
    with asked.served.view(asked.name, ref) as view:
        return view.entry(path), view.staged_at(path) is not None


def staged(asked: Asked) -> Shown:
    """Return the page of what is not committed on a branch, by directory."""
    repository, ref = _start(asked)
    prefix = asked.path()
    with repository.lake.kv.read() as txn:
        view = view_of_branch(repository, txn, ref)
        found = _changes(
            asked,
            lambda start: uncommitted(view, prefix=prefix, start=start),
            verb="staged",
            ref=ref,
        )
        head = view.commit.id
    values = {**found, "left": head, "right": ref, "upload": command(
        "fs", "upload", "FILE", repository.at(ref))}  # fmt: skip
    values |= {"commit": command("commit", repository.at(ref).rstrip("/"), "-m", "MESSAGE")}
    return _of_ref(asked, ref, Shown("staged", f"Uncommitted on {ref}", [], values))


def compare_refs(asked: Asked) -> Shown:
    """Return the page of the differences of two refs, by directory."""
    repository, ref = _start(asked)
    left = asked.text("left", repository.record.default_branch)
    right, prefix, direct = asked.text("right"), asked.path(), asked.text("direct")
    values: Values = {"left": left, "right": right, "direct": direct}
    if right:
        found: list[TreesToCompare] = []

        def keep(trees: TreesToCompare) -> Iterator[Difference]:
            found.append(trees)
            return iter(())

        for each in (left, right):
            show_commit(repository, each)  # `branch$` is refused: `staged` shows it
        with diff_refs(repository, left, right, prefix=prefix, two_way=bool(direct), compare=keep):
            pass
        open_ = partial(_between, repository, found[0])
        known = {"left": left, "right": right, "direct": direct}
        values = values | _changes(asked, open_, verb="diff", **known)
    title = f"{left} and {right}" if right else "Compare"
    return _of_ref(asked, ref, Shown("diff", title, [], values))


def _between(repository: Repository, trees: TreesToCompare, start: bytes) -> Iterator[Difference]:
    base, left, right, prefix = trees
    if base is None:
        return diff(repository.trees, left, right, prefix=prefix, start=start)
    return compare(repository.trees, base=base, left=left, right=right, prefix=prefix, start=start)


def _changes(
    asked: Asked, open_: changes.Open, *, verb: str = "commit", **known: str
) -> dict[str, Any]:
    """Return a page of differences, and the addresses of the next and of its directories."""
    prefix = asked.path()
    items, after = changes.one_page(open_, prefix, asked.path("after"))
    here = partial(link, asked.name, verb, **known)
    more = None if after is None else here(path=prefix, after=after)
    return {"items": items, "prefix": prefix, "next": more, "below": here}


def operations(asked: Asked) -> Shown:
    """Return the page of the operation log."""
    repository, ref = _start(asked)
    skip = asked.number("skip", most=DEEPEST)
    found = list(islice(iter_log(repository), skip, skip + PAGE + 1))
    more = None
    if len(found) > PAGE and skip + PAGE <= DEEPEST:
        more = link(asked.name, "operations", skip=skip + PAGE)
    values = {"operations": found[:PAGE], "next": more, "skip": skip}
    values |= {"undo": command("undo", repository.uri), "log": command("op", "log", repository.uri)}
    return _of_ref(asked, ref, Shown("operations", "Operations", [], values))


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


def _start(asked: Asked) -> tuple[Repository, str]:
    """Return the repository of a request, and the ref; the default branch if none was given."""
    repository = asked.served.repository(asked.name)
    return repository, asked.text("ref", repository.record.default_branch)


def _crumbs(asked: Asked) -> list[Crumb]:
    return [("lakecli", link()), (asked.name, link(asked.name))]


def _of_ref(asked: Asked, ref: str, shown: Shown, path: bytes = b"") -> Shown:
    """Add to a page the way to it: the repository, the ref, and the directories of a path."""
    crumbs = [*_crumbs(asked), (ref, link(asked.name, "tree", ref=ref))]
    if shown.template in {"tree", "object"}:
        parts = path.split(b"/")
        ends = [len(b"/".join(parts[:count])) + 1 for count in range(1, len(parts))]
        crumbs += [
            (path[:end].rstrip(b"/").rpartition(b"/")[2] + b"/",
             link(asked.name, "tree", ref=ref, path=path[:end]))
            for end in ends
        ]  # fmt: skip
        crumbs += [(parts[-1], "")] if parts[-1] else []
    else:
        crumbs.append((shown.title, ""))
    repository = asked.served.repository(asked.name)
    with repository.lake.kv.read() as txn:
        is_branch = RefStore(txn, repository.key).find_branch(ref) is not None
    values = {**shown.values, "ref": ref, "branch": ref if is_branch else None}
    return shown._replace(crumbs=crumbs, values=values)

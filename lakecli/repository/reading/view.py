"""The readable state of a ref: its committed tree, and for a branch the staging area on top.

A view is consistent: branch record, staging and commit come from one read transaction, which is
open as long as the view. A name that does not exist raises `NotFound`, with a hint that lists the
existing names; a workspace that accepts no more writes raises `WorkspaceEnded`.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from shlex import quote
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from lakecli.base.model import EMPTY_TREE, Branch, Commit, Entry, RefKind, StagingToken
from lakecli.errors import NotFound
from lakecli.kv.local_store import ReadTransaction, put_over
from lakecli.refs.ref_store import RefStore
from lakecli.repository.contract import Repository
from lakecli.repository.readable import Refs

if TYPE_CHECKING:
    from lakecli.committed.scan import ListedObject, ListedPrefix
    from lakecli.refs.resolve import Resolved

_NEIGHBOURS = 1_000
"""The largest number of objects of a directory, branches or tags searched for a similar name."""


class View(NamedTuple):
    """The readable state of a ref; `open_view` and `view_of_branch` create it.

    Only one thread may use a view, since it uses a transaction.

    Attributes:
        tokens: staging areas on top of the commit, newest first.
        above: values and tombstones by path, read on top of `tokens`; not yet in the local store.
    """

    repository: Repository
    txn: ReadTransaction
    commit: Commit
    tokens: tuple[StagingToken, ...]
    name: str
    above: Mapping[bytes, bytes] = MappingProxyType({})

    def find(self, path: bytes) -> bytes | None:
        """Return the encoded value at a path, or ``None``."""
        staged = self.staged_at(path)
        # An empty value is a tombstone.
        return self.find_committed(path) if staged is None else staged or None

    def staged_at(self, path: bytes) -> bytes | None:
        """Return the value or tombstone staged at a path; ``None`` if the path is not staged."""
        from lakecli.staging import area

        if path in self.above:
            return self.above[path]
        found = (area.get(self.txn, token, path) for token in self.tokens)
        return next((value for value in found if value is not None), None)

    def find_many(self, paths: Sequence[bytes]) -> list[bytes | None]:
        """Return the encoded value at each path, or ``None``."""
        if not self.is_clean():
            return [self.find(path) for path in paths]
        if self.commit.metarange_id == EMPTY_TREE:
            return [None] * len(paths)
        from lakecli.committed.point_reads import find_many

        return find_many(self.repository.trees, self.commit.metarange_id, paths)

    def find_committed(self, path: bytes) -> bytes | None:
        """Return the encoded value at a path in the commit, or ``None``; ignore staged changes."""
        if self.commit.metarange_id == EMPTY_TREE:
            return None  # saves importing the modules that read trees
        from lakecli.committed.point_reads import find

        return find(self.repository.trees, self.commit.metarange_id, path)

    def entry(self, path: bytes) -> Entry:
        """Return the entry at a path.

        Raises:
            NotFound: there is no object at the path; the hint may name a similar path.
        """
        from lakecli.committed.values import decode_entry

        return decode_entry(self.value(path))

    def value(self, path: bytes) -> bytes:
        """Return the encoded entry at a path; raise the error of `entry` if there is no object."""
        value = self.find(path)
        if value is None:
            below = path if path.endswith(b"/") else path + b"/"
            is_prefix = next(self.scan(prefix=below), None) is not None
            near = None if is_prefix else self.nearest(path)
            raise no_such_path(self.repository, self.name, path, is_prefix=is_prefix, near=near)
        return value

    def nearest(self, path: bytes) -> bytes | None:
        """Return a path in the same directory with a similar name, or ``None``.

        Only the first `_NEIGHBOURS` objects of the directory are searched.
        """
        directory = path[: path.rfind(b"/") + 1]
        beside = islice(self.scan(prefix=directory), _NEIGHBOURS)
        names = {os.fsdecode(each[len(directory) :]) for each, _ in beside}
        from difflib import get_close_matches

        near = get_close_matches(os.fsdecode(path[len(directory) :]), names, n=1)
        return directory + os.fsencode(near[0]) if near else None

    def scan(self, *, prefix: bytes = b"", start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield (path, encoded value) in path order, from the first path at or after `start`."""
        from lakecli.committed.scan import scan

        trees, tree = self.repository.trees, self.commit.metarange_id
        committed = scan(trees, tree, start=start, prefix=prefix)
        if self.is_clean():
            return committed
        from lakecli.staging.area import overlay

        return overlay(self.staged(prefix=prefix, start=start), committed)

    def list_paths(
        self, *, prefix: bytes = b"", delimiter: bytes = b"", after: bytes = b""
    ) -> Iterator["ListedObject | ListedPrefix"]:
        """Yield paths and common prefixes in order; see `lakecli.committed.scan.list_prefix`."""
        from lakecli.committed.scan import list_prefix

        def scan_from(start: bytes) -> Iterator[tuple[bytes, bytes]]:
            return self.scan(prefix=prefix, start=start)

        return list_prefix(scan_from, prefix=prefix, delimiter=delimiter, after=after)

    def is_clean(self) -> bool:
        """Return whether nothing is staged on top of the commit."""
        from lakecli.staging import area

        return not self.above and all(area.is_empty(self.txn, token) for token in self.tokens)

    def staged(self, *, prefix: bytes = b"", start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield (path, encoded value or tombstone) of all staged paths, in path order."""
        from lakecli.staging import area

        stored = area.scan_newest(self.txn, self.tokens, start=start, prefix=prefix)
        if not self.above:
            return stored
        wanted = (each for each in list(self.above.items()) if each[0].startswith(prefix))
        return put_over(iter(sorted(each for each in wanted if each[0] >= start)), stored)


def no_such_path(
    repository: Refs, ref: str, path: bytes, *, is_prefix: bool = False, near: bytes | None = None
) -> NotFound:
    """Return the error for a path that a ref does not have.

    Args:
        near: a path that the ref has, and that the user probably meant.
    """
    parent = path.rstrip(b"/") if is_prefix else path.rstrip(b"/").rpartition(b"/")[0]
    shown = os.fsdecode(parent + b"/") if parent else ""
    there = "below it" if is_prefix else "there"
    hint = f"list what is {there}: `fs ls {quote(repository.at(ref, shown))}`"
    if near is not None:
        hint = f"did you mean {quote(repository.at(ref, os.fsdecode(near)))}?"
    return NotFound(f"no object at {repository.at(ref, os.fsdecode(path))}", hint=hint)


def branch_at(repository: Refs, txn: ReadTransaction, name: str) -> Branch:
    """Return a branch by its name.

    Raises:
        NotFound: no such branch; the hint names the command that lists branches.
    """
    refs = repository.refs(txn)
    branch = refs.find_branch(name)
    if branch is None:
        uri = repository.uri
        hint = f"list them: `branch list {uri}`"
        if refs.find_tag(name) is not None:
            source = quote(f"{uri}/{name}")
            hint = f"it is a tag; a new branch there: `branch create {uri}/NAME -s {source}`"
        raise NotFound(f"no branch {name!r} in {uri}", hint=hint)
    return branch


def staged_on(repository: Refs, txn: ReadTransaction, name: str) -> Branch:
    """Return a branch by its name, or a workspace, which is represented by a `Branch`, too."""
    workspace = _workspace_at(repository, txn, name)
    return branch_at(repository, txn, name) if workspace is None else workspace


def _workspace_at(repository: Refs, txn: ReadTransaction, name: str) -> Branch | None:
    if "*" not in name:
        return None  # saves importing `workspaces` for a branch
    from lakecli.repository.journal import workspaces

    return workspaces.find(txn, repository, name) if workspaces.is_workspace(name) else None


def check_branch(repository: Refs, name: str) -> None:
    """Refuse a ref expression that names no branch or workspace: only these have a staging area."""
    with repository.lake.kv.read() as txn:
        staged_on(repository, txn, name)


def view_of_branch(repository: Repository, txn: ReadTransaction, name: str) -> View:
    """Return a view of a branch or workspace with its staged changes, within a transaction."""
    branch = staged_on(repository, txn, name)
    commit = repository.refs(txn).get_commit(branch.commit_id)
    return View(repository, txn, commit, branch.tokens, name)


def resolve_ref(repository: Refs, txn: ReadTransaction, expression: str) -> "Resolved":
    """Resolve a ref expression for reading; the hints of errors are for this repository.

    Raises:
        UsageError: the expression is malformed.
        NotFound: the expression names nothing, or is ambiguous.
    """
    from lakecli.refs.expression import parse_expression
    from lakecli.refs.resolve import resolve

    refs, past = repository.refs(txn), None
    workspace = _workspace_at(repository, txn, expression)
    if workspace is not None:
        from lakecli.refs.resolve import Resolved

        commit = refs.get_commit(workspace.commit_id)
        return Resolved(
            commit, RefKind.BRANCH, expression, commit.id, workspace, staging=True, steps=()
        )
    try:
        parsed = parse_expression(expression)
        if parsed.asks_for_moves:
            from lakecli.repository.reading.reflog import Past, find_past_ref

            past = find_past_ref(parsed, refs, Past(repository, txn))
        return resolve(parsed, refs, past)
    except NotFound as error:
        near = None if error.hint else _nearest_ref(refs, expression)
        if near is not None:
            error.hint = f"did you mean {quote(repository.at(near).rstrip('/'))}?"
        if error.hint is None:
            default = repository.at(repository.record.default_branch).rstrip("/")
            lists = f"`branch list {repository.uri}`, `tag list {repository.uri}`"
            error.hint = f"see what there is: {lists}, `log {default}`"
        raise


def commit_at(repository: Refs, txn: ReadTransaction, expression: str) -> Commit:
    """Resolve a ref expression to a commit; a plain branch means its head.

    Raises:
        UsageError: the expression is malformed, or names a staging area.
    """
    from lakecli.refs.resolve import commit_of

    return commit_of(resolve_ref(repository, txn, expression), expression)


def _nearest_ref(refs: RefStore, name: str) -> str | None:
    """Return the branch or tag with the most similar name, or ``None``.

    Only the first `_NEIGHBOURS` branches and tags are searched. If `name` begins with an existing
    name, the user probably mistyped the rest, and the result is ``None``.
    """
    names = {each.name for each in islice(refs.iter_branches(), _NEIGHBOURS)}
    names.update(each.name for each in islice(refs.iter_tags(), _NEIGHBOURS))
    is_there = any(name.startswith(each) for each in names)
    from difflib import get_close_matches

    return None if is_there else next(iter(get_close_matches(name, names, n=1)), None)


@contextmanager
def open_view(
    repository: Repository, expression: str, *, above: Mapping[bytes, bytes] = MappingProxyType({})
) -> Iterator[View]:
    """Open the state that a ref expression names; a plain branch includes its staging area.

    Args:
        above: values and tombstones by path, which hide the values of the ref.
    """
    with repository.lake.kv.read() as txn:
        resolved = resolve_ref(repository, txn, expression)
        tokens: tuple[StagingToken, ...] = ()
        if resolved.staging and resolved.branch is not None:
            tokens = resolved.branch.tokens
        yield View(repository, txn, resolved.commit, tokens, expression, above=above)

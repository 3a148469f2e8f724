"""Names of refs that begin with what was typed, with modifiers and in ranges."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from lakecli.base.model import RefKind
from lakecli.cli.manual.completion.paths import names_at, some_names
from lakecli.kv.local_store import ReadTransaction
from lakecli.refs.expression import parse
from lakecli.refs.reader import get_commit, get_parent
from lakecli.refs.ref_store import RefStore
from lakecli.repository import branch, tag
from lakecli.repository.contract import Repository
from lakecli.repository.reading.view import commit_at, open_view, past_of, resolve_ref

PATHS: Final = frozenset({"path", "ref-or-file", "path-or-file"})
"""Kinds whose URIs may have a path."""

MOST_STEPS: Final = 9
"""Ancestors, parents and moves that are offered."""

_BEFORE_MARK: Final = re.compile(r"[^~^@$]*")
_LAST_STEP: Final = re.compile(r"(.+)([~^])[0-9]*")
_LAST_NAME: Final = "\U0010ffff"
"""Greater than every character of a name."""


def iter_refs_and_paths(
    repository: Repository, kind: str, typed: str, *, start: str
) -> Iterator[str]:
    """Yield what may follow a repository: refs, or the paths of one.

    Args:
        repository: the repository.
        kind: of the word.
        typed: a part of a ref and a path.
        start: what stands before that; each candidate begins with it.
    """
    ref, slash, path = typed.partition("/")
    if not slash:
        end = "/" if kind in PATHS else ""
        for found in iter_refs(repository, kind, ref):
            yield f"{start}{found}{end}"
    elif kind in PATHS:
        with open_view(repository, ref) as view:
            for each in names_at(view, os.fsencode(path)):
                yield f"{start}{ref}/{os.fsdecode(each)}"


def iter_refs(repository: Repository, kind: str, typed: str) -> Iterator[str]:
    """Yield the branches and tags that begin with what was typed, or refs with its modifiers.

    Args:
        repository: the repository.
        kind: ``branch`` or ``tag``; anything else takes both, and modifiers.
        typed: a part of a ref expression; behind ``..`` another one begins.
    """
    if kind in {"branch", "tag"}:
        yield from _names(repository, kind, typed)
        return
    before, dots, last = typed.rpartition("..")
    lead = before + dots
    base = _BEFORE_MARK.match(last)
    assert base is not None
    if base[0] == last:
        found = _names(repository, kind, last)
    else:
        found = _modified(repository, base[0], last)
    for each in found:
        yield lead + each


def _names(repository: Repository, kind: str, prefix: str) -> Iterator[str]:
    def branches(lead: str | None) -> Iterator[str]:
        found = branch.iter_branches(repository, prefix=prefix, after=_last_of(lead))
        return (each.name for each in found)

    def tags(lead: str | None) -> Iterator[str]:
        found = tag.iter_tags(repository, prefix=prefix, after=_last_of(lead))
        return (each.name for each in found)

    if kind != "tag":
        yield from some_names(branches, prefix)
    if kind != "branch":
        yield from some_names(tags, prefix)


def _last_of(lead: str | None) -> str:
    """Return what no name that begins so is greater than."""
    return "" if lead is None else lead + _LAST_NAME


def _modified(repository: Repository, base: str, typed: str) -> Iterator[str]:
    """Yield refs with modifiers that begin with what was typed: ``main~2``, ``main@{1}``."""
    with repository.lake.kv.read() as txn:
        if typed.startswith(f"{base}@") and not re.search(r"[~^]", typed):
            offered = [f"{base}{mark}" for mark in _marks(repository, txn, base)]
        else:
            offered = list(_steps(repository, txn, typed))
    for each in offered:
        if each.startswith(typed):
            yield each


def _marks(repository: Repository, txn: ReadTransaction, base: str) -> Iterator[str]:
    """Yield what may follow the name of a branch or tag from its ``@`` on."""
    past = past_of(repository, txn)
    kind = past.find_kind(base)
    if kind is None:
        kind = resolve_ref(repository, txn, base).kind
        if kind is RefKind.COMMIT:
            return
    if kind is RefKind.BRANCH:
        yield "@"
    if past.find_upstream(kind, base) is not None:
        yield "@{upstream}"
    for number, move in enumerate(islice(past.iter_moves(kind, base), MOST_STEPS), 1):
        if move.before is not None:
            yield f"@{{{number}}}"


def _steps(repository: Repository, txn: ReadTransaction, typed: str) -> Iterator[str]:
    """Yield the ancestors or the parents of the commit before the last ``~`` or ``^``."""
    step = _LAST_STEP.fullmatch(typed)
    if step is None:
        return
    start, mark = step.groups()
    parse(start + mark)  # refuses modifiers that must stand alone
    reader = RefStore(txn, repository.key)
    commit = get_commit(reader, commit_at(repository, txn, start).id)
    if mark == "^":
        parents: Sequence[object] = commit.parents[:MOST_STEPS]
        yield from (f"{start}^{number}" for number, _ in enumerate(parents, 1))
        return
    for number in range(1, MOST_STEPS + 1):
        if not commit.parents:
            return
        commit = get_parent(reader, commit, commit.parents[0])
        yield f"{start}~{number}"

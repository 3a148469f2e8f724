"""``lakecli __complete KIND PREFIX``, which completion scripts run at a TAB.

It prints one candidate per line. Everything comes from this machine, because a TAB must not wait
for a bucket: repositories, refs and staged objects from the local store, other objects from a
namespace that is a directory, else from the cache. It is silent on every error, changes nothing,
and builds no command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from lakecli.base.uri import SCHEME
from lakecli.cli.context import Context, Environment
from lakecli.cli.line.argv import Globals
from lakecli.cli.manual.completion.in_place import IN_PLACE, is_in_place, iter_in_place
from lakecli.cli.manual.completion.paths import MAX_CANDIDATES, iter_files
from lakecli.cli.manual.completion.refs import iter_refs, iter_refs_and_paths
from lakecli.cli.reading import base_of, linked
from lakecli.repository.contract import Runtime
from lakecli.repository.undo.log import SHORT_ID, iter_log
from lakecli.settings.keys import KEYS, OF_REPOSITORY, REPOSITORY_KEYS, own_key
from lakecli.stores.memory import MemoryStore
from lakecli.stores.uri import is_local
from lakecli.worktree.link import Link

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore

DEADLINE: Final = 2.0
"""Seconds after which the process ends, whatever it waits for: a disk that has gone, for one."""

_FILES: Final = frozenset({"ref-or-file", "ref-or-own-file", "path-or-file", "file-of-ref"})
"""Kinds that may be a file of a linked directory."""

_NO_REF: Final = frozenset({"repository", "path", "file-of-ref"})
"""Kinds that are never a ref without its repository."""


def main(argv: Sequence[str], environ: Mapping[str, str], stdout: TextIO) -> None:
    """Print the candidates for ``KIND PREFIX``, and never an error."""
    context = Context(Environment(environ, sys.stdin, stdout, sys.stderr), Globals())
    try:
        kind, typed = argv
        context.runtime = _without_buckets(context.runtime)
        for candidate in candidates(context, kind, typed):
            # One candidate is one line, without characters that control the terminal.
            if candidate.isprintable():
                stdout.write(candidate + "\n")
        stdout.flush()
    except Exception:  # noqa: BLE001, S110 - a TAB never prints an error
        pass
    finally:
        context.close()


def _without_buckets(runtime: Runtime) -> Runtime:
    """Return a runtime whose buckets are empty, so that none is asked."""

    def open_store(uri: str, region: str) -> ObjectStore:
        return runtime.open_store(uri, region) if is_local(uri) else MemoryStore()

    return runtime._replace(open_store=open_store)


def candidates(context: Context, kind: str, typed: str) -> Iterator[str]:
    """Yield the candidates that begin with what was typed.

    Without ``lakefs://`` it is relative to the base URI, else to the linked directory or to the
    default repository, where the command takes that.

    Args:
        context: of the run.
        kind: of the word; with `IN_PLACE` at its end, the command takes a namespace, too.
        typed: the beginning of the word.
    """
    if kind == "setting":
        yield from _settings(context, typed)
        return
    if kind.endswith(IN_PLACE):
        kind = kind.removesuffix(IN_PLACE)
        if is_in_place(typed):
            yield from iter_in_place(context, kind, typed)
            return
    if not os.path.exists(context.home.store):
        return  # a TAB creates no store
    if kind == "operation":
        yield from _operations(context, typed)
    elif typed.startswith(SCHEME):
        yield from _uris(context, kind, typed)
    else:
        yield from _relative(context, kind, typed)


def _relative(context: Context, kind: str, typed: str) -> Iterator[str]:
    """Yield what a word without a scheme may be."""
    place = linked(context) if kind in _FILES else None
    base = context.base_uri
    if place is not None:
        yield from _in_directory(context, *place, kind, typed)
    else:
        if not base and kind not in _NO_REF:
            base = base_of("", context)
        if base and kind != "file-of-ref":
            for uri in _uris(context, kind, base + typed):
                yield uri.removeprefix(base)
    if SCHEME.startswith(typed) and (typed or not (base or place)) and kind != "file-of-ref":
        yield from _uris(context, kind, typed)


def _in_directory(context: Context, root: Path, link: Link, kind: str, typed: str) -> Iterator[str]:
    """Yield the refs and files that a word may be in a linked directory."""
    repository = context.lake().repository(link.src.repository)
    if kind.startswith("ref-") and "/" not in typed:
        yield from iter_refs(repository, kind, typed)
    yield from iter_files(repository, root, link, typed, is_new_too=kind == "ref-or-own-file")


def _uris(context: Context, kind: str, typed: str) -> Iterator[str]:
    name, slash, rest = typed.removeprefix(SCHEME).partition("/")
    if SCHEME.startswith(typed):
        name, slash, rest = "", "", ""
    elif not typed.startswith(SCHEME):
        return
    if not slash:
        end = "" if kind == "repository" else "/"
        for record in context.lake().repositories(prefix=name):
            yield f"{SCHEME}{record.name}{end}"
        return
    if kind == "repository":
        return
    repository = context.lake().repository(name)
    yield from iter_refs_and_paths(repository, kind, rest, start=f"{SCHEME}{name}/")


def _operations(context: Context, prefix: str) -> Iterator[str]:
    """Yield the newest operations of all repositories: the ID is typed after its repository."""
    lake = context.lake()
    for record in lake.repositories():
        for logged in islice(iter_log(lake.repository(record.name)), MAX_CANDIDATES):
            shown = logged.operation.id.hex()[: max(SHORT_ID, len(prefix))]
            if shown.startswith(prefix):
                yield shown


def _settings(context: Context, typed: str) -> Iterator[str]:
    """Yield the names of settings; those of a repository one part at a time."""
    names = [key.name for key in KEYS]
    if typed.startswith(OF_REPOSITORY):
        name, dot, _ = typed.removeprefix(OF_REPOSITORY).partition(".")
        if dot:
            names = [own_key(name, key.name) for key in REPOSITORY_KEYS]
        else:
            found = {
                each.key.name.split(".")[1]
                for each in context.settings
                if each.key.name.startswith(OF_REPOSITORY)
            }
            if os.path.exists(context.home.store):
                found |= {record.name for record in context.lake().repositories(prefix=name)}
            names = [f"{OF_REPOSITORY}{each}." for each in found]
    else:
        names.append(OF_REPOSITORY)
    yield from (each for each in sorted(names) if each.startswith(typed))

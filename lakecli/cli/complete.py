"""``lakecli __complete KIND PREFIX``, which completion scripts run at a TAB.

It prints one candidate per line. Repositories, branches and tags come from the local store; objects
too if the storage namespace is a local directory, because a TAB must not send requests to a bucket.
It is silent on every error, changes nothing, and builds no command.
"""

from __future__ import annotations

import os
import sys
from itertools import islice
from typing import TYPE_CHECKING, Final

from lakecli.cli.argv import Globals
from lakecli.cli.context import Context, Environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import TextIO

    from lakecli.repository.core.lake import Repository

SCHEME: Final = "lakefs://"
MAX_CANDIDATES: Final = 200
"""More do not fit on a screen."""

_LOCAL: Final = ("local://", "file://", "/")


def main(argv: Sequence[str], environ: Mapping[str, str], stdout: TextIO) -> None:
    """Print the candidates for ``KIND PREFIX``, and never an error."""
    context = Context(Environment(environ, sys.stdin, stdout, sys.stderr), Globals())
    try:
        kind, prefix = argv
        for candidate in islice(candidates(context, kind, prefix), MAX_CANDIDATES):
            # One candidate is one line, without characters that control the terminal.
            if candidate.isprintable():
                stdout.write(candidate + "\n")
        stdout.flush()
    except Exception:  # noqa: BLE001, S110 - a TAB never prints an error
        pass
    finally:
        context.close()


def candidates(context: Context, kind: str, prefix: str) -> Iterator[str]:
    """Yield the candidates that begin with `prefix`.

    A prefix without ``lakefs://`` is relative to the base URI, if there is one.
    """
    if kind == "operation":
        if context.home.store.exists():
            yield from _operations(context, prefix)
        return
    base = ""
    if not prefix.startswith(SCHEME) and not (prefix and SCHEME.startswith(prefix)):
        base = context.base_uri
    # A TAB creates no store.
    if not context.home.store.exists():
        return
    for uri in _uris(context, kind, base + prefix):
        if uri.startswith(base):
            yield uri.removeprefix(base)


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
    start = f"{SCHEME}{name}/"
    ref, slash, path = rest.partition("/")
    if not slash:
        end = "/" if kind == "path" else ""
        for found in _refs(repository, kind, ref):
            yield f"{start}{found}{end}"
    elif kind == "path" and repository.record.storage_namespace.startswith(_LOCAL):
        for found in _paths(repository, ref, path):
            yield f"{start}{ref}/{found}"


def _operations(context: Context, prefix: str) -> Iterator[str]:
    """Yield the newest operations of all repositories: the ID is typed after its repository."""
    from lakecli.repository.undo.log import SHORT_ID, iter_log

    lake = context.lake()
    for record in lake.repositories():
        for logged in islice(iter_log(lake.repository(record.name)), MAX_CANDIDATES):
            shown = logged.operation.id.hex()[: max(SHORT_ID, len(prefix))]
            if shown.startswith(prefix):
                yield shown


def _refs(repository: Repository, kind: str, prefix: str) -> Iterator[str]:
    from lakecli.repository import branch, tag

    if kind != "tag":
        for item in branch.iter_branches(repository, prefix=prefix):
            yield item.name
    if kind != "branch":
        for found in tag.iter_tags(repository, prefix=prefix):
            yield found.name


def _paths(repository: Repository, ref: str, prefix: str) -> Iterator[str]:
    from lakecli.repository.ls import ls

    with ls(repository, ref, prefix=os.fsencode(prefix), delimiter=b"/") as listed:
        for item in listed:
            yield os.fsdecode(item.path)

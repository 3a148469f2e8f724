"""Refs and paths of a repository that is named by its storage namespace, NAMESPACE@REF/PATH.

A bucket is not asked, so only what this machine has of it is offered: that of its clone. A
namespace that is a directory is read itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from lakecli.base.layout import REPOSITORY
from lakecli.base.uri import is_namespace
from lakecli.cli.context import Context
from lakecli.cli.manual.completion.refs import iter_refs_and_paths
from lakecli.repository.contract import Repository
from lakecli.stores.uri import normalise

IN_PLACE: Final = "@"
"""At the end of a kind: the command takes NAMESPACE@REF, too."""

_ENCODED_AT: Final = "%40"


def is_in_place(typed: str) -> bool:
    """Tell whether a word begins with a storage namespace; a directory is one if it is used."""
    if not typed.startswith("/"):
        return is_namespace(typed)

    namespace, at, _ = typed.partition("@")
    directory = namespace.replace(_ENCODED_AT, "@")
    return bool(at) and os.path.isfile(f"{directory}/{REPOSITORY}")


def iter_in_place(context: Context, kind: str, typed: str) -> Iterator[str]:
    """Yield what a word may be that begins with a storage namespace.

    Args:
        context: of the run.
        kind: of the word.
        typed: the beginning of the word.
    """
    namespace, at, rest = typed.partition("@")
    if not at:
        end = "" if kind == "repository" else "@"
        for uri in _clones(context):
            shown = uri.replace("@", _ENCODED_AT)
            if shown.startswith(typed):
                yield f"{shown}{end}"
    elif kind != "repository" and (repository := _find(context, namespace)) is not None:
        yield from iter_refs_and_paths(repository, kind, rest, start=f"{namespace}@")


def _clones(context: Context) -> dict[str, str]:
    """Return the names of clones by their storage namespaces."""
    if not os.path.exists(context.home.store):
        return {}
    return {each.storage_namespace: each.name for each in context.lake().repositories()}


def _find(context: Context, namespace: str) -> Repository | None:
    """Return the clone of a namespace, or the repository in a directory; else ``None``."""
    uri = normalise(namespace.replace(_ENCODED_AT, "@"))
    name = _clones(context).get(uri)
    if name is not None:
        return context.lake().repository(name)
    if uri.startswith("local://"):
        return context.repository_in_place(uri)
    return None

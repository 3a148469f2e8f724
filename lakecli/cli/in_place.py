"""The commands that read a repository without a clone, by the URI of its storage namespace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from lakecli.base.layout import REPOSITORY
from lakecli.base.uri import is_namespace
from lakecli.cli.here import linked
from lakecli.errors import UsageError
from lakecli.repository.contract import Repository
from lakecli.repository.open_remote import open_remote

if TYPE_CHECKING:
    from lakecli.cli.context import Context

READ_IN_PLACE: Final = frozenset(
    {
        *("annotate", "blame", "branch list", "branch show", "diff", "find-merge-base", "fs cat"),
        *("fs download", "fs du", "fs find", "fs ls", "fs presign", "fs stat", "log", "reflog"),
        *("rev-parse", "show commit", "tag list", "tag show"),
    }
)
"""The commands that take NAMESPACE@REF/PATH, too: they only read, and need no clone."""


def is_taken(text: str, context: Context) -> bool:
    """Tell whether the command takes a text as the URI of a storage namespace.

    In a linked directory, a text without a scheme is one only if a namespace is before its ``@``.
    """
    if context.command not in READ_IN_PLACE:
        return False

    if not is_namespace(text):
        text = context.base_uri + text
    if not text.startswith("/"):
        return is_namespace(text)

    namespace, at, _ = text.partition("@")
    if (Path(namespace.replace("%40", "@")) / REPOSITORY).is_file():
        return True
    if not at:
        return False

    return linked(context) is None


def opened(context: Context, namespace: str, *, at_op: str) -> Repository:
    """Return the repository of a storage namespace for reading, opened at the first call.

    Raises:
        UsageError: `at_op` is given.
        NotFound: there is no repository in that namespace.
    """
    if at_op:
        raise UsageError(
            f"--at-op needs a clone: {namespace} has no operation log",
            hint="a former state of a branch: BRANCH@{1 day ago}",
        )
    if namespace not in context.remotes:
        remote = open_remote(context.lake_home(), context.runtime, namespace)
        context.remotes[namespace] = context.keep(remote)
    return context.remotes[namespace]

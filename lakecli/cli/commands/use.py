"""``lakecli use``."""

from __future__ import annotations

from typing import Annotated

from lakecli.base.uri import LakeUri
from lakecli.cli.context import Context
from lakecli.cli.line.declare import Argument, Option
from lakecli.cli.out.answers.worktree import Used
from lakecli.cli.reading import Kind, Parser, read_repository_or_ref
from lakecli.errors import UsageError
from lakecli.repository.reading.view import commit_at
from lakecli.settings.file import set_value, unset_value
from lakecli.settings.keys import USE


def use(
    context: Context,
    default: Annotated[
        LakeUri | None,
        Argument(metavar="REF", help="lakefs://REPOSITORY[/BRANCH-OR-TAG]"),
        Parser(read_repository_or_ref, Kind.REF),
    ] = None,
    *,
    unset: Annotated[bool, Option("--unset", help="Remove the default")] = False,
) -> None:
    """Set the repository that commands without a URI mean, or show it.

    Then status, diff, commit, log, pull, push, fetch, undo, redo, `op log`, `branch list` and `tag
    list` need no URI, and refs can be written without lakefs://REPOSITORY/; paths of objects
    cannot. In a linked directory these commands mean the directory and its branch instead. The
    default is the setting `use`.

    Examples:
        lakecli use lakefs://demo
        lakecli use lakefs://demo/experiment
        lakecli use
        lakecli use --unset
    """
    if unset and default is not None:
        raise UsageError("--unset takes no URI", hint="lakecli use --unset")
    if unset:
        if context.settings.used is not None:
            unset_value(context.config_file, USE)
        context.out.emit(Used(uri=None), text=list)
        return
    if default is not None:
        if default.ref is None:
            context.repository(default)
        else:
            repository = context.repository(default)
            with repository.lake.kv.read() as txn:
                commit_at(repository, txn, default.ref)
        set_value(context.config_file, USE, str(default))
        stronger = context.environ.get("LAKECLI_USE")
        if stronger:
            context.out.warn(f"LAKECLI_USE still overrides it: {stronger}")
        context.out.emit(Used(uri=str(default)), text=lambda: [f"Using {default}"])
        return
    used = context.settings.used
    context.out.emit(
        Used(uri=used),
        text=lambda: ["No default is set" if used is None else f"Using {used}"],
    )

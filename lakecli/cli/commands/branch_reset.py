"""``lakecli branch reset``."""

from __future__ import annotations

import os
from typing import Annotated

from lakecli.cli.context import Context
from lakecli.cli.declare import Option
from lakecli.cli.params import BranchUri, Yes
from lakecli.cli.records import ref_record
from lakecli.cli.text import quote_path
from lakecli.errors import UsageError
from lakecli.uri import check_path, ref_of


def branch_reset(
    context: Context,
    branch: BranchUri,
    *,
    prefix: Annotated[
        str | None, Option("--prefix", metavar="TEXT", help="Only what begins with this")
    ] = None,
    object: Annotated[
        str | None, Option("--object", metavar="PATH", help="Only this object")
    ] = None,
    yes: Yes = False,
) -> None:
    """Discard the uncommitted changes of a branch: all, below a prefix, or of one object.

    The paths read as in the last commit again. If there are no such changes, nothing happens.

    Examples:
        lakecli branch reset lakefs://demo/main
        lakecli branch reset lakefs://demo/main --prefix raw/2026/ -y
        lakecli branch reset lakefs://demo/main --object raw/2026/01.csv -y
    """
    from lakecli.repository import branch as branches

    if prefix is not None and object is not None:
        raise UsageError("--prefix and --object exclude each other", hint="give one of them")
    path = os.fsencode(object if object is not None else prefix or "")
    check_path(path, allow_empty=object is None)
    context.out.say(f"Branch: {branch}")
    repository, name = context.synced_repository(branch), ref_of(branch)
    found = branches.show(repository, name)
    what = f"discard all uncommitted changes of branch '{name}'"
    if object is not None:
        context.confirm(f"{what} for object: {quote_path(object)}", yes=yes)
        count: int | None = branches.reset_object(repository, name, path)
    elif prefix is not None:
        context.confirm(f"{what} from path: {quote_path(prefix)}", yes=yes)
        count = branches.reset_prefix(repository, name, path)
    else:
        context.confirm(what, yes=yes)
        branches.reset(repository, name)
        count = None
    context.out.emit(ref_record(found))
    if count == 0:
        context.out.note("no uncommitted changes there")

"""``lakecli branch reset``."""

from __future__ import annotations

import os
from typing import Annotated

from lakecli.base.model import Branch, RefKind
from lakecli.base.uri import SCHEME, LakeUri, check_path, parse_ref, ref_of
from lakecli.cli.context import Context
from lakecli.cli.line.declare import Option
from lakecli.cli.out.common_records import ref_record
from lakecli.cli.out.text import quote_path
from lakecli.cli.params import BranchUri, ForceWithLease, Yes
from lakecli.cli.reading import Completion, Kind
from lakecli.cli.sharing import pushed_line, read_lease, short
from lakecli.errors import UsageError
from lakecli.repository import branch as branches
from lakecli.repository.branch import is_put_back, is_shared, reset
from lakecli.repository.contract import Repository
from lakecli.repository.log import show_commit
from lakecli.repository.push import PushOptions, push


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
    to: Annotated[
        str,
        Option("--to", metavar="REF", help="Move the branch to this commit: a ref or its URI"),
        Completion(Kind.REF),
    ] = "",
    force_with_lease: ForceWithLease = None,
    yes: Yes = False,
) -> None:
    """Discard the uncommitted changes of a branch: all, below a prefix, or of one object.

    The paths then have the contents of the last commit. If there are no such changes, nothing
    happens.

    With --to, the branch is moved to another commit too, back or elsewhere, and all uncommitted
    changes are discarded. The commits stay; `lakecli undo` takes it back, and `lakecli reflog`
    shows where the branch was. In the bucket the branch is moved with --force-with-lease only:
    provided that nobody has moved it there since the last fetch, or, with
    --force-with-lease=COMMIT, that it is at COMMIT there.

    Examples:
        lakecli branch reset lakefs://demo/main
        lakecli branch reset lakefs://demo/main --prefix raw/2026/ -y
        lakecli branch reset lakefs://demo/main --object raw/2026/01.csv -y
        lakecli branch reset lakefs://demo/main --to main~2
        lakecli branch reset lakefs://demo/main --to v1.0 --force-with-lease -y
    """
    if prefix is not None and object is not None:
        raise UsageError("--prefix and --object exclude each other", hint="give one of them")
    if to and (prefix is not None or object is not None):
        raise UsageError("--to excludes --prefix and --object", hint="give one of them")
    if force_with_lease is not None and not to:
        raise UsageError("--force-with-lease needs --to", hint="--to REF")
    path = os.fsencode(object if object is not None else prefix or "")
    check_path(path, allow_empty=object is None)
    context.out.say(f"Branch: {branch}")
    repository, name = context.synced_repository(branch), ref_of(branch)
    found = branches.show(repository, name)
    if to:
        _move(context, repository, found, to, lease=force_with_lease, yes=yes)
        return
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
    context.out.emit(lambda: ref_record(found))
    if count == 0:
        context.out.note("no uncommitted changes there")


def _move(
    context: Context,
    repository: Repository,
    branch: Branch,
    to: str,
    *,
    lease: str | None,
    yes: bool,
) -> None:
    """Move a branch to the commit that a ref or its URI names, and in the bucket with a lease."""
    name = branch.name
    expression = to
    if to.startswith(SCHEME):
        named = parse_ref(to)
        context.repository(named, LakeUri(repository.name))
        expression = ref_of(named)
    target = show_commit(repository, expression)
    required = read_lease(repository, lease)
    where = f"from {short(branch.commit_id)} to {short(target.id)}"
    context.confirm(f"move branch '{name}' {where} and discard uncommitted changes", yes=yes)
    moved = reset(
        repository,
        name,
        to=target.id,
        expected=branch.commit_id,
        is_forced=required is not None,
    )
    context.out.emit(lambda: ref_record(moved), text=lambda: [f"Commit ID: {moved.commit_id}"])
    if required is not None:
        options = PushOptions(who=context.committer(), lease=required)
        was, now = branch.commit_id, moved.commit_id
        pushed = push(
            repository,
            name,
            kind=RefKind.BRANCH,
            options=options,
            is_wanted=lambda position: not is_put_back(repository, was, now, position),
        )
        context.out.note(pushed_line(pushed, dry_run=False))
    elif not repository.syncs and is_shared(repository):
        context.out.hint(
            "the bucket is unchanged; to move the branch there: "
            f"lakecli push --force-with-lease {repository.uri}/{name}"
        )

"""``lakecli diff``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from lakecli.cli.context import Context
from lakecli.cli.differences import stream_differences
from lakecli.cli.exit_codes import ExitCode
from lakecli.cli.params import AtOp, Completes, Kind, Prefix, Reads, RefUri, read_ref
from lakecli.errors import UsageError
from lakecli.uri import LakeUri, ref_of

if TYPE_CHECKING:
    from lakecli.repository.lake import Repository


def diff(
    context: Context,
    left: RefUri,
    right: Annotated[
        LakeUri | None,
        typer.Argument(metavar="REF", help="lakefs://REPOSITORY/REF to compare it with"),
        Reads(read_ref),
        Completes(Kind.REF),
    ] = None,
    *,
    two_way: Annotated[
        bool, typer.Option("--two-way", help="Compare the two refs as they are")
    ] = False,
    prefix: Prefix = "",
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 13 if there are differences")
    ] = False,
    at_op: AtOp = "",
) -> ExitCode:
    """Show what differs, path by path.

    Of one branch: its uncommitted changes. Of two refs: what merging the second into the first
    would change, conflicts included; uncommitted changes do not count. With --two-way: what
    turns the first into the second, and BRANCH$ as the second includes its uncommitted changes.

    Examples:
        lakecli diff lakefs://demo/main
        lakecli diff lakefs://demo/main lakefs://demo/experiment
        lakecli diff --two-way lakefs://demo/v1.0 lakefs://demo/main --prefix raw/
        lakecli diff --exit-code lakefs://demo/main
    """
    from lakecli.repository.diff import diff_refs, diff_uncommitted

    repository = context.repository(left, *([] if right is None else [right]), at_op=at_op)
    path = os.fsencode(prefix)
    if right is None:
        _check_branch(repository, ref_of(left), two_way=two_way)
        headers = [f"Ref: {left}"]
        opened = diff_uncommitted(repository, ref_of(left), prefix=path)
    else:
        headers = [f"Left ref: {left}", f"Right ref: {right}"]
        opened = diff_refs(repository, ref_of(left), ref_of(right), prefix=path, two_way=two_way)
    with opened as differences:
        count = stream_differences(context.out, differences, headers=headers)
    return ExitCode.DIFFERENCES if exit_code and count else ExitCode.OK


def _check_branch(repository: Repository, ref: str, *, two_way: bool) -> None:
    """Refuse what has no uncommitted changes, where the answer could only be empty."""
    from lakecli.repository.rev_parse import rev_parse

    compare = f"compare two refs: lakecli diff {repository.uri}/{ref} {repository.uri}/REF"
    if two_way:
        raise UsageError("--two-way needs two refs", hint=compare)
    if not rev_parse(repository, ref).staging:
        raise UsageError(f"only a branch has uncommitted changes, not {ref!r}", hint=compare)

"""Shared by ``fs cp`` and ``fs mv``: the destination, and the answer."""

from __future__ import annotations

from typing import Annotated

from lakecli.base.uri import LakeUri, path_of, ref_of
from lakecli.cli.context import Context
from lakecli.cli.line.declare import Argument
from lakecli.cli.out.text import quote_path
from lakecli.cli.params import TransferOptions
from lakecli.cli.reading import Kind, Parser, read_branch_prefix
from lakecli.cli.transfers import failure_records, parallelism, progress, raise_failures
from lakecli.errors import UsageError
from lakecli.repository.across import (
    AcrossOptions,
    AcrossReport,
    RepositoryPath,
    cp_across,
    cp_tree_across,
)
from lakecli.repository.staged.stager import UNCHANGED, NewAttributes

TargetUri = Annotated[
    LakeUri,
    Argument(metavar="DEST", help="lakefs://REPOSITORY/BRANCH/[PATH]"),
    Parser(read_branch_prefix, Kind.PATH),
]


def target_of(source: LakeUri, target: LakeUri) -> tuple[bytes, bytes]:
    """Return the old and the new path of an object; in a directory it keeps its name.

    Raises:
        UsageError: one of them is not a valid path of an object.
    """
    before, after = path_of(source, hint="all objects: -r"), target.path or b""
    if not after or after.endswith(b"/"):
        name = before.rpartition(b"/")[2]
        if not name:
            raise UsageError(f"{source} has no file name", hint="give the whole path of DEST")
        after += name
    return before, after


def answer(
    context: Context,
    verb: str,
    source: LakeUri,
    target: LakeUri,
    objects: int,
    *,
    report: AcrossReport | None = None,
) -> None:
    """Answer with the number of objects copied or moved; raise if some failed.

    Raises:
        PartialFailure: some failed.
    """
    failures = [] if report is None else report.failures
    record = {
        "source": str(source),
        "destination": str(target),
        "objects": objects,
        "copied_by_store": 0 if report is None else report.copied_by_store,
        "failed": len(failures),
        "failures": failure_records(failures),
    }
    counted = f" ({objects} objects)" if objects > 1 else ""
    context.out.emit(
        record,
        text=lambda: [f"{verb}: {quote_path(str(source))} to {quote_path(str(target))}{counted}"],
    )
    hint = "all others were copied"
    if verb == "move":
        hint += "; nothing was removed"
    raise_failures(context, failures, verb=verb, hint=hint)


def across(
    context: Context,
    source: LakeUri,
    target: LakeUri,
    *,
    moves: bool,
    recursive: bool,
    transfer: TransferOptions,
    attributes: NewAttributes = UNCHANGED,
) -> None:
    """Copy or move between two repositories, and answer.

    Args:
        context: of the command.
        source: an object, or with `recursive` a directory.
        target: a path of another repository.
        moves: remove the source afterwards.
        recursive: all objects below the source.
        transfer: how to copy.
        attributes: of copies.
    """
    if recursive:
        before, after = source.path or b"", target.path or b""
    else:
        before, after = target_of(source, target)
    origin = RepositoryPath(context.synced_repository(source), ref_of(source), before)
    place = RepositoryPath(context.synced_repository(target), ref_of(target), after)
    verb = "move" if moves else "copy"
    with progress(context, verb, hidden=transfer.no_progress) as shown:
        workers = parallelism(context, place.repository, transfer.workers)
        options = AcrossOptions(workers, shown)
        carry = cp_tree_across if recursive else cp_across
        report = carry(origin, place, attributes=attributes, options=options, moves=moves)
    answer(context, verb, source, target._replace(path=after), report.objects, report=report)

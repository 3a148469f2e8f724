"""``lakecli fs cp`` and ``lakecli fs mv``."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, TypedDict

from lakecli.base.model import Entry
from lakecli.base.uri import LakeUri, path_of, ref_of
from lakecli.cli.commands.transfers import failure_records, raise_failures
from lakecli.cli.context import Context
from lakecli.cli.line import Argument, Kind, flag, option
from lakecli.cli.out.records import FailureJson, answers, pick
from lakecli.cli.out.text import quote_path
from lakecli.cli.params import BranchPathUri, PrefixUri, Recursive, TransferOptions
from lakecli.cli.parsers import read_branch_prefix, read_new_metadata
from lakecli.errors import UsageError
from lakecli.repository.cp import cp, cp_tree
from lakecli.repository.cp_between_repositories import (
    AcrossReport,
    RepositoryPath,
    cp_across,
    cp_tree_across,
)
from lakecli.repository.mv import mv, mv_tree
from lakecli.repository.staged.stager import UNCHANGED, NewAttributes

TargetUri = Annotated[
    LakeUri, Argument("DEST", "lakefs://REPOSITORY/BRANCH/[PATH]", read_branch_prefix, Kind.PATH)
]


class RearrangedJson(TypedDict):
    """The result of a copy or a move.

    Attributes:
        source: URI of the source.
        destination: URI of the destination.
        objects: number of objects copied or moved.
        copied_by_store: between two repositories, number of objects that the store copied itself.
        failed: number of objects that were not copied or moved because of an error.
        failures: the objects that failed, with the reasons.
    """

    source: str
    destination: str
    objects: int
    copied_by_store: int
    failed: int
    failures: Sequence[FailureJson]


@answers(RearrangedJson)
def fs_cp(
    context: Context,
    source: PrefixUri,
    destination: TargetUri,
    *,
    recursive: Recursive = False,
    metadata: Mapping[str, str] | None = option("KEY=VALUE", "--meta", read=read_new_metadata),
    content_type: str | None = option("TYPE"),
    delete: bool = flag(),
    transfer: TransferOptions,
) -> None:
    """Copy an object, or all objects below a path, to a branch of this or another repository.

    The copies are uncommitted changes of the destination branch. PATH may name any ref. Within one
    repository no bytes are copied; the new paths refer to the same objects.

    A copy to another repository copies the bytes, unless it has them already. If both namespaces
    are in the same store, the store copies the bytes itself; only their sizes are compared, and
    fsck --data verifies the contents. Otherwise the bytes are read and verified. Objects that were
    imported in place stay where they are, and both repositories refer to them. Objects of lakeFS
    get a new checksum. If some objects fail, the others are copied, the failures are listed, and
    the exit code is 3.

    If DEST is a whole branch or ends in a slash, an object keeps its own name below DEST. With -r
    the objects below PATH keep their names below DEST. Content type and metadata are those of the
    source, unless --meta or --content-type replaces them.

    With -r and --delete, which need a DEST in the same repository, DEST becomes identical to PATH.
    This restores a directory of a branch from an earlier commit.

    Args:
        metadata: Metadata of the copies; '' for none.
        content_type: Content type of the copies.
        delete: With -r, remove what is below DEST and not below PATH.

    Examples:
        lakecli fs cp lakefs://demo/main/a.csv lakefs://demo/main/archive/
        lakecli fs cp lakefs://demo/main~5/a.csv lakefs://demo/main/a.csv
        lakecli fs cp -r lakefs://demo/v1.0/data/ lakefs://demo/dev/data-v1/
        lakecli fs cp -r --delete lakefs://demo/main~1/data/ lakefs://demo/main/data/
        lakecli fs cp lakefs://demo/main/a.csv lakefs://demo/main/b.csv --meta owner=ada
        lakecli fs cp -r lakefs://demo/main/data/ lakefs://sales/main/demo-data/
    """
    attributes = NewAttributes(content_type, metadata)
    if delete and not (recursive and source.repository == destination.repository):
        raise UsageError(
            "--delete needs -r, and a PATH of the repository of DEST",
            hint="leave out --delete" if recursive else "add -r",
        )
    act: Callable[..., Entry | int] = partial(cp_tree, delete=delete) if recursive else cp
    act = partial(act, attributes=attributes, source_ref=ref_of(source))
    _rearrange(
        context, source, destination, act, transfer, recursive=recursive, attributes=attributes
    )


@answers(RearrangedJson)
def fs_mv(
    context: Context,
    source: BranchPathUri,
    destination: TargetUri,
    *,
    recursive: Recursive = False,
    transfer: TransferOptions,
) -> None:
    """Move an object, or all objects below a path, to a branch of this or another repository.

    The new paths and the removal of the old ones are uncommitted changes. Within one repository no
    bytes are copied.

    A move to another repository copies the objects as fs cp does, and removes them once all copies
    are staged; if a copy fails, nothing is removed. After an interruption, the objects are still at
    PATH; the same command continues the move. `undo` reverses the changes of one repository at a
    time.

    If DEST is a whole branch or ends in a slash, an object keeps its own name below DEST. With -r
    the objects below PATH keep their names below DEST.

    Examples:
        lakecli fs mv lakefs://demo/main/a.csv lakefs://demo/main/b.csv
        lakecli fs mv -r lakefs://demo/main/incoming/ lakefs://demo/main/data/2026/
        lakecli fs mv -r lakefs://demo/main/orders/ lakefs://sales/main/orders/
    """
    act: Callable[..., Entry | int] = mv_tree if recursive else mv
    act = partial(act, source_branch=ref_of(source))
    _rearrange(context, source, destination, act, transfer, recursive=recursive, moves=True)


def _rearrange(
    context: Context,
    source: LakeUri,
    target: LakeUri,
    act: Callable[..., Entry | int],
    transfer: TransferOptions,
    *,
    recursive: bool,
    attributes: NewAttributes = UNCHANGED,
    moves: bool = False,
) -> None:
    """Copy or move objects within a repository or to another one, and report the result.

    Args:
        act: the function that copies or moves objects within a repository.
        attributes: the attributes of copies in another repository.
        moves: whether the old objects are removed.

    Raises:
        PartialFailure: some objects failed.
    """
    verb = "move" if moves else "copy"
    if source.repository == target.repository:
        repository = context.synced_repository(source, target)
        before, after = paths_of(source, target, recursive=recursive)
        made = act(repository, source=before, branch=ref_of(target), path=after)
        report = AcrossReport(made if isinstance(made, int) else 1)
    else:
        before, after = paths_of(source, target, recursive=recursive)
        origin = RepositoryPath(context.synced_repository(source), ref_of(source), before)
        place = RepositoryPath(context.synced_repository(target), ref_of(target), after)
        with context.out.progress(verb, hidden=transfer.no_progress) as shown:
            report = (cp_tree_across if recursive else cp_across)(
                origin,
                place,
                attributes=attributes,
                parallelism=context.parallelism(place.repository, transfer.workers),
                progress=shown,
                moves=moves,
            )
    target, objects = target._replace(path=after), report.objects
    record = pick(
        RearrangedJson,
        report,
        source=str(source),
        destination=str(target),
        failed=len(report.failures),
        failures=failure_records(report.failures),
    )
    counted = f" ({objects} objects)" if objects > 1 else ""
    line = f"{verb}: {quote_path(str(source))} to {quote_path(str(target))}{counted}"
    context.out.emit(record, text=lambda: [line])
    hint = "all others were copied" + ("; nothing was removed" if moves else "")
    raise_failures(context, report.failures, verb=verb, hint=hint)


def paths_of(source: LakeUri, target: LakeUri, *, recursive: bool) -> tuple[bytes, bytes]:
    """Return the old and the new path; an object that is copied to a directory keeps its name.

    Raises:
        UsageError: the old or the new path is not a valid path of an object.
    """
    if recursive:
        return source.path or b"", target.path or b""
    before, after = path_of(source, hint="all objects: -r"), target.path or b""
    if not after or after.endswith(b"/"):
        name = before.rpartition(b"/")[2]
        if not name:
            raise UsageError(f"{source} has no file name", hint="give the whole path of DEST")
        after += name
    return before, after

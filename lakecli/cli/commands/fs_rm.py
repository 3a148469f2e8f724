"""``lakecli fs rm``: remove objects from a branch."""

from collections.abc import Sequence
from shlex import quote
from typing import NotRequired, TypedDict

from lakecli.base.uri import LakeUri, as_directory, check_path, path_of, ref_of
from lakecli.cli.commands.names_from_file import NamesOptions, read_names
from lakecli.cli.commands.transfers import listed_in
from lakecli.cli.context import Context
from lakecli.cli.line import flag, option
from lakecli.cli.out.records import answers
from lakecli.cli.out.text import human_size
from lakecli.cli.params import BranchPathUris, DryRun, Recursive
from lakecli.errors import Refused, UsageError
from lakecli.repository.contract import Repository
from lakecli.repository.rm import find_nearest, is_directory, rm_paths, rm_trees
from lakecli.repository.transfer.plan import PathAction, PlanTotals


class RemovedJson(TypedDict):
    """The result of a removal.

    Attributes:
        removed: number of removed objects.
    """

    removed: int


class RemovalPlanJson(TypedDict):
    """An object that a removal would delete; the last JSON object has the totals.

    Attributes:
        action: deleted; total in the last object.
        path: path of the object; null in the total.
        size: size in bytes; in the total, size of all objects.
        objects: in the total, number of objects that would be deleted.
    """

    action: str
    path: bytes | str | None
    size: int
    objects: NotRequired[int]


@answers(RemovedJson)
@answers(RemovalPlanJson, each=True, option="--dry-run")
def fs_rm(
    context: Context,
    paths: BranchPathUris,
    *,
    recursive: Recursive = False,
    must_exist: bool = flag(),
    names: NamesOptions,
    dry_run: DryRun = False,
    _concurrency: int = option(None, "--concurrency", "-C", default=1, min=1, hidden=True),
) -> None:
    """Remove objects from a branch; with -r, all objects at and below the paths.

    The removal is an uncommitted change; earlier commits keep the objects. With -r, the path data
    stands for data and everything below data/, but not for data.csv. If there is nothing to remove,
    a note says so and names the nearest path, and the exit code is 0, as with lakectl; with
    --must-exist it is 6, and nothing is removed. Without -r, a directory that is written with a
    slash is refused.

    --files-from FILE removes the objects that FILE names, relative to PATH.

    --dry-run lists every object that would be removed; with --json it prints one object for each,
    and the totals in the last one.

    Args:
        must_exist: Remove nothing and exit with 6 if a path has no object.

    Examples:
        lakecli fs rm lakefs://demo/main/reports/2025.csv lakefs://demo/main/reports/2024.csv
        lakecli fs rm -r lakefs://demo/main/data/2025/ --dry-run
        lakecli fs rm --files-from old.txt lakefs://demo/main/data/
    """
    listed = read_names(context, names)
    if listed is not None and (recursive or len(paths) > 1):
        raise UsageError("--files-from takes one PATH and no -r")
    first, *others = paths
    if any(ref_of(other) != ref_of(first) for other in others):
        raise UsageError("the paths are not of the same branch", hint="run one command for each")
    targets = _targets(paths, listed, recursive=recursive)
    repository, branch = context.synced_repository(*paths), ref_of(first)
    if dry_run:
        plan = PlanTotals()
        remove = rm_trees if recursive else rm_paths
        remove(repository, branch, targets, must_exist=must_exist, listed=listed_in(context, plan))
        deleted = plan.tallies[PathAction.DELETED]
        total = f"Objects: {deleted.count} ({human_size(deleted.size)})"
        context.out.emit(
            {"action": "total", "path": None, "objects": deleted.count, "size": deleted.size},
            text=lambda: ["", "Dry run, nothing was removed:", "", total],
        )
        return
    if recursive:
        removed = rm_trees(repository, branch, targets, must_exist=must_exist)
        if removed:
            context.out.note(f"removed {removed} object{'s' if removed > 1 else ''}")
        else:
            context.out.note(f"nothing was removed: no object at {first}")
    else:
        absent = rm_paths(repository, branch, targets, must_exist=must_exist)
        removed = len(set(targets)) - len(absent)
        _note_absent(context, repository, first, absent)
    context.out.emit({"removed": removed})


def _targets(paths: list[LakeUri], listed: list[bytes] | None, *, recursive: bool) -> list[bytes]:
    """Return the paths to remove.

    Args:
        paths: the paths on the command line.
        listed: the names from ``--files-from``, relative to the only path in `paths`; ``None``
            without this option.
    """
    if listed is None:
        if recursive:
            return [path.path or b"" for path in paths]
        return [path_of(path, hint="for all objects, add -r") for path in paths]
    below = as_directory(paths[0].path or b"")
    targets = [below + name for name in listed]
    for target in targets:
        check_path(target)
    return targets


def _note_absent(
    context: Context, repository: Repository, uri: LakeUri, absent: Sequence[bytes]
) -> None:
    for path in absent:
        context.out.note(f"nothing was removed: no object at {uri._replace(path=path)}")
    for path in absent[:1]:
        there = quote(str(uri._replace(path=path)))
        if is_directory(repository, ref_of(uri), path):
            hint = f"all objects below it: `fs rm -r {there}`"
            if path.endswith(b"/"):
                raise Refused(f"a directory: {there}", hint=hint)
            context.out.hint(hint)
        elif (near := find_nearest(repository, ref_of(uri), path)) is not None:
            context.out.hint(f"did you mean {quote(str(uri._replace(path=near)))}?")

"""``lakecli fs rm``."""

from __future__ import annotations

from typing import Annotated

from lakecli.cli.context import Context
from lakecli.cli.declare import Option
from lakecli.cli.params import BranchPathUri, DryRun, Recursive
from lakecli.cli.text import human_size
from lakecli.cli.transfers import check_dry_run
from lakecli.uri import path_of, ref_of


def fs_rm(
    context: Context,
    path: BranchPathUri,
    *,
    recursive: Recursive = False,
    dry_run: DryRun = False,
    concurrency: Annotated[
        int,
        Option(
            "--concurrency",
            "-C",
            min=1,
            hidden=True,
            help="Accepted for lakectl compatibility; has no effect",
        ),
    ] = 1,
) -> None:
    """Remove an object from a branch, or all objects at and below a path.

    The removal is an uncommitted change; earlier commits keep the object. With -r, data removes
    data and everything below data/, but not data.csv. If there is nothing to remove, a note says so
    and the exit code is 0.

    Examples:
        lakecli fs rm lakefs://demo/main/reports/2025.csv
        lakecli fs rm -r lakefs://demo/main/data/2025/ --dry-run
    """
    del concurrency
    check_dry_run(dry_run, recursive=recursive)
    from lakecli.repository.rm import is_directory, measure_tree, rm, rm_tree

    target = path.path or b"" if recursive else path_of(path, hint="all objects: -r")
    repository = context.synced_repository(path)
    if dry_run:
        count, size = measure_tree(repository, ref_of(path), target)
        context.out.emit(
            {"objects": count, "size": size},
            text=lambda: [
                "Dry run, nothing was removed:",
                "",
                f"Objects: {count} ({human_size(size)})",
            ],
        )
        return
    branch = ref_of(path)
    if recursive:
        removed = rm_tree(repository, branch, target)
    else:
        removed = int(rm(repository, branch, target))
    if not removed:
        context.out.note(f"nothing was removed: no object at {path}")
        if not recursive and is_directory(repository, branch, target):
            context.out.hint("to remove all objects below it: -r")
    elif recursive:
        context.out.note(f"removed {removed} object{'s' if removed > 1 else ''}")
    context.out.emit({"removed": removed})

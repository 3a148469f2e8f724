"""Shared by commands: compare a working directory, bring it to a ref, restore its files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from lakecli.base.progress import Progress
from lakecli.base.uri import LakeUri
from lakecli.cli.context import Context
from lakecli.cli.differences import show_counts, stream_differences, stream_paths
from lakecli.cli.here import relative_path
from lakecli.cli.params import TransferOptions
from lakecli.cli.transfers import progress
from lakecli.cli.worktrees import (
    COLUMNS,
    answer_synced,
    change_record,
    change_row,
    change_style,
    downloads,
    linking,
    say_compared,
    tell_brought,
    warn_of_state,
)
from lakecli.repository.contract import Repository
from lakecli.repository.reading.view import commit_at
from lakecli.worktree.bring import Policy, bring, restore
from lakecli.worktree.create import link_target
from lakecli.worktree.ignore import selection_of
from lakecli.worktree.link import Link, find_linked
from lakecli.worktree.status import differences, status
from lakecli.worktree.worktree import Worktree, not_linked


def show_status(
    context: Context,
    worktree: Worktree,
    *,
    local: bool = False,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> None:
    """Answer with what has changed in a working directory and on its ref."""
    found = status(worktree, local=local, selection=selection_of(include, exclude))
    say_compared(context, worktree, local=local)
    if not found.items:
        context.out.say("No diff found.")
    if found.items or context.out.json:
        context.out.table(
            COLUMNS, found.items, row=change_row, record=change_record, style=change_style
        )
    warn_of_state(context, worktree, found)


def show_diff(
    context: Context,
    worktree: Worktree,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    paths: Sequence[bytes] = (),
    prefix: bytes = b"",
    depth: int | None = None,
    names: bool = False,
    null: bool = False,
) -> int:
    """Answer with what has changed in a working directory, and return the number of paths.

    Args:
        context: of the command.
        worktree: the working directory.
        include: patterns of the files to compare.
        exclude: patterns of files not to compare.
        paths: files and directories, relative to the working directory; none for all.
        prefix: with which the paths to compare begin.
        depth: answer with counts by prefixes of so many directories; ``None`` for the paths.
        names: answer with the paths alone.
        null: end each path by NUL.
    """
    found = status(worktree, local=True, selection=selection_of(include, exclude))
    items = [
        item
        for item in found.items
        if item.path.startswith(prefix) and (not paths or _is_below(item.path, paths))
    ]
    changes = differences(worktree, items, has_values=context.out.json or depth is not None)
    if names:
        return stream_paths(context.out, changes, null=null)
    context.out.say(f"Left: {worktree.link.at_head or 'nothing'}", f"Right: {worktree.root}")
    if depth is None:
        count = stream_differences(context.out, changes)
    else:
        count = show_counts(context.out, changes, depth=depth)
    warn_of_state(context, worktree, found)
    return count


def _is_below(path: bytes, places: Sequence[bytes]) -> bool:
    return any(
        not place or path == place or path.startswith(place.rstrip(b"/") + b"/") for place in places
    )


def pull_worktree(
    context: Context, worktree: Worktree, *, force: bool, transfer: TransferOptions
) -> None:
    """Bring a working directory to what its ref is now, and answer with what was done."""
    policy = Policy.FORCE if force else Policy.KEEP
    with worktree.locked(), _progress(context, "pull", transfer) as shown:
        worktree.follow_back()
        options = replace(downloads(context, worktree.repository, transfer.workers), progress=shown)
        brought = bring(worktree, worktree.head(), operation="pull", policy=policy, options=options)
    if not (brought.failures or brought.conflicts):
        context.out.say("", "Successfully synced changes!")
    answer_synced(context, worktree, brought, "Pull")


def bring_along(context: Context, repository: Repository, root: Path, link: Link) -> None:
    """Bring a working directory to its branch, which a pull has moved.

    Raises:
        PartialFailure: some objects could not be downloaded.
        WorktreeConflict: files were changed both here and there.
    """
    worktree = Worktree(repository, root, link, linking=linking(context, repository))
    with worktree.locked(), context.out.progress("pull") as shown:
        worktree.follow_back()
        options = replace(downloads(context, repository, None), progress=shown)
        brought = bring(
            worktree, worktree.head(), operation="pull", policy=Policy.KEEP, options=options
        )
    if brought.downloaded or brought.removed:
        context.out.note(f"{root}: written: {brought.downloaded}, removed: {brought.removed}")
    tell_brought(context, worktree, brought)


def checkout_worktree(
    context: Context,
    worktree: Worktree,
    *,
    ref: str,
    discard: bool,
    transfer: TransferOptions,
    force: bool = False,
    yes: bool = False,
) -> None:
    """Bring a working directory to another ref, and answer with what was done.

    Args:
        context: of the command.
        worktree: the working directory.
        ref: the ref; ``""``: the commit that the directory is at.
        discard: undo all changes of the directory, after a question.
        transfer: how to download.
        force: overwrite changed files that the ref has otherwise.
        yes: do not ask.
    """
    policy = Policy.REFUSE
    if discard or force:
        policy = Policy.DISCARD if discard else Policy.FORCE
    repository = worktree.repository
    with worktree.locked():
        worktree.follow_back()
        link = worktree.link
        src = link.src
        if ref:
            uri = LakeUri(link.src.repository, ref, link.prefix)
            src, target = link_target(repository, uri)
        elif link.at_head is None:
            target = worktree.head()
        else:
            target = worktree.commit(link.at_head)
        if discard and worktree.scan().changes and not yes:
            context.out.note("Uncommitted changes exist, the operation will revert all of them.")
            context.confirm(f"revert all changes in {worktree.root}", yes=yes)
        with _progress(context, "checkout", transfer) as shown:
            options = replace(downloads(context, repository, transfer.workers), progress=shown)
            brought = bring(
                worktree, target, operation="checkout", policy=policy, options=options, src=src
            )
    answer_synced(context, worktree, brought, "Checkout")


def restore_files(
    context: Context,
    worktree: Worktree,
    files: Sequence[str],
    *,
    source: str,
    transfer: TransferOptions,
) -> None:
    """Give files of a working directory their committed contents, and answer with what was done."""
    repository = worktree.repository
    commit = None
    if source:
        with repository.lake.kv.read() as txn:
            commit = commit_at(repository, txn, source)
    paths = [relative_path(worktree.root, file) for file in files]
    with _progress(context, "restore", transfer) as shown:
        options = replace(downloads(context, repository, transfer.workers), progress=shown)
        brought = restore(worktree, paths, source=commit, options=options)
    answer_synced(context, worktree, brought, "Restore")


def linked_below(directory: Path, trust: Sequence[str]) -> list[Path]:
    """Return the linked directories below a directory.

    Raises:
        NotFound: there are none.
    """
    found = [directory / each.directory for each in find_linked(directory, trust=trust)]
    if not found:
        raise not_linked(directory)
    return found


def _progress(
    context: Context, verb: str, transfer: TransferOptions
) -> AbstractContextManager[Progress]:
    return progress(context, verb, hidden=transfer.no_progress)

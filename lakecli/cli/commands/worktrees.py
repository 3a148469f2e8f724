"""Functions shared by commands about linked directories: opening and comparing them."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from lakecli.base.model import CommitId
from lakecli.cli.commands.differences import LOOKS, show_counts, stream_differences, stream_paths
from lakecli.cli.context import Context
from lakecli.cli.option_groups import LinkOptions
from lakecli.cli.out.records import FailureJson
from lakecli.cli.out.text import quote_path, shell_word
from lakecli.cli.parsers import absolute
from lakecli.repository.contract import Repository
from lakecli.repository.transfer.ignore_patterns import EVERYTHING, Selection
from lakecli.repository.transfer.walk import LinkPolicy
from lakecli.settings.keys import HARDLINK_ROOT
from lakecli.stores.uri import is_local
from lakecli.worktree.checkout import RESOLVE
from lakecli.worktree.link import Link, find_root, read_link
from lakecli.worktree.status import ChangedPath, Status, differences, status
from lakecli.worktree.worktree import LinkMode, Worktree, not_linked


class SyncedJson(TypedDict):
    """The result of checking out a commit in a working directory.

    Attributes:
        directory: absolute path of the directory.
        uri: URI with which the directory is linked.
        commit_id: the commit that was checked out.
        downloaded: number of files written.
        removed: number of files removed.
        size: total size of the written files in bytes.
        kept: number of changed files that were overwritten or removed on request; undo restores
            them.
        conflicts: paths of files that were not replaced, although the commit has other contents.
        impossible: objects that cannot be files on this machine, with the reasons.
        left_out: paths that were left out because Git, lakecli or the operating system reserves
            their names.
        failures: objects that could not be downloaded, with the reasons.
    """

    directory: Path
    uri: str
    commit_id: CommitId
    downloaded: int
    removed: int
    size: int
    kept: int
    conflicts: Sequence[bytes | str]
    impossible: Sequence[FailureJson]
    left_out: Sequence[bytes | str]
    failures: Sequence[FailureJson]


class LocalCommitJson(TypedDict):
    """A commit of a working directory.

    The other fields are those of `Commit`.

    Attributes:
        uploaded: number of files that were added or changed.
        removed: number of files that were removed.
        downloaded: number of files written, because others had changed them on the branch.
    """

    uploaded: int
    removed: int
    downloaded: int


def find_worktree(
    context: Context, directory: str = ".", *, otherwise: str = ""
) -> tuple[Path, Link]:
    """Return the linked directory that is `directory` or contains it, and its link.

    Raises:
        NotFound: there is no linked directory. The hint contains `otherwise`; see `not_linked`.
    """
    root = find_root(absolute(directory))
    link = None if root is None else read_link(root, trust=context.settings.local_trust)
    if root is None or link is None:
        raise not_linked(absolute(directory), otherwise)
    return root, link


def open_worktree(
    context: Context, directory: str = ".", *, links: LinkOptions | None = None, otherwise: str = ""
) -> Worktree:
    """Open the linked directory that is `directory` or contains it.

    Raises:
        NotFound: there is no linked directory (see `find_worktree`), or its repository is not on
            this machine.
    """
    root, link = find_worktree(context, directory, otherwise=otherwise)
    policy = LinkPolicy.FAIL if links is None else links.policy()
    repository = context.synced_repository(link.src)
    return Worktree(repository, root, link, links=policy, linking=linking(context, repository))


def linking(context: Context, repository: Repository) -> LinkMode:
    """Return how files are created from objects: as copies or as links.

    For root, hard links must be allowed in the settings.
    """
    if not is_local(repository.record.storage_namespace):
        return LinkMode.COPY
    chosen = context.settings.local_link
    if chosen == HARDLINK_ROOT:
        return LinkMode.HARDLINK
    mode = LinkMode(chosen)
    return LinkMode.AUTO if mode is LinkMode.HARDLINK and os.geteuid() == 0 else mode


# -- status ----------------------------------------------------------------------------------


def compare(repository: Repository, root: Path, link: Link) -> tuple[Worktree, Status]:
    """Compare a working directory with the commit of its last sync, and with its ref."""
    worktree = Worktree(repository, root, link)
    return worktree, status(worktree, local=False, selection=EVERYTHING)


def _change_row(item: ChangedPath) -> tuple[str, str, str]:
    _, _, change = LOOKS[item.change][0].partition(" ")
    return item.source, change, quote_path(item.path)


def show_changes(context: Context, worktree: Worktree, found: Status, *, nothing: str) -> None:
    """Print the changed paths, or `nothing` if there are none; then call `warn_of_state`."""
    if not found.items:
        context.out.say(nothing)
    if found.items or context.out.json:
        context.out.table(
            ("Source", "Change", "Path"),
            found.items,
            row=_change_row,
            kept=("Path",),
            style=lambda item: LOOKS[item.change][1],  # as of the same change in a diff
        )
    warn_of_state(context, worktree, found)


def warn_of_state(context: Context, worktree: Worktree, found: Status) -> None:
    """Warn of an interrupted command, of conflicts, and of files that are not compared."""
    link = worktree.link
    if link.include or link.exclude:
        patterns = [f"--include {shell_word(each)}" for each in link.include]
        patterns += [f"--exclude {shell_word(each)}" for each in link.exclude]
        context.out.note(f"sparse: only the files of {' '.join(patterns)} are compared")
    if link.active:
        context.out.warn(f"a {link.active} was interrupted in {worktree.root}")
        context.out.hint("go on: lakecli local pull")
    for problem in found.problems:
        context.out.warn(f"{quote_path(problem.path)}: {problem.reason}")
    if any(item.is_conflict for item in found.items):
        context.out.hint(RESOLVE)


def show_diff(
    context: Context,
    worktree: Worktree,
    *,
    selection: Selection = EVERYTHING,
    paths: Sequence[bytes] = (),
    prefix: bytes = b"",
    depth: int | None = None,
    names: bool = False,
    null: bool = False,
) -> int:
    """Print the changes in a working directory, and return the number of changed paths.

    Args:
        paths: the files and directories to compare, relative to the working directory; empty for
            all.
        prefix: the prefix of the paths to compare.
        depth: count changes by prefixes of this many directories; ``None`` lists the paths instead.
    """
    found = status(worktree, local=True, selection=selection)
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

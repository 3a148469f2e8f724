"""Shared by commands about linked directories: opening, comparing, bringing and committing one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

from lakecli.base.model import ChangeType, CommitId
from lakecli.base.uri import LakeUri
from lakecli.cli.commands.differences import LOOKS, show_counts, stream_differences, stream_paths
from lakecli.cli.commands.transfers import (
    failure_records,
    link_policy,
    note_left_out,
    parallelism,
    raise_failures,
    summary_lines,
)
from lakecli.cli.context import Context
from lakecli.cli.option_groups import LinkOptions, TransferOptions
from lakecli.cli.out.records import CommitJson, FailureJson, LocalChangeJson, commit_record, pick
from lakecli.cli.out.text import commit_lines, quote_path, shell_word
from lakecli.cli.parsers import absolute, check_message
from lakecli.repository.contract import Repository
from lakecli.repository.download import DownloadOptions
from lakecli.repository.transfer.gitignore_patterns import EVERYTHING, Selection
from lakecli.repository.transfer.walk import LinkPolicy
from lakecli.repository.upload import UploadOptions
from lakecli.settings.keys import HARDLINK_ROOT
from lakecli.stores.uri import is_local
from lakecli.worktree.checkout import MAX_LISTED, Brought, Policy, WorktreeConflict, bring
from lakecli.worktree.commit import CommitOptions, Committed, commit
from lakecli.worktree.create import link_target
from lakecli.worktree.git import commit_metadata, find_git
from lakecli.worktree.link import Link, find_root, read_link
from lakecli.worktree.status import ChangedPath, Status, differences, status
from lakecli.worktree.worktree import LinkMode, Worktree, not_linked


class SyncedJson(TypedDict):
    """A working directory that was brought to a commit.

    Attributes:
        directory: absolute path of the directory.
        uri: URI that it is linked with.
        commit_id: the commit.
        downloaded: number of files written.
        removed: number of files removed.
        size: bytes of the files written.
        kept: number of files that were overwritten or removed on request; undo brings them back.
        conflicts: paths of files that stay as they are although the commit has another.
        impossible: objects that cannot be files here, and the reasons.
        left_out: paths left out because Git, lakecli or the system itself uses their names.
        failures: objects that could not be downloaded.
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


class LocalCommitJson(CommitJson):
    """A commit of a working directory.

    The other fields are those of `CommitJson`.

    Attributes:
        uploaded: number of files that were added or changed.
        removed: number of files that were removed.
        downloaded: number of files that others have changed, now written here.
    """

    uploaded: int
    removed: int
    downloaded: int


def find_worktree(context: Context, directory: str = ".") -> tuple[Path, Link]:
    """Return the linked directory that a directory is or lies in, and its link.

    Raises:
        NotFound: there is none.
    """
    root = find_root(absolute(directory))
    link = None if root is None else read_link(root, trust=context.settings.local_trust)
    if root is None or link is None:
        raise not_linked(absolute(directory))
    return root, link


def open_worktree(
    context: Context, directory: str = ".", *, links: LinkOptions | None = None
) -> Worktree:
    """Open the linked directory that a directory is or lies in.

    Raises:
        NotFound: there is none, or its repository is not on this machine.
    """
    root, link = find_worktree(context, directory)
    policy = LinkPolicy.FAIL if links is None else link_policy(links)
    repository = context.synced_repository(link.src)
    return Worktree(repository, root, link, links=policy, linking=linking(context, repository))


def linking(context: Context, repository: Repository) -> LinkMode:
    """Return how files come from the namespace of a repository; root gets no hard links."""
    if not is_local(repository.record.storage_namespace):
        return LinkMode.COPY
    chosen = context.settings.local_link
    if chosen == HARDLINK_ROOT:
        return LinkMode.HARDLINK
    mode = LinkMode(chosen)
    return LinkMode.AUTO if mode is LinkMode.HARDLINK and os.geteuid() == 0 else mode


@contextmanager
def downloading(
    context: Context, repository: Repository, verb: str, transfer: TransferOptions | None = None
) -> Iterator[DownloadOptions]:
    """Give the options of the downloads of a working directory, and show their progress."""
    transfer = transfer or TransferOptions()
    with context.out.progress(verb, hidden=transfer.no_progress) as shown:
        workers = parallelism(context, repository, transfer.workers)
        yield DownloadOptions(parallelism=workers, progress=shown)


# -- status ----------------------------------------------------------------------------------


def compare(repository: Repository, root: Path, link: Link) -> tuple[Worktree, Status]:
    """Compare a working directory with its base and its ref."""
    worktree = Worktree(repository, root, link)
    return worktree, status(worktree, local=False, selection=EVERYTHING)


def source_of(item: ChangedPath) -> str:
    """Return where a path has changed: ``local``, ``remote`` or ``both``."""
    if item.here is None:
        return "remote"
    return "local" if item.there is None and not item.is_conflict else "both"


def change_of(item: ChangedPath) -> ChangeType:
    """Return how a path has changed."""
    if item.is_conflict:
        return ChangeType.CONFLICT
    change = item.here or item.there
    assert change is not None
    return change


def change_record(item: ChangedPath) -> LocalChangeJson:
    """Return the JSON answer about a path."""
    return pick(LocalChangeJson, item, source=source_of(item), change=change_of(item))


def _change_row(item: ChangedPath) -> tuple[str, str, str]:
    _, _, change = LOOKS[change_of(item)][0].partition(" ")
    return source_of(item), change, quote_path(item.path)


def show_changes(context: Context, worktree: Worktree, found: Status, *, nothing: str) -> None:
    """Write the changed paths, or that there are none, and what `warn_of_state` warns of."""
    if not found.items:
        context.out.say(nothing)
    if found.items or context.out.json:
        context.out.table(
            ("Source", "Change", "Path"),
            found.items,
            row=_change_row,
            record=change_record,
            style=lambda item: LOOKS[change_of(item)][1],  # as of the same change in a diff
        )
    warn_of_state(context, worktree, found)


def warn_of_state(context: Context, worktree: Worktree, found: Status) -> None:
    """Warn of what is unfinished, and of files that are not or cannot be compared."""
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
        context.out.hint(
            "resolve conflicts: take the branch's file with lakecli restore FILE, or commit the "
            "directory's with lakecli local commit --ours"
        )


# -- bringing to a commit --------------------------------------------------------------------


def answer_synced(context: Context, worktree: Worktree, brought: Brought, operation: str) -> None:
    """Answer with what bringing a working directory to a commit did.

    Raises:
        PartialFailure: some objects could not be downloaded.
        WorktreeConflict: files were changed both here and there.
    """
    record = pick(
        SyncedJson,
        brought,
        directory=worktree.root,
        uri=str(worktree.link.src),
        commit_id=brought.commit.id,
        impossible=failure_records(brought.impossible),
        failures=failure_records(brought.failures),
    )
    context.out.emit(
        record,
        text=lambda: summary_lines(
            operation, downloaded=brought.downloaded, removed=brought.removed
        ),
    )
    tell_brought(context, worktree, brought)


def tell_brought(context: Context, worktree: Worktree, brought: Brought) -> None:
    """Say what bringing a working directory to a commit has left, and whether files are read-only.

    Raises:
        PartialFailure: some objects could not be downloaded.
        WorktreeConflict: files were changed both here and there.
    """
    if brought.downloaded and worktree.linking == "hardlink":
        context.out.note(
            "the files are read-only: they are hard links to objects of the repository; to change "
            "one, replace it by a copy"
        )
    elif brought.downloaded and context.settings.local_link == "hardlink" and os.geteuid() == 0:
        context.out.note(
            "the files are no hard links: root could write through them to the repository; to link "
            f"anyway: lakecli config set local.link {HARDLINK_ROOT}"
        )
    note_left_out(context, brought.left_out)
    for path, why in brought.impossible:
        context.out.warn(f"{quote_path(path)} cannot be a file here, and is left out: {why}")
    if brought.kept:
        kept = f"{brought.kept} changed files were" if brought.kept > 1 else "a changed file was"
        context.out.note(
            f"{kept} overwritten; to bring back: lakecli undo {worktree.repository.uri}"
        )
    raise_failures(
        context,
        brought.failures,
        verb="download",
        hint="all others were downloaded; go on: lakecli local pull",
    )
    raise_conflicts(worktree, brought.conflicts)


def raise_conflicts(worktree: Worktree, conflicts: Sequence[bytes]) -> None:
    """Raise if files were changed both here and there.

    Raises:
        WorktreeConflict: listing them.
    """
    if not conflicts:
        return

    count = f"{len(conflicts)} files were" if conflicts[1:] else "a file was"
    raise WorktreeConflict(
        f"conflict: {count} changed both in {worktree.root} and on {worktree.link.ref}; the "
        "directory's version stays",
        hint="take the branch's file: lakecli restore FILE; or commit the directory's: lakecli "
        "local commit --ours",
        paths=conflicts[:MAX_LISTED],
    )


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
    """Answer with what has changed in a working directory, and return the number of paths.

    Args:
        context: of the command.
        worktree: the working directory.
        selection: the files to compare.
        paths: files and directories, relative to the working directory; none for all.
        prefix: with which the paths to compare begin.
        depth: answer with counts by prefixes of so many directories; ``None`` for the paths.
        names: answer with the paths alone.
        null: end each path by NUL.
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


def pull_worktree(
    context: Context, worktree: Worktree, policy: Policy, transfer: TransferOptions | None = None
) -> Brought:
    """Bring a working directory to what its ref is now."""
    with (
        worktree.locked(),
        downloading(context, worktree.repository, "pull", transfer) as options,
    ):
        worktree.follow_back()
        return bring(worktree, worktree.head(), operation="pull", policy=policy, options=options)


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
        with downloading(context, repository, "checkout", transfer) as options:
            brought = bring(
                worktree, target, operation="checkout", policy=policy, options=options, src=src
            )
    answer_synced(context, worktree, brought, "Checkout")


def commit_worktree(
    context: Context,
    worktree: Worktree,
    *,
    message: str,
    allow_empty_message: bool,
    metadata: Mapping[str, str],
    transfer: TransferOptions | None = None,
    selection: Selection = EVERYTHING,
    ours: bool = False,
    is_plain: bool = False,
) -> None:
    """Commit a working directory, and answer with the commit.

    Without changes this says so, as lakectl does. With `is_plain` the answer is the record of
    `commit`.
    """
    check_message(message, allow_empty=allow_empty_message)

    context.out.say("", f"Getting branch: {worktree.link.ref}")
    git = find_git(worktree.root, context.environ)
    found = {} if git is None else commit_metadata(git, host="lakecli")
    with downloading(context, worktree.repository, "commit", transfer) as options:
        made = commit(
            worktree,
            CommitOptions(
                message=message,
                committer=context.committer(),
                metadata={**found, **metadata},
                selection=selection,
                ours=ours,
                uploading=UploadOptions(
                    links=worktree.links,
                    parallelism=options.parallelism,
                    progress=options.progress,
                ),
                downloading=DownloadOptions(parallelism=options.parallelism),
            ),
        )
    context.out.emit(
        commit_record(made.commit)
        if is_plain
        else pick(LocalCommitJson, made, made.commit, downloaded=made.brought.downloaded),
        text=lambda: _lines(made, branch=worktree.link.ref),
    )
    raise_failures(
        context, made.left, verb="commit", hint="all others were committed; commit again"
    )
    raise_conflicts(worktree, made.brought.conflicts)


def _lines(made: Committed, *, branch: str) -> Iterator[str]:
    yield from summary_lines(
        "Sync",
        downloaded=made.brought.downloaded,
        uploaded=made.uploaded,
        removed=made.removed,
    )
    yield "Finished syncing changes. Perform commit on branch..."
    yield from commit_lines(made.commit, branch=branch)

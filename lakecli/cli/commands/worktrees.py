"""Functions shared by commands about linked directories: opening, comparing, checkouts, commits."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

from lakecli.base.model import CommitId
from lakecli.base.uri import LakeUri
from lakecli.cli.commands import transfers
from lakecli.cli.commands.differences import LOOKS, show_counts, stream_differences, stream_paths
from lakecli.cli.context import Context
from lakecli.cli.out.records import FailureJson, fields_of, pick
from lakecli.cli.out.text import commit_lines, quote_path, shell_word
from lakecli.cli.params import LinkOptions, TransferOptions
from lakecli.cli.parsers import absolute
from lakecli.errors import LakeError, is_interrupt
from lakecli.repository.contract import Repository
from lakecli.repository.download import DownloadOptions
from lakecli.repository.transfer.ignore_patterns import EVERYTHING, Selection
from lakecli.repository.transfer.walk import LinkPolicy
from lakecli.repository.upload import UploadOptions
from lakecli.settings.keys import HARDLINK_ROOT
from lakecli.stores.uri import is_local
from lakecli.worktree import checkout
from lakecli.worktree.commit import CommitOptions, Committed, commit
from lakecli.worktree.create import link_target
from lakecli.worktree.git import commit_metadata, find_git
from lakecli.worktree.link import Link, find_root, read_link
from lakecli.worktree.scan import is_below
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
    """Return how files of a working directory are created from objects: as copies or as links.

    If the namespace is not on this machine, files are copies. Root could write through a hard link
    into the repository, so root gets hard links only if the setting is ``hardlink-root``.
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
        context.out.hint(checkout.RESOLVE)


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
        if item.path.startswith(prefix) and (not paths or is_below(item.path, paths))
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


# -- checkouts and commits ----------------------------------------------------------------------


@contextmanager
def downloading(
    context: Context, repository: Repository, verb: str, transfer: TransferOptions | None = None
) -> Iterator[DownloadOptions]:
    """Show the progress, and yield the options for downloads to a working directory."""
    transfer = transfer or TransferOptions()
    with context.out.progress(verb, hidden=transfer.no_progress) as shown:
        workers = context.parallelism(repository, transfer.workers)
        yield DownloadOptions(parallelism=workers, progress=shown)


def answer_synced(
    context: Context, worktree: Worktree, brought: checkout.Brought, operation: str
) -> None:
    """Report the result of checking out a commit in a working directory.

    Raises:
        PartialFailure: some objects could not be downloaded.
        WorktreeConflict: files were changed both in the directory and on the branch.
    """
    record = pick(
        SyncedJson,
        brought,
        directory=worktree.root,
        uri=str(worktree.link.src),
        commit_id=brought.commit.id,
        impossible=transfers.failure_records(brought.impossible),
        failures=transfers.failure_records(brought.failures),
    )
    context.out.emit(
        record,
        text=lambda: transfers.summary_lines(
            operation, downloaded=brought.downloaded, removed=brought.removed
        ),
    )
    tell_brought(context, worktree, brought)


def tell_brought(context: Context, worktree: Worktree, brought: checkout.Brought) -> None:
    """After a checkout, report overwritten files, files that were not written, and read-only files.

    Raises:
        PartialFailure: some objects could not be downloaded.
        WorktreeConflict: files were changed both in the directory and on the branch.
    """
    if brought.downloaded and worktree.linking == "hardlink":
        context.out.note(
            "the files are read-only: they are hard links to objects of the repository; to change "
            "one, replace it by a copy"
        )
    elif brought.downloaded and context.settings.local_link == "hardlink" and os.geteuid() == 0:
        context.out.note(
            "the files are not hard links: root could write through them to the repository; to "
            f"link anyway: lakecli config set local.link {HARDLINK_ROOT}"
        )
    transfers.note_left_out(context, brought.left_out)
    for path in brought.blocked:
        context.out.warn(
            f"{quote_path(path)} is not here: a file or directory of yours is in its way; move it "
            "away and pull again, or overwrite it with --force"
        )
    for path, why in brought.impossible:
        context.out.warn(f"{quote_path(path)} cannot be a file here, and is left out: {why}")
    if brought.kept:
        kept = f"{brought.kept} changed files were" if brought.kept > 1 else "a changed file was"
        context.out.note(
            f"{kept} overwritten; to bring back: lakecli undo {worktree.repository.uri}"
        )
    hint = "all others were downloaded; go on: lakecli local pull"
    transfers.raise_failures(context, brought.failures, verb="download", hint=hint)
    raise_conflicts(worktree, brought.conflicts)


def raise_conflicts(worktree: Worktree, conflicts: Sequence[bytes]) -> None:
    """Raise an error if files were changed both in the directory and on the branch.

    Raises:
        WorktreeConflict: there are such files; the error lists them.
    """
    if not conflicts:
        return

    count = f"{len(conflicts)} files were" if conflicts[1:] else "a file was"
    raise checkout.WorktreeConflict(
        f"conflict: {count} changed both in {worktree.root} and on {worktree.link.ref}; the "
        "directory's version stays",
        hint=checkout.RESOLVE,
        paths=conflicts[: checkout.MAX_LISTED],
    )


def pull_worktree(
    context: Context,
    worktree: Worktree,
    policy: checkout.OwnChanges,
    transfer: TransferOptions | None = None,
    *,
    takes_back: bool = False,
) -> checkout.Brought:
    """Check out the current commit of a working directory's ref.

    If the ref was moved back to an earlier commit, the files of the later commit become uncommitted
    changes; with `takes_back`, the files of the earlier commit replace them.
    """
    with worktree.locked(), downloading(context, worktree.repository, "pull", transfer) as options:
        if not takes_back:
            worktree.follow_back()
        return checkout.bring(
            worktree, worktree.head(), operation="pull", policy=policy, options=options
        )


def follow_branch(context: Context, worktree: Worktree, *, takes_back: bool = False) -> None:
    """Check out a branch that moved in a working directory, and report the result.

    Raises:
        PartialFailure, WorktreeConflict: as raised by `tell_brought`.
    """
    brought = pull_worktree(context, worktree, checkout.OwnChanges.KEEP, takes_back=takes_back)
    if brought.downloaded or brought.removed:
        counts = f"written: {brought.downloaded}, removed: {brought.removed}"
        context.out.note(f"{worktree.root}: {counts}")
    tell_brought(context, worktree, brought)


def try_to_follow(
    context: Context, worktree: Worktree, *, stays: bool = False, takes_back: bool = False
) -> None:
    """Call `follow_branch`, but only warn of its errors, because the branch has already moved.

    Args:
        stays: leave the files unchanged, and only print a note.
        takes_back: see `pull_worktree`.
    """
    try:
        if worktree.link.at_head in (None, worktree.head().id):
            return
        if not stays:
            follow_branch(context, worktree, takes_back=takes_back)
            return
        where = worktree.root
        context.out.note(f"the files of {where} stay; see how they differ: lakecli status")
    except LakeError as error:
        if is_interrupt(error):
            raise
        is_conflict = isinstance(error, checkout.WorktreeConflict)
        message = error.message if is_conflict else f"{worktree.root} has not followed: {error}"
        context.out.warn(message, error.hint if is_conflict else "go on: lakecli local pull")
        for path in error.paths:
            context.out.note(quote_path(path))


def checkout_worktree(
    context: Context,
    worktree: Worktree,
    *,
    ref: str,
    policy: checkout.OwnChanges,
    transfer: TransferOptions,
    yes: bool = False,
) -> None:
    """Check out another ref in a working directory, and report the result.

    Args:
        ref: the ref; ``""`` for the commit that is checked out.
        policy: what becomes of changed files; before all changes are discarded, the user is asked.
        yes: whether to discard changes without asking.
    """
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
        is_asked = policy is checkout.OwnChanges.DISCARD and not yes
        if is_asked and worktree.scan().changes:
            context.out.note("Uncommitted changes exist, the operation will revert all of them.")
            context.confirm(f"revert all changes in {worktree.root}", yes=yes)
        with downloading(context, repository, "checkout", transfer) as options:
            brought = checkout.bring(
                worktree, target, operation="checkout", policy=policy, options=options, src=src
            )
    answer_synced(context, worktree, brought, "Checkout")


def commit_worktree(
    context: Context,
    worktree: Worktree,
    options: CommitOptions,
    transfer: TransferOptions | None = None,
    *,
    is_plain: bool = False,
) -> None:
    """Commit the changes in a working directory, and report the commit.

    If there are no changes, print the same message as lakectl. With `is_plain`, write the same JSON
    record as the command ``commit``.
    """
    context.out.say("", f"Getting branch: {worktree.link.ref}")
    git = find_git(worktree.root, context.environ)
    if git is not None:
        found = commit_metadata(git, host="lakecli")
        options = options._replace(metadata={**found, **options.metadata})
    with downloading(context, worktree.repository, "commit", transfer) as bringing:
        uploading = UploadOptions(
            links=worktree.links, parallelism=bringing.parallelism, progress=bringing.progress
        )
        following = DownloadOptions(parallelism=bringing.parallelism)
        made = commit(worktree, options._replace(uploading=uploading, downloading=following))
    context.out.emit(
        made.commit
        if is_plain
        else fields_of(made.commit)
        | pick(LocalCommitJson, made, downloaded=made.brought.downloaded),
        text=lambda: _lines(made, branch=worktree.link.ref),
    )
    transfers.raise_failures(
        context, made.left, verb="commit", hint="all others were committed; commit again"
    )
    raise_conflicts(worktree, made.brought.conflicts)


def _lines(made: Committed, *, branch: str) -> Iterator[str]:
    yield from transfers.summary_lines(
        "Sync", downloaded=made.brought.downloaded, uploaded=made.uploaded, removed=made.removed
    )
    yield "Finished syncing changes. Perform commit on branch..."
    yield from commit_lines(made.commit, branch=branch)

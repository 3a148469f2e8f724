"""``lakecli local``: directories that are linked with a path of a ref."""

import os
from pathlib import Path
from typing import Annotated

from lakecli.base.model import NO_METADATA
from lakecli.cli import params
from lakecli.cli.commands import worktrees
from lakecli.cli.commands.differences import DifferenceJson
from lakecli.cli.context import Context
from lakecli.cli.exit_codes import ExitCode
from lakecli.cli.line import Argument, Option, argument, flag, option
from lakecli.cli.out.records import answers
from lakecli.cli.out.text import quote_path
from lakecli.cli.parsers import absolute, check_message
from lakecli.errors import NotFound, Refused, UsageError
from lakecli.repository.transfer.ignore_patterns import Selection
from lakecli.worktree import index
from lakecli.worktree.checkout import OwnChanges
from lakecli.worktree.commit import CommitOptions
from lakecli.worktree.git import GitRepository, find_git, ignore_in_git
from lakecli.worktree.link import LinkedDirectory, find_linked
from lakecli.worktree.status import ChangedPath, status
from lakecli.worktree.worktree import Worktree, not_linked

Directory = Annotated[
    str, Argument("DIRECTORY", "A linked directory, or one in it; default: this directory")
]
GitIgnore = Annotated[
    bool,
    Option(None, "In a Git work tree, have Git ignore the directory", "--gitignore/--no-gitignore"),
]


@answers(worktrees.SyncedJson)
def local_clone(
    context: Context,
    path: params.PrefixUri,
    directory: str = argument("DIRECTORY", default=""),
    *,
    include: params.Include = (),
    exclude: params.Exclude = (),
    gitignore: GitIgnore = True,
    transfer: params.TransferOptions,
    _pre_sign: params.PreSign = False,
) -> None:
    """Link a directory with a path of a ref, and download its objects.

    Each file is verified and gets the modification time that was recorded at its upload; an
    imported object that has changed since its import fails. The same command continues an
    interrupted clone. Objects with a name that Git, lakecli or the system reserves, such as .git,
    .lakefs_ref.yaml and .DS_Store, are left out and reported.

    With --include and --exclude the directory is sparse: it has only the objects whose paths below
    PATH match, as in .gitignore. Later commands keep to these patterns, and commits of the
    directory change no other paths.

    Args:
        directory: An empty or missing directory; default: the last part of PATH, or the
            repository's name.

    Examples:
        lakecli local clone lakefs://demo/main/data/ ./data
        lakecli local clone lakefs://demo/main/events/ --include 'dt=2026-11-*/**'
    """
    from lakecli.worktree.create import clone

    name = os.fsdecode((path.path or b"").rstrip(b"/").rpartition(b"/")[2]) or path.repository
    if not directory and name in {".", ".."}:
        raise UsageError(f"the name of {path} is not a valid directory name", hint="name one")
    root = absolute(directory or name)
    git = _find_git(context, root, wanted=gitignore)
    repository = context.synced_repository(path)
    mode = worktrees.linking(context, repository)
    with worktrees.downloading(context, repository, "clone", transfer) as options:
        brought = clone(
            repository, path, root, include=include, exclude=exclude, options=options, linking=mode
        )
    _ignore(context, git, root)
    worktree = Worktree(repository, *worktrees.find_worktree(context, str(root)), linking=mode)
    if not brought.failures:
        context.out.say("", f"Successfully cloned {worktree.link.src} to {root}.")
    worktrees.answer_synced(context, worktree, brought, "Clone")


@answers(LinkedDirectory)
def local_init(
    context: Context,
    path: params.PrefixUri,
    directory: str = argument("DIRECTORY", default="."),
    *,
    include: params.Include = (),
    exclude: params.Exclude = (),
    gitignore: GitIgnore = True,
    force: bool = flag(),
) -> None:
    """Link a directory with a path of a branch, tag or commit.

    No file changes. Compared with the commit that the ref names now, files that only the directory
    has count as added, and objects that it lacks as removed; `local pull` does not download them.
    To start with the objects, use `local clone`.

    The file .lakefs_ref.yaml in the directory records the link; lakectl reads and writes it, too.
    In a Git work tree, Git ignores the other files of the directory from then on.

    Args:
        directory: The directory to link; default: this directory.
        force: Link a directory again that is already linked.

    Examples:
        lakecli local init lakefs://demo/main/data/ ./data
    """
    from lakecli.worktree.create import init

    root = absolute(directory)
    git = _find_git(context, root, wanted=gitignore)
    worktree = init(
        context.synced_repository(path), path, root, include=include, exclude=exclude, force=force
    )
    _ignore(context, git, root)
    link = worktree.link
    context.out.emit(
        LinkedDirectory(root, link),
        text=lambda: [f"Successfully linked local directory '{root}' with remote '{link.src}'"],
    )


@answers(LinkedDirectory, each=True)
def local_list(
    context: Context, directory: str = argument("DIRECTORY", default="."), *, prune: bool = flag()
) -> None:
    """List the linked directories below a directory.

    In a Git work tree, the whole work tree is searched.

    lakecli keeps an index of the files of each linked directory in its home, so that unchanged
    files are not read again. An index that was not used for 90 days is deleted. --prune also
    deletes the indexes of directories that were deleted or moved, but not of those on a disk that
    is not mounted. If a directory was moved, the next command reads all its files once.

    Args:
        directory: Where to search; default: this directory.
        prune: Delete the indexes of directories that are gone.

    Examples:
        lakecli local list
        lakecli local list --prune
        lakecli local list ~/projects --json
    """
    if prune:
        for gone in index.prune(Path(context.home.store).with_name(index.DIRECTORIES)):
            context.out.note(f"index deleted: {quote_path(gone)} is gone")
    start = absolute(directory)
    if not start.is_dir():
        raise NotFound(f"no such directory: {directory}")
    git = find_git(start, context.environ)
    context.out.table(
        ("Directory", "Remote URI", "Synced commit"),
        find_linked(start if git is None else git.root, trust=context.settings.local_trust),
        row=lambda item: (
            quote_path(str(item.directory)),
            item.uri or "malformed .lakefs_ref.yaml",
            item.commit_id or "",
        ),
        kept=("Directory", "Remote URI"),
    )


@answers(worktrees.SyncedJson)
@answers(worktrees.SyncedJson, each=True, option="--all")
def local_checkout(
    context: Context,
    directory: Directory = ".",
    *,
    ref: str = option("REF", "--ref", "-r"),
    all_: bool = flag(),
    yes: params.Yes = False,
    links: params.LinkOptions,
    transfer: params.TransferOptions,
    _pre_sign: params.PreSign = False,
) -> None:
    """Undo the changes of a linked directory, and go to another ref.

    Without --ref, the directory gets the files of the commit of the last sync. After a question,
    which -y answers, changed files are overwritten and new files are deleted; `undo` restores them.
    To go to another ref and keep changes, use `checkout`.

    Args:
        ref: Branch, tag or commit to go to.
        all_: All linked directories below DIRECTORY.

    Examples:
        lakecli local checkout -y
        lakecli local checkout ./data --ref v1.0 -y
        lakecli local checkout --all -y
    """
    params.refuse_several({"--all": all_, "--ref": bool(ref)})
    places = [directory]
    if all_:
        top, trust = absolute(directory), context.settings.local_trust
        places = [str(top / each.directory) for each in find_linked(top, trust=trust)]
        if not places:
            raise not_linked(top)
    for place in places:
        worktree = worktrees.open_worktree(context, place, links=links)
        worktrees.checkout_worktree(
            context, worktree, ref=ref, policy=OwnChanges.DISCARD, transfer=transfer, yes=yes
        )


@answers(worktrees.SyncedJson)
def local_pull(
    context: Context,
    directory: Directory = ".",
    *,
    force: bool = flag(),
    links: params.LinkOptions,
    transfer: params.TransferOptions,
    _pre_sign: params.PreSign = False,
) -> None:
    """Update a linked directory with the changes of its ref.

    Changes of the directory stay. Files that were changed on both sides stay as they are, are
    listed, and have to be resolved before they are committed; the exit code is 4. With --force they
    are overwritten; `undo` restores them. Objects with a name that Git, lakecli or the system
    reserves, such as .git, .lakefs_ref.yaml and .DS_Store, are left out and reported.

    The ref is read as it is on this machine. To fetch it from the bucket first: `pull`.

    The same command continues whatever was interrupted in the directory.

    Args:
        force: Overwrite changed files that the ref has changed too.

    Examples:
        lakecli local pull
        lakecli local pull ./data --force
    """
    worktree = worktrees.open_worktree(context, directory, links=links)
    brought = worktrees.pull_worktree(
        context, worktree, OwnChanges.FORCE if force else OwnChanges.KEEP, transfer
    )
    if not (brought.failures or brought.conflicts):
        context.out.say("", "Successfully synced changes!")
    worktrees.answer_synced(context, worktree, brought, "Pull")


@answers(worktrees.LocalCommitJson)
def local_commit(
    context: Context,
    directory: Directory = ".",
    *,
    message: params.Message = "",
    allow_empty_message: bool = flag(),
    metadata: params.Metadata = NO_METADATA,
    include: params.Include = (),
    exclude: params.Exclude = (),
    ours: bool = flag(),
    links: params.LinkOptions,
    transfer: params.TransferOptions,
    _force: bool = flag("--force", hidden=True),
    _yes: params.Yes = False,
    _pre_sign: params.PreSign = False,
) -> None:
    """Commit the changes of a linked directory to its branch.

    All changes become one commit, and uncommitted changes of the branch stay uncommitted. If others
    have changed some of the same files, on the branch or in its staging area, these files are
    listed and nothing is committed: run `local pull` first, or commit the directory's files with
    --ours.

    Files with a name that Git, lakecli or the system reserves, such as .git, .lakefs_ref.yaml and
    .DS_Store, are left out.

    Afterwards the directory is at the new commit, with the commits of others to other paths.

    In a Git work tree, the commit's metadata has the ID of Git's head (git_commit_id) and, if Git
    has a remote, the URL of that commit there.

    Args:
        allow_empty_message: Commit without a message.
        ours: Commit the directory's file where others have changed it too.

    Examples:
        lakecli local commit -m "Add the numbers of March"
        lakecli local commit ./data -m "Clean up" --include 'raw/**'
    """
    worktree = worktrees.open_worktree(context, directory, links=links)
    check_message(message, allow_empty=allow_empty_message)
    selection = Selection(include, exclude)
    options = CommitOptions(message, context.committer(), metadata, selection, ours=ours)
    worktrees.commit_worktree(context, worktree, options, transfer)


@answers(ChangedPath, each=True)
def local_status(
    context: Context,
    directory: Directory = ".",
    *,
    local: bool = flag("--local", "-l"),
    include: params.Include = (),
    exclude: params.Exclude = (),
    links: params.LinkOptions,
) -> None:
    """Show what has changed in a linked directory, and on its ref.

    The files, the commit that the directory was last synced with, and the ref now are compared. The
    source of a path is local if the file has changed, remote if the ref has changed, and both if
    both have changed, to the same contents or in conflict. Contents are compared, never times. A
    file is read only if its size, times or inode have changed since it was read last.

    Files that .lakefsignore excludes are not shown, unless the ref has them. Symbolic links and
    special files are reported, left out with --skip, or followed with --follow.

    Args:
        local: Show only what has changed in the directory.

    Examples:
        lakecli local status
        lakecli local status ./data --local
        lakecli local status --json
    """
    worktree = worktrees.open_worktree(context, directory, links=links)
    found = status(worktree, local=local, selection=Selection(include, exclude))
    link = worktree.link
    base = f"{worktree.repository.uri}/{link.at_head or ''}/{os.fsdecode(link.prefix)}"
    context.out.say("", f"diff 'local://{worktree.root}' <--> '{base}'...")  # as lakectl
    context.out.say(*([] if local else [f"diff '{base}' <--> '{link.src}'..."]), "")
    worktrees.show_changes(context, worktree, found, nothing="No diff found.")


@answers(DifferenceJson, each=True)
def local_diff(
    context: Context,
    directory: Directory = ".",
    *,
    include: params.Include = (),
    exclude: params.Exclude = (),
    exit_code: bool = flag(),
    links: params.LinkOptions,
) -> ExitCode:
    """List what has changed in a linked directory since it was last synced.

    Args:
        exit_code: Exit with 13 if there are differences.

    Examples:
        lakecli local diff
        lakecli local diff ./data --include '*.csv' --exit-code
    """
    worktree = worktrees.open_worktree(context, directory, links=links)
    count = worktrees.show_diff(context, worktree, selection=Selection(include, exclude))
    return ExitCode.DIFFERENCES if exit_code and count else ExitCode.OK


def _find_git(context: Context, root: Path, *, wanted: bool) -> GitRepository | None:
    """Return the Git repository around a directory that is to be linked.

    Args:
        wanted: whether Git is to ignore the linked directory.

    Returns:
        ``None`` if there is no Git repository, or if `wanted` is false.

    Raises:
        Refused: the directory is the top of the Git repository.
    """
    above = next((each for each in (root, *root.parents) if each.is_dir()), root)
    git = find_git(above, context.environ) if wanted else None
    if git is not None and root.resolve() == git.root.resolve():
        raise Refused(
            f"Directory '{root}' is a git repository, please specify a sub-directory",
            hint="or link it nevertheless: --no-gitignore",
        )
    return git


def _ignore(context: Context, git: GitRepository | None, root: Path) -> None:
    """Add a linked directory to the files that its Git repository ignores."""
    try:
        file = None if git is None else ignore_in_git(git, root)
    except Refused as error:
        context.out.warn(error.message, hint=error.hint)
        return
    if file is not None:
        context.out.say(f"Location added to {file}")

"""``lakecli local init``."""

from __future__ import annotations

from typing import Annotated

from lakecli.cli.context import Context
from lakecli.cli.here import absolute
from lakecli.cli.line.declare import Option
from lakecli.cli.linking import GitIgnore, ignore_in_git
from lakecli.cli.out.answers.worktree import LinkedDirectory
from lakecli.cli.params import Exclude, Include, PrefixUri
from lakecli.cli.worktrees import NewDirectory
from lakecli.worktree.create import init


def local_init(
    context: Context,
    path: PrefixUri,
    directory: NewDirectory = ".",
    *,
    include: Include = (),
    exclude: Exclude = (),
    gitignore: GitIgnore = True,
    force: Annotated[bool, Option("--force", help="Link a directory anew that is linked")] = False,
) -> None:
    """Link a directory with a path of a branch, tag or commit.

    No file changes. The directory is compared with the commit that the ref names now, so its files
    count as added, and objects that it lacks as removed; `local pull` does not bring these. To
    begin with the objects, use `local clone`.

    The file .lakefs_ref.yaml in the directory has what it is linked with; lakectl reads and writes
    it too. In a Git work tree, Git ignores the other files of the directory from then on.

    Examples:
        lakecli local init lakefs://demo/main/data/ ./data
    """
    root = absolute(directory)
    git = ignore_in_git(context, root, wanted=gitignore)
    worktree = init(
        context.synced_repository(path), path, root, include=include, exclude=exclude, force=force
    )
    git.finish()
    link = worktree.link
    context.out.emit(
        LinkedDirectory(directory=root, uri=str(link.src), commit_id=link.at_head),
        text=lambda: [f"Successfully linked local directory '{root}' with remote '{link.src}'"],
    )

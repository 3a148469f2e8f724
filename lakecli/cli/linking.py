"""Linking directories in a Git work tree."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

from lakecli.cli.context import Context
from lakecli.cli.line.declare import Option
from lakecli.errors import Refused
from lakecli.worktree.git import GitRepository, find_git

GitIgnore = Annotated[
    bool,
    Option("--gitignore/--no-gitignore", help="In a Git work tree, have Git ignore the directory"),
]


class Ignoring(NamedTuple):
    """A directory to ignore in a Git repository, if there is one."""

    context: Context
    root: Path
    git: GitRepository | None

    def finish(self) -> None:
        """Have Git ignore the directory, which is linked by now."""
        if self.git is None:
            return
        from lakecli.worktree.git import ignore_in_git

        file = ignore_in_git(self.git, self.root)
        if file is not None:
            self.context.out.say(f"Location added to {file}")


def ignore_in_git(context: Context, root: Path, *, wanted: bool) -> Ignoring:
    """Find the Git repository that a directory to be linked lies in.

    Raises:
        Refused: the directory is the top of the repository.
    """
    above = next((each for each in (root, *root.parents) if each.is_dir()), root)
    git = find_git(above, context.environ) if wanted else None
    if git is not None and root.resolve() == git.root.resolve():
        raise Refused(
            f"Directory '{root}' is a git repository, please specify a sub-directory",
            hint="or link it nevertheless: --no-gitignore",
        )
    return Ignoring(context, root, git)

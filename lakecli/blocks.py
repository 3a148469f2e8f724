"""The blocks that are open in this process: each works on a branch, in a workspace of its own.

All file systems and Spark tables of the process, in any thread, find the workspace here when they
are given the branch. A process that is forked within a block inherits it; other processes get it
by the pickled form of a file system. A second block on the same branch is refused: whose changes
are whose could not be told.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakecli.errors import Refused
from lakecli.settings.home import chosen_home, home_paths


class AlreadyOpen(Refused):
    """This process has a block on the branch."""

    def __init__(self, repository: str, branch: str) -> None:
        super().__init__(
            f"a block on {branch} of lakefs://{repository} is open in this process already",
            hint="leave out the second block or commit: the first block commits what it writes; "
            "threads with commits of their own need a branch or a process each",
        )


class Block:
    """A block on a branch.

    Attributes:
        workspace: the name of its workspace; ``""`` before that is begun.
    """

    workspace: str = ""


_open: dict[tuple[str, str, str], Block] = {}


def _store_of(home: str | Path | None) -> str:
    """Return the directory of the local store of a home, given as `lakecli.opening` takes it."""
    return home_paths(chosen_home(home, os.environ), os.environ).store


@contextmanager
def opened(home: str | Path | None, repository: str, branch: str) -> Iterator[Block]:
    """Open a block, for the caller to begin its workspace and to commit or discard it.

    Raises:
        AlreadyOpen: this process has one on the branch.
    """
    key = _store_of(home), repository, branch
    block = Block()
    if _open.setdefault(key, block) is not block:  # atomic
        raise AlreadyOpen(repository, branch)
    try:
        yield block
    finally:
        del _open[key]


def find(home: str | Path | None, repository: str, ref: str) -> str:
    """Return what a ref is read and written as in this process: the workspace of a block, or it."""
    block = _open.get((_store_of(home), repository, ref.removesuffix("$"))) if _open else None
    return (block and block.workspace) or ref


def workspaces(home: str | Path | None) -> dict[tuple[str, str], str]:
    """Return the workspaces of a home that are open in this process, by repository and branch."""
    key = _store_of(home)
    return {
        (repository, branch): block.workspace
        for (there, repository, branch), block in list(_open.items())
        if there == key and block.workspace
    }

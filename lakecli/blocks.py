"""The blocks of this process: each works on a branch, in a workspace of its own.

All file systems and Spark tables of the process, in any thread, find the workspace here when they
are given the branch. So do the processes that it starts by multiprocessing, which look for a
workspace of their parent in the local store; other processes get it by the pickled form of a file
system. A second block on the same branch is refused: whose changes are whose could not be told.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from multiprocessing import current_process, parent_process
from pathlib import Path

from lakecli.base.identity import blake3_of
from lakecli.errors import NotFound, Refused, UsageError
from lakecli.refs.names import is_branch_name
from lakecli.repository import workspace
from lakecli.repository.contract import Repository
from lakecli.settings.home import chosen_home, home_paths


class AlreadyOpen(Refused):
    """This process has a block on the branch."""

    def __init__(self, repository: str, branch: str) -> None:
        super().__init__(
            f"a block on {branch} of lakefs://{repository} is open in this process already",
            hint="leave out the second block or commit: the first block commits what it writes; "
            "threads with commits of their own need a branch or a process each",
        )


class OpenBlock:
    """A block on a branch.

    Attributes:
        workspace: the name of its workspace; ``""`` before that is begun.
        process: the ID of the process that has opened it.
    """

    workspace: str = ""

    def __init__(self) -> None:
        self.process = os.getpid()

    @property
    def counts(self) -> bool:
        """Whether this process takes its word for it that the block is open.

        A process that was forked by multiprocessing may outlive the block, and be used for others.
        """
        return self.process == os.getpid() or parent_process() is None

    def begin(self, repository: Repository, branch: str) -> str:
        """Begin the workspace, and return its name; raises as `lakecli.repository.workspace`."""
        self.workspace = workspace.begin(repository, branch, owner=_owner(self.process))
        return self.workspace


_open: dict[tuple[str, str, str], OpenBlock] = {}


def _owner(process: int | None) -> str:
    """Return how a process of this family is called; another one that gets its ID has a new key."""
    return f"{process}-{blake3_of(b'lakecli:block' + current_process().authkey).hex()[:32]}"


def _store_of(home: str | Path | None) -> str:
    """Return the directory of the local store of a home, given as `lakecli.opening` takes it."""
    return home_paths(chosen_home(home, os.environ), os.environ).store


@contextmanager
def opened(home: str | Path | None, repository: str, branch: str) -> Iterator[OpenBlock]:
    """Open a block, for the caller to begin its workspace and to commit or discard it.

    Raises:
        AlreadyOpen: this process has one on the branch.
    """
    key = _store_of(home), repository, branch
    block = OpenBlock()
    if (present := _open.setdefault(key, block)) is not block:  # atomic
        if present.counts:
            raise AlreadyOpen(repository, branch)
        _open[key] = block
    try:
        yield block
    finally:
        del _open[key]


def find(
    home: str | Path | None,
    repository: str,
    ref: str,
    using: Callable[[], AbstractContextManager[Repository]],
) -> str:
    """Return what a ref is read and written as in this process: the workspace of a block, or it.

    Args:
        home: as `lakecli.opening` takes it.
        using: opens the repository, in a process that may be in a block of its parent.
    """
    return _find(_store_of(home) if _open else "", repository, ref, using)


def find_in(repository: Repository, ref: str) -> str:
    """Return what `find` does, in a repository that is open."""
    store = os.fspath(repository.lake.home.store)
    return _find(store, repository.name, ref, lambda: nullcontext(repository))


def _find(
    store: str, repository: str, ref: str, using: Callable[[], AbstractContextManager[Repository]]
) -> str:
    name, parent = ref.removesuffix("$"), parent_process()
    block = _open.get((store, repository, name))
    if block is not None and block.counts:
        return block.workspace or ref
    if parent is None or not is_branch_name(name):
        return ref
    try:
        with using() as found:
            return workspace.find(found, name, _owner(parent.pid)) or ref
    except (NotFound, UsageError):
        return ref  # which is not there


def workspaces(home: str | Path | None) -> dict[tuple[str, str], str]:
    """Return the workspaces of a home that are open in this process, by repository and branch."""
    key = _store_of(home)
    return {
        (repository, branch): block.workspace
        for (there, repository, branch), block in list(_open.items())
        if there == key and block.workspace and block.counts
    }

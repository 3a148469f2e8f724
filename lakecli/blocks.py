"""The open blocks of this process; a block works on a branch, in its own workspace.

All file systems and Spark tables of the process, in any thread, find the workspace here by the name
of the branch. Processes that this process starts with multiprocessing look for a workspace of their
parent in the local store. Other processes receive it in the pickled form of a file system. A second
block on the same branch is refused, because changes could not be assigned to one of the two blocks.
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
    """Raised if this process already has a block on the branch."""

    def __init__(self, repository: str, branch: str) -> None:
        super().__init__(
            f"a block on {branch} of lakefs://{repository} is open in this process already",
            hint="leave out the second block or commit: the first block commits what it writes; "
            "threads with commits of their own need a branch or a process each",
        )


class OpenBlock:
    """A block on a branch.

    Attributes:
        workspace: the name of the block's workspace; ``""`` until the workspace is begun.
        process: the ID of the process that opened the block.
    """

    workspace: str = ""

    def __init__(self) -> None:
        self.process = os.getpid()

    @property
    def counts(self) -> bool:
        """Whether this process may assume that the block is still open.

        A process that was forked by multiprocessing has a copy of the block, may outlive the block,
        and may be reused for other work.
        """
        return self.process == os.getpid() or parent_process() is None

    def begin(self, repository: Repository, branch: str) -> str:
        """Begin the workspace, and return its name.

        Raises:
            LakeError: see `lakecli.repository.workspace.begin`.
        """
        self.workspace = workspace.begin(repository, branch, owner=_owner(self.process))
        return self.workspace


_open: dict[tuple[str, str, str], OpenBlock] = {}


def _owner(process: int | None) -> str:
    """Return a name for a process that its child processes can derive, too.

    It contains a digest of the processes' common key, so another process that gets the same ID
    later has another name.
    """
    return f"{process}-{blake3_of(b'lakecli:block' + current_process().authkey).hex()[:32]}"


def _store_of(home: str | Path | None) -> str:
    """Return the directory of the local store of a home; see `lakecli.opening` for `home`."""
    return home_paths(chosen_home(home, os.environ), os.environ).store


@contextmanager
def opened(home: str | Path | None, repository: str, branch: str) -> Iterator[OpenBlock]:
    """Open a block. The caller begins its workspace, and commits or discards the workspace.

    Raises:
        AlreadyOpen: this process has a block on the branch.
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
    """Return the ref to read and write in place of `ref`: the workspace of a block on it, or `ref`.

    Args:
        home: the home of lakecli, as in `lakecli.opening`.
        using: a function that opens the repository; called only in a process that may use a block
            of its parent.
    """
    return _find(_store_of(home) if _open else "", repository, ref, using)


def find_in(repository: Repository, ref: str) -> str:
    """Do the same as `find`, in a repository that is open."""
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

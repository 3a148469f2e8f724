"""The open blocks of this process: ``with`` blocks whose changes to a branch become one commit.

Until the block ends, its changes are in a workspace, which `lakecli.repository.workspace`
describes. All file systems and Spark tables of the process, in any thread, find the workspace here
by the name of the branch. A child process that multiprocessing started looks in the local store for
a workspace of its parent. Any other process gets the name of the workspace from a pickled file
system. A second block on the same branch is refused, because it would be unclear to which block a
change belongs.
"""

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
    """Raised if this process already has an open block on the branch."""

    def __init__(self, repository: str, branch: str) -> None:
        super().__init__(
            f"a block on {branch} of lakefs://{repository} is open in this process already",
            hint="leave out the second block or commit: the first block commits what it writes; "
            "threads with commits of their own need a branch or a process each",
        )


class OpenBlock:
    """An open block on a branch.

    Attributes:
        workspace: the name of the block's workspace; ``""`` until the workspace is begun.
        process: the ID of the process that opened the block.
    """

    workspace: str = ""

    def __init__(self) -> None:
        self.process = os.getpid()

    @property
    def counts(self) -> bool:
        """Whether this process can be sure that the block is open.

        A process that multiprocessing forked has only a copy of the block. The process may outlive
        the block, or do other work.
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
    """Return a unique name for a process; its child processes can compute the same name.

    The name contains a digest of the multiprocessing key, which a process shares with its children.
    If the operating system later reuses the process ID, the name differs.
    """
    return f"{process}-{blake3_of(b'lakecli:block' + current_process().authkey).hex()[:32]}"


def _store_of(home: str | Path | None) -> str:
    """Return the directory of the local store; `home` is as for `lakecli.opening.open_lake`."""
    return home_paths(chosen_home(home, os.environ), os.environ).store


@contextmanager
def opened(home: str | Path | None, repository: str, branch: str) -> Iterator[OpenBlock]:
    """Register a block as open. The caller begins, and finally commits or discards, its workspace.

    Raises:
        AlreadyOpen: this process has an open block on the branch.
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
    """Return the workspace of an open block on the branch `ref`; without a block, `ref` itself.

    Args:
        home: the home directory of lakecli, as for `lakecli.opening.open_lake`.
        using: a function that opens the repository. It is called only in a child process that
            multiprocessing started, which may use a block of its parent.
    """
    return _find(_store_of(home) if _open else "", repository, ref, using)


def find_in(repository: Repository, ref: str) -> str:
    """Do the same as `find` for a repository that is already open."""
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
        return ref  # the repository does not exist, so it has no blocks


def workspaces(home: str | Path | None) -> dict[tuple[str, str], str]:
    """Return the workspaces of this process's open blocks in a home, by repository and branch."""
    key = _store_of(home)
    return {
        (repository, branch): block.workspace
        for (there, repository, branch), block in list(_open.items())
        if there == key and block.workspace and block.counts
    }

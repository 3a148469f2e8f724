"""Several machines on one storage namespace, each with its lake and directory."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple, Self

from lakecli.base.model import RefKind
from lakecli.kv.bucket import TrackingStore
from lakecli.remote.refs import find_ref
from lakecli.repository import branch as branches
from lakecli.repository import repo
from lakecli.repository.clone import clone
from lakecli.repository.commit import commit
from lakecli.repository.contract import Repository
from lakecli.repository.handle.lake import LocalRepository
from lakecli.repository.sharing.automatic import SharedMover
from lakecli.repository.undo.remote_undo import put_back
from tests.support.lakes import Numbered, Ticking, open_lake, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from pathlib import Path

    from lakecli.base.model import Commit, CommitId
    from lakecli.repository.contract import CaughtUp
    from lakecli.repository.handle.lake import Lake

RANGE_ENTRIES = 16


def machine(
    directory: Path,
    name: str,
    *,
    clock: Callable[[], datetime] | None = None,
    on_step: Callable[[str], None] = lambda _name: None,
) -> Lake:
    """Open the lake of a machine; its IDs differ from those of every other machine."""
    clock = clock or Ticking()
    return open_lake(directory / name, clock=clock, new_id=Numbered(name), on_step=on_step)


class Clones(NamedTuple):
    """Repositories of one namespace; close them, or use them as a context manager."""

    repositories: tuple[Repository, ...]
    stack: ExitStack

    @classmethod
    def make(cls, directory: Path, *names: str, namespace: str = "") -> Clones:
        """Create a repository on the first machine, and clone it to the others."""
        where = namespace or str(directory / "namespace")
        with ExitStack() as stack:
            lakes = [stack.enter_context(machine(directory, name)) for name in names]
            first = repo.create(lakes[0], "demo", where, range_entries=RANGE_ENTRIES)
            others = [clone(lake, where, "demo") for lake in lakes[1:]]
            return cls((first, *others), stack.pop_all())

    def __enter__(self) -> Self:
        """Return the clones themselves."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close their lakes."""
        self.stack.close()


class Synced(NamedTuple):
    """A repository as a command under ``sync = auto`` uses it."""

    repository: Repository
    mover: SharedMover

    def catch_up(self) -> CaughtUp:
        """Fetch, as the command does at its beginning."""
        return self.mover.catch_up(self.repository)

    def finish(self) -> None:
        """Push, as the command does at its end."""
        self.mover.finish(self.repository)


def synced(repository: Repository, who: str) -> Synced:
    """Return a handle that synchronises without waiting, with the same store and notices."""
    lake = repository.lake
    lake.runtime = lake.runtime._replace(sleep=lambda _seconds: None)
    mover = SharedMover(lake.runtime.new_id(), who=lambda: who, put_back=put_back)
    handle = LocalRepository(repository.lake, repository.record)
    handle.mover = mover
    handle.notices = repository.notices
    return Synced(handle, mover)


@contextmanager
def auto(repository: Repository) -> Iterator[tuple[Repository, CaughtUp]]:
    """Run the block as one command under ``sync = auto``."""
    sharing = synced(repository, "somebody")
    yield sharing.repository, sharing.catch_up()
    sharing.finish()


def here(repository: Repository, name: str = "main") -> CommitId:
    """Return the head of a branch of a clone."""
    return branches.show(repository, name).commit_id


def there(
    repository: Repository, name: str = "main", kind: RefKind = RefKind.BRANCH
) -> CommitId | None:
    """Return the commit of a ref in the bucket."""
    ref = find_ref(repository.store, kind, name)
    return None if ref is None else ref.commit_id


def make_commit(repository: Repository, path: bytes, branch: str = "main") -> Commit:
    """Commit one object; its contents and the message of the commit are its path."""
    stage(repository, branch, {path: path})
    return commit(repository, branch, message=path.decode(), committer="me")


def position(
    repository: Repository, name: str = "main", kind: RefKind = RefKind.BRANCH
) -> CommitId | None:
    """Return the commit of a ref in the bucket, as the clone last saw it."""
    with repository.lake.kv.read() as txn:
        tracked = TrackingStore(txn, repository.key).find(kind, name)
    return None if tracked is None else tracked.commit_id

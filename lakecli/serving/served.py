"""The repositories of an endpoint, opened once and shared by all its threads.

With ``sync = auto``, a request for a repository first brings the repository up to date with its
bucket, but at most every `CATCH_UP` seconds. A storage namespace that is read without a clone is
reopened at the same interval. One thread does the update; meanwhile, other threads use the present
state.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from functools import partial
from operator import attrgetter
from threading import Lock
from typing import Final, NamedTuple

from lakecli.base.model import RepositoryRecord
from lakecli.committed.tree_store import LruCache
from lakecli.errors import NotFound, Refused, Unreachable
from lakecli.repository.contract import BranchMover, Notice, Repository
from lakecli.repository.handle.lake import Lake, LocalRepository, find_repository
from lakecli.repository.reading.view import View, check_branch, open_view
from lakecli.repository.transfer.ingest import SENT_AT_ONCE
from lakecli.repository.transfer.parallel import Memory
from lakecli.serving.writes import BranchWriter, Client
from lakecli.stores.uri import is_local

CATCH_UP: Final = 5.0
"""Seconds for which a repository counts as up to date."""

RENEWED: Final = 300.0
"""Seconds after which the store of a bucket is reopened.

A store renews temporary credentials itself if it can request them. Credentials that another program
writes to a file are read only when a store is opened.
"""

LONGEST_VIEW: Final = 120.0
"""Seconds after which the former handle of a reopened namespace is closed; no view lasts longer."""

MEMORY: Final = 8 * SENT_AT_ONCE
"""The maximum number of bytes in memory of large objects that are being sent to buckets."""

MOST_WRITERS: Final = 256
"""The maximum number of branch writers to keep per repository."""


class Opening(NamedTuple):
    """Functions by which an endpoint opens repositories, with the caller's settings and hooks.

    Attributes:
        repository: opens a repository of the lake by its name.
        namespace: opens the repository of a storage namespace for reading.
        mover: returns a new object that moves the refs of a repository in its bucket, too; ``None``
            if the repository is not shared automatically.
        catch_up: brings a repository with a mover up to date with its bucket.
        notify: called with each notice that an operation leaves for the user.
    """

    repository: Callable[[str], LocalRepository]
    namespace: Callable[[str], LocalRepository]
    mover: Callable[[LocalRepository], BranchMover | None]
    catch_up: Callable[[Repository], None]
    notify: Callable[[Notice], None]


class _Held:
    """An open repository.

    Attributes:
        fresh_at: when the repository was last brought up to date with its bucket.
        expires: whether to reopen it after `RENEWED` seconds, because credentials may have changed.
        writers: the writers of its branches, by the name of the branch.
    """

    def __init__(self, opened: LocalRepository, now: float) -> None:
        self.opened = opened
        self.fresh_at = self.opened_at = now
        self.expires = not is_local(opened.record.storage_namespace)
        self.writers: LruCache[str, BranchWriter] = LruCache(MOST_WRITERS)
        self.refreshing = Lock()
        # Create these lazy attributes now, so that copies of the handle share them.
        _ = opened.store, opened.trees, opened.guard, opened.addresses


class Served:
    """The repositories of an endpoint. Safe to share between threads.

    Args:
        lake: the lake of the repositories; new repositories are created in it, too.
        names: the names of the repositories; ``None`` for all of the lake, including new ones.
        namespaces: storage namespaces that are read without a clone, by the bucket name to serve.

    Attributes:
        read_only: whether all writes are refused.
        committed: whether reads of a branch leave out uncommitted changes.
    """

    def __init__(
        self,
        lake: Lake,
        opening: Opening,
        *,
        names: Collection[str] | None = None,
        namespaces: Mapping[str, str] | None = None,
        read_only: bool = False,
        committed: bool = False,
    ) -> None:
        self.lake = lake
        self.read_only = read_only
        self.committed = committed
        self._opening = opening
        self._names = None if names is None else frozenset(names)
        self._namespaces = dict(namespaces or {})
        self._elapsed = lake.runtime.elapsed
        self._memory = Memory(MEMORY)
        self._lock = Lock()  # of the attributes below
        self._held: dict[str, _Held] = {}
        self._retired: deque[tuple[float, LocalRepository]] = deque()

    def names(self) -> list[str]:
        """Return the names of the served repositories in order; S3 clients see them as buckets."""
        here = (record.name for record in self.lake.repositories())
        return sorted({*filter(self._is_served, here), *self._namespaces})

    def records(self) -> list[RepositoryRecord]:
        """Return the record of each served repository under its served name, ordered by name.

        Repositories of the lake are neither opened nor brought up to date for this.
        """
        here = [record for record in self.lake.repositories() if self._is_served(record.name)]
        there = [self.repository(name).record._replace(name=name) for name in self._namespaces]
        return sorted(here + there, key=attrgetter("name"))

    def _is_served(self, name: str) -> bool:
        return name not in self._namespaces and (self._names is None or name in self._names)

    @property
    def takes_new(self) -> bool:
        """Whether clients may create repositories: all names are served, and writes are allowed."""
        return self._names is None and not self.read_only

    def repository(self, name: str) -> Repository:
        """Return a repository for reading, brought up to date with its bucket.

        Raises:
            NotFound: no repository of that name is served.
        """
        return self._find(name).opened

    def _find(self, name: str) -> _Held:
        now = self._elapsed()
        with self._lock:
            held = self._held.get(name)
        is_namespace = name in self._namespaces
        if held is not None and not is_namespace and not self._is_present(name, held.opened):
            self._held.pop(name, None)
            held = None
        if held is None or (held.expires and now - held.opened_at > RENEWED):
            return self._open(name)
        if now - held.fresh_at < CATCH_UP or not held.refreshing.acquire(blocking=False):
            return held
        try:
            held.fresh_at = now
            if is_namespace:
                return self._open(name)
            self._catch_up(held.opened)
        except Unreachable as error:
            self._opening.notify(Notice(f"not fetched: {error.message}", error.hint))
        finally:
            held.refreshing.release()
        return held

    def _is_present(self, name: str, opened: LocalRepository) -> bool:
        """Return whether an open repository was neither deleted nor replaced."""
        with self.lake.kv.read() as txn:
            return find_repository(txn, name) == opened.record

    def _open(self, name: str) -> _Held:
        namespace = self._namespaces.get(name)
        if namespace is not None:
            opened = self._opening.namespace(namespace)
        elif self._is_served(name):
            opened = self._opening.repository(name)
            self._catch_up(opened)
        else:
            raise NotFound(f"no repository {name!r} is served here")
        now = self._elapsed()
        held = _Held(opened, now)
        with self._lock:
            before = self._held.get(name)
            self._held[name] = held
            if before is not None and namespace is not None:
                self._retired.append((now, before.opened))
            while self._retired and now - self._retired[0][0] > LONGEST_VIEW:
                self._retired.popleft()[1].lake.close()
        self._tell(opened)
        return held

    def _catch_up(self, opened: LocalRepository) -> None:
        fetching = copy(opened)
        fetching.mover = self._opening.mover(opened)
        if fetching.mover is not None:
            self._opening.catch_up(fetching)
        self._tell(opened)

    def _acting(self, opened: LocalRepository, command: str) -> LocalRepository:
        """Return a copy of a handle that records `command` in the operation log."""
        acting, lake = copy(opened), self.lake
        acting.lake = Lake(lake.home, lake.kv, opened.lake.runtime._replace(command=command))
        return acting

    def _tell(self, repository: Repository) -> None:
        """Pass the repository's pending notices to `Opening.notify`.

        All handles of a repository share one list of notices.
        """
        with suppress(IndexError):  # no more; another thread may have been faster
            while True:
                self._opening.notify(repository.notices.pop(0))

    @contextmanager
    def acting(self, name: str, *, client: Client, action: str) -> Iterator[Repository]:
        """Return a context manager with a repository for operations that change it.

        The operation log names the client and its action. At the end, moved refs are pushed to the
        bucket if the repository is shared automatically.

        Raises:
            NotFound: no repository of that name is served.
            Refused: the endpoint, or the repository, is read-only.
        """
        self.check_writable(name)
        acting = self._acting(self._find(name).opened, client.command(action))
        acting.mover = self._opening.mover(acting)
        try:
            yield acting
            if acting.mover is not None:
                acting.mover.finish(acting)
        finally:
            self._tell(acting)

    @contextmanager
    def view(self, name: str, ref: str) -> Iterator[View]:
        """Return a context manager with a view at a ref expression.

        Raises:
            NotFound: there is no such repository or ref.
            UsageError: the expression is malformed.
        """
        with open_view(self.repository(name), ref) as view:
            yield view._replace(tokens=()) if self.committed else view

    def writer(self, name: str, branch: str) -> BranchWriter:
        """Return the writer of a branch.

        Raises:
            NotFound: there is no such repository, or the name is not that of a branch.
            Refused: the endpoint, or the repository, is read-only.
        """
        self.check_writable(name)
        held = self._find(name)
        writer = held.writers.get(branch)
        if writer is None:
            check_branch(held.opened, branch)
            acting = partial(self._acting, held.opened)
            made = BranchWriter(acting, branch, elapsed=self._elapsed, memory=self._memory)
            with self._lock:  # another thread may have been faster
                writer = held.writers.get(branch) or made
                held.writers.put(branch, writer, 1)
        return writer

    def check_writable(self, name: str = "") -> None:
        """Check that a repository may be changed or, without a name, created.

        Raises:
            Refused: the endpoint is read-only, or the repository is read without a clone.
        """
        if self.read_only:
            raise Refused("this endpoint is read-only", hint="start another one that takes writes")
        if name in self._namespaces:
            raise Refused(
                f"{name} is read without a clone, so it is read-only",
                hint=f"clone it, and serve the clone: `clone {self._namespaces[name]} lakefs://NAME`",
            )

"""The open lakes of this process's file systems; a lake is opened when first needed.

A lake is the set of repositories of one home, and has one local store. A child process must not use
a local store that was opened before the fork. So lakes that are not in use are closed before each
fork, and parent and child open them again when needed. If another thread is using a lake during the
fork, using that lake in the child raises an error.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from lakecli.base.model import Entry
from lakecli.base.uri import SCHEME, LakeUri, check_no_password, parse_repository
from lakecli.opening import catch_up, open_lake, open_remote, open_repository, warn_of_notices
from lakecli.repository.contract import Repository
from lakecli.repository.handle.lake import Lake
from lakecli.repository.reading.recorded import locate
from lakecli.settings.home import chosen_home
from lakecli.stores.contract import ObjectStore


class _OpenLake:
    """A lake that is opened when first needed, with its open repositories.

    A repository that is read without a clone has its own lake and local store.

    Attributes:
        users: the number of ``with`` blocks that use the lake.
        is_replaced: whether to close the lake as soon as no block uses it.
    """

    def __init__(self, home: str | None, namespace: str | None) -> None:
        self.home = home
        self.users = 0
        self.is_replaced = False
        self.repositories: dict[str, Repository] = {}
        self._namespace = namespace
        self._lake: Lake | None = None
        self._opening = Lock()

    @property
    def lake(self) -> Lake:
        """The lake; while it is being opened, other threads can use other lakes."""
        with self._opening:
            if self._lake is not None:
                return self._lake
            if self._namespace is None:
                self._lake = open_lake(self.home, command="lakefs:// file system")
            else:
                remote = open_remote(self._namespace, home=self.home)
                self.repositories[self._namespace] = remote
                assert isinstance(remote.lake, Lake)
                self._lake = remote.lake
            return self._lake

    def close(self) -> None:
        """Close the lake, if it is open."""
        if self._lake is not None:
            self._lake.close()

    def repository(self, name: str, *, is_fresh: bool = False) -> Repository:
        """Return a repository.

        With automatic sync, the repository fetches from the bucket when this process first uses it,
        and with `is_fresh` also now.
        """
        lake = self.lake
        if self._namespace is not None:
            return self.repositories[self._namespace]
        found = lake.repository(name)
        known = self.repositories.get(name)
        if known is None or known.record != found.record:
            known = open_repository(lake, name, home=self.home)
            self.repositories[name] = known
        elif is_fresh:
            catch_up(known)
        return known


_open_lakes: dict[tuple[str, str | None], _OpenLake] = {}
"""The open lakes by home and, for a repository that is read without a clone, its namespace."""

_lock = Lock()


def home_of(given: str | None) -> str | None:
    """Return the given home, else ``LAKECLI_HOME``, else ``None`` for the default directories."""
    home = chosen_home(given, os.environ)
    return os.path.abspath(home) if home else None


@contextmanager
def repository(home: str | None, name: str, *, is_fresh: bool = False) -> Iterator[Repository]:
    """Keep a repository of a home open for a ``with`` block.

    Args:
        name: the name of the repository; or its storage namespace, to read it without a clone.
        is_fresh: fetch from the bucket even if this process has done so before.

    Raises:
        UsageError: the name is not valid.
        NotFound: the repository does not exist.
    """
    namespace = LakeUri(name).namespace
    if namespace is None:
        parse_repository(SCHEME + name)
    else:
        check_no_password(f"{name}@")
        if is_fresh:
            _replace(home, namespace)
    with lake(home, namespace) as held:
        found = held.repository(name, is_fresh=is_fresh)
        try:
            yield found
        finally:
            warn_of_notices(found)


@contextmanager
def located(home: str | None, name: str, entry: Entry) -> Iterator[tuple[ObjectStore, str]]:
    """Provide the store and the key of an entry's bytes for a ``with`` block.

    Raises:
        LakeError: the entry's address is not allowed, or cannot be read; see
            `lakecli.repository.reading.addresses.Resolver`.
    """
    with lake(home, LakeUri(name).namespace) as held:
        yield locate(held.repository(name), entry)


@contextmanager
def lake(home: str | None, namespace: str | None = None) -> Iterator[_OpenLake]:
    """Keep the lake of a home, or of a namespace without a clone, open for a ``with`` block."""
    key = home or "", namespace
    with _lock:
        held = _open_lakes.setdefault(key, _OpenLake(home, namespace))
        held.users += 1
    try:
        yield held
    finally:
        with _lock:
            held.users -= 1
            if held.is_replaced and not held.users:
                held.close()


def _replace(home: str | None, namespace: str) -> None:
    """Close a namespace that is read without a clone, so that the next use reads its refs again."""
    with _lock:
        held = _open_lakes.pop((home or "", namespace), None)
        if held is not None:
            held.is_replaced = True
            if not held.users:
                held.close()


def close_unused() -> None:
    """Close the lakes that are not in use; call this with `_lock` if other threads may run."""
    for key, held in list(_open_lakes.items()):
        if not held.users:
            del _open_lakes[key]
            held.close()


def _before_fork() -> None:
    _lock.acquire()
    close_unused()


def _after_fork_in_child() -> None:
    _inherited.extend(_open_lakes.values())  # not closed: they belong to the parent process
    _open_lakes.clear()
    _lock.release()


_inherited: list[_OpenLake] = []
os.register_at_fork(
    before=_before_fork, after_in_parent=_lock.release, after_in_child=_after_fork_in_child
)

"""The lakes that this process has open for its file systems; each is opened when first needed.

The local store must not be used across a fork. So lakes that are not in use are closed before each
fork, and parent and child open them again when needed. If another thread is using a lake during the
fork, that lake is unusable in the child and raises an error there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from lakecli.base.model import Entry
from lakecli.base.uri import SCHEME, parse_repository
from lakecli.opening import catch_up, open_lake, open_repository, warn_of_notices
from lakecli.repository.contract import Repository
from lakecli.repository.handle.lake import Lake
from lakecli.repository.reading.recorded import locate
from lakecli.settings.home import chosen_home
from lakecli.stores.contract import ObjectStore


class _OpenLake:
    """An open lake, the number of its users, and its open repositories."""

    def __init__(self, lake: Lake, home: str | None) -> None:
        self.lake = lake
        self.home = home
        self.users = 0
        self.repositories: dict[str, Repository] = {}

    def repository(self, name: str, *, is_fresh: bool = False) -> Repository:
        """Return a repository, caught up with the bucket where sync is automatic.

        That was done when this process first used it; with `is_fresh` it is done again now.
        """
        found = self.lake.repository(name)
        known = self.repositories.get(name)
        if known is None or known.record != found.record:
            known = open_repository(self.lake, name, home=self.home)
            self.repositories[name] = known
        elif is_fresh:
            catch_up(known)
        return known


_open_lakes: dict[str, _OpenLake] = {}
_lock = Lock()


def home_of(given: str | None) -> str | None:
    """Return the given home, or that of the environment; ``None``: the platform's directories."""
    home = chosen_home(given, os.environ)
    return os.path.abspath(home) if home else None


@contextmanager
def repository(home: str | None, name: str, *, is_fresh: bool = False) -> Iterator[Repository]:
    """Use a repository of a home.

    Args:
        home: of the lake.
        name: of the repository.
        is_fresh: catch up with the bucket even if this process has done so before.

    Raises:
        UsageError: the name is not valid.
        NotFound: the repository does not exist.
    """
    parse_repository(SCHEME + name)
    with lake(home) as held:
        found = held.repository(name, is_fresh=is_fresh)
        try:
            yield found
        finally:
            warn_of_notices(found)


@contextmanager
def located(home: str | None, name: str, entry: Entry) -> Iterator[tuple[ObjectStore, str]]:
    """Use the store and the key of an entry's bytes.

    Raises:
        NotFound: the repository does not exist.
        LakeError: the address may not or cannot be read; see
            `lakecli.repository.reading.addresses.Resolver`.
    """
    with lake(home) as held:
        yield locate(held.repository(name), entry)


@contextmanager
def lake(home: str | None) -> Iterator[_OpenLake]:
    """Use the lake of a home, opening it if it is not open."""
    key = home or ""
    with _lock:
        held = _open_lakes.get(key)
        if held is None:
            held = _open_lakes[key] = _OpenLake(
                open_lake(home, command="lakefs:// file system"), home
            )
        held.users += 1
    try:
        yield held
    finally:
        with _lock:
            held.users -= 1


def close_unused() -> None:
    """Close the lakes that are not in use; they are opened again when needed."""
    with _lock:
        _close_unused()


def _close_unused() -> None:
    for key, held in list(_open_lakes.items()):
        if not held.users:
            del _open_lakes[key]
            held.lake.close()


def _before_fork() -> None:
    _lock.acquire()
    _close_unused()


def _after_fork_in_parent() -> None:
    _lock.release()


def _after_fork_in_child() -> None:
    _inherited.extend(_open_lakes.values())  # kept open here, as they belong to the parent
    _open_lakes.clear()
    _lock.release()


_inherited: list[_OpenLake] = []
os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)

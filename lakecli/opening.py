"""Opening a lake and its repositories without a command line: the library, fsspec and Spark.

The settings are those of the command line, from the environment and the configuration file. Of
them the library uses ``cache.size``, ``cache.memory``, ``network.timeout``, ``network.min_rate``,
``sync``, ``trust.addresses``, those of what buckets demand (``s3.…``, ``gs.…``, ``az.…``), and
``profile``, ``endpoint`` and ``region`` of repositories, and ``user.name`` and ``user.email`` for
the shared reflog.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path

from lakecli.errors import LakeWarning, NotFound, Unreachable
from lakecli.remote.refs import MoveOutcome
from lakecli.repository.contract import Notice, Repository
from lakecli.repository.handle.lake import Lake, LocalRepository
from lakecli.repository.runtime import Home, Runtime
from lakecli.repository.sharing.automatic import SharedMover
from lakecli.repository.undo.remote_undo import put_back
from lakecli.settings.home import chosen_home, home_paths, read_file
from lakecli.settings.keys import parse_sync
from lakecli.settings.settings import Settings, committer


def open_lake(home: str | Path | None, *, command: str = "") -> Lake:
    """Open the lake of a home.

    Args:
        home: as ``LAKECLI_HOME``; ``None``: that variable, or the platform's directories.
        command: what the operation log says was done.

    Raises:
        UsageError: a malformed setting.
        PermissionDenied: the home cannot be written.
    """
    return Lake.open(_home(home), _runtime(home, command=command))


def _home(home: str | Path | None) -> Home:
    paths = home_paths(chosen_home(home, os.environ), os.environ)
    return Home(paths.store, paths.cache, *settings_of(home).cache_sizes)


def _runtime(home: str | Path | None, *, command: str) -> Runtime:
    return Runtime(
        clock=lambda: datetime.now(UTC),  # noqa: TID251 - what everything below is given
        new_id=lambda: os.urandom(16),
        command=command,
        trusted=lambda repository: settings_of(home).trusted(repository),
        account=lambda repository: settings_of(home).account(repository),
    )


def open_remote(storage_namespace: str, *, home: str | Path | None) -> LocalRepository:
    """Open the repository of a storage namespace for reading, without a clone.

    Args:
        storage_namespace: a URI or an absolute path.
        home: as `open_lake` takes it; only its cache is written.

    Raises:
        UsageError: an illegal namespace, or a malformed setting.
        NotFound: there is no repository in that namespace.
        Refused: it belongs to lakeFS, or needs a newer lakecli.
    """
    from lakecli.repository import open_remote

    return open_remote.open_remote(_home(home), _runtime(home, command=""), storage_namespace)


def open_repository(
    lake: Lake, name: str, *, home: str | Path | None, sync: str | None = None
) -> LocalRepository:
    """Return a handle to a repository, caught up with the bucket where sync is automatic.

    Args:
        home: as `open_lake` takes it.
        sync: ``auto`` or ``manual``; ``None``: what the settings say.

    Raises:
        UsageError: `sync` is another word, or a setting is malformed.
        NotFound: there is none of that name on this machine.
        PermissionDenied: the bucket may not be read.
    """
    settings = settings_of(home)
    syncs = settings.sync(name) if sync is None else parse_sync(sync)
    repository = lake.repository(name)
    if syncs and not repository.record.is_borrowed:
        who = partial(committer, settings, os.environ)
        repository.mover = SharedMover(lake.runtime.new_id(), who=who, put_back=put_back)
        catch_up(repository)
    return repository


def default_committer() -> str:
    """Return the committer of the settings, or of git, of the home that the environment names."""
    return committer(settings_of(None), os.environ)


def catch_up(repository: Repository) -> None:
    """Fetch, and push what earlier commands left, where sync is automatic.

    If the bucket cannot be reached, a notice says so and the state of the last fetch is used.

    Raises:
        PermissionDenied: the bucket may not be read.
    """
    if repository.mover is None:
        return
    try:
        caught_up = repository.mover.catch_up(repository)
    except (Unreachable, NotFound) as error:  # not found: a disk that is not mounted
        message = f"not fetched, this is as of the last time: {error.message}"
        repository.notify(Notice(message, error.hint))
        return
    for finished in caught_up.finished:
        if finished.state is MoveOutcome.LOST:
            repository.notify(Notice(finished.text()))
    for unsent in caught_up.unsent:
        repository.notify(Notice(unsent.message, unsent.hint))


def warn_of_notices(repository: Repository) -> None:
    """Turn the notices of a repository into Python warnings, and clear them."""
    while repository.notices:
        notice = repository.notices.pop(0)
        hint = "" if notice.hint is None else f"; {notice.hint}"
        warnings.warn(f"{notice.message}{hint}", LakeWarning, stacklevel=3)


def settings_of(home: str | Path | None) -> Settings:
    """Return the settings of a home as they are now; the file is parsed if it has changed."""
    file = home_paths(chosen_home(home, os.environ), os.environ).config

    def read() -> Mapping[str, str]:
        try:
            found = os.stat(file)
        except OSError:
            return read_file(file)
        return _read_once(file, (found.st_ino, found.st_size, found.st_mtime_ns))

    return Settings(flags={}, environ=os.environ, read_file=read, file=file)


@lru_cache(maxsize=8)
def _read_once(file: Path, version: tuple[int, ...]) -> Mapping[str, str]:
    """Return the settings of one version of a file: refused entries may ask for them each time."""
    del version
    return read_file(file)

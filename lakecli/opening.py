"""Opens a lake and its repositories for the library, fsspec and Spark, without a command line.

The settings come from the environment and the configuration file, as on the command line. The
library uses these settings: ``cache.size``, ``cache.memory``, ``network.timeout``,
``network.min_rate``, ``sync``, ``trust.addresses``; the settings for buckets (``s3.…``, ``gs.…``,
``az.…``); ``profile``, ``endpoint`` and ``region`` of repositories; and ``user.name`` and
``user.email`` for the shared reflog.
"""

import os
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path

from lakecli.errors import LakeWarning, NotFound, Unreachable
from lakecli.remote.refs import MoveOutcome
from lakecli.repository.contract import Repository
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
        home: the home directory of lakecli; ``None``: the value of the variable ``LAKECLI_HOME``,
            or the directories of the platform if the variable is not set.
        command: the command line that the operation log records.

    Raises:
        UsageError: a setting is malformed.
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
        home: as for `open_lake`; lakecli writes only to the cache of this home.

    Raises:
        UsageError: the namespace is not valid, or a setting is malformed.
        NotFound: there is no repository in that namespace.
        Refused: the repository belongs to lakeFS, or needs a newer lakecli.
    """
    from lakecli.repository import open_remote

    return open_remote.open_remote(_home(home), _runtime(home, command=""), storage_namespace)


def open_repository(
    lake: Lake, name: str, *, home: str | Path | None, sync: str | None = None
) -> LocalRepository:
    """Return a handle to a repository; with ``sync = auto``, fetch from the bucket first.

    Args:
        home: as for `open_lake`.
        sync: ``auto`` or ``manual``; ``None``: the value in the settings.

    Raises:
        UsageError: `sync` is neither ``auto`` nor ``manual``, or a setting is malformed.
        NotFound: there is no repository of that name on this machine.
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
    """Return the committer from the settings of the default home, else from Git, else user@host."""
    return committer(settings_of(None), os.environ)


def catch_up(repository: Repository) -> None:
    """With ``sync = auto``, fetch, and push the refs that earlier commands could not push.

    If the bucket cannot be reached, `Repository.notices` gets a message, and the state of the last
    fetch is used.

    Raises:
        PermissionDenied: the bucket may not be read.
    """
    if repository.mover is None:
        return
    try:
        caught_up = repository.mover.catch_up(repository)
    except (Unreachable, NotFound) as error:  # not found: a disk that is not mounted
        message = f"not fetched, this is as of the last time: {error.message}"
        repository.notify(message, error.hint)
        return
    for finished in caught_up.finished:
        if finished.state is MoveOutcome.LOST:
            repository.notify(finished.text())
    for unsent in caught_up.unsent:
        repository.notify(unsent.message, unsent.hint)


def warn_of_notices(repository: Repository) -> None:
    """Turn the notices of a repository into Python warnings, and clear them."""
    while repository.notices:
        notice = repository.notices.pop(0)
        hint = "" if notice.hint is None else f"; {notice.hint}"
        warnings.warn(f"{notice.message}{hint}", LakeWarning, stacklevel=3)


def settings_of(home: str | Path | None) -> Settings:
    """Return the current settings of a home; the file is parsed again only if it has changed."""
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
    """Return the settings in a configuration file; cached, because they may be needed very often.

    Args:
        version: identifies the version of the file, for the cache.
    """
    del version
    return read_file(file)

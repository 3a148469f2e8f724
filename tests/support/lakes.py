"""Lakes in a temporary directory, with a clock and IDs that are the same in every run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from lakecli.base.identity import blake3_of
from lakecli.base.layout import data_key
from lakecli.base.model import Entry
from lakecli.committed.values import encode_entry
from lakecli.repository import repo
from lakecli.repository.contract import Repository
from lakecli.repository.handle import housekeeping
from lakecli.repository.handle.lake import Lake, LocalRepository
from lakecli.repository.runtime import Home, Runtime
from lakecli.repository.staged.stager import Stager
from lakecli.staging.area import TOMBSTONE, ClaimedValue
from lakecli.stores.contract import ANY
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from lakecli.stores.contract import ObjectStore

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


class Ticking:
    """A clock that advances one second at every call."""

    def __init__(self, start: datetime = START) -> None:
        self.present = start

    def __call__(self) -> datetime:
        self.present += timedelta(seconds=1)
        return self.present


class Numbered:
    """IDs that look random and are the same in every run."""

    def __init__(self, seed: str = "") -> None:
        self._seed = seed
        self._count = 0

    def __call__(self) -> bytes:
        self._count += 1
        return blake2b(f"{self._seed}{self._count}".encode(), digest_size=16).digest()


def open_lake(
    directory: Path,
    *,
    clock: Callable[[], datetime] | None = None,
    new_id: Callable[[], bytes] | None = None,
    on_step: Callable[[str], None] = lambda _name: None,
) -> Lake:
    """Open the lake of a directory."""
    runtime = Runtime(clock or Ticking(), new_id or Numbered(), "test", on_step)
    return Lake.open(Home(directory / "store", directory / "cache"), runtime)


def make_repository(lake: Lake, directory: Path, *, range_entries: int = 16) -> Repository:
    """Create a repository in a directory, with small ranges, so that there are many."""
    return repo.create(lake, "demo", str(directory / "namespace"), range_entries=range_entries)


def through(repository: Repository, store: ObjectStore | None = None, **runtime: Any) -> Repository:
    """Return a handle to the same repository that has opened nothing yet.

    Args:
        repository: the repository.
        store: its storage namespace from now on, in place of the one that its record names.
        runtime: fields of the runtime to replace.
    """
    lake = repository.lake
    if store is not None:
        runtime["open_store"] = _opening(repository, store)
    changed = Lake(lake.home, lake.kv, lake.runtime._replace(**runtime))
    made = LocalRepository(changed, repository.record)
    made.mover = repository.mover
    return made


def serve(repository: Repository, store: ObjectStore) -> None:
    """Give a repository that has not opened its store another one."""
    assert repository.store_in_use is None
    lake = repository.lake
    lake.runtime = lake.runtime._replace(open_store=_opening(repository, store))


def _opening(repository: Repository, store: ObjectStore) -> Callable[[str, str], ObjectStore]:
    """Return what opens `store` for the namespace of a repository, and others as before."""
    others = repository.lake.runtime.open_store

    def open_store(uri: str, region: str) -> ObjectStore:
        return store if uri == repository.record.storage_namespace else others(uri, region)

    return open_store


def entry_of(contents: bytes, *, at: datetime = START) -> Entry:
    """Return the entry that an upload of these bytes would record."""
    digest = blake3_of(contents).hex()
    return Entry(data_key(digest), len(contents), digest, at, "text/plain")


def unclaimed(changes: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, ClaimedValue]]:
    """Return changes for staging without the guard: their objects may not exist."""
    return [(path, ClaimedValue(value)) for path, value in changes]


def stage(repository: Repository, branch: str, contents: Mapping[bytes, bytes | None]) -> None:
    """Stage contents by path, ``None`` for a deletion; write their data, uncounted."""
    for data in contents.values():
        if data is not None:
            _put_data(repository.store, data)
    stage_entries(
        repository,
        branch,
        {path: None if data is None else entry_of(data) for path, data in contents.items()},
    )


def _put_data(store: ObjectStore, data: bytes) -> None:
    key = data_key(blake3_of(data).hex())
    if isinstance(store, MemoryStore):
        MemoryStore.put(store, key, data, ANY)  # neither counted nor failed
    else:
        store.put(key, data, ANY)


def stage_entries(
    repository: Repository, branch: str, entries: Mapping[bytes, Entry | None]
) -> None:
    """Stage entries by path, ``None`` for a deletion; write no data."""
    changes = [
        (path, TOMBSTONE if entry is None else encode_entry(entry))
        for path, entry in sorted(entries.items())
    ]
    Stager(repository, branch).write(unclaimed(changes), kind="test")


def read(repository: Repository, ref: str) -> dict[bytes, str]:
    """Return the checksum at every path of a ref."""
    from lakecli.committed.values import decode_entry
    from lakecli.repository.reading.view import open_view

    with open_view(repository, ref) as view:
        return {path: decode_entry(value).checksum for path, value in view.scan()}


def checksums(contents: Mapping[bytes, bytes]) -> dict[bytes, str]:
    """Return what `read` returns for these contents."""
    return {path: blake3_of(data).hex() for path, data in contents.items()}


def let_pass(repository: Repository, clock: Ticking, time: timedelta) -> None:
    """Let time pass, with two readings a day apart, so that housekeeping trusts the clock."""
    clock.present += time
    housekeeping.tidy(repository)
    clock.present += timedelta(days=1)

"""Requests and bytes of reading one object from a bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakecli.base.layout import data_key
from lakecli.committed.values import encode_entry
from lakecli.repository.commit import commit
from lakecli.repository.reading.contents import read_object
from lakecli.repository.repo import DEFAULT_RANGE_ENTRIES
from lakecli.repository.staged.stager import Stager
from lakecli.repository.stat import stat
from lakecli.stores.contract import ANY
from tests.support.lakes import entry_of, make_repository, open_lake, through, unclaimed
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.repository.contract import Repository

ENTRIES = 100_000
"""A million objects would add only 27 kB of metarange."""

MAX_REQUESTS = 5
MAX_BYTES = 1_000_000


class CountingStore(MemoryStore):
    """A bucket that counts requests and bytes."""

    requests = 0
    answered = 0

    def get(
        self, key: str, *, start: int = 0, length: int | None = None, matching: str = ""
    ) -> bytes:
        self.requests += 1
        body = super().get(key, start=start, length=length, matching=matching)
        self.answered += len(body)
        return body

    def head(self, key: str) -> Any:
        self.requests += 1
        return super().head(key)

    def open(self, key: str, *, matching: str = "") -> Any:
        self.requests += 1
        body = super().open(key, matching=matching)
        self.answered += body.seek(0, 2)
        body.seek(0)
        return body


def path_of(number: int) -> bytes:
    return b"tables/events/day=%03d/part-%08d.parquet" % (number % 365, number)


def use(repository: Repository, store: MemoryStore, cache: Path) -> Repository:
    """Return a handle to a repository in this bucket, with nothing cached."""
    made = through(repository, store)
    made.lake.home = made.lake.home._replace(cache=cache)
    return made


def test_reading_one_object_takes_few_requests_and_little_of_each(tmp_path: Path) -> None:
    store = CountingStore()
    with open_lake(tmp_path) as lake:
        repository = make_repository(lake, tmp_path, range_entries=DEFAULT_RANGE_ENTRIES)
        repository = use(repository, store, tmp_path / "cache 1")
        wanted = entry_of(b"what is wanted")
        store.put(data_key(wanted.checksum), b"what is wanted", ANY)
        value = encode_entry(wanted)
        paths = sorted(map(path_of, range(ENTRIES)))
        Stager(repository, "main").write(unclaimed([(path, value) for path in paths]), kind="test")
        commit(repository, "main", message="many", committer="me")

        repository = use(repository, store, tmp_path / "cache 2")
        store.requests = store.answered = 0
        entry = stat(repository, "main", path_of(77_777))
        assert b"".join(read_object(repository, entry)) == b"what is wanted"
        assert store.requests <= MAX_REQUESTS
        assert store.answered <= MAX_BYTES

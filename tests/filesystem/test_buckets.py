"""The file system on a bucket: only the requested bytes are read."""

from __future__ import annotations

import os
import urllib.request
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from lakecli.base.model import Entry
from lakecli.cli.context import system_now
from lakecli.filesystem import LakeFileSystem, lakes
from lakecli.repository import repo
from lakecli.repository.reading.addresses import remember
from lakecli.repository.staged.stager import stage_entry
from lakecli.stores.contract import ANY
from lakecli.stores.registry import open_store
from tests.support.lakes import serve, through
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from collections.abc import Iterator

MAIN = "lakefs://cloud/main"


class Counting:
    """A store that counts the bytes that are read from it."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.size = 0
        self.requests = 0

    def get(self, key: str, **part: Any) -> bytes:
        data: bytes = self._store.get(key, **part)
        self.size += len(data)
        self.requests += 1
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.fixture
def bucket(moto_endpoint: str, aws_environment: pytest.MonkeyPatch) -> str:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    return new_bucket(moto_endpoint)


@pytest.fixture
def counting(bucket: str, fs: LakeFileSystem) -> Iterator[Counting]:
    """The store of a repository in the bucket; what is read from it is counted."""
    with lakes.lake(fs.home) as held:
        repo.create(held.lake, "cloud", f"s3://{bucket}/lake")
        repository = held.repository("cloud")
        counting = Counting(through(repository).store)
        serve(repository, counting)
        yield counting


def test_only_requested_parts_are_read(fs: LakeFileSystem, counting: Counting) -> None:
    data = os.urandom(9 << 20)
    fs.pipe_file(f"{MAIN}/data", data)
    with fs.open(f"{MAIN}/data", block_size=1 << 16) as file:
        file.seek(5 << 20)
        assert file.read(1000) == data[5 << 20 :][:1000]
        file.seek(-1000, 2)
        assert file.read() == data[-1000:]
    assert counting.requests == 2
    assert counting.size < 3 << 16
    counting.size = counting.requests = 0
    assert fs.cat_ranges([f"{MAIN}/data"] * 3, [0, 99, 9_000_000], [10, 200, 9_000_001]) == [
        data[:10],
        data[99:200],
        data[9_000_000:9_000_001],
    ]
    assert (counting.requests, counting.size) == (3, 10 + 101 + 1)
    assert fs.cat_file(f"{MAIN}/data") == data


def test_one_column_of_a_table(fs: LakeFileSystem, counting: Counting) -> None:
    columns = {f"c{number}": os.urandom(1 << 20).hex(" ").split() for number in range(4)}
    with fs.committing(MAIN, "a table"):
        pd.DataFrame(columns).astype("category").to_parquet(f"{MAIN}/t.parquet")
    size = fs.size(f"{MAIN}/t.parquet")
    counting.size = 0
    with fs.open(f"{MAIN}@/t.parquet", cache_type="none") as file:
        found = pd.read_parquet(file, columns=["c2"])
    assert list(found["c2"]) == columns["c2"]
    assert counting.size < size / 3


def test_a_url_that_anybody_can_read(fs: LakeFileSystem, counting: Counting) -> None:
    fs.pipe_file(f"{MAIN}/a.csv", b"a,b\n")
    url = fs.sign(f"{MAIN}/a.csv", expiration=60)
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"a,b\n"
        assert answer.headers["content-type"] == "text/csv"
    assert counting.requests == 0


def test_objects_in_another_bucket(
    fs: LakeFileSystem, counting: Counting, moto_endpoint: str
) -> None:
    other = new_bucket(moto_endpoint)
    etag = open_store(f"s3://{other}/some").put("key with spaces", b"0123456789", ANY)
    address = f"s3://{other}/some/key with spaces"
    entry = Entry(address, 10, str(etag), system_now(), "text/plain")
    with lakes.repository(fs.home, "cloud") as repository:
        stage_entry(repository, "main", b"imported", entry)
        remember(repository, [f"s3://{other}"])
    assert fs.cat_file(f"{MAIN}/imported", 2, 5) == b"234"
    assert fs.cat_file(f"{MAIN}/imported") == b"0123456789"
    assert counting.requests == 0

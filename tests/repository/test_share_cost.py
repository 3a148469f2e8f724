"""What sharing costs: the requests that each verb sends, pinned, so that more of them are noticed.

A bucket is far away: each request is some ten milliseconds, and most wait for the one before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.objectstore.base import ANY
from lakecli.objectstore.memory.store import MemoryBucket
from lakecli.repository.commit import commit
from lakecli.repository.push import PushOptions, push
from lakecli.repository.sharing.fetch import fetch
from tests.support.clones import Clones, make_commit, synced
from tests.support.counting import CountingStore
from tests.support.lakes import stage, through

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.repository.core.lake import Repository

ME = PushOptions(who="Me <me@example.com>")


@pytest.fixture
def clones(tmp_path: Path) -> Iterator[tuple[Repository, ...]]:
    """Two clones that have pushed and fetched before, on a bucket that counts requests."""
    with Clones.make(tmp_path, "one", "two") as made:
        bucket = MemoryBucket()
        files = made.repositories[0].store
        repositories = tuple(through(each, CountingStore(bucket)) for each in made.repositories)
        one, two = repositories
        for info in files.list():
            one.store.put(info.key, files.get(info.key), ANY)
        make_commit(one, b"a")
        push(one, "main", options=ME)
        fetch(two)
        make_commit(two, b"b", "main")
        yield repositories


def sent(repository: Repository) -> dict[str, int]:
    """Return the requests since the last call, by kind."""
    store = repository.store
    assert isinstance(store, CountingStore)
    counts = dict(store.counts)
    store.reset()
    return counts


def test_fetch_with_nothing_new_takes_few_requests(clones: tuple[Repository, ...]) -> None:
    _, two = clones
    sent(two)
    fetch(two)
    # repository.json and the state of garbage collection; refs.
    assert sent(two) == {"get": 2, "list": 1}


def test_fetch_of_one_commit_takes_few_requests(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    make_commit(one, b"c")
    push(one, "main", options=ME)
    sent(two)
    fetch(two)
    assert sent(two) == {"get": 4, "list": 1}


def test_push_of_one_commit_takes_few_requests(clones: tuple[Repository, ...]) -> None:
    one, _ = clones
    make_commit(one, b"c")
    sent(one)
    push(one, "main", options=ME)
    # What the repository is, twice; the ref before and behind its pack; collection, twice. Its
    # range, its metarange and its young object are looked for.
    assert sent(one) == {"get": 6, "head": 3, "list": 1, "put": 2}
    push(one, "main", options=ME)
    assert sent(one) == {"get": 2}


def test_a_commit_with_automatic_sync_takes_few_requests(clones: tuple[Repository, ...]) -> None:
    one, _ = clones
    sharing = synced(one, "me")
    make_commit(sharing.repository, b"b")  # as all others here, the handle was used before
    stage(sharing.repository, "main", {b"c": b"c"})
    sent(one)
    sharing.catch_up()
    assert sent(one) == {"get": 2, "list": 1}
    commit(sharing.repository, "main", message="shared", committer="me")
    assert sent(one) == {"get": 6, "head": 3, "list": 1, "put": 4}
    sharing.finish()
    assert sent(one) == {}

"""What sharing costs: the requests that each verb sends, pinned, so that more of them are noticed.

A bucket is far away: each request is some ten milliseconds, and most wait for the one before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.repository import branch, repo
from lakecli.repository.clone import clone
from lakecli.repository.commit import commit
from lakecli.repository.push import Pushing, PushOptions, push, push_all
from lakecli.repository.sharing.fetch import fetch
from lakecli.repository.sharing.references import SAMPLE
from lakecli.repository.sharing.set_policy import set_policy
from lakecli.stores.contract import ANY
from tests.support.clones import RANGE_ENTRIES, Clones, machine, make_commit, synced
from tests.support.counting import CountingStore
from tests.support.lakes import stage, through
from tests.support.memory_store import MemoryBucket

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository

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
    # The state of garbage collection; refs.
    assert sent(two) == {"get": 1, "list": 1}


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
    # What the repository is, twice; what tests of the store have shown; the ref before and behind
    # its pack; collection, twice; the rules. Its range, its metarange and its young object are
    # looked for.
    assert sent(one) == {"get": 8, "head": 3, "list": 1, "put": 2}
    push(one, "main", options=ME)
    assert sent(one) == {"get": 2}


def test_push_of_a_new_branch_reads_it_twice(clones: tuple[Repository, ...]) -> None:
    one, _ = clones
    branch.create(one, "new", source="main")
    sent(one)
    push(one, "new", options=ME)
    # What the repository is, twice; what tests of the store have shown; the missing ref,
    # twice; collection, twice; main, where it stood when this clone pushed it; the rules, before
    # and behind the creation.
    assert sent(one) == {"get": 9, "put": 1}


def test_a_push_under_rules_takes_no_more_requests_and_a_local_command_none(
    clones: tuple[Repository, ...],
) -> None:
    one, two = clones
    set_policy(two, "[[rules]]\nrefs = ['main']\nforbid = ['rewind']", who="me")
    fetch(one)
    sent(one)
    stage(one, "main", {b"c": b"c"})
    local = sent(one)
    commit(one, "main", message="c", committer="me")
    assert "get" not in local
    assert "get" not in sent(one)
    push(one, "main", options=ME)
    assert sent(one) == {"get": 8, "head": 3, "list": 1, "put": 2}
    fetch(two)
    sent(two)
    fetch(two)
    assert sent(two) == {"get": 1, "list": 1}


def test_a_clone_of_many_branches_reads_each_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = CountingStore()
    registry = "lakecli.stores.registry"
    monkeypatch.setattr(f"{registry}.open_store", lambda _uri, **_: store)
    monkeypatch.setattr(f"{registry}.prepare_namespace", lambda _uri, **_: "")
    with machine(tmp_path, "one") as one, machine(tmp_path, "two") as two:
        first = repo.create(one, "demo", "s3://bucket/ns", range_entries=RANGE_ENTRIES)
        make_commit(first, b"a")
        for number in range(199):
            branch.create(first, f"b{number}", source="main")
        store.reset()
        push_all(first, ME)
        # One in the beginning, and the packs: not the refs once more for each branch.
        assert store.counts["list"] == 2
        store.reset()
        clone(two, "s3://bucket/ns", "demo")
        # What the repository is, the state of collection, and the pack; the refs.
        assert dict(store.counts) == {"get": 200 + 3, "list": 1}
        made = len(list(branch.iter_branches(two.repository("demo"))))
        assert made == 200


def test_a_push_of_many_branches_with_recent_objects_lists_the_refs_once(
    clones: tuple[Repository, ...],
) -> None:
    one, _ = clones
    for number in range(4):
        name = f"b{number}"
        branch.create(one, name, source="main")
        stage(one, name, {b"%d-%d" % (number, each): b"%d" % each for each in range(SAMPLE + 1)})
        commit(one, name, message="many", committer="me")
    sent(one)
    report = push_all(one, ME)
    assert len([each for each in report.pushed if each.state is Pushing.CREATED]) == 4
    # The refs before the first push; all packs before each one.
    assert sent(one)["list"] == 1 + 4


def test_a_commit_with_automatic_sync_takes_few_requests(clones: tuple[Repository, ...]) -> None:
    one, _ = clones
    sharing = synced(one, "me")
    make_commit(sharing.repository, b"b")  # as all others here, the handle was used before
    stage(sharing.repository, "main", {b"c": b"c"})
    sent(one)
    sharing.catch_up()
    assert sent(one) == {"get": 1, "list": 1}
    commit(sharing.repository, "main", message="shared", committer="me")
    assert sent(one) == {"get": 8, "head": 3, "list": 1, "put": 4}
    sharing.finish()
    assert sent(one) == {}

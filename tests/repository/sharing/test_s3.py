"""Sharing through an S3 server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from lakecli.base import layout
from lakecli.cli.context import system_now
from lakecli.errors import LostRace, NotFound
from lakecli.repository import branch, repo, tag
from lakecli.repository.clone import clone
from lakecli.repository.handle.shareable import ClockOff
from lakecli.repository.pull import Pulling, PullOptions, pull
from lakecli.repository.push import PushOptions, push, push_all, push_deletion
from lakecli.stores.contract import ANY, BucketNotFound
from tests.support.clones import machine, make_commit
from tests.support.lakes import checksums, entry_of, read
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.repository.contract import Repository

ME = PushOptions(who="Me <me@example.com>")


@pytest.fixture
def namespace(moto_endpoint: str, aws_environment: pytest.MonkeyPatch) -> str:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    return f"s3://{new_bucket(moto_endpoint)}/lake"


def test_three_machines_share_a_day_of_work(tmp_path: Path, namespace: str) -> None:
    with ExitStack() as stack:
        lakes = [
            stack.enter_context(machine(tmp_path, name, clock=system_now))
            for name in ("one", "two", "three")
        ]
        one = repo.create(lakes[0], "demo", namespace, range_entries=16)
        two, three = (clone(lake, namespace, "demo") for lake in lakes[1:])
        repositories = (one, two, three)
        for number, repository in enumerate(repositories):
            contents = b"%d" % number
            repository.store.put(entry_of(contents).physical_address, contents, ANY)
            make_commit(repository, contents)

        def share(repository: Repository) -> bool:
            try:
                push(repository, "main", options=ME)
            except LostRace:
                return False
            return True

        with ThreadPoolExecutor(3) as pool:
            assert sorted(pool.map(share, repositories)) == [False, False, True]
        for repository in repositories:
            pull(repository, "main", PullOptions("me"))
            push(repository, "main", options=ME)
        branch.create(one, "side", source="main")
        tag.create(one, "v1", "main")
        push_all(one, ME)
        push_deletion(one, "side", options=ME)
        everything = checksums({b"0": b"0", b"1": b"1", b"2": b"2"})
        for repository in (two, three):
            last = pull(repository, "main", PullOptions("me"))
            assert last.state in (Pulling.UP_TO_DATE, Pulling.FAST_FORWARD)
        pull(one, "main", PullOptions("me"))
        heads = {branch.show(each, "main").commit_id for each in repositories}
        assert len(heads) == 1

        with machine(tmp_path, "new", clock=system_now) as lake:
            again = clone(lake, namespace, "demo")
            assert branch.show(again, "main").commit_id in heads
            assert [each.name for each in branch.iter_branches(again)] == ["main"]
            assert read(again, "v1").items() <= everything.items()
            assert read(again, "main") == everything


def test_a_missing_bucket_is_reported(
    tmp_path: Path, moto_endpoint: str, aws_environment: pytest.MonkeyPatch
) -> None:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    with machine(tmp_path, "one") as lake:
        with pytest.raises(BucketNotFound):
            clone(lake, "s3://no-such-bucket-anywhere/ns", "demo")
        bucket = new_bucket(moto_endpoint)
        with pytest.raises(NotFound, match="no repository in"):
            clone(lake, f"s3://{bucket}/ns", "demo")


def test_a_wrong_clock_is_reported(tmp_path: Path, namespace: str) -> None:
    with machine(tmp_path, "one") as lake:
        repository = repo.create(lake, "demo", namespace, range_entries=16)
        make_commit(repository, b"a")
        with pytest.raises(ClockOff, match=r"clock is [0-9]+ days behind"):
            push(repository, "main", options=ME)
        assert list(repository.store.list(layout.REFS)) == []

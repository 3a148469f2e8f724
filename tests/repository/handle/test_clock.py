"""Every command that writes dates reports a clock far from the store's."""

from __future__ import annotations

from datetime import timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING

import pytest

from lakecli.repository import branch, repo, tag
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.push import PushOptions, push
from lakecli.stores.responses import ServerDate
from tests.support.clones import machine, make_commit
from tests.support.lakes import START, through

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository
    from tests.support.faulty import FaultyStore


@pytest.fixture
def repository(tmp_path: Path, bucket: FaultyStore) -> Iterator[Repository]:
    assert bucket is not None
    with machine(tmp_path, "one") as lake:
        yield repo.create(lake, "demo", "s3://bucket/ns", range_entries=16)


def set_date(store: FaultyStore, ahead: timedelta) -> None:
    date = ServerDate(clock=lambda: 0.0)
    date.note(format_datetime(START + ahead, usegmt=True))
    store.server_date = date  # type: ignore[attr-defined]


def told(repository: Repository) -> list[str]:
    found = [f"{each.message}; {each.hint}" for each in repository.notices]
    repository.notices.clear()
    return found


@pytest.mark.parametrize(
    ("hours", "words"),
    [(2, "2 hours behind"), (-5, "5 hours ahead of"), (24 * 365 * 54, "19710 days behind")],
)
def test_every_command_that_writes_dates(
    hours: int, words: str, repository: Repository, bucket: FaultyStore
) -> None:
    set_date(bucket, timedelta(hours=hours))
    assert repository.store is not None  # it has answered a request
    commands: dict[str, Callable[[], object]] = {
        "commit": lambda: make_commit(repository, b"a"),
        "branch": lambda: branch.create(repository, "dev", source="main"),
        "commit to dev": lambda: make_commit(repository, b"b", "dev"),
        "merge": lambda: merge(repository, "dev", "main", MergeOptions("me")),
        "tag": lambda: tag.create(repository, "v1", "main"),
        "push": lambda: push(repository, "main", options=PushOptions(who="me")),
    }
    for name, run in commands.items():
        run()
        (line,) = told(repository)
        assert words in line, name
        assert "timedatectl" in line


@pytest.mark.parametrize("minutes", [0, 59, -59])
def test_a_small_clock_difference_is_accepted(
    minutes: int, repository: Repository, bucket: FaultyStore
) -> None:
    set_date(bucket, timedelta(minutes=minutes))
    make_commit(repository, b"a")
    assert told(repository) == []


def test_no_response_of_the_store_gives_no_clock_warning(repository: Repository) -> None:
    unused = through(repository)
    tag.create(unused, "v1", "main")
    assert told(unused) == []

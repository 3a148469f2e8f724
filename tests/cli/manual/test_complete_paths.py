"""The names in one directory: all within the limit, and a fair sample beyond it."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from lakecli.cli.manual import complete
from lakecli.cli.manual.complete import names_at
from lakecli.repository.commit import commit
from lakecli.repository.reading.view import open_view
from tests.support.lakes import entry_of, make_repository, open_lake, stage_entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository

ENTRY = entry_of(b"x")


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with open_lake(tmp_path) as lake:
        yield make_repository(lake, tmp_path)


def put(repository: Repository, paths: Iterable[str]) -> None:
    stage_entries(repository, "main", {each.encode(): ENTRY for each in paths})


def names(repository: Repository, prefix: str = "") -> list[str]:
    with open_view(repository, "main") as view:
        return list(map(os.fsdecode, names_at(view, os.fsencode(prefix))))


def expected(paths: Iterable[str], prefix: str) -> list[str]:
    found = set()
    for path in paths:
        if path.startswith(prefix):
            head, slash, _ = path[len(prefix) :].partition("/")
            found.add(prefix + head + slash)
    return sorted(found)


def test_names_are_those_of_commit_and_staging(repository: Repository) -> None:
    letters = random.Random(1)
    paths = {
        "/".join(
            letters.choice("abc") * letters.randint(1, 2) for _ in range(letters.randint(1, 4))
        )
        for _ in range(400)
    }
    put(repository, sorted(paths))
    commit(repository, "main", message="m", committer="c")
    gone = {path for path in paths if path.startswith(("a/", "bb/a")) or letters.random() < 0.1}
    new = {"zz/new", "a/new/x", "c!"}
    changes = {each.encode(): None for each in gone} | {each.encode(): ENTRY for each in new}
    stage_entries(repository, "main", changes)
    left = (paths - gone) | new
    for prefix in ("", "a", "a/", "a/b/", "bb/", "bb/a", "c", "z", "nothing"):
        assert names(repository, prefix) == expected(left, prefix)


def test_a_sample_has_no_longer_beginning_in_common_than_all(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [f"aa{at:03d}" for at in range(30)] + ["ab/x", "ab/y", "b"]
    put(repository, paths)
    commit(repository, "main", message="m", committer="c")
    monkeypatch.setattr(complete, "MAX_CANDIDATES", 10)
    found = names(repository)
    assert found == [*(f"aa{at:03d}" for at in range(10)), "aa010", "ab/", "b"]
    monkeypatch.setattr(complete, "MAX_CANDIDATES", 3)
    assert names(repository, "aa00") == ["aa000", "aa001", "aa002"]

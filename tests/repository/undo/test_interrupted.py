"""Answers that commands are still to give: one at a time, durable, and never believed blindly."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from lakecli.repository.undo import interrupted
from tests.support.disk import open_below

if TYPE_CHECKING:
    from lakecli.repository.contract import Repository

OPERATION = bytes(range(16))
COMMIT = "ab" * 32
MOVED = [
    {"kind": "branch", "name": "main", "before": COMMIT, "after": None},
    {"kind": "tag", "name": "v" * 1024, "before": None, "after": COMMIT},
]


def directory(repository: Repository) -> Path:
    return Path(os.fspath(repository.lake.home.store)) / "answers"


def begun(repository: Repository) -> interrupted.OwedAnswer:
    made = interrupted.begin(repository, OPERATION, MOVED)
    assert made is not None
    return made


def test_an_answer_is_taken_once_its_command_is_gone(repository: Repository) -> None:
    assert not interrupted.may_be_left(repository)
    assert interrupted.take_left(repository) == ([], set())
    made = begun(repository)
    assert interrupted.begin(repository, OPERATION, []) is None
    os.fstat(0)  # what was not opened is not closed
    assert interrupted.may_be_left(repository)
    assert interrupted.is_left(repository, OPERATION)
    assert not interrupted.is_left(repository, bytes(16))
    assert interrupted.take_left(repository) == ([], {OPERATION})  # its command runs
    made.leave()
    ((left,), owed) = interrupted.take_left(repository)
    assert (left.operation, left.moved(), owed) == (OPERATION, MOVED, set())
    assert interrupted.take_left(repository) == ([], {OPERATION})  # this process has taken it
    left.give()
    left.give()
    assert not interrupted.may_be_left(repository)


def test_answers_of_others_and_other_files_stay(repository: Repository) -> None:
    begun(repository).leave()
    (path,) = directory(repository).iterdir()
    others = [path.with_name(name) for name in (f"{path.name}z", f"other-{OPERATION.hex()}")]
    for other in others:
        other.touch()
    (left,), _ = interrupted.take_left(repository)
    assert left.operation == OPERATION
    left.give()
    assert sorted(directory(repository).iterdir()) == sorted(others)


def test_an_answer_that_was_given_meanwhile_is_not_taken(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(repository).leave()
    lock = fcntl.flock

    def give_first(descriptor: int, how: int) -> None:
        for each in directory(repository).iterdir():
            each.unlink()
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", give_first)
    assert interrupted.take_left(repository) == ([], set())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"moved": 1}',
        *(
            json.dumps({"moved": [MOVED[0] | damage]}).encode("ascii")
            for damage in (
                {"kind": "repository"},
                {"name": ""},
                {"name": "v" * 1025},
                {"before": "ab"},
                {"after": 1},
            )
        ),
    ],
)
def test_a_damaged_answer_names_no_refs(repository: Repository, content: bytes) -> None:
    begun(repository).leave()
    (path,) = directory(repository).iterdir()
    path.write_bytes(content)
    (left,), _ = interrupted.take_left(repository)
    assert left.moved() == []
    left.give()


def test_an_answer_is_durable_with_its_name(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    sync = os.fsync

    def record(descriptor: int) -> None:
        status = os.fstat(descriptor)
        synced.append((stat.S_ISDIR(status.st_mode), status.st_size > 0))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    made = begun(repository)
    assert [each for each in synced if not each[0]] == [(False, True)]
    assert synced[-1] == (True, True)
    assert open_below(directory(repository)) != []
    made.leave()
    made.leave()
    assert open_below(directory(repository)) == []
    (left,), _ = interrupted.take_left(repository)
    left.give()
    assert open_below(directory(repository)) == []


def test_a_command_whose_answer_cannot_be_recorded_goes_on(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> NoReturn:
        raise OSError("no locks")

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", refuse)
        assert interrupted.begin(repository, OPERATION, MOVED) is None
        assert not interrupted.may_be_left(repository)
        patch.undo()
        begun(repository).leave()
        patch.setattr(fcntl, "flock", refuse)
        assert interrupted.take_left(repository) == ([], set())
    for path in directory(repository).iterdir():
        path.unlink()
    directory(repository).rmdir()
    directory(repository).touch()
    assert interrupted.begin(repository, OPERATION, MOVED) is None
    assert not interrupted.may_be_left(repository)

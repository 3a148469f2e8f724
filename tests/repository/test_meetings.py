"""Two commands that move one branch meet on one machine: the result is that of some order.

One command is paused before a step that it announces, another one runs to its end, and the first
goes on. Both replies and the state have to be those of the two commands one after the other, in
either order. One that is told that it lost a race must have done nothing.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from itertools import count, product
from typing import TYPE_CHECKING, NamedTuple

import pytest

from lakecli.base.model import RefKind
from lakecli.engine.runner import LocalRunner
from lakecli.errors import ErrorKind, LakeError
from lakecli.imports.job import import_objects
from lakecli.imports.report import ImportOptions
from lakecli.imports.sources import DirectorySource
from lakecli.remote.refs import find_ref
from lakecli.repository import branch, repo
from lakecli.repository.cherry_pick import cherry_pick
from lakecli.repository.commit import commit
from lakecli.repository.handle.lake import LocalRepository
from lakecli.repository.log import LogOptions, log
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.revert import revert
from lakecli.repository.transfer.walk import LinkPolicy
from lakecli.repository.undo.undo import undo
from tests.support.clones import machine, synced
from tests.support.faulty import FaultyStore
from tests.support.lakes import read, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from _pytest.mark.structures import ParameterSet

    from lakecli.repository.contract import Repository


class Meeting:
    """A repository for two commands: main with three commits, and a branch."""

    def __init__(self, directory: Path, stack: ExitStack, *, shares: bool, staging: str) -> None:
        self.directory = directory
        self.shares = shares
        self._pause: tuple[int, Callable[[], None]] | None = None
        self.steps: list[str] = []
        self._listens = False
        lake = stack.enter_context(machine(directory, "ada", on_step=self._on_step))
        self.repository = repo.create(lake, "demo", "s3://bucket/ns", range_entries=16)
        stage(self.repository, "main", {b"a": b"1", b"b": b"1", b"c": b"1"})
        commit(self.repository, "main", message="base", committer="me")
        branch.create(self.repository, "side", source="main")
        stage(self.repository, "side", {b"side": b"1", b"b": b"2"})
        commit(self.repository, "side", message="side", committer="me")
        stage(self.repository, "main", {b"a": b"2"})
        self.second = commit(self.repository, "main", message="second", committer="me").id
        if shares:
            self.run(lambda _: branch.create(self.repository, "extra", source="main"))
            self.run(lambda repository: stage(repository, "main", {b"third": b"1"}))
            self.run(lambda repository: commit(repository, "main", message="3", committer="me"))
        if staging == "no change":
            stage(self.repository, "main", {b"b": None})
            stage(self.repository, "main", {b"b": b"1"})
        elif staging == "a change":
            stage(self.repository, "main", {b"staged": b"1"})
            stage(self.repository, "main", {b"b": b"mine"})

    def _on_step(self, name: str) -> None:
        if not self._listens:
            return
        self.steps.append(name)
        if self._pause is not None and len(self.steps) > self._pause[0]:
            act = self._pause[1]
            self._pause, self._listens = None, False
            act()
            self._listens = True

    def run(self, command: Callable[[Repository], object]) -> str:
        """Run a command like another process; return ``ok`` or the kind of its error."""
        process: Repository = LocalRepository(self.repository.lake, self.repository.record)
        try:
            if self.shares:
                sharing = synced(process, "somebody")
                process = sharing.repository
                sharing.catch_up()
            command(process)
            if self.shares:
                sharing.finish()
        except LakeError as error:
            return str(error.kind)
        return "ok"

    def run_with(
        self, command: Callable[[Repository], object], step: int, act: Callable[[], None]
    ) -> str:
        """Run a command, and call a function before its step of this number."""
        self.steps, self._pause, self._listens = [], (step, act), True
        try:
            return self.run(command)
        finally:
            self._listens = False

    def command(self, name: str) -> Callable[[Repository], object]:
        """Return one of `COMMANDS`, for `run`."""
        return partial(COMMANDS[name], self)

    def state(self) -> State:
        """Return the state after a last fetch."""
        if self.shares:
            assert self.run(lambda _: None) == "ok"
            ref = find_ref(self.repository.store, RefKind.BRANCH, "main")
            assert ref is not None
            assert ref.commit_id == branch.show(self.repository, "main").commit_id
        with log(self.repository, "main", LogOptions(first_parent=True)) as commits:
            messages = tuple(each.message for each in commits)
        return State(messages, read(self.repository, "main@"), read(self.repository, "main"))


class State(NamedTuple):
    """The contents of main that one clone sees."""

    messages: tuple[str, ...]
    committed: dict[bytes, str]
    visible: dict[bytes, str]


def _import(meeting: Meeting, repository: Repository) -> None:
    source = meeting.directory / "source"
    source.mkdir(exist_ok=True)
    (source / "one").write_bytes(b"imported")
    with LocalRunner() as runner:
        import_objects(
            repository,
            "main",
            b"imported",
            source=DirectorySource(bytes(source), LinkPolicy.FAIL, set()),
            runner=runner,
            committer="me",
            options=ImportOptions(),
        )


COMMANDS: dict[str, Callable[[Meeting, Repository], object]] = {
    "commit": lambda _, here: commit(here, "main", message="commit", committer="me"),
    "commit --allow-empty": lambda _, here: commit(
        here, "main", message="empty", committer="me", allow_empty=True
    ),
    "merge": lambda _, here: merge(here, "side", "main", MergeOptions("me")),
    "revert": lambda meeting, here: revert(here, "main", meeting.second, committer="me"),
    "cherry-pick": lambda _, here: cherry_pick(here, "side", "main", committer="me"),
    "import": _import,
    "branch reset": lambda _, here: branch.reset(here, "main"),
    "branch reset --object": lambda _, here: branch.reset_object(here, "main", b"b"),
    "undo": lambda _, here: undo(here),
}


class Case(NamedTuple):
    """Two commands, and the step at which the second one runs."""

    first: str
    second: str
    shares: bool
    staging: str

    def __str__(self) -> str:
        """Return the name of the test."""
        mode = "auto" if self.shares else "manual"
        return f"{self.first}+{self.second}, {mode}, {self.staging} staged"


class Result(NamedTuple):
    """The answers of the two commands, and the state after them."""

    first: str
    second: str
    state: State


def _cases() -> Iterator[ParameterSet]:
    """Yield all pairs; most run nightly, since the sample of `tests.meetings` has them too."""
    for first, second in product(COMMANDS, repeat=2):
        for staging in ("no", "no change", "a change"):
            quick = staging == "a change" and "commit" in (first, second)
            quick |= staging == "no change" and first == "merge"
            for shares in (False, True):
                case = Case(first, second, shares, staging)
                marks = () if quick else pytest.mark.nightly
                yield pytest.param(case, marks=marks, id=str(case))


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[ExitStack, Case], Meeting]:
    """Set the pair up again, in a new directory and bucket."""
    number = count()

    def make(stack: ExitStack, case: Case) -> Meeting:
        store = FaultyStore()
        registry = "lakecli.stores.registry"
        monkeypatch.setattr(f"{registry}.open_store", lambda _uri, **_: store)
        monkeypatch.setattr(f"{registry}.prepare_namespace", lambda _uri, **_: "")
        directory = tmp_path / str(next(number))
        directory.mkdir()
        return Meeting(directory, stack, shares=case.shares, staging=case.staging)

    return make


@pytest.mark.parametrize("case", list(_cases()))
def test_two_concurrent_commands_agree_with_a_serial_order(
    fresh: Callable[[ExitStack, Case], Meeting], case: Case
) -> None:
    def run(*names: str) -> tuple[list[str], State]:
        """Run commands one after the other."""
        with ExitStack() as stack:
            meeting = fresh(stack, case)
            return [meeting.run(meeting.command(name)) for name in names], meeting.state()

    def pause(step: int) -> tuple[Result | None, str]:
        """Run the second command before a step of the first, if there is one; name that."""
        with ExitStack() as stack:
            meeting = fresh(stack, case)
            replies: list[str] = []

            def meet() -> None:
                replies.append(meeting.run(meeting.command(case.second)))

            reply = meeting.run_with(meeting.command(case.first), step, meet)
            if not replies:
                return None, ""
            return Result(reply, replies[0], meeting.state()), meeting.steps[step]

    (one, other), forwards = run(case.first, case.second)
    (late, early), backwards = run(case.second, case.first)
    (alone,), without_second = run(case.first)
    (by_itself,), without_first = run(case.second)
    lost = str(ErrorKind.LOST_RACE)
    allowed = [
        Result(one, other, forwards),
        Result(early, late, backwards),
        Result(alone, lost, without_second),
        Result(lost, by_itself, without_first),
    ]
    wrong: list[str] = []
    for step in count():
        got, where = pause(step)
        if got is None:
            break
        if got not in allowed:
            wrong += [f"before {where}: got", str(got), "expected one of", *map(str, allowed)]
    assert step or alone != "ok", "the first command announces no step"
    assert not wrong, "\n".join(wrong)

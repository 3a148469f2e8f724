"""Random commands, as many undos, as many redos: the exact states before and after."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lakecli.base.model import MergeStrategy
from lakecli.committed.decisions import Decisions
from lakecli.errors import ConflictError, DirtyBranch, NotFound, NothingToDo, Refused
from lakecli.kv import operations as log
from lakecli.refs.ref_store import RefStore
from lakecli.repository import branch, repo, tag
from lakecli.repository.cherry_pick import cherry_pick
from lakecli.repository.commit import commit
from lakecli.repository.handle.lake import find_repository
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.mv import mv
from lakecli.repository.reading.view import view_of_branch
from lakecli.repository.revert import revert
from lakecli.repository.rm import rm, rm_trees
from lakecli.repository.staged.stager import Stager
from lakecli.repository.undo.log import find_undo, logged_repository, repository_at
from lakecli.repository.undo.undo import redo, restore, undo
from lakecli.staging import area
from tests.support.lakes import make_repository, open_lake, stage, unclaimed

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.repository.contract import Repository
    from lakecli.repository.handle.lake import Lake

NAMES = st.sampled_from(["main", "dev", "side"])
PATHS = st.sampled_from([b"a/1", b"a/2", b"a/3", b"b", b"long/" + b"x" * 600])
CONTENTS = st.sampled_from([b"x", b"y", b"z"])
PREDICTABLE = (NothingToDo, NotFound, Refused, ConflictError, DirtyBranch)


class State(NamedTuple):
    """The state of a repository: contents, positions of refs, and staging."""

    is_there: bool
    branches: dict[str, tuple[str, dict[bytes, bytes]]]
    tags: dict[str, str]


def state_of(repository: Repository) -> State:
    with repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        record = find_repository(txn, repository.name)
        return State(
            record is not None,
            {
                each.name: (
                    each.commit_id,
                    dict(view_of_branch(repository, txn, each.name).staged()),
                )
                for each in refs.iter_branches()
            },
            {each.name: each.commit_id for each in refs.iter_tags()},
        )


def check_reads(repository: Repository, expected: State) -> None:
    """Read single paths and parts of the staging, which agree with the whole."""
    with repository.lake.kv.read() as txn:
        for name, (_, staged) in expected.branches.items():
            view = view_of_branch(repository, txn, name)
            for path in staged.keys() | {b"a/1", b"nowhere"}:
                found = (area.get(txn, token, path) for token in view.tokens)
                assert next((each for each in found if each is not None), None) == staged.get(path)
            part = {path: value for path, value in staged.items() if b"a/2" <= path < b"a0"}
            assert dict(view.staged(prefix=b"a/", start=b"a/2")) == part
            assert all(area.is_empty(txn, token) for token in view.tokens) == (not staged)


def count_operations(repository: Repository) -> int:
    with repository.lake.kv.read() as txn:
        return log.last_sequence(txn, repository.key)


def undo_named(lake: Lake) -> None:
    undo(logged_repository(lake, "demo", wanted="undo"))


def redo_named(lake: Lake) -> None:
    redo(logged_repository(lake, "demo", wanted="redo"))


class UndoMachine(RuleBasedStateMachine):
    """Keeps the state before every operation, as editors keep their undo stack."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        root = Path(self.directory.name)
        self.lake = open_lake(root)
        self.repository = make_repository(self.lake, root)
        self.undoable: list[State] = []
        self.redoable: list[State] = []
        self.stagers: dict[str, Stager] = {}
        self.at: dict[bytes, State] = {}
        self.keep()
        for name in ("dev", "side"):
            self.create_branch(name=name, source="main")

    def teardown(self) -> None:
        try:
            self.back_and_forth()
        finally:
            self.lake.close()
            self.directory.cleanup()

    def keep(self) -> None:
        with self.lake.kv.read() as txn:
            newest = next(log.iter_operations(txn, self.repository.key))
        self.at[newest.id] = state_of(self.repository)

    def back_and_forth(self) -> None:
        """Check that undo and redo restore the exact states."""
        there = state_of(self.repository)
        before = list(self.undoable)
        for expected in reversed(self.undoable):
            undo_named(self.lake)
            assert state_of(self.repository) == expected
        for expected in [*before[1:], there] if before else []:
            redo_named(self.lake)
            assert state_of(self.repository) == expected
        for _ in before:
            undo_named(self.lake)
        assert state_of(self.repository) == (before[0] if before else there)

    def do(self, command: Callable[[], object]) -> None:
        """Run a command that may fail, and check that the log has it if it changed something."""
        before, count = state_of(self.repository), count_operations(self.repository)
        with suppress(*PREDICTABLE):
            command()
        made = count_operations(self.repository) - count
        assert made in (0, 1)
        if made:
            self.undoable.append(before)
            self.redoable.clear()
            self.keep()
        else:
            assert state_of(self.repository) == before

    @property
    def is_there(self) -> bool:
        return state_of(self.repository).is_there

    # -- commands ------------------------------------------------------------------------------

    @rule(name=NAMES, changes=st.dictionaries(PATHS, st.none() | CONTENTS, min_size=1))
    def stage(self, name: str, changes: dict[bytes, bytes | None]) -> None:
        self.do(lambda: stage(self.repository, name, changes))

    @rule(name=NAMES, path=PATHS, data=CONTENTS)
    def stage_in_parts(self, name: str, path: bytes, data: bytes) -> None:
        """Continue a long command, whatever others did since its last part."""
        from lakecli.committed.values import encode_entry
        from tests.support.lakes import entry_of

        stager = self.stagers.setdefault(name, Stager(self.repository, name))
        newest = count_operations(self.repository)
        before = state_of(self.repository)
        with suppress(NotFound):
            stager.write(unclaimed([(path, encode_entry(entry_of(data)))]), kind="long")
        if count_operations(self.repository) > newest:
            self.undoable.append(before)
        if state_of(self.repository) != before:
            self.redoable.clear()
            self.keep()

    @rule(name=NAMES, allow_empty=st.booleans())
    def commit(self, name: str, *, allow_empty: bool) -> None:
        self.do(
            lambda: commit(
                self.repository, name, message="m", committer="me", allow_empty=allow_empty
            )
        )

    @rule(name=NAMES, source=NAMES)
    def create_branch(self, name: str, source: str) -> None:
        self.do(lambda: branch.create(self.repository, name, source=source))

    @rule(name=NAMES)
    def delete_branch(self, name: str) -> None:
        self.do(lambda: branch.delete(self.repository, name))

    @rule(name=NAMES)
    def reset(self, name: str) -> None:
        self.do(lambda: branch.reset(self.repository, name))

    @rule(name=NAMES, prefix=st.sampled_from([b"", b"a/", b"long"]))
    def reset_prefix(self, name: str, prefix: bytes) -> None:
        self.do(lambda: branch.reset_prefix(self.repository, name, prefix))

    @rule(name=st.sampled_from(["v1", "v2"]), ref=NAMES, force=st.booleans())
    def create_tag(self, name: str, ref: str, *, force: bool) -> None:
        self.do(lambda: tag.create(self.repository, name, ref, force=force))

    @rule(name=st.sampled_from(["v1", "v2"]))
    def delete_tag(self, name: str) -> None:
        self.do(lambda: tag.delete(self.repository, name))

    @rule(source=NAMES, into=NAMES, strategy=st.sampled_from(list(MergeStrategy)))
    def merge(self, source: str, into: str, strategy: MergeStrategy) -> None:
        options = MergeOptions("me", decisions=Decisions(strategy))
        self.do(lambda: merge(self.repository, source, into, options))

    @rule(name=NAMES, ref=NAMES)
    def pick(self, name: str, ref: str) -> None:
        self.do(lambda: cherry_pick(self.repository, ref, name, committer="me"))

    @rule(name=NAMES)
    def revert(self, name: str) -> None:
        self.do(lambda: revert(self.repository, name, name, committer="me"))

    @rule(name=NAMES, path=PATHS)
    def remove(self, name: str, path: bytes) -> None:
        self.do(lambda: rm(self.repository, name, path))

    @rule(name=NAMES)
    def remove_tree(self, name: str) -> None:
        self.do(lambda: rm_trees(self.repository, name, [b"a"]))

    @rule(source=NAMES, name=NAMES, path=PATHS)
    def move(self, source: str, name: str, path: bytes) -> None:
        self.do(
            lambda: mv(
                self.repository, source_branch=source, source=path, branch=name, path=path + b"m"
            )
        )

    @rule()
    def delete_repository(self) -> None:
        self.do(lambda: repo.delete(self.lake, "demo"))

    @rule(pick=st.integers(0, 1000))
    def restore(self, pick: int) -> None:
        ids = sorted(self.at)
        wanted = ids[pick % len(ids)]
        self.do(lambda: restore(self.repository, wanted.hex()))
        assert state_of(self.repository) == self.at[wanted]

    @rule(pick=st.integers(0, 1000))
    def read_the_past(self, pick: int) -> None:
        ids = sorted(self.at)
        wanted = ids[pick % len(ids)]
        if self.at[wanted].is_there:
            then = repository_at(self.repository, wanted.hex())
            assert state_of(then) == self.at[wanted]
            check_reads(then, self.at[wanted])
        else:
            with pytest.raises(NotFound, match="no repository"):
                repository_at(self.repository, wanted.hex())

    # -- back and forth ------------------------------------------------------------------------

    @rule(times=st.integers(1, 4))
    def undo(self, times: int) -> None:
        for _ in range(min(times, len(self.undoable))):
            present = state_of(self.repository)
            undo_named(self.lake)
            self.redoable.append(present)
            assert state_of(self.repository) == self.undoable.pop()
            self.keep()

    @rule(times=st.integers(1, 4))
    def redo(self, times: int) -> None:
        if not self.redoable:
            with pytest.raises(NothingToDo):
                redo_named(self.lake)
        for _ in range(min(times, len(self.redoable))):
            self.undoable.append(state_of(self.repository))
            redo_named(self.lake)
            assert state_of(self.repository) == self.redoable.pop()
            self.keep()

    @invariant()
    def the_log_knows_what_comes_next(self) -> None:
        with self.lake.kv.read() as txn:
            target = find_undo(txn, self.repository)
        assert target is not None  # at least the creation of the repository


class LongUndoMachine(UndoMachine):
    """Run the model for some minutes."""


SHORT = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
UndoMachine.TestCase.settings = SHORT
LongUndoMachine.TestCase.settings = settings(SHORT, max_examples=800, stateful_step_count=60)

TestUndoLaw = UndoMachine.TestCase
TestLongUndoLaw = pytest.mark.nightly(pytest.mark.timeout(1800)(LongUndoMachine.TestCase))

"""Three clones of one bucket against a plain model: random commands, undo and redo."""

from __future__ import annotations

import tempfile
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from lakecli.errors import (
    AlreadyExists,
    ConflictError,
    DirtyBranch,
    NotFound,
    NothingToDo,
    Refused,
)
from lakecli.identity import h
from lakecli.model import CommitId, MergeStrategy, RefKind
from lakecli.refs.ref_store import RefStore
from lakecli.repository import branch, tag
from lakecli.repository.commit import StagedConflict, commit
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.pull import Pulling, PullOptions, pull
from lakecli.repository.push import Pushing, PushOptions, push, push_deletion
from lakecli.repository.sharing.fetch import fetch
from lakecli.repository.sharing.refusals import NonFastForward, StaleLease
from lakecli.repository.undo.undo import redo, undo
from tests.repository.test_model import Tree, changes_of, merged
from tests.support.clones import Clones
from tests.support.lakes import checksums, read, stage

if TYPE_CHECKING:
    from lakecli.repository.core.lake import Repository

CLONES = st.integers(0, 2)
BRANCHES = st.sampled_from(["main", "main", "dev", "side"])
TAGS = st.sampled_from(["v1", "v2"])
PATHS = st.integers(0, 12).map(lambda number: b"p/%02d" % number)
CONTENTS = st.sampled_from([b"x", b"y", b"z"])
CHANGES = st.dictionaries(PATHS, st.none() | CONTENTS, min_size=1, max_size=4)


@dataclass
class Local:
    """The model of a branch."""

    head: CommitId
    staged: dict[bytes, bytes | None] = field(default_factory=dict)


@dataclass
class Machine:
    """The model of a clone; `refs` before each operation is what `undo` restores."""

    branches: dict[str, Local] = field(default_factory=dict)
    tags: dict[str, CommitId] = field(default_factory=dict)
    tracked: dict[tuple[str, str], CommitId | None] = field(default_factory=dict)
    known: set[CommitId] = field(default_factory=set)

    @property
    def refs(self) -> tuple[dict[str, Local], dict[str, CommitId]]:
        return deepcopy((self.branches, self.tags))


class ThreeClones(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.clones = Clones.make(Path(self.directory.name), "ada", "bob", "eve")
        self.bucket: dict[tuple[str, str], CommitId | None] = {}
        self.trees: dict[CommitId, Tree] = {}
        self.parents: dict[CommitId, tuple[CommitId, ...]] = {}
        self.machines = [Machine() for _ in range(3)]
        self.before: list[list[tuple[dict[str, Local], dict[str, CommitId]]]] = [[], [], []]

    def teardown(self) -> None:
        self.clones.stack.close()
        self.directory.cleanup()

    @initialize()
    def start(self) -> None:
        for number, machine in enumerate(self.machines):
            head = branch.show(self.repository(number), "main").commit_id
            self.trees[head], self.parents[head] = {}, ()
            machine.branches["main"] = Local(head)
            machine.known.add(head)

    # -- the model ---------------------------------------------------------------------------

    def repository(self, number: int) -> Repository:
        return self.clones.repositories[number]

    def reaches(self, descendant: CommitId, ancestor: CommitId) -> bool:
        return ancestor in self.history(descendant)

    def history(self, commit_id: CommitId) -> set[CommitId]:
        found: set[CommitId] = set()
        waiting = [commit_id]
        while waiting:
            current = waiting.pop()
            if current not in found:
                found.add(current)
                waiting += self.parents[current]
        return found

    def best_bases(self, left: CommitId, right: CommitId) -> list[CommitId]:
        both = self.history(left) & self.history(right)
        return [
            each for each in both if not any(self.reaches(other, each) for other in both - {each})
        ]

    def effective(self, local: Local) -> dict[bytes, bytes | None]:
        head = self.trees[local.head]
        return {path: data for path, data in local.staged.items() if head.get(path) != data}

    def operation(self, number: int) -> None:
        """Record the state before the next operation."""
        self.before[number].append(self.machines[number].refs)

    def made(self, number: int, name: str, tree: Tree) -> None:
        """Add a commit that was just made."""
        repository, machine = self.repository(number), self.machines[number]
        head = branch.show(repository, name).commit_id
        with repository.lake.kv.read() as txn:
            self.parents[head] = RefStore(txn, repository.key).get_commit(head).parents
        self.trees[head] = tree
        machine.branches[name].head = head
        machine.known.add(head)

    def fetched(self, number: int) -> None:
        machine = self.machines[number]
        before = machine.refs
        for (kind, name), commit_id in self.bucket.items():
            is_new = machine.tracked.get((kind, name)) != commit_id
            machine.tracked[kind, name] = commit_id
            if commit_id is None:
                continue
            machine.known |= self.history(commit_id)
            # A tag that was deleted here does not come back.
            if kind is RefKind.TAG and is_new:
                machine.tags.setdefault(name, commit_id)
        if machine.tags != before[1]:
            self.before[number].append(before)

    def check(self, number: int) -> None:
        """Compare a clone with its model."""
        repository, machine = self.repository(number), self.machines[number]
        found = {each.name: each.commit_id for each in branch.iter_branches(repository)}
        assert found == {name: local.head for name, local in machine.branches.items()}
        assert {each.name: each.commit_id for each in tag.iter_tags(repository)} == machine.tags
        for name, local in machine.branches.items():
            tree = {**self.trees[local.head], **local.staged}
            expected = {path: data for path, data in tree.items() if data is not None}
            assert read(repository, name) == checksums(expected)

    # -- what is done here -------------------------------------------------------------------

    @rule(number=CLONES, name=BRANCHES, changes=CHANGES)
    def stage(self, number: int, name: str, changes: dict[bytes, bytes | None]) -> None:
        local = self.machines[number].branches.get(name)
        if local is None:
            return
        repository = self.repository(number)
        for data in changes.values():
            if data is not None:
                digest = h(data).hex()
                repository.store.put_new(f"data/{digest[:2]}/{digest[2:]}", data)
        self.operation(number)
        stage(repository, name, changes)
        local.staged.update(changes)
        self.check(number)

    @rule(number=CLONES, name=BRANCHES)
    def commit(self, number: int, name: str) -> None:
        local = self.machines[number].branches.get(name)
        if local is None:
            return
        repository = self.repository(number)
        if not self.effective(local):
            if local.staged:
                self.operation(number)  # what changes nothing is taken off the branch
                local.staged = {}
            with pytest.raises(NothingToDo):
                commit(repository, name, message="m", committer=str(number))
            self.check(number)
            return
        before = self.machines[number].refs
        try:
            commit(repository, name, message="m", committer=str(number))
        except StagedConflict as error:
            # Only a pull moves a head under staged changes, and it refuses conflicts.
            raise AssertionError(error.paths) from error
        self.before[number].append(before)
        tree = {**self.trees[local.head], **local.staged}
        local.staged = {}
        self.made(number, name, {path: data for path, data in tree.items() if data is not None})
        self.check(number)

    @rule(number=CLONES, name=BRANCHES, source=BRANCHES)
    def create_branch(self, number: int, name: str, source: str) -> None:
        machine = self.machines[number]
        if source not in machine.branches:
            return
        if name in machine.branches:
            with pytest.raises(AlreadyExists):
                branch.create(self.repository(number), name, source=source)
            return
        self.operation(number)
        branch.create(self.repository(number), name, source=source)
        machine.branches[name] = Local(machine.branches[source].head)
        self.check(number)

    @rule(number=CLONES, name=BRANCHES)
    def delete_branch(self, number: int, name: str) -> None:
        machine = self.machines[number]
        if name == "main" or name not in machine.branches:
            return
        self.operation(number)
        branch.delete(self.repository(number), name)
        del machine.branches[name]
        self.check(number)

    @rule(number=CLONES, name=TAGS, source=BRANCHES)
    def create_tag(self, number: int, name: str, source: str) -> None:
        machine = self.machines[number]
        if source not in machine.branches or name in machine.tags:
            return
        self.operation(number)
        tag.create(self.repository(number), name, source)
        machine.tags[name] = machine.branches[source].head
        self.check(number)

    @rule(number=CLONES, source=BRANCHES, name=BRANCHES)
    def merge(self, number: int, source: str, name: str) -> None:
        branches = self.machines[number].branches
        if source not in branches or name not in branches:
            return
        repository = self.repository(number)
        options = MergeOptions(str(number))
        if self.effective(branches[name]):
            with pytest.raises(DirtyBranch):
                merge(repository, source, name, options)
            return
        result = self.merged(branches[source].head, branches[name].head)
        if result is None:
            with pytest.raises((ConflictError, NothingToDo)):
                merge(repository, source, name, options)
            return
        self.operation(number)
        try:
            merge(repository, source, name, options)
        except NothingToDo:
            self.before[number].pop()
            return
        self.made(number, name, result)
        self.check(number)

    def merged(self, source: CommitId, destination: CommitId) -> Tree | None:
        """Merge two trees, with each of several best bases that gives a result.

        Which of several is taken is tested with the refs: here any is right.
        """
        trees = self.trees
        for base in self.best_bases(source, destination):
            result = merged(trees[base], trees[source], trees[destination], MergeStrategy.FAIL)
            if result is not None:
                return result
        return None

    # -- what is shared ----------------------------------------------------------------------

    @rule(number=CLONES)
    def fetch(self, number: int) -> None:
        fetch(self.repository(number))
        self.fetched(number)
        self.check(number)

    @rule(number=CLONES, name=BRANCHES)
    def push(self, number: int, name: str) -> None:
        machine = self.machines[number]
        options = PushOptions(str(number))
        if name not in machine.branches:
            with pytest.raises(NotFound):
                push(self.repository(number), name, kind=RefKind.BRANCH, options=options)
            return
        here, there = machine.branches[name].head, self.bucket.get((RefKind.BRANCH, name))
        if there is not None and there not in machine.known:
            self.fetched(number)  # to see whether the branch there is reached from here
        if there is not None and not self.related(here, there):
            with pytest.raises(NonFastForward):
                push(self.repository(number), name, kind=RefKind.BRANCH, options=options)
        else:
            pushed = push(self.repository(number), name, kind=RefKind.BRANCH, options=options)
            if there is None:
                assert pushed.state is Pushing.CREATED
            elif there == here:
                assert pushed.state is Pushing.UP_TO_DATE
            elif self.reaches(here, there):
                assert pushed.state is Pushing.UPDATED
            else:
                assert pushed.state is Pushing.BEHIND
            if pushed.state in (Pushing.CREATED, Pushing.UPDATED):
                self.bucket[RefKind.BRANCH, name] = here
        if (RefKind.BRANCH, name) in self.bucket:
            machine.tracked[RefKind.BRANCH, name] = self.bucket[RefKind.BRANCH, name]
        self.check(number)

    def related(self, left: CommitId, right: CommitId) -> bool:
        return self.reaches(left, right) or self.reaches(right, left)

    @rule(number=CLONES, name=TAGS)
    def push_tag(self, number: int, name: str) -> None:
        machine = self.machines[number]
        if name not in machine.tags:
            return
        here, there = machine.tags[name], self.bucket.get((RefKind.TAG, name))
        if there is not None and there not in machine.known:
            self.fetched(number)
        options = PushOptions(str(number))
        if there not in (None, here):
            with pytest.raises(AlreadyExists):
                push(self.repository(number), name, kind=RefKind.TAG, options=options)
        else:
            push(self.repository(number), name, kind=RefKind.TAG, options=options)
            self.bucket[RefKind.TAG, name] = here
        machine.tracked[RefKind.TAG, name] = self.bucket[RefKind.TAG, name]
        self.check(number)

    @rule(number=CLONES, name=BRANCHES)
    def push_deletion(self, number: int, name: str) -> None:
        machine = self.machines[number]
        there = self.bucket.get((RefKind.BRANCH, name))
        seen = machine.tracked.get((RefKind.BRANCH, name))
        options = PushOptions(str(number))
        if there is not None and there not in machine.known:
            self.fetched(number)
        if there is None:
            with pytest.raises(NotFound):
                push_deletion(self.repository(number), name, kind=RefKind.BRANCH, options=options)
        elif name == "main":
            with pytest.raises(Refused):
                push_deletion(self.repository(number), name, kind=RefKind.BRANCH, options=options)
        elif seen != there:
            with pytest.raises(StaleLease):
                push_deletion(self.repository(number), name, kind=RefKind.BRANCH, options=options)
        else:
            push_deletion(self.repository(number), name, kind=RefKind.BRANCH, options=options)
            self.bucket[RefKind.BRANCH, name] = None
            machine.tracked[RefKind.BRANCH, name] = None
        self.check(number)

    @rule(number=CLONES, name=BRANCHES)
    def pull(self, number: int, name: str) -> None:
        machine, repository = self.machines[number], self.repository(number)
        self.fetched(number)
        options = PullOptions(str(number))
        there = self.bucket.get((RefKind.BRANCH, name))
        if there is None:
            with pytest.raises(NotFound):
                pull(repository, name, options)
            self.check(number)
            return
        local = machine.branches.get(name)
        if local is None:
            self.operation(number)
            assert pull(repository, name, options).state is Pulling.CREATED
            machine.branches[name] = Local(there)
        elif self.reaches(local.head, there):
            state = pull(repository, name, options).state
            assert state is (Pulling.UP_TO_DATE if local.head == there else Pulling.AHEAD)
        elif self.reaches(there, local.head):
            self.pull_forward(number, name, local, there)
        else:
            self.pull_merge(number, name, local, there)
        self.check(number)

    def pull_forward(self, number: int, name: str, local: Local, there: CommitId) -> None:
        incoming = changes_of(self.trees[local.head], self.trees[there])
        meets = {
            path
            for path, data in local.staged.items()
            if path in incoming and incoming[path] != data
        }
        if meets:
            with pytest.raises(ConflictError) as caught:
                pull(self.repository(number), name, PullOptions(str(number)))
            assert set(caught.value.paths) == meets
            return
        self.operation(number)
        report = pull(self.repository(number), name, PullOptions(str(number)))
        assert report.state is Pulling.FAST_FORWARD
        local.head = there

    def pull_merge(self, number: int, name: str, local: Local, there: CommitId) -> None:
        repository, options = self.repository(number), PullOptions(str(number))
        if self.effective(local):
            with pytest.raises(DirtyBranch):
                pull(repository, name, options)
            return
        result = self.merged(there, local.head)
        if result is None:
            with pytest.raises(ConflictError):
                pull(repository, name, options)
            return
        self.operation(number)
        assert pull(repository, name, options).state is Pulling.MERGED
        self.made(number, name, result)

    # -- undo and redo -----------------------------------------------------------------------

    @rule(number=CLONES, again=st.booleans())
    def undo(self, number: int, *, again: bool) -> None:
        machine, repository = self.machines[number], self.repository(number)
        if not self.before[number]:
            return
        present, wanted = machine.refs, self.before[number][-1]
        try:
            undo(repository)
        except Refused:
            # A move that the bucket has seen is not undone.
            assert any(
                self.bucket.get((RefKind.BRANCH, name)) is not None
                or (RefKind.BRANCH, name) in machine.tracked
                for name in {*present[0], *wanted[0]}
            ) or any((RefKind.TAG, name) in machine.tracked for name in {*present[1], *wanted[1]})
            self.check(number)
            return
        machine.branches, machine.tags = deepcopy(wanted)
        self.check(number)
        if again:
            redo(repository)
            machine.branches, machine.tags = deepcopy(present)
            self.check(number)
        else:
            self.before[number].pop()


class ThreeClonesForLonger(ThreeClones):
    """Run the model for some minutes."""


SHORT = settings(
    max_examples=60,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
ThreeClones.TestCase.settings = SHORT
ThreeClonesForLonger.TestCase.settings = settings(SHORT, max_examples=300, stateful_step_count=60)

TestThreeClones = ThreeClones.TestCase
TestThreeClonesForLonger = pytest.mark.nightly(
    pytest.mark.timeout(1800)(ThreeClonesForLonger.TestCase)
)

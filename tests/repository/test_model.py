"""A repository against plain dicts: random commands, checked after every one."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from lakecli.errors import ConflictError, NothingToDo
from lakecli.identity import h
from lakecli.model import EMPTY_TREE, CommitId, MergeStrategy
from lakecli.repository import branch, tag
from lakecli.repository.cherry_pick import cherry_pick
from lakecli.repository.commit import commit
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.rev_parse import show_commit
from lakecli.repository.revert import revert
from tests.support.lakes import checksums, make_repository, open_lake, read, stage

Tree = dict[bytes, bytes]

PATHS = st.integers(0, 40).map(lambda number: b"p/%02d" % number)
CONTENTS = st.sampled_from([b"x", b"y", b"z"])


@dataclass
class ModelBranch:
    head: CommitId
    staged: dict[bytes, bytes | None] = field(default_factory=dict)


def changes_of(base: Tree, other: Tree) -> dict[bytes, bytes | None]:
    return {
        path: other.get(path)
        for path in base.keys() | other.keys()
        if base.get(path) != other.get(path)
    }


def merged(base: Tree, source: Tree, destination: Tree, strategy: MergeStrategy) -> Tree | None:
    """The merge table of the specification; ``None`` for a conflict."""
    result = dict(destination)
    for path, wanted in changes_of(base, source).items():
        present = destination.get(path)
        if present not in (base.get(path), wanted):
            if strategy is MergeStrategy.FAIL:
                return None
            if strategy is MergeStrategy.DEST_WINS:
                continue
        if wanted is None:
            result.pop(path, None)
        else:
            result[path] = wanted
    return result


class RepositoryMachine(RuleBasedStateMachine):
    branches = Bundle("branches")
    tags = Bundle("tags")

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        root = Path(self.directory.name)
        self.lake = open_lake(root)
        self.repository = make_repository(self.lake, root)
        self.trees: dict[CommitId, Tree] = {}
        self.parents: dict[CommitId, tuple[CommitId, ...]] = {}
        self.model: dict[str, ModelBranch] = {}
        self.named = 0
        # Equal contents have equal IDs, whatever the history.
        self.names_of_trees: dict[frozenset[tuple[bytes, bytes]], str] = {}

    def teardown(self) -> None:
        self.lake.close()
        self.directory.cleanup()

    def record(self, name: str, tree: Tree) -> None:
        made = show_commit(self.repository, name)
        self.trees[made.id] = tree
        self.parents[made.id] = made.parents
        self.model[name].head = made.id
        self.model[name].staged = {}  # what equalled the head before goes with it
        expected = self.names_of_trees.setdefault(frozenset(tree.items()), made.metarange_id)
        assert made.metarange_id == expected
        assert (made.metarange_id == EMPTY_TREE) == (not tree)

    def effective(self, name: str) -> dict[bytes, bytes | None]:
        """Return the staged entries that differ from the head."""
        head = self.trees[self.model[name].head]
        staged = self.model[name].staged
        return {path: data for path, data in staged.items() if head.get(path) != data}

    def ancestors(self, commit_id: CommitId) -> set[CommitId]:
        found, waiting = set(), [commit_id]
        while waiting:
            current = waiting.pop()
            if current not in found:
                found.add(current)
                waiting += self.parents[current]
        return found

    @initialize(target=branches)
    def start(self) -> str:
        self.model["main"] = ModelBranch(CommitId("0" * 64))
        self.record("main", {})
        return "main"

    @rule(name=branches, changes=st.dictionaries(PATHS, st.none() | CONTENTS, min_size=1))
    def stage_changes(self, name: str, changes: dict[bytes, bytes | None]) -> None:
        stage(self.repository, name, changes)
        self.model[name].staged.update(changes)

    @rule(name=branches)
    def commit_staged(self, name: str) -> None:
        head = self.trees[self.model[name].head]
        if not self.effective(name):
            with pytest.raises(NothingToDo):
                commit(self.repository, name, message="m", committer="me")
            return
        commit(self.repository, name, message="m", committer="me")
        tree = {**head, **self.model[name].staged}
        self.record(name, {path: data for path, data in tree.items() if data is not None})

    @rule(target=branches, source=branches)
    def create_branch(self, source: str) -> str:
        self.named += 1
        name = f"branch-{self.named}"
        branch.create(self.repository, name, source=source)
        self.model[name] = ModelBranch(self.model[source].head)
        return name

    @rule(target=tags, source=branches)
    def create_tag(self, source: str) -> tuple[str, CommitId]:
        self.named += 1
        return f"v{self.named}", tag.create(self.repository, f"v{self.named}", source).commit_id

    @rule(name=branches)
    def reset(self, name: str) -> None:
        branch.reset(self.repository, name)
        self.model[name].staged = {}

    @rule(name=branches, prefix=st.sampled_from([b"", b"p/0", b"p/1", b"p/25", b"q"]))
    def reset_prefix(self, name: str, prefix: bytes) -> None:
        branch.reset_prefix(self.repository, name, prefix)
        staged = self.model[name].staged
        self.model[name].staged = {
            path: data for path, data in staged.items() if not path.startswith(prefix)
        }

    @rule(target=branches, name=consumes(branches))
    def delete_branch(self, name: str) -> object:
        if name == "main":
            return name
        branch.delete(self.repository, name)
        del self.model[name]
        return multiple()

    @rule(source=branches, destination=branches, strategy=st.sampled_from(list(MergeStrategy)))
    def merge_branches(self, source: str, destination: str, strategy: MergeStrategy) -> None:
        if source not in self.model or destination not in self.model or self.effective(destination):
            return
        from_id, into_id = self.model[source].head, self.model[destination].head
        bases = self.ancestors(from_id) & self.ancestors(into_id)
        best = [
            each
            for each in bases
            if not any(each in self.ancestors(other) for other in bases if other != each)
        ]
        if len(best) > 1:
            return  # the choice among several best bases is tested with the refs
        result = merged(self.trees[best[0]], self.trees[from_id], self.trees[into_id], strategy)
        options = MergeOptions("me", strategy=strategy)
        if self.trees[from_id] == self.trees[best[0]]:
            with pytest.raises(NothingToDo):
                merge(self.repository, source, destination, options)
        elif result is None:
            with pytest.raises(ConflictError):
                merge(self.repository, source, destination, options)
        else:
            made = merge(self.repository, source, destination, options)
            assert made.parents == (into_id, from_id)
            self.record(destination, result)

    @rule(name=branches, picked=branches)
    def pick(self, name: str, picked: str) -> None:
        if name not in self.model or picked not in self.model or self.effective(name):
            return
        commit_id = self.model[picked].head
        if len(self.parents[commit_id]) != 1:
            return
        before, after = self.trees[self.parents[commit_id][0]], self.trees[commit_id]
        head = self.trees[self.model[name].head]
        self.combine(name, merged(before, after, head, MergeStrategy.FAIL), "pick", commit_id)
        head = self.trees[self.model[name].head]
        self.combine(name, merged(after, before, head, MergeStrategy.FAIL), "revert", commit_id)

    def combine(self, name: str, result: Tree | None, verb: str, commit_id: CommitId) -> None:
        head = self.trees[self.model[name].head]
        with suppress(ConflictError, NothingToDo):
            if verb == "pick":
                cherry_pick(self.repository, commit_id, name, committer="me")
            else:
                revert(self.repository, name, commit_id, committer="me")
            assert result is not None
            assert result != head
            self.record(name, result)
            return
        assert result is None or result == head

    @rule(named=tags)
    def a_tag_stays(self, named: tuple[str, CommitId]) -> None:
        name, commit_id = named
        assert show_commit(self.repository, name).id == commit_id
        assert read(self.repository, name) == checksums(self.trees[commit_id])

    @invariant()
    def everything_reads_as_the_model_says(self) -> None:
        for name, each in self.model.items():
            head = self.trees[each.head]
            assert read(self.repository, f"{name}@") == checksums(head)
            with_staging = {**head, **each.staged}
            assert read(self.repository, name) == {
                path: h(data).hex() for path, data in with_staging.items() if data is not None
            }


class LongRepositoryMachine(RepositoryMachine):
    """Run the model for some minutes."""


SHORT = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
RepositoryMachine.TestCase.settings = SHORT
LongRepositoryMachine.TestCase.settings = settings(SHORT, max_examples=600, stateful_step_count=60)


TestRepositoryModel = RepositoryMachine.TestCase
TestLongRepositoryModel = pytest.mark.nightly(
    pytest.mark.timeout(1800)(LongRepositoryMachine.TestCase)
)

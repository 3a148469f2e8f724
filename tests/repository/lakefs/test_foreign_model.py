"""Random histories on trees that lakeFS cut, against plain dicts: what lakeFS and lakecli commit.

lakeFS cuts ranges elsewhere than lakecli, so every command meets trees of both. Entries of lakeFS
have other identities than those of lakecli for the same bytes; two uploads to lakeFS of the same
bytes have one identity, but differ in their records, of which either may be kept.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from lakecli.committed.encode import encode_entry
from lakecli.committed.values import identity_of
from lakecli.errors import ConflictError, NothingToDo
from lakecli.model import EMPTY_TREE, ChangeType, Commit, CommitId, Difference, MergeStrategy
from lakecli.refs.ref_store import RefStore
from lakecli.repository import branch
from lakecli.repository.cherry_pick import cherry_pick
from lakecli.repository.commit import commit
from lakecli.repository.core import staging_tokens
from lakecli.repository.core.commit_record import describe_commit
from lakecli.repository.core.stager import Stager
from lakecli.repository.core.view import open_view
from lakecli.repository.diff import diff_refs
from lakecli.repository.lakefs.lists import write_dump
from lakecli.repository.lakefs.restore import restore_refs
from lakecli.repository.merge import MergeOptions, merge, preview
from lakecli.repository.rev_parse import show_commit
from lakecli.repository.revert import revert
from lakecli.staging.area import TOMBSTONE
from tests.committed.trees import build, new_trees, put_foreign
from tests.support.lakefs_entries import lakefs_value
from tests.support.lakes import entry_of, make_repository, open_lake, unclaimed

Tree = dict[bytes, bytes]
"""Encoded entries by path."""

Changes = dict[bytes, bytes | None]

PATHS = 70


@cache
def pool() -> tuple[bytes, ...]:
    """Return entries: of two contents, by lakecli, and by lakeFS at two addresses each."""
    return tuple(
        value
        for data in (b"x", b"y")
        for value in (
            encode_entry(entry_of(data)),
            lakefs_value(data),
            lakefs_value(data, address=f"data/again/{data.decode()}"),
        )
    )


def path_of(number: int) -> bytes:
    return b"p/%03d" % number


VALUES = st.integers(0, 5).map(lambda number: pool()[number])
CHANGES = st.dictionaries(
    st.integers(0, PATHS).map(path_of), st.none() | VALUES, min_size=1, max_size=12
) | st.builds(
    lambda start, count, value: {path_of(start + at): value for at in range(count)},
    st.integers(0, PATHS - 40),
    st.integers(1, 40),
    st.none() | VALUES,
)
SIZES = st.integers(1, 50)


def same(left: bytes | None, right: bytes | None) -> bool:
    if left is None or right is None:
        return left is right
    return identity_of(left) == identity_of(right)


def identities(tree: Tree) -> dict[bytes, bytes]:
    return {path: identity_of(value) for path, value in tree.items()}


def changed(tree: Tree, changes: Changes) -> Tree:
    """Return a tree with changes; an entry of the same identity leaves the record as it is."""
    result = dict(tree)
    for path, value in changes.items():
        if value is None:
            result.pop(path, None)
        elif not same(result.get(path), value):
            result[path] = value
    return result


def compared(base: Tree, left: Tree, right: Tree) -> dict[bytes, ChangeType]:
    """Return what merging `right` into `left` changes, conflicts included."""
    found = {}
    for path in base.keys() | right.keys():
        before, theirs, ours = base.get(path), right.get(path), left.get(path)
        if same(before, theirs) or same(theirs, ours):
            continue
        found[path] = kind_of(ours, theirs) if same(ours, before) else ChangeType.CONFLICT
    return found


def kind_of(left: bytes | None, right: bytes | None) -> ChangeType:
    if left is None:
        return ChangeType.ADDED
    return ChangeType.REMOVED if right is None else ChangeType.CHANGED


def merged(base: Tree, source: Tree, destination: Tree, strategy: MergeStrategy) -> Tree | None:
    """Return the merge of trees, ``None`` if there is a conflict that nothing decides."""
    changes: Changes = {}
    for path, kind in compared(base, destination, source).items():
        if kind is ChangeType.CONFLICT:
            if strategy is MergeStrategy.FAIL:
                return None
            if strategy is MergeStrategy.DEST_WINS:
                continue
        changes[path] = source.get(path)
    return changed(destination, changes)


class ForeignMachine(RuleBasedStateMachine):
    branches = Bundle("branches")

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        root = Path(self.directory.name)
        self.lake = open_lake(root)
        self.repository = make_repository(self.lake, root)
        self.trees: dict[CommitId, Tree] = {}
        self.parents: dict[CommitId, tuple[CommitId, ...]] = {}
        self.heads: dict[str, CommitId] = {}

    def teardown(self) -> None:
        self.lake.close()
        self.directory.cleanup()

    def record(self, name: str, tree: Tree) -> None:
        made = show_commit(self.repository, name)
        self.trees[made.id], self.parents[made.id] = tree, made.parents
        self.heads[name] = made.id

    def tree(self, name: str) -> Tree:
        return self.trees[self.heads[name]]

    def ancestors(self, commit_id: CommitId) -> set[CommitId]:
        found, waiting = set(), [commit_id]
        while waiting:
            current = waiting.pop()
            if current not in found:
                found.add(current)
                waiting += self.parents[current]
        return found

    def base(self, one: str, other: str) -> Tree | None:
        """Return the tree of the best common ancestor, ``None`` if there are several."""
        common = self.ancestors(self.heads[one]) & self.ancestors(self.heads[other])
        best = [
            each
            for each in common
            if not any(each in self.ancestors(other) for other in common if other != each)
        ]
        return self.trees[best[0]] if len(best) == 1 else None

    @initialize(
        target=branches,
        tree=st.dictionaries(st.integers(0, PATHS).map(path_of), VALUES, min_size=20),
        changes=st.tuples(CHANGES, CHANGES),
        sizes=st.tuples(SIZES, SIZES, SIZES),
    )
    def restore(
        self, tree: Tree, changes: tuple[Changes, Changes], sizes: tuple[int, int, int]
    ) -> object:
        """Start with what a dump of lakeFS restores: two branches that went different ways."""
        first = self.describe([], tree, sizes[0])
        trees = [changed(tree, each) for each in changes]
        sides = [
            self.describe([first], each, size) for each, size in zip(trees, sizes[1:], strict=True)
        ]
        heads = {"main": sides[0].id, "dev": sides[1].id, "old": first.id}
        written = write_dump(
            self.repository.trees,
            commits=sorted([first, *sides]),
            branches=heads,
            tags={},
            default_branch="main",
        )
        restore_refs(self.repository, written)
        for name, each in zip(heads, (*trees, tree), strict=True):
            self.record(name, each)
        return multiple(*heads)

    def describe(self, parents: list[Commit], tree: Tree, size: int) -> Commit:
        """Return a commit of a tree that lakeFS has written, with ranges of a size."""
        repository = self.repository
        return describe_commit(
            parents=parents,
            metarange_id=put_foreign(repository.store, tree, size=size) if tree else EMPTY_TREE,
            message="in lakeFS",
            committer="c",
            created_at=repository.lake.now(),
            metadata={},
        )

    @rule(name=branches, changes=CHANGES, size=SIZES)
    def lakefs_commits(self, name: str, changes: Changes, size: int) -> None:
        """Commit as a lakeFS server does: a tree with cut points of its own."""
        tree = changed(self.tree(name), changes)
        repository = self.repository
        with repository.lake.kv.write() as txn:
            refs = RefStore(txn, repository.key)
            before = refs.get_branch(name)
            made = self.describe([refs.get_commit(before.commit_id)], tree, size)
            refs.put_commit(made)
            token = staging_tokens.start(txn, repository, name, made.id)
            refs.put_branch(
                before._replace(commit_id=made.id, staging_token=token, sealed_tokens=())
            )
        self.record(name, tree)

    @rule(name=branches, changes=CHANGES)
    def lakecli_commits(self, name: str, changes: Changes) -> None:
        values = [
            (path, TOMBSTONE if value is None else value) for path, value in sorted(changes.items())
        ]
        Stager(self.repository, name, kind="test").write(unclaimed(values))
        tree = changed(self.tree(name), changes)
        if identities(tree) == identities(self.tree(name)):
            with pytest.raises(NothingToDo):
                commit(self.repository, name, message="m", committer="me")
            branch.reset(self.repository, name)
            return
        made = commit(self.repository, name, message="m", committer="me")
        # Wherever lakeFS has cut, the commit cuts as if nothing had been there.
        assert made.metarange_id == build(new_trees(), tree)
        self.record(name, tree)

    @rule(target=branches, source=branches)
    def create_branch(self, source: str) -> str:
        name = f"branch-{len(self.heads)}"
        branch.create(self.repository, name, source=source)
        self.heads[name] = self.heads[source]
        return name

    @rule(source=branches, name=branches, strategy=st.sampled_from(list(MergeStrategy)))
    def merge_branches(self, source: str, name: str, strategy: MergeStrategy) -> None:
        base = self.base(source, name)
        if base is None:
            return
        options = MergeOptions("me", strategy=strategy)
        theirs, ours = self.tree(source), self.tree(name)
        result = merged(base, theirs, ours, strategy)
        expected, found = compared(base, ours, theirs), {}
        with suppress(NothingToDo), preview(self.repository, source, name, options) as changes:
            found = {each.path: each.type for each in changes}
        if strategy is MergeStrategy.FAIL and identities(theirs) != identities(base):
            assert found == expected
        if result is None:
            with pytest.raises(ConflictError) as caught:
                merge(self.repository, source, name, options)
            conflicts = [p for p, kind in expected.items() if kind is ChangeType.CONFLICT]
            assert list(caught.value.paths) == sorted(conflicts)
            return
        try:
            merge(self.repository, source, name, options)
        except NothingToDo:
            assert identities(theirs) == identities(base)
            return
        self.record(name, result)

    @rule(name=branches, picked=branches, reverts=st.booleans())
    def pick_or_revert(self, name: str, picked: str, *, reverts: bool) -> None:
        commit_id = self.heads[picked]
        if len(self.parents[commit_id]) != 1:
            return
        before, after = self.trees[self.parents[commit_id][0]], self.trees[commit_id]
        if reverts:
            before, after = after, before
        result = merged(before, after, self.tree(name), MergeStrategy.FAIL)
        try:
            if reverts:
                revert(self.repository, name, commit_id, committer="me")
            else:
                cherry_pick(self.repository, commit_id, name, committer="me")
        except (ConflictError, NothingToDo):
            assert result is None or identities(result) == identities(self.tree(name))
            return
        assert result is not None
        self.record(name, result)

    @rule(left=branches, right=branches)
    def compare(self, left: str, right: str) -> None:
        ours, theirs = self.tree(left), self.tree(right)
        with diff_refs(self.repository, left, right, two_way=True) as found:
            two_dot = self.listed(found)
        assert two_dot == {
            path: kind_of(ours.get(path), theirs.get(path))
            for path in sorted(ours.keys() | theirs.keys())
            if not same(ours.get(path), theirs.get(path))
        }
        base = self.base(left, right)
        if base is not None:
            with diff_refs(self.repository, left, right) as found:
                assert self.listed(found) == compared(base, ours, theirs)

    def listed(self, found: object) -> dict[bytes, ChangeType]:
        """Return differences by path, after checking their order."""
        differences: list[Difference] = list(found)  # type: ignore[call-overload]
        paths = [each.path for each in differences]
        assert paths == sorted(set(paths))
        return {each.path: each.type for each in differences}

    @invariant()
    def every_branch_reads_as_the_model_says(self) -> None:
        for name in self.heads:
            with open_view(self.repository, name) as view:
                found = dict(view.scan())
            assert identities(found) == identities(self.tree(name))
            assert set(found.values()) <= set(pool()), "a record was written anew"


class LongForeignMachine(ForeignMachine):
    """Run the model for some minutes."""


SHORT = settings(
    max_examples=20,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
ForeignMachine.TestCase.settings = SHORT
LongForeignMachine.TestCase.settings = settings(SHORT, max_examples=500, stateful_step_count=50)


TestForeignModel = ForeignMachine.TestCase
TestLongForeignModel = pytest.mark.nightly(pytest.mark.timeout(1800)(LongForeignMachine.TestCase))

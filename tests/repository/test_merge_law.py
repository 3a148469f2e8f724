"""Merges of random histories, with crossings, reverts, cherry-picks and squashes, as Git has them.

Each merge is held against Git's own: equal trees and equal conflicts, but for one difference. Where
the merge of two ancestors has a conflict, Git goes on with what was there before the conflict, so
that a later change of one side wins without a word; lakecli reports the path as a conflict. More
than two ancestors are merged by Git in an order, by lakecli in none: no other difference follows.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakecli.base.model import ChangeType, Commit, MergeStrategy
from lakecli.committed.decisions import UNDECIDED, Decisions
from lakecli.committed.merge import MergeConflict, compare, merge
from lakecli.committed.merge_base import MergeBase
from lakecli.refs.graph import is_ancestor, iter_merge_bases
from lakecli.repository.reading.merge_points import merge_base_of
from tests.committed.test_merge import merged_models
from tests.committed.trees import build, changed, contents, new_trees, value
from tests.support.git_merges import GitMerges
from tests.support.graphs import EPOCH, FakeRefs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakecli.base.model import CommitId, MetarangeId
    from tests.committed.trees import Changes, Model

PATHS = (b"a", b"b", b"c", b"d")
BRANCHES = ("main", "dev", "third")


class Asked(NamedTuple):
    """A merge, and what lakecli makes of it.

    Attributes:
        bases: the best common ancestors.
        conflicts: the paths in conflict, which keep the destination's version in `merged`.
    """

    source: CommitId
    destination: CommitId
    bases: tuple[Commit, ...]
    conflicts: list[bytes]
    merged: Model


class History:
    """Branches, and all merges of them; every one is checked as far as Git is not needed."""

    def __init__(self, git: GitMerges) -> None:
        self.git = git
        self.trees = new_trees()
        self.refs = FakeRefs()
        self.models: dict[CommitId, Model] = {}
        self.asked: list[Asked] = []
        self.seconds = 0
        root = self.commit({path: value(0) for path in PATHS[:3]}, [])
        self.heads = dict.fromkeys(BRANCHES, root)

    def commit(self, model: Model, parents: Sequence[CommitId]) -> CommitId:
        at = EPOCH + timedelta(seconds=self.seconds)
        made = self.git.commit(model, parents, int(at.timestamp()))
        generation = 1 + max((self.refs.commits[each].generation for each in parents), default=0)
        tree = build(self.trees, model)
        self.models[made] = model
        self.refs.commits[made] = Commit(made, tuple(parents), tree, "", "", at, {}, generation)
        return made

    def tree(self, commit: CommitId) -> MetarangeId:
        return self.refs.commits[commit].metarange_id

    def merged(
        self, base: MergeBase, source: CommitId, into: CommitId
    ) -> tuple[list[bytes], Model]:
        """Return the conflicts of a merge, and its result if the destination wins these."""
        sides: Any = {"base": base, "source": self.tree(source), "destination": self.tree(into)}
        conflicts: list[bytes] = []
        try:
            merge(self.trees, **sides, decisions=UNDECIDED)
        except MergeConflict as conflict:
            conflicts = list(conflict.paths)
        tree = merge(self.trees, **sides, decisions=Decisions(MergeStrategy.DEST_WINS))
        result = contents(self.trees, tree)
        assert tree == build(new_trees(), result)
        return conflicts, result

    def ask(self, source: CommitId, into: CommitId) -> Asked:
        bases = tuple(iter_merge_bases(self.refs, source, into))
        base = merge_base_of(self.refs, bases)
        conflicts, merged = self.merged(base, source, into)
        self.check(base, Asked(source, into, bases, conflicts, merged))
        self.asked.append(Asked(source, into, bases, conflicts, merged))
        return self.asked[-1]

    def check(self, base: MergeBase, asked: Asked) -> None:
        """Check what holds of every merge, whatever Git says."""
        source, into, bases, conflicts, merged = asked
        back, mirrored = self.merged(base, into, source)
        assert back == conflicts
        assert conflicts or mirrored == merged
        assert self.merged(merge_base_of(self.refs, bases[::-1]), source, into) == (
            conflicts,
            merged,
        )
        found = list(compare(self.trees, base=base, left=self.tree(into), right=self.tree(source)))
        assert [each.path for each in found if each.type == ChangeType.CONFLICT] == conflicts
        clean = {each.path: each.right for each in found if each.type != ChangeType.CONFLICT}
        assert changed(self.models[into], clean) == merged
        # Where the bases agree, the path merges as with one of them.
        plain, of_plain = merged_models(
            *(self.models[each] for each in (bases[0].id, source, into))
        )
        for path in PATHS:
            if len({self.models[each.id].get(path) for each in bases}) == 1:
                assert merged.get(path) == plain.get(path)
                assert (path in conflicts) == (path in of_plain)

    def take(self, name: str, other: str, how: str, *, squash: bool = False) -> CommitId:
        """Merge the head of another branch; return the branch's head, which is not moved."""
        source, into = self.heads[other], self.heads[name]
        if is_ancestor(self.refs, source, into):
            return into
        asked = self.ask(source, into)
        result = asked.merged
        if asked.conflicts:
            if how == "fail":
                return into
            theirs = {path: self.models[source].get(path) for path in asked.conflicts}
            by_hand: Changes = dict.fromkeys(asked.conflicts, value(3))
            result = changed(result, {"source": theirs, "hand": by_hand}.get(how, {}))
        return self.commit(result, [into] if squash else [into, source])

    def step(self, kind: str, name: str, step: int, number: int, how: str) -> None:
        self.seconds += number % 3 > 0
        other = BRANCHES[(BRANCHES.index(name) + step) % len(BRANCHES)]
        head = self.heads[name]
        if kind == "edit":
            path = PATHS[number % len(PATHS)]
            each = value(number % 3) if how != "fail" else None
            self.heads[name] = self.commit(changed(self.models[head], {path: each}), [head])
        elif kind == "cross":
            here, there = self.take(name, other, how), self.take(other, name, "destination")
            self.heads |= {name: here, other: there}
        elif kind == "cross all":
            self.cross_all(how)
        elif kind in {"merge", "squash"}:
            self.heads[name] = self.take(name, other, how, squash=kind == "squash")
        else:
            commits = list(self.models)
            chosen = self.refs.commits[commits[-1 - number % len(commits)]]
            if chosen.parents:
                before, after = chosen.parents[0], chosen.id
                if kind == "revert":
                    before, after = after, before
                base = MergeBase.of(self.tree(before))
                conflicts, result = self.merged(base, after, head)
                if not conflicts:
                    self.heads[name] = self.commit(result, [head])

    def cross_all(self, how: str) -> None:
        """Merge into each branch the heads from before of both others."""
        before, after = dict(self.heads), {}
        for name in BRANCHES:
            self.heads = dict(before)
            for other in BRANCHES:
                if other != name:
                    self.heads[name] = self.take(name, other, how)
            after[name] = self.heads[name]
        self.heads = after

    def check_against_git(self) -> None:
        """Hold every merge against Git's own."""
        pairs = [(asked.destination, asked.source) for asked in self.asked]
        below = {pair: None for asked in self.asked for pair in self.pairs(asked.bases)}
        answers = self.git.merge([*pairs, *below])
        inner = dict(zip(below, answers[len(pairs) :], strict=True))
        for asked, git in zip(self.asked, answers[: len(pairs)], strict=True):
            assert set(git.conflicts) <= set(asked.conflicts)
            lost = {path for pair in self.pairs(asked.bases) for path in inner[pair].conflicts}
            only_here = set(asked.conflicts) - set(git.conflicts)
            assert all(path in lost or self.has_several(asked.bases, path) for path in only_here)
            source, into = (self.models[each] for each in (asked.source, asked.destination))
            left = {path: into.get(path) or source.get(path) for path in git.conflicts}
            possible = [
                {path: each.get(path) for path, each in zip(only_here, chosen, strict=True)}
                for chosen in product((source, into), repeat=len(only_here))
            ]
            trees = {self.git.tree(changed(asked.merged, left | each)) for each in possible}
            assert git.tree in trees

    def has_several(self, bases: Sequence[Commit], path: bytes) -> bool:
        """Return whether some three or more ancestors differ at a path.

        Git merges one after the other, so what it takes depends on the order of the commits.
        """
        below = [list(iter_merge_bases(self.refs, *pair)) for pair in self.pairs(bases)]
        groups = (group for group in [bases, *below] if len(group) > 2)
        return any(len({self.models[each.id].get(path) for each in group}) > 1 for group in groups)

    def pairs(self, bases: Sequence[Commit]) -> list[tuple[CommitId, CommitId]]:
        """Return the pairs of ancestors that are merged with each other for a merge base."""
        found: dict[tuple[CommitId, CommitId], None] = {}
        waiting = [bases]
        for each in waiting:  # grows
            for left, right in combinations(each, 2):
                if (left.id, right.id) not in found:
                    found[left.id, right.id] = None
                    waiting.append(list(iter_merge_bases(self.refs, left.id, right.id)))
        return list(found)


KINDS = (
    *("edit", "edit", "edit", "edit", "cross", "cross", "cross all"),
    *("merge", "revert", "cherry-pick", "squash"),
)
steps = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.sampled_from(BRANCHES),
        st.sampled_from((1, 1, 2)),
        st.integers(0, 11),
        st.sampled_from(("source", "destination", "hand", "fail")),
    ),
    min_size=6,
    max_size=24,
)


MANY = 1_000


@pytest.fixture(scope="module")
def git(tmp_path_factory: pytest.TempPathFactory) -> GitMerges:
    return GitMerges(tmp_path_factory.mktemp("merges") / "git")


@pytest.mark.parametrize("count", [20, pytest.param(MANY, marks=pytest.mark.nightly)])
def test_merges_are_git_s(git: GitMerges, count: int) -> None:
    seen: list[int] = []

    @settings(
        max_examples=count, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(steps)
    def law(steps: Sequence[tuple[str, str, int, int, str]]) -> None:
        history = History(git)
        for step in steps:
            history.step(*step)
        for left, right in combinations(history.heads.values(), 2):
            if left != right:
                history.ask(left, right)
        history.check_against_git()
        seen.extend(len(asked.bases) for asked in history.asked)

    law()
    assert sum(number == 1 for number in seen) > count
    if count >= MANY:  # a few histories may have no crossing at all
        assert sum(number == 2 for number in seen) > count // 8, "too few crossings"
        assert sum(number == 3 for number in seen) > count // 40, "too few of all branches"

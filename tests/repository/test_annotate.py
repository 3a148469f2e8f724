"""Annotations of random histories, found path by path as well, and what they read."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakecli.base.model import EMPTY_TREE
from lakecli.committed.values import encode_entry
from lakecli.committed.writer import apply
from lakecli.errors import NotFound
from lakecli.refs.ref_store import RefStore
from lakecli.repository import annotate as module
from lakecli.repository.annotate import annotate
from lakecli.repository.commit_attempts import describe_commit
from tests.support.histories import grow
from tests.support.lakes import START, entry_of, make_repository, open_lake, through

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lakecli.base.ids import CommitId
    from lakecli.base.model import Commit
    from lakecli.repository.annotate import Annotation
    from lakecli.repository.contract import Repository

PATHS = [
    b"%s/%s%d" % (top, sub, n) for top in b"a b c".split() for sub in (b"", b"x/") for n in range(6)
]
PATHS += [b"top1", b"top2", b"a", b"b/"]

Contents = dict[bytes, bytes]


class RandomHistory:
    """Random commits with random trees, and what annotates them path by path."""

    def __init__(self, repository: Repository, seed: int, count: int = 40) -> None:
        self._rng = random.Random(seed)
        self.commits: list[Commit] = []
        self.contents: dict[CommitId, Contents] = {}
        self._made = 0
        with repository.lake.kv.write() as txn:
            refs = RefStore(txn, repository.key)
            for number in range(count):
                recent = self.commits[-5:]
                parents = self._rng.sample(recent, min(len(recent), self._rng.choice((1, 1, 2, 3))))
                contents = self._contents(parents)
                values = [(p, encode_entry(entry_of(d))) for p, d in sorted(contents.items())]
                commit = describe_commit(
                    parents=parents,
                    metarange_id=apply(repository.trees, EMPTY_TREE, values),
                    message=str(number),
                    committer="",
                    created_at=START + timedelta(seconds=self._rng.randrange(3 * count)),
                    metadata={},
                )
                refs.put_commit(commit)
                self.commits.append(commit)
                self.contents[commit.id] = contents

    def _contents(self, parents: Sequence[Commit]) -> Contents:
        """Take each path, or each directory, from one of the parents; then change some."""
        sides = [self.contents[parent.id] for parent in parents] or [{}]
        chosen: dict[bytes, Mapping[bytes, bytes]] = {}
        contents: Contents = {}
        for path in PATHS:
            top = path.partition(b"/")[0] if self._rng.random() < 0.9 else path
            data = chosen.setdefault(top, self._rng.choice(sides)).get(path)
            if data is not None:
                contents[path] = data
        if len(parents) < 2 or self._rng.random() < 0.3:
            for path in self._rng.sample(PATHS, self._rng.choice((0, 1, 2, 8))):
                self._made += 1
                contents[path] = b"%d" % self._made
            if self._rng.random() < 0.2:
                gone = self._rng.choice((b"a/x/", b"b/", b"c/x/", b"c/"))
                contents = {p: d for p, d in contents.items() if not p.startswith(gone)}
        return contents

    def last(self, item: bytes, commit: Commit, *, is_prefix: bool, first_parent: bool) -> Commit:
        """Return the newest commit that may have changed an item last."""
        by_id = {each.id: each for each in self.commits}

        def state(at: Commit) -> Contents:
            has = self.contents[at.id]
            return {p: d for p, d in has.items() if p == item or (is_prefix and p.startswith(item))}

        def candidates(at: Commit, known: dict[CommitId, set[CommitId]]) -> set[CommitId]:
            if at.id not in known:
                ids = list(dict.fromkeys(at.parents))[: 1 if first_parent else None]
                parents = [by_id[each] for each in ids]
                same = next((p for p in parents if state(p) == state(at)), None)
                if not parents:
                    known[at.id] = {at.id} if state(at) else set()
                elif same is not None:
                    known[at.id] = candidates(same, known)
                elif len(parents) == 1 or not is_prefix or not any(map(state, parents)):
                    known[at.id] = {at.id}
                else:
                    known[at.id] = set().union(*(candidates(p, known) for p in parents))
            return known[at.id]

        found = [by_id[each] for each in candidates(commit, {})]
        return max(found, key=lambda each: (each.created_at, each.id))

    def items(self, commit: Commit, prefix: bytes, *, recursive: bool) -> list[bytes]:
        below = sorted(p for p in self.contents[commit.id] if p.startswith(prefix))
        if recursive:
            return below
        cut = [p.find(b"/", len(prefix)) for p in below]
        return list(
            dict.fromkeys(p[: at + 1] if at >= 0 else p for p, at in zip(below, cut, strict=True))
        )


def annotated(repository: Repository, ref: str, path: bytes = b"", **how: bool) -> list[Annotation]:
    with annotate(repository, ref, path, **how) as found:
        return list(found)


@pytest.mark.parametrize("seed", range(12))
def test_annotations_of_a_random_history_are_those_found_path_by_path(
    repository: Repository, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", (1 << 17, 7)[seed % 2])
    monkeypatch.setattr("lakecli.committed.diff.POINTS", (2, 0)[seed // 4 % 2])
    history = RandomHistory(repository, seed)
    for commit in history.commits[-3:]:
        for prefix in (b"", b"a", b"b/", b"c/x"):
            for recursive in (False, True):
                for first_parent in (False, True):
                    items = history.items(commit, prefix, recursive=recursive)
                    if prefix == b"a" in history.contents[commit.id] and not recursive:
                        items = [b"a"]
                    expected = [
                        history.last(
                            item,
                            commit,
                            is_prefix=not recursive and item.endswith(b"/") and item != prefix,
                            first_parent=first_parent,
                        ).message
                        for item in items
                    ]
                    if not expected:
                        continue
                    found = annotated(
                        repository,
                        commit.id,
                        prefix,
                        recursive=recursive,
                        first_parent=first_parent,
                    )
                    assert [each.path for each in found] == items
                    assert [each.commit.message for each in found] == expected


def test_nothing_to_annotate(repository: Repository) -> None:
    assert annotated(repository, "main") == []
    grow(repository, [{b"a/b": b"1"}])
    with pytest.raises(NotFound, match="no object at lakefs://demo/main/nope"):
        annotated(repository, "main", b"nope")
    with pytest.raises(NotFound):
        annotated(repository, "nope")


def test_an_object_hides_others_that_begin_with_its_path(repository: Repository) -> None:
    made = grow(repository, [{b"a": b"1"}, {b"a/b": b"1", b"ab": b"1"}, {b"a": b"1"}])
    assert annotated(repository, "main", b"a") == [(b"a", False, made[0])]
    assert [each.path for each in annotated(repository, "main", b"a", recursive=True)] == [
        b"a",
        b"a/b",
        b"ab",
    ]


def test_one_walk_opens_each_differing_range_once(tmp_path: Path) -> None:
    count, commits = 3_000, 100
    with open_lake(tmp_path) as lake:
        repository = make_repository(lake, tmp_path)
        paths = [b"t/%05d" % number for number in range(count)]
        first = dict.fromkeys(paths, b"0")
        changes = [{paths[number * 7]: b"%d" % number} for number in range(1, commits + 1)]
        made = grow(repository, [first, *changes])
        fresh = through(repository)
        found = annotated(fresh, "main", b"t/", recursive=True)
        by_path = {each.path: each.commit for each in found}
        assert list(by_path) == paths
        assert by_path[paths[0]] == made[0]
        for number in range(1, commits + 1):
            assert by_path[paths[number * 7]] == made[number]
        trees = [each.metarange_id for each in made]
        different = {
            record.id for tree in trees for record in fresh.trees.metarange(tree).records()
        }
        assert fresh.trees.counts.ranges_opened <= len(different)

        # A prefix whose objects are all known leaves the older history alone.
        late = grow(repository, [{b"new/1": b"1", b"new/2": b"1"}])
        fresh = through(repository)
        assert {each.commit.id for each in annotated(fresh, "main", b"new/")} == {late[0].id}
        assert fresh.trees.counts.metaranges_opened == 2

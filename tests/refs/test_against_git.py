"""Ancestry, expressions and log order as real Git has them, on random histories.

Merges have two parents or three; where a test does not say otherwise, dates contradict ancestry.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from lakecli.errors import LakeError
from lakecli.refs.expression import parse_expression
from lakecli.refs.graph import count_ahead_behind, is_ancestor, iter_merge_bases
from lakecli.refs.history import iter_log
from lakecli.refs.resolve import commit_of, resolve
from tests.refs.git import GitHistory, random_parents, rising_seconds, shuffled_seconds

if TYPE_CHECKING:
    from lakecli.base.model import CommitId

COUNT = 60
PAIRS = 14
SHAPES = [  # reach of a parent, share of merges, share of further roots
    (3, 0.6, 0.0),
    (4, 0.5, 0.0),
    (5, 0.9, 0.0),
    (6, 0.3, 0.05),
    (8, 0.7, 0.0),
    (15, 0.2, 0.0),
    (40, 0.4, 0.1),
    (40, 0.05, 0.0),
]


@pytest.fixture(scope="module", params=range(len(SHAPES)), ids=lambda number: f"shape{number}")
def history(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> GitHistory:
    return _make(request.param, tmp_path_factory, rising=False)


@pytest.fixture(scope="module", params=range(len(SHAPES)), ids=lambda number: f"shape{number}")
def dated_history(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> GitHistory:
    return _make(request.param, tmp_path_factory, rising=True)


def _make(number: int, factory: pytest.TempPathFactory, *, rising: bool) -> GitHistory:
    reach, merges, roots = SHAPES[number]
    rng = random.Random(f"{number} {rising}")
    parents = random_parents(rng, COUNT, reach=reach, merges=merges, roots=roots)
    seconds = (rising_seconds if rising else shuffled_seconds)(rng, COUNT)
    return GitHistory(factory.mktemp("git") / "history", parents, seconds)


def _pairs(history: GitHistory) -> list[tuple[CommitId, CommitId]]:
    """Return pairs of commits: neighbours in time, or one of any age and a late one."""
    rng = random.Random(history.ids[-1])
    pairs = []
    for _ in range(PAIRS // 2):
        first = rng.randrange(COUNT // 2, COUNT - 3)
        pairs.append((history.ids[first], history.ids[first + rng.randrange(1, 4)]))
        first = rng.randrange(COUNT)
        pairs.append((history.ids[first], history.ids[rng.randrange(COUNT // 2, COUNT)]))
    return pairs


def test_merge_bases(history: GitHistory) -> None:
    counts = set()
    for left, right in _pairs(history):
        found = list(iter_merge_bases(history.refs, left, right))
        related = history.succeeds("merge-base", left, right)
        expected = history.run("merge-base", "--all", left, right).split() if related else []
        assert sorted(commit.id for commit in found) == sorted(expected)
        by_rank = sorted(found, key=lambda c: (-c.generation, -c.created_at.timestamp(), c.id))
        assert found == by_rank
        assert list(iter_merge_bases(history.refs, right, left)) == found
        counts.add(len(found))
    merges = sum(len(commit.parents) > 1 for commit in history.refs.commits.values())
    if merges > 0.66 * COUNT:
        assert max(counts) > 1, "no criss-cross among the pairs: the test lost its point"


def test_is_ancestor(history: GitHistory) -> None:
    for left, right in _pairs(history):
        expected = history.succeeds("merge-base", "--is-ancestor", left, right)
        assert is_ancestor(history.refs, left, right) == expected
    (grandparent,) = history.rev_parse([f"{history.ids[-1]}~2"])
    assert grandparent is not None
    assert is_ancestor(history.refs, grandparent, history.ids[-1])
    assert not is_ancestor(history.refs, history.ids[-1], grandparent)


def test_count_ahead_behind(history: GitHistory) -> None:
    for left, right in _pairs(history):
        output = history.run("rev-list", "--left-right", "--count", f"{left}...{right}")
        ahead, behind = output.split()
        assert count_ahead_behind(history.refs, left, right) == (int(ahead), int(behind))


def test_expressions(history: GitHistory) -> None:
    rng = random.Random(history.ids[0])
    expressions = []
    for _ in range(400):
        base = rng.choice(history.ids)
        text = base[: rng.choice((64, 64, 12, 5))]
        for _ in range(rng.randrange(6)):
            text += rng.choice("~^") + rng.choice(("", "", "0", "1", "2", "3", "5", "01"))
        expressions.append(text)
    expected = history.rev_parse(expressions)
    answers = [_resolve(history, expression) for expression in expressions]
    assert answers == expected
    assert 40 < expected.count(None) < 360


def _resolve(history: GitHistory, expression: str) -> CommitId | None:
    try:
        return commit_of(resolve(parse_expression(expression), history.refs), expression).id
    except LakeError:
        return None


@pytest.mark.parametrize("first_parent", [False, True])
def test_log(history: GitHistory, *, first_parent: bool) -> None:
    words = ["--date-order", *["--first-parent"] * first_parent]
    for start in history.ids[-2:]:
        found = iter_log(history.refs, start, first_parent=first_parent)
        expected = history.run("log", "--format=%H", *words, start).split()
        assert [commit.id for commit in found] == expected


def test_log_is_git_s_where_dates_respect_ancestry(dated_history: GitHistory) -> None:
    for start in dated_history.ids[-3:]:
        expected = dated_history.run("log", "--format=%H", start).split()
        found = iter_log(dated_history.refs, start)
        assert [commit.id for commit in found] == expected

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.refs.graph import (
    count_ahead_behind,
    is_ancestor,
    iter_known_unreached,
    iter_merge_bases,
    iter_reached,
    iter_unreached,
)
from lakecli.refs.ref_store import DamagedHistory
from tests.refs.strategies import histories
from tests.support.graphs import FakeRefs, graph, id_of, names_of

if TYPE_CHECKING:
    from lakecli.base.model import CommitId

LONG = 10_000


def merge_bases(refs: FakeRefs, left: str, right: str) -> str:
    return names_of(iter_merge_bases(refs, id_of(left), id_of(right)))


@pytest.mark.parametrize(
    ("text", "left", "right", "expected"),
    [
        pytest.param("a-b-c, b-d", "c", "d", "b", id="fork"),
        pytest.param("a-b-c", "c", "c", "c", id="itself"),
        pytest.param("a-b-c", "c", "a", "a", id="ancestor"),
        pytest.param("a, b", "a", "b", "", id="unrelated"),
        pytest.param("a-b, c-d, b+c-e", "d", "e", "c", id="another root"),
        pytest.param("a-b, a-c, b+c-d, c+b-e", "d", "e", "b c", id="criss-cross"),
        pytest.param("a-b, a+b-c, a+b-d", "c", "d", "b", id="lakeFS answers a, an ancestor of b"),
        pytest.param("a-b-c-d, a-x, x+b-y, y+d-z, d-e", "z", "e", "d", id="after merges"),
        pytest.param("a-b, a-c, b+c-d, a-e, d+e-f, e+b-g", "f", "g", "b e", id="two levels"),
    ],
)
def test_merge_bases(text: str, left: str, right: str, expected: str) -> None:
    refs = graph(text)
    assert sorted(merge_bases(refs, left, right).split()) == expected.split()


@pytest.mark.parametrize(
    ("text", "minutes", "expected"),
    [
        pytest.param(
            "a-b, a-c, b+c-x, c+b-y", {"b": 5, "c": 5}, "b c", id="the smaller ID, all else equal"
        ),
        pytest.param("a-b, a-c, b+c-x, c+b-y", {"b": 5, "c": 6}, "c b", id="the newer"),
        pytest.param(
            "a-b-d, a-c, d+c-x, c+d-y", {"d": 5, "c": 6}, "d c", id="the higher generation"
        ),
    ],
)
def test_which_of_several_merge_bases(text: str, minutes: dict[str, int], expected: str) -> None:
    refs = graph(text, minutes=minutes)
    assert merge_bases(refs, "x", "y") == merge_bases(refs, "y", "x") == expected


@given(histories(), st.data())
def test_against_all_reachable_commits(refs: FakeRefs, data: st.DataObject) -> None:
    ids = sorted(refs.commits)
    left, right = data.draw(st.sampled_from(ids)), data.draw(st.sampled_from(ids))
    reached = {commit_id: _reachable(refs, commit_id) for commit_id in ids}
    common = reached[left] & reached[right]
    best = {one for one in common if not any(one in reached[c] for c in common if c != one)}
    assert {commit.id for commit in iter_merge_bases(refs, left, right)} == best
    assert is_ancestor(refs, left, right) == (left in reached[right])
    expected = len(reached[left] - reached[right]), len(reached[right] - reached[left])
    assert count_ahead_behind(refs, left, right) == expected
    assert {commit.id for commit in iter_unreached(refs, left, {right})} == (
        reached[left] - reached[right]
    )
    everything = [commit_id for commit_id, _ in iter_reached(refs, (left, right))]
    assert len(everything) == len(set(everything))
    assert set(everything) == reached[left] | reached[right]


def test_a_missing_commit_is_reported_and_the_walk_continues() -> None:
    refs = graph("a-b, x, b+x-c")
    del refs.commits[id_of("b")]
    found = dict(iter_reached(refs, [id_of("c")]))
    assert found == {
        id_of("c"): refs.commits[id_of("c")],
        id_of("b"): None,
        id_of("x"): refs.commits[id_of("x")],
    }


def _reachable(refs: FakeRefs, start: CommitId) -> set[CommitId]:
    found: set[CommitId] = set()
    waiting = [start]
    while waiting:
        commit_id = waiting.pop()
        found.add(commit_id)
        waiting.extend(refs.commits[commit_id].parents)
    return found


def _long(forks: str = "") -> FakeRefs:
    """Return a linear history m0 to m9999, and the given further commits."""
    chain = "-".join(f"m{number}" for number in range(LONG))
    return graph(f"{chain}, {forks}")


def test_tips_one_commit_apart_cost_a_handful() -> None:
    refs = _long(f"m{LONG - 1}-x, m{LONG - 1}-y")
    assert merge_bases(refs, "x", "y") == f"m{LONG - 1}"
    assert len(refs.reads) == 3
    refs.reads.clear()
    assert merge_bases(refs, "x", f"m{LONG - 1}") == f"m{LONG - 1}"
    assert len(refs.reads) == 2
    refs.reads.clear()
    assert is_ancestor(refs, id_of(f"m{LONG - 1}"), id_of("x"))
    assert not is_ancestor(refs, id_of("x"), id_of("y"))
    assert len(refs.reads) <= 4
    refs.reads.clear()
    assert count_ahead_behind(refs, id_of("x"), id_of("y")) == (1, 1)
    assert len(refs.reads) <= 4


def test_cost_follows_the_distance_to_the_base() -> None:
    base = LONG - 50
    refs = _long(f"m{base}-x1-x2-x3")
    assert merge_bases(refs, "x3", f"m{LONG - 1}") == f"m{base}"
    assert len(refs.reads) <= 49 + 3 + 2
    refs.reads.clear()
    assert not is_ancestor(refs, id_of("x3"), id_of(f"m{LONG - 1}"))
    assert len(refs.reads) <= 49


def test_cost_after_many_merges() -> None:
    """A side branch that is merged repeatedly does not visit what is below its base."""
    chains = ["m0-m1-s1"]
    for number in range(2, 2000):
        chains.append(f"m{number - 1}+s{number - 1}-m{number}")
        chains.append(f"s{number - 1}-s{number}")
    refs = graph(",".join(chains))
    assert merge_bases(refs, "m1999", "s1999") == "s1998"
    assert len(refs.reads) <= 10


def test_a_missing_parent_is_named() -> None:
    refs = graph("a-b-c, b-d")
    del refs.commits[id_of("b")]
    with pytest.raises(DamagedHistory, match=f"missing commit {id_of('b')}, a parent of") as caught:
        merge_bases(refs, "c", "d")
    assert caught.value.hint
    with pytest.raises(DamagedHistory, match=f"missing commit {id_of('b')}$"):
        merge_bases(refs, "b", "d")
    assert names_of(iter_known_unreached(refs, id_of("c"), [])) == "c"
    assert names_of(iter_known_unreached(refs, id_of("b"), [])) == ""


def test_generations_that_lie_are_found_out() -> None:
    """They would lead to a wrong base; an error is better."""
    refs = graph("a-b-c, b-d")
    broken = refs.commits[id_of("b")]
    refs.commits[broken.id] = broken._replace(generation=3)
    with pytest.raises(DamagedHistory, match=f"generation 3 of commit {id_of('d')} is not above 3"):
        merge_bases(refs, "c", "d")

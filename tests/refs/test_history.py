from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.errors import NotFound
from lakecli.refs import history
from lakecli.refs.history import iter_log
from lakecli.refs.ref_store import DamagedHistory
from tests.refs.strategies import histories
from tests.support.graphs import EPOCH, FakeRefs, graph, id_of, names_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from lakecli.base.model import CommitId

MERGED = "a-b-c, b-d-e, c+e-f"


def _at(minute: int) -> datetime:
    return EPOCH + timedelta(minutes=minute)


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        pytest.param({}, "f e d c b a", id="by date"),
        pytest.param({"c": 9}, "f c e d b a", id="a newer first parent"),
        pytest.param({"f": -9}, "f e d c b a", id="an old head still comes first"),
        pytest.param({"b": 9}, "f e d c b a", id="a date from the future"),
        pytest.param({"b": 9, "d": 1, "c": 2}, "f e c d b a", id="a parent after all its children"),
        pytest.param(dict.fromkeys("abcdef", 0), "f e d c b a", id="one second: larger IDs first"),
    ],
)
def test_order(minutes: Mapping[str, int], expected: str) -> None:
    assert names_of(iter_log(graph(MERGED, minutes=minutes), id_of("f"))) == expected


@pytest.mark.parametrize("names", ["abcd", "dcba", "bdac"])
def test_parents_come_after_their_children_within_one_second(names: str) -> None:
    """A long side and a short one, in one second: whatever the IDs, no parent comes first."""
    root, long, longer, short = list(names)
    text = f"{root}-{long}-{longer}, {root}-{short}, {longer}+{short}-x"
    found = names_of(iter_log(graph(text, minutes=dict.fromkeys(f"{names}x", 0)), id_of("x")))
    assert found.index(longer) < found.index(long) < found.index(root) == len(found) - 1
    assert found.index(short) < found.index(root)


def test_lakefs_order_within_one_second() -> None:
    """The chain of lakeFS's TestResolveRef_SameDate: a parent is found through its child only."""
    same = dict.fromkeys(("c1", "c2", "c3", "c4", "c5"), 0)
    refs = graph("c1-c2, c1-c3-c4, c4+c2-c5", minutes=same)
    assert names_of(iter_log(refs, id_of("c5"))) == "c5 c4 c3 c2 c1"


def test_first_parent() -> None:
    assert names_of(iter_log(graph(MERGED), id_of("f"), first_parent=True)) == "f c b a"


def test_since_does_not_look_past_older_commits() -> None:
    refs = graph(MERGED, minutes={"d": -1, "b": 9})
    assert names_of(iter_log(refs, id_of("e"), since=_at(0))) == "e"
    assert names_of(iter_log(refs, id_of("f"), since=_at(0))) == "f e c b a"
    assert names_of(iter_log(graph(MERGED), id_of("f"), since=_at(3))) == "f e d"
    assert names_of(iter_log(graph(MERGED), id_of("f"), since=_at(60))) == ""


def test_stop_at_is_the_last() -> None:
    assert names_of(iter_log(graph(MERGED), id_of("f"), stop_at=id_of("d"))) == "f e d"
    assert names_of(iter_log(graph(MERGED), id_of("f"), stop_at=id_of("f"))) == "f"
    assert names_of(iter_log(graph(MERGED), id_of("c"), stop_at=id_of("f"))) == "c b a"


def test_after_leaves_out_up_to_and_including() -> None:
    assert names_of(iter_log(graph(MERGED), id_of("f"), after=id_of("d"))) == "c b a"
    assert names_of(iter_log(graph(MERGED), id_of("f"), after=id_of("a"))) == ""
    both = iter_log(graph(MERGED), id_of("f"), after=id_of("d"), stop_at=id_of("d"))
    assert names_of(both) == ""


@pytest.mark.parametrize("options", [{}, {"stop_at": id_of("d")}])
def test_after_refuses_a_commit_that_is_not_in_the_log(options: dict[str, CommitId]) -> None:
    commits = iter_log(graph(MERGED), id_of("f"), after=id_of("z"), **options)  # type: ignore[arg-type]
    with pytest.raises(NotFound, match=f"commit {id_of('z')} is not in the log") as caught:
        next(commits)
    assert caught.value.hint


@given(histories(), st.data())
def test_hidden_leaves_out_a_commit_and_its_ancestors(refs: FakeRefs, data: st.DataObject) -> None:
    ids = sorted(refs.commits)
    start, hidden = (data.draw(st.sampled_from(ids)) for _ in range(2))
    out = {commit.id for commit in iter_log(refs, hidden)}
    found = iter_log(refs, start, hidden=hidden)
    whole = iter_log(refs, start)
    assert [each.id for each in found] == [each.id for each in whole if each.id not in out]


def test_hidden_reads_no_further_than_the_merge_base() -> None:
    refs = graph(f"{_names(prefix='m', count=3000)}, m2990-x1-x2")
    assert names_of(iter_log(refs, id_of("x2"), hidden=id_of("m2999"))) == "x2 x1"
    assert len(refs.reads) < 40


@given(histories(), st.data())
def test_against_a_slow_model(refs: FakeRefs, data: st.DataObject) -> None:
    ids = sorted(refs.commits)
    start = data.draw(st.sampled_from([ids[-1], *ids]))
    first_parent = data.draw(st.booleans())
    since = data.draw(st.none() | st.integers(0, 9).map(_at))
    found = iter_log(refs, start, first_parent=first_parent, since=since)
    cut = _cut(refs, first_parent=first_parent, since=since)
    assert [commit.id for commit in found] == _model(cut, start)


@given(histories(), st.integers(0, 4))
def test_children_come_first_however_little_is_read_ahead(refs: FakeRefs, most: int) -> None:
    start = max(refs.commits.values(), key=lambda commit: commit.generation).id
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "MOST_AHEAD", most)
        found = list(iter_log(refs, start))
    assert {commit.id for commit in found} == {commit.id for commit in iter_log(refs, start)}
    places = {commit.id: place for place, commit in enumerate(found)}
    assert len(places) == len(found)
    for commit in found:
        assert all(places[parent] > places[commit.id] for parent in commit.parents)


def test_a_branch_that_began_long_ago_waits_instead_of_reading_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(history, "MOST_AHEAD", 100)
    refs = graph(f"{_names(prefix='m', count=3000)}, m5-x1, m2999+x1-z", minutes={"x1": 9_999})
    log = iter_log(refs, id_of("z"))
    assert names_of(islice(log, 3)) == "z m2999 m2998"
    assert len(refs.reads) < 120
    rest = names_of(log).split()
    assert rest.index("m105") < rest.index("x1") < rest.index("m90")
    assert rest[-1] == "m0"
    assert len(rest) == 2999


def _cut(
    refs: FakeRefs, *, first_parent: bool, since: datetime | None
) -> dict[CommitId, tuple[datetime, list[CommitId]]]:
    """Return date and parents of the commits that a walk may show."""
    kept = {
        commit.id: commit
        for commit in refs.commits.values()
        if since is None or commit.created_at >= since
    }
    return {
        commit.id: (
            commit.created_at,
            [parent for parent in commit.parents[: 1 if first_parent else None] if parent in kept],
        )
        for commit in kept.values()
    }


def _model(
    commits: dict[CommitId, tuple[datetime, list[CommitId]]], start: CommitId
) -> list[CommitId]:
    waiting: set[CommitId] = set()
    found = {start} & set(commits)
    while found:
        waiting |= found
        found = {parent for commit_id in found for parent in commits[commit_id][1]} - waiting
    shown: list[CommitId] = []
    while waiting:
        covered = {parent for commit_id in waiting for parent in commits[commit_id][1]}
        best = max(waiting - covered, key=lambda commit_id: (commits[commit_id][0], commit_id))
        shown.append(best)
        waiting.remove(best)
    return shown


def _names(*, prefix: str, count: int) -> str:
    return "-".join(f"{prefix}{number}" for number in range(count))


def test_nothing_is_read_before_it_is_needed() -> None:
    refs = graph(_names(prefix="m", count=3000))
    log = iter_log(refs, id_of("m2999"))
    assert names_of(islice(log, 3)) == "m2999 m2998 m2997"
    assert len(refs.reads) <= 4


def _remembered(refs: FakeRefs, start: str) -> int:
    """Return how many commits a walk remembers at most."""
    walk = history._iter_children_first(
        history._HistoryPart(refs, first_parent=False, since=None, hidden=None), id_of(start)
    )
    return max(len(walk.gi_frame.f_locals["walk"]._found) for _ in walk)  # type: ignore[attr-defined]


def test_a_linear_history_is_not_remembered() -> None:
    assert _remembered(graph(_names(prefix="m", count=2000)), "m1999") <= 2


def test_only_what_is_shown_next_is_remembered() -> None:
    """Feature branches of five commits, each merged into the next one's base."""
    chains = ["m0"]
    for number in range(1, 300):
        feature = "-".join(f"f{number}x{step}" for step in range(5))
        chains += [f"m{number - 1}-{feature}", f"m{number - 1}+f{number}x4-m{number}"]
    assert _remembered(graph(",".join(chains)), "m299") <= 8


def test_damage_is_named() -> None:
    refs = graph(MERGED)
    del refs.commits[id_of("b")]
    with pytest.raises(DamagedHistory, match=f"missing commit {id_of('b')}, a parent of"):
        list(iter_log(refs, id_of("f")))
    with pytest.raises(DamagedHistory, match=f"missing commit {id_of('z')}$"):
        list(iter_log(refs, id_of("z")))

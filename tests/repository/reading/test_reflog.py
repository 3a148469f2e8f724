"""Braces: where a branch or tag stood, from its moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.model import RefKind
from lakecli.errors import NotFound, UsageError
from lakecli.refs.expression import parse_expression
from lakecli.refs.resolve import Resolved, commit_of, resolve
from lakecli.repository.reading.reflog import LoggedMove, Past, find_past_ref
from tests.support.graphs import FakeRefs, graph, id_of, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.base.model import CommitId

NOON = datetime(2026, 11, 10, 12, tzinfo=UTC)


@dataclass
class FakePast(Past):
    """The moves of refs, over dicts; `asked` lists whose moves it was asked for."""

    moves: dict[tuple[RefKind, str], list[LoggedMove]] = field(default_factory=dict)
    upstream: dict[tuple[RefKind, str], CommitId | None] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    now: datetime = NOON

    def find_kind(self, name: str) -> RefKind | None:
        return next((kind for kind, found in self.upstream if found == name), None)

    def iter_moves(self, kind: RefKind, name: str) -> Iterator[LoggedMove]:
        self.asked.append(name)
        return iter(self.moves.get((kind, name), []))

    def find_upstream(self, kind: RefKind, name: str) -> CommitId | None:
        return self.upstream.get((kind, name))


def moved(before: CommitId | None, after: CommitId | None, at: datetime) -> LoggedMove:
    return LoggedMove(before, after, at, who="", why="", shared=True)


def moves(text: str, *, since: str | None = None) -> list[LoggedMove]:
    """Return one move a day at noon, the last on November 9th; ``-`` is a deletion."""
    names = [since, *(None if name == "-" else name for name in text.split())]
    ids = [None if name is None else id_of(name) for name in names]
    start = NOON - timedelta(days=len(ids) - 1)
    steps = [
        moved(before, after, start + timedelta(days=number))
        for number, (before, after) in enumerate(pairwise(ids))
    ]
    return steps[::-1]


@pytest.fixture
def refs() -> FakeRefs:
    found = graph("a-b-c-d")
    found.add_branch("main", id_of("d"))
    found.add_tag("v1", id_of("b"))
    return found


@pytest.fixture
def past() -> FakePast:
    # main: a on the 6th, b on the 7th, c on the 8th, d on the 9th; v1: c on the 8th, b on the 9th
    return FakePast(
        {(RefKind.BRANCH, "main"): moves("a b c d"), (RefKind.TAG, "v1"): moves("c b")},
        {(RefKind.BRANCH, "main"): id_of("c"), (RefKind.BRANCH, "theirs"): id_of("b")},
    )


def find(text: str, refs: FakeRefs, past: FakePast) -> Resolved:
    parsed = parse_expression(text)
    found = find_past_ref(parsed, refs, past) if parsed.asks_for_moves else None
    return resolve(parsed, refs, found)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("main@{now}", "d"),
        ("main@{2026-11-09T12:00:00Z}", "d"),
        ("main@{2026-11-09 11:59}", "c"),
        ("main@{2026-11-09}", "c"),
        ("main@{2026-11-09T12:30+01:00}", "c"),
        ("main@{2027-01-01}", "d"),
        ("main@{yesterday}", "d"),
        ("main@{2 days ago}", "c"),
        ("main@{2 days ago}~", "b"),
        ("main@{yesterday}^~2", "a"),
        ("main@{2026-11-06 12:00}", "a"),
        ("v1@{now}", "b"),
        ("v1@{2 days ago}", "c"),
        ("main@{0}", "d"),
        ("main@{1}", "c"),
        ("main@{03}", "a"),
        ("main@{1}~1", "b"),
        ("v1@{1}", "c"),
        ("main@{upstream}", "c"),
        ("main@{U}", "c"),
        ("main@{u}~2", "a"),
        ("theirs@{u}", "b"),
    ],
)
def test_where_it_stood(text: str, name: str, refs: FakeRefs, past: FakePast) -> None:
    assert name_of(find(text, refs, past).commit.id) == name
    assert name_of(commit_of(find(text, refs, past), text).id) == name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("main@{2026-11-06 11:59}", "main goes back to 2026-11-06T12:00:00Z, and not to"),
        ("main@{10 years ago}", "main goes back to 2026-11-06T12:00:00Z"),
        ("v1@{2026-11-01}", "tag v1 goes back to 2026-11-08T12:00:00Z"),
        ("main@{4}", "branch main has moved 4 times"),
        ("main@{99}", "branch main has moved 4 times"),
        ("main@{1}~9", "goes past the first commit"),
        ("v1@{u}", "tag v1 is not in the bucket"),
        ("theirs@{now}", "nothing is known of how branch theirs moved"),
        ("theirs@{1}", "nothing is known of how branch theirs moved"),
        ("nobody@{now}", "no branch or tag 'nobody'"),
    ],
)
def test_where_it_did_not_stand(text: str, said: str, refs: FakeRefs, past: FakePast) -> None:
    with pytest.raises(NotFound, match=said):
        find(text, refs, past)


def test_the_hint_is_where_it_stood_first(refs: FakeRefs, past: FakePast) -> None:
    with pytest.raises(NotFound) as caught:
        find("main@{2026-11-01}", refs, past)
    assert caught.value.hint
    assert name_of(find(caught.value.hint.split(": ")[1], refs, past).commit.id) == "a"


def test_moves_that_are_forgotten(refs: FakeRefs, past: FakePast) -> None:
    """The oldest known move started somewhere: one more step back, but no date."""
    past.moves[RefKind.BRANCH, "main"] = moves("c d", since="b")
    assert name_of(find("main@{2}", refs, past).commit.id) == "b"
    for text in ("main@{3}", "main@{2026-11-08 11:59}"):
        with pytest.raises(NotFound):
            find(text, refs, past)


def test_a_time_when_it_was_deleted(refs: FakeRefs, past: FakePast) -> None:
    past.moves[RefKind.BRANCH, "main"] = moves("a - d")
    assert name_of(find("main@{2026-11-07 13:00}", refs, past).commit.id) == "a"
    for text in ("main@{2026-11-08 13:00}", "main@{1}"):
        with pytest.raises(NotFound, match="was not there"):
            find(text, refs, past)


@pytest.mark.parametrize("base", [id_of("b"), id_of("b")[:9]])
def test_a_commit_does_not_move(base: str, refs: FakeRefs, past: FakePast) -> None:
    with pytest.raises(UsageError, match="is for branches and tags, which move"):
        find(f"{base}@{{now}}", refs, past)


def test_a_ref_of_the_bucket_whose_name_begins_a_commit(refs: FakeRefs, past: FakePast) -> None:
    base = id_of("b")[:9]
    past.upstream[RefKind.BRANCH, base] = id_of("c")
    assert name_of(find(f"{base}@{{u}}", refs, past).commit.id) == "c"


def test_a_commit_that_this_clone_lacks_is_not_found(refs: FakeRefs, past: FakePast) -> None:
    past.upstream[RefKind.BRANCH, "main"] = id_of("z")
    with pytest.raises(NotFound, match="this clone does not have") as caught:
        find("main@{u}", refs, past)
    assert "`fetch" in (caught.value.hint or "")


def test_it_is_read_without_staging(refs: FakeRefs, past: FakePast) -> None:
    found = find("main@{1}~1", refs, past)
    assert not found.staging
    assert found.branch == refs.branches["main"]
    assert (found.kind, found.name, found.base_id) == (RefKind.BRANCH, "main", id_of("d"))
    assert found.steps == (("@{1}", id_of("c")), ("~1", id_of("b")))
    theirs = find("theirs@{u}", refs, past)
    assert (theirs.branch, theirs.base_id) == (None, id_of("b"))


def test_moves_are_read_only_if_the_expression_needs_them(refs: FakeRefs, past: FakePast) -> None:
    for text in ("main", "main~1", "main@", "main@{u}"):
        find(text, refs, past)
    assert not past.asked


@given(st.lists(st.integers(1, 30), max_size=12), st.integers(0, 400))
def test_it_stood_where_the_last_move_before_went(gaps: list[int], later: int) -> None:
    """Moves some hours apart, between the commits of a graph, and any hour to ask about."""
    refs = graph("a-b-c-d")
    refs.add_branch("main", id_of("d"))
    found: list[LoggedMove] = []
    at, before = NOON - timedelta(hours=300), None
    for number, gap in enumerate(gaps):
        at += timedelta(hours=gap)
        after = id_of("abcd"[number % 4])
        found.append(moved(before, after, at))
        before = after
    when = NOON - timedelta(hours=300) + timedelta(hours=later)
    expected = [move.after for move in found if move.at <= when][-1:]
    past = FakePast({(RefKind.BRANCH, "main"): found[::-1]})
    text = f"main@{{{when:%Y-%m-%d %H:%M}}}"
    if not expected:
        with pytest.raises(NotFound):
            find(text, refs, past)
    else:
        assert find(text, refs, past).commit.id == expected[0]
    for number, move in enumerate(found[::-1]):
        assert find(f"main@{{{number}}}", refs, past).commit.id == move.after


def test_malformed_dates_are_refused(refs: FakeRefs, past: FakePast) -> None:
    for text in ("main@{}", "main@{soon}", "main@{upstreams}"):
        with pytest.raises(UsageError, match="not a time"):
            find(text, refs, past)

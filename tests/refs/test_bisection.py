"""Bisection against ``git bisect run`` on random histories, and its corner cases."""

from __future__ import annotations

import random
import re
from math import ceil, log2
from typing import TYPE_CHECKING

import pytest

from lakecli.base.model import CommitId
from lakecli.errors import Refused
from lakecli.refs.bisection import Bisection, bisection, estimate_steps
from lakecli.refs.graph import iter_reached
from tests.refs.git import GitHistory, random_parents, rising_seconds
from tests.support.graphs import graph, id_of, name_of, names_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from lakecli.refs.ref_store import CommitReader

COUNT = 70
CASES = 2
SHAPES = [(3, 0.6), (6, 0.3), (15, 0.2), (40, 0.05), (5, 0.9), (2, 0.0)]
"""Reach of a parent, share of merges."""


def search(
    reader: CommitReader,
    bad: CommitId,
    good: Collection[CommitId],
    verdict: Callable[[CommitId], str],
) -> tuple[Bisection, int]:
    """Answer until the search ends; return its end, and the number of tests."""
    goods, skipped, tests, first = set(good), set[CommitId](), 0, bad
    while True:
        state = bisection(reader, bad, goods, skipped, first_bad=first)
        if state.current is None:
            return state, tests
        tests += 1
        tested = state.current.id
        said = verdict(tested)
        if said == "bad":
            bad = tested
        else:
            (goods if said == "good" else skipped).add(tested)


def reached(reader: CommitReader, start: CommitId) -> set[CommitId]:
    return {each for each, _ in iter_reached(reader, [start])}


@pytest.mark.parametrize("number", range(len(SHAPES)))
@pytest.mark.parametrize("skips", [0.0, 0.25])
def test_the_first_bad_commit_is_the_one_that_git_finds(
    tmp_path: Path, number: int, skips: float
) -> None:
    reach, merges = SHAPES[number]
    rng = random.Random(f"{number} {skips}")
    parents = random_parents(rng, COUNT, reach=reach, merges=merges)
    history = GitHistory(tmp_path / "git", parents, rising_seconds(rng, COUNT))
    ours = theirs = 0
    for case in range(CASES):
        tip = history.ids[-1 - case]
        ancestors = reached(history.refs, tip)
        broken = rng.choice(sorted(ancestors - {history.ids[0]}))
        bad = {each for each in history.ids if broken in reached(history.refs, each)}
        # Not always an ancestor of the tip, except where Git's own `run` stops at a skipped base.
        good = rng.choice(sorted((ancestors if skips else set(history.ids)) - bad))
        skipped = {each for each in history.ids if rng.random() < skips} - {tip, good}
        state, tests = search(
            history.refs,
            tip,
            [good],
            lambda each, bad=bad, skipped=skipped: (  # type: ignore[misc]
                "skip" if each in skipped else "bad" if each in bad else "good"
            ),
        )
        found, git_tests = _git_bisect(history, tip, good, bad, skipped)
        mine = [state.found.id] if state.found else [each.id for each in state.untested]
        # What is left of skipped commits depends on which of equally good ones were tested.
        assert broken in mine
        assert broken in found
        assert len(set(mine) - skipped) <= 1
        ours, theirs = ours + tests, theirs + git_tests
        if not skips:
            assert mine == [broken]
            assert tests <= git_tests + 2
    # Among equally good commits Git may choose another one; the difference evens out.
    assert ours <= theirs * 1.15 + 2


def _git_bisect(
    history: GitHistory,
    tip: CommitId,
    good: CommitId,
    bad: Collection[CommitId],
    skipped: Collection[CommitId],
) -> tuple[list[str], int]:
    """Run Git's own search; return the commits it names, and the number of its tests."""
    verdicts = history.path / "verdicts"
    verdicts.write_text("".join(f"{each}\n" for each in bad if each not in skipped))
    skips = history.path / "skips"
    skips.write_text("".join(f"{each}\n" for each in skipped))
    script = (
        f"c=$(git rev-parse BISECT_HEAD); grep -q $c {skips} && exit 125; ! grep -q $c {verdicts}"
    )
    history.run("symbolic-ref", "HEAD", "refs/heads/c0")
    output = history.output("bisect", "start", "--no-checkout", tip, good)
    output += history.output("bisect", "run", "sh", "-c", script)

    log = history.run("bisect", "log")
    history.run("bisect", "reset")
    first = re.search(r"^([0-9a-f]{64}) is the first bad commit", output, re.MULTILINE)
    tests = len(re.findall(r"^git bisect (?:good|bad|skip) ", log, re.MULTILINE))
    if first:
        return [first[1]], tests
    listed = output.partition("any of:\n")[2]
    return re.findall(r"^([0-9a-f]{64})$", listed, re.MULTILINE), tests


@pytest.mark.parametrize("count", [1, 2, 3, 10, 100, 1_000])
def test_a_straight_history_takes_its_logarithm(count: int) -> None:
    refs = graph("-".join(f"c{n:04}" for n in range(count + 1)))
    for first in {1, 2, count // 3, count // 2, count - 1, count} & set(range(1, count + 1)):
        state, tests = search(
            refs,
            id_of(f"c{count:04}"),
            [id_of("c0000")],
            lambda each, first=first: "bad" if int(name_of(each)[1:]) >= first else "good",  # type: ignore[misc]
        )
        assert state.found is not None
        assert name_of(state.found.id) == f"c{first:04}"
        assert tests <= ceil(log2(count))


def test_a_side_branch_is_judged_by_its_common_ancestor() -> None:
    refs = graph("a-b-c-d, b-x-y")
    state = bisection(refs, id_of("d"), [id_of("y")])
    assert state.is_merge_base
    assert state.current is not None
    assert name_of(state.current.id) == "b"
    state = bisection(refs, id_of("d"), [id_of("y"), id_of("b")])
    assert not state.is_merge_base
    assert names_of(state.candidates) == "d c"
    with pytest.raises(Refused, match="but its descendant"):
        bisection(refs, id_of("b"), [id_of("y")])


def test_a_bad_ancestor_of_a_good_commit_is_refused_in_the_middle_of_a_search() -> None:
    with pytest.raises(Refused, match=f"its descendant {id_of('d')} is good"):
        bisection(graph("a-b-c-d-e"), id_of("b"), [id_of("a"), id_of("d")], first_bad=id_of("e"))


def test_skipped_commits_are_named_where_nothing_else_is_left() -> None:
    refs = graph("a-b-c-d-e")
    ids = {name: id_of(name) for name in "abcde"}
    state = bisection(refs, ids["e"], [ids["a"]], [ids["b"], ids["c"], ids["d"]])
    assert (state.current, state.found) == (None, None)
    assert names_of(state.untested) == "e d c b"
    state = bisection(refs, ids["d"], [ids["b"]], [ids["c"]])
    assert names_of(state.untested) == "d c"


def test_estimates_are_those_of_git() -> None:
    counted = [estimate_steps(count) for count in (1, 2, 3, 4, 5, 6, 10, 11, 100, 1_000)]
    assert counted == [0, 0, 1, 1, 1, 2, 2, 3, 6, 9]

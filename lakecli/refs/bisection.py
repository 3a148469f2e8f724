"""Choose the commit to test next to find the first bad one, as ``git bisect`` does.

Candidates are the commits that the bad commit reaches and no good commit reaches. If the tested
commit is bad, only the candidates that it reaches are left. If it is good, only the other
candidates are left. The best commit to test leaves as few candidates as possible in either case.
Any graph of commits is allowed.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from math import isqrt
from typing import Final, NamedTuple, TypeAlias

from lakecli.base.model import Commit, CommitId
from lakecli.errors import Refused
from lakecli.refs.graph import is_ancestor, iter_merge_bases, iter_unreached
from lakecli.refs.ref_store import CommitReader

_PRN_MODULO: Final = 32_768
_SMALL: Final = 3


Ids: TypeAlias = Collection[CommitId]


class Bisection(NamedTuple):
    """The state of a search for the first bad commit.

    Attributes:
        candidates: the commits that may be the first bad one, newest first.
        current: the commit to test; ``None`` if no commit is left to test.
        left: how many candidates are left if `current` is good.
        steps: the approximate number of tests that are left after this one.
        is_merge_base: whether `current` is a common ancestor, tested because a good commit is not
            an ancestor of the bad one.
        found: the first bad commit; ``None`` if it is not known yet.
        untested: if only skipped commits are left to test, the skipped commits and the bad commit,
            one of which is the first bad commit; otherwise empty.
    """

    candidates: Sequence[Commit]
    current: Commit | None = None
    left: int = 0
    steps: int = 0
    is_merge_base: bool = False
    found: Commit | None = None
    untested: Sequence[Commit] = ()


def bisection(
    reader: CommitReader,
    bad: CommitId,
    good: Ids,
    skipped: Ids = (),
    *,
    first_bad: CommitId | None = None,
) -> Bisection:
    """Return the state of a search: the commit to test next, or the result.

    Args:
        skipped: commits that cannot be tested.
        first_bad: the first commit that the user marked as bad; ``None``: `bad` itself.

    Raises:
        Refused: the bad commit is an ancestor of a good one.
        DamagedHistory: the history between the bad commit and the good ones is broken.
    """
    candidates = list(iter_unreached(reader, bad, good))
    if not candidates:
        descendants = (each for each in good if is_ancestor(reader, bad, each))
        repaired = next(descendants, min(good))  # wrong generations may hide the descendant
        raise Refused(
            f"commit {bad} is bad, but its descendant {repaired} is good: bisect finds the first "
            "bad commit, not the one that repaired it",
            hint="to find the repair, call the new state bad and the old state good",
        )
    count = len(candidates)
    base = _untested_base(reader, first_bad or bad, good, skipped)
    if base is not None:
        return Bisection(candidates, base, count, estimate_steps(count), is_merge_base=True)
    weights = _weights(candidates)
    ranked = sorted(  # the bad commit comes last: it need not be tested again
        candidates,
        key=lambda each: -1 if each.id == bad else min(weights[each.id], count - weights[each.id]),
        reverse=True,
    )
    chosen = ranked[0]
    if chosen.id in skipped:
        chosen = _away_from_skipped([each for each in ranked if each.id not in skipped], bad)
    if chosen.id == bad:
        untested = [each for each in candidates if each.id in skipped or each.id == bad]
        if len(untested) > 1:
            return Bisection(candidates, untested=untested)
        return Bisection(candidates, found=chosen)
    left = max(count - weights[chosen.id] - 1, 0)
    return Bisection(candidates, chosen, left, estimate_steps(count))


def estimate_steps(count: int) -> int:
    """Return about how many tests follow the next test, to find one of `count` commits."""
    if count < _SMALL:
        return 0
    power = count.bit_length() - 1
    rest = count - (1 << power)
    return power if (1 << power) < 3 * rest else power - 1


def _untested_base(
    reader: CommitReader, first_bad: CommitId, good: Ids, skipped: Ids
) -> Commit | None:
    """Return a common ancestor of the good and bad commits that must be tested first, or ``None``.

    This test is needed if a good commit is not an ancestor of the bad one: then a common ancestor
    of both may be bad.
    """
    if all(is_ancestor(reader, each, first_bad) for each in good):
        return None
    bases = iter_merge_bases(reader, first_bad, *good)
    return next((each for each in bases if each.id not in {*good, *skipped}), None)


def _weights(candidates: Sequence[Commit]) -> dict[CommitId, int]:
    """Return for each candidate how many candidates it reaches, itself included.

    The set of candidates that a commit reaches is stored as the bits of an integer. It is kept
    until all children of the commit have used it.

    Args:
        candidates: the candidates, children before their parents.
    """
    position = {commit.id: at for at, commit in enumerate(candidates)}
    parents = {
        commit.id: [each for each in dict.fromkeys(commit.parents) if each in position]
        for commit in candidates
    }
    children = Counter(parent for each in parents.values() for parent in each)
    reached: dict[CommitId, int] = {}
    weights: dict[CommitId, int] = {}
    for commit in reversed(candidates):
        bits = 1 << position[commit.id]
        for parent in parents[commit.id]:
            bits |= reached[parent]
            children[parent] -= 1
            if not children[parent]:
                del reached[parent]
        reached[commit.id] = bits
        weights[commit.id] = bits.bit_count()
    return weights


def _away_from_skipped(able: Sequence[Commit], bad: CommitId) -> Commit:
    """Return a commit that is probably far from the skipped commits.

    The neighbours of a skipped commit are often broken, too. As in Git, the commit is chosen by a
    pseudorandom number that is the same in every run.
    """
    count = len(able)
    number = (count * 1_103_515_245 + 12_345) % (1 << 32) // 65_536 % _PRN_MODULO
    index = count * number // _PRN_MODULO * isqrt(number) // isqrt(_PRN_MODULO)
    if able[index].id != bad:
        return able[index]
    return able[max(index - 1, 0)]

"""Where ranges end, which must never change, because buckets hold ranges for years."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.identity import blake3_of
from lakecli.base.layout import MAX_RANGE_ENTRIES, MIN_RANGE_ENTRIES
from lakecli.committed.splitter import Splitter, key_number


def test_x_of_the_design() -> None:
    assert key_number(blake3_of(b"a/1.txt")) == 6736100025054409635


GOLDEN_64 = [67, 82, 163, 174, 238, 244, 255, 299, 354, 399, 412, 479]
GOLDEN_256 = [174, 244, 412, 479, 580, 847]


def test_golden_cuts() -> None:
    digests = b"".join(blake3_of(b"file-%d" % number) for number in range(1000))
    assert Splitter(64).cuts(digests, 0)[:12] == GOLDEN_64
    assert Splitter(256).cuts(digests, 0) == GOLDEN_256


def digest(x: int) -> bytes:
    """Return a digest whose number is x."""
    return x.to_bytes(8, "little") + bytes(24)


@pytest.mark.parametrize(
    ("x", "entries", "cut"),
    [
        (0, 1, True),
        (64, 1, True),
        (8, 1, False),
        (8, 63, False),
        (8, 64, True),
        (8, 65, True),
        (4, 255, False),
        (4, 256, True),
        (1, 64, False),
    ],
)
def test_the_three_clauses(x: int, entries: int, cut: bool) -> None:  # noqa: FBT001
    assert Splitter(64).is_cut(digest(x), entries) is cut


def one_by_one(splitter: Splitter, digests: list[bytes], entries: int) -> list[int]:
    found = []
    for at, each in enumerate(digests):
        entries += 1
        if splitter.is_cut(each, entries):
            found.append(at)
            entries = 0
    return found


@given(
    st.sampled_from([16, 32, 64, 4096]),
    # Numbers near multiples of N / 8, so that every clause is met, and long runs of neither.
    st.lists(
        st.sampled_from([1, 2, 8, 16, 64, 512, 4096]).map(digest)
        | st.integers(0, 2**64 - 1).map(digest),
        max_size=300,
    ),
    st.integers(0, 63),
)
def test_cuts_are_the_rule_applied_to_each_key(
    number: int, digests: list[bytes], entries: int
) -> None:
    splitter = Splitter(number)
    assert splitter.cuts(b"".join(digests), entries) == one_by_one(splitter, digests, entries)


def test_a_range_has_at_most_four_n_entries() -> None:
    assert Splitter(16).cuts(digest(1) * 200, 0) == [63, 127, 191]
    assert Splitter(16).cuts(digest(1) * 200, 60) == [3, 67, 131, 195]


def test_a_cut_after_four_n_entries_comes_before_the_next_key() -> None:
    """Though x of that key, and the number of entries, would cut there as well."""
    digests = [*[digest(1)] * 64, digest(2)]
    assert Splitter(16).cuts(b"".join(digests), 0) == one_by_one(Splitter(16), digests, 0) == [63]


def test_ranges_have_the_size_that_the_design_promises() -> None:
    digests = b"".join(blake3_of(b"%d" % number) for number in range(200_000))
    mean = 200_000 / len(Splitter(1024).cuts(digests, 0))
    assert 0.6 < mean / 1024 < 0.8


@pytest.mark.parametrize("number", [0, 1, 8, 15, 17, 24, -16])
def test_n_is_a_power_of_two_from_sixteen(number: int) -> None:
    with pytest.raises(ValueError, match="range_entries"):
        Splitter(number)


def test_the_bounds_of_n_are_those_that_repositories_in_buckets_have() -> None:
    assert (MIN_RANGE_ENTRIES, MAX_RANGE_ENTRIES) == (16, 1_048_576)
    for number in (MIN_RANGE_ENTRIES, MAX_RANGE_ENTRIES):
        assert Splitter(number).range_entries == number

"""Three trees are cut at keys that no range spans, and no further than it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.base.model import MetarangeId, RangeId
from lakecli.committed.metaranges import Metarange, RangeRecord, encode_range_record
from lakecli.committed.segments import segments

if TYPE_CHECKING:
    from lakecli.committed.segments import Slice

EQUAL = ("1ac", "2df", "3gi")


def tree_of(*ranges: str) -> Metarange:
    """Return a tree of ranges, each written as its name, its first key and its last key."""
    records = [
        RangeRecord(RangeId(each[0] * 64), each[1].encode(), each[2].encode(), 1, 1)
        for each in ranges
    ]
    return Metarange(
        MetarangeId("a" * 64),
        [record.max_key for record in records],
        [encode_range_record(record) for record in records],
        range_entries=16,
    )


def cut(
    *trees: tuple[str, ...], start: bytes = b"", stop: bytes | None = None
) -> list[tuple[str, str, str]]:
    """Return the names of the ranges of each segment, of base, source and destination."""

    def names(part: Slice) -> str:
        return "".join(part.tree.record(at).id[0] for at in range(part.first, part.last))

    base, source, destination = (tree_of(*each) for each in trees)
    found = list(segments(base, source, destination, start=start, stop=stop))
    assert [each.is_last for each in found[:-1]] == [False] * len(found[:-1])
    return [(names(each.base), names(each.source), names(each.destination)) for each in found]


@pytest.mark.parametrize(
    ("source", "destination", "expected"),
    [
        (EQUAL, EQUAL, [("123", "123", "123")]),
        (("1ac", "8df", "3gi"), EQUAL, [("1", "1", "1"), ("2", "8", "2"), ("3", "3", "3")]),
        (("1ac", "8de", "9fh"), EQUAL, [("1", "1", "1"), ("23", "89", "23")]),
        (("8ab", "2df", "3gi"), EQUAL, [("1", "8", "1"), ("23", "23", "23")]),
        # A range that begins with the last key of another one overlaps it.
        (("8ab", "9cf"), EQUAL, [("12", "89", "12"), ("3", "", "3")]),
        (EQUAL, (), [("1", "1", ""), ("2", "2", ""), ("3", "3", "")]),
        ((*EQUAL, "4jk"), EQUAL, [("123", "123", "123"), ("", "4", "")]),
        (EQUAL, ("9dz",), [("1", "1", ""), ("23", "23", "9")]),
    ],
)
def test_segments_end_where_no_range_goes_on(
    source: tuple[str, ...], destination: tuple[str, ...], expected: list[tuple[str, str, str]]
) -> None:
    assert cut(EQUAL, source, destination) == expected


@pytest.mark.parametrize(
    ("stop", "count"), [(b"a", 1), (b"f", 1), (b"f0", 2), (b"i", 2), (b"j", 3), (b"z", 3)]
)
def test_no_segment_follows_the_one_that_has_the_end(stop: bytes, count: int) -> None:
    base = ("1ac", "2df", "3gi", "4jk")
    source = ("1ac", "2df", "8gi", "4jk")
    expected = [("12", "12", "12"), ("3", "8", "3"), ("4", "4", "4")]
    assert cut(base, source, base, stop=stop) == expected[:count]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (b"c", [("123", "123", "123")]),
        (b"c0", [("23", "23", "23")]),
        (b"f", [("23", "23", "23")]),
        (b"g", [("3", "3", "3")]),
        (b"j", []),
    ],
)
def test_segments_before_the_start_are_left_out(
    start: bytes, expected: list[tuple[str, str, str]]
) -> None:
    assert cut(EQUAL, EQUAL, EQUAL, start=start) == expected


@pytest.mark.parametrize(
    ("source", "destination", "keeps", "contested"),
    [
        ("1ac", "1ac", True, False),
        ("1ac", "8ac", True, False),
        ("8ac", "8ac", True, False),
        ("8ac", "1ac", False, False),
        ("8ac", "9ac", False, True),
    ],
)
def test_what_is_known_of_a_segment_unread(
    source: str, destination: str, *, keeps: bool, contested: bool
) -> None:
    (segment,) = segments(tree_of("1ac"), tree_of(source), tree_of(destination))
    assert (segment.keeps_destination, segment.is_contested) == (keeps, contested)
    assert segment.is_last
    assert segment.base.is_same(segment.source) == (source == "1ac")


def test_as_many_other_ranges_are_not_the_same() -> None:
    (first, second) = (tree_of("1ac", "2df"), tree_of("1ac", "8df"))
    found = list(segments(first, second, tree_of("9af")))
    assert [each.base.is_same(each.source) for each in found] == [False]

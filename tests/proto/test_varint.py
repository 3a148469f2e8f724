"""The tables of encoded numbers."""

from __future__ import annotations

from lakecli.proto.varint import PAIR_BITS, continued_pairs, encode_varint, small_varints


def test_the_table_of_small_numbers_has_each_as_it_is_encoded() -> None:
    assert small_varints() == [encode_varint(number) for number in range(4_096)]


def test_the_table_of_pairs_begins_each_longer_number() -> None:
    pairs = continued_pairs()
    for number in (1 << PAIR_BITS, 12_345_678, (1 << 35) - 1):
        low = number & ((1 << PAIR_BITS) - 1)
        assert encode_varint(number) == pairs[low] + encode_varint(number >> PAIR_BITS)

"""The table of encoded numbers."""

from __future__ import annotations

from lakecli.proto.varint import encode_varint, small_varints


def test_the_table_of_small_numbers_has_each_as_it_is_encoded() -> None:
    assert small_varints() == [encode_varint(number) for number in range(4_096)]

"""Bounded parsing: whatever a document holds, it is read or refused by our own error."""

from __future__ import annotations

import io
import json
import time
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.parsing import (
    MAX_DEPTH,
    MAX_DIGITS,
    RecordLines,
    Unparsable,
    parse_json,
    parse_json_object,
    parse_toml,
)
from tests.support.forgeries import DOCUMENTS

STILL_JSON = {"null", "true", "number", "text", "array", "no fields"}
SURROGATES = {"lone surrogate as a value", "lone surrogate as a field"}

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(st.lists(st.lists(st.text("ab", max_size=9), min_size=1, max_size=3), max_size=9))
def test_lines_of_records_are_read_within_a_bound(records: list[list[str]]) -> None:
    file = io.StringIO("".join(line + "\n" for lines in records for line in lines))
    lines = RecordLines(file, 16)
    for record in records:
        if sum(len(line) + 1 for line in record) > 16:
            with pytest.raises(Unparsable, match="more than 16 bytes"):
                list(islice(lines, len(record)))
            return
        assert list(islice(lines, len(record))) == [line + "\n" for line in record]
        lines.end_record()
    assert list(lines) == []


def test_no_more_than_a_record_is_read_of_a_long_line() -> None:
    file = io.BytesIO(b"x" * 1_000)
    with pytest.raises(Unparsable):
        next(RecordLines(file, 16))
    assert file.tell() == 17


@given(values)
def test_what_json_can_say_is_read(value: object) -> None:
    assert parse_json(json.dumps(value)) == value
    assert parse_json(json.dumps(value, ensure_ascii=False).encode()) == value


@given(st.binary(max_size=60) | st.text(max_size=60))
def test_anything_else_is_refused_by_our_error(data: bytes | str) -> None:
    try:
        parse_json(data)
    except Unparsable as error:
        assert str(error)  # noqa: PT017 - most are refused, a few are JSON


@pytest.mark.parametrize("name", sorted(DOCUMENTS.keys() - STILL_JSON - SURROGATES))
def test_hostile_documents(name: str) -> None:
    began = time.process_time()
    with pytest.raises(Unparsable):
        parse_json(DOCUMENTS[name])
    assert time.process_time() - began < 1


@pytest.mark.parametrize("name", sorted(STILL_JSON - {"no fields"}))
def test_what_is_no_object(name: str) -> None:
    with pytest.raises(Unparsable, match="not a JSON object"):
        parse_json_object(DOCUMENTS[name])


@pytest.mark.parametrize("name", sorted(SURROGATES))
def test_half_characters_are_left_to_the_record(name: str) -> None:
    """Unknown fields survive a rewrite whatever they hold; known ones are checked by theirs."""
    found = parse_json_object(DOCUMENTS[name])
    assert parse_json(json.dumps(found)) == found


def test_the_bounds_themselves() -> None:
    assert parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(Unparsable, match=f"deeper than {MAX_DEPTH}"):
        parse_json("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))
    assert parse_json("[" + ",".join(["[]"] * 500) + "]") == [[]] * 500
    assert parse_json(json.dumps({"a": '[[{"' * 500})) == {"a": '[[{"' * 500}
    assert parse_json("9" * MAX_DIGITS) == int("9" * MAX_DIGITS)
    with pytest.raises(Unparsable, match="41 characters"):
        parse_json("9" * (MAX_DIGITS + 1))
    with pytest.raises(Unparsable, match="characters"):
        parse_json("0." + "9" * MAX_DIGITS)
    assert parse_json('"1234"', max_size=6) == "1234"
    with pytest.raises(Unparsable, match="7 bytes, at most 6"):
        parse_json('"12345"', max_size=6)


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 5_000,
        "a = " + "[" * 5_000 + "]" * 5_000,
        "a = " + "{b = " * 5_000 + "1" + "}" * 5_000,
        "a = " + "9" * 5_000,
        "a = 0x" + "f" * 70_000,
        "a" * 70_000 + " = 1",
        "a" + ".a" * 40_000 + " = 1",
        "a = 1\na = 2",
        "a = '",
        "\0",
        "\ud800 = 1",
    ],
    ids=lambda text: text[:12].encode("ascii", "replace").decode(),
)
def test_hostile_toml(text: str) -> None:
    began = time.process_time()
    with pytest.raises(Unparsable):
        parse_toml(text)
    assert time.process_time() - began < 2


def test_toml() -> None:
    assert parse_toml("[user]\nname = 'Ada'\n[cache]\nsize = 1e400") == {
        "user": {"name": "Ada"},
        "cache": {"size": float("inf")},
    }
    assert parse_toml("a" + ".a" * 5_000 + " = 1")
    with pytest.raises(Unparsable, match="line 2"):
        parse_toml("a = 1\n!")

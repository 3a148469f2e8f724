"""Records validated whole: each kind of check against each kind of forgery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base import validation
from lakecli.base.ids import CommitId, MetarangeId, WriteId
from lakecli.base.validation import Invalid, Record, optional
from tests.support.forgeries import VALUES, broken

if TYPE_CHECKING:
    from collections.abc import Callable

LEGAL_TEXTS = {
    "empty", "short", "short ID", "uneven ID", "long ID", "capitals", "newline after an ID",
    "absolute path", "absolute path of the size of an ID", "absolute path of the size of a UUID",
    "parent", "parents",
}  # fmt: skip

CHECKS: dict[str, tuple[Callable[[object], Any], Any, set[str]]] = {
    "commit": (validation.identifier(CommitId), "a" * 64, set()),
    "tree": (validation.identifier(MetarangeId), "a" * 64, {"empty"}),
    "write": (validation.identifier(WriteId), "a" * 32, set()),
    "or null": (validation.nullable(validation.identifier(CommitId)), "a" * 64, {"null"}),
    "or empty": (validation.or_empty(validation.identifier(CommitId)), "a" * 64, {"empty"}),
    "whole": (validation.whole(1, 10), 5, {"number"}),
    "power": (validation.power_of_two(16, 1 << 20), 64, set()),
    "text": (validation.text(100), "text", LEGAL_TEXTS),
    "some text": (validation.text(100, min_size=1), "text", LEGAL_TEXTS - {"empty"}),
    "grammar": (validation.text_that(str.islower, "small letters"), "a",
                {"short", "short ID", "uneven ID", "long ID", "newline after an ID", "parents",
                 "absolute path", "absolute path of the size of an ID",
                 "absolute path of the size of a UUID"}),
    "choice": (validation.choice("branch", "tag"), "tag", set()),
    "list": (validation.list_of(validation.whole(1, 10), 3), [1, 2, 3], {"list"}),
    "moment": (validation.moment, "2026-11-20T15:00:00Z", set()),
}  # fmt: skip

SOUND = {name: sound for name, (_, sound, _) in CHECKS.items()}
RECORD = Record({name: check for name, (check, _, _) in CHECKS.items()})
BROKEN = dict(broken(SOUND, {name: legal for name, (_, _, legal) in CHECKS.items()}))


def test_a_sound_record() -> None:
    found = RECORD.read(SOUND)
    assert type(found["commit"]) is CommitId
    assert type(found["write"]) is WriteId
    assert {**found, "moment": None} == {**SOUND, "moment": None}
    assert found["moment"].isoformat() == "2026-11-20T15:00:00+00:00"


@pytest.mark.parametrize("fields", BROKEN.values(), ids=BROKEN)
def test_each_field_broken_in_each_way(fields: dict[str, Any], request: Any) -> None:
    with pytest.raises(Invalid) as caught:
        RECORD.read(fields)
    assert len(str(caught.value)) < 300
    assert request.node.callspec.id.split(" ")[0] in str(caught.value)


@pytest.mark.parametrize("name", CHECKS)
def test_what_is_legal_is_legal(name: str) -> None:
    check, _, legal = CHECKS[name]
    for forgery in legal:
        RECORD.read({**SOUND, name: VALUES[forgery]})
        check(VALUES[forgery])


@pytest.mark.parametrize("found", [None, [], "text", 7, True, 1.5])
def test_what_is_no_object(found: object) -> None:
    with pytest.raises(Invalid, match="not an object"):
        RECORD.read(found)


def test_optional_and_unknown_fields() -> None:
    record = Record({"known": validation.whole(0, 9), "later": optional(validation.text(9), "")})
    assert record.read({"known": 1}) == {"known": 1, "later": ""}
    assert record.read({"known": 1, "later": "x", "new": [1]}) == {"known": 1, "later": "x"}
    assert record.unknown({"known": 1, "new": [1]}) == {"new": [1]}
    with pytest.raises(Invalid, match="later: not a text: 7"):
        record.read({"known": 1, "later": 7})
    assert list(record.names) == ["known", "later"]


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "9999-12-31T23:59:59Z",
        "9998-12-31T00:00:00.000001Z",
        "1969-12-31T23:59:59Z",
        "2026-11-20T15:00:00",
        "2026-13-20T15:00:00Z",
        "yesterday",
        "2026-11-20T15:00:00Z" + " " * 100,
    ],
)
def test_times_that_cannot_be(text: str) -> None:
    with pytest.raises(Invalid):
        validation.moment(text)


@pytest.mark.parametrize(
    ("text", "year"), [("1970-01-01T00:00:00Z", 1970), ("9998-12-31T00:00:00Z", 9998)]
)
def test_the_first_and_the_last_time_that_can_be(text: str, year: int) -> None:
    assert validation.moment(text).year == year


@pytest.mark.parametrize("value", [True, False])
def test_true_and_false(value: bool) -> None:  # noqa: FBT001  # it is what is checked
    assert validation.boolean(value) is value


@pytest.mark.parametrize("value", [0, 1, "true", None])
def test_what_is_neither_true_nor_false(value: object) -> None:
    with pytest.raises(Invalid, match="neither true nor false"):
        validation.boolean(value)


def test_powers_of_two() -> None:
    check = validation.power_of_two(1, 1 << 20)
    assert [check(1 << number) for number in range(21)] == [1 << number for number in range(21)]
    for number in (3, 5, 6, 7, 9, 12, (1 << 20) - 1):
        with pytest.raises(Invalid, match="not a power of two"):
            check(number)


def test_undecodable_bytes_are_text_and_half_characters_are_not() -> None:
    assert validation.text(9)("\udc80") == "\udc80"
    with pytest.raises(Invalid, match="half a character"):
        validation.text(9)("\ud800")
    with pytest.raises(Invalid, match="10 bytes"):
        validation.text(9)("\u00e9" * 5)


@pytest.mark.parametrize(
    ("check", "legal", "illegal"),
    [
        (validation.whole(2, 4), [2, 3, 4], [1, 5, True, 3.0]),
        (validation.power_of_two(2, 8), [2, 4, 8], [1, 16]),
        (
            validation.text(4, min_size=2),
            ["ab", "abcd", "\u00e9\u00e9"],
            ["a", "abcde", "\u00e9" * 3],
        ),
        (validation.text(4, has_nul=True), ["", "a\0b"], ["a\0bcd"]),
        (validation.text(4), ["", "abcd"], ["a\0b", "abcde"]),
        (validation.text_that(str.islower, "x"), ["a", "a" * 4096], ["A", "", "a" * 4097, "a\0"]),
        (validation.list_of(validation.whole(1, 2), 2), [[], [1], [1, 2]], [[3], [1, 1, 1], (1,)]),
        (validation.choice("on", "off"), ["on", "off"], ["", "o", "onoff", 1, None]),
        (validation.nullable(validation.whole(1, 2)), [None, 1], [0, ""]),
        (validation.or_empty(validation.whole(1, 2)), ["", 1], [0, None]),
        (validation.identifier(CommitId), ["a" * 64], [None, b"a" * 64]),
    ],
)
def test_the_bounds_of_a_check(
    check: Callable[[object], Any], legal: list[object], illegal: list[object]
) -> None:
    assert [check(value) for value in legal] == legal
    for value in illegal:
        with pytest.raises(Invalid):
            check(value)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (-7, "-7"),
        (1.5, "1.5"),
        (10**70, "1" + "0" * 59),
        ("tomorrow", "'tomorrow'"),
        ("x" * 60, f"'{'x' * 60}'"),
        ("x" * 61, f"'{'x' * 60}'…"),
        (b"x" * 61, f"b'{'x' * 60}'…"),
        ([1], "a list"),
        ({}, "a dict"),
    ],
)
def test_an_error_shows_the_value_in_short(value: object, shown: str) -> None:
    with pytest.raises(Invalid) as caught:
        validation.moment(value)
    assert str(caught.value) == f"not a time: {shown}"


def test_a_field_is_required_unless_it_is_optional() -> None:
    one = Record({"kept": validation.Field(validation.boolean)})
    with pytest.raises(Invalid, match="no field 'kept'"):
        one.read({})
    two = Record({"later": optional(validation.boolean, None), "kept": validation.boolean})
    assert two.read({"kept": True}) == {"later": None, "kept": True}
    with pytest.raises(Invalid, match="kept: neither"):
        two.read({"kept": 1})


def test_the_largest_count_is_exact_as_a_float_and_so_is_its_successor() -> None:
    largest = validation.MAX_COUNT
    exact = [int(float(number)) == number for number in (largest, largest + 1, largest + 2)]
    assert exact == [True, True, False]

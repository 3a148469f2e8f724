from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.errors import UsageError
from lakecli.refs import resolve
from lakecli.refs.expression import (
    MAX_NUMBER,
    MODIFIERS,
    Modifier,
    ModifierRule,
    RefExpression,
    parse_expression,
    split_range,
)
from lakecli.repository.reading.reflog import PAST

LEGAL = {
    "main": ("main", []),
    "dev:joe": ("dev:joe", []),
    "v1.0": ("v1.0", []),
    "main~": ("main", [("~", 1)]),
    "main~1": ("main", [("~", 1)]),
    "main~0": ("main", [("~", 0)]),
    "main~007": ("main", [("~", 7)]),
    "main^": ("main", [("^", 1)]),
    "main^2": ("main", [("^", 2)]),
    "main^^": ("main", [("^", 1), ("^", 1)]),
    "main~^~3": ("main", [("~", 1), ("^", 1), ("~", 3)]),
    "main@": ("main", [("@", 1)]),
    "main$": ("main", [("$", 1)]),
    f"main~{MAX_NUMBER}": ("main", [("~", MAX_NUMBER)]),
    f"main^000{MAX_NUMBER}": ("main", [("^", MAX_NUMBER)]),
    f"main~{5000 * '0'}2": ("main", [("~", 2)]),
    "a{1}": ("a{1}", []),
    "main@{u}": ("main", [("@{upstream}", 1)]),
    "main@{upstream}^2": ("main", [("@{upstream}", 1), ("^", 2)]),
    "main@{0}": ("main", [("@{n}", 0)]),
    "main@{12}~3": ("main", [("@{n}", 12), ("~", 3)]),
    "main@{20261101}": ("main", [("@{date}", 1)]),
    "main@{2026-11-01T10:00:00+02:00}~": ("main", [("@{date}", 1), ("~", 1)]),
    "main@{3 days ago}": ("main", [("@{date}", 1)]),
    "main@{a~1^$@}~2": ("main", [("@{date}", 1), ("~", 2)]),
    "main@{}": ("main", [("@{date}", 1)]),
    "naïve~2": ("naïve", [("~", 2)]),
}
# The error, and the position of the wrong character.
ILLEGAL = {
    "": ("empty ref expression", None),
    "~1": ("no branch, tag or commit ID before '~'", 1),
    "@": ("no branch, tag or commit ID before '@'", 1),
    "@{upstream}": ("no branch, tag or commit ID before '@'", 1),
    "$": ("no branch, tag or commit ID before '$'", 1),
    "branch1@1": ("'@' takes nothing after it: '1'", 9),
    "branch1@^": ("'@' must be the only modifier", 8),
    "branch1^@": ("'@' must be the only modifier", 9),
    "main@@": ("'@' must be the only modifier", 5),
    "main@$": ("'@' must be the only modifier", 5),
    "main~2$": ("'$' must be the only modifier", 7),
    "main$x": ("'$' takes nothing after it: 'x'", 6),
    "main~-1": ("only digits may follow '~', not '-1'", 6),
    "main^-1": ("only digits may follow '^', not '-1'", 6),
    "main~+1": ("only digits may follow '~', not '+1'", 6),
    "main~1x": ("only digits may follow '~', not 'x'", 7),
    "main~2^{commit}": ("only digits may follow '^', not '{commit}'", 8),
    "main~٣": ("only digits may follow '~', not '٣'", 6),
    "main~1_0": ("only digits may follow '~', not '_0'", 7),
    f"main~{MAX_NUMBER + 1}": (f"the number after '~' is over {MAX_NUMBER}: 2147483648", 6),
    "main~" + "9" * 5000: ("is over 2147483647: 5000 digits", 6),
    "main 1": ("' ' cannot be in a ref", 5),
    "main~ 1": ("' ' cannot be in a ref", 6),
    " main": ("' ' cannot be in a ref", 1),
    "main\n": (r"'\n' cannot be in a ref", 5),
    "ma\0in": (r"'\x00' cannot be in a ref", 3),
    "main~1@{1}": ("'@{1}' must come first", 7),
    "main@{1}@{u}": ("'@{u}' must come first", 9),
    "main@{1}@": ("'@' must be the only modifier", 9),
    "main@{1}x": ("'@{…}' takes nothing after it: 'x'", 9),
    "main@{1}} ~1": ("' ' cannot be in a ref", 10),
    "main@{1 day ago} ~1": ("' ' cannot be in a ref", 17),
    "main@{2026/11/01}": ("no '/' inside the braces", 11),
    "main@{": ("no '}' after '@{'", 5),
    "main@{1~2": ("no '}' after '@{1~2'", 5),
}


@pytest.mark.parametrize("text", LEGAL)
def test_legal(text: str) -> None:
    base, modifiers = LEGAL[text]
    expression = parse_expression(text)
    assert expression.base == base
    assert [(found.symbol, found.number) for found in expression.modifiers] == modifiers
    assert str(expression) == text


@pytest.mark.parametrize("text", ILLEGAL, ids=lambda text: repr(text)[:30])
def test_illegal(text: str) -> None:
    reason, position = ILLEGAL[text]
    with pytest.raises(UsageError) as caught:
        parse_expression(text)
    assert reason in caught.value.message
    assert caught.value.hint
    if position is not None:
        assert f"malformed ref expression {text!r}" in caught.value.message
        assert caught.value.message.endswith(f"(character {position})")


@pytest.mark.parametrize("rule", MODIFIERS, ids=lambda rule: rule.symbol)
def test_every_row_of_the_table(rule: ModifierRule) -> None:
    """Every row of the table is parsed as it says, and its modifier is implemented."""
    assert rule.summary
    assert (rule.symbol in PAST) == bool(rule.within)
    if rule.within:
        assert not rule.alone
        return  # as the examples above
    assert len(rule.symbol) == 1
    text = f"main{rule.symbol}"
    assert parse_expression(text) == RefExpression("main", (Modifier(rule.symbol, 1, rule.symbol),))
    if rule.takes_number:
        assert parse_expression(f"{text}12").modifiers[0].number == 12
    else:
        with pytest.raises(UsageError, match="takes nothing"):
            parse_expression(f"{text}12")
    for combined in (f"{text}~", f"main~{rule.symbol}"):
        if rule.alone:
            with pytest.raises(UsageError, match="must be the only modifier"):
                parse_expression(combined)
        else:
            assert len(parse_expression(combined).modifiers) == 2
    assert (rule.symbol in resolve.STAGING) == rule.alone
    assert (rule.symbol in resolve.WALKS) == (not rule.alone)


def test_the_symbols_are_distinct() -> None:
    assert len({rule.symbol for rule in MODIFIERS}) == len(MODIFIERS)


@given(st.text(max_size=30) | st.text("ab1~^@${} -0", max_size=14))
def test_any_text_parses_or_is_a_usage_error(text: str) -> None:
    outcome = _parse_or_error(text)
    if isinstance(outcome, UsageError):
        assert "\n" not in outcome.message  # shown quoted, so that one line stays one line
        assert outcome.hint
        return
    assert str(outcome) == text
    assert re.fullmatch(r"[^~^@$\s]+", outcome.base)
    assert all(0 <= found.number <= MAX_NUMBER for found in outcome.modifiers)


def _parse_or_error(text: str) -> RefExpression | UsageError:
    try:
        return parse_expression(text)
    except UsageError as error:
        return error


@given(st.lists(st.tuples(st.sampled_from("~^"), st.none() | st.integers(0, MAX_NUMBER))))
def test_numbers_survive(modifiers: list[tuple[str, int | None]]) -> None:
    text = "b" + "".join(f"{symbol}{'' if n is None else n}" for symbol, n in modifiers)
    assert [(found.symbol, found.number) for found in parse_expression(text).modifiers] == [
        (symbol, 1 if n is None else n) for symbol, n in modifiers
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("main", None),
        ("v1.0", None),
        ("main..dev", ("main", "..", "dev")),
        ("main...dev", ("main", "...", "dev")),
        ("main@{1}..v1.0~2", ("main@{1}", "..", "v1.0~2")),
    ],
)
def test_ranges_are_split(text: str, expected: tuple[str, str, str] | None) -> None:
    assert split_range(text) == expected


@pytest.mark.parametrize("text", ["..", "main..", "..dev", "a....b", "a..b..c", "a...b..c"])
def test_malformed_ranges_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="malformed range of refs"):
        split_range(text)

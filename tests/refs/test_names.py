from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.errors import UsageError
from lakecli.refs.expression import RefExpression, parse_expression
from lakecli.refs.names import (
    MAX_KEY_SIZE,
    check_branch_name,
    check_tag_name,
    is_branch_name,
    is_full_commit_id,
    is_tag_name,
)

HEX = "0123456789abcdef" * 4

BRANCHES = [
    "main",
    "dev:joe-bugfix-1234",
    "a",
    "_",
    "9",
    "A-",
    "a:",
    "x" * MAX_KEY_SIZE,
    HEX[:63],
    HEX + "0",
]
NO_BRANCHES = {
    "": "empty",
    "-a": "'-' cannot start it",
    ":a": "':' cannot start it",
    "feature/x": "'/' cannot be in it",
    "v1.0": "'.' cannot be in it",
    "a b": "' ' cannot be in it",
    "a\n": r"'\n' cannot be in it",
    "naïve": "'ï' cannot be in it",
    "٣": "'٣' cannot start it",
    "a~1": "'~' cannot be in it",
    "a@": "'@' cannot be in it",
    HEX: "always mean a commit",
    HEX.upper(): "always mean a commit",
    "x" * (MAX_KEY_SIZE + 1): f"too long: {MAX_KEY_SIZE + 1} bytes",
    "X" * 86: "too long: 258 bytes",
}
TAGS = [
    "v2.3",
    "dev:jane-before-v2.3-merge",
    "a",
    "-",
    ".a",
    "a.b.c",
    "a.lock.b",
    "lock",
    "höhe",
    "日本",
    "a{1}",
    "#!%&'()+,;<=>|`\"",
    "x" * MAX_KEY_SIZE,
    "日" * 28,
    HEX[:63],
]
NO_TAGS = {
    "": "empty",
    "@": "'@' is a mark",
    "a@b": "'@' is a mark",
    "a@{1}": "'@' is a mark",
    "~": "'~' is a mark",
    "v1~rc": "'~' is a mark",
    "a^": "'^' is a mark",
    "cash$": "'$' is a mark",
    "v1.": "ends with '.'",
    "v1.lock": "ends with '.lock'",
    ".lock": "ends with '.lock'",
    ".": "ends with '.'",
    "a..b": "'..' cannot be in it",
    "a/b": "'/' cannot be in it",
    "a?": "'?' cannot be in it",
    "a*": "'*' cannot be in it",
    "a[": "'[' cannot be in it",
    "a\\": r"'\\' cannot be in it",
    "a b": "' ' cannot be in it",
    "a\tb": r"'\t' cannot be in it",
    "a\0": r"'\x00' cannot be in it",
    "a\x7f": r"'\x7f' cannot be in it",
    "a\x9b": r"'\x9b' cannot be in it",
    "a\u2028b": r"'\u2028' cannot be in it",
    "a\udcff": r"'\udcff' cannot be in it",
    "\ud800": r"'\ud800' cannot be in it",
    HEX: "always mean a commit",
    "日" * 29: "too long: 261 bytes",
}


@pytest.mark.parametrize("name", BRANCHES)
def test_legal_branch(name: str) -> None:
    check_branch_name(name)
    assert is_branch_name(name)


@pytest.mark.parametrize("name", NO_BRANCHES)
def test_illegal_branch(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_branch_name(name)
    assert not is_branch_name(name)
    assert NO_BRANCHES[name] in caught.value.message
    assert f"illegal branch name {name!r}" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("name", TAGS)
def test_legal_tag(name: str) -> None:
    check_tag_name(name)
    assert is_tag_name(name)


@pytest.mark.parametrize("name", NO_TAGS)
def test_illegal_tag(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_tag_name(name)
    assert not is_tag_name(name)
    assert NO_TAGS[name] in caught.value.message
    assert f"illegal tag name {name!r}" in caught.value.message
    assert caught.value.hint


@given(st.text(max_size=12) | st.text("ab.:-_~^@$/ ", max_size=6))
def test_a_legal_name_is_an_expression_that_means_it(name: str) -> None:
    if is_branch_name(name):
        assert is_tag_name(name)
    if is_tag_name(name):
        assert parse_expression(name) == RefExpression(name)


def test_full_commit_id() -> None:
    assert is_full_commit_id(HEX)
    assert is_full_commit_id(HEX.upper())
    assert not is_full_commit_id(HEX[:63])
    assert not is_full_commit_id(HEX + "0")
    assert not is_full_commit_id(HEX + "\n")
    assert not is_full_commit_id("g" + HEX[1:])

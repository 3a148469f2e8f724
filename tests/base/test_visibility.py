from __future__ import annotations

import pytest

from lakecli.base.visibility import escape_hidden, is_visible
from lakecli.cli.out.text import quote_path
from lakecli.repository.handoff.links import readable


@pytest.mark.parametrize(
    "text", ["", "a b.csv", "naïve/数据", "wide\u3000space\xa0", "e\u0301", "🦆"]
)
def test_what_has_a_form_or_a_width_is_visible(text: str) -> None:
    assert is_visible(text)
    assert escape_hidden(text, str.upper) == text


@pytest.mark.parametrize(
    "character",
    [
        *"\0\n\t\x1b\x7f\x85\u2028\u2029",
        *"\u200b\u200c\u200d\u2060\ufeff",  # of no width
        *"\u200e\u200f\u061c\u202a\u202e\u2066\u2069",  # the direction of writing
        *"\U000e0001\U000e0041\U000e007f",  # tags
        *"\ufe00\ufe0f\U000e0100\U000e01ef\u180b",  # variation selectors
        *"\xad\u034f\u115f\u3164\uffa0\u17b4",  # letters and marks without a form
        *"\ufff9\ufffb\U0001d173\U000110bd",
        *"\ue000\U000f0000\U0010fffd",  # of private use
        *"\u0378\ufdd0\uffff\U000e0fff",  # unassigned
        *"\ud800\udcff",
    ],
)
def test_what_a_reader_does_not_see_is_escaped_everywhere(character: str) -> None:
    name = f"日{character}b"
    assert not is_visible(name)
    assert escape_hidden(name, lambda found: f"<{ord(found)}>") == f"日<{ord(character)}>b"
    assert character not in quote_path(name)
    if character != "\ud800":  # no name of an object
        assert character not in readable(name.encode("utf-8", "surrogateescape"))

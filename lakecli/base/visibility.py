"""Decides which characters are visible, for terminals, web pages, scripts and completion.

An invisible character can disguise a name, change the direction of the text around it, or control
a terminal. So it is escaped wherever people read text from a bucket.
"""

import re
from collections.abc import Callable
from typing import Final

IGNORABLE: Final = (
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
"""Characters that Unicode lets a program hide or ignore (``Default_Ignorable_Code_Point``)."""

_BLANK: Final = "[\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]"
"""Spaces that have a width, but are not printable for `str.isprintable`."""

_PRINTABLE: Final = bytes(range(0x20, 0x7F))
"""Printable ASCII; a search for any other byte is much faster than `str.isprintable`."""


def is_visible(text: str, *, besides: str = "") -> bool:
    """Return whether every character of a text is visible; characters in `besides` are allowed."""
    if text.isascii():
        return not text.encode().translate(None, _PRINTABLE + besides.encode())
    for character in besides:
        text = text.replace(character, "")
    if re.search(IGNORABLE, text):
        return False
    return text.isprintable() or re.sub(_BLANK, " ", text).isprintable()


def escape_hidden(text: str, escape: Callable[[str], str]) -> str:
    """Return a text with `escape` applied to each invisible character."""
    if is_visible(text):
        return text
    return re.sub("[^ -~]", lambda found: _escaped(found[0], escape), text)


def _escaped(character: str, escape: Callable[[str], str]) -> str:
    return character if is_visible(character) else escape(character)

"""Escape the names of objects for shells, terminals and file systems."""

from __future__ import annotations

import os
import re
from typing import Final
from unicodedata import category

from lakecli.repository.transfer.own_files import LEFT_OUT, is_own

PARTS: Final = ".lakecli-parts"
"""The directory in which download scripts keep unfinished files."""

_TO_ESCAPE: Final = re.compile(rb"[^ -~]|['\\]")
_NOT_IN_URL: Final = re.compile(r"[^A-Za-z0-9._~:/?\[\]@!$&()*+,;=%-]")
_MISLEADING: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""The Unicode categories of invisible characters and of those that reorder text."""

_SURROGATE_BYTES: Final = ("\udc80", "\udcff")
"""The first and the last surrogate that a byte which is not UTF-8 is decoded to."""


def problem_of(name: bytes) -> str | None:
    """Return why the name of an object cannot be a file below a directory, or ``None`` if it can.

    A trailing slash is allowed: such an object stands for a directory.
    """
    components = name.removesuffix(b"/").split(b"/")
    if name.startswith(b"/"):
        return "it is an absolute path"
    if b".." in components:
        return ".. leads out of the directory"
    if b"" in components or b"." in components:
        return "one of its components is empty or ."
    if b"\0" in name:
        return "it has a NUL"
    if is_own(name):
        return LEFT_OUT
    return None


def shell_word(name: bytes) -> str:
    r"""Escape a name for ``printf %b`` in single quotes, as ASCII.

    Backslashes, quotes and everything but printable ASCII become ``\0`` and three octal digits.
    """
    escaped = _TO_ESCAPE.sub(lambda match: b"\\0%03o" % match[0][0], name)
    return escaped.decode("ascii")


def url_text(url: str) -> str:
    """Percent-encode all characters of a URL that URLs may not contain, and quotes."""
    return _NOT_IN_URL.sub(_percent, url)


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogateescape"))


def readable(name: bytes) -> str:
    r"""Escape a name for people: invisible characters, and those that reorder text.

    Examples are ``\n``, ``\u202e``, and ``\xff`` for a byte that is not UTF-8; backslashes are
    doubled.
    """
    text = os.fsdecode(name)
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return "".join(map(_readable, text))


def _readable(character: str) -> str:
    if _SURROGATE_BYTES[0] <= character <= _SURROGATE_BYTES[1]:
        return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))
    if character != "\\" and category(character) not in _MISLEADING:
        return character
    return character.encode("unicode_escape").decode("ascii")


def one_line(name: bytes) -> str:
    """Return a name in printable ASCII, for comments."""
    return readable(name).encode("ascii", "backslashreplace").decode("ascii")

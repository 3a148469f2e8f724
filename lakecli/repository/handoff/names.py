"""Names from a bucket, written so that no shell, no terminal and no file system obeys them."""

from __future__ import annotations

import os
import re
from typing import Final
from unicodedata import category

PARTS: Final = ".lakecli-parts"
"""The directory in which download scripts keep what is not complete yet."""

_TO_ESCAPE: Final = re.compile(rb"[^ -~]|['\\]")
_NOT_IN_URL: Final = re.compile(r"[^A-Za-z0-9._~:/?\[\]@!$&()*+,;=%-]")
_MISLEADING: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of characters that are not seen, or that move others about."""

_SURROGATE_BYTES: Final = ("\udc80", "\udcff")
"""What bytes that are no UTF-8 are read as, first and last."""


def problem_of(name: bytes) -> str | None:
    """Say why an object's name cannot be that of a file below a directory; ``None``: it can.

    A slash at the end is fine: such an object stands for a directory.
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
    if components[0].lower() == PARTS.encode():
        return f"{PARTS} is where unfinished files are kept"
    return None


def shell_word(name: bytes) -> str:
    r"""Return a name for between single quotes, in ASCII, as ``printf %b`` reads it.

    Backslashes, quotes and everything that is not printable ASCII become ``\0`` and three octal
    digits.
    """
    escaped = _TO_ESCAPE.sub(lambda match: b"\\0%03o" % match[0][0], name)
    return escaped.decode("ascii")


def url_text(url: str) -> str:
    """Return a URL in which nothing but what URLs are made of is left as it is, and no quote."""
    return _NOT_IN_URL.sub(_percent, url)


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogateescape"))


def readable(name: bytes) -> str:
    r"""Return a name for people: what cannot be seen, or moves other text about, is escaped.

    ``\n``, ``\u202e``, and ``\xff`` for a byte that is no UTF-8; a backslash is doubled.
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

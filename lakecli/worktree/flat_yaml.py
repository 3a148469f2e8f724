"""The small part of YAML that `.lakefs_ref.yaml` needs: a flat mapping of texts and lists of texts.

lakectl writes one text a line. Whatever has more structure is refused, so nothing is ever
constructed from a file but texts. PyYAML would do it, but takes 25 ms to import, and every command
in a linked directory reads such a file; a whole start takes 50 to 70 ms.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

_ENTRY: Final = re.compile(r"([A-Za-z_][\w-]*):(?:[ \t]+(.*))?")
_ITEM: Final = re.compile(r"[ \t]*-[ \t]+(.*)")
_PLAIN: Final = re.compile(r"[A-Za-z/][\w./:@~^=+-]*")
_COMMENT: Final = re.compile(r"(?<![ \t])[ \t]+#.*")
_ESCAPE: Final = re.compile(r"\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)")
_ESCAPES: Final = dict(
    zip('0abtnvfre "/\\N_LP', '\0\a\b\t\n\v\f\r\x1b "/\\\x85\xa0\u2028\u2029', strict=True)
)
_STRUCTURE: Final = tuple("{[&*!|>%@`?,")
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_WORDS: Final = _NULLS | {
    "true",
    "True",
    "TRUE",
    "false",
    "False",
    "FALSE",
    "yes",
    "no",
    "on",
    "off",
}
_LONE: Final = range(0xD800, 0xE000)
_LAST: Final = 0x10FFFF


class NotFlat(ValueError):
    """A text that is not a flat mapping of texts and lists of texts."""


def load(text: str) -> dict[str, str | list[str]]:
    """Return the entries of a flat mapping; an entry without a value is an empty text.

    Raises:
        NotFlat: the text has another form; the message names the line.
    """
    found: dict[str, str | list[str]] = {}
    name = ""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#") or stripped == "---":
            continue
        try:
            name = _read_line(line, found, name)
        except NotFlat as error:
            raise NotFlat(f"line {number}: {error}") from None
    return found


def _read_line(line: str, found: dict[str, str | list[str]], last: str) -> str:
    """Read an entry or an item of the last entry; return the name of the entry."""
    item = _ITEM.fullmatch(line)
    if item is not None:
        _append(found, last, _scalar(item[1]))
        return last
    entry = _ENTRY.fullmatch(line)
    if entry is None:
        raise NotFlat("not an entry")
    name = entry[1]
    if name in found:
        raise NotFlat(f"a second entry {name!r}")
    value = (entry[2] or "").strip()
    found[name] = [] if value == "[]" else _scalar(value)
    return name


def _append(found: dict[str, str | list[str]], name: str, value: str) -> None:
    """Add an item to the list of the last entry."""
    items = found.get(name)
    if items == "":
        items = found[name] = []
    if not isinstance(items, list):
        raise NotFlat("an item that belongs to no list")
    items.append(value)


def _scalar(text: str) -> str:
    """Return the text that a plain or quoted scalar stands for."""
    if text.startswith('"'):
        return _double_quoted(text)
    if text.startswith("'"):
        end = re.fullmatch(r"'((?:[^']|'')*)'(?:[ \t]+#.*)?", text)
        if end is None:
            raise NotFlat("a quote that is not closed")
        return end[1].replace("''", "'")
    plain = _COMMENT.sub("", text).strip()
    if plain.startswith("#") or plain in _NULLS:
        return ""
    if plain.startswith(_STRUCTURE) or ": " in plain or plain.endswith(":"):
        raise NotFlat("neither a text nor a list of texts")
    return plain


def _double_quoted(text: str) -> str:
    end = re.fullmatch(r'"((?:[^"\\]|\\.)*)"(?:[ \t]+#.*)?', text)
    if end is None:
        raise NotFlat("a quote that is not closed")
    return _ESCAPE.sub(_unescaped, end[1])


def _unescaped(match: re.Match[str]) -> str:
    escape = match[1]
    if len(escape) == 1:
        if escape not in _ESCAPES:
            raise NotFlat(f"an unknown escape: \\{escape}")
        return _ESCAPES[escape]
    code = int(escape[1:], 16)
    if code in _LONE or code > _LAST:
        raise NotFlat(f"no such character: \\{escape}")
    return chr(code)


def dump(entries: Mapping[str, str | Sequence[str]]) -> str:
    """Return the text of a flat mapping, one text a line.

    Raises:
        NotFlat: a text is not Unicode, so that YAML cannot hold it.
    """
    lines = []
    for name, value in entries.items():
        if isinstance(value, str):
            lines.append(f"{name}: {_quoted(value)}")
        else:
            lines.append(f"{name}:" if value else f"{name}: []")
            lines += [f"  - {_quoted(item)}" for item in value]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text) and not text.endswith(":") and text not in _WORDS:
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotFlat(f"not Unicode: {text!r}") from None
    quoted = json.dumps(text, ensure_ascii=False)
    # JSON leaves characters unescaped that YAML does not print.
    return re.sub(
        "[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda match: f"\\u{ord(match[0]):04x}", quoted
    )

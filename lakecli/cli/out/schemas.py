"""The JSON answer of every command, with the type and meaning of each field.

The answers themselves are plain dictionaries. Models of pydantic would describe their fields, too,
but ``branch list --json`` would take three quarters longer.

The manual pages print the descriptions, and every test that runs a command with ``--json`` checks
its answer against them. They are derived from the classes that `lakecli.cli.out.records.answers`
names at the commands: names and types of fields from the annotations, meanings from the section
``Attributes:`` of the docstring. For inherited fields it names the base: "the other fields are
those of `Base`".

A field is never left out, unless its type says ``optional``; without a value it is null or empty.
New fields may be added; none changes its meaning or disappears.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NotRequired, Required, get_args, get_origin, get_type_hints

from lakecli.base.model import CommitId
from lakecli.cli.out.records import Answer, record_name
from lakecli.cli.tree import COMMANDS

Record = dict[str, tuple[str, str]]
"""Fields: name, then type and meaning. A type is one of `TYPES` or a name of `RECORDS`, with
``list of`` before it and ``or null`` or ``optional`` after it as needed."""

TYPES: Final = {
    "text": "a string; bytes of a path that are not UTF-8 are surrogate escapes",
    "number": "an integer",
    "boolean": "true or false",
    "time": "RFC 3339 in UTC, such as 2026-03-01T12:00:00Z",
    "id": "64 lowercase hex digits",
    "map": "an object whose values are strings",
}
"""The types of fields."""

_NAMES: Final[Mapping[Any, str]] = {
    str: "text",
    bytes: "text",
    Path: "text",
    int: "number",
    bool: "boolean",
    datetime: "time",
    CommitId: "id",
    Mapping[str, str]: "map",
}


ANSWERS: Final[dict[str, tuple[Answer, ...]]] = {
    words: named
    for words, command in COMMANDS.items()
    if (named := getattr(command.load(), "answers", ()))
}
"""The answers of every command; a command without one has no JSON answer."""

_CLASSES: Final[dict[str, Any]] = {
    name: value
    for module in [each for name, each in sys.modules.items() if name.startswith("lakecli.cli.")]
    for name, value in vars(module).items()
    if name.endswith("Json")
}
_ALSO: Final = {each.record: each.also for named in ANSWERS.values() for each in named}


def _type_name(hint: Any) -> str:  # noqa: ANN401 - a type as `get_type_hints` returns it
    if hint in _NAMES:
        return _NAMES[hint]
    arguments = get_args(hint)
    if get_origin(hint) in (Required, NotRequired):
        return _type_name(arguments[0])
    if get_origin(hint) is Sequence:
        return f"list of {_type_name(arguments[0])}"
    if arguments:
        names = {_type_name(each) for each in arguments if each is not type(None)}
        return " ".join([*names, *["or null"] * (type(None) in arguments)])
    return record_name(hint)


def _meanings(record: type) -> dict[str, str]:
    """Return the descriptions in the docstring of a class, and those of its base, by field."""
    docstring = inspect.getdoc(record) or ""
    entries = re.findall(
        r"^    (\w+): (.*(?:\n     .*)*)", docstring.partition("Attributes:\n")[2], re.MULTILINE
    )
    own = {name: " ".join(text.split()).removesuffix(".") for name, text in entries}
    base = re.search(r"other fields are those of `(\w+)`", docstring)
    return own if base is None else _meanings(_CLASSES[base[1]]) | own


def _fields(record: Any) -> Record:  # noqa: ANN401 - mypy has no name for a TypedDict's class
    meanings = _meanings(record)
    hints = get_type_hints(record, localns=_CLASSES | {"Path": Path}, include_extras=True)
    fields = {}
    for name, hint in hints.items():
        is_whole = name in record.__required_keys__ and get_origin(hint) is not NotRequired
        is_optional = not is_whole and get_origin(hint) is not Required
        fields[name] = _type_name(hint) + " optional" * is_optional, meanings.get(name, "")
    also = _ALSO.get(record)
    for name, (type_, meaning) in ({} if also is None else _fields(also)).items():
        fields.setdefault(name, (f"{type_} optional", meaning))
    return fields


RECORDS: Final = {
    record_name(each): _fields(each) for each in sorted(_CLASSES.values(), key=record_name)
}
"""Every kind of object, by its name."""

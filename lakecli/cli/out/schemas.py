"""The JSON answer of every command, with the type and meaning of each field.

The answers themselves are plain dictionaries. pydantic models would describe the fields, too, but
would make ``branch list --json`` take 75 % longer.

The manual pages print the descriptions, and every test that runs a command with ``--json`` compares
the answer with the descriptions. The descriptions are derived from the classes that the decorator
`lakecli.cli.out.records.answers` declares. The annotations give the names and types of fields; the
section ``Attributes:`` of the docstring, or the docstring of a property, gives the meanings. A
class that adds fields to a record of the library names that record: "The other fields are those of
`Record`".

Every answer contains every field, unless the type of the field is ``optional``; without a value the
field is null or empty. Fields may be added, but no field changes its meaning or is removed.
"""

import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NotRequired, Required, get_args, get_origin, get_type_hints

from lakecli.base.model import CommitId
from lakecli.cli.out.records import Answer, docstring_entries, record_name, view_of
from lakecli.cli.tree import COMMANDS
from lakecli.errors import LakeError

Record = dict[str, tuple[str, str]]
"""The type and the meaning of each field, by name. A type is a name in `TYPES` or `RECORDS`, which
may be preceded by ``list of`` and followed by ``or null`` or ``optional``."""

TYPES: Final = {
    "text": "a string; bytes of a path that are not UTF-8 are surrogate escapes",
    "number": "an integer",
    "boolean": "true or false",
    "time": "RFC 3339 in UTC, such as 2026-03-01T12:00:00Z",
    "id": "64 lowercase hex digits",
    "map": "an object whose values are strings",
}
"""The meanings of the simple types of fields."""

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
"""The JSON answers of every command that has any, by the words of the command."""

_ALSO: Final = {each.record: each.also for named in ANSWERS.values() for each in named}


_DOCUMENTED: Final[dict[str, Record]] = {}

_CLASSES: Final = {
    name: value
    for module in [each for name, each in sys.modules.items() if name.startswith("lakecli.")]
    for name, value in vars(module).items()
    if isinstance(value, type)
}


def _type_name(hint: Any) -> str:  # noqa: ANN401 - a type as `get_type_hints` returns it
    arguments = get_args(hint)
    origin = get_origin(hint)
    if hint in _NAMES:
        return _NAMES[hint]
    if origin in (Required, NotRequired):
        return _type_name(arguments[0])
    if origin in (Sequence, set, tuple):
        return f"list of {_type_name(arguments[0])}"
    if arguments:
        names = dict.fromkeys(_type_name(each) for each in arguments if each is not type(None))
        return " or ".join([*names, *["null"] * (type(None) in arguments)])
    if isinstance(hint, type) and issubclass(hint, str | LakeError):
        return "text"
    return "null" if hint is type(None) else _documented(hint)


def _documented(record: type) -> str:
    """Return the name of a record, and document the record and the records in its fields."""
    name = record_name(record)
    if name not in _DOCUMENTED:
        _DOCUMENTED[name] = _fields(record)
    return name


def _names(record: type) -> dict[str, Any]:
    """Return the names that annotations of a class may use, with their values.

    All classes of lakecli are included, because modules import some only under ``TYPE_CHECKING``.
    """
    return _CLASSES | vars(sys.modules[record.__module__])


def _meanings(record: type) -> dict[str, str]:
    """Return the descriptions in the docstring of a class, by field."""
    section = (inspect.getdoc(record) or "").partition("Attributes:\n")[2]
    return {name: _plain(text) for name, text in docstring_entries(section).items()}


def _plain(text: str) -> str:
    words = " ".join(text.split()).removesuffix(".")
    words = words if words[:2].isupper() else words[:1].lower() + words[1:]
    return words.replace("``None``", "null").replace("`", "")


def _field_of_record(record: Any, path: str) -> tuple[str, str]:  # noqa: ANN401 - as above
    """Return the type and the meaning of an attribute.

    Args:
        path: the name of the attribute, or a dotted path to an attribute of an attribute.
    """
    head, _, rest = path.partition(".")
    attribute = getattr(record, head, None)
    if isinstance(attribute, property):
        hint = get_type_hints(attribute.fget, localns=_names(record))["return"]
        meaning = _plain((inspect.getdoc(attribute) or "").partition("\n")[0])
    else:
        hint = get_type_hints(record, localns=_names(record))[head]
        meaning = _meanings(record).get(head, "")
    return _field_of_record(hint, rest) if rest else (_type_name(hint), meaning)


def _fields(record: Any) -> Record:  # noqa: ANN401 - mypy has no name for a TypedDict's class
    if (view := view_of(record)) is not None:
        return {name: _field_of_record(record, path) for name, path in view.items()}
    meanings = _meanings(record)
    fields = {}
    base = re.search(r"other fields are those of `(\w+)`", inspect.getdoc(record) or "")
    if base is not None:
        fields = _fields(_names(record)[base[1]])
    for name, hint in get_type_hints(record, localns=_names(record), include_extras=True).items():
        is_whole = name in record.__required_keys__ and get_origin(hint) is not NotRequired
        is_optional = not is_whole and get_origin(hint) is not Required
        meaning = meanings.get(name) or fields.get(name, ("", ""))[1]
        fields[name] = _type_name(hint) + " optional" * is_optional, meaning
    also = _ALSO.get(record)
    for name, (type_, meaning) in ({} if also is None else _fields(also)).items():
        fields.setdefault(name, (f"{type_} optional", meaning))
    return fields


for _record in _ALSO:
    _documented(_record)

RECORDS: Final = dict(sorted(_DOCUMENTED.items()))
"""The fields of all records that occur in answers, by the documented name of the record."""

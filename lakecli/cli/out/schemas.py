"""The JSON answer of every command, with the type and meaning of each field.

The manual pages print them, and every test that runs a command with ``--json`` checks its answer
against them. They are derived from the classes in `lakecli.cli.out.answers`: names and types from
the annotations, meanings from the section ``Attributes:`` of the docstring.

A field is never left out, unless its type says ``optional``; without a value it is null or empty.
New fields may be added; none changes its meaning or disappears.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, NotRequired, get_args, get_origin, get_type_hints

from lakecli.base.model import CommitId
from lakecli.cli.out.answers import (
    changes,
    checks,
    collection,
    handoff,
    history,
    objects,
    operations,
    plans,
    program,
    sharing,
    worktree,
)

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


def _record_name(record: type) -> str:
    """Return the documented name: "listed branch" for ``ListedBranch``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", record.__name__).lower()


def _type_name(hint: Any) -> str:  # noqa: ANN401 - a type as `get_type_hints` returns it
    if get_origin(hint) is NotRequired:
        return f"{_type_name(get_args(hint)[0])} optional"
    if hint in _NAMES:
        return _NAMES[hint]
    arguments = get_args(hint)
    if get_origin(hint) is Sequence:
        return f"list of {_type_name(arguments[0])}"
    if arguments:
        names = {_type_name(each) for each in arguments if each is not type(None)}
        return " ".join([*names, *["or null"] * (type(None) in arguments)])
    return _record_name(hint)


def _meanings(record: type) -> dict[str, str]:
    """Return the descriptions in the docstring of a class, by field."""
    section = (inspect.getdoc(record) or "").partition("Attributes:\n")[2]
    entries = re.findall(r"^    (\w+): (.*(?:\n     .*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()).removesuffix(".") for name, text in entries}


def _fields(record: Any) -> Record:  # noqa: ANN401 - mypy has no name for a TypedDict's class
    meanings = _meanings(record)
    own = {
        name: (
            _type_name(hint) + ("" if name in record.__required_keys__ else " optional"),
            meanings.get(name, ""),
        )
        for name, hint in get_type_hints(record, include_extras=True).items()
    }
    totals = _fields(plans.TOTALS[record]) if record in plans.TOTALS else {}
    optional = {name: (f"{type_} optional", meaning) for name, (type_, meaning) in totals.items()}
    return own | optional | own  # what both have means what the plan says


def _records() -> Iterator[type]:
    modules = (
        *(history, changes, sharing, objects, plans, handoff, checks, operations, collection),
        *(program, worktree),
    )
    for module in modules:
        for name, value in vars(module).items():
            if isinstance(value, type) and value.__module__ == module.__name__ and name[0] != "_":
                yield value


RECORDS: Final = {_record_name(record): _fields(record) for record in _records()}
"""Every kind of object."""


class Answer(NamedTuple):
    """The answer of a command.

    Attributes:
        record: a name of `RECORDS`.
        each: any number of objects, one a line; else exactly one.
        option: the option that selects this answer; ``""`` for the usual one.
    """

    record: str
    each: bool = False
    option: str = ""


_ONE: Final = {
    "bisect reset": "bisect reset",
    "bisection": "bisect bad, bisect good, bisect new, bisect old, bisect run, bisect skip, "
    "bisect start",
    "branch shown": "branch show",
    "cloned": "clone",
    "collection": "gc run",
    "collection state": "gc status, gc undo",
    "commit": "cherry-pick, commit",
    "entry": "fs stage",
    "examination": "doctor",
    "fetched": "fetch",
    "linked directory": "local init",
    "local commit": "local commit",
    "merge base": "find-merge-base",
    "operation": "op restore",
    "operation shown": "op show",
    "pulled": "pull",
    "pushed": "push",
    "quickstart": "quickstart",
    "rearranged": "fs cp, fs mv",
    "ref": "branch create, branch rename, branch reset, tag create, tag show",
    "refs manifest": "refs-dump",
    "repository": "repo create, repo delete",
    "restored refs": "refs-restore",
    "retention rules": "gc delete-config, gc get-config, gc set-config",
    "reverts": "branch revert",
    "script": "completion",
    "setting": "config get",
    "setting written": "config set, config unset",
    "status": "status",
    "synced": "checkout, local clone, local pull, restore",
    "used": "use",
    "undone": "op redo, op undo, redo, undo",
    "version": "version",
}
"""The commands that answer with exactly one object, by its record."""

_EACH: Final = {
    "annotation": "annotate, blame",
    "checked": "fsck",
    "commit": "bisect view, log",
    "difference": "local diff",
    "ignored": "check-ignore",
    "linked directory": "local list",
    "entry": "fs find, fs update-metadata",
    "listed": "fs ls",
    "listed branch": "branch list",
    "local change": "local status",
    "operation": "op log",
    "plugin": "plugin list",
    "ref": "branch delete, tag delete, tag list",
    "reflog entry": "reflog",
    "repository": "repo list",
    "setting": "config list",
    "stored record": "cat-sst",
    "usage": "fs du",
    "verdict": "bisect log",
}
"""The commands that answer with any number of objects, by their record."""

_BY_OPTION: Final = {
    "diff": (
        Answer("difference", each=True),
        Answer("change counts", each=True, option="--stat"),
    ),
    "export": (
        Answer("export"),
        Answer("export plan", each=True, option="--dry-run"),
        Answer("export manifest", option="--to-lakefs-import"),
        Answer("export symlinks", option="--symlink"),
    ),
    "fs download": (
        Answer("downloaded entry"),
        Answer("download", option="-r"),
        Answer("download", option="--files-from"),
        Answer("transfer plan", each=True, option="--dry-run"),
    ),
    "fs presign": (
        Answer("presigned", each=True),
        Answer("link", each=True, option="-r"),
        Answer("link", each=True, option="--files-from"),
        Answer("handoff", option="--manifest"),
        Answer("handoff", option="--script"),
        Answer("checked link", each=True, option="--check"),
        Answer("incoming link", each=True, option="--put"),
    ),
    "fs rm": (Answer("removed"), Answer("removal plan", each=True, option="--dry-run")),
    "fs stat": (
        Answer("entry"),
        Answer("presigned entry", option="--pre-sign"),
        Answer("asked entry", each=True, option="--files-from"),
    ),
    "fs upload": (
        Answer("entry"),
        Answer("upload", option="-r"),
        Answer("upload", option="--files-from"),
        Answer("upload", option="SRC SRC"),
        Answer("transfer plan", each=True, option="--dry-run"),
    ),
    "import": (Answer("imported"), Answer("import plan", each=True, option="--dry-run")),
    "local checkout": (Answer("synced"), Answer("synced", each=True, option="--all")),
    "merge": (
        Answer("commit"),
        Answer("difference", each=True, option="--dry-run"),
        Answer("change counts", each=True, option="--stat"),
    ),
    "rev-parse": (Answer("resolved", each=True), Answer("asked ref", each=True, option="--stdin")),
    "show commit": (Answer("commit"), Answer("commit changes", option="--stat")),
}
"""The commands whose answer depends on an option."""


def _answers() -> Iterator[tuple[str, tuple[Answer, ...]]]:
    for each, table in ((False, _ONE), (True, _EACH)):
        for record, commands in table.items():
            for words in commands.split(", "):
                yield words, (Answer(record, each),)
    yield from _BY_OPTION.items()


ANSWERS: Final = dict(sorted(_answers()))
"""The answers of every command; a command without a row has no JSON answer."""

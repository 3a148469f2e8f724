"""Checks JSON answers against the schemas of `lakecli.cli.out.schemas`."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from lakecli.cli.line import Globals, split
from lakecli.cli.out.schemas import ANSWERS, RECORDS
from lakecli.cli.tree import is_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_ID: Final = re.compile(r"[0-9a-f]{64}")

_CHECKS: Final[dict[str, Callable[[Any], bool]]] = {
    "text": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "time": lambda value: isinstance(value, str) and bool(_TIME.fullmatch(value)),
    "id": lambda value: isinstance(value, str) and bool(_ID.fullmatch(value)),
    "map": lambda value: (
        isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
    ),
}


def words_of(argv: Sequence[str]) -> str:
    """Return the words of the command on a command line."""
    return " ".join(split(argv, Globals(), is_prefix=is_prefix)[0])


def check_answer(argv: Sequence[str], records: Sequence[Any], *, whole: bool) -> None:
    """Check the answer of a command with ``--json``.

    Args:
        argv: the command line.
        records: the objects on stdout.
        whole: the command succeeded; else it may have stopped before its answer.
    """
    answers = ANSWERS.get(words_of(argv))
    if answers is None:
        return
    answer = next(
        (item for item in reversed(answers) if not item.option or _selects(item.option, argv)),
        answers[0],
    )
    if not answer.each:
        assert len(records) == 1 if whole else len(records) <= 1, (argv, records)
    for record in records:
        check_record(answer.name, record)


def _selects(option: str, argv: Sequence[str]) -> bool:
    if option.startswith("-"):  # "--put --page": both of them
        return {word.partition("=")[0] for word in argv} >= set(option.split())
    # "SRC SRC": several words before the URI.
    before = takewhile(lambda word: not word.startswith("lakefs://"), argv)
    words = [word for word in before if not word.startswith("-")]
    return len(words) - len(words_of(argv).split()) >= len(option.split())


def check_record(name: str, record: Any) -> None:
    """Check one object against a name of `RECORDS`."""
    fields = RECORDS[name]
    assert isinstance(record, dict), record
    assert record.keys() <= fields.keys(), (name, record)
    for field, (kind, _) in fields.items():
        required = kind.removesuffix(" optional")
        if required != kind and field not in record:
            continue
        assert field in record, (name, field, record)
        assert _holds(required, record[field]), (name, field, record)


def _holds(kind: str, value: Any) -> bool:
    if kind.endswith(" or null"):
        return value is None or _holds(kind.removesuffix(" or null"), value)
    if kind.startswith("list of "):
        inner = kind.removeprefix("list of ")
        return isinstance(value, list) and all(_holds(inner, item) for item in value)
    if kind in RECORDS:
        check_record(kind, value)
        return True
    if " or " in kind:  # of two records, which have the same fields
        return all(_holds(each, value) for each in kind.split(" or "))
    return _CHECKS[kind](value)

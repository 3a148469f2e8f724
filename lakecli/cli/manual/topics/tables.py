"""Parts of topics that are made from tables of the code, in place of a line ``@NAME``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from lakecli.cli.exit_codes import MEANINGS
from lakecli.cli.manual.topics.lakectl_gaps import command_items, option_items
from lakecli.cli.out.schemas import ANSWERS, RECORDS, TYPES


def _exit_codes() -> Iterator[str]:
    for code, meaning in MEANINGS.items():
        yield f"{int(code)}: {meaning}."


def _types() -> Iterator[str]:
    for name, meaning in TYPES.items():
        yield f"{name}: {meaning}."


def _answers() -> Iterator[str]:
    for words, answers in ANSWERS.items():
        for answer in answers:
            option = f" {answer.option}" if answer.option else ""
            how = f"one {answer.name} a line" if answer.each else answer.name
            yield f"{words}{option}: {how}"


def _records() -> Iterator[str]:
    for record, fields in RECORDS.items():
        named = (
            f"{name} ({kind}: {meaning})" if meaning else f"{name} ({kind})"
            for name, (kind, meaning) in fields.items()
        )
        yield f"{record}: {', '.join(named)}."


TABLES: Final[dict[str, Callable[[], Iterator[str]]]] = {
    "@answers": _answers,
    "@exit-codes": _exit_codes,
    "@lakectl-commands": command_items,
    "@lakectl-options": option_items,
    "@records": _records,
    "@types": _types,
}
"""The functions that yield the items of a table, by the line that they replace."""

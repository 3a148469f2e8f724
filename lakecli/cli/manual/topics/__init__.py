"""Topics: pages of the manual about subjects that concern several commands.

A topic is a file ``NAME.md`` in this directory. It becomes the manual page ``lakecli-NAME(7)`` and
the output of ``lakecli help NAME``. The first line is ``# SUMMARY``; then come headings (``## …``),
paragraphs, lists (``- …``) and indented lines, which are shown unchanged. A line ``@NAME`` is
replaced by a table, made from the code or from a text file in this directory.
A test runs every indented line that begins with ``$`` (``tests/cli/manual/test_examples.py``).
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from lakecli.cli.exit_codes import ExitCode
from lakecli.cli.manual.tables import read_table, read_texts
from lakecli.cli.out.schemas import ANSWERS, RECORDS, TYPES
from lakecli.serving.clients import ClientKind

_DIRECTORY = Path(__file__).parent

MEANINGS: Final = {
    ExitCode(int(code)): text
    for code, text in read_texts(_DIRECTORY.parent / "exit_codes.txt").items()
}
"""The meaning of each exit code, for people."""

_CODE = "    "
_ITEM = "- "
_TABLE = "@"


class PageBlock(NamedTuple):
    """A part of a page.

    Attributes:
        kind: ``heading``, ``paragraph``, ``item`` or ``code``.
        text: one line; for ``code``, all lines.
    """

    kind: str
    text: str


class Topic(NamedTuple):
    """The page of a topic.

    Attributes:
        name: the word after ``lakecli help``.
        summary: one sentence without its period.
        blocks: the parts of the page, in order.
    """

    name: str
    summary: str
    blocks: tuple[PageBlock, ...]


def topic_names() -> list[str]:
    """Return the names of all topics, in order."""
    return sorted(path.stem for path in _DIRECTORY.glob("*.md"))


def find_topic(name: str) -> Topic | None:
    """Return a topic, or ``None`` if there is no topic of that name."""
    if name not in topic_names():
        return None
    title, _, body = (_DIRECTORY / f"{name}.md").read_text("utf-8").partition("\n")
    return Topic(name, title.removeprefix("# ").strip(), tuple(_blocks(body)))


def _blocks(body: str) -> Iterator[PageBlock]:
    for part in filter(str.strip, body.split("\n\n")):
        lines = part.strip("\n").split("\n")
        if lines[0].startswith("## "):
            yield PageBlock("heading", lines[0].removeprefix("## "))
            lines = lines[1:]
        if lines:
            yield from _text_blocks(lines)


def _text_blocks(lines: list[str]) -> Iterator[PageBlock]:
    """Yield the blocks of consecutive lines between two empty lines."""
    if lines[0].startswith(_CODE):
        yield PageBlock("code", "\n".join(line.removeprefix(_CODE) for line in lines))
    elif lines[0].startswith(_TABLE):
        yield from (PageBlock("item", item) for item in TABLES[lines[0]]())
    elif lines[0].startswith(_ITEM):
        items: list[list[str]] = []
        for line in lines:
            if line.startswith(_ITEM):
                items.append([])
            items[-1].append(line.removeprefix(_ITEM).strip())
        yield from (PageBlock("item", " ".join(item)) for item in items)
    else:
        yield PageBlock("paragraph", " ".join(line.strip() for line in lines))


def _meanings(
    table: Mapping[str, str] | Mapping[ExitCode, str] | Mapping[ClientKind, str],
) -> Iterator[str]:
    for name, meaning in table.items():
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


def _lacking(file: str) -> Iterator[str]:
    """Yield an item for each group of commands or options of lakectl that lakecli lacks."""
    for names, why in read_table(_DIRECTORY / file):
        yield f"{', '.join(f'`{name}`' for name in names)}: {why}."


TABLES: Final[dict[str, Callable[[], Iterator[str]]]] = {
    "@answers": _answers,
    "@exit-codes": partial(_meanings, MEANINGS),
    "@lakectl-commands": partial(_lacking, "lakectl_commands.txt"),
    "@lakectl-options": partial(_lacking, "lakectl_options.txt"),
    "@records": _records,
    "@serve-clients": partial(_meanings, {each: each.use for each in ClientKind}),
    "@types": partial(_meanings, TYPES),
}
"""The functions that yield the items of a table, by the line that the table replaces."""

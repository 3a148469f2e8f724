"""The text of ``--help`` for one command, a group, or the whole program, and of help topics.

Typer's help has no section for examples and no list of topics. It is formatted by Rich, which would
delay every ``--help``.
"""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lakecli.cli.manual.describe import CommandHelp, ParameterHelp, global_options
from lakecli.cli.manual.tables import read_texts

if TYPE_CHECKING:
    from lakecli.cli.manual.topics import Topic

PURPOSE: Final = "Git for the objects of a data lake: lakeFS without the server"
_WIDTH: Final = 80
_COLUMN: Final = 26

GROUP_SUMMARIES: Final = read_texts(Path(__file__).with_name("groups.txt"))
"""The summary of each group of commands, by the first word that the commands share."""


def command_help(command: CommandHelp) -> Iterator[str]:
    """Yield the help of one command, line by line."""
    yield f"Usage: lakecli {command.words} {command.synopsis}"
    yield ""
    yield from _filled(command.summary + ".")
    for paragraph in command.description:
        yield ""
        yield from paragraph_lines(paragraph)
    if command.arguments:
        yield from _section("Arguments", [_argument_row(item) for item in command.arguments])
    if command.options:
        yield from _section("Options", [option_row(item) for item in command.options])
    yield from _section("Global options", [option_row(item) for item in global_options()])
    if command.examples:
        yield ""
        yield "Examples:"
        yield from (f"  {line}".rstrip() for line in command.examples)


def root_help(commands: Sequence[CommandHelp], topics: Sequence[str]) -> Iterator[str]:
    """Yield the help of the whole program: the first commands to try, and all other names."""
    yield "Usage: lakecli COMMAND [ARGUMENTS] [OPTIONS]"
    yield ""
    yield PURPOSE + "."
    summaries = {item.words: item.summary for item in commands}
    first_commands = read_texts(Path(__file__).with_name("first_commands.txt"))
    for title, words in first_commands.items():
        yield from _section(title, [(each, summaries[each]) for each in words.split(", ")])
    firsts = sorted({item.words.split()[0] for item in commands})
    yield from _names("All commands, with groups of commands such as fs", firsts)
    yield from _names("Topics", topics)
    yield from _names("Options of every command", (item.flags[-1] for item in global_options()))
    yield ""
    yield "For more, run lakecli COMMAND --help, lakecli help TOPIC or man lakecli."


def _names(title: str, names: Iterable[str]) -> Iterator[str]:
    yield ""
    yield f"{title}:"
    yield from _filled(", ".join(names), first="  ", others="  ")


def topic_help(topic: "Topic") -> Iterator[str]:
    """Yield a topic, line by line."""
    yield from _filled(topic.summary + ".")
    last = "paragraph"
    for block in topic.blocks:
        if not (block.kind == last == "item"):
            yield ""
        last = block.kind
        if block.kind == "heading":
            yield f"{block.text}:"
        elif block.kind == "code":
            yield from (f"    {line}".rstrip() for line in block.text.splitlines())
        elif block.kind == "item":
            yield from _filled(block.text, first="- ", others="  ")
        else:
            yield from _filled(block.text)


def _filled(text: str, *, width: int = _WIDTH, first: str = "", others: str = "") -> list[str]:
    """Wrap a text at spaces only, because names of commands and options have hyphens."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=others,
        break_on_hyphens=False,
        break_long_words=False,
    )


def group_help(group: str, commands: Sequence[CommandHelp]) -> Iterator[str]:
    """Yield the help of a group of commands, which share a first word."""
    yield f"Usage: lakecli {group} COMMAND [ARGUMENTS] [OPTIONS]"
    yield ""
    yield GROUP_SUMMARIES[group] + "."
    rows = [(item.words.removeprefix(group + " "), item.summary) for item in commands]
    yield from _section("Commands", rows)
    yield ""
    yield f"For more, run lakecli {group} COMMAND --help."


def paragraph_lines(paragraph: str) -> Iterator[str]:
    """Yield the lines of a paragraph; it is rewrapped unless it is indented."""
    if paragraph.startswith(" "):
        yield from paragraph.splitlines()
    else:
        yield from _filled(" ".join(paragraph.split()))


def _argument_row(argument: ParameterHelp) -> tuple[str, str]:
    extra = [] if argument.required else ["optional"]
    return argument.metavar, _with_extra(argument.summary, extra)


def option_row(option: ParameterHelp) -> tuple[str, str]:
    """Return the left and the right column for an option."""
    indent = "    " if option.flags[0].startswith("--") else ""
    left = indent + ", ".join(option.flags)
    if option.metavar:
        left += f" {option.metavar}"
    elif option.negatable:
        left += "[=true|false]"
    return left, _with_extra(option.summary, option_extras(option))


def option_extras(option: ParameterHelp) -> list[str]:
    """Return the notes in brackets after the summary of an option."""
    extra = ["required"] if option.required else []
    if option.repeatable:
        extra.append("repeatable")
    if option.default:
        extra.append(f"default: {option.default}")
    return extra


def _with_extra(summary: str, extra: Sequence[str]) -> str:
    return f"{summary} [{', '.join(extra)}]" if extra else summary


def _section(title: str, rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    yield ""
    yield f"{title}:"
    column = min(_COLUMN, max((len(left) for left, _ in rows), default=0) + 4)
    for left, right in rows:
        lines = _filled(right, width=_WIDTH - column) or [""]
        head = f"  {left}"
        if len(head) + 2 > column:
            yield head
        else:
            yield f"{head:<{column}}{lines.pop(0)}".rstrip()
        yield from (" " * column + line for line in lines)

"""Manual pages in roff: one for the program, and one for each command and topic.

Typer writes no manual pages. Generators for Click (click-man) make a page from the help text of a
command, but support neither topics nor sections for examples and JSON answers.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from lakecli import __version__
from lakecli.cli.line import VERSION_FLAGS
from lakecli.cli.manual.describe import CommandHelp, ParameterHelp, global_options
from lakecli.cli.manual.help import PURPOSE, option_extras
from lakecli.cli.manual.tables import read_texts
from lakecli.cli.manual.topics import MEANINGS, Topic
from lakecli.cli.out.schemas import ANSWERS, RECORDS, TYPES
from lakecli.cli.tree import GROUPS
from lakecli.settings.keys import KEYS

_DIRECTORY: Final = Path(__file__).parent


def page_name(words: str) -> str:
    """Return the name of a command's page: ``lakecli-branch-list``."""
    return "-".join(["lakecli", *words.split()])


def command_page(command: CommandHelp, siblings: Iterable[str]) -> str:
    """Return the page of one command.

    Args:
        siblings: the words of related commands, for SEE ALSO.
    """
    name = page_name(command.words)
    lines = [*_title(name), *_name(name, _lower_first(command.summary))]
    lines += [".SH SYNOPSIS", f".B lakecli {_text(command.words)}", _text(command.synopsis)]
    lines += [".SH DESCRIPTION", _text(command.summary) + "."]
    for paragraph in command.description:
        lines += _paragraph(paragraph)
    if command.arguments:
        rows = [
            (rf"\fI{_text(each.metavar)}\fR", _argument_text(each)) for each in command.arguments
        ]
        lines += _section("ARGUMENTS", rows)
    lines += _section("OPTIONS", map(_option_row, command.options))
    lines += [".PP", "Every command also takes the global options of", ".BR lakecli (1)."]
    if command.words in ANSWERS:
        lines += [".SH JSON", *(_text(line) for line in answer_lines(command.words)), ".PP"]
        lines += ["Fields are explained in", ".BR lakecli (1)."]
    if command.examples:
        lines += [".SH EXAMPLES", ".nf", *map(_text, command.examples), ".fi"]
    lines += [".SH EXIT STATUS", "0 on success. All other codes are listed in"]
    lines += [".BR lakecli (1)."]
    lines += _see_also(["lakecli", *map(page_name, siblings)])
    return "\n".join(lines) + "\n"


def topic_page(topic: Topic) -> str:
    """Return the page of a topic, in section 7."""
    name = page_name(topic.name)
    lines = [*_title(name, section=7), *_name(name, _lower_first(topic.summary))]
    if topic.blocks[0].kind != "heading":
        lines.append(".SH DESCRIPTION")
    for block in topic.blocks:
        if block.kind == "heading":
            lines.append(f".SH {_text(block.text.upper())}")
        elif block.kind == "item":
            lines += [r".IP \(bu 2", _text(block.text)]
        elif block.kind == "code":
            lines += [".PP", ".nf", *map(_text, block.text.splitlines()), ".fi"]
        else:
            lines += [".PP", _text(block.text)]
    lines += _see_also(["lakecli"])
    return "\n".join(lines) + "\n"


def main_page(commands: Sequence[CommandHelp], topics: Sequence[Topic] = ()) -> str:
    """Return the page of the program itself."""
    lines = [*_title("lakecli"), *_name("lakecli", PURPOSE)]
    lines += [".SH SYNOPSIS", ".B lakecli", r"\fICOMMAND\fR [\fIARGUMENTS\fR] [\fIOPTIONS\fR]"]
    description = (_DIRECTORY / "description.roff").read_text("utf-8")
    lines += [".SH DESCRIPTION", *description.splitlines()]
    named = [(f"{_bold(each.words)} {_text(each.synopsis)}", each.summary) for each in commands]
    lines += _section("COMMANDS", [(tag, _text(summary)) for tag, summary in named])
    version = (", ".join(map(_bold, VERSION_FLAGS)), "Print the version; only without a command")
    lines += _section("GLOBAL OPTIONS", [*map(_option_row, global_options()), version])
    lines += _records()
    codes = [(str(int(code)), _upper_first(meaning)) for code, meaning in MEANINGS.items()]
    lines += _definitions("EXIT STATUS", codes)
    lines += _definitions("ENVIRONMENT", _variables())
    lines += _definitions("FILES", read_texts(_DIRECTORY / "files.txt").items())
    lines += _see_also(
        [page_name(command.words) for command in commands],
        [page_name(topic.name) for topic in topics],
    )
    return "\n".join(lines) + "\n"


def _variables() -> Iterator[tuple[str, str]]:
    """Yield the environment variables that lakecli reads, with their meanings."""
    yield "LAKECLI_HOME", "Directory that holds configuration, store and cache, all three"
    yield from ((key.variable, f"{key.name}: {key.summary}") for key in KEYS)
    for key in KEYS:
        if key.lakectl:
            yield key.lakectl_variable, f"As {key.variable}, for scripts of lakectl"
    yield from read_texts(_DIRECTORY / "variables.txt").items()


def answer_lines(words: str) -> Iterator[str]:
    """Yield a sentence about each form of a command's output with ``--json``."""
    for answer in ANSWERS[words]:
        when = f"With --json and {answer.option}" if answer.option else "With --json"
        how = "one object a line" if answer.each else "exactly one object"
        fields = ", ".join(RECORDS[answer.name])
        yield f"{when}, {how} ({answer.name}): {fields}."


def _records() -> list[str]:
    lines = [".SH JSON", "What a field holds:"]
    for name, meaning in TYPES.items():
        lines += [".TP", rf"\fI{_text(name)}\fR", _text(_upper_first(meaning)) + "."]
    lines += [".PP", "The objects, and their fields:"]
    for record, fields in RECORDS.items():
        lines += [".TP", _bold(record)]
        for name, (kind, meaning) in fields.items():
            explained = f" ({kind}: {meaning})" if meaning else f" ({kind})"
            end = "." if name == list(fields)[-1] else ","
            lines.append(rf"\fI{_text(name)}\fR{_text(explained)}{end}")
    return lines


def _title(name: str, *, section: int = 1) -> Iterator[str]:
    # The date would change with every build; the version says as much.
    yield rf'.TH {_text(name.upper())} {section} "" "lakecli {__version__}" "lakecli manual"'
    yield ".nh"
    yield ".ad l"


def _name(name: str, summary: str) -> list[str]:
    return [".SH NAME", rf"{_text(name)} \- {_text(summary)}"]


def _lower_first(summary: str) -> str:
    return summary[:1].lower() + summary[1:]


def _upper_first(meaning: str) -> str:
    return meaning[:1].upper() + meaning[1:]


def _bold(text: str) -> str:
    return rf"\fB{_text(text)}\fR"


def _paragraph(paragraph: str) -> list[str]:
    if paragraph.startswith(" "):
        return [".PP", ".nf", *map(_text, paragraph.splitlines()), ".fi"]
    return [".PP", *(_text(line) for line in paragraph.splitlines())]


def _section(title: str, rows: Iterable[tuple[str, str]]) -> list[str]:
    """Return a section of the page.

    Args:
        title: the heading.
        rows: tags with their texts, both in roff; a period is appended to each text.
    """
    lines = (line for tag, text in rows for line in (".TP", tag, f"{text}."))
    return [f".SH {title}", *lines]


def _definitions(title: str, items: Iterable[tuple[str, str]]) -> list[str]:
    return _section(title, [(_bold(name), _text(meaning)) for name, meaning in items])


def _argument_text(argument: ParameterHelp) -> str:
    optional = "" if argument.required else " (optional)"
    repeatable = " (repeatable)" if argument.repeatable else ""
    return _text(argument.summary + optional + repeatable)


def _option_row(option: ParameterHelp) -> tuple[str, str]:
    flags = ", ".join(map(_bold, option.flags))
    tag = rf"{flags} \fI{_text(option.metavar)}\fR" if option.metavar else flags
    extra = option_extras(option)
    return tag, _text(option.summary + (f" ({', '.join(extra)})" if extra else ""))


def _see_also(pages: Sequence[str], topics: Sequence[str] = ()) -> list[str]:
    named = [*((page, 1) for page in pages), *((topic, 7) for topic in topics)]
    *others, last = (rf".BR {_text(name)} ({section})" for name, section in named)
    return [".SH SEE ALSO", *(f"{other}," for other in others), last]


def siblings(command: CommandHelp, commands: Iterable[CommandHelp]) -> list[str]:
    """Return the words of the other commands in the same group."""
    group = command.words.rpartition(" ")[0]
    return [
        other.words
        for other in commands
        if group in GROUPS and other.words.startswith(f"{group} ") and other != command
    ]


def _text(text: str) -> str:
    """Return `text` with the special characters of roff escaped."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("~", r"\(ti")
    escaped = escaped.replace("^", r"\(ha").replace("'", r"\(aq").replace("`", r"\(ga")
    return r"\&" + escaped if escaped.startswith((".", "'", "\\(aq")) else escaped

"""Manual pages in roff: one for the program, and one for each command and topic.

Typer writes no manual pages. Generators for Click (click-man) make a page from the help text of a
command. Such generators support neither topics nor sections for examples and JSON answers, which
the 66 pages of commands have.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from lakecli import __version__
from lakecli.cli.exit_codes import MEANINGS
from lakecli.cli.line import VERSION_FLAGS
from lakecli.cli.manual.describe import CommandHelp, ParameterHelp, global_options
from lakecli.cli.manual.help import PURPOSE, option_extras
from lakecli.cli.manual.topics import Topic
from lakecli.cli.out.schemas import ANSWERS, RECORDS, TYPES
from lakecli.cli.tree import GROUPS
from lakecli.settings.keys import KEYS

ENVIRONMENT: Final = {
    "LAKECLI_HOME": "Directory that holds configuration, store and cache, all three",
    **{key.variable: f"{key.name}: {key.summary}" for key in KEYS},
    **{
        key.lakectl_variable: f"As {key.variable}, for scripts of lakectl"
        for key in KEYS
        if key.lakectl
    },
    "LAKECTL_CONFIG_FILE": "lakectl's configuration file; see lakecli-lakectl(7)",
    "LAKECTL_INTERACTIVE": "false: the layout for programs; true: that of a terminal",
    "LAKECLI_PAGER, PAGER": "The pager of long answers on a terminal; default: less; cat: none",
    "COLUMNS": "The width of tables on a terminal, if it is not the terminal's",
    "NO_COLOR": "Where set and neither empty nor 0: no colours or progress bars",
    "AWS_ENDPOINT_URL, AWS_PROFILE, AWS_ACCESS_KEY_ID, ...": "As in every AWS SDK, for s3://",
}
"""The environment variables that lakecli reads."""

FILES: Final = {
    "$LAKECLI_HOME/config.toml": "Settings",
    "$LAKECLI_HOME/store/": "Refs, staged changes and the operation log of all repositories",
    "$LAKECLI_HOME/cache/": "Ranges and metaranges that were read; may be deleted at any time",
    "~/.config/lakecli/, ~/.local/share/lakecli/, ~/.cache/lakecli/": (
        "The same three on Linux where LAKECLI_HOME is not set"
    ),
}
"""The files of lakecli on a machine."""


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
        lines.append(".SH ARGUMENTS")
        for argument in command.arguments:
            lines += _tagged(rf"\fI{_text(argument.metavar)}\fR", _argument_text(argument))
    lines.append(".SH OPTIONS")
    for option in command.options:
        lines += _tagged(_flags(option), _option_text(option))
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
    lines += [".SH DESCRIPTION", *_DESCRIPTION, ".SH COMMANDS"]
    for command in commands:
        words = r"\fB" + _text(command.words) + r"\fR"
        lines += _tagged(f"{words} {_text(command.synopsis)}", _text(command.summary) + ".")
    lines.append(".SH GLOBAL OPTIONS")
    for option in global_options():
        lines += _tagged(_flags(option), _option_text(option))
    lines += _tagged(
        ", ".join(rf"\fB{_text(flag)}\fR" for flag in VERSION_FLAGS),
        "Print the version; only without a command.",
    )
    lines += _records()
    lines.append(".SH EXIT STATUS")
    for code, meaning in MEANINGS.items():
        lines += _tagged(rf"\fB{int(code)}\fR", _text(meaning[:1].upper() + meaning[1:]) + ".")
    lines += _definitions("ENVIRONMENT", ENVIRONMENT)
    lines += _definitions("FILES", FILES)
    lines += _see_also(
        [page_name(command.words) for command in commands],
        [page_name(topic.name) for topic in topics],
    )
    return "\n".join(lines) + "\n"


_DESCRIPTION: Final = (
    "A repository is a versioned tree of objects. Its data lies in a storage namespace: a",
    "directory, or a prefix in a bucket. What this machine knows of its branches, tags and",
    "uncommitted changes lies in one local store. There is no server.",
    ".PP",
    r"Everything is named by a URI: \fBlakefs://REPOSITORY\fR, \fBlakefs://REPOSITORY/REF\fR,",
    r"\fBlakefs://REPOSITORY/REF/PATH\fR. A REF is a branch, a tag, a commit ID or the beginning",
    r"of one, with the modifiers \fB~\fR and \fB^\fR of Git, \fB@\fR for the committed state of",
    r"a branch and \fB$\fR for its uncommitted one. A PATH is taken literally: nothing in it is",
    "decoded or cut.",
    ".PP",
    r"Boolean options also take a value: \fB\-\-flag=true\fR, \fB\-\-flag=false\fR. Global",
    r"options may stand before or after the command. What follows \fB\-\-\fR is no option.",
    ".PP",
    r"With \fB\-\-json\fR standard output holds JSON only: one object a line for commands that",
    "list, exactly one object for all others. An error is the last line of standard error then:",
    r"{\(dqerror\(dq: {kind, exit_code, message, hint, paths}}.",
)


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
        lines += _tagged(rf"\fI{_text(name)}\fR", _text(meaning[:1].upper() + meaning[1:]) + ".")
    lines += [".PP", "The objects, and their fields:"]
    for record, fields in RECORDS.items():
        lines += [".TP", rf"\fB{_text(record)}\fR"]
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


def _paragraph(paragraph: str) -> list[str]:
    if paragraph.startswith(" "):
        return [".PP", ".nf", *map(_text, paragraph.splitlines()), ".fi"]
    return [".PP", *(_text(line) for line in paragraph.splitlines())]


def _tagged(tag: str, text: str) -> list[str]:
    return [".TP", tag, text]


def _definitions(title: str, items: Mapping[str, str]) -> list[str]:
    lines = [f".SH {title}"]
    for name, meaning in items.items():
        lines += _tagged(rf"\fB{_text(name)}\fR", _text(meaning) + ".")
    return lines


def _argument_text(argument: ParameterHelp) -> str:
    optional = "" if argument.required else " (optional)"
    repeatable = " (repeatable)" if argument.repeatable else ""
    return _text(argument.summary + optional + repeatable) + "."


def _flags(option: ParameterHelp) -> str:
    flags = ", ".join(rf"\fB{_text(flag)}\fR" for flag in option.flags)
    return rf"{flags} \fI{_text(option.metavar)}\fR" if option.metavar else flags


def _option_text(option: ParameterHelp) -> str:
    extra = option_extras(option)
    return _text(option.summary + (f" ({', '.join(extra)})" if extra else "")) + "."


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

"""Hints for invalid command lines: commands of git, lakectl, aws or Unix, and incomplete lines.

The table ``mistakes.txt`` covers unknown commands, unknown options and surplus words. `run`
searches the table when a line is invalid. If the meaning of a line is clear and the command is
harmless, `lakecli.cli.tree.instead` runs the right command.
"""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from lakecli.base.model import is_repository_name
from lakecli.base.uri import SCHEME
from lakecli.cli.context import Context
from lakecli.cli.manual.tables import read_table
from lakecli.cli.tree import COMMANDS, GROUPS

HABITS: Final = {
    pattern: text
    for patterns, text in read_table(Path(__file__).with_name("mistakes.txt"))
    for pattern in patterns
}
"""Patterns for the beginnings of invalid lines, with the hint for each.

A word matches itself; after the first word, a word of three or more letters also matches longer
words that begin with it. An option may follow anywhere, also within options such as ``-am``. ``-0``
matches any number. ``…`` matches surplus words, and a word that should be a URI but is not; ``+``
matches surplus words only. ``:`` matches any word that contains a colon, except URIs.
"""

_URI_SHOWS: Final = {
    "branch": "branch show",
    "config": "config get",
    "fs": "fs ls",
    "gc": "gc status",
    "op": "op log",
    "repo": "repo list",
    "show": "show commit",
    "tag": "tag show",
}
_TOO_MANY: Final = r"unexpected extra argument|not a lakefs:// URI: '[^/]*'$"


def meant_line(line: Sequence[str], error: str) -> str | None:
    """Return what to type instead of an invalid line, or ``None`` if that is unknown.

    Args:
        line: the command line without the name of the program.
        error: the message of the error.
    """
    words = " ".join(line[:-1])
    if list(line[-1:]) == ["help"] and (words in COMMANDS or words in GROUPS):
        return f"lakecli {words} --help"
    typed = [word for word in line if word not in {"help", "--json"}]
    if len(typed) > 1 and typed[1].startswith(SCHEME) and typed[0] in _URI_SHOWS:
        return f"did you mean lakecli {_URI_SHOWS[typed[0]]} {typed[1]}?"
    found = [each for each in HABITS if _begins(typed, each.split(), error)]
    return HABITS[max(found, key=len)] if found else None


def _begins(typed: Sequence[str], habit: Sequence[str], error: str) -> bool:
    """Return whether a line matches a pattern of `HABITS`.

    A line with a valid command of a group, such as ``show commit``, matches no pattern for the
    group alone.
    """
    is_of_group = " ".join(typed[:2]) in COMMANDS and habit[0] in GROUPS
    return (not is_of_group or typed[:2] == habit[:2]) and _begins_with(typed, habit, error)


def _begins_with(typed: Sequence[str], habit: Sequence[str], error: str) -> bool:
    for place, word in enumerate(habit):
        if word == "…":
            return re.search(_TOO_MANY, error) is not None
        if word == "+":
            return "extra argument" in error
        if word == ":":
            return any(re.search(":(?!//)", each) for each in typed[place:])
        if word.startswith("-"):
            if not any(_is_option(each, word) for each in typed[place:]):
                return False
        elif place >= len(typed) or not _is_word(typed[place], word, is_first=place == 0):
            return False
    return True


def _is_option(typed: str, option: str) -> bool:
    if option.startswith("--"):
        return typed.partition("=")[0] == option
    if typed.startswith("--") or not typed.startswith("-"):
        return False
    letters = typed[1:] if len(typed) == 3 else typed[1:2]  # noqa: PLR2004 - as in -am, -rf
    return option[1] in letters or (option == "-0" and typed[1:].isdigit())


def _is_word(typed: str, word: str, *, is_first: bool) -> bool:
    return typed == word or (not is_first and len(word) > 2 and typed.startswith(word))  # noqa: PLR2004


def meant_repository(text: str, line: Sequence[str], context: Context) -> str | None:
    """Return a hint with the URI that a text without ``lakefs://`` probably means.

    The first word of the text resembles the name of a repository on this machine, or is the name of
    a repository to create.
    """
    name, _, rest = text.partition("/")
    known = [record.name for record in context.lake().repositories()]
    if list(line[:2]) == ["repo", "create"] and is_repository_name(text):
        known.append(name)
    near = get_close_matches(name, known, n=1)
    if near:
        return f"did you mean {SCHEME}{near[0]}{'/' + rest if rest else ''}?"
    is_use = list(line[:1]) == ["use"]
    return f"no repository {text!r} is here; list them: lakecli repo list" if is_use else None

"""From lakectl's spelling to Typer's: global options anywhere, ``--flag=false``, ``-n=5``.

Two steps, since what an option takes depends on the command: `split` finds the command's words
and the global options before and between them; `normalise` then walks the rest, knowing the
command's own options. Values of options are never looked into, nor is anything after ``--``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class GlobalOption(NamedTuple):
    """An option that every command takes.

    Attributes:
        name: of the field it sets in `Globals`.
        flags: its spellings, the short one first.
        metavar: what its value is, ``None`` for a boolean.
        summary: for help and the man page.
    """

    name: str
    flags: tuple[str, ...]
    metavar: str | None
    summary: str


GLOBAL_OPTIONS: Final = (
    GlobalOption(
        "base_uri", ("--base-uri",), "URI", "Prefix of URIs that do not begin with lakefs://"
    ),
    GlobalOption("config", ("-c", "--config"), "FILE", "Use this configuration file"),
    GlobalOption("json", ("--json",), None, "Answer in JSON"),
    GlobalOption("quiet", ("-q", "--quiet"), None, "Show no progress and no notes"),
    GlobalOption("no_color", ("--no-color",), None, "No colours, boxed tables or progress bars"),
    GlobalOption("verbose", ("--verbose",), None, "Show debug messages and tracebacks"),
    GlobalOption("help", ("-h", "--help"), None, "Show help"),
)
VERSION_FLAGS: Final = ("-v", "--version")

SETTINGS_FLAG: Final = "--conf"
"""What follows it may be a password: a setting of Spark."""

_GLOBALS: Final = {flag: option for option in GLOBAL_OPTIONS for flag in option.flags}
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


class Globals:
    """The global options that were given; `problem` is what was wrong with them, if anything.

    A problem is raised only once all of the line has been read: whether it is reported as JSON
    may be said at its end.
    """

    def __init__(self) -> None:
        self.base_uri: str | None = None
        self.config: str | None = None
        self.json = False
        self.quiet = False
        self.no_color = False
        self.verbose = False
        self.help = False
        self.version = False
        self.problem: UsageError | None = None

    def take(self, flag: str, value: str | None, rest: list[str]) -> None:
        """Set the option `flag`, with its attached `value` or, if it takes one, from `rest`."""
        option = _GLOBALS[flag]
        if option.metavar is None:
            setattr(self, option.name, True if value is None else self.boolean(flag, value))
        elif value is not None:
            setattr(self, option.name, value)
        elif rest:
            setattr(self, option.name, rest.pop(0))
        else:
            self.fail(UsageError(f"option {flag} needs a value", hint=f"{flag} {option.metavar}"))

    def boolean(self, flag: str, value: str) -> bool:
        """Read the value of ``--flag=value`` as Go does."""
        if value not in _TRUE and value not in _FALSE:
            self.fail(
                UsageError(f"option {flag} takes true or false, not {value!r}", hint=f"{flag}=true")
            )
        return value in _TRUE

    def fail(self, problem: UsageError) -> None:
        """Keep the first problem."""
        self.problem = self.problem or problem


class CommandLine(NamedTuple):
    """The words of a command, and what came after them."""

    words: tuple[str, ...]
    rest: list[str]


def split(
    argv: Sequence[str], given: Globals, *, is_prefix: Callable[[tuple[str, ...]], bool]
) -> CommandLine:
    """Take the longest run of words that begins some command, and the global options among them.

    Args:
        argv: the command line without the program's name.
        given: takes the options.
        is_prefix: whether words begin, or are, a command.
    """
    rest = list(argv)
    words: tuple[str, ...] = ()
    while rest:
        word = rest[0]
        flag, equals, value = word.partition("=")
        if flag in _GLOBALS:
            rest.pop(0)
            given.take(flag, value if equals else None, rest)
        elif not words and word in VERSION_FLAGS:
            rest.pop(0)
            given.version = True
        elif word.startswith("-") or not is_prefix((*words, word)):
            break
        else:
            words = (*words, rest.pop(0))
    return CommandLine(words, rest)


class OptionSyntax(NamedTuple):
    """How one option of a command is written.

    Attributes:
        flags: all its spellings that say yes or take the value.
        negative: the spelling that says no, if it has one.
        takes_value: else it is a boolean.
        alone: the value it has without one, where that is allowed: then only ``--flag=value``
            gives it another.
    """

    flags: tuple[str, ...]
    negative: str | None
    takes_value: bool
    alone: str | None = None


def normalise(rest: Sequence[str], given: Globals, options: Sequence[OptionSyntax]) -> list[str]:
    """Return the arguments in Typer's form, with the global options taken out.

    Args:
        rest: what came after the command's words.
        given: takes the global options.
        options: the command's own; they come before global ones of the same spelling.
    """
    syntax = {flag: option for option in options for flag in option.flags}
    todo = list(rest)
    done: list[str] = []
    while todo:
        word = todo.pop(0)
        if word == "--":
            return [*done, "--", *todo]
        if word.startswith("--"):
            _take_long(word, todo, done, given=given, syntax=syntax)
        elif word.startswith("-") and len(word) > 1:
            _take_short(word, todo, done, given=given, syntax=syntax)
        else:
            done.append(word)
    return done


def _take_long(
    word: str,
    todo: list[str],
    done: list[str],
    *,
    given: Globals,
    syntax: Mapping[str, OptionSyntax],
) -> None:
    flag, equals, value = word.partition("=")
    option = syntax.get(flag)
    if option is None:
        if flag in _GLOBALS:
            given.take(flag, value if equals else None, todo)
        else:
            done.append(word)
    elif option.alone is not None:
        done.append(word if equals else f"{word}={option.alone}")
    elif option.takes_value:
        # Flag and value stay one word, so that no value is ever taken for a flag.
        done.append(word if equals or not todo else f"{word}={todo.pop(0)}")
    elif equals:
        _set_boolean(flag, option, done, value=given.boolean(flag, value))
    else:
        done.append(flag)


def _take_short(
    word: str,
    todo: list[str],
    done: list[str],
    *,
    given: Globals,
    syntax: Mapping[str, OptionSyntax],
) -> None:
    """Take apart ``-rq``, ``-mtext``, ``-m=text`` and ``-r=false``."""
    letters = word[1:]
    while letters:
        flag, letters = "-" + letters[0], letters[1:]
        option = syntax.get(flag)
        attached = letters[1:] if letters.startswith("=") else None
        if option is None and flag in _GLOBALS:
            given.take(flag, attached, todo)
        elif option is None:
            done.append(flag + letters)
            return
        elif option.takes_value:
            if letters:
                value = [letters if attached is None else attached]
            else:
                value = [todo.pop(0)] if todo else []
            done.extend([flag + value[0]] if value and value[0] else [flag, *value])
            return
        elif attached is not None:
            _set_boolean(flag, option, done, value=given.boolean(flag, attached))
        else:
            done.append(flag)
        if attached is not None:
            return


def _set_boolean(flag: str, option: OptionSyntax, done: list[str], *, value: bool) -> None:
    """Say yes, or no: by its negative form, or by forgetting that it was given before."""
    if value:
        done.append(flag)
    elif option.negative is not None:
        done.append(option.negative)
    else:
        done[:] = [word for word in done if word not in option.flags]


def without_secrets(argv: Sequence[str]) -> list[str]:
    """Return a command line with dots for the values of settings, as the operation log keeps it."""
    shown: list[str] = []
    for word in argv:
        flag, equals, setting = word.partition("=")
        if shown and shown[-1] == SETTINGS_FLAG:
            shown.append(_without_value(word))
        elif flag == SETTINGS_FLAG and equals:
            shown.append(f"{flag}={_without_value(setting)}")
        else:
            shown.append(word)
    return shown


def _without_value(setting: str) -> str:
    return setting.partition("=")[0] + "=..."

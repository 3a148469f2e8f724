"""Convert lakectl's spellings of options to Typer's.

Scripts for lakectl put global options anywhere and write ``--flag=false`` and ``-n=5``. Click, on
which Typer is based, accepts global options only before the command, and accepts neither of the two
spellings. Click would refuse the examples with ``--json`` in lakecli's own manual pages and help.

There are two steps, because the syntax of options depends on the command. `split` finds the words
of the command, and the global options before and between these words. `normalise` then converts the
rest, given the options of the command; values of options and words after ``--`` never change.
"""

from collections.abc import Callable, Sequence
from typing import Final

from lakecli.cli.line.declare import Kind, Option
from lakecli.errors import UsageError
from lakecli.settings.keys import KEYS

GLOBAL_OPTIONS: Final = (
    Option("URI", "Prefix of URIs that do not begin with lakefs://", "--base-uri"),
    Option("FILE", "Use this configuration file", "-c", "--config"),
    Option(None, "Answer in JSON", "--json"),
    Option(None, "Show no progress and no notes", "-q", "--quiet"),
    Option(None, "No colours or progress bars", "--no-color"),
    Option(None, "Show long output without a pager", "--no-pager"),
    Option(None, "Show IDs and cells of tables whole", "--no-trunc"),
    Option(None, "Show debug messages, the number of requests, tracebacks", "--verbose"),
    Option("LEVEL", "Log from this level on: debug, info, …", "--log-level"),
    Option("FORMAT", "Format of the log: text or json", "--log-format"),
    Option(
        "FILE",
        "Write the log to this file; - for standard error",
        "--log-output",
        kind=Kind.NOTHING,
    ),
    Option(None, "Show help", "-h", "--help"),
)
"""The options that every command takes; the last spelling of an option names a field of `Globals`.
"""

VERSION_FLAGS: Final = ("-v", "--version")

SETTINGS_FLAG: Final = "--conf"
"""The option for settings of Spark; its value may contain a password."""

_SECRETS: Final = frozenset(key.name for key in KEYS if key.is_secret)

_GLOBALS: Final = {flag: option for option in GLOBAL_OPTIONS for flag in option.flags}
BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
"""The spellings of booleans that Go accepts, with their values."""


class Globals:
    """The global options of a command line; `problem` is the first error in these options.

    The error is raised only after the whole line was parsed: ``--json``, which determines the
    format of the error message, may be the last word.
    """

    def __init__(self) -> None:
        self.base_uri: str | None = None
        self.config: str | None = None
        self.json = False
        self.quiet = False
        self.no_color = False
        self.no_pager = False
        self.no_trunc = False
        self.verbose = False
        self.log_level: str | None = None
        self.log_format: str | None = None
        self.log_output: str | None = None
        self.help = False
        self.version = False
        self.problem: UsageError | None = None

    @property
    def are_logs_wanted(self) -> bool:
        """Whether any option about the log is given."""
        return (self.log_level, self.log_format, self.log_output) != (None, None, None)

    def take(self, flag: str, value: str | None, rest: list[str]) -> None:
        """Set a global option to `value`.

        Without `value`, a boolean option becomes true, and any other option gets the next word.

        Args:
            flag: the spelling of the option.
            value: the value after ``=``; ``None`` if the word has no ``=``.
            rest: the words after the option; a word that is used as the value is removed.
        """
        option = _GLOBALS[flag]
        if not option.takes_value:
            setattr(self, option.name, True if value is None else self.boolean(flag, value))
        elif value is not None:
            setattr(self, option.name, value)
        elif rest:
            setattr(self, option.name, rest.pop(0))
        else:
            self.fail(UsageError(f"option {flag} needs a value", hint=f"{flag} {option.metavar}"))

    def boolean(self, flag: str, value: str) -> bool:
        """Parse the value of a boolean option ``--flag=value`` in the spellings that Go accepts."""
        if value not in BOOLEANS:
            self.fail(
                UsageError(f"option {flag} takes true or false, not {value!r}", hint=f"{flag}=true")
            )
        return BOOLEANS.get(value, False)

    def fail(self, problem: UsageError) -> None:
        """Record an error in the line, unless an earlier error is recorded."""
        self.problem = self.problem or problem


def split(
    argv: Sequence[str], given: Globals, *, is_prefix: Callable[[tuple[str, ...]], bool]
) -> tuple[tuple[str, ...], list[str]]:
    """Split a line into the words of a command, or of a group of commands, and the rest.

    Args:
        argv: the command line without the name of the program.
        given: receives the global options before and between the words of the command.
        is_prefix: a function that returns whether words are a command or the beginning of one.
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
    return words, rest


def normalise(
    rest: Sequence[str], given: Globals, options: Sequence[Option], *, ends_at_word: bool = False
) -> list[str]:
    """Return the arguments in Typer's form, without the global options.

    Args:
        rest: the line after the words of the command.
        given: receives the global options.
        options: the options of the command; they have precedence over global options with the
            same spelling.
        ends_at_word: whether no options follow the first argument, because the arguments are the
            command line of another program.
    """
    line = _Line(rest, given, options)
    todo, done = line.todo, line.done
    while todo:
        word = todo.pop(0)
        if word == "--":
            return [*done, "--", *todo]
        if ends_at_word and not word.startswith("-"):
            return [*done, "--", word, *todo]
        if word.startswith("--"):
            line.take_long(word)
        elif word.startswith("-") and len(word) > 1:
            line.take_short(word)
        else:
            done.append(word)
    return done


def take_globals(rest: Sequence[str], given: Globals) -> list[str]:
    """Return the line of an unknown command without its global options, which `given` receives."""
    return normalise(rest, given, ())


class _Line:
    """A line during its conversion to Typer's form.

    Attributes:
        todo: the words that are not converted yet.
        done: the converted words.
    """

    def __init__(self, rest: Sequence[str], given: Globals, options: Sequence[Option]) -> None:
        self.todo = list(rest)
        self.done: list[str] = []
        self._given = given
        self._syntax = {flag: each for each in options for flag in each.flags}

    def take_long(self, word: str) -> None:
        """Convert a long option such as ``--amount=5``, ``--amount 5`` or ``--flag=false``."""
        flag, equals, value = word.partition("=")
        option = self._syntax.get(flag)
        if option is None:
            if flag in _GLOBALS:
                self._given.take(flag, value if equals else None, self.todo)
            else:
                self.done.append(word)
        elif option.bare is not None:
            self.done.append(word if equals else f"{word}={option.bare}")
        elif option.takes_value:
            # Join option and value in one word, so that no value is mistaken for an option.
            self.done.append(word if equals or not self.todo else f"{word}={self.todo.pop(0)}")
        elif equals:
            self._set_boolean(flag, option, value)
        else:
            self.done.append(flag)

    def take_short(self, word: str) -> None:
        """Convert short options such as ``-rq``, ``-mtext``, ``-m=text`` and ``-r=false``."""
        letters = word[1:]
        while letters:
            flag, letters = "-" + letters[0], letters[1:]
            option = self._syntax.get(flag)
            attached = letters[1:] if letters.startswith("=") else None
            if option is None and flag in _GLOBALS:
                self._given.take(flag, attached, self.todo)
            elif option is None:
                self.done.append(flag + letters)
                return
            elif option.takes_value:
                if letters:
                    value = [letters if attached is None else attached]
                else:
                    value = [self.todo.pop(0)] if self.todo else []
                self.done.extend([flag + value[0]] if value and value[0] else [flag, *value])
                return
            elif attached is not None:
                self._set_boolean(flag, option, attached)
            else:
                self.done.append(flag)
            if attached is not None:
                return

    def _set_boolean(self, flag: str, option: Option, value: str) -> None:
        """Set a boolean option; for false, use its negative spelling, or remove an earlier true."""
        if self._given.boolean(flag, value):
            self.done.append(flag)
        elif option.negative:
            self.done.append(option.negative)
        else:
            self.done[:] = [word for word in self.done if word not in option.flags]


def without_secrets(argv: Sequence[str]) -> list[str]:
    """Return a command line for logs, without the values of secret settings and of Spark's."""
    shown: list[str] = []
    for word in argv:
        flag, equals, setting = word.partition("=")
        if shown and shown[-1] == SETTINGS_FLAG:
            shown.append(f"{flag}=...")
        elif shown and shown[-1] in _SECRETS:
            shown.append("...")
        elif flag == SETTINGS_FLAG and equals:
            shown.append(f"{flag}={setting.partition('=')[0]}=...")
        else:
            shown.append(word)
    return shown

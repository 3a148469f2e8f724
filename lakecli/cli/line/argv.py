"""From lakectl's spelling of options to Typer's.

lakectl's scripts put global options anywhere and write ``--flag=false`` and ``-n=5``. Click, on
which Typer stands, accepts global options before the command only, and neither of the two forms: it
would refuse all 13 examples with ``--json`` in our own pages and help. This takes 30 µs a line.

There are two steps, because the syntax of options depends on the command: `split` finds the words
of the command and the global options before and between them; `normalise` then processes the rest
with the options of the command. It never changes values of options or anything after ``--``.
"""

from collections.abc import Callable, Sequence
from typing import Final

from lakecli.errors import UsageError


class GlobalOption:
    """An option that every command takes.

    Args:
        name: the field of `Globals` that it sets.
        flags: its spellings, the short one first.
        metavar: the name of its value; ``None`` for a boolean.
        summary: its help.
    """

    def __init__(
        self, name: str, flags: tuple[str, ...], metavar: str | None, summary: str
    ) -> None:
        self.name = name
        self.flags = flags
        self.metavar = metavar
        self.summary = summary


GLOBAL_OPTIONS: Final = (
    GlobalOption(
        "base_uri", ("--base-uri",), "URI", "Prefix of URIs that do not begin with lakefs://"
    ),
    GlobalOption("config", ("-c", "--config"), "FILE", "Use this configuration file"),
    GlobalOption("json", ("--json",), None, "Answer in JSON"),
    GlobalOption("quiet", ("-q", "--quiet"), None, "Show no progress and no notes"),
    GlobalOption(
        "no_color", ("--no-color",), None, "No colours, aligned tables, pager or progress bars"
    ),
    GlobalOption("no_pager", ("--no-pager",), None, "Show long output without a pager"),
    GlobalOption("no_trunc", ("--no-trunc",), None, "Show IDs and cells of tables whole"),
    GlobalOption(
        "verbose", ("--verbose",), None, "Show debug messages, the number of requests, tracebacks"
    ),
    GlobalOption("log_level", ("--log-level",), "LEVEL", "Log from this level on: debug, info, …"),
    GlobalOption("log_format", ("--log-format",), "FORMAT", "Format of the log: text or json"),
    GlobalOption(
        "log_output", ("--log-output",), "FILE", "Write the log to this file; - for standard error"
    ),
    GlobalOption("help", ("-h", "--help"), None, "Show help"),
)
VERSION_FLAGS: Final = ("-v", "--version")

SETTINGS_FLAG: Final = "--conf"
"""Its value may contain a password: a setting of Spark."""

_GLOBALS: Final = {flag: option for option in GLOBAL_OPTIONS for flag in option.flags}
BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
"""What Go reads as a boolean."""


class Globals:
    """The global options of a command line; `problem` is the first error in them.

    The error is raised after the whole line was read, because ``--json`` may be its last word.
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
        """Whether any option of the log is given."""
        return (self.log_level, self.log_format, self.log_output) != (None, None, None)

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
        if value not in BOOLEANS:
            self.fail(
                UsageError(f"option {flag} takes true or false, not {value!r}", hint=f"{flag}=true")
            )
        return BOOLEANS.get(value, False)

    def fail(self, problem: UsageError) -> None:
        """Keep the first problem."""
        self.problem = self.problem or problem


def split(
    argv: Sequence[str], given: Globals, *, is_prefix: Callable[[tuple[str, ...]], bool]
) -> tuple[tuple[str, ...], list[str]]:
    """Split a line into the longest beginning of a command and the rest, without global options.

    Args:
        argv: the command line without the name of the program.
        given: receives the global options.
        is_prefix: tells whether words are a command or the beginning of one.
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


class OptionSyntax:
    """The syntax of an option of a command.

    Args:
        flags: all spellings, except the negative one.
        negative: the spelling for false, if there is one.
        takes_value: whether it has a value; else it is a boolean.
        bare: the value of an option that may be given without one; another value needs the form
            ``--flag=value``.
    """

    def __init__(
        self,
        flags: tuple[str, ...],
        negative: str | None,
        *,
        takes_value: bool,
        bare: str | None = None,
    ) -> None:
        self.flags = flags
        self.negative = negative
        self.takes_value = takes_value
        self.bare = bare


def normalise(
    rest: Sequence[str],
    given: Globals,
    options: Sequence[OptionSyntax],
    *,
    ends_at_word: bool = False,
) -> list[str]:
    """Return the arguments in Typer's form, with the global options taken out.

    Args:
        rest: the line after the words of the command.
        given: receives the global options.
        options: the options of the command; they precede global ones of the same spelling.
        ends_at_word: whether the first argument ends the options, because a command line follows.
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


class _Line:
    """A line that is brought into Typer's form: words `todo`, and words that are `done`."""

    def __init__(
        self, rest: Sequence[str], given: Globals, options: Sequence[OptionSyntax]
    ) -> None:
        self.todo = list(rest)
        self.done: list[str] = []
        self._given = given
        self._syntax = {flag: each for each in options for flag in each.flags}

    def take_long(self, word: str) -> None:
        """Process ``--amount=5``, ``--amount 5`` and ``--flag=false``."""
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
            # Flag and value stay one word, so that no value is mistaken for a flag.
            self.done.append(word if equals or not self.todo else f"{word}={self.todo.pop(0)}")
        elif equals:
            self._set_boolean(flag, option, value)
        else:
            self.done.append(flag)

    def take_short(self, word: str) -> None:
        """Process ``-rq``, ``-mtext``, ``-m=text`` and ``-r=false``."""
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

    def _set_boolean(self, flag: str, option: OptionSyntax, value: str) -> None:
        """Set a boolean; for false, use its negative form or drop the earlier true."""
        if self._given.boolean(flag, value):
            self.done.append(flag)
        elif option.negative is not None:
            self.done.append(option.negative)
        else:
            self.done[:] = [word for word in self.done if word not in option.flags]


def without_secrets(argv: Sequence[str]) -> list[str]:
    """Return a command line without the values of Spark settings, for the operation log."""
    shown: list[str] = []
    for word in argv:
        flag, equals, setting = word.partition("=")
        if shown and shown[-1] == SETTINGS_FLAG:
            shown.append(f"{flag}=...")
        elif flag == SETTINGS_FLAG and equals:
            shown.append(f"{flag}={setting.partition('=')[0]}=...")
        else:
            shown.append(word)
    return shown

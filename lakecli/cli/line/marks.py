"""What a parameter is on the command line: an argument or an option, and a kind of name."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

Reader: TypeAlias = Callable[[Any, Any], object]
"""A function that converts text to the value of a parameter.

Its arguments are the text, or the list of texts of a repeatable parameter, and the context; it
raises `UsageError`. It is called after the whole line was parsed, because the meaning of a URI
depends on ``--base-uri`` and other options that may follow the URI. If the user gives no text, it
is not called, and the parameter has its default.
"""


class Kind(StrEnum):
    """Kinds of names that a word on the command line may be, for completion."""

    REPOSITORY = "repository"
    BRANCH = "branch"
    TAG = "tag"
    REF = "ref"
    PATH = "path"
    REF_OR_FILE = "ref-or-file"
    REF_OR_OWN_FILE = "ref-or-own-file"
    PATH_OR_FILE = "path-or-file"
    FILE_OF_REF = "file-of-ref"
    FILE = "file"
    DIRECTORY = "directory"
    OPERATION = "operation"
    SETTING = "setting"
    COMMAND = "command"
    NOTHING = "nothing"


class Argument(NamedTuple):
    """Marks a parameter as an argument of the command line.

    Attributes:
        read: the function that converts the text; ``None`` if the type alone is enough.
        kind: the kind of name that the text is; by default the kind whose name is the metavar.
    """

    metavar: str
    help: str
    read: Reader | None = None
    kind: Kind | None = None


class Option:
    """An option of the command line, either a global option or an option of a command.

    Args:
        flags: the spellings; by default the name of the parameter. ``--flag/--no-flag`` declares a
            boolean option whose omission does not mean false.
        min: the smallest value of an integer.
        hidden: whether help leaves the option out.
        bare: the value that ``--option`` alone means; any other value must be written
            ``--option=value``, not ``--option value``.
        read: the function that converts the text; ``None`` if the type alone is enough.
        kind: the kind of name that the text is; by default the kind whose name is the metavar.

    Attributes:
        flags: the spellings, except the negative one.
        negative: the spelling for false, or ``""``.
        takes_value: whether the option has a value; otherwise it is a boolean.
    """

    def __init__(
        self,
        *flags: str,
        metavar: str | None = None,
        help: str = "",
        min: int | None = None,
        hidden: bool = False,
        bare: str | None = None,
        read: Reader | None = None,
        kind: Kind | None = None,
    ) -> None:
        self.flags = tuple(flag.partition("/")[0] for flag in flags)
        self.negative = "".join(flag.partition("/")[2] for flag in flags)
        self.metavar = metavar
        self.help = help
        self.min = min
        self.hidden = hidden
        self.bare = bare
        self.read = read
        self.kind = kind
        self.takes_value = metavar is not None

    @property
    def name(self) -> str:
        """The name of the parameter, or of the field of `Globals`, that the option sets."""
        return self.flags[-1].removeprefix("--").replace("-", "_")

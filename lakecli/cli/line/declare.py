"""The declaration of a command's arguments and options, derived from the command's function.

A parameter that several commands share is annotated with a type in `lakecli.cli.params`. Such a
type combines the type of the value and an `Argument` or an `Option`. For a parameter of one
command, the default contains the same information; `argument`, `option` or `flag` creates the
default. The help text of such a parameter, and of a field of a group of options, is its entry in
the docstring of the function or class. The docstring of the package has examples.
"""

import builtins
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import UnionType
from typing import Any, Final, ForwardRef, NamedTuple, TypeAlias, get_type_hints

from lakecli.errors import UsageError

Reader: TypeAlias = Callable[[Any, Any], object]
"""A function that converts text to the value of a parameter.

Its arguments are the text (for a repeatable parameter, the list of texts) and the context; it
raises `UsageError` for invalid text. It is called after the whole line was parsed, because the
meaning of a URI depends on ``--base-uri`` and other options that may follow the URI. If the user
gives no text, it is not called, and the parameter has its default.
"""


class Kind(StrEnum):
    """The kind of name that a word of the command line is; it selects the completion."""

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
    """An argument of the command line.

    Attributes:
        metavar: the name of the value in help texts, such as ``PATH``.
        help: the help text; ``""`` if the help text is in a docstring.
        read: the function that converts the text; ``None`` if the type of the parameter suffices.
        kind: the kind of name that the text is; by default the kind that is called like `metavar`.
    """

    metavar: str
    help: str
    read: Reader | None = None
    kind: Kind | None = None


class Option:
    """An option of the command line, either a global option or an option of a command.

    Args:
        metavar: the name of the value in help texts; ``None`` for a boolean or an enumeration.
        help: the help text; ``""`` if the help text is in a docstring.
        flags: the spellings; by default the name of the parameter. ``--flag/--no-flag`` declares a
            boolean option with a spelling for false, whose default need not be false.
        min: the smallest value of an integer.
        hidden: whether help leaves the option out.
        bare: the value that ``--option`` alone means; any other value must be written
            ``--option=value``, not ``--option value``.
        read: the function that converts the text; ``None`` if the type of the parameter suffices.
        kind: the kind of name that the text is; by default the kind that is called like `metavar`.

    Attributes:
        flags: the spellings, except the negative one.
        negative: the spelling for false, or ``""``.
        takes_value: whether the option has a value; otherwise it is a boolean.
    """

    def __init__(
        self,
        metavar: str | None,
        help: str,
        *flags: str,
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


_EMPTY: Final[Mapping[object, object]] = {str: "", list: [], Sequence: ()}
"""The defaults of options that may be omitted, by type; other types have the default ``None``."""

MAX_DIGITS: Final = 18
"""The maximum number of digits of a number, so that it fits into 64 bits."""

REQUIRED: Final = object()
"""The default of a parameter that must be given."""


class Declared(NamedTuple):
    """The default of a parameter of one command, with the declaration of the parameter.

    Attributes:
        default: the value if the option or argument is missing, or `REQUIRED`.
        mark: the declaration.
    """

    default: object
    mark: Argument | Option


def flag(*flags: str, hidden: bool = False) -> Any:  # noqa: ANN401 - a boolean
    """Declare an option of one command that takes no value; see `Option`."""
    return Declared(default=False, mark=Option(None, "", *flags, hidden=hidden))


def option(
    metavar: str | None,
    *flags: str,
    default: object = None,
    min: int | None = None,
    hidden: bool = False,
    read: Reader | None = None,
    kind: Kind | None = None,
) -> Any:  # noqa: ANN401 - of the type of the parameter
    """Declare an option of one command; see `Option`.

    The default is empty text or an empty collection, or ``None`` if the type allows it.
    """
    mark = Option(metavar, "", *flags, min=min, hidden=hidden, read=read, kind=kind)
    return Declared(default, mark)


def argument(
    metavar: str,
    *,
    default: object = REQUIRED,
    read: Reader | None = None,
    kind: Kind | None = None,
) -> Any:  # noqa: ANN401 - as above
    """Declare an argument of one command; see `Argument`."""
    return Declared(default, Argument(metavar, "", read, kind))


class Parameter(NamedTuple):
    """A parameter of a command.

    Attributes:
        type: the type of the value, without ``None``.
        mark: the argument or option that sets the parameter.
        default: the default of the function, or `REQUIRED`.
        read: the function that converts the text; ``None`` if the type suffices.
    """

    name: str
    type: Any
    mark: Argument | Option
    default: object
    read: Reader | None

    @property
    def kind(self) -> Kind | None:
        """The kind of name that the text is; by default the kind called like the metavar."""
        return self.mark.kind or Kind.__members__.get(self.mark.metavar or "")

    @property
    def repeatable(self) -> bool:
        """Whether the parameter may be given several times: its value is a list or a mapping."""
        return getattr(self.type, "__origin__", None) in (list, Sequence, Mapping)


class Declaration:
    """The arguments and options of a command, read from the command's function.

    Attributes:
        function: the function; its first parameter is the context.
        parameters: the parameters by name, including one for each field of a group of options.
        groups: the classes that are types of parameters, by parameter name.
    """

    def __init__(self, function: Callable[..., int | None]) -> None:
        self.function = function
        self.parameters: dict[str, Parameter] = {}
        self.groups: dict[str, Any] = {}
        for name, annotation, default in _parameters_of(function):
            is_class = isinstance(annotation, type) and issubclass(annotation, tuple)
            if is_class and not isinstance(default, Declared):
                self.groups[name] = annotation
                self.parameters |= {each.name: each for each in _fields_of(annotation)}
            else:
                self.parameters[name] = _parameter(name, annotation, default)

    @property
    def runs_a_command(self) -> bool:
        """Whether the command's arguments are the command line of another program."""
        return any(each.kind == Kind.COMMAND for each in self.parameters.values())

    @property
    def options(self) -> list[Option]:
        """The options of the command."""
        return [each.mark for each in self.parameters.values() if isinstance(each.mark, Option)]

    def call(self, context: object, typed: Mapping[str, Any]) -> int:
        """Call the function of the command, and return the exit code.

        Args:
            typed: the values by parameter name; text for a parameter with `read`. If a value is
                missing, ``None`` or an empty list, the parameter has its default.
        """
        values: dict[str, Any] = {}
        for name, parameter in self.parameters.items():
            value, read = typed.get(name), parameter.read
            if value in (None, []) and parameter.default is not REQUIRED:
                value = parameter.default
            elif read is not None:
                value = read(value, context)
            elif isinstance(value, int) and value >= 10**MAX_DIGITS:
                raise UsageError(f"a number of more than {MAX_DIGITS} digits: {value}")
            values[name] = value
        for name, group in self.groups.items():
            values[name] = group(**{each: values.pop(each) for each in group._fields})
        return self.function(context, **values) or 0


def _parameters_of(function: Callable[..., int | None]) -> Iterator[tuple[str, Any, object]]:
    """Yield the name, the annotation and the default of each parameter after the context.

    `inspect` could do this, but importing `inspect` takes longer than many commands run.
    """
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    positional = function.__defaults__ or ()
    defaults = dict(
        zip(code.co_varnames[code.co_argcount - len(positional) :], positional, strict=False)
    )
    defaults |= function.__kwdefaults__ or {}
    annotations = _evaluated(function, function.__globals__)
    for name in code.co_varnames[1:count]:
        yield name, annotations[name], defaults.get(name, REQUIRED)


def _fields_of(group: Any) -> Iterator[Parameter]:  # noqa: ANN401 - mypy knows no type of such classes
    for name, annotation in _evaluated(group, vars(sys.modules[group.__module__])).items():
        yield _parameter(name, annotation, group._field_defaults[name])


def _evaluated(declared: Any, names: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - as above
    """Return the evaluated annotations of a function or a class.

    An annotation that is a plain name is only looked up, which is faster than an evaluation.
    """
    names = {**vars(builtins), **names}
    given = declared.__annotations__.items()
    found = {name: names.get(each, each) for name, each in given if name != "return"}
    if any(isinstance(each, str | ForwardRef) for each in found.values()):
        return get_type_hints(declared, include_extras=True)
    return found


def _parameter(name: str, annotation: Any, default: object) -> Parameter:  # noqa: ANN401 - as above
    if isinstance(default, Declared):
        type_, mark, default = annotation, default.mark, default.default
        if default is None:
            default = _EMPTY.get(getattr(annotation, "__origin__", annotation))
    else:
        type_, (mark,) = annotation.__origin__, annotation.__metadata__
    if isinstance(type_, UnionType):
        others = [each for each in type_.__args__ if each is not type(None)]
        type_ = others[0] if len(others) == 1 else type_
    if isinstance(mark, Option):
        mark.takes_value = type_ is not bool
        mark.flags = mark.flags or (f"--{name.rstrip('_').replace('_', '-')}",)
    return Parameter(name, type_, mark, default, mark.read)

"""Build Typer's command from the declaration of a command.

Typer is imported only for lines that may have an error; it parses the line and reports usage
errors. This module and `declare` implement features that Typer lacks: values that depend on the
context (``read``), options with an optional value (``bare``), groups of options, and
kinds of names for completion.
"""

import inspect
import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand
from typer.exceptions import TyperException
from typer.main import get_command

from lakecli.cli.line.argv import GLOBAL_OPTIONS
from lakecli.cli.line.declare import REQUIRED, Declaration, Option, Parameter
from lakecli.cli.tree import PROGRAM
from lakecli.errors import UsageError

_TYPER_CONTEXT: Final = inspect.Parameter(
    "ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
)


def run_by_typer(
    words: str,
    declared: Declaration,
    context: object,
    arguments: list[str],
    synopsis: Callable[[str], str],
) -> int:
    """Parse normalised arguments with Typer, run the command, and return its exit code.

    Args:
        words: the words of the command.
        synopsis: a function that takes the words of a command and returns the rest of its usage
            line, for a hint.

    Raises:
        UsageError: the line has an error. If an option lacks its value, the hint is the usage line.
    """
    command = build(declared, words)
    try:
        with command.make_context(f"{PROGRAM} {words}", arguments, obj=context) as ctx:
            code: int = command.invoke(ctx)
            return code
    except TyperException as error:
        raise _usage_error(error, words, synopsis) from error


def build(declared: Declaration, words: str) -> TyperCommand:
    """Build Typer's command from a declaration; its callback runs the command's function."""

    def run(ctx: typer.Context, **values: Any) -> int:  # noqa: ANN401 - whatever Typer read
        return declared.call(ctx.obj, values)

    run.__doc__ = declared.function.__doc__
    # Typer reads the signature; mypy knows no such attribute of a function.
    vars(run)["__signature__"] = inspect.Signature(
        [_TYPER_CONTEXT, *map(_for_typer, declared.parameters.values())]
    )
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
    app.command(name=words.rpartition(" ")[2], add_help_option=False)(run)
    return get_command(app)  # type: ignore[return-value]


def _for_typer(parameter: Parameter) -> inspect.Parameter:
    """Return the parameter in Typer's form; the type is text if the parameter has `read`."""
    type_, default, mark = parameter.type, parameter.default, parameter.mark
    if parameter.repeatable or parameter.read is not None:
        type_ = list[str] if parameter.repeatable else str
        default = default if default is REQUIRED else None
    if default is None:
        type_ = type_ | None
    info: Any
    if isinstance(mark, Option):
        first = "/".join(filter(None, (mark.flags[0], mark.negative)))
        info = typer.Option(
            first, *mark.flags[1:], metavar=mark.metavar, min=mark.min, hidden=mark.hidden
        )
    else:
        info = typer.Argument(metavar=mark.metavar)
    return inspect.Parameter(
        parameter.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is REQUIRED else default,
        annotation=Annotated[type_, info],
    )


def _usage_error(error: TyperException, words: str, synopsis: Callable[[str], str]) -> UsageError:
    """Return an error of Typer as a `UsageError`; the arguments are those of `run_by_typer`."""
    message = error.format_message().removesuffix(".")
    name = f"{PROGRAM} {words}"
    hint = f"{name} --help"
    options = getattr(error, "possibilities", None)
    if not options and hasattr(error, "possibilities"):  # the user may mean a global option
        flags = [flag for each in GLOBAL_OPTIONS for flag in each.flags]
        options = get_close_matches(getattr(error, "option_name", ""), flags)
    if options:
        message = error.message
        hint = "did you mean " + " or ".join(sorted(options)) + "?"
    elif getattr(error, "ctx", None) is None:  # raised by the parser itself: a value is missing
        hint = f"{name} {synopsis(words)}\n  {hint}"
    elif re.match("Missing|Got unexpected", message):
        hint = f"{name} {synopsis(words)}"
    return UsageError(message[:1].lower() + message[1:], hint=hint)

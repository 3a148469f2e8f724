"""From a command's function to Typer's command: its parameters, and how its words are read."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, get_args

import typer
from typer.main import get_command

from lakecli.cli.argv import OptionSyntax
from lakecli.cli.params import Completion, Kind, Parser, ValueIfBare
from lakecli.cli.tree import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Callable

    from typer.core import TyperCommand

    from lakecli.cli.context import Context


_TYPER_CONTEXT: Final = inspect.Parameter(
    "ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
)


class Parameter(NamedTuple):
    """What a function's signature says about one parameter.

    Attributes:
        default: of the function; `inspect.Parameter.empty` where there is none.
        reads: how typed text becomes its value, where Typer does not know.
        kind: what it names, for completion.
        alone: the value of an option that may be given without one.
    """

    default: object
    reads: Parser | None
    kind: Kind | None
    alone: str | None


class Built(NamedTuple):
    """A command that can be run.

    Attributes:
        words: what is typed.
        typer: Typer's own command; its callback runs the function.
        parameters: by name, what Typer does not carry.
        function: as it was written.
    """

    words: str
    typer: TyperCommand
    parameters: dict[str, Parameter]
    function: Callable[..., int | None]

    def option_syntax(self) -> list[OptionSyntax]:
        """Return how its options are written."""
        return [
            OptionSyntax(
                flags=tuple(option.opts),
                negative=option.secondary_opts[0] if option.secondary_opts else None,
                takes_value=not getattr(option, "is_flag", False),
                alone=self.parameters[str(option.name)].alone,
            )
            for option in self.typer.params
            if option.param_type_name == "option"
        ]

    def run(self, context: Context, arguments: list[str]) -> int:
        """Run the command on normalised arguments and return its exit code."""
        name = f"{PROGRAM} {self.words}"
        with self.typer.make_context(name, arguments, obj=context) as ctx:
            return self.typer.invoke(ctx) or 0


def build(function: Callable[..., int | None], words: str) -> Built:
    """Build the command of a function whose first parameter is the context."""
    signature = inspect.signature(function, eval_str=True)
    own = list(signature.parameters.values())[1:]
    parameters = {parameter.name: _inspect(parameter) for parameter in own}

    def run(ctx: typer.Context, **values: Any) -> int | None:  # noqa: ANN401 - whatever Typer read
        context: Context = ctx.obj
        for name, parameter in parameters.items():
            if parameter.reads is None:
                continue
            typed = values[name]
            if typed is None or typed == []:
                del values[name]
                if parameter.default is inspect.Parameter.empty:
                    values[name] = typed
            else:
                values[name] = parameter.reads.read(typed, context)
        return function(context, **values)

    run.__doc__ = function.__doc__
    # Typer reads the signature; mypy knows no such attribute of a function.
    vars(run)["__signature__"] = inspect.Signature(
        [_TYPER_CONTEXT, *(_for_typer(parameter) for parameter in own)]
    )
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
    app.command(name=words.rpartition(" ")[2], add_help_option=False)(run)
    return Built(words, get_command(app), parameters, function)  # type: ignore[arg-type]


def _inspect(parameter: inspect.Parameter) -> Parameter:
    marks = get_args(parameter.annotation)[1:]
    return Parameter(
        default=parameter.default,
        reads=next((mark for mark in marks if isinstance(mark, Parser)), None),
        kind=next((mark.kind for mark in marks if isinstance(mark, Completion)), None),
        alone=next((mark.value for mark in marks if isinstance(mark, ValueIfBare)), None),
    )


def _for_typer(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return the parameter as Typer shall see it: plain text where we read the value ourselves."""
    reads = _inspect(parameter).reads
    parameter = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    if reads is None:
        return parameter
    marks = tuple(
        mark
        for mark in get_args(parameter.annotation)[1:]
        if not isinstance(mark, Parser | Completion)
    )
    typed: Any = list[str] if reads.repeatable else str
    has_default = parameter.default is not inspect.Parameter.empty
    return parameter.replace(
        annotation=Annotated[(typed, *marks)],
        default=None if has_default else inspect.Parameter.empty,
    )

"""Build Typer's command from the function of a command.

Typer reads the options and makes the usage errors. What it does not do is done here: a value that
depends on the context (`Parser`), an option that may stand without a value (`ValueIfBare`), options
that several commands take together (a class of `params`), and kinds of names for completion
(`Completion`).
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, get_args, get_type_hints

import typer
from typer.main import get_command

from lakecli.cli.argv import OptionSyntax
from lakecli.cli.reading import Completion, Kind, Parser, ValueIfBare
from lakecli.cli.tree import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typer.core import TyperCommand

    from lakecli.cli.context import Context


_TYPER_CONTEXT: Final = inspect.Parameter(
    "ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
)


class Parameter(NamedTuple):
    """A parameter of a command.

    Attributes:
        default: of the function; `inspect.Parameter.empty` where there is none.
        reads: turns typed text into its value; ``None`` if Typer does.
        kind: the kind of name, for completion.
        alone: the value of an option that is given without one.
    """

    default: object
    reads: Parser | None
    kind: Kind | None
    alone: str | None


class Built(NamedTuple):
    """A command that can be run.

    Attributes:
        words: the words of the command.
        typer: Typer's own command; its callback runs the function.
        parameters: by name, what Typer does not know of them.
        function: the function of the command.
    """

    words: str
    typer: TyperCommand
    parameters: dict[str, Parameter]
    function: Callable[..., int | None]

    def option_syntax(self) -> list[OptionSyntax]:
        """Return the spelling of its options."""
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
    declared = list(signature.parameters.values())[1:]
    groups = {each.name: each.annotation for each in declared if _is_group(each.annotation)}
    own = [single for each in declared for single in _singles(each)]
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
        for name, group in groups.items():
            fields = {each: values.pop(each) for each in group._fields if each in values}
            values[name] = group(**fields)
        return function(context, **values)

    run.__doc__ = function.__doc__
    # Typer reads the signature; mypy knows no such attribute of a function.
    vars(run)["__signature__"] = inspect.Signature(
        [_TYPER_CONTEXT, *(_for_typer(parameter) for parameter in own)]
    )
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
    app.command(name=words.rpartition(" ")[2], add_help_option=False)(run)
    return Built(words, get_command(app), parameters, function)  # type: ignore[arg-type]


def _is_group(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, tuple)


def _singles(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    """Yield the parameter itself, or one for each field of its group."""
    group: Any = parameter.annotation
    if not _is_group(group):
        yield parameter
        return
    for name, hint in get_type_hints(group, include_extras=True).items():
        default = group._field_defaults[name]
        yield inspect.Parameter(name, parameter.kind, default=default, annotation=hint)


def _inspect(parameter: inspect.Parameter) -> Parameter:
    marks = get_args(parameter.annotation)[1:]
    return Parameter(
        default=parameter.default,
        reads=next((mark for mark in marks if isinstance(mark, Parser)), None),
        kind=next((mark.kind for mark in marks if isinstance(mark, Parser | Completion)), None),
        alone=next((mark.value for mark in marks if isinstance(mark, ValueIfBare)), None),
    )


def _for_typer(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return the parameter for Typer: plain text if a `Parser` reads the value."""
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

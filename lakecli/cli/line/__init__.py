"""Read a command line: from the words that a user types to the call of a command's function.

Typer alone could do this. It is not used for most lines, because importing it takes longer than
most commands run: ``tests/benchmarks/README.md`` has the figures. So every command declares its
arguments and options once, and two readers work on that declaration. A quick reader handles lines
without errors. Typer reads all other lines, and its messages become the usage errors.

The function of a command has the context as its first parameter. Each other parameter is an
argument or an option. If several commands have it, its annotation declares it; otherwise its
default does, which is made by `declare.argument`, `declare.option` or `declare.flag`::

    Amount = Annotated[int, Option("--amount", min=0, metavar="N", help="Show at most N")]

    def log(context: Context, *, amount: Amount = 100, graph: bool = flag("Draw the graph")): ...

A line such as ``lakecli --json fs ls -r=false lakefs://demo/main/`` is read in these steps:

1. `argv.split` takes the words of the command (``fs ls``) off the line, and the global options
   before and between them (``--json``). Only the module of this command is imported.
2. `declare.Declaration` reads the parameters of its function.
3. `argv.normalise` takes the other global options out, and turns lakectl's spellings, such as
   ``-r=false`` and ``-n=5``, into Typer's. It needs the declaration, since the command's options
   decide which words are values.
4. `action.plain` reads the rest, if every word in it is unambiguous: an existing option with a
   valid value, or an argument that the command declares. It does not report errors. If the line
   may have an error, it returns ``None``.
5. For such a line `build` makes Typer's command from the declaration, and Typer reads the line.
   Typer either accepts the line, or raises an error, which becomes a `UsageError`.
6. `Declaration.call` turns text into values that depend on the context, such as URIs that lack the
   repository (`lakecli.cli.parsers`), and calls the function. This package does not use the
   context: it only passes the context on.

`action.find_action` does steps 2 to 6. `lakecli.cli.run` calls it after step 1, and knows none of
the steps. Other modules import the names that this package exports, never one of its modules. May
import `tree`, `exit_codes` and what is below.

Both readers must agree on every line: `tests/cli/line/test_action.py` gives all commands the same
lines by both ways, and compares the values that the functions receive.
"""

from lakecli.cli.line.action import find_action
from lakecli.cli.line.argv import (
    BOOLEANS,
    GLOBAL_OPTIONS,
    VERSION_FLAGS,
    Globals,
    Option,
    split,
    take_globals,
    without_secrets,
)
from lakecli.cli.line.declare import (
    REQUIRED,
    Argument,
    Declaration,
    Kind,
    Parameter,
    Parser,
    argument,
    flag,
    option,
)

__all__ = [
    "BOOLEANS",
    "GLOBAL_OPTIONS",
    "REQUIRED",
    "VERSION_FLAGS",
    "Argument",
    "Declaration",
    "Globals",
    "Kind",
    "Option",
    "Parameter",
    "Parser",
    "argument",
    "find_action",
    "flag",
    "option",
    "split",
    "take_globals",
    "without_secrets",
]

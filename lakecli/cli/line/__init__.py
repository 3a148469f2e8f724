"""Parse a command line, and call the function of the command.

Typer alone could do this, but importing Typer takes longer than most commands run (see
``tests/benchmarks/README.md``). So every command declares its arguments and options once, and two
parsers use the declaration. A fast parser handles lines without errors. Typer parses all other
lines, and its messages become usage errors.

The function of a command has the context as its first parameter. Each other parameter is an
argument or an option. An argument or option of several commands is declared by the annotation of
the parameter. An argument or option of one command is declared by the default of the parameter,
with `declare.argument`, `declare.option` or `declare.flag`; its help text is in the docstring::

    Amount = Annotated[int, Option("N", "Show at most N", "--amount", min=0)]

    def log(context: Context, *, amount: Amount = 100, graph: bool = flag()): ...

A line such as ``lakecli --json fs ls -r=false lakefs://demo/main/`` is parsed in these steps:

1. `argv.split` removes the words of the command (``fs ls``) from the line, and the global options
   before and between these words (``--json``). Only the module of this command is imported.
2. `declare.Declaration` reads the parameters of the command's function, which are declared by the
   classes `Argument` and `Option`.
3. `argv.normalise` removes the other global options, and converts lakectl's spellings, such as
   ``-r=false`` and ``-n=5``, to Typer's. This step needs the declaration, because the command's
   options determine which words are values.
4. `action.plain` parses the rest if every word is an existing option with a valid value, or an
   argument that the command declares. Otherwise the line may have an error, and `action.plain`
   returns ``None``.
5. For such a line, `build` creates Typer's command from the declaration, and Typer parses the line.
   Typer either accepts the line, or raises an error, which becomes a `UsageError`.
6. `Declaration.call` converts text to values that depend on the context, such as URIs without the
   repository (`lakecli.cli.parsers`), and calls the function. This package does not use the
   context: it only passes the context on.

`action.find_action` does steps 2 to 6; `lakecli.cli.run` calls it after step 1. Other modules
import only the names that this package exports, never its modules. This package may import `tree`,
`exit_codes` and the layers below.

Both parsers must agree on every line: `tests/cli/line/test_action.py` parses the same lines with
both, for all commands, and compares the values that the functions receive.
"""

from lakecli.cli.line.action import find_action
from lakecli.cli.line.argv import (
    BOOLEANS,
    GLOBAL_OPTIONS,
    VERSION_FLAGS,
    Globals,
    split,
    take_globals,
    without_secrets,
)
from lakecli.cli.line.declare import (
    REQUIRED,
    Argument,
    Declaration,
    Kind,
    Option,
    Parameter,
    argument,
    flag,
    option,
)

__all__ = ["BOOLEANS", "GLOBAL_OPTIONS", "VERSION_FLAGS", "Globals", "split", "take_globals"]
__all__ += ["REQUIRED", "Argument", "Declaration", "Kind", "Option", "Parameter"]
__all__ += ["argument", "find_action", "flag", "option", "without_secrets"]

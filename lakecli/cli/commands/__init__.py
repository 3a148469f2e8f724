'''The commands: one file each, one function each, one call into the library each.

How to write ``lakecli branch list``:

1. Add ``list`` to the commands of ``branch`` in ``_WORDS`` in ``cli/tree.py``. A new first word
   needs a line in ``GROUPS`` there.
2. Write ``commands/branch_list.py`` with a function ``branch_list``::

    """``lakecli branch list``."""

    from __future__ import annotations

    from lakecli.cli.context import Context
    from lakecli.cli.params import After, Amount, Prefix, RepositoryUri
    from lakecli.cli.records import ref_record


    def branch_list(
        context: Context,
        repository: RepositoryUri,
        *,
        amount: Amount = 100,
        after: After = "",
        prefix: Prefix = "",
    ) -> None:
        """List the branches of a repository, ordered by name.

        Hidden ones are left out.

        Examples:
            lakecli branch list lakefs://demo
        """
        from lakecli.repository import branch

        opened = context.synced_repository(repository)
        found = branch.iter_branches(opened, prefix=prefix, after=after)
        context.out.table(
            ("Branch", "Commit ID"),
            context.out.page(found, amount=amount, name=lambda item: item.name),
            row=lambda item: (item.name, item.commit_id),
            record=ref_record,
        )

3. Run ``python -m lakecli.cli.generate``; it writes the man pages and the completion scripts.
4. Write ``tests/cli/test_branch_list.py`` with golden outputs (see ``tests/support/golden.py``).

Parameters. The first one is the context and is no parameter of the command line. Those before
``*`` are arguments, those after it options. Take their types from ``cli/params.py`` where they
are there; else write ``Annotated[TYPE, typer.Option("--name", "-n", help="What it does")]``, with
a default after ``=``. A boolean gets one spelling, ``typer.Option("--flag", "-f", …)``, and
``--flag=true|false`` works by itself; only where leaving it out differs from false, write
``bool | None = None`` with ``"--flag/--no-flag"``. Help texts are short, upper-case first, no
period. A value that Typer cannot read carries ``Parser(function)``; words that complete carry
``Completion(Kind…)``. Global options (``--json``, ``-q``, …) are never parameters.

Imports. Typer evaluates the annotations of the command's function, so what they name is imported
for real; everything else that only annotations name goes under ``TYPE_CHECKING``, and library
modules are imported inside the function: ``--help`` and completions build every command.

Docstring. Its first line is what lists show; paragraphs are filled anew, indented ones kept; the
last section, ``Examples:``, is required. It is the help and the man page.

Answers go through ``context.out``, never through ``print``:

- ``emit(fields, text=lambda: lines)`` for one object: with ``--json`` the fields, else the lines;
- ``stream(items, record=…, text=…)`` for listings: one JSON object or one text per item;
- ``table(columns, items, row=…, record=…)`` for tables, boxed on a terminal;
- ``page(items, amount=…, name=…)`` around the items of a listing cuts it and says so;
- ``say(line)`` for lines that come before the answer, such as ``Source ref: …``; not in JSON;
- ``binary()`` for bytes; ``note``, ``warn``, ``hint`` and ``progress`` for stderr;
- ``style(text, "green")`` colours on a terminal only.

With ``--json`` a command answers what its row in ``cli/schemas.py`` says; `Cli` of the tests checks
every such run against it. ``cli/records.py`` has the JSON fields of commits, refs, differences
and entries, ``cli/text.py`` their text blocks, sizes, dates, and `quote_path`, through which every
path goes on its way out.

Errors are raised, as `lakecli.errors` says; nothing catches them but ``cli/app.py``. A command
returns nothing, or an `ExitCode` such as ``ExitCode.DIFFERENCES``. What cannot be taken back asks
first: ``context.confirm("delete repository 'r'", yes=yes)`` with ``yes: Yes = False``.

Commands never import each other; what two of them need goes beside ``params.py``.
'''  # noqa: D214 - the section is that of the example

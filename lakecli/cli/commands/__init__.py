'''The commands, each a function that calls the library once, and modules that they share.

How to write ``lakecli branch list``:

1. Add ``list@`` to the commands of ``branch`` in ``_WORDS`` in ``cli/tree.py``, which explains the
   mark. A new first word needs an entry in ``manual/groups.txt``.
2. Write a function ``branch_list`` in ``commands/branch.py``; `lakecli.cli.tree` says which module
   a command is defined in::

    """``lakecli branch``."""

    from lakecli.base.model import Branch
    from lakecli.cli.context import Context
    from lakecli.cli.params import PageOptions
    from lakecli.cli.params import RepositoryUri
    from lakecli.cli.out.records import answers


    @answers(Branch, each=True)
    def branch_list(
        context: Context,
        repository: RepositoryUri,
        *,
        page: PageOptions,
    ) -> None:
        """List the branches of a repository, ordered by name.

        Hidden ones are left out.

        Examples:
            lakecli branch list lakefs://demo
        """
        from lakecli.repository import branch

        opened = context.synced_repository(repository)
        found = branch.iter_branches(opened, prefix=page.prefix, after=page.after)
        context.out.table(
            ("Branch", "Commit ID"),
            context.out.page(found, amount=page.amount, name=lambda item: item.name),
            row=lambda item: (item.name, item.commit_id),
        )

3. Run ``python -m lakecli.cli.manual.generate``; it writes the man pages and the completion
scripts.
4. Write a test in ``tests/cli/commands/test_branch.py`` with golden outputs
(``tests/support/golden.py``).

Parameters. The first parameter is the context. Parameters before ``*`` are arguments; parameters
after ``*`` are options. A parameter that several commands share is annotated with a type from
``cli/params.py``. A parameter of this command alone is declared by its default, with a function of
`lakecli.cli.line`::

    force: bool = flag("--force", "-f"),
    since: datetime | None = option("TIME", read=read_time),
    directory: str = argument("DIR", default=".", kind=Kind.DIRECTORY),

Its help text is its entry in the section ``Args:`` of the docstring. If the call contains no
spelling, the option is named after the parameter: ``--since``. A parameter whose type is a class
such as ``PageOptions`` declares several options and has no default. A boolean option has one
spelling, and accepts ``--flag=true|false``. If omitting a boolean option must differ from false,
declare it by `option` with ``"--flag/--no-flag"`` and the type ``bool | None``. Help texts are
short and begin with a capital letter; help leaves out the final period. If the value depends on the
context, pass a function as ``read`` that parses the text. The shell completes a value whose metavar
is the name of a `Kind`, such as ``REF``; for other values, or to override it, pass the ``kind``. An
option or argument whose value is a collection may be given several times. An option that is
accepted for lakectl and has no effect is a parameter such as ``_pre_sign``. Global options
(``--json``, ``-q``, …) are never parameters.

Imports. `lakecli.cli.line` evaluates the annotations of the function, so the names in them are
imported at run time. Names that occur only in other annotations are imported under
``TYPE_CHECKING``. Modules of the library are imported inside the function, because ``--help`` and
completion build every command.

Docstring. The docstring of the function is the help and the manual page. Its first line is also
shown in lists. Paragraphs are rewrapped, except indented paragraphs. A paragraph ``Usage: SRC...
PATH [OPTIONS]`` replaces the usage line. The section ``Args:`` has the help texts of the parameters
that only this command has. The last section, ``Examples:``, is required.

Output is written by ``context.out``, never by ``print``:

- ``emit(record, text=lambda: lines)`` for one object: with ``--json`` the record, else the lines;
- ``stream(items, record=…, text=…)`` for listings: one JSON object or one text per item;
- ``table(columns, items, row=…, record=…)`` for tables, aligned on a terminal;
- ``page(items, amount=…, name=…)`` limits the items of a listing, and prints how to list more;
- ``say(line)`` for lines before the result, such as ``Source ref: …``; not in JSON;
- ``binary()`` for bytes; ``note``, ``warn``, ``hint`` and ``progress`` for stderr;
- ``style(text, "green")`` colors text on a terminal only.

The JSON output of a command, its answer, is a record of the library or, if the library has no such
record, a class whose name ends in ``Json``. The decorator ``@answers`` declares it. In
``cli/out/records.py``, `VIEWS` lists the fields of library records that an answer contains, and
`pick` fills in a class whose name ends in ``Json``. `Cli` in the tests checks the output of every
run with ``--json`` against these classes. ``cli/out/text.py`` formats commits, objects, sizes and
dates; every path in a text is passed to its `quote_path`.

Errors are raised as `lakecli.errors` describes; only ``cli/run.py`` catches them. A command
returns nothing, or an `ExitCode` such as ``ExitCode.DIFFERENCES``. Before an action that cannot be
undone, a command asks: ``context.confirm("delete repository 'r'", yes=yes)`` with
``yes: Yes = False``.

This package may import `manual` and the layers below. Modules of commands import the shared modules
here, never each other::

    differences       differences as text and JSON, one by one or counted
    engine            --engine, --master and --conf
    entries           the output about one object
    log_format        the forms of `log`
    moved_refs        refs that moved in the bucket
    named_checks      what --check names
    names_from_file   input files, --files-from and --stdin
    output_file       files that --output names
    presigned_links   presigned URLs
    refs_manifest     refs dumps of lakeFS
    transfers         the output of transfers: summaries, dry runs, failures
    worktrees         opening, comparing, checking out and committing linked directories
'''  # noqa: D214 - the section is that of the example

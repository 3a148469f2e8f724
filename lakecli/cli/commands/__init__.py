'''The commands: one function and one call into the library each, and what several of them share.

How to write ``lakecli branch list``:

1. Add ``list@`` to the commands of ``branch`` in ``_WORDS`` in ``cli/tree.py``, which explains the
   mark. A new first word needs a line in ``GROUPS`` there.
2. Write a function ``branch_list`` in ``commands/branch.py``; `lakecli.cli.tree` says which module
   a command stands in::

    """``lakecli branch``."""

    from __future__ import annotations

    from lakecli.base.model import Branch
    from lakecli.cli.context import Context
    from lakecli.cli.option_groups import PageOptions
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

Parameters. The first one is the context. Parameters before ``*`` are arguments, those after it are
options. What several commands have is a type of ``cli/params.py``. What only this command has is
declared in its default, by functions of `lakecli.cli.line`::

    force: bool = flag("Move the tag if it exists", "--force", "-f"),
    since: datetime | None = option("TIME", "Only commits since this time", read=read_time),
    directory: str = argument("DIR", "Where to search", default=".", kind=Kind.DIRECTORY),

Without spellings, the option is that of the parameter's name: ``--since``. A class such as
``PageOptions`` stands for several options and has no default. A boolean has one spelling;
``--flag=true|false`` works too. Only if leaving it out differs from false, it is an `option` with
``"--flag/--no-flag"`` and ``bool | None``. Help texts are short, begin with a capital letter and
have no period. A value that depends on the context has a function that reads it, a word to complete
a ``kind``; an option or argument whose value is a collection may be given several times. Global
options (``--json``, ``-q``, …) are never parameters.

Imports. `lakecli.cli.line` evaluates the annotations of the function, so the names in them are
imported at run time. Names of other annotations go under ``TYPE_CHECKING``. Modules of the library
are imported inside the function, because ``--help`` and completion build every command.

Docstring. It is the help and the manual page. Its first line is also shown in lists. Paragraphs are
filled anew; indented ones are kept. ``Usage: SRC... PATH [OPTIONS]`` replaces the usage line. The
last section, ``Examples:``, is required.

Answers go through ``context.out``, never through ``print``:

- ``emit(record, text=lambda: lines)`` for one object: with ``--json`` the record, else the lines;
- ``stream(items, record=…, text=…)`` for listings: one JSON object or one text per item;
- ``table(columns, items, row=…, record=…)`` for tables, aligned on a terminal;
- ``page(items, amount=…, name=…)`` limits the items of a listing and says how to get the rest;
- ``say(line)`` for lines before the answer, such as ``Source ref: …``; not in JSON;
- ``binary()`` for bytes; ``note``, ``warn``, ``hint`` and ``progress`` for stderr;
- ``style(text, "green")`` colours on a terminal only.

The JSON answer of a command is a record of the library, or a class that ends in ``Json`` where the
library has none. ``@answers`` names it above the function. ``cli/out/records.py`` says which fields
of a record are answered (`VIEWS`), and has `pick`, which fills in a class that ends in ``Json``.
`Cli` of the tests checks every run with ``--json`` against them. ``cli/out/text.py`` has the texts
of commits and objects, sizes, dates, and `quote_path` for every path in a text.

Errors are raised, as `lakecli.errors` describes; only ``cli/run.py`` catches them. A command
returns nothing, or an `ExitCode` such as ``ExitCode.DIFFERENCES``. Before an action that cannot be
undone it asks: ``context.confirm("delete repository 'r'", yes=yes)`` with ``yes: Yes = False``.

May import `manual` and what is below. Modules of commands import the shared modules here, never
each other::

    differences       differences as text and JSON, one by one or counted
    engine            --engine, --master and --conf
    log_format        the forms of `log`
    moved_refs        refs that moved in the bucket
    named_checks      what --check names
    names_from_file   --files-from and --stdin
    output_file       files that --output names
    presigned_links   presigned URLs
    refs_manifest     refs dumps of lakeFS
    transfers         what transfers answer: summaries, dry runs, failures
    worktree_changes  linked directories: brought to a commit, and commits of them
    worktrees         linked directories: opened and compared
'''  # noqa: D214 - the section is that of the example

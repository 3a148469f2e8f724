"""The command line: the only part that prints, reads the environment, and exits.

::

    app            the program: streams and signals of the process
    run            run one command and turn errors into exit codes; exit_codes: their table
    tree           all commands and groups, and which module a command stands in
    line           what commands declare, and how a command line is read
    params         shared arguments and options; option_groups: options that go together
    parsers        from typed text to values, and what is meant without a URI
    context        settings, lake, clock and output for a command
    programs       running checks, hooks and jobs
    commands       the commands, and what several share; its docstring is the guide to writing one
    hints          hints of the library, as commands
    out            answers: text, tables, JSON, progress, the log
    manual         help, manual pages, topics, completion, answers to mistakes

A command knows its context and writes to ``context.out``. May import `spark`, `filesystem` and what
is below. Nothing of lakecli imports this package.
"""

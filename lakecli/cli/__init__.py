"""The command line: the only part that prints, reads the environment, and exits.

::

    app            the program: streams and signals of the process
    run            run one command and turn errors into exit codes; exit_codes: their table
    tree           all commands and groups, and the module of each command
    line           declarations of commands, and parsing of command lines
    params         shared arguments and options, and groups of options
    parsers        parsers of typed text, and the defaults for a missing URI
    context        settings, lake, clock and output for a command
    programs       runs the programs of checks, hooks and jobs
    commands       the commands and their shared modules; its docstring explains how to write one
    hints          turns verbs and parameters in hints into commands and options
    out            output: text, tables, JSON, progress, the log
    manual         help, manual pages, topics, completion, hints for mistakes

A command receives its context and writes to ``context.out``. This package may import `spark`,
`filesystem`, `serving` and the layers below. No other package of lakecli imports this package.
"""

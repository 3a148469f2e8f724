"""The command line: the only part that prints, reads the environment, and exits.

::

    app            the program: streams and signals of the process
    run            run one command and turn errors into exit codes; exit_codes: their table
    tree           all commands and groups
    line           read a command line: what commands declare, and the quick way past Typer
    params         shared arguments and options; reading: from typed text to values
    here           what a command means without a URI; in_place: URIs of storage namespaces
    context        settings, lake, clock and output for a command
    commands       one file for each command; its docstring is the guide to writing one
    out            answers: text, tables, JSON, progress
    manual         help, manual pages, topics, completion, answers to mistakes
    configure      the questions of `lakecli config`
    logs           --log-level and the requests that --verbose counts
    plugins        programs that add commands
    names          --files-from
    files          files that --output names
    batch          --files-from and --stdin: many questions to one command
    engine         --engine, --master, --conf

Shared by several commands: annotations (annotate, blame), bisecting (bisect), collection (gc),
differences, handoff and presigned (fs presign), lakectl (doctor,
config list), lakefs (clone, refs-dump, refs-restore), operations and undoing (undo, redo, op),
outside (trust), places (fs cp, mv), sharing (clone, push, pull, status), syncing (with sync),
transfers (upload, download), uploads (of several files), worktrees, working_directory, linking and
working_commit (local).
"""

"""The command line: the only part that prints, reads the environment, and exits.

::

    app            run one command behind one error boundary
    tree           all commands and groups; topics: pages about no single command
    argv           lakectl's spelling of options to Typer's
    build          a function's signature to Typer's command; params: shared arguments and options
    context        what a command is given: settings, lake, clock, output
    commands       one file for each command; its docstring says how to write one
    output         how a command answers; text and records: as text and JSON; schemas: the fields
    exit_codes     the one table of exit codes
    describe       what help, man, completion and complete are made from; generate writes the files
    progress       plain lines; progress_bar: on a terminal
    committer      who commits; messages: checks of commit messages
    engine         --engine, --master, --conf

Shared by several commands: collection (gc), differences, handoff and presigned (fs presign),
history_graph (log), operations and undoing (undo, redo, op), outside (trust), places (fs cp, mv),
sharing (clone, push, pull, status), transfers (upload, download).
"""

"""The command line: the only part that prints, reads the environment, and exits.

::

    app            the program: streams and signals of the process
    run            run one command and turn errors into exit codes
    tree           all commands and groups; topics: pages about no single command
    line           read a command line: what commands declare, and the quick way past Typer
    here           what a command means without a URI; in_place: URIs of storage namespaces
    params         shared arguments and options; reading: from typed text to values
    context        settings, lake, clock and output for a command
    commands       one file for each command; its docstring is the guide to writing one
    output         answers, errors and progress on stdout and stderr; escaped_bytes: documents on a
                   terminal; text: sizes, dates; tables, pager: on a terminal
    json_lines     records as lines of JSON
    answers        the JSON answers; schemas: their documentation; records: those used often
    exit_codes     the table of exit codes; mistakes: what was meant by a line
    configure      the questions of `lakecli config`
    logs           --log-level and the requests that --verbose counts
    plugins        programs that add commands
    names          --files-from
    generate       write the manual pages, by man, and completion scripts; complete: answers TAB;
                   help: pages on the terminal
    progress       plain lines; progress_bar: on a terminal
    files          files that --output names
    batch          --files-from and --stdin: many questions to one command
    engine         --engine, --master, --conf

Shared by several commands: annotations (annotate, blame), bisecting (bisect), collection (gc),
differences, handoff and presigned (fs presign), history_graph, log_format (log), lakectl (doctor,
config list), lakefs (clone, refs-dump, refs-restore), operations and undoing (undo, redo, op),
outside (trust), places (fs cp, mv), sharing (clone, push, pull, status), syncing (with sync),
transfers (upload, download), uploads (of several files), worktrees, working_directory, linking and
working_commit (local).
"""

"""Output of commands: text for people, JSON for programs, and the layout of both.

::

    output          writes to stdout and stderr; no other module does
    text            sizes, dates, quoted names
    tables          aligned on a terminal; terminal: its pager
    records         JSON output of several commands; schemas: the documentation of all
    progress        plain lines; progress_bar: on a terminal
    logs            --log-level, and the requests that --verbose counts

This package may import `hints`, `line` and the layers below.
"""

"""Answers of commands: text for people, JSON for programs, and how both look.

::

    output          the only way to stdout and stderr; escaped_bytes: documents on a terminal
    text            sizes, dates, quoted names
    tables, pager   on a terminal
    json_lines      records as lines of JSON
    answers         the JSON answers; schemas: their documentation; common_records: those used often
    progress        plain lines; progress_bar: on a terminal
    history_graph   `log --graph`; log_format: `log --format`
"""

"""The command line: the only part that prints, reads the environment, and exits.

``app`` runs one command behind one error boundary; ``tree`` knows all commands; ``argv`` turns
lakectl's spelling into Typer's; ``context`` is what a command is given; ``output`` is how it
answers; ``exit_codes`` is the one table of exit codes. ``describe`` is what help, man pages and
completion scripts are made from. Commands live one per file in ``commands``; its docstring says
how to write one.
"""

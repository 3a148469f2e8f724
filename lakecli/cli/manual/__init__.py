"""Documentation of the commands: help, manual pages, topics, completion, and hints for mistakes.

::

    describe     describes a command, from its declaration and docstring, for all pages
    help         pages on the terminal
    man          manual pages; generate: writes them, and the completion scripts
    topics       pages about subjects that concern several commands
    completion   completion scripts of shells; complete: prints the candidates at a TAB
    mistakes     hints that explain what an invalid command line probably means
    tables       tables in text files

This package may import `params` and the layers below.
"""

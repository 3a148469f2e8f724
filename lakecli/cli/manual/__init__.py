"""What explains the commands: help, manual pages, topics, completion, and answers to mistakes.

::

    describe     a command by its declaration and docstring: what the pages are made of
    help         pages on the terminal
    man          manual pages; generate: writes them, and the completion scripts
    topics       pages about no single command
    completion   the scripts of shells; complete: answers TAB
    mistakes     what was meant by a line that cannot be understood

May import `option_groups` and what is below.
"""

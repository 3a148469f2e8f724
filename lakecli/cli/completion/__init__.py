"""Completion scripts for bash, zsh and fish, written from the command tree.

::

    table      the command tree as tables
    bash, zsh, fish   the script of each shell

All three work alike: they walk the words before the cursor along the tree, which is written into
the script, and complete command words, options and fixed values by themselves. Names of
repositories, branches, tags and objects come from ``lakecli __complete``.
"""

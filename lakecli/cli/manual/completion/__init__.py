"""Completion scripts for bash, zsh and fish, written from the command tree.

::

    table      the command tree as tables
    scripts    the tables put into the template of a shell, template.bash for one
    refs       names of refs, with modifiers and in ranges
    paths      names in one directory: of a ref, and files of a linked directory
    in_place   repositories named by their storage namespace

All three scripts work alike: they walk the words before the cursor along the tree, which is part of
the script, and complete command words, options and fixed values without running lakecli. Names of
repositories, branches, tags and objects come from ``lakecli __complete``.

Typer's own scripts would start lakecli with all commands at every TAB: 190 ms of processor time,
against none for words and options, and 50 to 100 ms for names and paths here. In bash they also
cannot complete a URI, because readline splits words at the colon of ``lakefs://``.
"""

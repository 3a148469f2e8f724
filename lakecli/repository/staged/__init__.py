"""Uncommitted changes: writing them, and what they are.

::

    stager           writes to staging areas, as one operation of the log: entries with new
                     attributes, and all objects below a directory
    changes          staging compared with the commit, and with what others have changed since;
                     branches without uncommitted changes
    counts           how many changes of each kind there are, kept with the staging token
    partial_commit   a part of the staged changes; what a commit of it leaves stays staged

May import `guard` and what is below.
"""

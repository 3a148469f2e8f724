"""Uncommitted changes: writing them, listing them, counting them.

::

    stager           writes to staging areas, as one operation of the log: entries with new
                     attributes, and all objects below a directory
    changes          staging compared with the commit, and with what others have changed since;
                     branches without uncommitted changes
    counts           how many changes of each kind there are, kept with the staging token
    partial_commit   commits of some of the staged changes; the other changes stay staged

May import `guard` and what is below.
"""

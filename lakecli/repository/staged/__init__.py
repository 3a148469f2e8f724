"""Uncommitted changes: writing them, listing them, counting them.

::

    stager           writes to staging areas, as one operation of the log: entries with new
                     attributes, and all objects below a directory
    changes          compares staging with the commit, and with later changes of others;
                     refuses branches with uncommitted changes
    counts           counts the changes of each kind; keeps the counts with the staging token
    partial_commit   commits some of the staged changes; the other changes stay staged

This package may import `guard` and the layers below.
"""

"""Uncommitted changes: writing them, and what they are.

::

    stager        writes to staging areas, as one operation of the log
    subtree       all objects below a directory, in batches
    attributes    type and metadata of an entry, changed without another object
    changes       staging compared with the commit, and with what others have changed since
    left_staged   what a commit of a part leaves
"""

"""A branch gets a commit.

::

    transaction    the one way of commit, merge, revert and cherry-pick: the staging area is sealed,
                   the tree built, the branch moved; commit IDs
    housekeeping   expired operations, and what a killed commit left, are deleted
"""

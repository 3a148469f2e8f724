"""Moving a branch to a commit.

::

    transaction      the one way of commit, merge, revert and cherry-pick
    mover            the protocol of the move, and its form for this machine alone
    clean_branches   branches without uncommitted changes
    apply_change     one commit's change on another branch: cherry-pick and revert
    rebuilt_trees    trees of lakeFS that were written again
    housekeeping     expired operations are deleted
"""

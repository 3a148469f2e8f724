"""Exchange refs and commits with the bucket: the parts of push, fetch and pull.

::

    publish       sends new commits to the bucket, then moves the ref there; errors of refused moves
    references    checks that the bucket has the objects that new commits need, or uploads them
    fetch         reads the refs in the bucket, finds which have changed, and reads their commits
    set_policy    sets the rules about refs for all clones, and undoes such a change
    automatic     fetches before a command, moves branches in the bucket first, pushes afterwards;
                  decides which local moves are sent to the bucket

This package may import `stored_objects` and the layers below.
"""

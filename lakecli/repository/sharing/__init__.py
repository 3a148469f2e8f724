"""Exchange refs and commits with the bucket: the parts of push, fetch and pull.

::

    publish       sends new commits to the bucket and then moves the ref there; its refusals
    references    checks that the bucket has the objects that new commits need, or uploads them
    fetch         reads the refs in the bucket, finds which have changed, and reads their commits
    set_policy    sets the rules about refs for everybody, and undoes that
    automatic     fetches before a command, moves branches in the bucket first, pushes afterwards:
                  which local moves are still to be sent to the bucket, and which may be sent

May import `stored_objects` and what is below.
"""

"""The operation log, and taking operations back.

::

    log             reads it
    undo            takes an operation back, by apply
    apply           refs exactly, staging by its images, in one transaction; automatic steps since,
                    and claims of what comes into use again
    pushed          what the bucket has of it
    own_moves       which moves this clone sent, and where they go back to
    back_in_bucket  moves refs back there too, and puts back here what it refused
    complete        completes what was interrupted, its answer included
"""

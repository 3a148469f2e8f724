"""What this clone has done, has begun, and is still to do in the bucket: rows of the local store.

::

    bucket_state     when it last read the bucket's refs and moved one; that the bucket went back in
                     time
    tracking         where the refs in the bucket stood when it last read them
    unsent_moves     notes of refs that are still to move in the bucket; which may be deleted there
    operation_log    appending to the operation log; the staging tokens that operations own, and
                     what a move of a branch makes of them; a look at this machine's clock
    hooks            callables of this machine, called before and after a branch moves
    workspaces       staging areas that belong to one job, and to no branch until it commits them
    intents          a ref moves in the bucket: recorded before, made, its outcome recorded; those
                     without one: finishing them, landing commits, and who would take them back

May import `contract` and what is below.
"""

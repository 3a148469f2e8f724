"""Local records: what this clone has done, has begun, and still has to do in the bucket.

::

    bucket_state     when this clone last read the bucket's refs and last moved a ref there; whether
                     the bucket was rolled back
    tracking         the commits of the bucket's refs when this clone last read the refs
    unsent_moves     notes of refs that still have to move in the bucket; which refs may be deleted
                     there
    operation_log    appending to the operation log; the staging tokens that operations own, and
                     how a move of a branch changes them; a check of this machine's clock
    hooks            functions of this machine, called before and after a branch moves
    workspaces       staging areas that belong to one job, and to no branch until it commits them
    intents          moves of refs in the bucket: recording them, making them, recording their
                     outcome; finishing interrupted moves; landing commits; protecting moves under
                     way from local changes

This package may import `policy` and the layers below.
"""

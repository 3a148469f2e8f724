"""The operation log, and taking operations back.

::

    log             reads it
    undo            undo, redo and restore, and completing one that was interrupted
    take_back       refs exactly, staging by its images, in one transaction; automatic steps since,
                    and claims of what comes into use again
    pushed          what the bucket has of it: which moves this clone made there, where they go back
    back_in_bucket  moves refs back there too, and puts back here what it refused
    unanswered      the answer that a killed command still owes
"""

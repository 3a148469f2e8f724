"""The operation log, and taking operations back.

::

    log          reads it
    undo         undo, redo and restore, and completing one that was interrupted
    take_back    refs exactly, staging by its images, in one transaction; automatic steps since,
                 and claims of what comes into use again
    pushed_refs  what the bucket has of it: which moves this clone made there, where they go back
    remote_undo  moves refs back in the bucket, too, and puts back here what it refused
    interrupted  the answers that killed commands still owe

May import `sharing`, `handoff`, `lakefs` and what is below.
"""

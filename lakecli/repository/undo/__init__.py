"""The operation log, and taking operations back.

::

    log          reading the operation log
    undo         undo, redo and restore, and completing one that was interrupted
    take_back    refs exactly, staging by its images, in one transaction; automatic steps since,
                 and claims of objects that come into use again
    pushed_refs  which moves of an operation this clone made in the bucket, and where refs move back
                 to there
    remote_undo  moves refs back in the bucket, too; restores them here if the bucket refuses
    interrupted  the answers that killed commands still owe

May import `sharing`, `handoff`, `lakefs` and what is below.
"""

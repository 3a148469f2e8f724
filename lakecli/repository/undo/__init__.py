"""Read the operation log, and undo, redo and restore operations.

::

    log          reading the operation log
    undo         undo, redo and restore, and completing such a command after an interrupt
    take_back    undoing in one transaction: refs and staged values; automatic steps since then,
                 and claims of objects that come into use again
    pushed_refs  which moves of an operation this clone made in the bucket, and to which
                 commits their refs move back
    remote_undo  moving refs back in the bucket, too; reverses the undo if the bucket refuses
    interrupted  reports the results of commands that were killed before they printed them

This package may import `sharing`, `handoff`, `lakefs` and the layers below.
"""

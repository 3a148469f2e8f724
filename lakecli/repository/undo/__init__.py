"""The operation log, and taking operations back.

::

    log             reads it
    undo            takes an operation back, by apply
    passed_over     automatic steps since, and what they had unstaged
    pushed, ours    what the bucket has of it, and whether this clone sent that
    stood           where they go back to there
    back_in_bucket  moves refs back there too
    complete        completes what was interrupted, its answer included
    put_back        puts back here what the bucket refused to delete or rename
    claims          what that brings into use again
"""

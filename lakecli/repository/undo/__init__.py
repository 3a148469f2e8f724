"""The operation log, and taking operations back.

::

    log      reads it
    undo     takes an operation back: by apply here, by pushed in the bucket
    claims   what that brings into use again
"""

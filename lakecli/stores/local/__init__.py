"""A directory of this machine.

::

    directory     the files of a local namespace: nothing outside the root, nothing half-written
    files         files and directories by descriptor: opening, describing, writing and syncing them
    store         A directory as a bucket
    writing       writing, listing and removing objects of a local namespace
    batch         creates many files with two syncs: first of the contents, then of the names
    staging_dirs  staging directories, and the temporary files that killed processes left
"""

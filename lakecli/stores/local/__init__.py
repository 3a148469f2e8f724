"""A directory on this machine as an object store.

::

    store         a directory as a bucket: reading, writing, listing and removing objects
    batch         creates many files with two syncs; removes temporary files of killed processes
    directory     access to the files of a local namespace: only below the root, only whole files
    files         files and directories by descriptor: opening, describing, writing and syncing them

This package may import the modules of `lakecli.stores` and the layers below, but no other adapter.
"""

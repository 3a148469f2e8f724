"""A directory of this machine.

::

    store      the adapter; directory: its files
    batch      many files made durable by two syncs
    staging_dirs    staging directories of unfinished files; leftovers: those of killed processes
"""

"""A directory of this machine.

::

    store         the adapter; listing: keys in order; writing: one object; removing: objects
    directory     the root and what lies below it; files: files by descriptor
    batch         many files made durable by two syncs; staging_dirs: its unfinished files
    leftovers     temporary files of killed processes
"""

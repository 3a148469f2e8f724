"""Commits, and changes of refs, as this clone records them.

::

    commits      commit IDs, and the texts that lakecli writes itself
    ref_changes  how the log records what became of a ref, and what the bucket is to get
"""

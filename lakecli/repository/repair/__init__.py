"""Repair what ``fsck`` finds, from intact copies.

::

    run      check, repair, and check again
    objects  mending data objects, ranges and metaranges from intact copies
    history  repair commits and refs
    report   what fsck reports, what was repaired, and what cannot be

Only damaged copies in the cache, and damaged packs whose commits are elsewhere, are deleted.
Objects are named by their content, so overwriting wrong bytes with the right ones is always safe.
"""

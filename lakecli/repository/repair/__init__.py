"""Repair what ``fsck`` finds, from intact copies.

::

    run        the verb: checks, repairs, and checks again until nothing more can be repaired
    findings   what fsck reports
    objects    data, ranges and metaranges
    sources    where intact copies are
    history    commits, packs and refs
    report     what was repaired, and what stays lost, with the affected refs and paths

Only damaged copies in the cache, and damaged packs whose commits are elsewhere, are deleted.
Objects are named by their content, so overwriting wrong bytes with the right ones is always safe.
"""
